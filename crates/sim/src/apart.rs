//! The same traffic twice: beside a flood of another workspace, and without it.

use crate::fault::{Fault, Faults};
use crate::options::{Options, Traffic};
use crate::shape::Shape;
use crate::world::World;

/// INV-35: how the requests of a workspace are answered, in the order in which they came: beside a
/// flood in a table with little memory, and without it. If the flood is of another workspace, they
/// are to be the same.
///
/// One process and a network that always takes the same time: else a message of the flood that
/// draws a latency changes the latencies of all that come after it, and this is a difference
/// of the simulation. Nobody is asked for grants, because an ask waits its turn behind others.
#[must_use]
pub fn beside_a_flood(seed: u64, of_another: bool) -> [Vec<bool>; 2] {
    // The flood of an even seed is of another workspace.
    let full = Options::of(2 * seed + u64::from(!of_another));
    let options = Options {
        shape: Shape::dealt(1, 1),
        regions_max: 1,
        private: false,
        faults: Faults::default().with(Fault::Flood),
        latency_us: (500, 500),
        late_readings: true,
        batch_percent: 0,
        bounded_percent: 0,
        traffic: Traffic::Steady,
        // Two dozen subjects, of the 200 of the flood.
        table_bytes: 20_000,
        ..full
    };
    [false, true].map(|muted| {
        let mut world = World::new(options.clone());
        world.answers = Some(Vec::new());
        world.muted = muted;
        world.run_until_healed();
        let mut answers = world.answers.take().unwrap_or_default();
        answers.sort_unstable();
        answers.into_iter().map(|(_, admitted)| admitted).collect()
    })
}
