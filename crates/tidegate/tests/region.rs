//! Limiters that share their limits, on a real runtime and a store in memory that can be broken.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::{
    Batch, Clock, Cost, Limit, Limiter, MemoryStore, Now, Part, RegionalStore, Request, Source,
    StoreError, Subject, SystemClock, Tuning, Window,
};
use tidegate_convergence::{BoardCall, Boarding, Calling, ShardCall};
use tokio::time::{Instant, interval};

/// Ten times the bound of anything that is waited for here.
const PATIENCE: Duration = Duration::from_secs(20);

/// A store in memory that can be away, or not answer.
#[derive(Debug)]
struct Store {
    memory: MemoryStore,
    silent: AtomicBool,
    /// Calls that carried something.
    calls: AtomicU64,
}

impl Store {
    fn new() -> Arc<Self> {
        let (silent, calls) = (AtomicBool::new(false), AtomicU64::new(0));
        Arc::new(Self { memory: MemoryStore::new(1, || 0), silent, calls })
    }

    fn silence(&self, silent: bool) {
        self.silent.store(silent, Ordering::SeqCst);
    }

    fn sum(&self) -> u64 {
        self.memory.with(|region| {
            let names: Vec<_> = region.names().collect();
            names.into_iter().map(|name| region.sum(name, 0)).sum()
        })
    }
}

impl RegionalStore for Store {
    fn shards(&self) -> u16 {
        1
    }

    fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a> {
        if !call.records.is_empty() {
            self.calls.fetch_add(1, Ordering::SeqCst);
        }
        match self.silent.load(Ordering::SeqCst) {
            true => Box::pin(pending::<Result<_, StoreError>>()),
            false => self.memory.call(call),
        }
    }

    fn board<'a>(&'a self, call: &'a BoardCall) -> Boarding<'a> {
        match self.silent.load(Ordering::SeqCst) {
            true => Box::pin(pending::<Result<_, StoreError>>()),
            false => self.memory.board(call),
        }
    }
}

fn limiter(store: &Arc<Store>) -> Limiter {
    let store: Arc<dyn RegionalStore> = Arc::clone(store) as _;
    Limiter::builder().region_tuned(store, Tuning::default()).build().unwrap()
}

fn request(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    let part = |text| Part::new(text).unwrap();
    // Long, so that no test meets a boundary more than once in a month.
    let window = Window::from_millis(31 * 24 * 3_600 * 1_000).unwrap();
    let subject = Subject::new(part("w"), part("n"), part(identifier), window);
    Request::new(subject, Limit::new(limit), Cost::new(cost).unwrap())
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let (start, mut looks) = (Instant::now(), interval(Duration::from_millis(5)));
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        looks.tick().await;
    }
}

#[tokio::test]
async fn two_limiters_share_a_limit() {
    let store = Store::new();
    let (a, b) = (limiter(&store), limiter(&store));
    let five = request("i", 10, 5);
    let answer = a.check(&five).await;
    assert_eq!((answer.remaining(), answer.source()), (5, Source::Region));
    until("a's cost is recorded", || store.sum() == 5).await;
    assert_eq!(b.check(&five).await.remaining(), 0);
    until("b's cost is recorded", || store.sum() == 10).await;
    assert!(!b.check(&request("i", 10, 1)).await.admitted());
}

#[tokio::test]
async fn callers_share_a_read() {
    let store = Store::new();
    let a = Arc::new(limiter(&store));
    let callers: Vec<_> = (0..32)
        .map(|_| {
            let a = Arc::clone(&a);
            tokio::spawn(async move { a.check(&request("i", 1_000, 1)).await.admitted() })
        })
        .collect();
    for caller in callers {
        assert!(caller.await.unwrap());
    }
    assert_eq!(a.region_counts().unwrap().refreshed_cold, 1);
}

/// nobody waits longer than the deadline, and the answer says what happened.
#[tokio::test]
async fn a_silent_store_delays_nobody_for_long() {
    let store = Store::new();
    let a = limiter(&store);
    store.silence(true);
    let start = Instant::now();
    let answer = a.check(&request("i", 10, 1)).await;
    assert!(answer.admitted() && answer.degraded());
    println!("answered after {:?}", start.elapsed());
    assert!(start.elapsed() < Duration::from_millis(10 * 25));
    let again = a.check(&request("i", 10, 1)).await;
    assert!(again.admitted() && again.degraded(), "and is not asked again at once");
    store.silence(false);
    until("what was admitted is recorded", || store.sum() == 2).await;
}

/// a caller that goes away cancels nothing that others wait for.
#[tokio::test]
async fn a_leader_that_leaves_cancels_nothing() {
    let store = Store::new();
    let a = limiter(&store);
    let one = request("i", 1_000, 1);
    {
        let mut leader = std::pin::pin!(a.check(&one));
        assert!(futures_poll(leader.as_mut()).await.is_none(), "it waits");
    }
    let answer = a.check(&one).await;
    assert_eq!((answer.source(), answer.degraded()), (Source::Region, false));
    let counts = a.region_counts().unwrap();
    assert_eq!(counts.refreshed_cold, 1, "one read for both");
    assert_eq!(answer.remaining(), 999, "the one that left spent nothing");
}

