//! The drivers of the stores: the only crate that may name Redis, MySQL or SQLite.
//!
//! What a regional store has to do is written down as [`MemoryRegion`]; every driver is tested to
//! give the same replies. [`RedisStore`] is the driver for Redis and Valkey. The same for a global
//! store is [`MemoryGlobe`]; its drivers are those in [`global`], each with a feature of its name.
//! The same databases hold what the control plane knows: [`control`].

#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub mod control;
#[cfg(any(feature = "mysql", feature = "sqlite"))]
pub mod global;
pub mod redis;

#[cfg(feature = "sqlite")]
pub use global::SqliteStore;
#[cfg(feature = "mysql")]
pub use global::{MysqlConfig, MysqlConfigError, MysqlStore};
pub use redis::{RedisConfig, RedisStore};
pub use tidegate_convergence::{MemoryGlobe, MemoryRegion};
