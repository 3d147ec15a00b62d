//! Those who want more than their limit: trials with one subject and nobody else, on stores in
//! memory.

use super::arrivals;
use super::chance::Chance;
use super::feed::Feed;
use super::fleet::{Fleet, Pattern};
use super::load::sorted;
use super::ours::{Ours, Publisher};
use super::rfc::{Rfc, Table};
use super::world::{Scheme, World};
use crate::Failure;
use crate::figures::{Figures, quantile, three_digits};

/// A multiple of the window, in 2023.
const START_UNIX_MS: u64 = 1_700_000_040_000;
const WINDOW_MS: u64 = 60_000;
/// Windows of a trial; the first begins before it.
const WINDOWS: u64 = 4;
const TRIALS: u64 = 50;
/// A request of a limit of 10 is a tenth of it: stated, and no target.
const LIMITS: [u64; 3] = [1_000, 100, 10];

/// What is tried.
struct Trick {
    name: &'static str,
    pattern: Pattern,
    regions: usize,
    /// The most that its 99th percentile may come to.
    most: Option<f64>,
}

const fn trick(name: &'static str, pattern: Pattern, most: Option<f64>) -> Trick {
    Trick { name, pattern, regions: 10, most }
}

const TRICKS: [Trick; 13] = [
    trick("even 3/window", Pattern::Even(3.0), Some(1.3)),
    trick("even 10/window", Pattern::Even(10.0), Some(1.3)),
    trick("floor-aware", Pattern::FloorAware, Some(1.3)),
    trick("sync 0.1/s", Pattern::Sync(0.1), None),
    trick("sync 0.3/s", Pattern::Sync(0.3), None),
    trick("sync 1/s", Pattern::Sync(1.0), Some(1.7)),
    trick("sync 3/s", Pattern::Sync(3.0), Some(2.8)),
    trick("sync 10/s", Pattern::Sync(10.0), None),
    Trick { regions: 2, ..trick("two regions 3/window", Pattern::Even(3.0), None) },
    Trick { regions: 2, ..trick("two regions 0.3/s", Pattern::Sync(0.3), None) },
    trick("hop 1 s 0.2/s", Pattern::Hop(0.2, 1.0), None),
    trick("hop 15 s 0.2/s", Pattern::Hop(0.2, 15.0), None),
    trick("hop 2 s 1/s", Pattern::Hop(1.0, 2.0), None),
];

/// Tries everything against both schemes.
pub(crate) fn run(smoke: bool, figures: &mut Figures) -> Result<(), Failure> {
    for limit in LIMITS {
        for trick in &TRICKS {
            try_one(smoke, figures, limit, trick)?;
        }
    }
    Ok(())
}

fn try_one(smoke: bool, figures: &mut Figures, limit: u64, trick: &Trick) -> Result<(), Failure> {
    let (mut ours, mut rfc) = (Vec::new(), Vec::new());
    for seed in 0..if smoke { 1 } else { TRIALS } {
        let mut world = world(limit, trick, seed)?;
        let mut scheme = Rfc::new(&world, Table::Memory(std::collections::BTreeMap::new()));
        rfc.extend(attempt(&mut world, &mut scheme)?);
        let mut world = self::world(limit, trick, seed)?;
        let mut scheme = Ours::new(&mut world, Feed::memory(), Publisher::Leader)?;
        ours.extend(attempt(&mut world, &mut scheme)?);
    }
    let case = format!("{} limit {limit}", trick.name);
    let (ours, rfc) = (sorted(&ours), sorted(&rfc));
    figures.spread(&case, "rfc", &rfc);
    figures.spread(&case, "tidegate", &ours);
    if let Some(most) = trick.most.filter(|_| limit >= 100) {
        let p99 = quantile(&ours, 0.99);
        let measured = three_digits(p99).to_string();
        figures.target(&case, format!("p99 <= {most}"), measured, p99 <= most);
    }
    Ok(())
}

fn world(limit: u64, trick: &Trick, seed: u64) -> Result<World, Failure> {
    let mut chance = Chance::new(seed.wrapping_mul(7_919) + 11);
    let first = chance.below(10);
    let regions: Vec<_> = (0..trick.regions).map(|rank| ((first + rank) % 10, 1.0)).collect();
    let mut fleet = Fleet::default();
    fleet.add((WINDOW_MS, limit), trick.pattern, &regions, chance.unit())?;
    let start_unix_ms = START_UNIX_MS + chance.roll() % WINDOW_MS;
    let mut world = World::new(fleet, chance.roll(), start_unix_ms, WINDOWS * WINDOW_MS);
    arrivals::begin(&mut world, 1_000);
    Ok(world)
}

/// The most that each window came to.
fn attempt(world: &mut World, scheme: &mut impl Scheme) -> Result<Vec<f64>, Failure> {
    scheme.begin(world)?;
    arrivals::run(world, scheme, u64::MAX)?;
    Ok(std::mem::take(&mut world.seen.worst))
}
