//! A world of regions in one process.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidegate::{
    Builder, Clock, Cost, GlobalError, GlobalStore, GlobeCounts, GlobeOptions, GlobeTuning, Limit,
    Limiter, MemoryGlobalStore, MemoryStore, Now, Part, RegionName, RegionalStore, Request,
    StoreError, Subject, Tuning, Window,
};
use tidegate_convergence::{
    BoardCall, Boarding, Calling, Counter, GlobalCall, GlobalCalling, GlobalReply, RegionNumber,
    ShardCall, unpack,
};
use tokio::time::{Instant, timeout};

/// A day: no test meets its end unless it wants to.
pub(crate) const DAY_MS: u64 = 24 * 3_600 * 1_000;
/// Everything that is due is published and imported within this: at most 2 s until it is recorded,
/// 5 s until it is published, and 1.2 s until it is imported.
pub(crate) const CONVERGED_MS: u64 = 10_000;
/// The beginning of a window of any length up to a day.
const START_MS: u64 = 20_000 * DAY_MS;

/// The time of the runtime, which passes only when all wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paused(Instant);

impl Paused {
    pub(crate) fn new() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn ms(self) -> u64 {
        u64::try_from(self.0.elapsed().as_millis()).unwrap()
    }
}

impl Clock for Paused {
    fn now(&self) -> Now {
        Now::new(START_MS + self.ms(), self.ms())
    }
}

/// Lets time pass, and everything happen that is due in it.
pub(crate) async fn pass(ms: u64) {
    let _ = timeout(Duration::from_millis(ms), pending::<()>()).await;
}

/// What all regions share; it can stop to answer, or panic.
#[derive(Debug)]
pub(crate) struct Globe {
    pub(crate) memory: MemoryGlobalStore,
    pub(crate) silent: AtomicBool,
    pub(crate) panics: AtomicBool,
    /// What the regions are called.
    numbers: Mutex<BTreeMap<RegionName, u32>>,
    clock: Paused,
}

impl Globe {
    pub(crate) fn new() -> Arc<Self> {
        let clock = Paused::new();
        let memory = MemoryGlobalStore::new(move || clock.ms());
        let (silent, panics) = (AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { memory, silent, panics, numbers: Mutex::default(), clock })
    }

    /// The time of this world.
    pub(crate) const fn clock(&self) -> Paused {
        self.clock
    }

    /// A regional store.
    pub(crate) fn store(&self) -> Arc<Store> {
        let clock = self.clock;
        let memory = MemoryStore::new(1, move || clock.ms());
        Arc::new(Store { memory, silent: AtomicBool::new(false) })
    }

    /// A process of a region, of its own or in front of a store.
    pub(crate) fn process(self: &Arc<Self>, name: &str, store: Option<&Arc<Store>>) -> Limiter {
        let builder = self.builder(name);
        match store {
            None => builder.build().unwrap(),
            Some(store) => {
                let store: Arc<dyn RegionalStore> = Arc::clone(store) as _;
                builder.region_tuned(store, Tuning::default()).build().unwrap()
            }
        }
    }

    pub(crate) fn builder(self: &Arc<Self>, name: &str) -> Builder {
        let name = RegionName::new(name).unwrap();
        let options = GlobeOptions { name, regions_max: 10, private: false };
        let store: Arc<dyn GlobalStore> = Arc::clone(self) as _;
        let builder = Limiter::builder().clock(self.clock).seed([7; 32]);
        builder.globe_tuned(options, store, GlobeTuning::default())
    }

    /// A process that knows of no other region.
    pub(crate) fn at_home(&self, store: &Arc<Store>) -> Limiter {
        let store: Arc<dyn RegionalStore> = Arc::clone(store) as _;
        let builder = Limiter::builder().clock(self.clock).seed([7; 32]);
        builder.region_tuned(store, Tuning::default()).build().unwrap()
    }

    /// A region with a process and a store of its own.
    pub(crate) fn region(self: &Arc<Self>, name: &str) -> Limiter {
        self.process(name, Some(&self.store()))
    }

    /// How many rows there are.
    pub(crate) fn rows(&self) -> usize {
        self.memory.with(|globe| globe.rows().len())
    }

    /// All that was published, by region.
    pub(crate) fn counters(&self) -> Vec<(u32, Counter)> {
        self.memory.with(|globe| {
            let rows = globe.rows().values();
            let each = |counter| move |region| (region, counter);
            rows.flat_map(|row| {
                unpack(&row.payload).unwrap().into_iter().map(move |c| each(c)(row.region.0))
            })
            .collect()
        })
    }

    /// The largest count of each cell that a region published, together.
    pub(crate) fn published(&self, region: &str) -> u64 {
        let name = RegionName::new(region).unwrap();
        let region = self.numbers.lock().unwrap().get(&name).copied().unwrap_or(0);
        let mut cells = BTreeMap::new();
        for (_, counter) in self.counters().into_iter().filter(|(of, _)| *of == region) {
            let count = cells.entry((counter.subject, counter.sequence)).or_insert(0);
            *count = counter.count.max(*count);
        }
        cells.values().sum()
    }
}

impl GlobalStore for Globe {
    fn call<'a>(&'a self, call: &'a GlobalCall) -> GlobalCalling<'a> {
        assert!(!self.panics.load(Ordering::SeqCst), "a mistake in a store");
        match self.silent.load(Ordering::SeqCst) {
            true => Box::pin(pending::<Result<_, GlobalError>>()),
            false => {
                let reply = self.memory.with(|globe| globe.call(call, self.clock.ms()));
                if let (
                    GlobalCall::Register { name, identity },
                    Ok(GlobalReply::Registered { .. }),
                ) = (call, &reply)
                {
                    self.numbers
                        .lock()
                        .unwrap()
                        .insert(name.clone(), RegionNumber::of(*identity).0);
                }
                Box::pin(std::future::ready(reply))
            }
        }
    }
}

/// A regional store; it can stop to answer.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) memory: MemoryStore,
    pub(crate) silent: AtomicBool,
}

impl RegionalStore for Store {
    fn shards(&self) -> u16 {
        1
    }

    fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a> {
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

pub(crate) fn request(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    request_in(DAY_MS, identifier, limit, cost)
}

pub(crate) fn request_in(window_ms: u64, identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    let part = |text| Part::new(text).unwrap();
    let window = Window::from_millis(window_ms).unwrap();
    let subject = Subject::new(part("w"), part("n"), part(identifier), window);
    Request::new(subject, Limit::new(limit), Cost::new(cost).unwrap())
}

/// Spends of the subject `i`, which there has to be room for.
pub(crate) async fn spend(limiter: &Limiter, limit: u64, cost: u64) {
    assert!(limiter.check(&request("i", limit, cost)).await.admitted());
}

/// What is left of the subject `i`, without spending.
pub(crate) async fn left(limiter: &Limiter, limit: u64) -> u64 {
    limiter.check(&request("i", limit, 0)).await.remaining()
}

pub(crate) fn counts(limiter: &Limiter) -> GlobeCounts {
    limiter.globe_counts().unwrap()
}
