//! Redis gives the replies of the model, whatever is sent.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use tidegate_convergence::{
    CellName, CellReply, Component, MemoryRegion, Record, RegionalStore, Shard, ShardCall,
    StoreError, Token,
};
use tidegate_lab::{RedisServer, Value};
use tidegate_stores::RedisStore;
use tokio::runtime::Runtime;

use crate::histories;
use crate::support::{WINDOW_MS, call, cell_key as key, eventually, record, send, store, subject};

#[derive(Clone, Debug)]
enum Step {
    /// Records, and whether the call identifies.
    Call(Vec<Record>, bool),
    /// Everything is lost.
    Flush,
    /// One cell is lost.
    Evict(u32, u64),
    /// The server forgets the script.
    ForgetScript,
}

fn totals() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), 0..10_u64, 0..1_u64 << 50, Just(1 << 50)]
}

fn records() -> impl Strategy<Value = Record> {
    let names = (0..3_u32, 0..4_u64, 0..3_u128, 0..2_u64);
    (names, totals(), totals()).prop_map(
        |((number, sequence, incarnation, life), total, previous)| {
            let component = Component { incarnation, life };
            Record {
                subject: subject(number),
                window_ms: WINDOW_MS,
                sequence,
                component,
                total,
                previous_total: previous,
            }
        },
    )
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Some are too long for one execution of the script.
    let size = prop_oneof![9 => 0..6_usize, 1 => 0..100_usize];
    let sent = size.prop_flat_map(|size| proptest::collection::vec(records(), size));
    let calls = (sent, any::<bool>());
    let step = prop_oneof![
        12 => calls.prop_map(|(records, identify)| Step::Call(records, identify)),
        1 => Just(Step::Flush),
        1 => (0..3_u32, 0..4_u64).prop_map(|(number, sequence)| Step::Evict(number, sequence)),
        1 => Just(Step::ForgetScript),
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

    fn run(&self, steps: &[Step]) {
        self.server.command(&["FLUSHALL"]).unwrap();
        let mut model = MemoryRegion::new(1);
        for (turn, step) in steps.iter().enumerate() {
            let command: Vec<String> = match step {
                Step::Call(records, identify) => {
                    self.compare(&mut model, turn, records, *identify);
                    continue;
                }
                Step::Flush => {
                    model.flush(Shard(0));
                    vec!["FLUSHALL".into()]
                }
                Step::Evict(number, sequence) => {
                    model.evict(CellName { subject: subject(*number), sequence: *sequence });
                    vec!["DEL".into(), key(*number, *sequence)]
                }
                Step::ForgetScript => vec!["SCRIPT".into(), "FLUSH".into()],
            };
            let words: Vec<&str> = command.iter().map(String::as_str).collect();
            assert!(!self.server.command(&words).unwrap().is_error());
        }
        self.every_key_dies();
    }

    fn compare(&self, model: &mut MemoryRegion, turn: usize, records: &[Record], identify: bool) {
        let proposal = Token(u128::try_from(turn).unwrap() + 1);
        let (shard, records) = (Shard(0), records.to_vec());
        let call = ShardCall { identify, ..ShardCall::of(shard, proposal, records) };
        let theirs = self.runtime.block_on(self.store.call(&call)).unwrap();
        let ours = model.call(&call, 0);
        assert_eq!((theirs.token, &theirs.replies), (ours.token, &ours.replies), "{call:?}");
        assert_eq!(theirs.server.is_some(), identify);
    }

    /// No key stays for ever, and none for longer than it may.
    fn every_key_dies(&self) {
        let lives: BTreeMap<String, u64> = (0..3)
            .flat_map(|number| (0..4).map(move |sequence| (number, sequence)))
            .map(|(number, sequence)| {
                let record = Record { subject: subject(number), ..record(0, 0) };
                (key(number, sequence), record.life_ms())
            })
            .collect();
        for name in self.server.command(&["KEYS", "*"]).unwrap().items() {
            let left = self.server.command(&["PTTL", &name.text()]).unwrap().int().unwrap();
            let life = lives.get(&name.text()).copied().unwrap_or(24 * 3_600_000);
            let left = u64::try_from(left).expect("a time to live");
            assert!(0 < left && left <= life, "{name:?} {left} {life}");
        }
    }
}

/// INV-12 on the real store.
#[test]
fn replies_equal_those_of_the_model() {
    let world = World::new();
    histories::run(60, &steps(), |steps| world.run(steps));
}

#[tokio::test]
async fn sums_that_a_double_cannot_hold_are_exact() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let most = (1 << 53) - 1;
    for incarnation in 1..=5_u64 {
        let reply = send(&store, record(incarnation.into(), most)).await.unwrap().current;
        let components = u32::try_from(incarnation).unwrap();
        assert_eq!(
            reply,
            CellReply { sum: incarnation * most, recorded: most, had: 0, components }
        );
    }
    let read = send(&store, record(9, 0)).await.unwrap().current;
    assert_eq!((read.sum, read.components), (5 * most, 5));
}

