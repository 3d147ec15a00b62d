//! Tables of the versions before become those of this one.

use tidegate_convergence::{GlobalCall, GlobalError, GlobalReply, GlobalStore, RegionName};

use tidegate_limiter::Consistency;
use tidegate_stores::control::{Change, Mode, NamespaceRow};

use crate::support::{Place, Store, add_key, add_namespaces, add_workspace};

/// Version 1, as it was.
const SERVER: &str = "\
CREATE TABLE tidegate_schema (version INT UNSIGNED NOT NULL PRIMARY KEY, \
 reached_at BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB;\
CREATE TABLE tidegate_regions (name VARBINARY(48) NOT NULL PRIMARY KEY, \
 identity BINARY(16) NOT NULL, seen_at BIGINT UNSIGNED NOT NULL) ENGINE = InnoDB;\
CREATE TABLE tidegate_feed (id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, \
 region INT UNSIGNED NOT NULL, repeats TINYINT UNSIGNED NOT NULL, nonce BIGINT UNSIGNED NOT NULL, \
 written_at BIGINT UNSIGNED NOT NULL, expires_at BIGINT UNSIGNED NOT NULL, \
 payload MEDIUMBLOB NOT NULL) ENGINE = InnoDB ROW_FORMAT = DYNAMIC;";

const FILE: &str = "\
CREATE TABLE tidegate_schema (version INTEGER NOT NULL PRIMARY KEY, \
 reached_at INTEGER NOT NULL) STRICT;\
CREATE TABLE tidegate_regions (name BLOB NOT NULL PRIMARY KEY, \
 identity BLOB NOT NULL, seen_at INTEGER NOT NULL) STRICT;\
CREATE TABLE tidegate_feed (id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, \
 region INTEGER NOT NULL, repeats INTEGER NOT NULL, nonce INTEGER NOT NULL, \
 written_at INTEGER NOT NULL, expires_at INTEGER NOT NULL, payload BLOB NOT NULL) STRICT;";

const ROWS: &str = "\
INSERT INTO tidegate_schema VALUES (1, 5);\
INSERT INTO tidegate_regions VALUES (x'6575', x'00000000000000000000000000000007', 0);\
INSERT INTO tidegate_feed VALUES (7, 1, 0, 1, 10, 20, x'78');";

async fn call(store: &Store, call: &GlobalCall) -> Result<GlobalReply, GlobalError> {
    match store {
        Store::Mysql(store) => store.call(call).await,
        Store::Sqlite(store) => store.call(call).await,
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_version_1_keep_what_they_hold_and_gain_the_rest() {
    for place in Place::all() {
        if let Place::File(path) = &place {
            std::fs::File::create(path).unwrap();
        }
        place.either(SERVER, FILE).await;
        place.sql(ROWS).await;
        let store = place.store();
        let told = store.check().await.unwrap_err().to_string();
        assert!(
            told.contains("of version 1, this build needs 3: run `tidegate migrate`"),
            "{told}"
        );
        let apply = store.apply(&add_workspace("ws")).await.unwrap_err().to_string();
        assert!(apply.contains("run `tidegate migrate`"), "{apply}");
        let makers: Vec<_> = (0..4)
            .map(|_| place.store())
            .map(|store| tokio::spawn(async move { store.migrate().await }))
            .collect();
        for maker in makers {
            assert_eq!(maker.await.unwrap(), Ok(()));
        }
        assert_eq!(store.check().await, Ok(()));
        store.make(&add_workspace("ws")).await;
        assert_eq!(store.migrate().await, Ok(()), "again");
        assert_eq!(store.make(&add_key("key_1", "ws", 1)).await.revision, 2, "nothing was lost");
        let name = RegionName::new("eu").unwrap();
        let registered = call(&store, &GlobalCall::Register { name, identity: 7 }).await;
        assert_eq!(registered, Ok(GlobalReply::Registered { regions: 1 }));
        let batch = tidegate_convergence::Batch {
            region: tidegate_convergence::RegionNumber(1),
            repeats: false,
            nonce: 1,
            written_ms: 10,
            expires_ms: 20,
            payload: vec![],
        };
        let published = call(&store, &GlobalCall::Publish(batch)).await;
        assert_eq!(published, Ok(GlobalReply::Published { id: 8 }), "after the row that was there");
    }
}

#[tokio::test]
async fn a_migration_that_stopped_half_way_goes_on() {
    for (place, store) in Place::ready().await {
        place
            .sql("DROP TABLE tidegate_overrides; DELETE FROM tidegate_schema WHERE version >= 2")
            .await;
        store.make(&add_workspace("ws")).await;
        assert!(store.check().await.is_err());
        store.migrate().await.unwrap();
        store.check().await.unwrap();
        assert_eq!(store.all().await.workspaces.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn namespaces_of_version_2_keep_what_they_are_and_say_nothing_of_their_consistency() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        store.make(&add_namespaces(&["email"])).await;
        let set = |mode, consistency| {
            let id = "rlns_email".to_owned();
            Change::SetNamespace { id, mode, consistency, outage: None }
        };
        store.make(&set(Some(Mode::Shadow), None)).await;
        let before = store.all().await;
        // As they were before: no such column.
        place
            .sql(
                "ALTER TABLE tidegate_namespaces DROP COLUMN consistency; \
                 DELETE FROM tidegate_schema WHERE version = 3",
            )
            .await;
        let fresh = place.store();
        let told = fresh.check().await.unwrap_err().to_string();
        assert!(told.contains("of version 2, this build needs 3"), "{told}");
        let makers: Vec<_> = (0..4)
            .map(|_| place.store())
            .map(|store| tokio::spawn(async move { store.migrate().await }))
            .collect();
        for maker in makers {
            assert_eq!(maker.await.unwrap(), Ok(()));
        }
        assert_eq!(fresh.check().await, Ok(()));
        assert_eq!(fresh.all().await, before);

        let said = Some(Some(Consistency::Bounded));
        let changed = fresh.make(&set(None, said)).await.namespaces;
        let NamespaceRow { mode, consistency, .. } = &changed[0];
        assert_eq!((*mode, *consistency), (Mode::Shadow, Some(Consistency::Bounded)));
        let changed = fresh.make(&set(None, Some(None))).await.namespaces;
        assert_eq!(changed[0].consistency, None, "it says nothing again");
        let events = fresh.events().await;
        assert_eq!(events.iter().filter(|event| *event == "namespace.set_consistency").count(), 2);
    }
}

#[tokio::test]
async fn a_consistency_that_nobody_knows_keeps_nobody_from_reading() {
    for (place, store) in Place::ready().await {
        store.make(&add_workspace("ws")).await;
        store.make(&add_namespaces(&["email"])).await;
        place.sql("UPDATE tidegate_namespaces SET consistency = 7").await;
        assert_eq!(store.all().await.namespaces[0].consistency, None);
    }
}
