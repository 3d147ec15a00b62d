//! Limits that hold in a burst, on a real runtime with several threads and a store in memory that
//! can be broken.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use tidegate::{
    Answer, Batch, Consistency, Cost, Denial, Limit, Limiter, ManualClock, MemoryStore, Part,
    RegionalStore, Request, StoreError, Subject, Tuning, Window,
};
use tidegate_convergence::{BoardCall, Boarding, Calling, ShardCall};
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, interval};

/// Ten times the bound of anything that is waited for here.
const PATIENCE: Duration = Duration::from_secs(20);

/// How a store behaves.
const WELL: u8 = 0;
/// It hears nothing.
const DEAF: u8 = 1;
/// It does what it is told, and says nothing.
const MUTE: u8 = 2;

/// A store in memory that takes its time, and can be broken.
#[derive(Debug)]
struct Store {
    memory: MemoryStore,
    health: AtomicU8,
}

impl Store {
    fn new(shards: u16) -> Arc<Self> {
        Arc::new(Self { memory: MemoryStore::new(shards, || 0), health: AtomicU8::new(WELL) })
    }

    fn be(&self, health: u8) {
        self.health.store(health, Ordering::SeqCst);
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
        self.memory.shards()
    }

    fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a> {
        Box::pin(async {
            for _ in 0..8 {
                yield_now().await;
            }
            let health = self.health.load(Ordering::SeqCst);
            if health == DEAF {
                return pending::<Result<_, StoreError>>().await;
            }
            let reply = self.memory.call(call).await;
            if health == MUTE {
                return pending().await;
            }
            for _ in 0..8 {
                yield_now().await;
            }
            reply
        })
    }

    fn board<'a>(&'a self, call: &'a BoardCall) -> Boarding<'a> {
        self.memory.board(call)
    }
}

fn limiter(store: &Arc<Store>) -> Arc<Limiter> {
    limiter_tuned(store, Tuning::default())
}

/// One that waits as long as a busy machine takes: what it admits was granted.
fn patient(store: &Arc<Store>) -> Arc<Limiter> {
    limiter_tuned(store, Tuning { deadline_ms: 10_000, ..Tuning::default() })
}

fn limiter_tuned(store: &Arc<Store>, tuning: Tuning) -> Arc<Limiter> {
    let store: Arc<dyn RegionalStore> = Arc::clone(store) as _;
    Arc::new(Limiter::builder().region_tuned(store, tuning).build().unwrap())
}

fn bounded(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    let part = |text| Part::new(text).unwrap();
    // Long, so that no test meets a boundary more than once in a month.
    let window = Window::from_millis(31 * 24 * 3_600 * 1_000).unwrap();
    let subject = Subject::new(part("w"), part("n"), part(identifier), window);
    let request = Request::new(subject, Limit::new(limit), Cost::new(cost).unwrap());
    request.with_consistency(Consistency::Bounded)
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let (start, mut looks) = (Instant::now(), interval(Duration::from_millis(5)));
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        looks.tick().await;
    }
}

/// So many requests at once at every limiter.
async fn burst(fleet: &[Arc<Limiter>], limit: u64, each: u64) -> Vec<Answer> {
    let mut callers = JoinSet::new();
    for limiter in fleet {
        for _ in 0..each {
            let limiter = Arc::clone(limiter);
            callers.spawn(async move { limiter.check(&bounded("i", limit, 1)).await });
        }
    }
    callers.join_all().await
}

