//! What the processes of a region tell each other, and how it is kept.
//!
//! Processes exchange *totals*, never increments: each owns one [`Component`] of a cell and sends
//! the largest total it knows. A store keeps the maximum of each component, so that repeating,
//! losing or reordering messages can neither lose a unit nor count one twice.
//!
//! ```
//! use tidegate_convergence::{Effect, MemoryRegion, Refresh, Region, Tuning};
//! # use tidegate_limiter::{Answer, Cost, Limit, Part, RequestError, Subject, Window};
//! use tidegate_limiter::{Decision, Now, Options, Request, Seed, Source, Table};
//!
//! /// A process: what it decides on, and how it speaks with its region.
//! struct Process(Table, Region);
//!
//! impl Process {
//!     fn new(incarnation: u128) -> Self {
//!         let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
//!         Self(table, Region::new(Tuning::default(), incarnation, 1))
//!     }
//!
//!     /// Does what is due: here the store is called at once, and always answers.
//!     fn work(&mut self, store: &mut MemoryRegion, now: Now) {
//!         let Self(table, region) = self;
//!         region.tick(table, now);
//!         let mut effects = Vec::new();
//!         region.take_effects(&mut effects);
//!         for effect in effects {
//!             if let Effect::Call { id, call, .. } = effect {
//!                 let reply = store.call(&call, now.monotonic_ms());
//!                 region.replied(table, id, Ok(reply), now);
//!             }
//!         }
//!     }
//!
//!     /// Decides on a subject that nothing is known of here: the region is asked first.
//!     fn check(&mut self, request: &Request<'_>, store: &mut MemoryRegion, now: Now) -> Answer {
//!         let Decision::Refresh(need) = self.0.decide_or_refresh(request, now) else {
//!             unreachable!()
//!         };
//!         let asked = self.1.refresh(&self.0, &[need], now);
//!         self.work(store, now);
//!         self.0.decide_refreshed(request, matches!(asked, Refresh::Wait(_)), now)
//!     }
//! }
//!
//! # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
//! # let subject = Subject::new(part, part, part, window);
//! # let request = Request::new(subject, Limit::new(10), Cost::new(6)?);
//! let (mut here, mut there) = (Process::new(1), Process::new(2));
//! let (mut store, now) = (MemoryRegion::new(1), Now::new(1_700_000_040_000, 10_000));
//! let answer = here.check(&request, &mut store, now); // 6 of 10
//! assert!(answer.admitted() && answer.source() == Source::Region);
//! here.work(&mut store, now);
//! assert!(here.1.is_clean(), "the store knows of it");
//! assert!(!there.check(&request, &mut store, now).admitted(), "6 + 6 of 10");
//! # Ok::<(), RequestError>(())
//! ```
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

pub use ask::{
    ANSWER_LIFE_MS, ASK_CELLS_MAX, ASK_WANTS_MAX, Ask, AskCell, AskReply, Grant, SUM_MAX, Unit,
    Want,
};
pub use board::{
    BoardCall, BoardReply, Boarding, IDENTITY_LIFE_MS, POSTS_LIFE_MS, POSTS_MAX, Post,
};
pub use breaker::BreakerState;
pub use global::{
    Batch, CALL_ROWS_MAX, GAPS_MAX, GlobalCall, GlobalCalling, GlobalError, GlobalReply,
    GlobalStore, Import, NAME_LAPSE_MS, PAYLOAD_MAX, REGION_NAME_MAX, RENEW_MS, RegionName,
    RegionNameError, RegionNumber, Row,
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
