//! What changes mean.

use tidegate_stores::control::{Change, ControlError, ControlStore, Forgotten, Mode};

use crate::support::{
    ACTOR, Place, Store, add_key, add_namespaces, add_workspace, delete_override, set_override,
};

/// A workspace with one namespace.
async fn worlds() -> Vec<(Place, Store)> {
    let ready = Place::ready().await;
    for (_, store) in &ready {
        store.make(&add_workspace("ws")).await;
        store.make(&add_namespaces(&["email"])).await;
    }
    ready
}

#[tokio::test]
async fn an_override_that_was_deleted_comes_back_with_its_id() {
    for (_place, store) in worlds().await {
        let made = store.make(&set_override("rlor_1", "rlns_email", "vip_*", 5)).await;
        let before = made.overrides[0].clone();
        store.make(&delete_override("rlns_email", "vip_*")).await;
        let gone = store.apply(&delete_override("rlns_email", "vip_*")).await;
        assert_eq!(gone, Err(ControlError::NotFound("override")));
        assert_eq!(store.all().await.overrides[0].deleted_ms, Some(1_000));
        let again = Change::SetOverride {
            id: "rlor_2".to_owned(),
            namespace: "rlns_email".to_owned(),
            pattern: "vip_*".to_owned(),
            limit: 7,
            window_ms: 1_000,
        };
        let applied = store.control().apply(&again, ACTOR, 2_000).await.unwrap();
        let after = &applied.changes.overrides[0];
        assert_eq!((&after.id, after.created_ms, after.deleted_ms), (&before.id, 1_000, None));
        assert_eq!((after.limit, after.window_ms), (7, 1_000));
        assert_eq!(store.all().await.overrides, applied.changes.overrides);
    }
}

#[tokio::test]
async fn namespaces_that_are_there_are_no_reason_not_to_make_the_others() {
    for (_place, store) in worlds().await {
        store.make(&Change::DeleteNamespace { id: "rlns_email".to_owned() }).await;
        let names = ["email", "sms", "sms", "push"];
        let names = names.iter().zip(["a", "b", "c", "d"]);
        let names = names.map(|(name, id)| (id.to_owned(), (*name).to_owned())).collect();
        let add = Change::AddNamespaces { workspace: "ws".to_owned(), names };
        let made = store.make(&add).await;
        let rows: Vec<_> = made
            .namespaces
            .iter()
            .map(|row| (row.id.as_str(), row.name.as_str(), row.deleted_ms))
            .collect();
        let expected =
            [("rlns_email", "email", Some(1_000)), ("b", "sms", None), ("d", "push", None)];
        assert_eq!(rows, expected);
        let revision = made.revision;
        assert_eq!(store.make(&add).await, made, "again: the same rows, the same revision");
        assert_eq!(store.control().revision().await, Ok(revision));
        let two = "ratelimitNamespace.create";
        assert_eq!(store.events().await[2..], ["namespace.delete", two, two]);
    }
}

#[tokio::test]
async fn what_is_missing_or_gone_is_not_found() {
    for (_place, store) in worlds().await {
        store.make(&add_key("key_1", "ws", 1)).await;
        store.make(&Change::RevokeKey { id: "key_1".to_owned() }).await;
        store.make(&add_namespaces(&["gone"])).await;
        store.make(&Change::DeleteNamespace { id: "rlns_gone".to_owned() }).await;
        let before = store.all().await;
        let elsewhere = Change::AddNamespaces { workspace: "no".to_owned(), names: vec![] };
        for (change, what) in [
            (Change::SetKey { id: "key_1".to_owned(), enabled: true }, "key"),
            (Change::RevokeKey { id: "key_2".to_owned() }, "key"),
            (add_key("key_3", "no", 3), "workspace"),
            (elsewhere, "workspace"),
            (set_override("rlor_1", "rlns_gone", "x", 1), "namespace"),
            (set_override("rlor_1", "no", "x", 1), "namespace"),
            (delete_override("rlns_gone", "x"), "namespace"),
            (delete_override("rlns_email", "x"), "override"),
            (
                Change::SetNamespace {
                    id: "rlns_gone".to_owned(),
                    mode: Some(Mode::Off),
                    consistency: None,
                    outage: None,
                },
                "namespace",
            ),
        ] {
            let refused = store.apply(&change).await;
            assert_eq!(refused, Err(ControlError::NotFound(what)), "{change:?}");
        }
        assert_eq!(store.all().await, before, "and nothing changed");
    }
}

