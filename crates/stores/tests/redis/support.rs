//! What the tests have in common.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_convergence::{
    BoardCall, BoardReply, Component, Post, Record, RegionalStore, Reply, Shard, ShardCall,
    ShardReply, StoreError, Token,
};
use tidegate_lab::DEADLINE;
use tidegate_limiter::{Digest, FleetSecret, Part, Subject, Window};
use tidegate_stores::redis::OnceCall;
use tidegate_stores::{RedisConfig, RedisStore};

/// Long enough that nothing expires inside a test.
pub(crate) const WINDOW_MS: u64 = 3_600_000;
/// A caller's patience. Longer than that of a limiter, because the build machine is slow.
pub(crate) const PATIENCE: Duration = Duration::from_millis(300);

pub(crate) fn subject(number: u32) -> Digest {
    let identifier = number.to_string();
    let part = |text| Part::new(text).unwrap();
    let window = Window::from_millis(WINDOW_MS).unwrap();
    let subject = Subject::new(part("w"), part("n"), Part::new(&identifier).unwrap(), window);
    Digest::of(&subject, &FleetSecret::default())
}

/// A record of subject 0, sequence 7, whose previous total is 0.
pub(crate) fn record(incarnation: u128, total: u64) -> Record {
    let component = Component { incarnation, life: 0 };
    let (window_ms, sequence, previous_total) = (WINDOW_MS, 7, 0);
    Record { subject: subject(0), window_ms, sequence, component, total, previous_total }
}

/// A call that identifies, with a token never proposed before.
pub(crate) fn call(records: Vec<Record>) -> ShardCall {
    static PROPOSED: AtomicU64 = AtomicU64::new(1);
    let proposal = Token(PROPOSED.fetch_add(1, Ordering::SeqCst).into());
    ShardCall { identify: true, ..ShardCall::of(Shard(0), proposal, records) }
}

pub(crate) fn store(url: &str) -> RedisStore {
    RedisStore::new(RedisConfig::parse(url).unwrap(), 1).unwrap()
}

/// The reply to one record.
pub(crate) async fn send(store: &RedisStore, record: Record) -> Result<Reply, StoreError> {
    let reply = store.call(&call(vec![record])).await?;
    Ok(reply.replies[0].expect("the only record of a call that succeeded"))
}

/// One call with a caller's time-out.
pub(crate) async fn call_in_time(store: &RedisStore, records: &[Record]) -> Option<ShardReply> {
    let call = call(records.to_vec());
    let answer = tokio::time::timeout(PATIENCE, store.call(&call)).await;
    answer.ok().and_then(Result::ok)
}

/// Looks until the condition gives a value.
pub(crate) async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Option<T>) -> T {
    let start = tokio::time::Instant::now();
    let mut looks = tokio::time::interval(Duration::from_millis(5));
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "{what}: not within {DEADLINE:?}");
        looks.tick().await;
    }
}

/// Calls until it succeeds, each time as a caller with a time-out does.
pub(crate) async fn call_until_answered(store: &RedisStore, records: &[Record]) -> ShardReply {
    eventually("the store answers", async || call_in_time(store, records).await).await
}

/// The name of a key of the board.
pub(crate) fn board_key(name: &str) -> String {
    format!("tg:1:{{board}}:{name}")
}

/// A post of that subject.
pub(crate) fn post(number: u32, step: u64) -> Post {
    Post { subject: subject(number), window_ms: WINDOW_MS, sequence: 7, step }
}

/// A call that only posts.
pub(crate) fn posting(posts: &[Post], within_ms: u64) -> BoardCall {
    let (posts, lease_ms) = (posts.to_vec(), 0);
    BoardCall { who: 99, posts, within_ms, lease_ms, hurry: false, ..leading(99) }
}

/// A call that leads for an hour and takes all there is.
pub(crate) fn leading(who: u128) -> BoardCall {
    BoardCall {
        who,
        identity: who,
        sure: false,
        posts: vec![],
        within_ms: 0,
        lease_ms: 3_600_000,
        take_max: 1_000,
        hurry: true,
    }
}

/// The reply of the board.
pub(crate) async fn ask(store: &RedisStore, call: &BoardCall) -> BoardReply {
    store.board(call).await.unwrap()
}

/// A call of that name that is to be answered once, and who wants to decide it.
pub(crate) fn once(number: u32, claimant: u128) -> OnceCall {
    OnceCall { name: subject(number), fingerprint: [7; 16], claimant }
}
