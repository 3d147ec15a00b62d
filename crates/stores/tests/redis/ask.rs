//! Asks and presence: what is exact, what a failure leaves, and what is executed twice.

use std::time::Duration;

use proptest::prelude::*;
use tidegate_convergence::{
    ANSWER_LIFE_MS, AskCell, AskReply, CellReply, Grant, PRESENCE_LIFE_MS, Record, RegionalStore,
    SUM_MAX, Shard, ShardCall, StoreError, Token,
};
use tidegate_lab::{Proxy, RedisCluster, RedisServer, Sentinel};
use tidegate_stores::RedisStore;

use crate::support::{
    PATIENCE, ask_cell, asking, call, cell_key, eventually, record, send, store, subject, unit,
};
use crate::topology::{move_slot, replicated};

/// The token of the shard.
async fn token(store: &RedisStore) -> Token {
    store.call(&call(vec![])).await.unwrap().token
}

async fn asked(store: &RedisStore, call: &ShardCall) -> Option<AskReply> {
    store.call(call).await.unwrap().asked
}

/// What became of the only unit.
async fn granted(store: &RedisStore, call: &ShardCall) -> Grant {
    let reply = asked(store, call).await.expect("an answer");
    assert_eq!(reply.grants.len(), 1);
    reply.grants[0]
}

/// One that asks for a cost of 1 under a limit, for that component.
fn one_of(token: Token, operation: u64, record: Record, limit: u64) -> ShardCall {
    asking(token, operation, vec![ask_cell(record)], vec![unit(&[(0, 1)], limit, 1)])
}

#[tokio::test]
async fn two_processes_never_spend_the_same_room() {
    let server = RedisServer::start().unwrap();
    let (one, other) = (store(&server.url()), store(&server.url()));
    let token = token(&one).await;
    let mut mine = [0, 0];
    for operation in 1..=12 {
        for (who, store) in [&one, &other].into_iter().enumerate() {
            let record = record(u128::try_from(who).unwrap(), mine[who]);
            if granted(store, &one_of(token, operation, record, 10)).await == Grant::Granted(1) {
                mine[who] += 1;
            }
        }
    }
    assert_eq!(mine, [5, 5], "ten, and each had its share");
    let held = send(&one, record(0, 0)).await.unwrap().current;
    assert_eq!(held, CellReply { sum: 10, recorded: 5, had: 5, components: 2 });
}

/// An ask whose grant shows what the previous cell weighs: seven fit beside it.
fn weighing(token: Token, operation: u64, of: (u64, u64, u64)) -> (ShardCall, u64) {
    let (previous, rest_ms, window_ms) = of;
    let weight = u128::from(previous.min(SUM_MAX)) * u128::from(rest_ms) / u128::from(window_ms);
    let weight = u64::try_from(weight).unwrap();
    // Cells of its own.
    let record = Record { window_ms, sequence: 2 * operation, ..record(1, 0) };
    let cell = AskCell { known_previous: previous, rest_ms, ..ask_cell(record) };
    let room = (SUM_MAX - weight).min(7);
    (asking(token, operation, vec![cell], vec![unit(&[(0, 1)], weight + room, 1_000)]), room)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// One case here is many inside: they share a server.
    #[test]
    fn the_previous_cell_weighs_exactly_its_share(
        random in proptest::collection::vec((0..=SUM_MAX, 1..1_u64 << 32, any::<u64>()), 1_500),
        bits in proptest::collection::vec((0..52_u32, 1..33_u32, any::<u64>()), 500),
    ) {
        let edges = |most: u64| [1, 2, 3, 65_535, 65_536, 65_537, most / 2, most - 1, most];
        let mut all = vec![];
        for window_ms in edges((1 << 32) - 1).into_iter().chain([1_000, 2_678_400_000]) {
            for rest_ms in edges(window_ms.max(2)).map(|rest_ms| rest_ms.min(window_ms)) {
                let most = edges(SUM_MAX).into_iter().chain([(1 << 53) / rest_ms, u64::MAX]);
                all.extend(most.map(|previous| (previous, rest_ms, window_ms)));
            }
        }
        let within = |(of, window, rest): &(_, _, u64)| (*of, rest % (window + 1), *window);
        all.extend(random.iter().map(within));
        all.extend(bits.iter().map(|(of, window, rest)| {
            // All ones: what is rounded in the wrong direction shows.
            let window_ms = (1 << window) - 1;
            ((1 << of) - 1, rest % (window_ms + 1), window_ms)
        }));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let server = RedisServer::start().unwrap();
        let store = store(&server.url());
        runtime.block_on(async {
            let token = token(&store).await;
            for (operation, of) in (1..).zip(all) {
                let (call, room) = weighing(token, operation, of);
                let expected = Grant::Granted(u32::try_from(room).unwrap());
                assert_eq!(granted(&store, &call).await, expected, "{of:?}");
            }
        });
    }
}

