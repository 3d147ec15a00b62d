//! A cluster gives the replies of a model with as many shards: what befalls one shard, or is said
//! to it, is not seen in another.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use tidegate_convergence::{
    Ask, BoardCall, Component, MemoryRegion, Record, RegionalStore, Shard, ShardCall, ShardReply,
    Token,
};
use tidegate_lab::RedisCluster;
use tidegate_stores::RedisStore;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::histories;
use crate::support::{ask_cell, leading, post, posting, record, store, subject, unit};

/// How many shards a history is about...
const SHARDS: usize = 3;
/// ...and how many subjects each of them has.
const SUBJECTS: usize = 3;
/// How many histories there are.
const HISTORIES: u32 = 40;
/// A process is present for five seconds. A history that is over sooner cannot tell that the
/// server's clock goes on and the model's does not.
const SHORT: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
enum Step {
    Call(Plan),
    Board(BoardCall),
    /// One shard loses everything.
    Flush(usize),
    /// All do, and the board.
    FlushAll,
}

/// A call to one of the shards.
#[derive(Clone, Debug)]
struct Plan {
    shard: usize,
    /// Which of its subjects but the first, and what is recorded.
    records: Vec<(usize, Record)>,
    present: Option<u128>,
    identify: bool,
    /// What is asked of its first subject: the total, the cost, the limit and how often.
    ask: Option<(Record, u64, u64, u32)>,
    /// Whether it means the shard as it is.
    same: bool,
}

fn records() -> impl Strategy<Value = Record> {
    (0..3_u128, 0..3_u64, 0..9_u64, 0..9_u64).prop_map(
        |(incarnation, sequence, total, previous_total)| {
            let component = Component { incarnation, life: 0 };
            Record { sequence, component, previous_total, ..record(0, total) }
        },
    )
}

fn plans() -> impl Strategy<Value = Plan> {
    let some = proptest::collection::vec((1..SUBJECTS, records()), 0..4);
    let ask = proptest::option::of((records(), 0..4_u64, 0..30_u64, 0..4_u32));
    let more = (proptest::option::of(0..4_u128), any::<bool>(), proptest::bool::weighted(0.9));
    (0..SHARDS, some, ask, more).prop_map(|(shard, records, ask, (present, identify, same))| Plan {
        shard,
        records,
        present,
        identify,
        ask,
        same,
    })
}

fn boards() -> impl Strategy<Value = BoardCall> {
    let posts = proptest::collection::vec((0..9_u32, 0..9_u64), 0..4);
    let posts = posts.prop_map(|all| {
        let all: Vec<_> = all.into_iter().map(|(number, step)| post(number, step)).collect();
        posting(&all, 0)
    });
    prop_oneof![2 => posts, 1 => (0..3_u128).prop_map(leading)]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        14 => plans().prop_map(Step::Call),
        4 => boards().prop_map(Step::Board),
        2 => (0..SHARDS).prop_map(Step::Flush),
        1 => Just(Step::FlushAll),
    ];
    proptest::collection::vec(step, 1..30)
}

struct World {
    runtime: Runtime,
    cluster: RedisCluster,
    store: RedisStore,
    /// Some shards, each with the numbers of some subjects.
    shards: Vec<(Shard, Vec<u32>)>,
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let cluster = RedisCluster::start(2).unwrap();
        let store = store(&format!("redis://{}/?cluster=true", cluster.addresses().join(",")));
        let mut shards: BTreeMap<Shard, Vec<u32>> = BTreeMap::new();
        for number in 0..2_000 {
            shards.entry(Shard::of(subject(number), store.shards())).or_default().push(number);
        }
        // In the model the board lives in the first shard; here it has a place of its own.
        let shards = shards.into_iter().filter(|(shard, of)| shard.0 > 0 && of.len() >= SUBJECTS);
        let shards: Vec<_> = shards.take(SHARDS).collect();
        assert_eq!(shards.len(), SHARDS);
        Self { runtime, cluster, store, shards }
    }

    /// Deletes the keys that match.
    fn delete(&self, pattern: &str) {
        for node in self.cluster.nodes() {
            for key in node.command(&["KEYS", pattern]).unwrap().items() {
                assert!(!node.command(&["DEL", &key.text()]).unwrap().is_error());
            }
        }
    }

    /// Whether the history was short enough to compare.
    fn run(&self, steps: &[Step]) -> bool {
        let start = Instant::now();
        self.delete("*");
        let mut model = MemoryRegion::new(self.store.shards());
        let mut tokens = [Token(u128::MAX); SHARDS];
        for (turn, step) in (1_u64..).zip(steps) {
            match step {
                Step::Call(plan) => {
                    let call = self.call(plan, turn, tokens[plan.shard]);
                    let theirs = self.runtime.block_on(self.store.call(&call)).unwrap();
                    if start.elapsed() > SHORT {
                        return false;
                    }
                    let ours = model.call(&call, 0);
                    tokens[plan.shard] = ours.token;
                    assert_eq!(theirs.server.is_some(), call.identify);
                    // Which server it is only the cluster knows.
                    assert_eq!(theirs, ShardReply { server: theirs.server, ..ours }, "{call:?}");
                }
                Step::Board(call) => {
                    let mut theirs = self.runtime.block_on(self.store.board(call)).unwrap();
                    if start.elapsed() > SHORT {
                        return false;
                    }
                    theirs.taken.sort_unstable();
                    assert_eq!(theirs, model.board(call, 0), "{call:?}");
                }
                Step::Flush(at) => {
                    let shard = self.shards[*at].0;
                    self.delete(&format!("tg:1:{{{}}}:*", shard.0));
                    model.flush(shard);
                }
                Step::FlushAll => {
                    self.delete("*");
                    (0..self.store.shards()).for_each(|shard| model.flush(Shard(shard)));
                }
            }
        }
        true
    }

    fn call(&self, plan: &Plan, turn: u64, token: Token) -> ShardCall {
        let (shard, numbers) = &self.shards[plan.shard];
        let of = |at: usize, record: Record| Record { subject: subject(numbers[at]), ..record };
        let records = plan.records.iter().map(|(at, record)| of(*at, *record)).collect();
        let token = if plan.same { token } else { Token(0) };
        let ask = plan.ask.map(|(record, cost, limit, count)| {
            let (cells, units) =
                (vec![ask_cell(of(0, record))], vec![unit(&[(0, cost)], limit, count)]);
            Ask { operation: turn, token, cells, units }
        });
        let call = ShardCall::of(*shard, Token(turn.into()), records);
        ShardCall { identify: plan.identify, present: plan.present, ask, ..call }
    }
}

#[test]
fn a_cluster_answers_as_the_model_does() {
    let (world, compared) = (World::new(), Cell::new(0_u32));
    histories::run(HISTORIES, &steps(), |steps| {
        compared.set(compared.get() + u32::from(world.run(steps)));
    });
    // On a machine that stalls for seconds some prove nothing.
    assert!(compared.get() > 0);
}
