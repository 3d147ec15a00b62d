//! The drivers of the stores: the only crate that may name Redis, MySQL or SQLite.
//!
//! It holds no driver yet: one process needs none. What a regional store has to do is written
//! down as [`MemoryRegion`], which every driver is tested against.

pub use tidegate_convergence::MemoryRegion;
