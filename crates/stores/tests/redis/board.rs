//! The board in Redis: the replies of the model, leases, identities, and what it does when there
//! is too much.

use std::cell::Cell;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_convergence::{
    BoardCall, BoardReply, IDENTITY_LIFE_MS, MemoryRegion, POSTS_LIFE_MS, POSTS_MAX, Post,
    RegionalStore, Shard, StoreError,
};
use tidegate_lab::RedisServer;
use tidegate_stores::RedisStore;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::histories;
use crate::support::{WINDOW_MS, ask, board_key, leading, post, posting, store, subject};

/// Time passes in steps of this in a history.
const STEP_MS: u64 = 20_000;
/// What lasts for a while ends between two steps: a history that is over sooner than half a step
/// cannot tell that the server's clock goes on and the model's does not.
const HALF_MS: u64 = STEP_MS / 2;

#[derive(Clone, Debug)]
enum Step {
    Call(BoardCall),
    /// Some steps of time pass.
    Later(u64),
    Flush,
    ForgetScripts,
}

fn posts() -> impl Strategy<Value = Vec<Post>> {
    // Some are too long for one execution; all places together are fewer than are taken at once.
    let size = prop_oneof![9 => 0..6_usize, 1 => 400..700_usize];
    let window = prop_oneof![Just(WINDOW_MS), Just(u64::MAX)];
    let sequence = prop_oneof![0..3_u64, Just(u64::MAX - 1)];
    let step = prop_oneof![0..20_u64, Just((1 << 53) - 1), Just((1 << 53) - 2)];
    let one =
        (0..100_u32, window, sequence, step).prop_map(|(number, window_ms, sequence, step)| Post {
            subject: subject(number),
            window_ms,
            sequence,
            step,
        });
    size.prop_flat_map(move |size| proptest::collection::vec(one.clone(), size))
}

fn calls() -> impl Strategy<Value = BoardCall> {
    let lasting = || prop_oneof![Just(0), (0..5_u64).prop_map(|n| n * STEP_MS + HALF_MS)];
    let who = (0..3_u128, 0..3_u128, any::<bool>());
    // Which are taken of more than are wanted is not the same as in the model.
    let take = (prop_oneof![Just(0_usize), Just(1_000)], any::<bool>());
    (who, posts(), lasting(), lasting(), take).prop_map(
        |((who, identity, sure), posts, within_ms, lease_ms, (take_max, hurry))| BoardCall {
            who,
            identity,
            sure,
            posts,
            within_ms,
            lease_ms,
            take_max,
            hurry,
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => calls().prop_map(Step::Call),
        4 => (1..8_u64).prop_map(Step::Later),
        1 => Just(Step::Flush),
        1 => Just(Step::ForgetScripts),
    ];
    proptest::collection::vec(step, 1..25)
}

struct World {
    runtime: Runtime,
    server: RedisServer,
    store: RedisStore,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = RedisServer::start().unwrap();
        let store = store(&server.url());
        Self { runtime, server, store }
    }

    /// Whether the history was short enough to compare.
    fn run(&self, steps: &[Step]) -> bool {
        let start = Instant::now();
        self.server.command(&["FLUSHALL"]).unwrap();
        let (mut model, mut now_ms) = (MemoryRegion::new(1), 0);
        for step in steps {
            match step {
                Step::Call(call) => {
                    let theirs = self.runtime.block_on(self.store.board(call)).unwrap();
                    if start.elapsed() > Duration::from_millis(HALF_MS / 2) {
                        return false;
                    }
                    compare(theirs, model.board(call, now_ms), call);
                    self.every_key_dies();
                }
                Step::Later(steps) => {
                    now_ms += steps * STEP_MS;
                    self.pass(steps * STEP_MS);
                }
                Step::Flush => {
                    model.flush(Shard(0));
                    self.server.command(&["FLUSHALL"]).unwrap();
                }
                Step::ForgetScripts => {
                    self.server.command(&["SCRIPT", "FLUSH"]).unwrap();
                }
            }
        }
        true
    }

    fn left_ms(&self, key: &str) -> i64 {
        self.server.command(&["PTTL", &board_key(key)]).unwrap().int().unwrap()
    }

    /// Makes everything older, as if time had passed. Who the region is lives longer than this.
    fn pass(&self, ms: u64) {
        let ms = i64::try_from(ms).unwrap();
        for key in ["posts", "due", "leader"] {
            let left = self.left_ms(key) - ms;
            self.server.command(&["PEXPIRE", &board_key(key), &left.to_string()]).unwrap();
        }
        let key = board_key("due");
        if let Some(due) = self.server.command(&["GET", &key]).unwrap().int() {
            let due = (due - ms).to_string();
            assert_eq!(self.server.command(&["SET", &key, &due, "KEEPTTL"]).unwrap().text(), "OK");
        }
    }

    /// INV-15: no key stays for ever, and none for longer than it may.
    fn every_key_dies(&self) {
        let names = [("posts", POSTS_LIFE_MS), ("due", POSTS_LIFE_MS), ("leader", 5 * STEP_MS)];
        for (name, life_ms) in names.into_iter().chain([("region", IDENTITY_LIFE_MS)]) {
            let left = self.left_ms(name);
            // -2: there is none.
            let lives = left == -2 || (1..=i64::try_from(life_ms).unwrap()).contains(&left);
            assert!(lives, "{name}: {left}");
        }
        assert!(self.server.command(&["DBSIZE"]).unwrap().int().unwrap() <= 4);
    }
}

