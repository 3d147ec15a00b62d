//! What the tests have in common.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tidegate_convergence::{
    Ask, AskCell, BoardCall, BoardReply, Component, Post, Record, RegionalStore, Reply, Shard,
    ShardCall, ShardReply, StoreError, Token, Unit, Want,
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

/// The name of a cell of that subject.
pub(crate) fn cell_key(number: u32, sequence: u64) -> String {
    let digest: String = subject(number).as_bytes().iter().map(|b| format!("{b:02x}")).collect();
    format!("tg:1:{{0}}:{digest}:{sequence}")
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

/// A call that only asks.
pub(crate) fn asking(
    token: Token,
    operation: u64,
    cells: Vec<AskCell>,
    units: Vec<Unit>,
) -> ShardCall {
    let ask = Ask { operation, token, cells, units };
    ShardCall { identify: false, ask: Some(ask), ..call(vec![]) }
}

/// The cell of a record, of which no more is known, at the end of its window.
pub(crate) const fn ask_cell(record: Record) -> AskCell {
    AskCell { record, known: 0, known_previous: 0, foreign_previous: 0, rest_ms: 0 }
}

/// Costs of some cells, all under one limit, so many times.
pub(crate) fn unit(costs: &[(usize, u64)], head: u64, count: u32) -> Unit {
    let wants = costs.iter().map(|(cell, cost)| Want { cell: *cell, cost: *cost, head }).collect();
    Unit { wants, count }
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
