//! Redis grants what the model grants, whatever is asked.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::subsequence;
use tidegate_convergence::{
    ANSWER_LIFE_MS, Ask, AskCell, CellName, Component, Grant, MemoryRegion, PRESENCE_LIFE_MS,
    Record, RegionalStore, SUM_MAX, Shard, ShardCall, ShardReply, Token, Unit, Want,
};
use tidegate_lab::RedisServer;
use tidegate_stores::RedisStore;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::histories;
use crate::support::{WINDOW_MS, cell_key, store, subject};

/// Time passes in steps of this in a history. Presence ends between the first and the second step,
/// an answer between the third and the fourth.
const STEP_MS: u64 = 3_000;
/// Or in steps of this: a cell with the shortest window dies between the fourth and the fifth, and
/// all smaller steps of a history together make no difference.
const AGE_MS: u64 = WINDOW_MS * 7 / 10;
/// A history that is over sooner cannot tell that the server's clock goes on and the model's does
/// not: an answer that is three steps old has another second.
const SHORT: Duration = Duration::from_millis(800);
/// The longest window that is counted exactly.
const WINDOW_MAX_MS: u64 = (1 << 32) - 1;

#[derive(Clone, Debug)]
enum Step {
    Call(Plan),
    /// One of the calls before, byte for byte.
    Again(usize),
    /// So many milliseconds pass.
    Later(u64),
    Flush,
    /// A replica has heard of everything...
    Follow,
    /// ...and takes over: what came later is lost.
    TakeOver,
    /// One cell is lost.
    Evict(u32, u64),
    ForgetScripts,
}

/// A call, but for what depends on those before it.
#[derive(Clone, Debug)]
struct Plan {
    records: Vec<(u32, Record)>,
    present: Option<u128>,
    identify: bool,
    ask: Option<AskPlan>,
}

#[derive(Clone, Debug)]
struct AskPlan {
    /// How many operations it is behind the one that is next.
    behind: u64,
    /// Whether it means the shard as it is.
    same: bool,
    /// With whether the total is at least what is recorded.
    cells: Vec<(bool, AskCell)>,
    /// The cells of the wants are counted on from the first when there are fewer.
    units: Vec<Unit>,
}

/// Numbers of all sizes, or only small ones, so that much is granted.
fn numbers(large: bool, small: u64, most: u64) -> BoxedStrategy<u64> {
    match large {
        true => prop_oneof![Just(0), 0..=small, 0..=most, Just(most)].boxed(),
        false => (0..=small).boxed(),
    }
}

fn records(large: bool, number: u32) -> impl Strategy<Value = Record> {
    let component =
        (0..2_u128, 0..2_u64).prop_map(|(incarnation, life)| Component { incarnation, life });
    let windows = prop_oneof![Just(WINDOW_MS), Just(WINDOW_MAX_MS), WINDOW_MS..WINDOW_MAX_MS];
    let total = || numbers(large, 6, (1 << 53) - 1);
    (windows, 0..3_u64, component, total(), total()).prop_map(
        move |(window_ms, sequence, component, total, previous_total)| Record {
            subject: subject(number),
            window_ms,
            sequence,
            component,
            total,
            previous_total,
        },
    )
}

fn cells(large: bool, number: u32) -> impl Strategy<Value = (bool, AskCell)> {
    let known = || numbers(large, 6, u64::MAX);
    let rest = prop_oneof![0..=WINDOW_MS, 0..=WINDOW_MAX_MS, Just(u64::MAX)];
    let known = (known(), known(), known(), rest);
    (any::<bool>(), records(large, number), known).prop_map(
        |(honest, record, (known, known_previous, foreign_previous, rest_ms))| {
            (honest, AskCell { record, known, known_previous, foreign_previous, rest_ms })
        },
    )
}

fn units(large: bool) -> impl Strategy<Value = Vec<Unit>> {
    let costs = numbers(large, 3, 1 << 50);
    let want = (any::<usize>(), costs, numbers(large, 60, SUM_MAX))
        .prop_map(|(cell, cost, head)| Want { cell, cost, head });
    let wants = prop_oneof![
        3 => proptest::collection::vec(want.clone(), 1),
        2 => proptest::collection::vec(want, 1..6),
    ];
    let count = prop_oneof![Just(1), 0..8_u32, 0..500_u32];
    let unit = (wants, count).prop_map(|(wants, count)| Unit { wants, count });
    proptest::collection::vec(unit, 0..6)
}

