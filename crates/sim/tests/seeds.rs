//! Many seeds, those that once failed, and mistakes that they must find.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use tidegate_sim::{Coverage, Options, Report, corpus, in_jobs, jobs_max, run};

/// All of them in release, as `cargo xtask test` runs them; a few where every step is checked.
const SEEDS: u64 = if cfg!(debug_assertions) { 60 } else { 1_000 };

/// Runs the first seeds, on all cores.
fn each(take: impl FnMut((u64, Report))) {
    let begun = AtomicU64::new(0);
    let next = || Some(begun.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < SEEDS);
    in_jobs(jobs_max(), next, |seed| (seed, run(Options::of(seed))), take);
}

/// And every fault strikes into everything that it can strike into.
#[test]
fn no_seed_breaks_a_promise() {
    let (mut events, mut vacuous, mut bounded) = (Vec::new(), 0, 0);
    let mut coverage = Coverage::default();
    each(|(seed, report)| {
        assert_eq!(report.broken, None, "cargo xtask sim --seed {seed}");
        let (whole_ms, settled_ms) = (report.whole_ms, report.settled_ms);
        assert!(whole_ms <= 10_000 && settled_ms <= 60_000, "P-11, seed {seed}: {report:?}");
        bounded += u64::from(report.granted > 0);
        vacuous += u64::from(report.is_vacuous());
        events.push(report.events);
        coverage.add(&report.faults);
    });
    events.sort_unstable();
    assert_eq!(events.len() as u64, SEEDS);
    assert!(vacuous * 10 <= SEEDS, "{vacuous} of {SEEDS} runs exercised nothing");
    let global = (0..SEEDS).filter(|seed| Options::of(*seed).is_global()).count() as u64;
    assert!((SEEDS / 3..SEEDS * 2 / 3).contains(&global), "{global} of {SEEDS} have a globe");
    assert!(
        (SEEDS / 3..SEEDS * 2 / 3).contains(&bounded),
        "{bounded} of {SEEDS} ask for something"
    );
    let median = events[events.len() / 2];
    assert!(median >= 5_000 || SEEDS < 1_000, "a median of {median} events");
    let gaps = coverage.gaps();
    assert!(gaps.is_empty() || SEEDS < 1_000, "never met, or met in vain: {gaps:?}\n{coverage}");
}

#[test]
fn worlds_of_all_sizes_occur() {
    let shapes: Vec<_> = (0..1_000).map(|seed| Options::of(seed).shape).collect();
    for regions in 1..=10 {
        assert!(shapes.iter().any(|shape| shape.regions() == regions), "{regions} regions");
    }
    for nodes in 1..=6 {
        let alone = shapes.iter().any(|shape| (shape.regions(), shape.nodes()) == (1, nodes));
        assert!(alone, "one region of {nodes} nodes");
    }
    assert!(shapes.iter().any(|shape| shape.nodes() >= 40), "many nodes");
    let most = |seed| u64::from(Options::of(seed).regions_max);
    let counted = (0..1_000).all(|seed| most(seed) >= Options::of(seed).shape.regions() as u64);
    assert!(counted, "a region knows how many there may be");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..SEEDS / 20 {
        assert_eq!(run(Options::of(seed)), run(Options::of(seed)), "INV-36, seed {seed}");
    }
    assert_ne!(run(Options::of(1)).trace, run(Options::of(2)).trace);
}

#[test]
fn what_once_failed_does_not_fail_again() {
    let all = corpus().unwrap();
    let begun = AtomicUsize::new(0);
    let next = || all.get(begun.fetch_add(1, Ordering::Relaxed));
    let mut ran = 0;
    in_jobs(
        jobs_max(),
        next,
        |past| (past, run(past.options.clone())),
        |(past, report)| {
            ran += 1;
            assert_eq!(report.broken, None, "{}: it once found: {}", past.line, past.found);
        },
    );
    assert_eq!(ran, all.len());
}

/// A workspace is answered the same, whatever another one does.
#[test]
fn a_flood_of_others_changes_no_answer() {
    let (mut admitted, mut denied) = (0, 0);
    for seed in 0..SEEDS / 10 {
        let [beside, alone] = tidegate_sim::beside_a_flood(seed, true);
        assert_eq!(beside, alone, "INV-35, seed {seed}");
        admitted += alone.iter().filter(|admitted| **admitted).count();
        denied += alone.iter().filter(|admitted| !**admitted).count();
    }
    assert!(admitted > 100 && denied > 100, "{admitted} admitted, {denied} denied");
    // Nobody is protected from a flood of their own: this is what is seen if it is not kept apart.
    let differs = |seed: &u64| {
        let [beside, alone] = tidegate_sim::beside_a_flood(*seed, false);
        beside != alone
    };
    let differ = (0..10).filter(differs).count();
    assert!(differ > 0, "a flood of its own changes nothing either");
}

/// A repeat command means the run that printed it.
#[test]
fn what_is_printed_repeats_the_run() {
    for seed in 0..200 {
        let full = Options::of(seed);
        let cut = Options { requests: full.requests / 2, deny_percent: 7, aims: false, ..full };
        for options in [Options::of(seed), cut] {
            let command = options.command();
            let line = command.strip_prefix("cargo xtask sim ").unwrap();
            assert_eq!(tidegate_sim::Cut::line(line).unwrap(), options, "{command}");
        }
    }
}

/// Each is found by its seed, which the code without it passes.
#[cfg(feature = "planted")]
#[test]
fn planted_mistakes_are_found() {
    use tidegate_sim::canaries::{CANARIES, run_planted};

    for (mistake, seed) in CANARIES {
        let report = run_planted(Options::of(seed), Some(mistake));
        assert!(report.broken.is_some(), "{mistake:?}: record another seed, by `--canaries`");
        let report = run_planted(Options::of(seed), None);
        assert_eq!(report.broken, None, "{mistake:?}: seed {seed} without it");
    }
}

/// A failing run is made smaller, and still fails by the command that is printed.
#[cfg(feature = "planted")]
#[test]
fn failures_are_made_small() {
    use tidegate_limiter::planted::Planted;
    use tidegate_sim::canaries::{CANARIES, run_planted};
    use tidegate_sim::shrink;

    let planted = |options| run_planted(options, Some(Planted::DropDirty));
    let (_, seed) = CANARIES.into_iter().find(|(of, _)| *of == Planted::DropDirty).unwrap();
    let whole = Options::of(seed);
    let (smaller, broken) = shrink(&whole, planted);
    assert!(broken.is_some() && smaller.requests < whole.requests / 2, "{smaller}");
    assert_eq!(planted(smaller.clone()).broken, broken);
    assert!(smaller.command().contains(&format!("--seed {seed} ")), "{}", smaller.command());
}