#[tokio::test]
async fn sums_that_a_double_cannot_hold_are_recorded_exactly_and_grant_nothing() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let token = token(&store).await;
    let most = (1 << 53) - 1;
    for operation in 1..=5 {
        let record = Record { previous_total: most, ..record(operation.into(), most) };
        let reply = asked(&store, &one_of(token, operation, record, SUM_MAX)).await.unwrap();
        let components = u32::try_from(operation).unwrap();
        let held = CellReply { sum: operation * most, recorded: most, had: 0, components };
        assert_eq!((reply.cells[0].current, reply.cells[0].previous), (held, held));
        assert_eq!(reply.grants, [Grant::Granted(0)]);
    }
}

#[tokio::test]
async fn what_is_not_exact_is_refused_and_harms_nothing() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let token = token(&store).await;
    let sound = one_of(token, 1, record(1, 1), 10);
    let inexact = one_of(token, 1, record(1, 1 << 53), 10);
    let others = Record { subject: subject(1), ..record(1, 4) };
    let reply = store.call(&ShardCall { records: vec![others], ..inexact.clone() }).await.unwrap();
    assert_eq!((reply.asked, reply.replies[0].unwrap().current.sum), (None, 4));
    let alone = store.call(&inexact).await.unwrap();
    assert_eq!((alone.asked, alone.token), (None, token));
    assert_eq!(granted(&store, &sound).await, Grant::Granted(1));
}

#[tokio::test]
async fn a_key_that_is_no_cell_fails_its_ask_and_nothing_else() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let token = token(&store).await;
    let of = |number| Record { subject: subject(number), previous_total: 3, ..record(1, 5) };
    let ask = |number: u32, operation| {
        let cells = [1, number].map(|number| ask_cell(of(number))).to_vec();
        asking(token, operation, cells, vec![unit(&[(0, 1), (1, 1)], 100, 2)])
    };
    let set = |number, sequence, words: &[&str]| {
        let key = cell_key(number, sequence);
        server.command(&[&[words[0], &key], &words[1..]].concat()).unwrap();
    };
    set(2, 7, &["SET", "not a cell"]);
    set(3, 6, &["SET", "not a cell"]);
    set(4, 7, &["HSET", "s", "not a number"]);
    set(5, 6, &["HSET", "s", "not a number"]);
    for (operation, number) in (1..).zip(2..=5) {
        let beside = Record { subject: subject(9), ..record(1, operation) };
        let call = ShardCall { records: vec![beside], present: Some(1), ..ask(number, operation) };
        let reply = store.call(&call).await.unwrap();
        assert_eq!(reply.asked, None, "{number}");
        assert_eq!(reply.replies[0].unwrap().current.sum, operation);
        assert_eq!((reply.present, reply.token), (Some(1), token));
        let alone = store.call(&ask(number, operation)).await.unwrap();
        assert_eq!((alone.asked, alone.token), (None, token));
        assert_eq!(send(&store, Record { total: 0, ..of(1) }).await.unwrap().current.sum, 0);
    }
    assert_eq!(granted(&store, &ask(6, 9)).await, Grant::Granted(2), "the others are as before");
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_none() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let token = token(&store).await;
    let key = format!("{}:{:032x}{:016x}", cell_key(0, 7), 1, 0);
    let set = |text: &str| server.command(&["SET", &key, text]).unwrap();
    set("what");
    assert_eq!(granted(&store, &one_of(token, 1, record(1, 0), 10)).await, Grant::Granted(1));
    assert_eq!(server.command(&["GET", &key]).unwrap().text(), "1 1");
    for text in ["2", "2 2", "2 -7", "2 what", "3 1"] {
        set(text);
        let grant = granted(&store, &one_of(token, 2, record(1, 1), 10)).await;
        assert_eq!(grant, Grant::Conflict, "{text}");
    }
}

