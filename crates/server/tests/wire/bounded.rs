//! Bounded namespaces: processes that share a real Redis hold a limit in a burst.
//!
//! Redis has 20 ms to answer. A busy machine may need longer, and then a process decides on what
//! it knows, and says so: what is promised is what answers promise that say `bounded`. So each
//! burst is judged by those, and bursts are repeated until one had no other answers.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value as Json, json};
use tidegate_lab::RedisServer;
use tokio::time::Instant;

use crate::support::{
    Client, DEADLINE, KEY, LIMIT, MULTI_LIMIT, Place, Server, WINDOW_MS, ask, eventually,
};

/// Connections to each process at a time.
const CLIENTS: usize = 8;
/// Bursts until one is answered in time throughout. Each takes some milliseconds.
const BURSTS_MAX: usize = 40;

/// Two processes with one Redis and one database, and the namespaces `test` and `other`, bounded.
struct Fleet {
    redis: RedisServer,
    place: Place,
    servers: [Server; 2],
}

impl Fleet {
    fn start() -> Self {
        let (redis, place) = (RedisServer::start().unwrap(), Place::file());
        let url = redis.url();
        let serve = || {
            let args = ["serve", "--listen", "127.0.0.1:0", "--redis", &url];
            Server::start_with(&mut place.command(&args), KEY)
        };
        let fleet = Self { servers: [serve(), serve()], redis, place };
        for name in ["test", "other"] {
            fleet.servers[0].client().post(LIMIT, &of(name, "first", 1, 0));
            fleet.set(name, "bounded");
        }
        fleet
    }

    /// Says what a namespace is, and waits until both processes know.
    fn set(&self, name: &str, consistency: &str) {
        self.place.run(&["namespace", "set", name, "--consistency", consistency], 0);
        let start = Instant::now();
        for server in &self.servers {
            let mut client = server.client();
            eventually(DEADLINE, || {
                let data = client.post(LIMIT, &of(name, "first", 1, 0)).data().clone();
                // It is not degraded once Redis was heard of.
                (data["consistency"] == consistency && data["degraded"] == false).then_some(())
            });
        }
        // What is promised is two seconds; a machine that is busy may take longer for anything.
        println!("{name} is {consistency}: known after {} ms", start.elapsed().as_millis());
    }

    /// Sends so many calls to each process, all at once; gives what was answered.
    fn burst(&self, operation: &str, body: &Json, calls: usize) -> Vec<Json> {
        let start = Barrier::new(2 * CLIENTS);
        std::thread::scope(|scope| {
            let clients = self.servers.iter().flat_map(|server| (0..CLIENTS).map(move |_| server));
            let senders: Vec<_> = clients
                .map(|server| {
                    let (mut client, start) = (server.client(), &start);
                    scope.spawn(move || {
                        start.wait();
                        let call = |_| client.post(operation, body).data().clone();
                        (0..calls / CLIENTS).map(call).collect::<Vec<_>>()
                    })
                })
                .collect();
            senders.into_iter().flat_map(|sender| sender.join().unwrap()).collect()
        })
    }
}

fn of(namespace: &str, identifier: &str, limit: u64, cost: u64) -> Json {
    json!({"namespace": namespace, "identifier": identifier, "limit": limit,
           "duration": WINDOW_MS, "cost": cost})
}

/// Whether Redis was not heard of in time.
fn is_degraded(data: &Json) -> bool {
    let is_fast = data["consistency"] == "fast";
    assert_eq!(data["degraded"], is_fast, "{data}");
    is_fast
}

/// How many were admitted by the bounded rule, and how many without Redis.
fn admitted(answers: &[Json]) -> (u64, u64) {
    let admitted = answers.iter().filter(|data| data["success"] == true);
    let (without, bounded): (Vec<&Json>, Vec<&Json>) = admitted.partition(|data| is_degraded(data));
    (bounded.len() as u64, without.len() as u64)
}

/// Bursts of four times the limit at each process, until Redis answers all of one in time.
fn burst_of(fleet: &Fleet, limit: u64, most: u64) {
    for turn in 0..BURSTS_MAX {
        let body = ask(&format!("burst-{limit}-{turn}"), limit, 1);
        let answers = fleet.burst(LIMIT, &body, 4 * usize::try_from(limit).unwrap());
        let (bounded, without) = admitted(&answers);
        assert!(bounded <= most, "{bounded} of {limit}");
        if answers.iter().any(is_degraded) {
            println!("limit {limit}, burst {turn}: {bounded} bounded, {without} without Redis");
            continue;
        }
        println!("limit {limit}, burst {turn}: {bounded} of {} admitted", answers.len());
        assert!(bounded >= limit, "what is free is given: {bounded} of {limit}");
        return;
    }
    panic!("Redis did not answer all calls of any of {BURSTS_MAX} bursts");
}

#[test]
fn a_burst_at_two_processes_admits_a_small_limit_exactly() {
    burst_of(&Fleet::start(), 10, 10);
}

