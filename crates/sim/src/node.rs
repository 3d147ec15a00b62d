//! A node of the region, and the process that runs on it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_convergence::{CallId, Effect, Region, Shard, ShardCall, Tuning, Waiter};
use tidegate_limiter::{Claimed, Now, Options as TableOptions, Seed, Table, Ticket, Wake};

use crate::abroad::Abroad;
use crate::asking::Claims;
use crate::chance::mix;
use crate::doubt::Doubts;
use crate::ghost::{Ghost, Reading};
use crate::options::Options;

/// The wall clock when a run begins: the start of a minute.
pub(crate) const START_MS: u64 = 1_700_000_040_000;

/// Where processes run, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The number of its region.
    pub(crate) home: usize,
    /// In a box: it is lent to whatever happens to it.
    pub(crate) process: Option<Box<Process>>,
    /// How far its wall clock is from the truth.
    pub(crate) offset_ms: i64,
    pub(crate) cut_until_us: u64,
    pub(crate) paused_until_us: u64,
    /// Until when it last stood still.
    pub(crate) stood_until_us: u64,
    /// Until when it is cut off from the global store.
    pub(crate) severed_until_us: u64,
    /// Its wall clock has jumped.
    pub(crate) stepped: bool,
    /// When the last message of this connection arrives, there and here.
    pub(crate) arrivals_us: [u64; 2],
}

impl Node {
    /// A node of a region.
    pub(crate) fn of(home: usize) -> Self {
        Self { home, ..Self::default() }
    }

    /// It stands still until then.
    pub(crate) fn stand_still(&mut self, until_us: u64) {
        self.paused_until_us = self.paused_until_us.max(until_us);
        self.stood_until_us = self.stood_until_us.max(until_us);
    }
}

/// One of the requests of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) subject: usize,
    pub(crate) limit: u64,
    pub(crate) cost: u64,
    /// Of bounded consistency.
    pub(crate) bounded: bool,
    /// To be denied when the region cannot be asked.
    pub(crate) deny: bool,
}

impl Ask {
    /// One that takes nothing.
    pub(crate) const fn look(subject: usize) -> Self {
        Self { subject, limit: 1, cost: 0, bounded: false, deny: false }
    }
}

/// The cell in which a cost was claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Charged {
    /// Of its ghost.
    pub(crate) era: u64,
    pub(crate) turn: u64,
    /// As it was named then.
    pub(crate) sequence: u64,
}

/// A caller that waits for the region.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    /// How many were to come after it.
    pub(crate) number: u64,
    pub(crate) asks: Vec<Ask>,
    pub(crate) batch: bool,
    /// The clocks when it came.
    pub(crate) came: Reading,
    pub(crate) deadline_us: u64,
    /// Of whom it asked last.
    pub(crate) needs: Vec<Ticket>,
    /// It waited for the end of what others asked for.
    pub(crate) reserved: bool,
    /// The reads that were made for it.
    pub(crate) leads: Vec<CallId>,
    /// What a planted mistake has taken for it.
    pub(crate) taken: bool,
    /// It waits for what it has claimed.
    pub(crate) claims: bool,
    /// Where its costs are claimed, and which of them the region has to grant.
    pub(crate) claimed: Vec<Claimed>,
    /// The same, reckoned apart.
    pub(crate) cells: Vec<Charged>,
    /// Who it was when it first waited.
    pub(crate) since: Option<Waiter>,
    /// How often it was looked at.
    pub(crate) looks: u32,
    /// The region refused it, in this turn.
    pub(crate) refused: Option<u64>,
    /// It reads before it asks.
    pub(crate) reads_first: bool,
    /// It stood in line behind a batch, which goes when it is the first in all of its lines.
    pub(crate) behind_batch: bool,
}

impl Caller {
    pub(crate) fn new(asks: Vec<Ask>, batch: bool, came: Reading, deadline_us: u64) -> Self {
        let (needs, leads, taken) = (Vec::new(), Vec::new(), false);
        let (claims, since, looks, refused) = (false, None, 0, None);
        Self {
            number: 0,
            asks,
            batch,
            came,
            deadline_us,
            needs,
            reserved: false,
            leads,
            taken,
            claims,
            claimed: Vec::new(),
            cells: Vec::new(),
            since,
            looks,
            refused,
            reads_first: false,
            behind_batch: false,
        }
    }
}

impl Caller {
    /// Something that it asked for is denied if the region does not say that it is granted.
    pub(crate) fn is_denied_unheard(&self) -> bool {
        self.asks.iter().enumerate().any(|(at, ask)| ask.deny && self.has_asked(at))
    }

    /// Whether the region had to grant this one of its requests.
    pub(crate) fn has_asked(&self, at: usize) -> bool {
        !self.batch || self.claimed.get(at).is_some_and(|claimed| claimed.asks)
    }
}

