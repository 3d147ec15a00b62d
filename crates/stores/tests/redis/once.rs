//! Calls that are answered once: who may decide, what is kept, and for how long.

use std::time::Duration;

use tidegate_convergence::{Shard, StoreError};
use tidegate_lab::{Proxy, RedisCluster, RedisServer, Sentinel};
use tidegate_stores::RedisStore;
use tidegate_stores::redis::{Claimed, OnceCall};

use crate::support::{PATIENCE, eventually, once, store};
use crate::topology::replicated;

const MINUTE_MS: u64 = 60_000;

async fn claim(store: &RedisStore, call: &OnceCall) -> Claimed {
    store.claim_call(call, MINUTE_MS).await.unwrap()
}

#[tokio::test]
async fn of_two_processes_one_decides_and_both_have_its_reply() {
    let server = RedisServer::start().unwrap();
    let (one, other) = (store(&server.url()), store(&server.url()));
    let (first, second) = (once(1, 1), once(1, 2));
    assert_eq!(claim(&one, &first).await, Claimed::First);
    assert_eq!(claim(&other, &second).await, Claimed::Pending);
    assert_eq!(claim(&one, &first).await, Claimed::First, "it did not hear that it was told so");
    let reply = b"\0any bytes\xff\r\n".to_vec();
    assert_eq!(one.settle_call(&first, &reply, MINUTE_MS).await, Ok(true));
    for (store, call) in [(&one, &first), (&other, &second)] {
        assert_eq!(claim(store, call).await, Claimed::Done(reply.clone()));
    }
    assert_eq!(other.settle_call(&second, b"later", MINUTE_MS).await, Ok(false));
    assert_eq!(claim(&one, &first).await, Claimed::Done(reply), "the first reply stands");
    assert_eq!(claim(&one, &once(2, 1)).await, Claimed::First, "another name");
}

#[tokio::test]
async fn a_name_belongs_to_one_call() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let mine = once(1, 1);
    let other = OnceCall { fingerprint: [8; 16], claimant: 2, ..mine };
    claim(&store, &mine).await;
    assert_eq!(claim(&store, &other).await, Claimed::Other, "while it is decided");
    assert_eq!(store.settle_call(&other, b"wrong", MINUTE_MS).await, Ok(false));
    assert_eq!(store.release_call(&other).await, Ok(false));
    store.settle_call(&mine, b"", MINUTE_MS).await.unwrap();
    assert_eq!(claim(&store, &other).await, Claimed::Other, "and afterwards");
    assert_eq!(claim(&store, &mine).await, Claimed::Done(vec![]));
}

#[tokio::test]
async fn only_who_decides_can_give_up() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let (first, second) = (once(1, 1), once(1, 2));
    claim(&store, &first).await;
    assert_eq!(store.release_call(&second).await, Ok(false));
    assert_eq!(claim(&store, &second).await, Claimed::Pending);
    assert_eq!(store.release_call(&first).await, Ok(true));
    assert_eq!(claim(&store, &second).await, Claimed::First);
    assert_eq!(store.release_call(&first).await, Ok(false), "it is no longer its own");
    store.settle_call(&second, b"done", MINUTE_MS).await.unwrap();
    assert_eq!(store.release_call(&second).await, Ok(false), "a reply is not given up");
    assert_eq!(claim(&store, &first).await, Claimed::Done(b"done".to_vec()));
}

#[tokio::test]
async fn a_claim_of_a_process_that_died_lapses_and_a_late_reply_is_kept() {
    let server = RedisServer::start().unwrap();
    let (one, other) = (store(&server.url()), store(&server.url()));
    let (first, second) = (once(1, 1), once(1, 2));
    assert_eq!(one.claim_call(&first, 50).await, Ok(Claimed::First));
    drop(one);
    let lapsed = async || (claim(&other, &second).await == Claimed::First).then_some(());
    eventually("the claim lapses", lapsed).await;
    let one = store(&server.url());
    assert_eq!(one.settle_call(&first, b"late", MINUTE_MS).await, Ok(true));
    assert_eq!(other.settle_call(&second, b"later", MINUTE_MS).await, Ok(false));
    assert_eq!(claim(&other, &second).await, Claimed::Done(b"late".to_vec()));
}

/// INV-15: no key stays for ever, and none for longer than it may.
#[tokio::test]
async fn every_key_dies_and_holds_no_more_than_it_must() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let keys = || server.command(&["KEYS", "*"]).unwrap();
    for (number, life_ms) in [(1, MINUTE_MS), (2, 0), (3, u64::MAX)] {
        let call = once(number, 1);
        store.claim_call(&call, life_ms).await.unwrap();
        store.settle_call(&call, b"reply", life_ms).await.unwrap();
    }
    for key in keys().items() {
        assert!(key.text().starts_with("tg:1:{0}:once:"), "{key:?}");
        // -2: it is gone by now.
        let left = server.command(&["PTTL", &key.text()]).unwrap().int().unwrap();
        assert!(left != -1 && left <= 101 * 366 * 86_400_000, "{key:?}: {left}");
    }
    let call = once(4, 1);
    claim(&store, &call).await;
    assert_eq!(store.release_call(&call).await, Ok(true));
    eventually("two are left", async || (keys().items().len() == 2).then_some(())).await;
}

