//! Ours: limiters in front of a Redis, and requests for them.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use tidegate::{
    Consistency, Cost, Limit, Limiter, Part, RegionCounts, Request, RequestError, Subject, Window,
    redis,
};
use tidegate_lab::RedisServer;

use super::time::{Shifted, now};
use crate::Failure;
use crate::decide::keys::{Key, Script};
use crate::machine;

/// Callers that ask for every key once before the clock starts. Fewer than the store lets wait at
/// the same time, so that none is refused.
const FILLERS: usize = 64;
/// How long the remaining records may take when a case is over.
const PATIENCE: Duration = Duration::from_secs(3);

/// What all requests of a case have in common.
#[derive(Clone, Copy)]
pub(crate) struct Terms {
    /// Most cost in a window.
    pub(crate) limit: u64,
    /// The window.
    pub(crate) window_ms: u64,
}

impl Terms {
    /// A request of cost 1.
    #[inline]
    pub(crate) fn request<'a>(&self, key: Key<'a>) -> Result<Request<'a>, RequestError> {
        let subject = Subject::new(
            Part::new(key.workspace)?,
            Part::new(key.namespace)?,
            Part::new(key.identifier)?,
            Window::from_millis(self.window_ms)?,
        );
        Ok(Request::new(subject, Limit::new(self.limit), Cost::ONE))
    }
}

/// A limiter with its own table, identity and connection: to Redis, a process.
pub(crate) fn limiter(server: &RedisServer, clock: Shifted) -> Result<Arc<Limiter>, Failure> {
    let store = redis::store(&server.url())?;
    Ok(Arc::new(Limiter::builder().clock(clock).region(store).build()?))
}

/// The subjects that were read, for whatever reason.
pub(crate) fn reads(counts: &RegionCounts) -> u64 {
    counts.refreshed_cold
        + counts.refreshed_stale
        + counts.refreshed_strict
        + counts.refreshed_significant
}

/// What a limiter has said to its region.
pub(crate) fn counts(limiter: &Limiter) -> RegionCounts {
    limiter.region_counts().unwrap_or_default()
}

/// Ends a limiter: what is left to tell is told, so that the server is not stopped under it.
pub(crate) async fn end(limiter: Arc<Limiter>) {
    let left = limiter.drain(PATIENCE).await;
    if left.unreplayed_cost > 0 {
        eprintln!("{} of cost was not recorded within {PATIENCE:?}", left.unreplayed_cost);
    }
}

/// A limiter, the keys it is asked for, and on which terms.
#[derive(Clone)]
pub(crate) struct Desk {
    /// Who is asked.
    pub(crate) limiter: Arc<Limiter>,
    /// The keys in the order of access, over and over.
    pub(crate) script: Arc<Script>,
    /// The limit.
    pub(crate) terms: Terms,
    /// And what an admission is worth.
    pub(crate) consistency: Consistency,
}

impl Desk {
    /// Asks once; whether it was admitted.
    pub(crate) async fn ask(self, at: usize) -> bool {
        let key = self.script.key(at % self.script.len());
        let Some(Ok(request)) = key.map(|key| self.terms.request(key)) else { return false };
        self.limiter.check(&request.with_consistency(self.consistency)).await.admitted()
    }

    /// Asks for every access of the script once, as fast as the region allows.
    pub(crate) async fn fill(&self) -> Result<(), Failure> {
        let fillers: Vec<_> = (0..FILLERS)
            .map(|first| {
                let desk = self.clone();
                tokio::spawn(async move {
                    for at in (first..desk.script.len()).step_by(FILLERS) {
                        desk.clone().ask(at).await;
                    }
                })
            })
            .collect();
        for filler in fillers {
            filler.await?;
        }
        Ok(())
    }
}

/// What was offered, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    /// Requests made.
    pub(crate) asked: u64,
    /// Requests admitted.
    pub(crate) admitted: u64,
    /// Requests that did not get their answer at once.
    pub(crate) waited: u64,
    /// How long it took.
    pub(crate) took: Duration,
    /// The part of that time in which the thread that asks could have run, but others had its
    /// core.
    pub(crate) starved: f64,
    /// What this process used meanwhile, in microseconds: asking, deciding and the region.
    pub(crate) cpu_us: f64,
}

impl Offered {
    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        self.asked as f64 / self.took.as_secs_f64()
    }
}

/// An open loop: requests come at this rate by the wall clock, whatever becomes of the others.
/// Those of a millisecond come together.
pub(crate) async fn offer(desk: &Desk, per_second: u64, duration: Duration) -> Offered {
    let (mut asked, mut admitted, mut waited) = (0_u64, 0_u64, 0_u64);
    let late = Arc::new(AtomicU64::new(0));
    let mut ticks = tokio::time::interval(Duration::from_millis(1));
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let (waited_ns, cpu_us) = (machine::waited_ns(), machine::own_cpu_us());
    let start = now();
    loop {
        let elapsed = start.elapsed().min(duration);
        let due = u64::try_from(elapsed.as_micros() * u128::from(per_second) / 1_000_000);
        // What is overdue is not all asked at once, so that a stall does not become a burst that
        // no network would let through.
        let most = asked + (per_second / 100).max(1);
        while asked < due.unwrap_or(0).min(most) {
            let at = usize::try_from(asked).unwrap_or(0);
            let mut asking = Box::pin(desk.clone().ask(at));
            let polled = std::future::poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx))).await;
            match polled {
                Poll::Ready(answer) => admitted += u64::from(answer),
                Poll::Pending => {
                    waited += 1;
                    let late = Arc::clone(&late);
                    tokio::spawn(async move {
                        late.fetch_add(u64::from(asking.await), Ordering::Relaxed);
                    });
                }
            }
            asked += 1;
        }
        if elapsed >= duration {
            break;
        }
        ticks.tick().await;
    }
    let took = start.elapsed();
    let waited_ns = machine::waited_ns().saturating_sub(waited_ns);
    let starved = waited_ns as f64 / took.as_nanos() as f64;
    let cpu_us = machine::own_cpu_us() - cpu_us;
    // The last ones that wait have their answer within the deadline.
    super::time::sleep(Duration::from_millis(50)).await;
    admitted += late.load(Ordering::Relaxed);
    Offered { asked, admitted, waited, took, starved, cpu_us }
}