/// The replies are the same, but for the time that the server needed.
fn compare(mut theirs: BoardReply, ours: BoardReply, call: &BoardCall) {
    theirs.taken.sort_unstable();
    match (&mut theirs.due_in_ms, ours.due_in_ms) {
        (Some(theirs), Some(ours)) if (ours.saturating_sub(HALF_MS)..=ours).contains(theirs) => {
            *theirs = ours;
        }
        _ => {}
    }
    assert_eq!(theirs, ours, "{call:?}");
}

#[test]
fn the_board_answers_as_the_model_does() {
    let (world, compared) = (World::new(), Cell::new(0_u32));
    histories::run(60, &steps(), |steps| {
        compared.set(compared.get() + u32::from(world.run(steps)));
    });
    // On a machine that stalls for seconds some prove nothing.
    assert!(compared.get() > 0);
}

#[tokio::test]
async fn one_of_two_leads_until_it_lapses_or_gives_up() {
    let server = RedisServer::start().unwrap();
    let (one, other) = (store(&server.url()), store(&server.url()));
    let lead = async |store: &RedisStore, who, lease_ms| {
        ask(store, &BoardCall { lease_ms, ..leading(who) }).await.leads
    };
    assert!(lead(&one, 1, 3_600_000).await);
    assert!(!lead(&other, 2, 3_600_000).await);
    assert!(!lead(&other, 2, 0).await, "it has nothing to give up");
    // It shortens its lease, which is renewing it.
    assert!(lead(&one, 1, 100).await);
    let lapsed = async || lead(&other, 2, 3_600_000).await.then_some(());
    crate::support::eventually("the lease lapses", lapsed).await;
    assert!(!lead(&one, 1, 3_600_000).await);
    assert!(!lead(&other, 2, 0).await, "it gives up");
    assert!(lead(&one, 1, 3_600_000).await);
}

#[tokio::test]
async fn a_guess_of_who_the_region_is_yields_to_who_is_sure() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let who_is = async |identity: u128, sure: bool| {
        ask(&store, &BoardCall { identity, sure, ..posting(&[], 0) }).await.identity
    };
    let key = board_key("region");
    let left_ms = || server.command(&["PTTL", &key]).unwrap().int().unwrap();
    assert_eq!(who_is(1, false).await, 1);
    assert_eq!(who_is(2, false).await, 1, "the first guess stands");
    assert_eq!(who_is(3, true).await, 3);
    server.command(&["PEXPIRE", &key, "600000"]).unwrap();
    assert_eq!(who_is(4, false).await, 3);
    assert!(left_ms() <= 600_000, "a guess does not renew it");
    assert_eq!(who_is(3, true).await, 3);
    assert!(left_ms() > 600_000, "who is sure does");
    server.command(&["FLUSHALL"]).unwrap();
    assert_eq!(who_is(5, false).await, 5);
    assert_eq!(who_is(3, true).await, 3, "whoever knows it brings it back");
}

