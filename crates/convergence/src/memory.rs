//! A regional store in memory: the model that every driver is tested against, and what the
//! simulator breaks in the ways a real one breaks.

mod ask;
mod board;
mod globe;
mod private;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use tidegate_limiter::planted::{self, Planted};

use crate::board::{BoardCall, BoardReply, Boarding};
use crate::store::{
    Calling, CellName, CellReply, Component, Record, RegionalStore, Reply, Shard, ShardCall,
    ShardReply, Token,
};

pub use globe::{MemoryGlobalStore, MemoryGlobe};
pub use private::PrivateStore;

use ask::Answered;
use board::Board;

/// The totals of a region's cells, in one or more shards, and its board, which lives and dies with
/// the first of them.
///
/// ```
/// use tidegate_convergence::{Component, MemoryRegion, Record, Shard, ShardCall, Token};
/// # use tidegate_limiter::{Digest, FleetSecret, Part, Subject, Window};
/// # let window = Window::from_millis(60_000)?;
/// # let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
/// # let subject = Digest::of(&subject, &FleetSecret::default());
///
/// let mut region = MemoryRegion::new(1);
/// let mut record = |incarnation, total| {
///     let component = Component { incarnation, life: 0 };
///     let (window_ms, sequence, previous_total) = (60_000, 7, 0);
///     let record = Record { subject, window_ms, sequence, component, total, previous_total };
///     let (shard, proposal) = (Shard(0), Token(1));
///     let call = ShardCall::of(shard, proposal, vec![record]);
///     region.call(&call, 0).replies[0].unwrap().current
/// };
/// record(1, 5);
/// record(2, 3);
/// // A total that arrives late or twice changes nothing.
/// let reply = record(1, 4);
/// assert_eq!((reply.sum, reply.recorded), (8, 5));
/// # Ok::<(), tidegate_limiter::RequestError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemoryRegion {
    shards: Vec<ShardMemory>,
}

/// What one shard remembers.
#[derive(Clone, Debug, Default)]
struct ShardMemory {
    token: Option<Token>,
    server: u64,
    cells: BTreeMap<CellName, Cell>,
    answers: BTreeMap<(CellName, Component), Answered>,
    /// Which processes are present, each until a moment.
    present: BTreeMap<u128, u64>,
    board: Board,
}

#[derive(Clone, Debug)]
struct Cell {
    components: BTreeMap<Component, u64>,
    sum: u64,
    expires_ms: u64,
}

impl MemoryRegion {
    /// A store that remembers nothing yet. The [type](Self) has an example.
    #[must_use]
    pub fn new(shards: u16) -> Self {
        Self { shards: vec![ShardMemory::default(); usize::from(shards.max(1))] }
    }

    /// Answers a call at a moment of the store's own clock. The [type](Self) has an example.
    pub fn call(&mut self, call: &ShardCall, now_ms: u64) -> ShardReply {
        let shard = self.shard_mut(call.shard);
        let token = *shard.token.get_or_insert(call.proposal);
        let server = call.identify.then_some(shard.server);
        let present = call.present.map(|incarnation| shard.be_present(incarnation, now_ms));
        let replies =
            call.records.iter().map(|record| Some(shard.record(record, now_ms))).collect();
        let ask = call.ask.as_ref().filter(|ask| ask.is_sound());
        let asked = ask.map(|ask| shard.ask(ask, now_ms));
        ShardReply { token, server, present, replies, asked }
    }

    /// Answers a call to the board at a moment of the store's own clock. [`BoardCall`] has an
    /// example.
    pub fn board(&mut self, call: &BoardCall, now_ms: u64) -> BoardReply {
        self.shard_mut(Shard(0)).board.call(call, now_ms)
    }

    /// What a cell holds. [`MemoryStore`] has an example of a look into it.
    #[must_use]
    pub fn sum(&self, cell: CellName, now_ms: u64) -> u64 {
        let shard = self.shards.get(usize::from(self.shard_of(cell).0));
        let held = shard.and_then(|shard| shard.cells.get(&cell));
        held.filter(|cell| cell.expires_ms > now_ms).map_or(0, |cell| cell.sum)
    }

    /// How many cells there are. [`MemoryStore`] has an example of a look into it.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.shards.iter().map(|shard| shard.cells.len()).sum()
    }

    /// The cells, by name. [`MemoryStore`] has an example of a look into it.
    pub fn names(&self) -> impl Iterator<Item = CellName> {
        self.shards.iter().flat_map(|shard| shard.cells.keys().copied())
    }

    /// Loses everything a shard remembers, as `FLUSHALL` does. [`MemoryStore`] has an example of a
    /// look into it.
    pub fn flush(&mut self, shard: Shard) {
        let shard = self.shard_mut(shard);
        *shard = ShardMemory { server: shard.server, ..ShardMemory::default() };
    }

    /// Puts an older state of a shard in its place, as a failover to a replica that lags does: what
    /// was written since is gone, and another server answers. [`MemoryStore`] has an example of a
    /// look into it.
    pub fn fail_over(&mut self, shard: Shard, replica: &Self) {
        let lagging = replica.shards.get(usize::from(shard.0)).cloned().unwrap_or_default();
        let shard = self.shard_mut(shard);
        let server = shard.server.wrapping_add(1);
        *shard = ShardMemory { server, ..lagging };
    }

    /// Loses one cell, as a store that evicts does. [`MemoryStore`] has an example of a look into
    /// it.
    pub fn evict(&mut self, cell: CellName) {
        let shard = self.shard_of(cell);
        self.shard_mut(shard).cells.remove(&cell);
    }

    /// Forgets the cells whose time is over. Reading skips them anyway. [`MemoryStore`] has an
    /// example of a look into it.
    pub fn expire(&mut self, now_ms: u64) {
        for shard in &mut self.shards {
            shard.cells.retain(|_, cell| cell.expires_ms > now_ms);
            shard.answers.retain(|_, answered| answered.expires_ms > now_ms);
        }
    }

    fn shard_of(&self, cell: CellName) -> Shard {
        Shard::of(cell.subject, u16::try_from(self.shards.len()).unwrap_or(u16::MAX))
    }

    /// A shard that does not exist is the last one: the number comes from [`Shard::of`].
    fn shard_mut(&mut self, shard: Shard) -> &mut ShardMemory {
        let at = usize::from(shard.0).min(self.shards.len().saturating_sub(1));
        #[expect(clippy::indexing_slicing, reason = "there is at least one, and `at` is below")]
        &mut self.shards[at]
    }
}

