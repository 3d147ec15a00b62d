//! The world in one thread: processes, their stores and a network, all from one seed.
//!
//! The processes are production code: [`tidegate_limiter::Table`] decides,
//! [`tidegate_convergence::Region`] converses, [`tidegate_convergence::MemoryRegion`] records.
//! Half of the seeds have several regions: there [`tidegate_convergence::Globe`] speaks with the
//! others through one [`tidegate_convergence::MemoryGlobe`].
//! Time, chance, the network and what goes wrong are simulated, so a run is a function of its seed:
//! the same seed gives the same trace, and a failure is repeated by its number.
//!
//! 1. [`Options`]: what a seed expands into.
//! 2. [`World`]: the events. Traffic and faults, then everything is mended, then an audit.
//! 3. `ghost`, `truth`: what should be, reckoned apart from the production code.
//! 4. `asking`, `grants`: what is claimed until the region grants it.
//! 5. `abroad`: what a process says to other regions and hears of them.
//! 6. `oracles`, `audit`: the comparison, after every event and at the end.
//! 7. [`Fleet`]: the same processes without oracles, for calls that somebody else brings.
//! 8. [`Coverage`], [`corpus`]: what faults strike into, and what they found before.

mod abroad;
mod aim;
mod apart;
mod arrive;
mod asking;
mod audit;
#[cfg(feature = "planted")]
pub mod canaries;
mod chance;
mod corpus;
mod coverage;
mod cut;
mod decide;
mod doubt;
mod drive;
mod fault;
mod faults;
mod fleet;
mod ghost;
mod grants;
mod jobs;
mod judge;
mod node;
mod options;
mod oracles;
mod overshoot;
mod plant;
mod promises;
mod queue;
mod report;
mod seat;
mod shape;
#[cfg(test)]
mod shown;
mod shrink;
mod span;
mod store;
mod strike;
mod struck;
mod truth;
mod wait;
mod world;

pub use apart::beside_a_flood;
pub use chance::Chance;
pub use corpus::{Past, corpus};
pub use coverage::{Coverage, Moment};
pub use cut::Cut;
pub use fault::{Fault, Faults};
pub use fleet::{Fleet, FleetCheck, FleetOptions, FleetWork, Settled, Trouble, TroubleKind};
pub use jobs::{in_jobs, jobs_max};
pub use options::{Kind, Options, Traffic};
pub use overshoot::{overshoot, overshoot_grid};
pub use promises::{Block, Picture, Promises, promises};
pub use report::{Report, Violation};
pub use shape::Shape;
pub use shrink::shrink;
pub use truth::Cause;
pub use world::World;

/// Runs a seed.
///
/// ```
/// let report = tidegate_sim::run(tidegate_sim::Options::of(1));
/// assert_eq!(report.broken, None);
/// assert_eq!(report, tidegate_sim::run(tidegate_sim::Options::of(1)), "the same trace");
/// ```
#[must_use]
pub fn run(options: Options) -> Report {
    World::new(options).run()
}