fn asks(large: bool) -> impl Strategy<Value = AskPlan> {
    let few = subsequence((0..4).collect::<Vec<u32>>(), 1..=4);
    let many = subsequence((0..100).collect::<Vec<u32>>(), 1..=100);
    let cells = prop_oneof![15 => few, 1 => many].prop_flat_map(move |numbers| {
        numbers.into_iter().map(|number| cells(large, number)).collect::<Vec<_>>()
    });
    let behind = prop_oneof![4 => Just(0), 1 => 1..4_u64];
    (behind, proptest::bool::weighted(0.9), cells, units(large))
        .prop_map(|(behind, same, cells, units)| AskPlan { behind, same, cells, units })
}

fn calls(large: bool) -> impl Strategy<Value = Plan> {
    let record = (0..4_u32)
        .prop_flat_map(move |number| records(large, number).prop_map(move |one| (number, one)));
    let sent = proptest::collection::vec(record, 0..4);
    let present = proptest::option::of(0..4_u128);
    let ask = proptest::option::weighted(0.8, asks(large));
    (sent, present, proptest::bool::weighted(0.2), ask)
        .prop_map(|(records, present, identify, ask)| Plan { records, present, identify, ask })
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    any::<bool>().prop_flat_map(|large| {
        let step = prop_oneof![
            14 => calls(large).prop_map(Step::Call),
            4 => (0..6_usize).prop_map(Step::Again),
            2 => (1..5_u64).prop_map(|steps| Step::Later(steps * STEP_MS)),
            1 => (1..4_u64).prop_map(|steps| Step::Later(steps * AGE_MS)),
            1 => Just(Step::Flush),
            3 => Just(Step::Follow),
            3 => Just(Step::TakeOver),
            1 => (0..4_u32, 0..3_u64).prop_map(|(number, sequence)| Step::Evict(number, sequence)),
            1 => Just(Step::ForgetScripts),
        ];
        proptest::collection::vec(step, 1..30)
    })
}

/// Makes everything older, as if time had passed, but for tokens: whoever lives renews them every
/// second.
const PASS: &str = "
    for _, key in ipairs(redis.call('KEYS', '*')) do
        if redis.call('TYPE', key).ok == 'zset' then
            for _, member in ipairs(redis.call('ZRANGE', key, 0, -1)) do
                redis.call('ZINCRBY', key, -ARGV[1], member)
            end
        end
        if not string.find(key, 'token') then
            redis.call('PEXPIRE', key, redis.call('PTTL', key) - ARGV[1])
        end
    end";
/// Loses everything but what the replica has.
const FLUSH: &str = "
    for _, key in ipairs(redis.call('KEYS', 'tg:*')) do redis.call('DEL', key) end";
/// The replica has heard of everything: each key is kept with its time to live.
const FOLLOW: &str = "
    for _, key in ipairs(redis.call('KEYS', 'followed:*')) do redis.call('DEL', key) end
    for _, key in ipairs(redis.call('KEYS', 'tg:*')) do
        redis.call('COPY', key, 'followed:' .. key)
    end";
/// The replica takes over.
const TAKE_OVER: &str = "
    for _, key in ipairs(redis.call('KEYS', 'tg:*')) do redis.call('DEL', key) end
    for _, key in ipairs(redis.call('KEYS', 'followed:*')) do
        redis.call('COPY', key, string.sub(key, 10))
    end";

struct World {
    runtime: Runtime,
    server: RedisServer,
    store: RedisStore,
    /// What the asks of all histories came to.
    seen: RefCell<BTreeSet<&'static str>>,
}

/// One history: the model, its clock, and what was sent.
struct History {
    model: MemoryRegion,
    follower: Option<MemoryRegion>,
    now_ms: u64,
    token: Token,
    sent: Vec<ShardCall>,
}

impl History {
    /// The call of a plan.
    fn call(&self, plan: &Plan) -> ShardCall {
        let turn = u64::try_from(self.sent.len()).unwrap() + 1;
        let ask = plan.ask.as_ref().map(|ask| self.ask(ask, turn));
        let asked = ask.iter().flat_map(|ask| &ask.cells).map(|cell| cell.record.subject);
        let asked: BTreeSet<_> = asked.collect();
        let others = plan.records.iter().filter(|(number, _)| !asked.contains(&subject(*number)));
        let records = others.map(|(_, record)| *record).collect();
        let call = ShardCall::of(Shard(0), Token(turn.into()), records);
        ShardCall { identify: plan.identify, present: plan.present, ask, ..call }
    }

    fn ask(&self, plan: &AskPlan, turn: u64) -> Ask {
        let honest = |(honest, cell): &(bool, AskCell)| {
            let mut cell = *cell;
            if *honest {
                let Record { component, total, .. } = cell.record;
                let recorded = self.model.recorded(cell.record.cell(), component, self.now_ms);
                cell.record.total = total.max(recorded);
            }
            cell
        };
        let cells: Vec<AskCell> = plan.cells.iter().map(honest).collect();
        let mut units = plan.units.clone();
        for want in units.iter_mut().flat_map(|unit| &mut unit.wants) {
            want.cell %= cells.len();
        }
        let token = if plan.same { self.token } else { Token(u128::MAX) };
        Ask { operation: turn.saturating_sub(plan.behind), token, cells, units }
    }
}

