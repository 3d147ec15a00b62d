//! What a region says to the global store, and what the store says back.
//!
//! The store keeps a *feed*: rows that are appended, numbered in the order in which they began, and
//! read by whoever wants to know what changed. A row is one [`Batch`]: many totals of one region,
//! packed. Rows that began early may become visible late, a store that fails over may lose the last
//! ones, and rows whose totals a later one repeats are deleted.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use thiserror::Error;

/// Longest name of a region, in bytes: as in the RFC. [`RegionName`] has an example.
pub const REGION_NAME_MAX: usize = 48;

/// A name is free again when nobody has used it for this long. Those who use it say so every
/// [`RENEW_MS`]. [`GlobalError`] has an example.
pub const NAME_LAPSE_MS: u64 = 30_000;

/// How often a region says that its name is in use. [`GlobalError`] has an example of one that did
/// not.
pub const RENEW_MS: u64 = 10_000;

/// Largest payload of a row: far below what any server takes in one packet. [`pack`](crate::pack)
/// has an example.
pub const PAYLOAD_MAX: usize = 60_000;

/// Most missing rows that one import asks about. [`Import`] has an example.
pub const GAPS_MAX: usize = 16;

/// Most rows that one call reads or deletes, whatever it asks for: what is read is held in memory.
/// [`Import`] has an example.
pub const CALL_ROWS_MAX: usize = 10_000;

/// The name of a region: 1 to 48 visible ASCII characters.
///
/// ```
/// use tidegate_convergence::{REGION_NAME_MAX, RegionName};
///
/// assert_eq!(RegionName::new("eu-central-1")?.as_str(), "eu-central-1");
/// assert!(RegionName::new("").is_err() && RegionName::new("eu central").is_err());
/// assert!(RegionName::new(&"x".repeat(REGION_NAME_MAX + 1)).is_err());
/// # Ok::<(), tidegate_convergence::RegionNameError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionName(String);

/// Why a text is not the name of a region. [`RegionName`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the name of a region has 1 to 48 visible ASCII characters, without spaces")]
pub struct RegionNameError;

impl RegionName {
    /// Parses a name. The [type](Self) has an example.
    ///
    /// # Errors
    /// When it is empty, too long, or has other than visible ASCII characters.
    pub fn new(name: &str) -> Result<Self, RegionNameError> {
        let visible = name.bytes().all(|byte| byte.is_ascii_graphic());
        if name.is_empty() || name.len() > REGION_NAME_MAX || !visible {
            return Err(RegionNameError);
        }
        Ok(Self(name.to_owned()))
    }

    /// The name. The [type](Self) has an example.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RegionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Under which a region publishes: a part of its identity, so that nobody has to give it out, a
/// store that loses data cannot give it to another, and a region that lost its own store is a new
/// component beside what it had published before. Of a hundred regions, two have the same with a
/// probability of one in a million.
///
/// ```
/// use tidegate_convergence::RegionNumber;
///
/// let identity = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
/// assert_eq!(RegionNumber::of(identity), RegionNumber(0x89ab_cdef));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionNumber(pub u32);

impl RegionNumber {
    /// The number of the region with this identity. The [type](Self) has an example.
    #[must_use]
    pub fn of(identity: u128) -> Self {
        Self(u32::try_from(identity & u128::from(u32::MAX)).unwrap_or(u32::MAX))
    }
}

/// One row to append. [`GlobalCall`] has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Whose totals they are.
    pub region: RegionNumber,
    /// Repeats totals that earlier rows hold, so that those can be deleted: only who has not read
    /// them needs it.
    pub repeats: bool,
    /// Random: tells this row from another that got the same id after this one was lost.
    pub nonce: u64,
    /// When it was written, by the wall clock of whoever wrote it.
    pub written_ms: u64,
    /// When the last of its totals is of no use any more, by the same clock.
    pub expires_ms: u64,
    /// The totals.
    pub payload: Vec<u8>,
}

/// One row that was read. [`GlobalCall`] has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Its place in the feed.
    pub id: u64,
    /// What it was written with. The payload is empty if it was not asked for: see [`Import`].
    pub batch: Batch,
}

/// What is read of the feed: the row `from` (without its payload, to see whether it is still
/// there), all after it, and the `gaps`; in the order of their ids. [`GlobalCall`] has an example
/// of an answer.
///
/// ```
/// use tidegate_convergence::{CALL_ROWS_MAX, GAPS_MAX, Import};
///
/// let import = Import { from: 20, gaps: vec![7], repeats: true, rows_max: CALL_ROWS_MAX };
/// assert!(import.is_sound());
/// let much = Import { gaps: vec![7; GAPS_MAX + 1], ..import };
/// assert!(!much.is_sound(), "a store refuses it");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The last row that was read, or 0.
    pub from: u64,
    /// Rows before it that were not there when those after them were, or that were and are looked
    /// at once more. At most [`GAPS_MAX`].
    pub gaps: Vec<u64>,
    /// With the payloads of rows that only repeat.
    pub repeats: bool,
    /// Most rows; never more than [`CALL_ROWS_MAX`].
    pub rows_max: usize,
}

impl Import {
    /// Whether a store takes it. The [type](Self) has an example.
    #[must_use]
    pub const fn is_sound(&self) -> bool {
        self.gaps.len() <= GAPS_MAX
    }
}

