//! Many seeds, and mistakes that they must find.

use tidegate_sim::{Fault, Report, World};

const SEEDS: u64 = 500;

fn run(seed: u64, planted: Fault) -> Report {
    World::new(seed, planted).run()
}

#[test]
fn no_seed_breaks_a_promise() {
    let (mut admitted, mut denied, mut faults) = (0, 0, 0);
    for seed in 0..SEEDS {
        let report = run(seed, Fault::None);
        assert_eq!(report.broken, None, "seed {seed}");
        admitted += report.admitted;
        denied += report.denied;
        faults += report.network_faults;
    }
    assert!(admitted > SEEDS && denied > SEEDS && faults > SEEDS, "the runs exercised something");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in 0..20 {
        assert_eq!(run(seed, Fault::None), run(seed, Fault::None), "INV-36, seed {seed}");
    }
    assert_ne!(run(1, Fault::None).trace, run(2, Fault::None).trace);
}

#[test]
fn planted_mistakes_are_found() {
    for planted in [Fault::EchoTotal, Fault::Increments] {
        let found = (0..SEEDS).find(|seed| run(*seed, planted).broken.is_some());
        assert!(found.is_some_and(|seed| seed < 200), "{planted:?}: first found by {found:?}");
    }
}
