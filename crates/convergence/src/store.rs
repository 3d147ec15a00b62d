//! What a process says to a regional store, and what the store says back.
//!
//! One call goes to one shard and carries any number of [`Record`]s; each is applied atomically,
//! in any order. A call without records only asks who the shard is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use thiserror::Error;
use tidegate_limiter::Digest;
use tidegate_limiter::planted::{self, Planted};

use crate::ask::{Ask, AskReply};
use crate::board::{BoardCall, Boarding};

/// Windows for which a store keeps a cell: one in which it is current, one as the previous, one
/// for clocks that disagree and for totals that are sent again.
const LIFE_WINDOWS: u64 = 3;
/// How long a process counts as present after it said so: it says so every second, and may miss a
/// few. [`ShardCall::of`] has an example of a call.
pub const PRESENCE_LIFE_MS: u64 = 5_000;

/// One fixed window of one subject, as it is known outside a process. [`Record`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellName {
    /// The subject.
    pub subject: Digest,
    /// Which of its windows.
    pub sequence: u64,
}

/// Who owns a total: one life of one process, and the eviction sweep since which it knows the
/// subject. A process that forgot a cell and meets it again is another component, so that its new
/// total is not mistaken for the old one. [`Record`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Component {
    /// Random, drawn when the process starts.
    pub incarnation: u128,
    /// The eviction sweep.
    pub life: u64,
}

/// A part of a store that lives and dies as one. A subject belongs to one shard for ever.
/// [`Record`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shard(pub u16);

impl Shard {
    /// The shard of a subject in a store that has `shards` of them. [`Record`] has an example.
    #[must_use]
    pub fn of(subject: Digest, shards: u16) -> Self {
        let [first, second, ..] = *subject.as_bytes();
        Self(u16::from_be_bytes([first, second]) % shards.max(1))
    }
}

/// Names what a shard remembers: a shard that lost its data has another token than before.
/// [`MemoryRegion`](crate::MemoryRegion) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token(pub u128);

/// The totals of one subject: of its current cell and of the one before.
///
/// ```
/// use tidegate_convergence::{CellName, Component, Record, Shard};
/// use tidegate_limiter::Digest;
///
/// let subject = Digest::from_bytes([7; 16]);
/// let component = Component { incarnation: 1, life: 0 };
/// let (window_ms, sequence, total, previous_total) = (60_000, 9, 4, 2);
/// let record = Record { subject, window_ms, sequence, component, total, previous_total };
/// assert_eq!(record.cell(), CellName { subject, sequence: 9 });
/// assert_eq!(record.previous_cell(), CellName { subject, sequence: 8 });
/// assert!((180_000..187_500).contains(&record.life_ms()), "three windows, and some more");
/// assert_eq!(Shard::of(subject, 1), Shard(0));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The subject.
    pub subject: Digest,
    /// The length of its windows.
    pub window_ms: u64,
    /// The current cell; the previous one is the sequence before.
    pub sequence: u64,
    /// Whose totals they are.
    pub component: Component,
    /// Everything the component has admitted to the current cell. 0 only reads.
    pub total: u64,
    /// The same of the previous cell.
    pub previous_total: u64,
}

impl Record {
    /// The current cell. The [type](Self) has an example.
    #[must_use]
    pub const fn cell(&self) -> CellName {
        CellName { subject: self.subject, sequence: self.sequence }
    }

    /// The previous cell. The [type](Self) has an example.
    #[must_use]
    pub const fn previous_cell(&self) -> CellName {
        CellName { subject: self.subject, sequence: self.sequence.saturating_sub(1) }
    }

    /// How long a store keeps a cell from its first write on: three windows, and up to an eighth of
    /// one more, by the subject, so that cells that began together do not end together. The
    /// [type](Self) has an example.
    #[must_use]
    pub fn life_ms(&self) -> u64 {
        let [.., last] = *self.subject.as_bytes();
        let jitter_ms = self.window_ms.saturating_mul(u64::from(last)) / (256 * 8);
        let windows = match () {
            () if planted::is(Planted::NoTtl) => u64::MAX,
            () if planted::is(Planted::LongTtl) => LIFE_WINDOWS * 1_000,
            () => LIFE_WINDOWS,
        };
        self.window_ms.saturating_mul(windows).saturating_add(jitter_ms)
    }
}