/// Polls once.
async fn futures_poll<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|context| match future.as_mut().poll(context) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn a_batch_is_asked_for_at_once() {
    let store = Store::new();
    let a = limiter(&store);
    let items = ["i", "j", "k"].map(|name| request(name, 10, 1));
    assert!(a.check_all(&Batch::new(&items).unwrap()).await.admitted());
    assert_eq!(store.calls.load(Ordering::SeqCst), 1);
    let items = ["i", "j"].map(|name| request(name, 1, 1));
    let denied = a.check_all(&Batch::new(&items).unwrap()).await;
    assert!(!denied.admitted());
    until("what was admitted is recorded", || store.sum() == 3).await;
}

#[tokio::test]
async fn draining_leaves_nothing_unless_the_store_is_away() {
    let store = Store::new();
    let a = limiter(&store);
    for n in 0..100 {
        a.check(&request(&n.to_string(), 1_000_000, 1)).await;
    }
    let drained = a.drain(PATIENCE).await;
    assert_eq!((drained.unreplayed_cost, store.sum()), (0, 100));
    store.silence(true);
    let b = limiter(&store);
    b.check(&request("j", 1_000_000, 7)).await;
    let drained = b.drain(Duration::from_millis(100)).await;
    assert_eq!((drained.unreplayed_cost, drained.subjects), (7, 1));
}

/// A store that lost everything is whole again, although nobody asks for anything.
#[tokio::test]
async fn a_flush_is_healed() {
    let store = Store::new();
    let a = limiter(&store);
    for n in 0..100 {
        a.check(&request(&n.to_string(), 10, 3)).await;
    }
    until("everything is recorded", || store.sum() == 300).await;
    let start = Instant::now();
    store.memory.with(|region| region.flush(tidegate_convergence::Shard(0)));
    until("everything is recorded again", || store.sum() == 300).await;
    println!("whole after {:?}", start.elapsed());
}

#[test]
fn a_region_needs_a_runtime() {
    let built = Limiter::builder().region(MemoryStore::new(1, || 0)).build();
    assert!(matches!(built, Err(tidegate::BuildError::Runtime)));
}

/// A loss that nobody has noticed yet is noticed before the end.
#[tokio::test]
async fn a_drain_after_a_flush_leaves_nothing() {
    let store = Store::new();
    let a = limiter(&store);
    a.check(&request("i", 10, 7)).await;
    until("it is recorded", || store.sum() == 7).await;
    store.memory.with(|region| region.flush(tidegate_convergence::Shard(0)));
    assert_eq!(a.drain(Duration::MAX).await.unreplayed_cost, 0);
    assert_eq!(store.sum(), 7);
}

/// A store whose first calls panic.
#[derive(Debug)]
struct Panics {
    store: Arc<Store>,
    left: AtomicU64,
}

impl RegionalStore for Panics {
    fn shards(&self) -> u16 {
        1
    }

    fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a> {
        self.panic();
        self.store.call(call)
    }

    fn board<'a>(&'a self, call: &'a BoardCall) -> Boarding<'a> {
        self.panic();
        self.store.board(call)
    }
}

impl Panics {
    /// Unless it did so often enough.
    fn panic(&self) {
        let left = self.left.load(Ordering::SeqCst);
        self.left.store(left.saturating_sub(1), Ordering::SeqCst);
        assert!(left == 0, "a mistake in a store");
    }
}

/// a store that panics is one that does not answer.
#[tokio::test]
async fn a_store_that_panics_is_asked_again() {
    let store = Store::new();
    let panics = Panics { store: Arc::clone(&store), left: AtomicU64::new(6) };
    let a = Limiter::builder().region(panics).build().unwrap();
    for n in 0..20 {
        assert!(a.check(&request(&n.to_string(), 10, 1)).await.admitted());
    }
    until("everything is recorded", || store.sum() == 20).await;
}

/// A limiter that outlives its runtime decides on what it knows, without waiting.
#[test]
fn a_runtime_that_is_gone_delays_nobody() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (first, store) = (runtime(), Store::new());
    let a = first.block_on(async { limiter(&store) });
    drop(first);
    runtime().block_on(async {
        let start = Instant::now();
        for _ in 0..50 {
            let answer = a.check(&request("i", 100, 1)).await;
            assert!(answer.admitted() && answer.degraded());
        }
        assert!(start.elapsed() < Duration::from_millis(500), "{:?}", start.elapsed());
    });
}

/// A clock that panics once when it is told to.
struct Slip(SystemClock, Arc<AtomicBool>);

impl Clock for Slip {
    fn now(&self) -> Now {
        assert!(!self.1.swap(false, Ordering::SeqCst), "a mistake, on purpose");
        self.0.now()
    }
}

/// a step of the conversation that panics is one step less.
#[tokio::test]
async fn a_panic_does_not_end_the_conversation() {
    let (store, slips) = (Store::new(), Arc::new(AtomicBool::new(false)));
    let regional: Arc<dyn RegionalStore> = Arc::clone(&store) as _;
    let clock = Slip(SystemClock::new(), Arc::clone(&slips));
    let builder = Limiter::builder().clock(clock).region_tuned(regional, Tuning::default());
    let a = builder.build().unwrap();
    assert!(a.check(&request("i", 10, 1)).await.admitted());
    until("the first is recorded", || store.sum() == 1).await;
    slips.store(true, Ordering::SeqCst);
    until("a step has panicked", || !slips.load(Ordering::SeqCst)).await;
    assert!(a.check_now(&request("i", 10, 2)).admitted());
    until("the second is recorded", || store.sum() == 3).await;
}
