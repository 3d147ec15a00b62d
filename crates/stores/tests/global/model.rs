//! The databases give the replies of the model, whatever is sent.

use proptest::prelude::*;
use tidegate_convergence::{
    Batch, GAPS_MAX, GlobalCall, GlobalError, Import, MemoryGlobe, RegionName, RegionNumber,
};
use tokio::time::Instant;

use crate::support::{Place, Store};

/// How far [`Step::Lapse`] moves the clock: no multiple of it is near the time after which a name
/// is free.
const LAPSE_MS: u64 = 12_000;

#[derive(Clone, Debug)]
enum Step {
    Call(GlobalCall),
    /// Time passes.
    Lapse,
}

/// Numbers that are special to somebody.
fn numbers() -> impl Strategy<Value = u64> {
    let edges = [1 << 53, (1 << 53) + 1, 1 << 63, u64::MAX];
    let edge = (0..edges.len(), 0..2_u64).prop_map(move |(index, less)| edges[index] - less);
    prop_oneof![6 => 0..12_u64, 2 => edge, 1 => any::<u64>()]
}

fn ids() -> impl Strategy<Value = u64> {
    prop_oneof![12 => 0..16_u64, 1 => numbers()]
}

fn batches() -> impl Strategy<Value = Batch> {
    let payload = proptest::collection::vec(any::<u8>(), 0..20);
    let times = (numbers(), numbers());
    (0..3_u32, any::<bool>(), any::<u64>(), times, payload).prop_map(
        |(region, repeats, nonce, (written_ms, expires_ms), payload)| {
            let region = RegionNumber(region);
            Batch { region, repeats, nonce, written_ms, expires_ms, payload }
        },
    )
}

fn most() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..6_usize, 2 => Just(100), 1 => Just(usize::MAX)]
}

fn imports() -> impl Strategy<Value = Import> {
    let gaps = proptest::collection::vec(ids(), 0..=GAPS_MAX);
    (ids(), gaps, any::<bool>(), most()).prop_map(|(from, gaps, repeats, rows_max)| Import {
        from,
        gaps,
        repeats,
        rows_max,
    })
}

fn names() -> impl Strategy<Value = (RegionName, u128)> {
    // Names that a database with an opinion about text would take for the same.
    let name = (0..3_usize).prop_map(|n| RegionName::new(["eu", "EU", "eu."][n]).unwrap());
    let identity = (0..3_usize).prop_map(|n| [0, 7, u128::MAX][n]);
    (name, identity)
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let call = prop_oneof![
        3 => names().prop_map(|(name, identity)| GlobalCall::Register { name, identity }),
        1 => names().prop_map(|(name, identity)| GlobalCall::Release { name, identity }),
        8 => batches().prop_map(GlobalCall::Publish),
        6 => imports().prop_map(GlobalCall::Import),
        2 => (0..3_u32, ids(), numbers(), most()).prop_map(|(region, up_to, before, rows_max)| {
            let region = RegionNumber(region);
            GlobalCall::Trim { region, up_to, written_before_ms: before, rows_max }
        }),
        1 => (numbers(), most()).prop_map(|(expired_before_ms, rows_max)| {
            GlobalCall::Collect { expired_before_ms, rows_max }
        }),
    ];
    let step = prop_oneof![20 => call.prop_map(Step::Call), 1 => Just(Step::Lapse)];
    proptest::collection::vec(step, 1..40)
}

async fn run(place: &Place, store: &Store, steps: &[Step]) {
    place.clear().await;
    let (mut model, start, mut lapsed_ms) = (MemoryGlobe::default(), Instant::now(), 0);
    for step in steps {
        let call = match step {
            Step::Call(call) => call,
            Step::Lapse => {
                lapsed_ms += LAPSE_MS;
                let seen = format!("SET seen_at = seen_at - {LAPSE_MS} WHERE seen_at > 0");
                place.sql(&format!("UPDATE tidegate_regions {seen}")).await;
                continue;
            }
        };
        let passed_ms = u64::try_from(start.elapsed().as_millis()).unwrap();
        let theirs = store.call(call).await;
        let ours = model.call(call, passed_ms + lapsed_ms);
        match (&theirs, &ours) {
            (
                Err(GlobalError::NameTaken { seen_ms_ago: theirs }),
                Err(GlobalError::NameTaken { seen_ms_ago: ours }),
            ) => assert!(theirs.abs_diff(*ours) < LAPSE_MS / 3, "{theirs} {ours}"),
            _ => assert_eq!(theirs, ours, "{call:?} in {steps:?}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// One case here is many inside: they share a server.
    #[test]
    fn replies_equal_those_of_the_model(all in proptest::collection::vec(steps(), 60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for place in Place::all() {
                let store = place.store();
                store.migrate().await.unwrap();
                for steps in &all {
                    run(&place, &store, steps).await;
                }
            }
        });
    }
}
