//! Many seeds, and mistakes that they must find.

use tidegate_sim::{Options, run};

/// All of them in release, as `cargo xtask test` runs them; a few where every step is checked.
const SEEDS: u64 = if cfg!(debug_assertions) { 60 } else { 500 };

#[test]
fn no_seed_breaks_a_promise() {
    let (mut events, mut vacuous, mut bounded) = (Vec::new(), 0, 0);
    for seed in 0..SEEDS {
        let report = run(Options::of(seed));
        assert_eq!(report.broken, None, "cargo xtask sim --seed {seed}");
        bounded += u64::from(report.granted > 0);
        vacuous += u64::from(report.is_vacuous());
        events.push(report.events);
    }
    events.sort_unstable();
    assert!(vacuous * 10 <= SEEDS, "{vacuous} of {SEEDS} runs exercised nothing");
    let global = (0..SEEDS).filter(|seed| Options::of(*seed).is_global()).count() as u64;
    assert!((SEEDS / 3..SEEDS * 2 / 3).contains(&global), "{global} of {SEEDS} have a globe");
    assert!(
        (SEEDS / 3..SEEDS * 2 / 3).contains(&bounded),
        "{bounded} of {SEEDS} ask for something"
    );
    let median = events[events.len() / 2];
    assert!(median >= 5_000 || SEEDS < 500, "a median of {median} events");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..SEEDS / 20 {
        assert_eq!(run(Options::of(seed)), run(Options::of(seed)), "INV-36, seed {seed}");
    }
    assert_ne!(run(Options::of(1)).trace, run(Options::of(2)).trace);
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
