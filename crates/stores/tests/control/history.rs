//! Both databases do what the model does, whatever is changed.

use proptest::prelude::*;
use tidegate_limiter::{Consistency, Outage};
use tidegate_stores::control::{AuditRow, Change, Mode};

use crate::model::Model;
use crate::support::{ACTOR, Place, Store, sorted};

/// Names that a database with an opinion about text would take for the same, or cut off.
const NAMES: [&str; 6] = ["email", "Email", "email ", "e\u{301}", "\u{e9}", "email\0"];

/// Few, so that they meet again.
fn ids(kind: &'static str) -> impl Strategy<Value = String> {
    (0..4_u8).prop_map(move |number| format!("{kind}_{number}"))
}

fn names() -> impl Strategy<Value = String> {
    (0..NAMES.len()).prop_map(|index| NAMES[index].to_owned())
}

/// Numbers that are special to somebody.
fn numbers() -> impl Strategy<Value = u64> {
    let edges = [0, 1, 1 << 53, (1 << 63) - 1, 1 << 63, u64::MAX];
    (0..edges.len()).prop_map(move |index| edges[index])
}

fn of_workspaces() -> impl Strategy<Value = Change> {
    let set =
        (ids("ws"), any::<Option<bool>>(), proptest::option::of(proptest::option::of(numbers())));
    prop_oneof![
        2 => (ids("ws"), names()).prop_map(|(id, name)| Change::AddWorkspace { id, name }),
        1 => set.prop_map(|(id, enabled, requests_per_minute)| {
            Change::SetWorkspace { id, enabled, requests_per_minute }
        }),
    ]
}

fn of_keys() -> impl Strategy<Value = Change> {
    let permissions = proptest::collection::vec(names(), 0..3);
    let rest = (names(), 0..4_u8, permissions, proptest::option::of(numbers()));
    let add = (ids("key"), ids("ws"), rest);
    prop_oneof![
        4 => add.prop_map(|(id, workspace, (name, digest, permissions, expires_ms))| {
            Change::AddKey { id, workspace, name, digest: [digest; 32], permissions, expires_ms }
        }),
        3 => (ids("key"), any::<bool>()).prop_map(|(id, enabled)| Change::SetKey { id, enabled }),
        1 => ids("key").prop_map(|id| Change::RevokeKey { id }),
    ]
}

fn modes() -> impl Strategy<Value = Mode> {
    (0..3_usize).prop_map(|index| [Mode::Enforce, Mode::Shadow, Mode::Off][index])
}

/// What a namespace may say, or that it says nothing.
fn consistencies() -> impl Strategy<Value = Option<Consistency>> {
    let all = [None, Some(Consistency::Fast), Some(Consistency::Bounded)];
    (0..all.len()).prop_map(move |index| all[index])
}

fn of_namespaces() -> impl Strategy<Value = Change> {
    let add = (ids("ws"), proptest::collection::vec((ids("rlns"), names()), 0..4));
    // So many that they are written in several ways.
    let many = (ids("ws"), 0..10_u8, 0..50_u8).prop_map(|(workspace, from, count)| {
        let name = |n| (format!("{workspace}_{n}"), format!("name-{n}"));
        let names = (from..from + count).map(name).collect();
        Change::AddNamespaces { workspace, names }
    });
    let set = (ids("rlns"), proptest::option::of(modes()), proptest::option::of(consistencies()));
    let outages = proptest::option::of(prop_oneof![
        Just(None),
        Just(Some(Outage::Local)),
        Just(Some(Outage::Deny)),
    ]);
    prop_oneof![
        1 => many,
        4 => add.prop_map(|(workspace, names)| Change::AddNamespaces { workspace, names }),
        3 => (set, outages).prop_map(|((id, mode, consistency), outage)| {
            Change::SetNamespace { id, mode, consistency, outage }
        }),
        1 => ids("rlns").prop_map(|id| Change::DeleteNamespace { id }),
        2 => ids("rlns").prop_map(|id| Change::RestoreNamespace { id }),
    ]
}

fn of_overrides() -> impl Strategy<Value = Change> {
    let set = (ids("rlor"), ids("rlns"), names(), numbers(), numbers());
    prop_oneof![
        3 => set.prop_map(|(id, namespace, pattern, limit, window_ms)| {
            Change::SetOverride { id, namespace, pattern, limit, window_ms }
        }),
        1 => (ids("rlns"), names())
            .prop_map(|(namespace, pattern)| Change::DeleteOverride { namespace, pattern }),
    ]
}

/// A change, and how many revisions before the last one somebody reads from afterwards.
fn histories() -> impl Strategy<Value = Vec<(Change, u64)>> {
    let change = prop_oneof![
        2 => of_workspaces(),
        2 => of_keys(),
        3 => of_namespaces(),
        4 => of_overrides(),
    ];
    proptest::collection::vec((change, 0..8_u64), 1..50)
}

/// What must be the same in both databases; numbers need not be.
fn lines(rows: Vec<AuditRow>) -> Vec<(u64, String, String, String, String)> {
    let rows = rows.into_iter().rev();
    rows.map(|row| (row.time_ms, row.workspace, row.actor, row.event, row.detail)).collect()
}

async fn run(place: &Place, store: &Store, history: &[(Change, u64)]) -> Vec<String> {
    place.clear().await;
    let (mut model, control) = (Model::default(), store.control());
    for (now, (change, back)) in (1_000..).zip(history) {
        let theirs = control.apply(change, ACTOR, now).await;
        let ours = model.apply(change, now);
        let theirs = theirs.map(|applied| sorted(applied.changes));
        assert_eq!(theirs, ours, "{change:?} in {history:?}");
        let revision = control.revision().await.unwrap();
        let from = revision.saturating_sub(*back);
        let theirs = sorted(control.changes(from).await.unwrap());
        assert_eq!(theirs, model.changes(from), "from {from} after {change:?} in {history:?}");
    }
    let theirs = lines(control.audit(None, None, 1_000).await.unwrap());
    let heads: Vec<_> =
        theirs.iter().map(|(time, ws, _, event, _)| (*time, ws, event.as_str())).collect();
    let ours: Vec<_> = model.audit.iter().map(|(time, ws, event)| (*time, ws, *event)).collect();
    assert_eq!(heads, ours, "{history:?}");
    assert!(theirs.iter().all(|(_, _, actor, _, _)| actor == ACTOR));
    theirs.into_iter().map(|(_, _, _, _, detail)| detail).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// One case here is many inside: they share a server.
    #[test]
    fn both_databases_do_what_the_model_does(all in proptest::collection::vec(histories(), 40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let places = Place::ready().await;
            for history in &all {
                let mut told = Vec::new();
                for (place, store) in &places {
                    told.push(run(place, store, history).await);
                }
                assert_eq!(told[0], told[1], "the same words");
            }
        });
    }
}
