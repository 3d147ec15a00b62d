//! The tables, and what is said about them.

use tidegate_convergence::{GlobalCall, GlobalError};
use tidegate_stores::global::SCHEMA_VERSION;

use crate::support::{Place, batch, mysql, register};

fn told(result: Result<(), GlobalError>) -> String {
    match result {
        Err(GlobalError::Schema(what)) => what,
        other => unreachable!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_are_made_once_by_however_many() {
    for place in Place::all() {
        let store = place.store();
        let missing = told(store.check().await);
        let expected = match place {
            Place::Server(_) => "the tables are missing: run `tidegate migrate`",
            Place::File(_) => "the file does not exist: `tidegate migrate` makes it",
        };
        assert_eq!(missing, expected);
        let call = store.call(&GlobalCall::Publish(batch(1, b"x"))).await.map(drop);
        assert_eq!(told(call), missing);
        let makers: Vec<_> = (0..6).map(|_| place.store()).collect();
        let makers =
            makers.into_iter().map(|store| tokio::spawn(async move { store.migrate().await }));
        for maker in makers.collect::<Vec<_>>() {
            assert_eq!(maker.await.unwrap(), Ok(()));
        }
        assert_eq!(store.check().await, Ok(()));
        store.call(&register("eu", 1)).await.unwrap();
        assert_eq!(store.migrate().await, Ok(()), "again");
        assert!(store.call(&register("eu", 2)).await.is_err(), "nothing was lost");
    }
}

#[tokio::test]
async fn tables_of_another_version_say_what_to_do() {
    for place in Place::all() {
        let store = place.store();
        store.migrate().await.unwrap();
        place.sql("INSERT INTO tidegate_schema VALUES (99, 0)").await;
        let newer =
            format!("the tables are of version 99, this build knows {SCHEMA_VERSION}: upgrade");
        assert_eq!(told(store.check().await), newer);
        assert_eq!(told(store.migrate().await), newer);
        place.sql("DELETE FROM tidegate_schema").await;
        assert!(told(store.check().await).contains("tidegate migrate"));
        assert_eq!(store.migrate().await, Ok(()), "tables without a version");
        place.sql("DROP TABLE tidegate_feed").await;
        let call = store.call(&GlobalCall::Publish(batch(1, b"x"))).await.map(drop);
        assert_eq!(told(call), "the tables are missing: run `tidegate migrate`");
    }
}

#[tokio::test]
async fn a_database_that_is_missing_says_so() {
    let place = Place::all();
    let Place::Server(server) = &place[0] else { unreachable!("the first is a server") };
    let store = mysql(&server.url().replace("/tidegate", "/elsewhere"));
    assert!(told(store.check().await).contains("create it"));
}
