//! What is written is read again, whatever it is.

use tidegate_convergence::{
    Batch, Counter, GlobalCall, GlobalError, GlobalReply, PAYLOAD_MAX, Row, pack, unpack,
};
use tidegate_lab::{MariaDbOptions, MariaDbServer};
use tidegate_limiter::Digest;

use crate::support::{Place, batch, import, mysql, publish, rows};

#[tokio::test]
async fn the_largest_numbers_and_all_bytes_survive() {
    for place in Place::all() {
        let store = place.store();
        store.migrate().await.unwrap();
        let payload: Vec<u8> = (0..=u8::MAX).cycle().take(PAYLOAD_MAX).collect();
        let most = |number: u64, repeats: bool| Batch {
            repeats,
            nonce: number,
            written_ms: number,
            expires_ms: number,
            ..batch(u32::MAX, &payload)
        };
        let edges = [1 << 53, 1 << 63];
        let numbers: Vec<u64> = edges.iter().flat_map(|edge| [edge - 1, *edge, edge + 1]).collect();
        for number in numbers.into_iter().chain([0, u64::MAX - 1, u64::MAX]) {
            let written = most(number, number % 2 == 0);
            let reply = store.call(&GlobalCall::Publish(written.clone())).await.unwrap();
            let GlobalReply::Published { id } = reply else { unreachable!("{reply:?}") };
            let found = rows(store.call(&import(id - 1, &[])).await);
            assert_eq!(found.last(), Some(&Row { id, batch: written }));
        }
    }
}

#[tokio::test]
async fn totals_near_the_largest_come_back_as_they_were() {
    let largest = [1 << 40, 1 << 50, 1 << 51, 1 << 63, u64::MAX];
    let counts = largest.into_iter().flat_map(|count| [count - 1, count]);
    let counter = |(at, count): (u8, u64)| Counter {
        window_ms: u64::from(u32::MAX),
        sequence: 4_000,
        subject: Digest::from_bytes([at; 16]),
        count,
    };
    let counters: Vec<Counter> = (0..).zip(counts).map(counter).collect();
    let [(payload, _)] = &pack(counters.clone())[..] else { unreachable!("they are few") };
    for place in Place::all() {
        let store = place.store();
        store.migrate().await.unwrap();
        store.call(&GlobalCall::Publish(batch(1, payload))).await.unwrap();
        let found = rows(store.call(&import(0, &[])).await);
        assert_eq!(unpack(&found[0].batch.payload), Some(counters.clone()));
    }
}

#[tokio::test]
async fn an_id_is_never_given_again() {
    for place in Place::all() {
        let store = place.store();
        store.migrate().await.unwrap();
        let publish = GlobalCall::Publish(batch(1, b"x"));
        let everything = GlobalCall::Collect { expired_before_ms: u64::MAX, rows_max: 1000 };
        for id in 1..=5 {
            assert_eq!(store.call(&publish).await, Ok(GlobalReply::Published { id }));
            // All but the last, by which readers see that nothing is lost.
            let rows = u64::from(id > 1);
            assert_eq!(store.call(&everything).await, Ok(GlobalReply::Deleted { rows }));
        }
        place.sql("DELETE FROM tidegate_feed").await;
        assert_eq!(store.call(&publish).await, Ok(GlobalReply::Published { id: 6 }));
    }
}

#[tokio::test]
async fn many_rows_are_deleted_in_one_call() {
    for place in Place::all() {
        let store = place.store();
        store.migrate().await.unwrap();
        for _ in 0..300 {
            store.call(&GlobalCall::Publish(batch(1, b"x"))).await.unwrap();
        }
        let some = GlobalCall::Collect { expired_before_ms: 21, rows_max: 200 };
        assert_eq!(store.call(&some).await, Ok(GlobalReply::Deleted { rows: 200 }));
        let left: Vec<u64> = rows(store.call(&import(0, &[])).await).iter().map(|r| r.id).collect();
        assert_eq!(left, (201..=300).collect::<Vec<u64>>(), "the oldest went first");
    }
}

#[tokio::test]
async fn what_is_too_large_is_refused_and_harms_nobody() {
    let options = MariaDbOptions::new().set("max-allowed-packet", "128K");
    let server = MariaDbServer::start_with(&options).unwrap();
    let store = mysql(&server.url());
    store.migrate().await.unwrap();
    publish(&store, batch(1, &[7; PAYLOAD_MAX])).await.unwrap();
    let refused = publish(&store, batch(1, &[7; 200_000])).await;
    assert!(matches!(refused, Err(GlobalError::Refused(_))), "{refused:?}");
    assert!(publish(&store, batch(1, b"x")).await.is_ok());
}

#[tokio::test]
async fn too_many_gaps_are_refused() {
    for place in Place::all() {
        let store = place.store();
        store.migrate().await.unwrap();
        let refused = store.call(&import(20, &[1; 17])).await;
        assert!(matches!(refused, Err(GlobalError::Refused(_))), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_write_at_once_get_ids_of_their_own() {
    for place in Place::all() {
        place.store().migrate().await.unwrap();
        let writers = (1..=4).map(|region| {
            let store = place.store();
            tokio::spawn(async move {
                let mut ids = Vec::new();
                for _ in 0..50 {
                    let reply = store.call(&GlobalCall::Publish(batch(region, b"x"))).await;
                    let Ok(GlobalReply::Published { id }) = reply else {
                        unreachable!("{reply:?}")
                    };
                    ids.push(id);
                }
                ids
            })
        });
        let mut all = Vec::new();
        for writer in writers.collect::<Vec<_>>() {
            all.extend(writer.await.unwrap());
        }
        all.sort_unstable();
        let found = rows(place.store().call(&import(0, &[])).await);
        assert_eq!(all, found.iter().map(|row| row.id).collect::<Vec<u64>>());
        assert_eq!(all.len(), 200);
    }
}
