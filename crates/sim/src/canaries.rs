//! Mistakes planted on purpose, and the seeds that show them.

use tidegate_limiter::planted::{self, Planted};

use crate::options::Options;
use crate::report::Report;
use crate::world::World;

/// Within so many seeds every mistake must be found.
pub const WITHIN: u64 = 2_000;

/// Every mistake, and a seed that shows it.
pub const CANARIES: [(Planted, u64); 18] = [
    (Planted::MaxMerge, 0),
    (Planted::Increments, 0),
    (Planted::EchoTotal, 8),
    (Planted::DropDirty, 0),
    (Planted::NoResend, 2),
    (Planted::NoGenerations, 59),
    (Planted::SameComponent, 0),
    (Planted::StrictBySequence, 0),
    (Planted::FailedReadFresh, 0),
    (Planted::NoTtl, 0),
    (Planted::LongTtl, 0),
    (Planted::FloatWeights, 140),
    (Planted::SubtractRollback, 0),
    (Planted::CancelledFlight, 2),
    (Planted::RolloverReset, 0),
    (Planted::AckSent, 0),
    (Planted::NoPrevious, 0),
    (Planted::FreshOnArrival, 0),
];

/// The mistake of that name.
#[must_use]
pub fn by_name(name: &str) -> Option<Planted> {
    let all = CANARIES.iter().map(|(mistake, _)| *mistake);
    all.into_iter().find(|mistake| format!("{mistake:?}").eq_ignore_ascii_case(name))
}

/// Runs a seed with a mistake.
#[must_use]
pub fn run_planted(options: Options, mistake: Option<Planted>) -> Report {
    planted::plant(mistake);
    let report = World::new(options).run();
    planted::plant(None);
    report
}

/// The first seed that shows a mistake.
#[must_use]
pub fn find(mistake: Planted, within: u64, inside: bool) -> Option<(u64, Report)> {
    (0..within).find_map(|seed| {
        let options = Options { inside, ..Options::of(seed) };
        let report = run_planted(options, Some(mistake));
        report.broken.is_some().then_some((seed, report))
    })
}
