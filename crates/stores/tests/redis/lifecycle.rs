//! A server that goes away and comes back: errors in time, and the same store recovers.

use tidegate_convergence::{RegionalStore, StoreError};
use tidegate_lab::RedisServer;
use tidegate_stores::RedisStore;

use crate::support::{
    PATIENCE, call, call_in_time, call_until_answered, eventually, record, send, store,
};

async fn every_call_fails_in_time(store: &RedisStore) {
    for _ in 0..20 {
        let call = call(vec![record(1, 6)]);
        let answer = tokio::time::timeout(PATIENCE, store.call(&call)).await.expect("in time");
        assert!(matches!(answer, Err(StoreError::Unreachable(_))), "{answer:?}");
    }
}

async fn recovers_from(break_it: impl FnOnce(&mut RedisServer)) {
    let mut server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let before = store.call(&call(vec![record(1, 5)])).await.unwrap();
    break_it(&mut server);
    every_call_fails_in_time(&store).await;
    server.restart().unwrap();
    let after = call_until_answered(&store, &[record(1, 6)]).await;
    assert_eq!(after.replies[0].unwrap().current.had, 0, "it came back empty");
    assert_ne!(after.token, before.token);
    assert_ne!(after.server, before.server);
}

#[tokio::test]
async fn a_restart_is_survived_and_noticed() {
    recovers_from(|server| server.stop().unwrap()).await;
}

#[tokio::test]
async fn a_crash_is_survived_and_noticed() {
    recovers_from(RedisServer::kill_9).await;
}

#[tokio::test]
async fn a_pause_costs_only_its_own_time() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let before = store.call(&call(vec![record(1, 5)])).await.unwrap();
    server.pause().unwrap();
    for total in 6..10 {
        assert!(call_in_time(&store, &[record(1, total)]).await.is_none());
    }
    server.resume().unwrap();
    let after = call_until_answered(&store, &[record(1, 10)]).await;
    assert_eq!((after.token, after.server), (before.token, before.server));
    let cell = after.replies[0].unwrap().current;
    assert_eq!((cell.sum, cell.components), (10, 1));
}

#[tokio::test]
async fn a_flush_changes_the_token_and_not_the_server() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let before = store.call(&call(vec![record(1, 5)])).await.unwrap();
    server.command(&["FLUSHALL"]).unwrap();
    let after = store.call(&call(vec![record(1, 5)])).await.unwrap();
    assert_ne!(after.token, before.token);
    assert_eq!(after.server, before.server);
    assert_eq!(after.replies[0].unwrap().current.had, 0);
}

#[tokio::test]
async fn a_server_that_is_not_there_yet_is_found_later() {
    let mut server = RedisServer::start().unwrap();
    server.kill_9();
    let store = store(&server.url());
    every_call_fails_in_time(&store).await;
    server.restart().unwrap();
    call_until_answered(&store, &[record(1, 1)]).await;
}

#[test]
fn a_store_outlives_the_runtime_that_connected_it() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    for total in 1..=3 {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let cell = runtime.block_on(async {
            eventually("the store answers", async || send(&store, record(1, total)).await.ok())
                .await
        });
        assert_eq!(cell.current.sum, total);
    }
}

#[tokio::test]
async fn a_full_server_refuses_and_still_answers_readers() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    send(&store, record(1, 5)).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let full = store.call(&call(vec![record(1, 6)])).await;
    assert!(matches!(&full, Err(StoreError::Refused(why)) if why.contains("OOM")), "{full:?}");
    let mixed = store.call(&call(vec![record(1, 6), record(1, 0)])).await.unwrap();
    assert_eq!(mixed.replies[0], None);
    assert_eq!(mixed.replies[1].unwrap().current.sum, 5, "nothing was half recorded");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    assert_eq!(send(&store, record(1, 6)).await.unwrap().current.sum, 6);
}
