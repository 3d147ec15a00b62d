//! Callers that are denied when the region does not answer, before a store that is slow: in virtual
//! time, on one thread.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    Clock, Consistency, Cost, Denial, Limit, Limiter, MemoryStore, Now, Outage, Part,
    RegionalStore, Request, Subject, Tuning, Window,
};
use tidegate_convergence::{BoardCall, Boarding, Calling, ShardCall};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// Longer than half of the 20 ms that a caller waits.
const LATENCY: Duration = Duration::from_millis(12);

/// A store in memory of which the answers take their time.
#[derive(Debug)]
struct Slow(MemoryStore);

impl RegionalStore for Slow {
    fn shards(&self) -> u16 {
        self.0.shards()
    }

    fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a> {
        Box::pin(async {
            let reply = self.0.call(call).await;
            sleep_until(Instant::now() + LATENCY).await;
            reply
        })
    }

    fn board<'a>(&'a self, call: &'a BoardCall) -> Boarding<'a> {
        self.0.board(call)
    }
}

/// The time of the runtime.
struct Virtual(Instant);

impl Clock for Virtual {
    fn now(&self) -> Now {
        let ms = u64::try_from(self.0.elapsed().as_millis()).unwrap();
        Now::new(1_700_000_040_000 + ms, 10_000 + ms)
    }
}

fn denying() -> Request<'static> {
    let part = Part::new("a").unwrap();
    let subject = Subject::new(part, part, part, Window::from_millis(600_000).unwrap());
    let request = Request::new(subject, Limit::new(60), Cost::ONE);
    request.with_consistency(Consistency::Bounded).with_outage(Outage::Deny)
}

/// Who stands in line for the second answer would not hear it in time.
#[tokio::test(start_paused = true)]
async fn a_store_that_is_slow_charges_nobody_that_it_denies() {
    let store = Arc::new(Slow(MemoryStore::new(1, || 0)));
    let regional: Arc<dyn RegionalStore> = Arc::clone(&store) as _;
    let builder = Limiter::builder().clock(Virtual(Instant::now()));
    let limiter = Arc::new(builder.region_tuned(regional, Tuning::default()).build().unwrap());
    let mut callers = JoinSet::new();
    for caller in 0..4 {
        let limiter = Arc::clone(&limiter);
        callers.spawn(async move {
            let (mut admitted, mut denied) = (0, 0);
            for turn in 0..12 {
                // They come in every order, between at once and 17 ms after one another.
                let rest = Duration::from_millis(60 + (caller * turn * 5) % 18);
                sleep_until(Instant::now() + rest).await;
                let answer = limiter.check(&denying()).await;
                let outage = answer.denial() == Some(Denial::Outage);
                assert!(answer.admitted() != outage, "{answer:?}");
                (admitted, denied) = (admitted + u64::from(!outage), denied + u64::from(outage));
            }
            (admitted, denied)
        });
    }
    let (mut admitted, mut denied) = (0, 0);
    while let Some(counted) = callers.join_next().await {
        let (some, others) = counted.unwrap();
        (admitted, denied) = (admitted + some, denied + others);
    }
    assert!(admitted > 0 && denied > 0, "{admitted} admitted, {denied} denied");
    assert_eq!(limiter.drain(Duration::from_secs(20)).await.unreplayed_cost, 0);
    let sum: u64 = store.0.with(|region| {
        let names: Vec<_> = region.names().collect();
        names.into_iter().map(|name| region.sum(name, 0)).sum()
    });
    assert_eq!(sum, admitted, "{denied} were denied");
}
