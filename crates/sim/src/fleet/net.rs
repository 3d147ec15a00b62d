//! The network of a fleet: what is on its way, and what stores were asked to do.

use tidegate_convergence::{CallId, GlobeId, ShardCall, ShardReply, Waiter};
use tidegate_limiter::Now;

use super::abroad::{Errand, Kind, Returned};
use super::caller::{Caller, Given, Settled};
use super::{FleetOptions, Trouble};
use crate::chance::Chance;
use crate::queue::Queue;

/// The monotonic clocks of all processes when a fleet begins. Not 0, which stands for never.
const MONOTONIC_BASE_MS: u64 = 1_000_000;

/// What stores had to do. [`Fleet`](super::Fleet) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FleetWork {
    /// Calls to the stores of the regions.
    pub region_calls: u64,
    /// Cells that were recorded, read or asked for in them.
    pub region_operations: u64,
    /// Rows that were written to the global store.
    pub rows_written: u64,
    /// Rows that were read from it.
    pub rows_read: u64,
    /// Statements it was sent.
    pub statements: u64,
}

impl FleetWork {
    pub(super) fn count_call(&mut self, call: &ShardCall) {
        let asked = call.ask.as_ref().map_or(0, |ask| ask.cells.len());
        self.region_calls += 1;
        self.region_operations += (call.records.len() + asked) as u64;
    }
}

/// A process: where it runs, and which one it is of those that ran there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Whose {
    pub(super) node: usize,
    pub(super) home: usize,
    pub(super) number: u64,
}

/// A call on its way, and whether a slow store has kept it already.
pub(super) type Call = (CallId, Box<ShardCall>, bool);

/// What is on its way, or due.
#[derive(Debug)]
pub(super) enum Event {
    ToStore { whose: Whose, id: CallId, call: Box<ShardCall>, delayed: bool },
    ToNode { whose: Whose, id: CallId, reply: Box<ShardReply> },
    Timeout { whose: Whose, id: CallId },
    Tick { whose: Whose },
    Deadline { whose: Whose, waiter: Waiter },
    Errand { whose: Whose, id: GlobeId, errand: Box<Errand> },
    Return { whose: Whose, id: GlobeId, returned: Box<Returned> },
    GlobeTimeout { whose: Whose, id: GlobeId, kind: Kind },
    Sweep { whose: Whose },
    Kill { node: usize },
    Start { node: usize },
}

/// Everything between the processes and their stores.
pub(super) struct Net {
    pub(super) queue: Queue<Event>,
    pub(super) now_us: u64,
    pub(super) settled: Vec<Settled>,
    pub(super) work: FleetWork,
    pub(super) troubles: Vec<Trouble>,
    /// The wall clock when all of it began.
    begun_unix_ms: u64,
    chance: Chance,
    store_latency_us: (u64, u64),
    global_latency_us: (u64, u64),
    /// When the last message of each connection arrives, there and here.
    last_us: Vec<[u64; 2]>,
}

impl Net {
    pub(super) fn new(options: &FleetOptions, warm_up_us: u64) -> Self {
        let troubles = options.troubles.iter().map(|trouble| trouble.after_us(warm_up_us));
        Self {
            queue: Queue::new(),
            now_us: 0,
            settled: Vec::new(),
            work: FleetWork::default(),
            troubles: troubles.collect(),
            begun_unix_ms: options.start_unix_ms.saturating_sub(warm_up_us / 1_000),
            chance: Chance::new(options.seed, "network"),
            store_latency_us: options.store_latency_us,
            global_latency_us: options.global_latency_us,
            last_us: vec![[0; 2]; options.regions * options.nodes],
        }
    }

    /// The clocks of every process.
    pub(super) const fn now(&self) -> Now {
        let ms = self.now_us / 1_000;
        Now::new(self.begun_unix_ms.saturating_add(ms), MONOTONIC_BASE_MS + ms)
    }

    /// The moment at which a monotonic clock shows this.
    pub(super) const fn moment_us(&self, monotonic_ms: u64) -> u64 {
        monotonic_ms.saturating_sub(MONOTONIC_BASE_MS).saturating_mul(1_000)
    }

    /// When a message between a process and the store of its region arrives: there (0) or back
    /// (1). A connection keeps the order. `None` if the store is away.
    pub(super) fn store_arrival(&mut self, whose: Whose, way: usize) -> Option<u64> {
        if self.is_store_away(whose.home) {
            return None;
        }
        let (low, high) = self.store_latency_us;
        let at_us = self.now_us.saturating_add(self.chance.between(low, high));
        let last_us = self.last_us.get_mut(whose.node)?.get_mut(way)?;
        *last_us = at_us.max(last_us.saturating_add(1));
        Some(*last_us)
    }

    /// The same between a region and the global store, where every call is on its own.
    pub(super) fn global_arrival(&mut self, home: usize) -> Option<u64> {
        let (low, high) = self.global_latency_us;
        let at_us = self.now_us.saturating_add(self.chance.between(low, high));
        (!self.is_global_away(home)).then_some(at_us)
    }

    /// When a store that is slow gets to a call.
    pub(super) fn slowed(&mut self, home: usize) -> Option<u64> {
        let most_us = self.slow_us(home)?;
        Some(self.now_us.saturating_add(self.chance.between(1, most_us)))
    }

    /// A caller has its answer.
    pub(super) fn settle(&mut self, caller: &Caller, given: Given) {
        let waited_us = self.now_us.saturating_sub(caller.came_us);
        self.settled.push(Settled::of(caller.number, given, waited_us));
    }

    /// No process lives: a caller is not kept from anything by a limiter that is gone.
    pub(super) fn settle_alone(&mut self, number: u64) {
        let given = Given { admitted: true, degraded: true, ..Given::default() };
        self.settled.push(Settled::of(number, given, 0));
    }
}