fn admitted(answers: &[Answer]) -> u64 {
    answers.iter().filter(|answer| answer.admitted()).count() as u64
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_burst_at_all_processes_holds_the_limit() {
    for (limit, each) in [(10, 40), (100, 200), (1_000, 1_000)] {
        let store = Store::new(1);
        let fleet: Vec<_> = (0..4).map(|_| patient(&store)).collect();
        let answers = burst(&fleet, limit, each).await;
        let (admitted, share) = (admitted(&answers), limit / 8);
        println!("{admitted} of {limit}");
        assert!((limit..=limit + share).contains(&admitted), "{admitted}");
        assert!(!answers.iter().any(Answer::degraded));
        assert!(answers.iter().all(|answer| answer.consistency() == Consistency::Bounded));
        let reserved = |answer: &Answer| answer.denial() == Some(Denial::Reserved);
        assert!(!answers.iter().any(reserved), "who would only have to wait, waits");
        until("all of it is recorded", || store.sum() == admitted).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_answer_admits_and_counts_once() {
    for health in [DEAF, MUTE] {
        let store = Store::new(1);
        let a = limiter(&store);
        assert!(a.check(&bounded("i", 20, 1)).await.admitted());
        store.be(health);
        let start = Instant::now();
        let answers = burst(std::slice::from_ref(&a), 20, 10).await;
        assert!(start.elapsed() < PATIENCE / 10, "nobody waits for long");
        assert_eq!(admitted(&answers), 10);
        let fell_back =
            |answer: &Answer| answer.degraded() == (answer.consistency() == Consistency::Fast);
        assert!(answers.iter().all(fell_back));
        assert!(answers.iter().any(Answer::degraded));
        store.be(WELL);
        until("all of it is recorded", || store.sum() == 11).await;
        let counts = a.region_counts().unwrap();
        assert_eq!((counts.identity_clashes, counts.losses), (0, 0));
        assert_eq!(a.drain(PATIENCE).await.unreplayed_cost, 0);
        assert_eq!(store.sum(), 11);
    }
}

/// A caller that goes away is charged once or not at all, and leaves nothing behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn callers_that_leave_leave_nothing_behind() {
    let store = Store::new(1);
    let a = limiter(&store);
    for round in 0..200_u32 {
        let limiter = Arc::clone(&a);
        let caller = tokio::spawn(async move { limiter.check(&bounded("i", 7, 1)).await });
        for _ in 0..round % 24 {
            yield_now().await;
        }
        caller.abort();
        let _ = caller.await;
    }
    let left = a.drain(PATIENCE).await;
    assert_eq!((left.unreplayed_cost, left.subjects), (0, 0));
    assert!(store.sum() <= 7);
    let subject = *bounded("i", 7, 1).subject();
    let seen = a.inspect(&subject).here;
    assert_eq!(seen.current.claimed, seen.current.mine, "nothing waits any more");
    assert_eq!(seen.current.mine, store.sum());
}

/// Batches over the same two limits, in both orders, at several processes at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn batches_in_a_burst_stay_all_or_nothing() {
    let store = Store::new(1);
    let fleet: Vec<_> = (0..3).map(|_| patient(&store)).collect();
    let mut callers = JoinSet::new();
    for at in 0..120 {
        let limiter = Arc::clone(fleet.get(at % 3).unwrap());
        callers.spawn(async move {
            let (small, large) = (bounded("small", 20, 1), bounded("large", 30, 1));
            let both = if at % 2 == 0 { [small, large] } else { [large, small] };
            limiter.check_all(&Batch::new(&both).unwrap()).await
        });
    }
    let answers = callers.join_all().await;
    let admitted = answers.iter().filter(|answer| answer.admitted()).count() as u64;
    assert_eq!(admitted, 20);
    let mut items = answers.iter().flat_map(|answer| answer.items());
    assert!(items.all(|item| !item.degraded()));
    until("both are recorded", || store.sum() == 2 * admitted).await;
}

/// Shards that cannot grant together: the batch is decided on what is read, and says so.
#[tokio::test]
async fn a_batch_over_several_shards_falls_back() {
    let store = Store::new(64);
    let a = limiter(&store);
    let names: Vec<String> = (0..4).map(|n| format!("i{n}")).collect();
    let items: Vec<_> = names.iter().map(|name| bounded(name, 10, 2)).collect();
    let answer = a.check_all(&Batch::new(&items).unwrap()).await;
    assert!(answer.admitted());
    for item in answer.items() {
        assert_eq!((item.remaining(), item.consistency()), (8, Consistency::Fast));
        assert!(item.degraded());
    }
    assert_eq!(a.region_counts().unwrap().asks_apart, 1);
}

/// INV-7: the window ends while a call waits for the region. Its cost is in the one that ended, and
/// so is its answer.
#[tokio::test]
async fn a_call_that_waits_over_the_end_of_its_window_is_answered_by_it() {
    let store = Store::new(1);
    let first = bounded("i", 10, 2);
    let window_ms = first.subject().window().as_millis();
    let clock = ManualClock::at_unix_ms(3 * window_ms - 10);
    let region: Arc<dyn RegionalStore> = Arc::clone(&store) as _;
    let builder = Limiter::builder().clock(clock.clone());
    let limiter = builder.region_tuned(region, Tuning::default()).build().unwrap();
    let met = limiter.check(&bounded("j", 10, 1)).await;
    assert!(met.admitted());
    store.be(DEAF);
    let next = async {
        clock.advance(Duration::from_millis(20));
        limiter.check_now(&bounded("i", 10, 3))
    };
    // In this order: the first has claimed, and waits, before the second comes.
    let (items, waits) = ([first], limiter.check(&first));
    let batch = Batch::new(&items).unwrap();
    let (answer, answers, next) = tokio::join!(biased; waits, limiter.check_all(&batch), next);
    assert_eq!((next.admitted(), next.reset_unix_ms()), (true, 4 * window_ms));
    for answer in [&answer, answers.items().first().unwrap()] {
        assert!(answer.admitted() && answer.degraded(), "{answer:?}");
        assert_eq!((answer.reset_unix_ms(), answer.remaining()), (3 * window_ms, 6));
    }
}