/// INV-15: no key stays for ever, and none for longer than it may.
#[tokio::test]
async fn every_key_dies() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let token = token(&store).await;
    let record = Record { previous_total: 2, ..record(1, 0) };
    let call = ShardCall { present: Some(1), ..one_of(token, 1, record, 10) };
    assert_eq!(granted(&store, &call).await, Grant::Granted(1));
    let names = [
        (cell_key(0, 7), record.life_ms()),
        (cell_key(0, 6), record.life_ms()),
        (format!("{}:{:032x}{:016x}", cell_key(0, 7), 1, 0), ANSWER_LIFE_MS),
        ("tg:1:{0}:present".to_owned(), PRESENCE_LIFE_MS),
        ("tg:1:{0}:token".to_owned(), 24 * 3_600_000),
    ];
    let count = server.command(&["DBSIZE"]).unwrap().int().unwrap();
    assert!((3..=5).contains(&count), "two may be gone on a slow machine: {count}");
    for (name, life_ms) in names {
        let left = server.command(&["PTTL", &name]).unwrap().int().unwrap();
        let life_ms = i64::try_from(life_ms).unwrap();
        assert!(left != -1 && left <= life_ms, "{name}: {left} of {life_ms}");
        assert!(left > life_ms - 60_000 || left == -2, "{name}: {left} of {life_ms}");
    }
}

#[tokio::test]
async fn the_same_bytes_over_two_connections_are_granted_once() {
    let server = RedisServer::start().unwrap();
    let (one, other) = (store(&server.url()), store(&server.url()));
    let token = token(&one).await;
    self::token(&other).await;
    let mut mine = 0;
    for operation in 1..=200 {
        let cell = ask_cell(record(1, mine));
        let call = asking(token, operation, vec![cell], vec![unit(&[(0, 1)], 1_000, 3)]);
        let (first, second) = tokio::join!(asked(&one, &call), asked(&other, &call));
        let (first, second) = (first.unwrap(), second.unwrap());
        mine += 3;
        assert_eq!((&first.grants, &second.grants), (&vec![Grant::Granted(3)], &first.grants));
        let sums = [first, second].map(|reply| reply.cells[0].current.sum);
        assert_eq!(sums, [mine, mine], "counted once");
    }
}

#[tokio::test]
async fn a_duplicated_ask_is_granted_once() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let store = store(&proxy.url());
    let token = token(&store).await;
    for mine in 0..10 {
        proxy.duplicate();
        let call = one_of(token, mine + 1, record(1, mine), 100);
        let reply = eventually("an answer", async || {
            tokio::time::timeout(PATIENCE, store.call(&call)).await.ok()?.ok()
        });
        let reply = reply.await.asked.unwrap();
        assert_eq!(reply.grants, [Grant::Granted(1)]);
        assert_eq!(reply.cells[0].current.sum, mine + 1);
    }
    let swallowed = async || (proxy.dropped() >= 10).then_some(());
    eventually("the second answers are swallowed", swallowed).await;
}

#[tokio::test]
async fn an_ask_whose_answer_was_lost_is_answered_as_before() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::start(server.port()).unwrap();
    let store = store(&proxy.url());
    let token = token(&store).await;
    // So that the script is known, and the first execution is the one that is cut.
    granted(&store, &one_of(token, 1, record(2, 0), 100)).await;
    for (operation, mine) in (2..=6).zip(0..) {
        proxy.cut_after(1);
        let call = one_of(token, operation, record(1, mine), 100);
        let cut = store.call(&call).await;
        assert!(matches!(cut, Err(StoreError::Unreachable(_))), "{cut:?}");
        let again = async || {
            let reply = tokio::time::timeout(PATIENCE, store.call(&call)).await.ok()?.ok()?;
            reply.asked
        };
        let again = eventually("an answer", again).await;
        assert_eq!(again.grants, [Grant::Granted(1)]);
        let current = again.cells[0].current;
        assert_eq!((current.had, current.recorded), (mine + 1, mine + 1), "executed before");
    }
    assert_eq!(proxy.cuts(), 5);
}