#[tokio::test]
async fn more_than_is_wanted_is_taken_in_several_calls() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let posts: Vec<Post> = (0..2_500).map(|n| post(n, u64::from(n) + 1)).collect();
    for some in posts.chunks(500) {
        ask(&store, &posting(some, 0)).await;
    }
    let mut taken = vec![];
    for (take_max, left) in [(7, 2_493), (usize::MAX, 1_493), (1_000, 493), (1_000, 0)] {
        let reply = ask(&store, &BoardCall { take_max, ..leading(1) }).await;
        taken.extend(reply.taken);
        assert_eq!(taken.len(), 2_500 - left);
        assert_eq!(reply.due_in_ms, (left > 0).then_some(0));
    }
    taken.sort_unstable();
    let mut posts = posts;
    posts.sort_unstable();
    assert!(taken == posts, "each once, with its step");
    assert_eq!(ask(&store, &leading(1)).await.taken, []);
    let rest = server.command(&["EXISTS", &board_key("posts"), &board_key("due")]).unwrap();
    assert_eq!(rest.int(), Some(0));
}

#[tokio::test]
async fn a_full_board_keeps_what_it_has() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    ask(&store, &posting(&[post(0, 5)], 3_600_000)).await;
    let fill = "for i = 1, ARGV[1] do
        redis.call('HSET', KEYS[1], string.format('%032d', i), 1) end";
    let (key, more) = (board_key("posts"), (POSTS_MAX - 2).to_string());
    server.command(&["EVAL", fill, "1", &key, &more]).unwrap();
    let size = || server.command(&["HLEN", &key]).unwrap().int().unwrap();
    ask(&store, &posting(&[post(1, 5), post(2, 5), post(0, 3), post(1, 4)], 0)).await;
    let full = i64::try_from(POSTS_MAX).unwrap();
    assert_eq!(size(), full, "one more, and not two");
    ask(&store, &posting(&[post(3, 1), post(1, 2)], 0)).await;
    assert_eq!(size(), full);
    server
        .command(&[
            "EVAL",
            "for i = 1, ARGV[1] do
        redis.call('HDEL', KEYS[1], string.format('%032d', i)) end",
            "1",
            &key,
            &more,
        ])
        .unwrap();
    let mut taken = ask(&store, &leading(1)).await.taken;
    taken.sort_unstable_by_key(|post| post.step);
    assert_eq!(taken, [post(1, 2), post(0, 3)], "what is there is made smaller");
}

#[tokio::test]
async fn steps_that_a_double_cannot_hold_are_cut() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let most = (1 << 53) - 1;
    ask(&store, &posting(&[post(0, u64::MAX), post(1, most - 1), post(1, most)], 0)).await;
    let mut taken = ask(&store, &leading(1)).await.taken;
    taken.sort_unstable_by_key(|post| post.step);
    assert_eq!(taken, [post(1, most - 1), post(0, most)]);
}

#[tokio::test]
async fn times_that_make_no_sense_do_no_harm() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let (lease_ms, within_ms) = (u64::MAX, u64::MAX);
    let (posts, hurry) = (vec![post(0, 1)], false);
    let call = BoardCall { lease_ms, within_ms, posts, hurry, ..leading(1) };
    let reply = ask(&store, &call).await;
    assert!(reply.leads && reply.taken.is_empty());
    assert!(reply.due_in_ms.unwrap() > 90 * 365 * 86_400_000);
}

#[tokio::test]
async fn scripts_that_are_lost_are_loaded_again() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    for n in 1..=5 {
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        let posts = vec![post(n, 1)];
        let taken = ask(&store, &BoardCall { posts, ..leading(1) }).await.taken;
        assert_eq!(taken, [post(n, 1)]);
    }
}

#[tokio::test]
async fn a_full_server_refuses_posts_and_lets_the_one_who_leads_take() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    ask(&store, &BoardCall { hurry: false, ..leading(1) }).await;
    ask(&store, &posting(&[post(0, 5)], 0)).await;
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    for posts in [[post(1, 1)], [post(0, 1)]] {
        let sure = BoardCall { sure: true, ..posting(&posts, 0) };
        let full = store.board(&sure).await;
        assert!(matches!(&full, Err(StoreError::Refused(why)) if why.contains("OOM")), "{full:?}");
    }
    assert_eq!(ask(&store, &leading(1)).await.taken, [post(0, 5)], "nothing was half posted");
}

#[tokio::test]
async fn a_key_that_is_no_board_is_refused() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let key = board_key("posts");
    server.command(&["SET", &key, "text"]).unwrap();
    let refused = store.board(&leading(1)).await;
    assert!(matches!(&refused, Err(StoreError::Refused(why)) if why.contains("WRONGTYPE")));
    server.command(&["DEL", &key]).unwrap();
    assert_eq!(ask(&store, &leading(1)).await.taken, []);
}
