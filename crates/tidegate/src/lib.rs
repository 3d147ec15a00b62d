//! A rate limiter to embed. It decides in this process's memory: a check never waits, never
//! allocates once a subject is known, and never admits more than the limit.
//!
//! ```
//! use tidegate::{Cost, Limit, Limiter, Part, Request, Subject, Window};
//!
//! let limiter = Limiter::builder().build()?;
//!
//! // Ten e-mails a minute for each user.
//! let subject = Subject::new(
//!     Part::new("acme")?,   // workspace: whose limit it is
//!     Part::new("email")?,  // namespace: what is limited
//!     Part::new("user-1")?, // identifier: who is limited
//!     Window::from_millis(60_000)?,
//! );
//! let request = Request::new(subject, Limit::new(10), Cost::ONE);
//!
//! let answer = limiter.check_now(&request);
//! if answer.admitted() {
//!     assert_eq!(answer.remaining(), 9);
//! } else if let Some(ms) = answer.retry_after_ms() {
//!     println!("come back in {ms} ms");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`Limiter`]: check one request, or several as one; give memory back; say why.
//! - [`Saved`]: counts that outlive the process.
//! - [`Clock`]: where time comes from; [`ManualClock`] is for your tests.
//! - [`Request`], [`Batch`], [`Answer`]: what is asked and what comes back. A denial is an
//!   answer, not an error.
//!
//! # Features
//!
//! None is on by default: alone, the limiter needs no runtime.
//!
//! - `tower`: `tidegate::tower::RateLimitLayer`, for axum and everything else that is made of tower
//!   services. Denied requests get a 429.
//! - `region`: limits shared with other processes through a store, in memory or your own. Adds
//!   `Limiter::check`, which may wait for it, and needs a tokio runtime.
//! - `redis`: such a store in Redis or Valkey, `tidegate::redis`. Implies `region`.
//! - `mysql`: limits shared between regions through MySQL or MariaDB, `tidegate::mysql`. Implies
//!   `region`.
//! - `sqlite`: the same in a file, for one machine, `tidegate::sqlite`. Costs a C build of SQLite.
//! - `tls`: encrypted connections to them. Implies `redis`; costs a C build of the crypto library.

mod clock;
mod limiter;
#[cfg(feature = "region")]
mod region;
mod saved;
#[cfg(feature = "tower")]
pub mod tower;

/// A region in Redis or Valkey: one server, one that Sentinels watch, or a cluster.
///
/// ```
/// use tidegate::{Cost, Limit, Limiter, Part, Request, Subject, Window, redis};
///
/// # let server = tidegate_lab::RedisServer::start()?;
/// # let url = server.url();
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// // Two processes, as far as Redis can tell.
/// let one = Limiter::builder().region(redis::store(&url)?).build()?;
/// let other = Limiter::builder().region(redis::store(&url)?).build()?;
///
/// let window = Window::from_millis(86_400_000)?;
/// let subject = Subject::new(Part::new("acme")?, Part::new("sms")?, Part::new("ann")?, window);
/// let request = Request::new(subject, Limit::new(5), Cost::new(4)?);
/// assert!(one.check(&request).await.admitted());
/// # assert_eq!(one.drain(std::time::Duration::from_secs(20)).await.unreplayed_cost, 0);
/// # // On a busy machine the first answer may come too late; nobody has to wait for it.
/// # let room = Request::new(subject, Limit::new(5), Cost::new(0)?);
/// # while other.check(&room).await.degraded() {
/// #     tokio::task::yield_now().await;
/// # }
/// assert!(!other.check(&request).await.admitted(), "of the five, one is left");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "redis")]
pub mod redis {
    pub use tidegate_stores::redis::*;

    /// The store at an address such as `redis://user:password@host:6379`; see
    /// [`RedisConfig::parse`] for all forms. Nothing is connected before the first check, and a
    /// Redis that is away fails nothing.
    ///
    /// # Errors
    /// When it is not such an address. The error does not repeat it: there may be a password.
    pub fn store(url: &str) -> Result<RedisStore, ConfigError> {
        // Without randomness several processes may come back to a Redis in step. It survives that.
        let seed = getrandom::u64().unwrap_or_else(|_| std::process::id().into());
        RedisStore::new(RedisConfig::parse(url)?, seed)
    }
}