/// What a store holds of one cell after a record. [`MemoryRegion`](crate::MemoryRegion) has an
/// example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CellReply {
    /// The sum of all components.
    pub sum: u64,
    /// The largest total of the component that asked: never less than was sent.
    pub recorded: u64,
    /// The same before this record: less than was acknowledged earlier if the store lost it.
    pub had: u64,
    /// How many components have a total above 0.
    pub components: u32,
}

/// What a store holds of both cells of a subject. [`MemoryRegion`](crate::MemoryRegion) has an
/// example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The cell of the record's sequence.
    pub current: CellReply,
    /// The cell before it.
    pub previous: CellReply,
}

/// One call to one shard. [`MemoryRegion`](crate::MemoryRegion) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardCall {
    /// Which shard. All records are of subjects that belong to it.
    pub shard: Shard,
    /// The token the shard takes if it has none. Never proposed before.
    pub proposal: Token,
    /// Also asks which server answers.
    pub identify: bool,
    /// Also says that the process with this incarnation is present, and asks how many are.
    pub present: Option<u128>,
    /// A caller waits for the answer. A store does the same in any case.
    pub awaited: bool,
    /// What is recorded.
    pub records: Vec<Record>,
    /// What is asked. Its cells are of the same shard, and of other subjects than the records.
    pub ask: Option<Ask>,
}

impl ShardCall {
    /// A call that records, and does nothing else.
    ///
    /// ```
    /// use tidegate_convergence::{MemoryRegion, Shard, ShardCall, Token};
    ///
    /// let who = ShardCall { identify: true, ..ShardCall::of(Shard(0), Token(7), vec![]) };
    /// let reply = MemoryRegion::new(1).call(&who, 0);
    /// assert_eq!((reply.token, reply.server), (Token(7), Some(0)));
    /// ```
    #[must_use]
    pub const fn of(shard: Shard, proposal: Token, records: Vec<Record>) -> Self {
        Self { shard, proposal, identify: false, present: None, awaited: false, records, ask: None }
    }
}

/// The answer to a [`ShardCall`]. [`MemoryRegion`](crate::MemoryRegion) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardReply {
    /// The token of the shard.
    pub token: Token,
    /// A number for the server that answered, if that was asked: a restart or a failover changes
    /// it.
    pub server: Option<u64>,
    /// How many processes said in the last [seconds](PRESENCE_LIFE_MS) that they are present, if
    /// that was asked.
    pub present: Option<u32>,
    /// One for each record, in order. `None` if the store refused that one.
    pub replies: Vec<Option<Reply>>,
    /// The answer to the ask. `None` if there was none, or the store failed at it: what it asked
    /// for may have been granted or not.
    pub asked: Option<AskReply>,
}

/// Why a call came to nothing. What it carried may or may not have been recorded; sending the
/// same totals again is always right.
///
/// ```
/// use tidegate_convergence::StoreError;
///
/// let why = StoreError::Unreachable("connection refused".to_owned());
/// assert_eq!(why.to_string(), "the regional store cannot be reached: connection refused");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StoreError {
    /// No answer in time.
    #[error("the regional store did not answer in time")]
    Timeout,
    /// No connection.
    #[error("the regional store cannot be reached: {0}")]
    Unreachable(String),
    /// The store answered with an error.
    #[error("the regional store refused the call: {0}")]
    Refused(String),
}

/// A call under way. [`MemoryStore`](crate::MemoryStore) has an example.
pub type Calling<'a> = Pin<Box<dyn Future<Output = Result<ShardReply, StoreError>> + Send + 'a>>;

/// A regional store: Redis, or memory.
///
/// For every cell it keeps the largest total of each component and their sum, and it applies each
/// [`Record`] as one step. A record of totals that are 0 creates nothing.
/// [`MemoryStore`](crate::MemoryStore) has an example.
pub trait RegionalStore: Send + Sync + fmt::Debug {
    /// How many shards there are. All processes of a region must say the same.
    /// [`MemoryStore`](crate::MemoryStore) has an example.
    fn shards(&self) -> u16;

    /// Makes one call. May be dropped at any time; the caller keeps the time.
    /// [`MemoryStore`](crate::MemoryStore) has an example.
    fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a>;

    /// Makes one call to the board. May be dropped at any time, as above.
    /// [`MemoryStore`](crate::MemoryStore) has an example.
    fn board<'a>(&'a self, call: &'a BoardCall) -> Boarding<'a>;
}
