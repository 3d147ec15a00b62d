//! The drivers of the stores: the only crate that may name Redis, MySQL or SQLite.
//!
//! What a regional store has to do is written down as [`MemoryRegion`]; every driver is tested to
//! give the same replies. [`RedisStore`] is the driver for Redis and Valkey.

pub mod redis;

pub use redis::{RedisConfig, RedisStore};
pub use tidegate_convergence::MemoryRegion;