/// A store that several regions share, in MySQL or MariaDB.
///
/// ```
/// use tidegate::{Cost, Limit, Limiter, Part, RegionName, Request, Subject, Window, mysql};
///
/// # let server = tidegate_lab::MariaDbServer::start()?;
/// # let url = server.url();
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// // Once, before the first process starts: `tidegate migrate` does the same.
/// mysql::store(&url)?.migrate().await?;
///
/// let region = |name| -> Result<Limiter, Box<dyn std::error::Error>> {
///     Ok(Limiter::builder().globe(RegionName::new(name)?, mysql::store(&url)?).build()?)
/// };
/// let (here, there) = (region("eu")?, region("us")?);
///
/// let window = Window::from_millis(86_400_000)?;
/// let subject = Subject::new(Part::new("acme")?, Part::new("sms")?, Part::new("ann")?, window);
/// let request = Request::new(subject, Limit::new(5), Cost::new(4)?);
/// assert!(here.check(&request).await.admitted());
/// // Others hear of it within seconds; at the end everything is told.
/// assert_eq!(here.drain(std::time::Duration::from_secs(20)).await.unpublished, 0);
/// # let room = Request::new(subject, Limit::new(5), Cost::new(0)?);
/// # let mut looks = tokio::time::interval(std::time::Duration::from_millis(20));
/// # tokio::time::timeout(std::time::Duration::from_secs(60), async {
/// #     while there.check(&room).await.remaining() > 1 {
/// #         looks.tick().await;
/// #     }
/// # })
/// # .await?;
/// assert!(!there.check(&request).await.admitted(), "of the five, one is left");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "mysql")]
pub mod mysql {
    pub use tidegate_stores::global::{
        GC_GRANTS, GRANTS, KnownRegion, MIGRATE_GRANTS, MysqlConfig, MysqlConfigError, MysqlStore,
        SCHEMA_VERSION,
    };

    /// The store at an address such as `mysql://user:password@host:3306/database`; see
    /// [`MysqlConfig::parse`]. Nothing is connected before the first call, and a database that is
    /// away fails nothing.
    ///
    /// # Errors
    /// When it is not such an address. The error does not repeat it: there may be a password.
    pub fn store(url: &str) -> Result<MysqlStore, MysqlConfigError> {
        MysqlStore::new(MysqlConfig::parse(url)?)
    }
}

/// A store that the regions on one machine share, in a file.
///
/// ```
/// use tidegate::{Limiter, RegionName, sqlite::SqliteStore};
///
/// # let path = std::env::temp_dir().join(format!("tidegate-region-{}.db", std::process::id()));
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// // Once, before the first process starts: `tidegate migrate` does the same.
/// SqliteStore::open(&path).migrate().await?;
/// let limiter = Limiter::builder().globe(RegionName::new("eu")?, SqliteStore::open(&path));
/// assert!(limiter.build()?.globe_counts().is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # for more in ["", "-wal", "-shm"] {
/// #     let _ = std::fs::remove_file(format!("{}{more}", path.display()));
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "sqlite")]
pub mod sqlite {
    pub use tidegate_stores::global::{KnownRegion, SCHEMA_VERSION, SqliteStore};
}

/// The example of the README, so that it is true.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// The same for the guide, which also shows what a region adds.
#[cfg(all(doctest, feature = "region"))]
#[doc = include_str!("../../../docs/guide/embedding.md")]
struct Guide;

pub use clock::{Clock, ManualClock, SystemClock};
pub use limiter::{BuildError, Builder, Inspection, Limiter, SavedCounts, Saving};
#[cfg(feature = "region")]
pub use region::{Drained, RegionCell, RegionView};
pub use saved::{Saved, SavedError};
#[cfg(feature = "region")]
pub use tidegate_convergence::{
    GlobalError, GlobalStore, GlobeCounts, GlobeOptions, GlobeTuning, GlobeView, MemoryGlobalStore,
    MemoryStore, PublishedCell, RegionCounts, RegionName, RegionNameError, RegionNumber,
    RegionalStore, StoreError, Tuning,
};
pub use tidegate_limiter::{
    Answer, Batch, BatchAnswer, CellCounts, Consistency, Cost, Counts, Credit, Denial, Digest,
    Explanation, Limit, Now, Outage, Part, Reason, Request, RequestError, Source, Strict, Subject,
    SubjectView, Window,
};
