//! What the control plane knows: workspaces, keys, namespaces, overrides, and who changed what.
//!
//! Promises: a change is done whole or not at all, and has one row in the audit for each thing it
//! changed; whoever reads [`ControlStore::changes`] again and again with the revision he got last
//! misses nothing; names are bytes, so two that differ in anything are two names.
//! Refuses: what is missing, what is there already, and what would be more than the caps.
//! Fails: as a global store. A change that failed because the database did not answer may have been
//! done; to send it again, with the same ids, does no harm.
//!
//! # How
//!
//! One row holds the revision. A change locks it first, writes the next number into every row that
//! it touches, and raises it at the end: so changes are done one after the other, cannot deadlock
//! with each other, and become visible in the order of their revisions. Nothing is deleted but old
//! rows of the audit: what is gone is marked, because who reads by revision could not see it
//! otherwise.

mod apply;
mod change;
mod forget;
mod read;
mod rows;
mod statements;
mod steps;

use std::fmt;
use std::pin::Pin;

use tidegate_convergence::GlobalError;

use crate::global::pool::Pool;
use crate::global::session::Opener;
use apply::Apply;
pub use change::{Applied, Change, Changes, ControlError};
pub use forget::Forgotten;
pub use rows::{
    AuditRow, KeyRow, Mode, NamespaceRow, OverrideRow, WorkspaceRow, consistency_str, outage_str,
};
pub(crate) use statements::ControlStatements;
#[cfg(feature = "mysql")]
pub(crate) use statements::MYSQL;
#[cfg(feature = "sqlite")]
pub(crate) use statements::SQLITE;

/// Most workspaces: each is a customer, and every node keeps all of them in memory.
/// [`ControlError`] has an example of a cap.
pub const WORKSPACES_MAX: u64 = 10_000;
/// Most keys of a workspace, revoked ones too: their rows stay. [`ControlError`] has an example of
/// a cap.
pub const KEYS_MAX: u64 = 10_000;
/// Most namespaces of a workspace, deleted ones too. They come to be by being asked for, so one
/// caller with a bad loop must not fill every node's memory. [`ControlError`] has an example of a
/// cap.
pub const NAMESPACES_MAX: u64 = 10_000;
/// Most overrides of a namespace, deleted ones too: tens of megabytes in every node.
/// [`ControlError`] has an example of a cap.
pub const OVERRIDES_MAX: u64 = 100_000;
/// Longest id, and longest name of an actor, in bytes. Ours have 13. [`Change`] has an example of
/// what is too long.
pub const ID_BYTES_MAX: usize = 64;
/// Longest name and longest pattern, in bytes: 512 characters of four. A database can still have an
/// index over it. [`Change`] has an example of what is too long.
pub const NAME_BYTES_MAX: usize = 2_048;
/// Most bytes of all permissions of a key: hundreds of them, and a row that is read at once.
/// [`Change`] has an example of what is too long.
pub const PERMISSIONS_BYTES_MAX: usize = 16_384;
/// Most namespaces that one change adds: more than a batch can name, and few enough for a database
/// on another continent to write before the caller gives up. [`Change`] has an example.
pub const NAMESPACES_AT_ONCE_MAX: usize = 128;

const _: () = assert!(NAMESPACES_AT_ONCE_MAX as u64 <= NAMESPACES_MAX);
// Columns and messages say these in numbers.
const _: () = assert!(ID_BYTES_MAX == 64 && NAME_BYTES_MAX == 2_048);
const _: () = assert!(PERMISSIONS_BYTES_MAX == 16 * 1_024);

/// A call that reads, under way. [`ControlStore`] has an example.
pub type Reading<'a, T> = Pin<Box<dyn Future<Output = Result<T, GlobalError>> + Send + 'a>>;
/// A change under way. [`ControlStore`] has an example.
pub type Applying<'a> = Pin<Box<dyn Future<Output = Result<Applied, ControlError>> + Send + 'a>>;