#[tokio::test]
async fn a_refused_record_does_not_harm_its_neighbours() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    server.command(&["SET", &key(1, 7), "not a cell"]).unwrap();
    let broken = Record { subject: subject(1), ..record(1, 5) };
    let inexact = record(2, 1 << 53);
    let reply = store.call(&call(vec![record(1, 5), broken, inexact, record(3, 4)])).await.unwrap();
    let sums: Vec<_> = reply.replies.iter().map(|reply| reply.map(|r| r.current.sum)).collect();
    assert_eq!(sums, [Some(5), None, None, Some(9)]);
    let only = store.call(&call(vec![inexact])).await.unwrap();
    assert_eq!((only.token, only.replies), (reply.token, vec![None]));
}

#[tokio::test]
async fn a_refused_record_does_not_harm_many_neighbours() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let of = |number| Record { subject: subject(number), previous_total: 3, ..record(1, 5) };
    // The current cell of one, the previous cell of another.
    let broken = [(17, 7), (41, 6)];
    for (number, sequence) in broken {
        server.command(&["SET", &key(number, sequence), "not a cell"]).unwrap();
    }
    let reply = store.call(&call((0..100).map(of).collect())).await.unwrap();
    for (number, reply) in (0..).zip(&reply.replies) {
        let sums = reply.map(|reply| (reply.current.sum, reply.previous.sum));
        let refused = broken.iter().any(|(one, _)| *one == number);
        assert_eq!(sums, (!refused).then_some((5, 3)), "{number}");
    }
    let only = store.call(&call(vec![of(17), of(41)])).await;
    assert!(matches!(&only, Err(StoreError::Refused(why)) if why.contains("WRONGTYPE")));
}

#[tokio::test]
async fn a_lost_script_is_loaded_again() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    for total in 1..=5 {
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        let reply = send(&store, record(1, total)).await.unwrap().current;
        assert_eq!((reply.sum, reply.had), (total, total - 1), "executed once, not twice");
    }
}

#[tokio::test]
async fn a_script_lost_in_the_middle_of_a_call_is_loaded_again() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let of = |number| Record { subject: subject(number), ..record(1, 1) };
    let records: Vec<Record> = (0..2_000).map(of).collect();
    // It does not know the script yet: every execution misses it.
    store.call(&call(records.clone())).await.unwrap();
    let server = Arc::new(server);
    let missed = || -> u32 {
        let missed = server.info("errorstats", "errorstat_NOSCRIPT").unwrap();
        missed.trim_start_matches("count=").parse().unwrap()
    };
    let executions = missed();
    let (flush, wanted) = std::sync::mpsc::channel::<()>();
    let flushed = Arc::clone(&server);
    let flusher = std::thread::spawn(move || {
        for () in wanted {
            flushed.command(&["SCRIPT", "FLUSH"]).unwrap();
        }
    });
    let mut total = 1;
    let flushed_in_the_middle = async || {
        total += 1;
        // While the call runs.
        flush.send(()).unwrap();
        let sent = records.iter().map(|record| Record { total, ..*record }).collect();
        let reply = store.call(&call(sent)).await.unwrap();
        for cell in &reply.replies {
            let cell = cell.expect("all are answered").current;
            assert_eq!((cell.sum, cell.had), (total, total - 1), "executed once, not twice");
        }
        (!missed().is_multiple_of(executions)).then_some(())
    };
    eventually("a flush in the middle of a call", flushed_in_the_middle).await;
    drop(flush);
    flusher.join().unwrap();
}

#[tokio::test]
async fn a_token_lives_a_day_and_is_renewed_by_those_who_identify() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let first = store.call(&call(vec![])).await.unwrap();
    let left = || server.command(&["PTTL", "tg:1:{0}:token"]).unwrap().int().unwrap();
    let day = 24 * 3_600_000;
    assert!((day - 60_000..=day).contains(&left()));
    server.command(&["PEXPIRE", "tg:1:{0}:token", "600000"]).unwrap();
    let silent = ShardCall { identify: false, ..call(vec![record(1, 1)]) };
    let reply = store.call(&silent).await.unwrap();
    assert_eq!((reply.token, reply.server), (first.token, None));
    assert!(left() <= 600_000, "a record alone does not renew it");
    store.call(&call(vec![])).await.unwrap();
    assert!(left() > 600_000);
}

#[tokio::test]
async fn cells_expire_and_hold_no_text() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let short = Record { window_ms: 20, ..record(1, 5) };
    send(&store, short).await.unwrap();
    let value = server.command(&["HVALS", &key(0, 7)]).unwrap();
    assert!(matches!(value, Value::Array(_)));
    tidegate_lab::eventually("the cell expires", tidegate_lab::DEADLINE, || {
        (server.command(&["EXISTS", &key(0, 7)]).ok()?.int() == Some(0)).then_some(())
    })
    .unwrap();
    assert_eq!(send(&store, short).await.unwrap().current.had, 0);
}
