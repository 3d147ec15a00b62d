//! The least a user needs, and what an operator is told.

use tidegate_convergence::{BoardCall, Grant, Record, RegionalStore, ShardCall, StoreError};
use tidegate_lab::{Proxy, RedisOptions, RedisServer};
use tidegate_stores::redis::{ACL, Claimed, Warning};

use crate::support::{
    ask, ask_cell, asking, call, eventually, leading, once, post, record, send, store, subject,
    unit,
};

fn restricted(rights: &str) -> RedisServer {
    let users =
        format!("user default on nopass ~* &* +@all\nuser tidegate on >secret ~tg:* {rights}\n");
    RedisServer::start_with(&RedisOptions::new().acl(&users)).unwrap()
}

fn url(server: &RedisServer) -> String {
    format!("redis://tidegate:secret@{}", server.address())
}

#[tokio::test]
async fn the_documented_user_can_do_all_we_do_and_nothing_else() {
    let server = restricted(ACL);
    let store = store(&url(&server));
    let report = store.check().await.unwrap();
    assert_eq!(report.warnings, []);
    let first = store.call(&call(vec![])).await.unwrap().token;
    for total in 1..=3 {
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        assert_eq!(send(&store, record(1, total)).await.unwrap().current.sum, total);
        // Recorded and granted, into a new cell and into one that is there, and present.
        let record = Record { subject: subject(7), ..record(1, total - 1) };
        let (cells, units) = (vec![ask_cell(record)], vec![unit(&[(0, 1)], 10, 1)]);
        let asks = asking(first, total, cells, units);
        let reply = store.call(&ShardCall { present: Some(1), ..asks }).await.unwrap();
        assert_eq!(reply.asked.unwrap().grants, [Grant::Granted(1)]);
        assert_eq!(reply.present, Some(1));
        // Led, taken in part, taken whole, given up.
        let posts = vec![post(1, total), post(2, total)];
        let take_max = 1;
        assert_eq!(ask(&store, &BoardCall { posts, take_max, ..leading(1) }).await.taken.len(), 1);
        let sure = BoardCall { sure: true, ..leading(1) };
        assert_eq!(ask(&store, &sure).await.taken.len(), 1);
        assert!(!ask(&store, &BoardCall { lease_ms: 0, ..sure }).await.leads);
        // Claimed, given up, claimed again, settled.
        let once = once(u32::try_from(total).unwrap(), 1);
        assert_eq!(store.claim_call(&once, 60_000).await, Ok(Claimed::First));
        assert_eq!(store.release_call(&once).await, Ok(true));
        assert_eq!(store.claim_call(&once, 60_000).await, Ok(Claimed::First));
        assert_eq!(store.settle_call(&once, b"reply", 60_000).await, Ok(true));
    }
    server.command(&["FLUSHALL"]).unwrap();
    store.call(&call(vec![])).await.unwrap();
    for forbidden in [
        &["FLUSHALL"][..],
        &["CONFIG", "GET", "*"],
        &["KEYS", "*"],
        &["DEL", "tg:1:{0}:token"],
        &["GET", "other"],
        &["ACL", "LIST"],
        &["SCRIPT", "FLUSH"],
        &["EVAL", "return 1", "0"],
        &["CLUSTER", "RESET"],
        &["REPLICAOF", "NO", "ONE"],
        &["PUBLISH", "a", "b"],
    ] {
        let answer = server.command_as("tidegate", "secret", forbidden).unwrap();
        assert!(answer.text().starts_with("NOPERM"), "{forbidden:?}: {answer:?}");
    }
    let slots = server.command(&["ACL", "DRYRUN", "tidegate", "CLUSTER", "SLOTS"]).unwrap();
    assert_eq!(slots.text(), "OK");
}