/// A call under way.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) call: ShardCall,
    pub(crate) sent_ms: u64,
    /// A caller waits for it.
    pub(crate) awaited: bool,
    /// Of each record, and of each cell of an ask: the subject, and the era, turn and sequence of
    /// its ghost.
    pub(crate) about: Vec<(usize, u64, (u64, u64))>,
    /// What had been acknowledged of both cells of each.
    pub(crate) acked: Vec<(u64, u64)>,
    /// Who asks, for each unit of an ask.
    pub(crate) together: Vec<Vec<Waiter>>,
}

/// One life of a limiter.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) number: u32,
    pub(crate) node: usize,
    /// Which region it is of.
    pub(crate) home: usize,
    pub(crate) table: Table,
    pub(crate) region: Region,
    /// Its conversation with other regions, if there are any.
    pub(crate) abroad: Option<Abroad>,
    pub(crate) effects: Vec<Effect>,
    pub(crate) callers: BTreeMap<Waiter, Caller>,
    /// What is claimed and has to be granted.
    pub(crate) claims: BTreeMap<Waiter, Claims>,
    /// Subjects that are being asked for, each with its era.
    pub(crate) asked: BTreeSet<(usize, u64)>,
    /// How many processes each shard said that there are.
    pub(crate) present: BTreeMap<Shard, u32>,
    pub(crate) calls: BTreeMap<CallId, Call>,
    /// What became of its calls.
    pub(crate) doubts: Doubts,
    /// Subjects that are being read, each with its era.
    pub(crate) reads: BTreeSet<(usize, u64)>,
    pub(crate) ghosts: BTreeMap<usize, Ghost>,
    pub(crate) timer_us: Option<u64>,
    pub(crate) draining: bool,
    /// How many losses of the store it can have noticed.
    pub(crate) losses_max: u64,
    /// When its table was last seen to have dropped a subject...
    pub(crate) dropped: Option<u64>,
    /// ...and when that was last noticed of each.
    pub(crate) dropped_us: BTreeMap<usize, u64>,
    /// Shards that have answered it.
    pub(crate) shards_met: BTreeSet<Shard>,
    woken: Arc<AtomicBool>,
    monotonic_base_ms: u64,
}

impl Process {
    pub(crate) fn new(
        options: &Options,
        number: u32,
        (node, home): (usize, usize),
        tuning: Tuning,
    ) -> Self {
        let woken = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&woken);
        let wake = Wake::new(move || flag.store(true, Ordering::Relaxed));
        let chance = mix(options.seed ^ (u64::from(number) << 40));
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&chance.to_le_bytes());
        let table = TableOptions::default()
            .with_budget_bytes(options.table_bytes)
            .with_freshness(tuning.freshness)
            .with_wake(wake);
        let table = if options.is_private() { table.with_nobody_else() } else { table };
        let incarnation = u128::from(number + 1) << 64 | u128::from(chance);
        Self {
            number,
            node,
            home,
            table: Table::new(table, Seed::from_bytes(bytes)),
            region: Region::new(tuning, incarnation, options.shards),
            abroad: Abroad::new(options, home, incarnation),
            effects: Vec::new(),
            callers: BTreeMap::new(),
            claims: BTreeMap::new(),
            asked: BTreeSet::new(),
            present: BTreeMap::new(),
            calls: BTreeMap::new(),
            doubts: Doubts::default(),
            reads: BTreeSet::new(),
            ghosts: BTreeMap::new(),
            timer_us: None,
            draining: false,
            losses_max: 0,
            dropped: None,
            dropped_us: BTreeMap::new(),
            shards_met: BTreeSet::new(),
            woken,
            monotonic_base_ms: 10_000 + mix(chance) % 1_000_000_000,
        }
    }

    /// Whether the table had something to tell since the last time.
    pub(crate) fn take_woken(&self) -> bool {
        self.woken.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn reading(&self, now_us: u64, offset_ms: i64) -> Reading {
        let unix_ms = (START_MS + now_us / 1_000).saturating_add_signed(offset_ms);
        Reading { unix_ms, monotonic_ms: self.monotonic_base_ms + now_us / 1_000 }
    }

    /// The moment at which this process's monotonic clock shows `monotonic_ms`.
    pub(crate) const fn moment_us(&self, monotonic_ms: u64) -> u64 {
        monotonic_ms.saturating_sub(self.monotonic_base_ms) * 1_000
    }
}

/// The number of the process with this incarnation.
pub(crate) fn number_of(incarnation: u128) -> u32 {
    u32::try_from(incarnation >> 64).unwrap_or(0).saturating_sub(1)
}

impl From<Reading> for Now {
    fn from(reading: Reading) -> Self {
        Self::new(reading.unix_ms, reading.monotonic_ms)
    }
}