#[tokio::test]
async fn scripts_that_are_lost_are_loaded_again() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let token = token(&store).await;
    for mine in 0..5 {
        server.command(&["SCRIPT", "FLUSH"]).unwrap();
        let beside = Record { subject: subject(1), ..record(1, mine + 1) };
        let ask = one_of(token, mine + 1, record(1, mine), 100);
        let reply = store
            .call(&ShardCall { records: vec![beside], present: Some(1), identify: true, ..ask })
            .await
            .unwrap();
        assert_eq!(reply.replies[0].unwrap().current.had, mine);
        let asked = reply.asked.unwrap();
        assert_eq!((asked.grants, asked.cells[0].current.sum), (vec![Grant::Granted(1)], mine + 1));
        assert!(reply.present == Some(1) && reply.server.is_some());
    }
}

#[tokio::test]
async fn a_call_that_only_asks_is_one_execution() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let token = token(&store).await;
    let executions = || {
        let stats = server.info("commandstats", "cmdstat_evalsha").unwrap();
        let calls = stats.split(',').next().unwrap().trim_start_matches("calls=");
        calls.parse::<u32>().unwrap()
    };
    granted(&store, &one_of(token, 1, record(1, 0), 100)).await;
    let before = executions();
    let cells =
        (0..100).map(|number| ask_cell(Record { subject: subject(number), ..record(1, 1) }));
    let units = (0..100).map(|cell| unit(&[(cell, 1), (99 - cell, 0)], 10, 4)).collect();
    let call = asking(token, 2, cells.collect(), units);
    let reply = store.call(&call).await.unwrap();
    assert_eq!(executions() - before, 1);
    assert_eq!((reply.token, reply.asked.unwrap().grants), (token, vec![Grant::Granted(4); 100]));
}

#[tokio::test]
async fn a_full_server_grants_nothing_and_keeps_what_it_has() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let token = token(&store).await;
    let call = one_of(token, 1, record(1, 0), 100);
    assert_eq!(granted(&store, &call).await, Grant::Granted(1));
    server.command(&["CONFIG", "SET", "maxmemory", "1"]).unwrap();
    let cells = [0, 1].map(|number| ask_cell(Record { subject: subject(number), ..record(1, 1) }));
    let units = vec![unit(&[(0, 1)], 100, 1), unit(&[(1, 1)], 100, 1)];
    let full = asking(token, 2, cells.to_vec(), units);
    assert_eq!(asked(&store, &full).await, None);
    let with_a_record =
        ShardCall { records: vec![Record { subject: subject(2), ..record(1, 1) }], ..full.clone() };
    let refused = store.call(&with_a_record).await;
    let told = matches!(&refused, Err(StoreError::Refused(why)) if why.contains("OOM"));
    assert!(told, "{refused:?}");
    assert_eq!(granted(&store, &call).await, Grant::Granted(1), "that is known already");
    server.command(&["CONFIG", "SET", "maxmemory", "0"]).unwrap();
    let reply = asked(&store, &full).await.unwrap();
    assert_eq!(reply.grants, [Grant::Granted(1), Grant::Granted(1)]);
    assert_eq!(reply.cells[0].current.sum, 2, "nothing was half granted");
}

#[tokio::test]
async fn those_who_are_silent_are_not_present() {
    let server = RedisServer::start().unwrap();
    let store = store(&server.url());
    let present = async |who: u128| {
        let reply = store.call(&ShardCall { present: Some(who), ..call(vec![]) }).await;
        reply.unwrap().present.unwrap()
    };
    assert_eq!((present(1).await, present(1).await), (1, 1));
    let start = tokio::time::Instant::now();
    assert_eq!(present(u128::MAX).await, 2);
    assert_eq!(store.call(&call(vec![])).await.unwrap().present, None, "it was not asked");
    eventually("the other is forgotten", async || (present(1).await == 1).then_some(())).await;
    // A second for clocks that differ.
    let life = Duration::from_millis(PRESENCE_LIFE_MS - 1_000);
    assert!(start.elapsed() > life, "not at once");
}