/// A database that holds a control plane: `MysqlStore` or `SqliteStore`.
///
/// ```
/// use tidegate_stores::control::{Change, ControlStore};
/// # #[cfg(feature = "sqlite")] {
/// # let path = std::env::temp_dir().join(format!("tidegate-control-{}.db", std::process::id()));
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let store = tidegate_stores::SqliteStore::open(&path);
/// store.migrate().await?;
/// let add = Change::AddWorkspace { id: "ws_1".to_owned(), name: "acme".to_owned() };
/// let applied = store.apply(&add, "cli", 1_700_000_000_000).await?;
/// assert_eq!(applied.changes.workspaces[0].name, "acme");
/// let seen = store.changes(0).await?;
/// assert_eq!((seen.revision, seen.workspaces.len()), (1, 1));
/// assert!(store.changes(seen.revision).await?.workspaces.is_empty(), "nothing is new");
/// assert_eq!(store.audit(None, None, 10).await?[0].event, "workspace.create");
/// assert_eq!(store.forget_audit(1_700_000_000_001, 100).await?.rows, 1);
/// assert_eq!(store.revision().await?, 1, "what was changed is still changed");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # for more in ["", "-wal", "-shm"] {
/// #     let _ = std::fs::remove_file(format!("{}{more}", path.display()));
/// # }
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ControlStore: Send + Sync + fmt::Debug {
    /// How many changes there have been. One small read. The [trait](Self) has an example.
    fn revision(&self) -> Reading<'_, u64>;

    /// The rows that changed after `since`, as they are now; 0 gives all. Costs one small read when
    /// nothing changed. The [trait](Self) has an example.
    fn changes(&self, since: u64) -> Reading<'_, Changes>;

    /// Makes one change. `actor` is the id of a key, or `cli`. The [trait](Self) has an example.
    ///
    /// # Cancel safety
    /// When dropped, the change may or may not have been made, but never half of it. Nobody waits
    /// for it.
    fn apply<'a>(&'a self, change: &'a Change, actor: &'a str, now_ms: u64) -> Applying<'a>;

    /// The newest rows of the audit, newest first: of one workspace or of all, and only those with
    /// a number below `before`. At most 1,000 at a time. The [trait](Self) has an example.
    fn audit<'a>(
        &'a self,
        workspace: Option<&'a str>,
        before: Option<u64>,
        rows_max: usize,
    ) -> Reading<'a, Vec<AuditRow>>;

    /// Deletes rows of the audit from before that time: of the oldest `rows_max`, at most 10,000.
    /// Needs a right that servers need not have. The [trait](Self) has an example.
    ///
    /// # Cancel safety
    /// When dropped, some of them may have been deleted.
    fn forget_audit(&self, before_ms: u64, rows_max: usize) -> Reading<'_, Forgotten>;
}

/// A store that has connections.
pub(crate) trait Pooled: Send + Sync + fmt::Debug {
    /// What makes them.
    type Opener: Opener;

    /// The connections.
    fn pool(&self) -> &Pool<Self::Opener>;
}

impl<P: Pooled> ControlStore for P {
    fn revision(&self) -> Reading<'_, u64> {
        Box::pin(self.pool().run(&read::Revision))
    }

    fn changes(&self, since: u64) -> Reading<'_, Changes> {
        Box::pin(read::changes(self.pool(), since))
    }

    fn apply<'a>(&'a self, change: &'a Change, actor: &'a str, now_ms: u64) -> Applying<'a> {
        Box::pin(async move {
            change.check(actor)?;
            self.pool().run(&Apply { change, actor, now_ms }).await?
        })
    }

    fn audit<'a>(
        &'a self,
        workspace: Option<&'a str>,
        before: Option<u64>,
        rows_max: usize,
    ) -> Reading<'a, Vec<AuditRow>> {
        Box::pin(async move { self.pool().run(&read::Audit { workspace, before, rows_max }).await })
    }

    fn forget_audit(&self, before_ms: u64, rows_max: usize) -> Reading<'_, Forgotten> {
        Box::pin(async move { self.pool().run(&forget::Forget { before_ms, rows_max }).await })
    }
}
