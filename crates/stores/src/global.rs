//! A global store in MySQL, MariaDB or SQLite.
//!
//! Promises: the replies are those of [`MemoryGlobe`](tidegate_convergence::MemoryGlobe); every
//! call is a few statements that each stand alone, so nothing is locked between two of them; a
//! caller who gives up takes the connection along, so the next one does not wait for him; a server
//! that went away and came back is found again by the next call.
//! Refuses: to send anything twice, except over a new connection when an old one turned out to be
//! dead. Such a row may be there twice, which is harmless.
//! Fails: as [`GlobalError`](tidegate_convergence::GlobalError) says. No message holds a password
//! or what was written.
//!
//! # Tables
//!
//! `tidegate_regions` has a row for each region that ever registered, `tidegate_feed` one for each
//! batch, `tidegate_schema` one for each migration. The feed has no index but its primary key:
//! deleting by that alone, and inserting at its end, cannot deadlock.

mod calls;
#[cfg(feature = "mysql")]
mod config;
#[cfg(feature = "mysql")]
mod mysql;
pub(crate) mod pool;
mod regions;
mod schema;
pub(crate) mod session;
#[cfg(feature = "sqlite")]
mod sqlite;

#[cfg(feature = "mysql")]
pub use config::{MysqlConfig, MysqlConfigError};
#[cfg(feature = "mysql")]
pub use mysql::{GC_GRANTS, GRANTS, MIGRATE_GRANTS, MysqlStore};
pub use regions::KnownRegion;
pub use schema::{Migrated, SCHEMA_VERSION};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
