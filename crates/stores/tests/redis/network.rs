//! A bad network: what was executed is counted once, whatever the client learns of it.

use std::sync::Arc;
use std::time::Duration;

use tidegate_convergence::{Record, RegionalStore, StoreError};
use tidegate_lab::{Proxy, RedisServer};

use crate::support::{
    PATIENCE, call, call_in_time, call_until_answered, eventually, record, send, store, subject,
};

fn behind_a_proxy() -> (RedisServer, Proxy) {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    (server, proxy)
}

#[tokio::test]
async fn what_was_executed_before_a_cut_counts_once() {
    let (_server, proxy) = behind_a_proxy();
    let store = store(&proxy.url());
    send(&store, record(1, 1)).await.unwrap();
    for total in 2..=6 {
        proxy.cut_after(1);
        let cut = store.call(&call(vec![record(1, total)])).await;
        assert!(matches!(cut, Err(StoreError::Unreachable(_))), "{cut:?}");
        let again = call_until_answered(&store, &[record(1, total)]).await;
        let cell = again.replies[0].unwrap().current;
        assert_eq!((cell.sum, cell.had), (total, total), "it had been executed");
    }
    assert_eq!(proxy.cuts(), 5);
}

#[tokio::test]
async fn a_cut_in_the_middle_of_the_answers_loses_nothing() {
    let (_server, proxy) = behind_a_proxy();
    let store = store(&proxy.url());
    let of = |number| Record { subject: subject(number), ..record(1, u64::from(number) + 1) };
    let records: Vec<Record> = (0..100).map(of).collect();
    for bytes in [1, 100, 1_000, 3_000] {
        store.call(&call(vec![])).await.ok();
        proxy.cut_after(bytes);
        let again = call_until_answered(&store, &records).await;
        for (reply, record) in again.replies.iter().zip(&records) {
            assert_eq!(reply.unwrap().current.sum, record.total);
        }
    }
}

#[tokio::test]
async fn a_duplicated_request_counts_once() {
    let (_server, proxy) = behind_a_proxy();
    let store = store(&proxy.url());
    for total in 1..=10 {
        proxy.duplicate();
        let reply = call_until_answered(&store, &[record(1, total), record(2, total)]).await;
        let sums: Vec<u64> = reply.replies.iter().map(|reply| reply.unwrap().current.sum).collect();
        assert_eq!(sums, [2 * total - 1, 2 * total]);
    }
    assert!(proxy.dropped() >= 10, "the second answers were swallowed");
    assert_eq!(proxy.accepted(), 1);
}

#[tokio::test]
async fn answers_that_come_too_late_disturb_nobody() {
    let (_server, proxy) = behind_a_proxy();
    let store = store(&proxy.url());
    send(&store, record(1, 1)).await.unwrap();
    proxy.delay(Duration::from_millis(40));
    for total in 2..=6 {
        let call = call(vec![record(1, total)]);
        let late = tokio::time::timeout(Duration::from_millis(5), store.call(&call)).await;
        assert!(late.is_err(), "the caller has given up");
    }
    proxy.delay(Duration::ZERO);
    let cell = call_until_answered(&store, &[record(1, 7)]).await.replies[0].unwrap().current;
    assert_eq!((cell.sum, cell.had, cell.components), (7, 6, 1));
    assert_eq!(proxy.accepted(), 1, "the connection was kept");
}

#[tokio::test]
async fn a_connection_that_is_open_and_dead_is_given_up() {
    let (_server, proxy) = behind_a_proxy();
    let store = store(&proxy.url());
    send(&store, record(1, 1)).await.unwrap();
    proxy.blackhole(true);
    assert!(call_in_time(&store, &[record(1, 2)]).await.is_none());
    proxy.blackhole(false);
    let second = async || {
        call_in_time(&store, &[record(1, 3)]).await;
        (proxy.accepted() == 2).then_some(())
    };
    eventually("a second connection is made", second).await;
    let cell = call_until_answered(&store, &[record(1, 3)]).await.replies[0].unwrap().current;
    assert_eq!(cell.sum, 3);
}

#[tokio::test]
async fn the_late_end_of_an_old_connection_does_not_end_the_new_one() {
    let (_server, proxy) = behind_a_proxy();
    let store = Arc::new(store(&proxy.url()));
    send(&store, record(1, 1)).await.unwrap();
    proxy.blackhole(true);
    assert!(call_in_time(&store, &[record(1, 2)]).await.is_none());
    let late = Arc::clone(&store);
    let late = tokio::spawn(async move { send(&late, record(1, 3)).await });
    // Sent over the dead connection as well, and given up later than the call before.
    tokio::task::yield_now().await;
    proxy.blackhole(false);
    call_until_answered(&store, &[record(1, 4)]).await;
    assert_eq!(proxy.accepted(), 2);
    assert!(late.await.unwrap().is_err());
    assert_eq!(send(&store, record(1, 5)).await.unwrap().current.sum, 5);
    assert_eq!(proxy.accepted(), 2, "the second connection is still the one");
}

#[tokio::test]
async fn many_first_calls_make_one_connection() {
    let (_server, proxy) = behind_a_proxy();
    let store = Arc::new(store(&proxy.url()));
    let calls: Vec<_> = (0..100)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { send(&store, record(number, 1)).await })
        })
        .collect();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(proxy.accepted(), 1);
    assert_eq!(send(&store, record(1, 0)).await.unwrap().current.sum, 100);
}

#[tokio::test]
async fn calls_fail_at_once_while_the_server_is_away_and_do_not_storm_it() {
    let (_server, proxy) = behind_a_proxy();
    proxy.refuse(true);
    let store = store(&proxy.url());
    let mut calls = 0_u64;
    let refused = async || {
        calls += 1;
        let call = call(vec![record(1, 1)]);
        let answer = tokio::time::timeout(PATIENCE, store.call(&call)).await.expect("at once");
        assert!(matches!(answer, Err(StoreError::Unreachable(_))), "{answer:?}");
        (proxy.accepted() >= 6).then_some(())
    };
    eventually("six attempts", refused).await;
    assert!(calls > proxy.accepted() * 2, "most of {calls} calls made no attempt");
    proxy.refuse(false);
    call_until_answered(&store, &[record(1, 1)]).await;
}

#[tokio::test]
async fn dropped_calls_break_nothing() {
    let (_server, proxy) = behind_a_proxy();
    let store = store(&proxy.url());
    let mut total = 0;
    for polls in 0..200_u32 {
        total += 1;
        let call = call(vec![record(1, total)]);
        let mut calling = store.call(&call);
        // Polled a few times and dropped: before the connection, in it, or before the answer.
        for _ in 0..polls % 5 {
            tokio::select! {
                biased;
                _ = &mut calling => break,
                () = tokio::task::yield_now() => {}
            }
        }
    }
    let cell = send(&store, record(1, total + 1)).await.unwrap().current;
    assert_eq!((cell.sum, cell.components), (total + 1, 1));
    assert_eq!(proxy.accepted(), 1, "one connection served them all");
}
