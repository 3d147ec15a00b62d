//! Two processes, as far as Redis can tell.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tidegate::redis;
use tidegate::{Clock, SystemClock};
use tidegate_lab::{DEADLINE, Proxy, RedisCluster, RedisServer, Sentinel};
use tidegate_server::idempotency::{
    Begun, Call, Claim, Idempotency, IdempotencyKey, OnceStore, Refusal, Remembered, Scope,
};

fn call(name: &str) -> Call<'_> {
    let key = IdempotencyKey::parse(name.as_bytes()).unwrap();
    Call { workspace: "acme", key, operation: "multiLimit", body: b"[{\"identifier\":\"ann\"}]" }
}

/// A process that has spoken to Redis already: the first connection may take its time.
async fn process(url: &str) -> Idempotency {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let seed = getrandom::u64().unwrap();
    let store: Arc<dyn OnceStore> = Arc::new(redis::store(url).unwrap());
    let process = Idempotency::new(clock, Some([5; 32]), seed).region(store);
    drop(claimed(&process, &format!("warm-{seed}")).await);
    process
}

/// Looks until the condition gives a value.
async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let start = tokio::time::Instant::now();
    let mut looks = tokio::time::interval(Duration::from_millis(20));
    loop {
        looks.tick().await;
        if let Some(value) = condition().await {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
    }
}

async fn first(process: &Idempotency, call: &Call<'_>) -> Option<Claim> {
    match process.begin(call).await {
        Begun::First(claim) => Some(claim),
        _ => None,
    }
}

/// The reply, as another process has it: a busy machine may miss a deadline, which is said.
async fn share(one: &Idempotency, other: &Idempotency) {
    let mut turn = 0;
    let remembered = eventually("a reply is shared", async || {
        turn += 1;
        let (name, reply) = (format!("shared-{turn}"), Bytes::from(format!("reply {turn}")));
        let claim = first(one, &call(&name)).await?;
        if claim.settle(&reply).await == Scope::Node {
            return None;
        }
        match other.begin(&call(&name)).await {
            Begun::Again(remembered) => {
                assert_eq!(remembered.reply, reply);
                Some(remembered)
            }
            // It did not hear from Redis in time, and says so.
            Begun::First(claim) => {
                assert_eq!(claim.scope(), Scope::Node);
                None
            }
            refused => panic!("{refused:?}"),
        }
    });
    assert_eq!(remembered.await.scope, Scope::Region);
}

#[tokio::test]
async fn two_processes_share_a_reply_and_nobody_can_read_it() {
    let server = RedisServer::start().unwrap();
    let (one, other) = (process(&server.url()).await, process(&server.url()).await);
    share(&one, &other).await;
    let claim = claimed(&one, "secret").await;
    claim.settle(&Bytes::from_static(b"{\"identifier\":\"ann\"}")).await;
    for key in server.command(&["KEYS", "*"]).unwrap().items() {
        let held = server.command(&["GET", &key.text()]).unwrap().text();
        for text in ["ann", "acme", "identifier", "secret", "multiLimit", "reply"] {
            assert!(!held.contains(text) && !key.text().contains(text), "{key:?}: {held}");
        }
        assert!(key.text().starts_with("tg:1:{0}:once:"), "{key:?}");
        let left = server.command(&["PTTL", &key.text()]).unwrap().int().unwrap();
        // -2: it was given up meanwhile.
        assert!(left == -2 || (1..=600_000).contains(&left), "{key:?}: {left}");
    }
}

#[tokio::test]
async fn a_region_in_a_cluster_or_behind_sentinels_is_shared() {
    let cluster = RedisCluster::start(3).unwrap();
    let url = format!("redis://{}/?cluster=true", cluster.addresses().join(","));
    share(&process(&url).await, &process(&url).await).await;
    let sentinels = Sentinel::start().unwrap();
    let nodes = sentinels.addresses().join(",");
    let url = format!("redis://{nodes}/?sentinel={}", Sentinel::MASTER);
    share(&process(&url).await, &process(&url).await).await;
}

/// A claim that Redis knows of.
async fn claimed(process: &Idempotency, name: &str) -> Claim {
    eventually("a claim", async || {
        let claim = first(process, &call(name)).await?;
        (claim.scope() == Scope::Region).then_some(claim)
    })
    .await
}

#[tokio::test]
async fn a_process_that_dies_between_claim_and_reply_blocks_nobody_for_long() {
    let server = RedisServer::start().unwrap();
    let (dies, lives) = (process(&server.url()).await, process(&server.url()).await);
    // What a crash does: nothing is given back.
    std::mem::forget(claimed(&dies, "k").await);
    eventually("it is refused", async || match lives.begin(&call("k")).await {
        Begun::Refused(Refusal::InProgress, Scope::Region) => Some(()),
        // Redis did not answer in time.
        Begun::First(claim) if claim.scope() == Scope::Node => None,
        other => panic!("{other:?}"),
    })
    .await;
    for key in server.command(&["KEYS", "*"]).unwrap().items() {
        let left = server.command(&["PTTL", &key.text()]).unwrap().int().unwrap();
        assert!(left <= 10_000, "{key:?}: {left}");
        // Ten seconds pass.
        server.command(&["PEXPIRE", &key.text(), "1"]).unwrap();
    }
    claimed(&lives, "k").await.settle(&Bytes::from_static(b"second")).await;
    assert!(matches!(lives.begin(&call("k")).await, Begun::Again(_)));
}

#[tokio::test]
async fn a_caller_who_leaves_hands_the_call_to_another_process() {
    let server = RedisServer::start().unwrap();
    let (one, other) = (process(&server.url()).await, process(&server.url()).await);
    drop(claimed(&one, "k").await);
    drop(claimed(&other, "k").await);
}

#[tokio::test]
async fn while_redis_hangs_a_process_remembers_alone_and_says_so() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let one = process(&proxy.url()).await;
    proxy.blackhole(true);
    let claim = first(&one, &call("k")).await.unwrap();
    assert_eq!(claim.settle(&Bytes::from_static(b"alone")).await, Scope::Node);
    let Begun::Again(remembered) = one.begin(&call("k")).await else { panic!("it is remembered") };
    let expected = Remembered { reply: Bytes::from_static(b"alone"), scope: Scope::Node };
    assert_eq!(remembered, expected);
    proxy.blackhole(false);
    let other = process(&server.url()).await;
    drop(claimed(&one, "later").await);
    share(&one, &other).await;
}