impl ShardMemory {
    fn record(&mut self, record: &Record, now_ms: u64) -> Reply {
        let (component, life_ms) = (record.component, record.life_ms());
        let mut one = |cell, total| self.record_cell(cell, component, total, (now_ms, life_ms));
        // Sequence 0 has none before it.
        let previous = match record.sequence {
            0 => CellReply::default(),
            _ => one(record.previous_cell(), record.previous_total),
        };
        Reply { current: one(record.cell(), record.total), previous }
    }

    fn record_cell(
        &mut self,
        name: CellName,
        component: Component,
        total: u64,
        (now_ms, life_ms): (u64, u64),
    ) -> CellReply {
        if self.cells.get(&name).is_some_and(|cell| cell.expires_ms <= now_ms) {
            self.cells.remove(&name);
        }
        let held = self.cells.get(&name).and_then(|cell| cell.components.get(&component));
        let had = held.copied().unwrap_or(0);
        if total > had {
            let expires_ms = now_ms.saturating_add(life_ms);
            let empty = || Cell { components: BTreeMap::new(), sum: 0, expires_ms };
            let cell = self.cells.entry(name).or_insert_with(empty);
            cell.components.insert(component, total);
            cell.sum = cell.sum.saturating_add(total - had);
        } else if planted::is(Planted::LastWrite)
            && let Some(cell) = self.cells.get_mut(&name)
            && let Some(held) = cell.components.get_mut(&component)
        {
            *held = total;
            cell.sum = cell.sum.saturating_sub(had - total);
        }
        let cell = self.cells.get(&name);
        CellReply {
            sum: cell.map_or(0, |cell| cell.sum),
            recorded: total.max(had),
            had,
            components: cell
                .map_or(0, |cell| u32::try_from(cell.components.len()).unwrap_or(u32::MAX)),
        }
    }
}

/// A [`MemoryRegion`] that several limiters of one process share: for tests of what is built on a
/// region, without one.
///
/// ```
/// use std::task::{Context, Poll, Waker};
///
/// use tidegate_convergence::{MemoryStore, RegionalStore, Shard, ShardCall, StoreError, Token};
///
/// let call = ShardCall { identify: true, ..ShardCall::of(Shard(0), Token(7), vec![]) };
/// let store = MemoryStore::new(1, || 1_700_000_000_000);
/// let ask = || {
///     let mut context = Context::from_waker(Waker::noop());
///     let Poll::Ready(answered) = store.call(&call).as_mut().poll(&mut context) else {
///         return Err(StoreError::Timeout);
///     };
///     answered
/// };
/// let before = ask()?;
/// assert_eq!((store.shards(), before.token), (1, Token(7)), "what was proposed first");
/// // It breaks as a real one does: here a replica takes over that never heard of anything.
/// store.with(|region| {
///     let replica = tidegate_convergence::MemoryRegion::new(1);
///     region.fail_over(Shard(0), &replica);
/// });
/// assert_ne!(ask()?.server, before.server, "another one answers");
/// store.with(|region| {
///     region.flush(Shard(0));
///     region.expire(1_700_000_000_000);
///     assert_eq!((region.cells(), region.names().count()), (0, 0));
/// });
/// # Ok::<(), StoreError>(())
/// ```
pub struct MemoryStore {
    region: Mutex<MemoryRegion>,
    shards: u16,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl MemoryStore {
    /// A store whose cells expire by this clock, in milliseconds. The [type](Self) has an example.
    #[must_use]
    pub fn new(shards: u16, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let region = Mutex::new(MemoryRegion::new(shards));
        Self { region, shards: shards.max(1), clock: Box::new(clock) }
    }

    /// Looks into the store, or breaks it. The [type](Self) has an example.
    pub fn with<R>(&self, look: impl FnOnce(&mut MemoryRegion) -> R) -> R {
        look(&mut self.region.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryStore").field("shards", &self.shards).finish_non_exhaustive()
    }
}

impl RegionalStore for MemoryStore {
    fn shards(&self) -> u16 {
        self.shards
    }

    fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a> {
        let reply = self.with(|region| region.call(call, (self.clock)()));
        Box::pin(std::future::ready(Ok(reply)))
    }

    fn board<'a>(&'a self, call: &'a BoardCall) -> Boarding<'a> {
        let reply = self.with(|region| region.board(call, (self.clock)()));
        Box::pin(std::future::ready(Ok(reply)))
    }
}

#[cfg(test)]
mod tests;
