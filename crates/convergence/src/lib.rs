//! What the processes of a region tell each other, and how it is kept.
//!
//! Processes exchange *totals*, never increments: each owns one [`Component`] of a cell and sends
//! the largest total it knows. A store keeps the maximum of each component, so that repeating,
//! losing or reordering messages can neither lose a unit nor count one twice.
//!
//! No sockets, no runtime, no clock: the caller carries the messages. [`MemoryRegion`] is the
//! model of a regional store.

mod memory;
mod region;
mod store;
mod tuning;

pub use memory::{MemoryRegion, MemoryStore};
pub use region::{
    Answered, BreakerState, CallId, Effect, Outcome, Refresh, Region, RegionCounts, Waiter,
};
pub use store::{
    Calling, CellName, CellReply, Component, Record, RegionalStore, Reply, Shard, ShardCall,
    ShardReply, StoreError, Token,
};
pub use tuning::{BreakerTuning, Tuning};