#[test]
fn a_burst_at_two_processes_admits_at_most_a_tenth_more() {
    burst_of(&Fleet::start(), 100, 110);
}

#[test]
fn a_batch_over_two_bounded_namespaces_is_all_or_nothing_in_a_burst() {
    let fleet = Fleet::start();
    for turn in 0..BURSTS_MAX {
        let identifier = format!("batch-{turn}");
        let both = json!([of("test", &identifier, 10, 1), of("other", &identifier, 25, 1)]);
        let answers = fleet.burst(MULTI_LIMIT, &both, 40);
        let items = |data: &Json| data["limits"].as_array().unwrap().clone();
        let without = |data: &&Json| items(data).iter().any(is_degraded);
        let passed: Vec<&Json> = answers.iter().filter(|data| data["passed"] == true).collect();
        let late = passed.iter().filter(|data| without(data)).count();
        let bounded = passed.len() - late;
        assert!(bounded <= 10, "{bounded} of 10, and {late} without Redis");
        // Whoever asks Redis afterwards hears that both were spent alike.
        let mut client = fleet.servers[0].client();
        let used = |name: &str, limit: u64, client: &mut Client| {
            let data = client.post(LIMIT, &of(name, &identifier, limit, 0)).data().clone();
            limit - data["remaining"].as_u64().unwrap()
        };
        let passed = passed.len() as u64;
        eventually(DEADLINE, || {
            let spent = (used("test", 1_000, &mut client), used("other", 1_000, &mut client));
            (spent == (passed, passed)).then_some(())
        });
        if answers.iter().all(|data| !without(&data)) {
            assert_eq!(bounded, 10, "what is free is given");
            return;
        }
    }
    panic!("Redis did not answer all calls of any of {BURSTS_MAX} bursts");
}

#[test]
fn without_redis_every_call_is_answered_and_says_that_it_is_fast() {
    let Fleet { mut redis, servers, place: _place } = Fleet::start();
    let (stopped, ended) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for server in servers.iter().chain(&servers) {
            let (mut client, stopped, ended) = (server.client(), &stopped, &ended);
            scope.spawn(move || {
                let mut degraded = 0;
                // Few are lent, so that most are asked for.
                let sent = eventually(DEADLINE, || {
                    let was_stopped = stopped.load(Ordering::SeqCst);
                    let data = client.post(LIMIT, &ask("outage", 100_000, 1_000)).data().clone();
                    degraded += u64::from(is_degraded(&data));
                    assert!(was_stopped || data["success"] == true || !is_degraded(&data));
                    (was_stopped && degraded > 3).then_some(degraded)
                });
                ended.store(sent > 3, Ordering::SeqCst);
            });
        }
        // In the middle of it.
        eventually(DEADLINE, || {
            let mut client = servers[0].client();
            let data = client.post(LIMIT, &ask("outage", 100_000, 0)).data().clone();
            (data["remaining"].as_u64().unwrap() < 100_000).then_some(())
        });
        redis.kill_9();
        stopped.store(true, Ordering::SeqCst);
    });
    assert!(ended.load(Ordering::SeqCst));
    redis.restart().unwrap();
    for (server, name) in servers.iter().zip(["a", "b"]) {
        let mut client = server.client();
        let mut turn = 0;
        eventually(DEADLINE, || {
            turn += 1;
            let body = ask(&format!("after-{name}-{turn}"), 10, 1);
            let data = client.post(LIMIT, &body).data().clone();
            (!is_degraded(&data) && data["source"] == "region").then_some(())
        });
    }
}

#[test]
fn a_namespace_changes_its_consistency_on_every_process() {
    let fleet = Fleet::start();
    for consistency in ["bounded", "fast"] {
        fleet.set("test", consistency);
    }
    fleet.place.run(&["namespace", "set", "test", "--consistency", "default"], 0);
    let listed = fleet.place.json(&["namespace", "list"]);
    let named = |name: &str| {
        let rows = listed.as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap()["consistency"].clone()
    };
    assert_eq!((named("test"), named("other")), (json!("default"), json!("bounded")));
    let said = fleet.place.run(&["audit"], 0);
    assert!(said.contains("namespace.set_consistency") && said.contains(": default"), "{said}");
    // A server of another mind.
    let url = fleet.redis.url();
    let args = ["serve", "--listen", "127.0.0.1:0", "--redis", &url, "--consistency", "fast"];
    let third = Server::start_with(&mut fleet.place.command(&args), KEY);
    let says = |server: &Server| {
        let mut client = server.client();
        eventually(DEADLINE, || {
            let data = client.post(LIMIT, &ask("a", 9, 0)).data().clone();
            (data["degraded"] == false).then(|| data["consistency"].clone())
        })
    };
    assert_eq!(says(&third), "fast");
    eventually(DEADLINE, || (says(&fleet.servers[1]) == "bounded").then_some(()));
}
