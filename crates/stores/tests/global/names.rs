//! A name belongs to one region at a time.

use std::sync::Arc;

use tidegate_convergence::{GlobalError, GlobalReply};

use crate::support::{Place, Store, register};

/// How often a race is run: most of them must be close.
const RACES: u32 = 15;

/// Lets regions of one name and different identities register at the same time; says who won.
async fn race(stores: &[Arc<Store>], name: &str) -> Vec<u128> {
    let runners: Vec<_> = (1..)
        .zip(stores)
        .map(|(identity, store)| {
            let (store, call) = (Arc::clone(store), register(name, identity));
            tokio::spawn(async move { (identity, store.call(&call).await) })
        })
        .collect();
    let mut won = Vec::new();
    for runner in runners {
        match runner.await.unwrap() {
            (identity, Ok(GlobalReply::Registered { .. })) => won.push(identity),
            (_, Err(GlobalError::NameTaken { seen_ms_ago })) => assert!(seen_ms_ago < 10_000),
            (_, other) => unreachable!("{other:?}"),
        }
    }
    won
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_that_want_a_name_one_gets_it() {
    for place in Place::all() {
        let stores: Vec<_> = (0..4).map(|_| Arc::new(place.store())).collect();
        stores[0].migrate().await.unwrap();
        for turn in 0..RACES {
            let name = format!("region-{turn}");
            let first = race(&stores, &name).await;
            assert_eq!(first.len(), 1, "a name that nobody had: {first:?}");
            // Whoever had it has not been there for too long.
            place.sql("UPDATE tidegate_regions SET seen_at = seen_at - 60000").await;
            let second = race(&stores, &name).await;
            assert_eq!(second.len(), 1, "a name that was free again: {second:?}");
        }
    }
}
