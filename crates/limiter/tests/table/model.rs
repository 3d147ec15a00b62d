//! The table against a model that is small enough to be obviously right: one thread, plain
//! numbers.
//!
//! While the clock behaves, everything that every answer says is the model's. A clock that jumps
//! is judged from the outside, by what is promised of it.

mod jumps;
mod pair;
mod reference;

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use pair::{Exercised, Pair};
use reference::Ask;

/// What happens to the table and to the model alike.
#[derive(Clone, Debug)]
enum Step {
    Single(Ask),
    Batch(Vec<Ask>),
    Pass(u64),
    /// A request whose reading of the clock is this old.
    Late(Ask, u64),
    /// Peers and other regions are heard of, for the current cell, and whether the regional store
    /// has recorded it.
    Told {
        ask: Ask,
        peers: u64,
        foreign: u64,
        recorded: bool,
    },
    Sweep,
    Flood(Flood),
}

/// Many new subjects of one workspace, each of which asks for 1 once.
#[derive(Clone, Copy, Debug)]
struct Flood {
    workspace: usize,
    window: usize,
    many: usize,
    limit: u64,
    recorded: bool,
}

fn any_ask() -> impl Strategy<Value = Ask> {
    (0..4_usize, 0..2_usize, prop_oneof![0..=12_u64, Just(1_000)], 0..=6_u64)
        .prop_map(|(identifier, window, limit, cost)| Ask { identifier, window, limit, cost })
}

fn any_time() -> impl Strategy<Value = u64> {
    prop_oneof![0..100_u64, 0..1_500_u64, 900..7_000_u64]
}

/// A limit of 1 is exhausted at once, one of 2 is half used, no more.
fn any_flood(workspaces: std::ops::Range<usize>) -> impl Strategy<Value = Step> {
    let limit = prop_oneof![Just(1), Just(2), Just(1_000)];
    (workspaces, 0..2_usize, 1..40_usize, limit, any::<bool>()).prop_map(
        |(workspace, window, many, limit, recorded)| {
            Step::Flood(Flood { workspace, window, many, limit, recorded })
        },
    )
}

fn any_step(loud: std::ops::Range<usize>) -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => any_ask().prop_map(Step::Single),
        3 => proptest::collection::vec(any_ask(), 1..6).prop_map(Step::Batch),
        4 => any_time().prop_map(Step::Pass),
        1 => (any_ask(), 0..9_000_u64).prop_map(|(ask, late_ms)| Step::Late(ask, late_ms)),
        2 => (any_ask(), 0..8_u64, 0..8_u64, any::<bool>()).prop_map(
            |(ask, peers, foreign, recorded)| Step::Told { ask, peers, foreign, recorded }
        ),
        1 => Just(Step::Sweep),
        1 => any_flood(loud),
    ]
}

/// Whether there is a regional store, and what happens. One of the workspaces floods, or both.
fn any_history() -> impl Strategy<Value = (bool, Vec<Step>)> {
    let loud = prop_oneof![Just(0..1_usize), Just(1..2), Just(0..2)];
    let steps = loud.prop_flat_map(|loud| proptest::collection::vec(any_step(loud), 1..80));
    (any::<bool>(), steps)
}

/// Tries that many histories. Failures are repeated by their printed input, not by a file of seeds.
fn for_all<S: Strategy>(cases: u32, histories: &S, holds: impl Fn(S::Value)) {
    let default = ProptestConfig::default();
    let config = ProptestConfig { cases, failure_persistence: None, ..default };
    let outcome = TestRunner::new(config).run(histories, |history| {
        holds(history);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Singles, batches, rollovers, limit changes, late requests, what is told by peers and regions,
/// sweeps, floods and the evictions and refusals they cause: every answer is the model's.
#[test]
fn table_equals_model() {
    let total = Cell::new(Exercised::default());
    for_all(10_000, &any_history(), |(regional, steps)| {
        let mut pair = Pair::new(regional, total.get());
        for step in steps {
            pair.step(step);
        }
        total.set(pair.exercised);
    });
    let total = total.get();
    assert!(total.is_enough(), "a run that exercised nothing proves nothing: {total:?}");
}
