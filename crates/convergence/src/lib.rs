//! What the processes of a region tell each other, and how it is kept.
//!
//! Processes exchange *totals*, never increments: each owns one [`Component`] of a cell and sends
//! the largest total it knows. A store keeps the maximum of each component, so that repeating,
//! losing or reordering messages can neither lose a unit nor count one twice.
//!
//! No sockets, no runtime, no clock: the caller carries the messages. [`MemoryRegion`] is the
//! model of a regional store.

mod ask;
mod board;
mod breaker;
mod dice;
mod global;
mod globe;
mod memory;
mod pack;
mod region;
mod store;
mod tuning;

pub use ask::{ANSWER_LIFE_MS, Ask, AskCell, AskReply, Grant, SUM_MAX, Unit, Want};
pub use board::{
    BoardCall, BoardReply, Boarding, IDENTITY_LIFE_MS, POSTS_LIFE_MS, POSTS_MAX, Post,
};
pub use breaker::BreakerState;
pub use global::{
    Batch, GAPS_MAX, GlobalCall, GlobalCalling, GlobalError, GlobalReply, GlobalStore, Import,
    NAME_LAPSE_MS, PAYLOAD_MAX, REGION_NAME_MAX, RENEW_MS, RegionName, RegionNameError,
    RegionNumber, Row,
};
pub use globe::{Globe, GlobeCounts, GlobeEffect, GlobeId, GlobeOptions, GlobeView, PublishedCell};
pub use memory::{MemoryGlobalStore, MemoryGlobe, MemoryRegion, MemoryStore, PrivateStore};
pub use pack::{Counter, pack, unpack};
pub use region::{
    Answered, Asked, CallId, Effect, Granted, Outcome, Refresh, Region, RegionCounts, Touched,
    Waiter,
};
pub use store::{
    Calling, CellName, CellReply, Component, PRESENCE_LIFE_MS, Record, RegionalStore, Reply, Shard,
    ShardCall, ShardReply, StoreError, Token,
};
pub use tuning::{BreakerTuning, GlobeTuning, Rule, Tuning};