#[tokio::test]
async fn every_shard_of_a_cluster_is_asked_without_detours() {
    let cluster = RedisCluster::start(3).unwrap();
    let store = store(&format!("redis://{}/?cluster=true", cluster.addresses().join(",")));
    let mut shards = std::collections::BTreeSet::new();
    for number in 0..40 {
        let subject = subject(number);
        let shard = Shard::of(subject, 64);
        shards.insert(shard);
        let record = Record { subject, ..record(1, 0) };
        let known = store.call(&ShardCall { shard, ..call(vec![record]) }).await.unwrap().token;
        let call = ShardCall { shard, present: Some(1), ..one_of(known, 1, record, 10) };
        for _ in 0..2 {
            let reply = store.call(&call).await.unwrap();
            assert_eq!((reply.token, reply.present), (known, Some(1)));
            let asked = reply.asked.unwrap();
            assert_eq!((asked.grants, asked.cells[0].current.sum), (vec![Grant::Granted(1)], 1));
        }
    }
    assert!(shards.len() > 20, "{shards:?}");
    for node in cluster.nodes() {
        let errors = node.command(&["INFO", "errorstats"]).unwrap().text();
        assert!(!errors.contains("MOVED") && !errors.contains("CROSSSLOT"), "{errors}");
    }
}

#[tokio::test]
async fn an_ask_follows_a_shard_that_moved() {
    let cluster = RedisCluster::start(2).unwrap();
    let store = store(&format!("redis://{}/?cluster=true", cluster.addresses().join(",")));
    let shard = Shard::of(subject(0), 64);
    let before = store.call(&ShardCall { shard, ..call(vec![]) }).await.unwrap();
    let ask = |operation, total| {
        let ask = one_of(before.token, operation, record(1, total), 10);
        ShardCall { shard, present: Some(1), identify: true, ..ask }
    };
    assert_eq!(granted(&store, &ask(1, 0)).await, Grant::Granted(1));
    let key = format!("{{{}}}", shard.0);
    let slot = cluster.nodes()[0].command(&["CLUSTER", "KEYSLOT", &key]).unwrap();
    let slot = u16::try_from(slot.int().unwrap()).unwrap();
    move_slot(cluster.nodes(), cluster.owner(slot).unwrap(), slot);
    let reply = store.call(&ask(2, 1)).await.unwrap();
    let asked = reply.asked.unwrap();
    assert_eq!((asked.grants, asked.cells[0].current.sum), (vec![Grant::Granted(1)], 2));
    assert!(reply.server != before.server && reply.present == Some(1));
}

#[tokio::test]
async fn an_answer_survives_a_failover_by_the_sentinels() {
    let sentinel = Sentinel::start().unwrap();
    let nodes = sentinel.addresses().join(",");
    let store = store(&format!("redis://{nodes}/?sentinel={}", Sentinel::MASTER));
    let before = store.call(&call(vec![])).await.unwrap();
    let ask = ShardCall { identify: true, ..one_of(before.token, 1, record(1, 0), 10) };
    assert_eq!(granted(&store, &ask).await, Grant::Granted(1));
    replicated(sentinel.servers());
    sentinel.fail_over().unwrap();
    // The old master may still answer for a moment; then the other does.
    let other = async || {
        let reply = tokio::time::timeout(PATIENCE, store.call(&ask)).await.ok()?.ok()?;
        (reply.server != before.server).then_some(reply)
    };
    let after = eventually("another server answers", other).await;
    let asked = after.asked.unwrap();
    assert_eq!(asked.cells[0].current.sum, 1, "{asked:?}");
    let next = one_of(after.token, 2, record(1, 1), 10);
    assert_eq!(granted(&store, &next).await, Grant::Granted(1));
}
