//! Mistakes planted on purpose, and the seeds that show them.

use tidegate_limiter::planted::{self, Planted};

use crate::options::Options;
use crate::report::Report;
use crate::world::World;

/// Within so many seeds every mistake must be found.
pub const WITHIN: u64 = 10_000;

/// The median over all mistakes may take so many: a tenth of what `cargo xtask test` runs would
/// then show half of them.
pub const MEDIAN: u64 = 500;

/// Every mistake, and a seed that shows it: the first one, or one that is seen by an oracle that
/// sees no other.
pub const CANARIES: [(Planted, u64); 65] = [
    (Planted::MaxMerge, 0),
    (Planted::Increments, 0),
    (Planted::EchoTotal, 0),
    (Planted::DropDirty, 8),
    (Planted::NoResend, 0),
    (Planted::NoGenerations, 69),
    (Planted::SameComponent, 0),
    (Planted::StrictBySequence, 2),
    (Planted::FailedReadFresh, 0),
    (Planted::NoTtl, 1),
    (Planted::LongTtl, 1),
    (Planted::FloatWeights, 623),
    (Planted::SubtractRollback, 0),
    (Planted::CancelledFlight, 2),
    (Planted::RolloverReset, 1),
    (Planted::AckSent, 0),
    (Planted::NoPrevious, 0),
    (Planted::FreshOnArrival, 0),
    (Planted::OwnAdded, 0),
    (Planted::OwnInForeign, 0),
    (Planted::OwnHidesMine, 0),
    (Planted::ForeignRepublished, 1),
    (Planted::PublishUnconfirmed, 6),
    (Planted::PublishedEarly, 3),
    (Planted::DropUnserved, 1),
    (Planted::PublishServedOnly, 38),
    (Planted::ExpiredEarly, 0),
    (Planted::WallClockExpiry, 2),
    (Planted::CursorSkips, 0),
    (Planted::CursorUnchecked, 44),
    (Planted::Overwrite, 6),
    (Planted::NoRepost, 1),
    (Planted::NoGuard, 21),
    (Planted::SameOperation, 0),
    (Planted::ForgetUnheard, 0),
    (Planted::EndedAskIgnored, 292),
    (Planted::AnyToken, 0),
    (Planted::NoCredit, 0),
    (Planted::OutageAdmits, 33),
    (Planted::OutageForgets, 0),
    (Planted::AnswerOfNow, 18),
    (Planted::AskedAside, 1),
    (Planted::LongOpen, 27),
    (Planted::LazyReplay, 1),
    (Planted::RestingLeader, 650),
    (Planted::DegradedUnsaid, 1),
    (Planted::ReservedDenied, 4),
    (Planted::LateAnswer, 1),
    (Planted::TwiceTheBudget, 8),
    (Planted::AnyOfBatch, 6),
    (Planted::ReplayBeside, 0),
    (Planted::UnboundedReplays, 2),
    (Planted::OwnUnknown, 1),
    (Planted::NeverStale, 0),
    (Planted::EndlessGaps, 6),
    (Planted::GrantIsClash, 71),
    (Planted::NoLastWords, 60),
    (Planted::LooksAtOnce, 4),
    (Planted::TwoAsks, 0),
    (Planted::EachReads, 0),
    (Planted::ManyKept, 27),
    (Planted::EagerTokens, 0),
    (Planted::NamelessWoken, 0),
    (Planted::LastWrite, 0),
    (Planted::ToldAgain, 1),
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
