//! Servers that end and begin again, callers that give up, and rows that come late.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::Connection;
use tidegate_convergence::{GlobalCall, GlobalError, GlobalReply, GlobalStore};
use tokio::time::{Instant, timeout};

use crate::support::{batch, connect, eventually, import, mysql, publish, rows, server};

/// A caller's patience.
const PATIENCE: Duration = Duration::from_millis(100);

#[tokio::test]
async fn a_server_that_began_again_costs_no_call() {
    let (mut server, store) = server().await;
    for id in 1..=4 {
        assert_eq!(publish(&store, batch(1, b"x")).await, Ok(id));
        server.kill_9();
        server.restart().unwrap();
    }
    server.stop().unwrap();
    let gone = publish(&store, batch(1, b"x")).await;
    assert!(matches!(gone, Err(GlobalError::Unreachable(_))), "{gone:?}");
    server.restart().unwrap();
    assert!(publish(&store, batch(1, b"x")).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_killed_under_load_heals_and_keeps_what_it_acknowledged() {
    let (mut server, store) = server().await;
    let (store, ended) = (Arc::new(store), Arc::new(AtomicBool::new(false)));
    let writers: Vec<_> = (1..=4)
        .map(|region| {
            let (store, ended) = (Arc::clone(&store), Arc::clone(&ended));
            tokio::spawn(async move {
                let (mut acknowledged, mut failed) = (Vec::new(), 0);
                while !ended.load(Ordering::SeqCst) {
                    match publish(&store, batch(region, b"x")).await {
                        Ok(id) => acknowledged.push(id),
                        Err(GlobalError::Unreachable(_)) => failed += 1,
                        Err(other) => unreachable!("{other}"),
                    }
                    tokio::task::yield_now().await;
                }
                (acknowledged, failed)
            })
        })
        .collect();
    for _ in 0..2 {
        let before = rows(store.call(&import(0, &[])).await).len();
        let more = async || {
            let now = rows(mysql(&server.url()).call(&import(0, &[])).await).len();
            (now > before + 20).then_some(())
        };
        eventually("rows are written", more).await;
        server.kill_9();
        server.restart().unwrap();
    }
    let healed = async || publish(&store, batch(9, b"x")).await.ok();
    eventually("the store heals", healed).await;
    ended.store(true, Ordering::SeqCst);
    let mut acknowledged = Vec::new();
    for writer in writers {
        let (ids, failed) = writer.await.unwrap();
        assert!(failed > 0, "the server was away");
        acknowledged.extend(ids);
    }
    let found: Vec<u64> = rows(store.call(&import(0, &[])).await).iter().map(|r| r.id).collect();
    let lost: Vec<_> = acknowledged.iter().filter(|id| !found.contains(id)).collect();
    assert!(lost.is_empty(), "{lost:?}");
}

#[tokio::test]
async fn a_caller_who_gives_up_leaves_nobody_waiting() {
    let (server, store) = server().await;
    let mut other = connect(&server).await;
    sqlx::raw_sql("LOCK TABLES tidegate_feed WRITE").execute(&mut other).await.unwrap();
    // More of them than there are connections.
    for _ in 0..6 {
        let waiting = publish(&store, batch(1, b"left behind"));
        assert!(timeout(PATIENCE, waiting).await.is_err(), "the table is locked");
    }
    // What does not need that table is answered at once.
    let start = Instant::now();
    store.call(&crate::support::register("eu", 1)).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    sqlx::raw_sql("UNLOCK TABLES").execute(&mut other).await.unwrap();
    let start = Instant::now();
    publish(&store, batch(1, b"x")).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_server_that_hangs_is_left_and_found_again() {
    let (server, store) = server().await;
    publish(&store, batch(1, b"x")).await.unwrap();
    server.pause().unwrap();
    for _ in 0..6 {
        assert!(timeout(PATIENCE, publish(&store, batch(1, b"x"))).await.is_err());
    }
    server.resume().unwrap();
    let start = Instant::now();
    publish(&store, batch(1, b"x")).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

#[tokio::test]
async fn a_lock_that_others_hold_is_busy() {
    let (server, store) = server().await;
    let id = publish(&store, batch(1, b"x")).await.unwrap();
    // The last one is never deleted.
    publish(&store, batch(1, b"y")).await.unwrap();
    let mut other = connect(&server).await;
    let mut held = other.begin().await.unwrap();
    sqlx::query("SELECT id FROM tidegate_feed WHERE id = ? FOR UPDATE")
        .bind(id)
        .fetch_all(&mut *held)
        .await
        .unwrap();
    let collect = GlobalCall::Collect { expired_before_ms: 99, rows_max: 9 };
    let busy = store.call(&collect).await;
    assert!(matches!(busy, Err(GlobalError::Busy(_))), "{busy:?}");
    held.rollback().await.unwrap();
    assert_eq!(store.call(&collect).await, Ok(GlobalReply::Deleted { rows: 1 }));
}

/// A transaction that took an id and has not ended hides its row, and nothing else.
#[tokio::test]
async fn a_row_that_comes_late_is_found_in_its_gap() {
    let (server, store) = server().await;
    let first = publish(&store, batch(1, b"first")).await.unwrap();
    let mut other = connect(&server).await;
    let mut open = other.begin().await.unwrap();
    let late = sqlx::query(
        "INSERT INTO tidegate_feed (region, repeats, nonce, written_at, expires_at, payload) \
         VALUES (2, 0, 7, 1000, 1000, 'late')",
    )
    .execute(&mut *open)
    .await
    .unwrap()
    .last_insert_id();
    let later = publish(&store, batch(1, b"later")).await.unwrap();
    assert!(first < late && late < later);
    let ids = |found: Vec<tidegate_convergence::Row>| -> Vec<(u64, Vec<u8>)> {
        found.into_iter().map(|row| (row.id, row.batch.payload)).collect()
    };
    let seen = ids(rows(store.call(&import(first, &[])).await));
    assert_eq!(seen, [(first, vec![]), (later, b"later".to_vec())]);
    // Neither who reads nor who deletes around it waits for it.
    let start = Instant::now();
    let collect = GlobalCall::Collect { expired_before_ms: 21, rows_max: 1 };
    assert_eq!(store.call(&collect).await, Ok(GlobalReply::Deleted { rows: 1 }));
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    open.commit().await.unwrap();
    let seen = ids(rows(store.call(&import(later, &[late])).await));
    assert_eq!(seen, [(late, b"late".to_vec()), (later, vec![])]);
}

/// However few rows there are: a server that looks at all of them would wait.
#[tokio::test]
async fn who_deletes_many_rows_does_not_wait_for_one_that_comes_late() {
    let (server, store) = server().await;
    let mut other = connect(&server).await;
    for rows in [2_u64, 9, 64, 200] {
        let mut open = other.begin().await.unwrap();
        sqlx::query(
            "INSERT INTO tidegate_feed (region, repeats, nonce, written_at, expires_at, payload) \
             VALUES (2, 0, 7, 1000, 1000, 'late')",
        )
        .execute(&mut *open)
        .await
        .unwrap();
        for _ in 0..=rows {
            publish(&store, batch(1, b"x")).await.unwrap();
        }
        let collect = GlobalCall::Collect { expired_before_ms: 21, rows_max: 1_000 };
        // All but the last one, and that of the turn before.
        let deleted = Ok(GlobalReply::Deleted { rows: rows + u64::from(rows > 2) });
        assert_eq!(store.call(&collect).await, deleted, "{rows} of them");
        open.rollback().await.unwrap();
    }
}