/// One call to the global store.
///
/// ```
/// use tidegate_convergence::{
///     Batch, GlobalCall, GlobalReply, Import, MemoryGlobe, RegionNumber, Row,
/// };
///
/// let region = RegionNumber(7);
/// let batch = Batch {
///     region,
///     repeats: false,
///     nonce: 1,
///     written_ms: 1_000,
///     expires_ms: 61_000,
///     payload: vec![1],
/// };
/// let mut globe = MemoryGlobe::default();
/// for id in 1..=2 {
///     let published = GlobalReply::Published { id };
///     assert_eq!(globe.call(&GlobalCall::Publish(batch.clone()), 1_000), Ok(published));
/// }
///
/// // Who has read the first row gets that one without its payload, and all after it.
/// let import = Import { from: 1, gaps: vec![], repeats: true, rows_max: 10 };
/// let first = Row { id: 1, batch: Batch { payload: vec![], ..batch.clone() } };
/// let rows = vec![first, Row { id: 2, batch }];
/// assert_eq!(globe.call(&GlobalCall::Import(import), 2_000), Ok(GlobalReply::Imported(rows)));
///
/// // The last row stays, however old it is.
/// let collect = GlobalCall::Collect { expired_before_ms: u64::MAX, rows_max: 10 };
/// assert_eq!(globe.call(&collect, 3_000), Ok(GlobalReply::Deleted { rows: 1 }));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GlobalCall {
    /// Takes a name for a region, or says that it is still in use.
    Register {
        /// The name.
        name: RegionName,
        /// Who uses it.
        identity: u128,
    },
    /// Says that a name is not in use any more.
    Release {
        /// The name.
        name: RegionName,
        /// Who used it.
        identity: u128,
    },
    /// Appends a row.
    Publish(Batch),
    /// Reads the feed.
    Import(Import),
    /// Deletes up to `rows_max` rows of a region, the oldest first, but never the last of all: by
    /// that one readers see whether the feed has lost something.
    Trim {
        /// Whose.
        region: RegionNumber,
        /// The last one.
        up_to: u64,
        /// Only those written before this moment.
        written_before_ms: u64,
        /// Most rows; never more than [`CALL_ROWS_MAX`].
        rows_max: usize,
    },
    /// Deletes up to `rows_max` rows, of any region, that have expired, the oldest first, but never
    /// the last of all.
    Collect {
        /// Only those that expired before this moment.
        expired_before_ms: u64,
        /// Most rows; never more than [`CALL_ROWS_MAX`].
        rows_max: usize,
    },
}

/// The answer to a [`GlobalCall`], which has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GlobalReply {
    /// To [`GlobalCall::Register`].
    Registered {
        /// How many regions ever had a name.
        regions: u32,
    },
    /// To [`GlobalCall::Release`].
    Released,
    /// To [`GlobalCall::Publish`].
    Published {
        /// The id that the row got.
        id: u64,
    },
    /// To [`GlobalCall::Import`].
    Imported(Vec<Row>),
    /// To [`GlobalCall::Trim`] and [`GlobalCall::Collect`].
    Deleted {
        /// How many rows.
        rows: u64,
    },
}

/// Why a call came to nothing. It may have been done all the same; repeating it is always right.
///
/// ```
/// use tidegate_convergence::{GlobalCall, GlobalError, MemoryGlobe, NAME_LAPSE_MS, RegionName};
///
/// let mut globe = MemoryGlobe::default();
/// let mut register = |identity, now_ms| {
///     let name = RegionName::new("eu").expect("a name");
///     globe.call(&GlobalCall::Register { name, identity }, now_ms)
/// };
/// assert!(register(7, 0).is_ok());
/// assert_eq!(register(8, 1_000), Err(GlobalError::NameTaken { seen_ms_ago: 1_000 }));
/// assert!(register(8, NAME_LAPSE_MS).is_ok(), "the other one has not been there for long");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GlobalError {
    /// No answer in time.
    #[error("the global store did not answer in time")]
    Timeout,
    /// No connection, or one that broke.
    #[error("the global store cannot be reached: {0}")]
    Unreachable(String),
    /// Not now: a deadlock, a lock that others hold, a server that only reads.
    #[error("the global store was busy: {0}")]
    Busy(String),
    /// Not this: the same call will be refused again.
    #[error("the global store refused the call: {0}")]
    Refused(String),
    /// Another region uses the name.
    #[error("the region name is in use by another region, which was there {seen_ms_ago} ms ago")]
    NameTaken {
        /// When it last said so.
        seen_ms_ago: u64,
    },
    /// The tables are missing, or of another version.
    #[error("{0}")]
    Schema(String),
}

/// A call to the global store under way. [`GlobalStore`] has an example.
pub type GlobalCalling<'a> =
    Pin<Box<dyn Future<Output = Result<GlobalReply, GlobalError>> + Send + 'a>>;

/// A global store: MySQL, SQLite, or memory.
///
/// Ids of rows grow in the order in which rows were begun and are never given twice, unless the
/// store loses what it acknowledged.
///
/// ```
/// use tidegate_convergence::{GlobalCall, GlobalCalling, GlobalError, GlobalStore};
///
/// /// A store that is always away: for tests of what a region does then.
/// #[derive(Debug)]
/// struct Away;
///
/// impl GlobalStore for Away {
///     fn call<'a>(&'a self, _: &'a GlobalCall) -> GlobalCalling<'a> {
///         Box::pin(async { Err(GlobalError::Timeout) })
///     }
/// }
/// ```
pub trait GlobalStore: Send + Sync + fmt::Debug {
    /// Makes one call. The caller keeps the time and may give up; the store then stops the work as
    /// soon as it can. The [trait](Self) has an example.
    fn call<'a>(&'a self, call: &'a GlobalCall) -> GlobalCalling<'a>;
}
