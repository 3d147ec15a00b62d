//! The world in one thread: processes, a regional store and a network, all from one seed.
//!
//! The processes are production code: [`tidegate_limiter::Table`] decides and
//! [`tidegate_convergence::MemoryRegion`] records. Time, chance and the network are simulated, so
//! a run is a function of its seed: the same seed gives the same trace, and a failure is repeated
//! by its number.

mod chance;
mod world;

pub use chance::Chance;
pub use world::{Fault, Report, World};
