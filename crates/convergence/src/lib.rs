//! What the processes of a region tell each other, and how it is kept.
//!
//! Processes exchange *totals*, never increments: each owns one [`Component`] of a cell and sends
//! the largest total it knows. A store keeps the maximum of each component, so that repeating,
//! losing or reordering messages can neither lose a unit nor count one twice.
//!
//! No sockets, no runtime, no clock: the caller carries the messages. [`MemoryRegion`] is the
//! model of a regional store, and the store of a region that is one process.

mod memory;

pub use memory::{CellName, Component, MemoryRegion, Recorded};