#[tokio::test]
async fn a_user_who_may_not_write_is_told_so() {
    for right in [
        "get",
        "set",
        "pexpire",
        "hmget",
        "hget",
        "hset",
        "hincrby",
        "hlen",
        "time",
        "mget",
        "hrandfield",
        "hdel",
        "zadd",
        "zremrangebyscore",
        "zcard",
    ] {
        let rights: Vec<&str> =
            ACL.split_whitespace().filter(|has| has.trim_start_matches('+') != right).collect();
        let server = restricted(&rights.join(" "));
        let warnings = store(&url(&server)).check().await.unwrap().warnings;
        assert!(matches!(warnings[..], [Warning::NotPermitted { .. }]), "{right}: {warnings:?}");
    }
    let server = restricted(&ACL.replace("+hset ", ""));
    let store = store(&url(&server));
    let refused = store.call(&call(vec![record(1, 1)])).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn a_wrong_password_is_a_refusal_that_does_not_show_it() {
    let server = restricted(ACL);
    let store = store(&format!("redis://tidegate:hunter2@{}", server.address()));
    let refused = store.call(&call(vec![])).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    assert!(!format!("{refused:?} {store:?}").contains("hunter2"));
}

#[tokio::test]
async fn a_policy_that_evicts_is_told() {
    let server = RedisServer::start_with(
        &RedisOptions::new().set("maxmemory", "100mb").set("maxmemory-policy", "allkeys-lru"),
    )
    .unwrap();
    let report = store(&server.url()).check().await.unwrap();
    let policy = "allkeys-lru".to_owned();
    assert_eq!(report.warnings, [Warning::Evicts { address: String::new(), policy }]);
    assert_eq!((report.nodes.len(), report.nodes[0].role.as_str()), (1, "master"));
}

#[tokio::test]
async fn a_check_leaves_nothing_behind() {
    let server = RedisServer::start().unwrap();
    let report = store(&server.url()).check().await.unwrap();
    assert_eq!(report.warnings, []);
    tidegate_lab::eventually("the server is empty", tidegate_lab::DEADLINE, || {
        (server.command(&["DBSIZE"]).ok()?.int() == Some(0)).then_some(())
    })
    .unwrap();
}

#[tokio::test]
async fn a_fleet_agrees_on_its_secret() {
    let server = RedisServer::start().unwrap();
    let (one, other) = (store(&server.url()), store(&server.url()));
    for (store, fingerprint, agrees) in
        [(&one, [1; 16], true), (&other, [1; 16], true), (&other, [2; 16], false)]
    {
        assert_eq!(store.agrees_on(fingerprint).await, Ok(agrees));
    }
    let life_ms = server.command(&["PTTL", "tg:1:{0}:secret"]).unwrap().int().unwrap();
    assert!((1..=93 * 86_400_000).contains(&life_ms));
}

fn replica_of(master: &RedisServer) -> RedisServer {
    let follow = format!("127.0.0.1 {}", master.port());
    RedisServer::start_with(
        &RedisOptions::new().set("replicaof", &follow).set("repl-diskless-sync-delay", "0"),
    )
    .unwrap()
}

#[tokio::test]
async fn a_replica_that_is_not_asked_who_it_is_tells_by_refusing_to_write() {
    let master = RedisServer::start().unwrap();
    send(&store(&master.url()), record(1, 1)).await.unwrap();
    let replica = replica_of(&master);
    tidegate_lab::eventually("the replica has the token", tidegate_lab::DEADLINE, || {
        let there = replica.command(&["EXISTS", "tg:1:{0}:token"]).ok()?.int();
        (there == Some(1)).then_some(())
    })
    .unwrap();
    let (store, other) = (store(&replica.url()), store(&replica.url()));
    store.check().await.unwrap();
    let refused = other.board(&leading(1)).await;
    assert!(matches!(refused, Err(StoreError::Unreachable(_))), "{refused:?}");
    let mixed = call(vec![record(1, 0), record(1, 2), record(1, 0)]);
    let refused = store.call(&ShardCall { identify: false, ..mixed }).await;
    assert!(matches!(refused, Err(StoreError::Unreachable(_))), "{refused:?}");
}

#[tokio::test]
async fn a_replica_is_told_and_refused() {
    let master = RedisServer::start().unwrap();
    let replica = replica_of(&master);
    let proxy = Proxy::start(replica.port()).unwrap();
    let store = store(&proxy.url());
    let warnings = store.check().await.unwrap().warnings;
    assert!(warnings.contains(&Warning::Replica { address: String::new() }), "{warnings:?}");
    let mut calls = 0;
    let refused = async || {
        calls += 1;
        let refused = store.call(&call(vec![record(1, 0)])).await;
        assert!(matches!(refused, Err(StoreError::Unreachable(_))), "{refused:?}");
        (proxy.accepted() >= 5).then_some(())
    };
    eventually("five attempts", refused).await;
    assert!(calls > proxy.accepted() * 2, "most of {calls} calls made no attempt");
}