impl World {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = RedisServer::start().unwrap();
        let store = store(&server.url());
        Self { runtime, server, store, seen: RefCell::default() }
    }

    fn command(&self, words: &[&str]) {
        let answer = self.server.command(words).unwrap();
        assert!(!answer.is_error(), "{answer:?}");
    }

    /// Whether the history was short enough to compare.
    fn run(&self, steps: &[Step]) -> bool {
        let start = Instant::now();
        self.command(&["FLUSHALL"]);
        let (model, now_ms, token) = (MemoryRegion::new(1), 0, Token(1));
        let mut history = History { model, follower: None, now_ms, token, sent: vec![] };
        for step in steps {
            let call = match step {
                Step::Call(plan) => history.call(plan),
                Step::Again(back) => match history.sent.iter().rev().nth(*back) {
                    Some(call) => call.clone(),
                    None => continue,
                },
                other => {
                    self.disturb(&mut history, other);
                    continue;
                }
            };
            let theirs = self.runtime.block_on(self.store.call(&call)).unwrap();
            if start.elapsed() > SHORT {
                return false;
            }
            self.compare(&mut history, &call, theirs);
            history.sent.push(call);
        }
        self.every_key_dies();
        true
    }

    fn disturb(&self, history: &mut History, step: &Step) {
        match step {
            Step::Later(ms) => {
                history.now_ms += ms;
                self.command(&["EVAL", PASS, "0", &ms.to_string()]);
            }
            Step::Flush => {
                history.model.flush(Shard(0));
                self.command(&["EVAL", FLUSH, "0"]);
            }
            Step::Follow => {
                history.follower = Some(history.model.clone());
                self.command(&["EVAL", FOLLOW, "0"]);
            }
            Step::TakeOver => {
                let Some(follower) = &history.follower else { return };
                history.model.fail_over(Shard(0), follower);
                self.command(&["EVAL", TAKE_OVER, "0"]);
            }
            Step::Evict(number, sequence) => {
                let cell = CellName { subject: subject(*number), sequence: *sequence };
                history.model.evict(cell);
                self.command(&["DEL", &cell_key(*number, *sequence)]);
            }
            _ => self.command(&["SCRIPT", "FLUSH"]),
        }
    }

    fn compare(&self, history: &mut History, call: &ShardCall, theirs: ShardReply) {
        let ours = history.model.call(call, history.now_ms);
        assert_eq!(theirs.server.is_some(), call.identify);
        history.token = ours.token;
        let mut seen = self.seen.borrow_mut();
        for grant in ours.asked.iter().flat_map(|asked| &asked.grants) {
            seen.insert(match grant {
                Grant::Granted(0) => "refused",
                Grant::Granted(1) => "granted once",
                Grant::Granted(_) => "granted often",
                Grant::Conflict => "out of date",
                Grant::Stranger => "stranger",
            });
        }
        assert_eq!(theirs, ShardReply { server: theirs.server, ..ours }, "{call:?}");
    }

    /// INV-15: no key stays for ever, and none for longer than it may.
    fn every_key_dies(&self) {
        for name in self.server.command(&["KEYS", "tg:*"]).unwrap().items() {
            let left = self.server.command(&["PTTL", &name.text()]).unwrap().int().unwrap();
            let name = name.text();
            let life_ms = match name.split(':').collect::<Vec<_>>()[..] {
                [_, _, _, "token"] => 24 * 3_600_000,
                [_, _, _, "present"] => PRESENCE_LIFE_MS,
                [_, _, _, _digest, _sequence] => WINDOW_MAX_MS * 25 / 8,
                [_, _, _, _digest, _sequence, _component] => ANSWER_LIFE_MS,
                _ => panic!("{name}"),
            };
            // -2: it is gone by now.
            let lives = left == -2 || (0..=i64::try_from(life_ms).unwrap()).contains(&left);
            assert!(lives, "{name}: {left}");
        }
    }
}

#[test]
fn asks_are_answered_as_by_the_model() {
    let (world, compared) = (World::new(), Cell::new(0_u32));
    histories::run(150, &steps(), |steps| {
        compared.set(compared.get() + u32::from(world.run(steps)));
    });
    // On a machine that stalls for seconds some prove nothing.
    assert!(compared.get() > 0);
    // What must have come up among so many.
    let seen = world.seen.borrow();
    assert!(compared.get() < 100 || seen.len() == 5, "{seen:?}");
}