#[tokio::test]
async fn scripts_that_are_lost_are_loaded_again() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let forget = || server.command(&["SCRIPT", "FLUSH"]).unwrap();
    for number in 1..=3 {
        let call = once(number, 1);
        forget();
        assert_eq!(claim(&store, &call).await, Claimed::First);
        forget();
        assert_eq!(store.settle_call(&call, b"reply", MINUTE_MS).await, Ok(true));
        forget();
        assert_eq!(claim(&store, &call).await, Claimed::Done(b"reply".to_vec()));
    }
}

#[tokio::test]
async fn a_full_server_refuses_and_keeps_what_it_has() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let (settled, pending) = (once(1, 1), once(2, 1));
    for call in [&settled, &pending] {
        claim(&store, call).await;
    }
    store.settle_call(&settled, b"reply", MINUTE_MS).await.unwrap();
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    for refused in [
        store.claim_call(&once(3, 1), MINUTE_MS).await.map(|_| ()),
        store.settle_call(&pending, b"reply", MINUTE_MS).await.map(|_| ()),
    ] {
        let full = matches!(&refused, Err(StoreError::Refused(why)) if why.contains("OOM"));
        assert!(full, "{refused:?}");
    }
    assert_eq!(claim(&store, &settled).await, Claimed::Done(b"reply".to_vec()));
    assert_eq!(store.release_call(&pending).await, Ok(true));
}

#[tokio::test]
async fn a_key_that_is_no_call_is_refused() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    claim(&store, &once(1, 1)).await;
    let key = server.command(&["KEYS", "*"]).unwrap().items()[0].text();
    server.command(&["DEL", &key]).unwrap();
    server.command(&["HSET", &key, "a", "b"]).unwrap();
    let refused = store.claim_call(&once(1, 1), MINUTE_MS).await;
    assert!(matches!(&refused, Err(StoreError::Refused(why)) if why.contains("WRONGTYPE")));
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_by_who_asks() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let store = store(&proxy.url());
    claim(&store, &once(1, 1)).await;
    proxy.blackhole(true);
    let soon = Duration::from_millis(20);
    let call = once(2, 1);
    let late = tokio::time::timeout(soon, store.claim_call(&call, MINUTE_MS)).await;
    assert!(late.is_err(), "the caller keeps the time");
}

/// Claims, settles and reads a call, as soon as the store answers.
async fn answer_once(store: &RedisStore, number: u32) {
    let call = once(number, 1);
    let reply = format!("reply {number}");
    let settled = async || {
        let claimed = tokio::time::timeout(PATIENCE, store.claim_call(&call, MINUTE_MS));
        match claimed.await.ok()?.ok()? {
            Claimed::First => {
                let settled = store.settle_call(&call, reply.as_bytes(), MINUTE_MS);
                tokio::time::timeout(PATIENCE, settled).await.ok()?.ok()?;
                None
            }
            Claimed::Done(held) => Some(held),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(eventually("the call is settled", settled).await, reply.as_bytes());
}

#[tokio::test]
async fn every_shard_of_a_cluster_keeps_calls() {
    let cluster = RedisCluster::start(3).unwrap();
    let store = store(&format!("redis://{}/?cluster=true", cluster.addresses().join(",")));
    let mut shards: Vec<Shard> = vec![];
    for number in 0..40 {
        answer_once(&store, number).await;
        shards.push(Shard::of(once(number, 1).name, 64));
    }
    shards.sort_unstable();
    shards.dedup();
    assert!(shards.len() > 20, "{shards:?}");
    for node in cluster.nodes() {
        let errors = node.command(&["INFO", "errorstats"]).unwrap().text();
        assert!(!errors.contains("MOVED") && !errors.contains("CROSSSLOT"), "{errors}");
    }
}

#[tokio::test]
async fn a_reply_survives_a_failover_by_the_sentinels() {
    let sentinel = Sentinel::start().unwrap();
    let nodes = sentinel.addresses().join(",");
    let store = store(&format!("redis://{nodes}/?sentinel={}", Sentinel::MASTER));
    answer_once(&store, 1).await;
    replicated(sentinel.servers());
    sentinel.fail_over().unwrap();
    let kept = async || {
        let call = once(1, 2);
        let claimed = tokio::time::timeout(PATIENCE, store.claim_call(&call, MINUTE_MS));
        claimed.await.ok()?.ok()
    };
    let kept = eventually("the new master answers", kept).await;
    assert_eq!(kept, Claimed::Done(b"reply 1".to_vec()));
    answer_once(&store, 2).await;
}
