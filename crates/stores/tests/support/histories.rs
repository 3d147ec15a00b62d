//! Random histories that share one world: each failure is made small and names its seed.

use std::fmt::Debug;

use proptest::prelude::any;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

/// Names the seed of the histories, to repeat them.
const SEED: &str = "TIDEGATE_HISTORIES";
/// How often a history that fails is tried without something that it may not need.
const SHRINKS_MAX: u32 = 400;
/// How long that may take: a failure is shown in any case.
const SHRINK_MS_MAX: u32 = 60_000;

/// Runs a test on so many histories. It panics where one fails.
pub(crate) fn run<S>(cases: u32, histories: &S, test: impl Fn(&S::Value))
where
    S: Strategy,
    S::Value: Debug,
{
    let named = std::env::var(SEED).ok().map(|text| text.parse().expect("a number"));
    let drawn = || any::<u64>().new_tree(&mut TestRunner::default()).unwrap().current();
    let seed: u64 = named.unwrap_or_else(drawn);
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: SHRINKS_MAX,
        max_shrink_time: SHRINK_MS_MAX,
        ..Config::default()
    };
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let ran = TestRunner::new_with_rng(config, rng).run(histories, |history| {
        test(&history);
        Ok(())
    });
    if let Err(why) = ran {
        panic!("{why}\nagain: {SEED}={seed}");
    }
}
