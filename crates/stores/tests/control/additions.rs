//! What was added to tables of the same version: builds that know it and builds that do not.

use tidegate_limiter::{Consistency, Outage};
use tidegate_stores::control::{Change, Mode};
use tidegate_stores::global::Migrated;

use crate::support::{Place, Store, add_namespaces, add_workspace};

const ADDED: &str = "tidegate_namespaces.outage";
/// Tables as builds of this version made them before anything was added.
const BEFORE: &str = "ALTER TABLE tidegate_namespaces DROP COLUMN outage";

fn set(outage: Option<Outage>) -> Change {
    let id = "rlns_email".to_owned();
    Change::SetNamespace { id, mode: None, consistency: None, outage: Some(outage) }
}

async fn migrate(store: &Store) -> Migrated {
    match store {
        Store::Mysql(store) => store.migrate().await.unwrap(),
        Store::Sqlite(store) => store.migrate().await.unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_added_is_demanded_told_and_no_other_version() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        store.make(&add_namespaces(&["email"])).await;
        let before = store.all().await;
        place.sql(BEFORE).await;
        let fresh = place.store();
        let told = fresh.check().await.unwrap_err().to_string();
        assert!(told.contains(ADDED) && told.contains("run `tidegate migrate`"), "{told}");
        let makers: Vec<_> = (0..4)
            .map(|_| place.store())
            .map(|store| tokio::spawn(async move { migrate(&store).await }))
            .collect();
        let mut added = 0;
        for maker in makers {
            let Migrated { found, version, additions } = maker.await.unwrap();
            // What builds from before the addition demand.
            assert_eq!((found, version), (3, 3));
            assert!(additions.iter().all(|added| *added == ADDED));
            added += additions.len();
        }
        assert!(added >= 1, "somebody added it");
        assert_eq!(fresh.check().await, Ok(()));
        assert_eq!(fresh.all().await, before, "and nothing is said of it yet");
        let done = migrate(&fresh).await;
        assert_eq!((done.found, done.additions.len()), (3, 0), "again: nothing to do");
    }
}

/// The statements are those of builds from before the addition.
#[tokio::test]
async fn who_does_not_know_an_addition_does_not_wipe_it() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        store.make(&add_namespaces(&["email"])).await;
        store.make(&set(Some(Outage::Deny))).await;
        let revision = store.all().await.revision;
        place
            .sql(
                "UPDATE tidegate_namespaces SET workspace = workspace, name = name, mode = 1, \
                 consistency = 1, created_at = 7, deleted_at = NULL, revision = revision + 1 \
                 WHERE id = x'726c6e735f656d61696c';\
                 INSERT INTO tidegate_namespaces (workspace, name, mode, consistency, created_at, \
                 deleted_at, revision, id) SELECT workspace, x'736d73', 0, NULL, 8, NULL, \
                 revision, x'726c6e735f736d73' FROM tidegate_namespaces;\
                 UPDATE tidegate_revision SET revision = revision + 1",
            )
            .await;
        let all = place.store().all().await;
        assert_eq!(all.revision, revision + 1);
        let said = |id: &str| {
            let row = all.namespaces.iter().find(|row| row.id == id).unwrap();
            (row.mode, row.outage)
        };
        assert_eq!(said("rlns_email"), (Mode::Shadow, Some(Outage::Deny)));
        assert_eq!(said("rlns_sms"), (Mode::Enforce, None));
    }
}

#[tokio::test]
async fn what_a_later_build_added_is_not_minded() {
    for (place, store) in Place::ready().await {
        place
            .sql(
                "ALTER TABLE tidegate_namespaces ADD COLUMN later INTEGER NULL;\
                 CREATE TABLE tidegate_later (id INTEGER NOT NULL PRIMARY KEY)",
            )
            .await;
        let fresh = place.store();
        assert_eq!(fresh.check().await, Ok(()));
        assert_eq!(migrate(&fresh).await.additions, Vec::<&str>::new());
        store.make(&add_workspace("ws")).await;
        store.make(&add_namespaces(&["email"])).await;
        store.make(&set(Some(Outage::Deny))).await;
        let changed = fresh.make(&set(None)).await.namespaces;
        assert_eq!(changed[0].outage, None, "it says nothing again");
        let events = fresh.events().await;
        assert_eq!(events.iter().filter(|event| *event == "namespace.set_outage").count(), 2);
    }
}

#[tokio::test]
async fn an_outage_that_nobody_knows_keeps_nobody_from_reading() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        store.make(&add_namespaces(&["email"])).await;
        place.sql("UPDATE tidegate_namespaces SET outage = 7").await;
        assert_eq!(store.all().await.namespaces[0].outage, None);
    }
}

/// Numbers that only a later build knows read as the default, and stay.
#[tokio::test]
async fn what_a_later_build_said_is_not_wiped() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        store.make(&add_namespaces(&["email"])).await;
        let change = |mode, consistency, outage| {
            let id = "rlns_email".to_owned();
            Change::SetNamespace { id, mode, consistency, outage }
        };
        let later = "UPDATE tidegate_namespaces SET mode = 7, consistency = 7, outage = 7";
        let (bounded, deny) = (Some(Consistency::Bounded), Some(Outage::Deny));
        let (fast, local) = (Some(Consistency::Fast), Some(Outage::Local));
        for (changed, expected) in [
            (change(Some(Mode::Off), None, None), (Mode::Off, bounded, deny)),
            (change(None, Some(fast), None), (Mode::Shadow, fast, deny)),
            (change(None, None, Some(local)), (Mode::Shadow, bounded, local)),
        ] {
            place.sql(later).await;
            store.make(&changed).await;
            // What is still 7 is made a number that we know.
            place
                .sql(
                    "UPDATE tidegate_namespaces SET mode = 1 WHERE mode = 7;\
                     UPDATE tidegate_namespaces SET consistency = 1 WHERE consistency = 7;\
                     UPDATE tidegate_namespaces SET outage = 1 WHERE outage = 7",
                )
                .await;
            let row = store.all().await.namespaces.remove(0);
            assert_eq!((row.mode, row.consistency, row.outage), expected, "{changed:?}");
        }
        // What we know is written as it was.
        store.make(&change(Some(Mode::Enforce), Some(None), Some(None))).await;
        let row = store.all().await.namespaces.remove(0);
        assert_eq!((row.mode, row.consistency, row.outage), (Mode::Enforce, None, None));
    }
}

/// Who runs on tables that lack something says what to do.
#[tokio::test]
async fn a_column_that_is_missing_is_told() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        place.sql(BEFORE).await;
        let told = store.apply(&add_namespaces(&["email"])).await.unwrap_err().to_string();
        assert!(told.contains("run `tidegate migrate`"), "{told}");
    }
}