#[tokio::test]
async fn the_same_again_is_found_and_another_is_refused() {
    for (_place, store) in worlds().await {
        let key = add_key("key_1", "ws", 1);
        let made = store.make(&key).await;
        let limited = Change::SetKey { id: "key_1".to_owned(), enabled: false };
        let disabled = store.make(&limited).await;
        assert_eq!(store.make(&key).await.keys, disabled.keys, "a repeated call changes nothing");
        assert_eq!(store.make(&add_workspace("ws")).await.workspaces.len(), 1);
        let renamed = Change::AddWorkspace { id: "ws".to_owned(), name: "other".to_owned() };
        let doubled = Change::AddWorkspace { id: "ws_2".to_owned(), name: "name of ws".to_owned() };
        for (change, what) in [
            (add_key("key_1", "ws", 2), "key"),
            (add_key("key_2", "ws", 1), "key"),
            (renamed, "workspace"),
            (doubled, "workspace"),
        ] {
            assert_eq!(store.apply(&change).await, Err(ControlError::Exists(what)), "{change:?}");
        }
        assert_eq!(store.all().await.revision, made.revision + 1);
    }
}

#[tokio::test]
async fn each_change_has_one_row_in_the_audit_that_says_who_and_what() {
    for (_place, store) in worlds().await {
        store.make(&add_workspace("ws_2")).await;
        store.make(&add_key("key_1", "ws", 1)).await;
        store.make(&set_override("rlor_1", "rlns_email", "vip_*", 5)).await;
        store.make(&set_override("rlor_1", "rlns_email", "vip_*", 5)).await;
        let _ = store.apply(&delete_override("rlns_email", "nobody")).await;
        let expected = [
            "workspace.create",
            "ratelimitNamespace.create",
            "workspace.create",
            "key.create",
            "ratelimit.set_override",
        ];
        assert_eq!(store.events().await, expected);
        let control: &dyn ControlStore = store.control();
        let rows = control.audit(Some("ws"), None, 2).await.unwrap();
        let last = &rows[0];
        assert_eq!(
            (last.actor.as_str(), last.workspace.as_str(), last.time_ms),
            (ACTOR, "ws", 1_000)
        );
        let words = "override \"vip_*\" (rlor_1) of namespace \"email\" (rlns_email): \
             5 in 60000 ms";
        assert_eq!(last.detail, words);
        let earlier = control.audit(Some("ws"), Some(rows[1].number), 10).await.unwrap();
        let events: Vec<_> = earlier.iter().map(|row| row.event.as_str()).collect();
        assert_eq!(events, ["ratelimitNamespace.create", "workspace.create"]);
        assert_eq!(control.audit(Some("ws_2"), None, 10).await.unwrap().len(), 1);
        assert_eq!(control.audit(Some("WS"), None, 10).await, Ok(vec![]));
    }
}

#[tokio::test]
async fn a_database_that_went_back_is_read_from_the_beginning() {
    for (place, store) in worlds().await {
        let control = store.control();
        let now = control.changes(0).await.unwrap();
        assert!(now.whole);
        assert!(!control.changes(1).await.unwrap().whole);
        assert!(!control.changes(now.revision).await.unwrap().whole);
        place.sql("UPDATE tidegate_revision SET revision = 1").await;
        let back = control.changes(now.revision).await.unwrap();
        assert_eq!((back.revision, back.whole, back.namespaces.len()), (1, true, 1));
    }
}

#[tokio::test]
async fn old_rows_of_the_audit_are_forgotten_a_few_at_a_time() {
    for (_place, store) in worlds().await {
        let control: &dyn ControlStore = store.control();
        // The world has two rows of time 1,000. One clock was ahead, and one time is the largest.
        for (number, time_ms) in [1_001, 5_000, 1_002, 1_003, 9_000, u64::MAX].iter().enumerate() {
            let add = add_workspace(&format!("ws_{number}x"));
            control.apply(&add, ACTOR, *time_ms).await.unwrap();
        }
        let times = async || -> Vec<u64> {
            let rows = control.audit(None, None, 100).await.unwrap();
            rows.iter().rev().map(|row| row.time_ms).collect()
        };
        assert_eq!(control.forget_audit(1_000, 100).await.unwrap(), forgotten(0, false));
        assert_eq!(control.forget_audit(2_000, 2).await.unwrap(), forgotten(2, true));
        assert_eq!(times().await, [1_001, 5_000, 1_002, 1_003, 9_000, u64::MAX]);
        assert_eq!(control.forget_audit(2_000, 3).await.unwrap(), forgotten(2, true));
        assert_eq!(times().await, [5_000, 1_003, 9_000, u64::MAX], "the young one is passed over");
        assert_eq!(control.forget_audit(2_000, 100).await.unwrap(), forgotten(1, false));
        assert_eq!(control.forget_audit(u64::MAX, 100).await.unwrap(), forgotten(2, false));
        assert_eq!(times().await, [u64::MAX]);
        let before = store.all().await;
        assert_eq!(control.forget_audit(u64::MAX, 0).await.unwrap().rows, 0);
        assert_eq!(store.all().await, before, "nothing else is touched");
        // Numbers are not given again.
        let last = control.audit(None, None, 1).await.unwrap()[0].number;
        store.make(&add_workspace("ws_new")).await;
        assert!(control.audit(None, None, 1).await.unwrap()[0].number > last);
    }
}

fn forgotten(rows: u64, more: bool) -> Forgotten {
    Forgotten { rows, more }
}
