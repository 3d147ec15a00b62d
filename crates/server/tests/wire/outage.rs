//! What becomes of requests while Redis, or the database, or both are away: two processes, and
//! namespaces that say `local` and `deny`.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value as Json, json};
use tidegate_lab::{MariaDbServer, RedisServer};

use crate::support::{
    Client, DEADLINE, KEY, LIMIT, MULTI_LIMIT, Place, Reply, Server, WINDOW_MS, eventually,
};

fn of(namespace: &str, identifier: &str, cost: u64) -> Json {
    json!({"namespace": namespace, "identifier": identifier, "limit": 10, "duration": WINDOW_MS,
           "cost": cost})
}

/// How Redis is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Redis {
    Up,
    Paused,
    Killed,
}

/// Two processes with one Redis and one database.
struct Fleet {
    redis: RedisServer,
    database: MariaDbServer,
    place: Place,
    servers: [Server; 2],
}

impl Fleet {
    fn start() -> Self {
        let (redis, database) = (RedisServer::start().unwrap(), MariaDbServer::start().unwrap());
        let place = Place::new(database.url());
        let url = redis.url();
        let serve = || {
            let args = ["serve", "--listen", "127.0.0.1:0", "--redis", &url];
            Server::start_with(&mut place.command(&args), KEY)
        };
        let fleet = Self { servers: [serve(), serve()], redis, database, place };
        for name in ["local", "deny"] {
            fleet.servers[0].client().post(LIMIT, &of(name, "first", 0));
            fleet.place.run(&["namespace", "set", name, "--outage", name], 0);
            fleet.known(name, name);
        }
        fleet
    }

    /// Both processes know what a namespace says.
    fn known(&self, name: &str, outage: &str) {
        for server in &self.servers {
            let mut client = server.client();
            eventually(DEADLINE, || {
                let said = client.post("/v2/tidegate.explain", &of(name, "first", 1));
                // One that was made a moment ago is not known everywhere yet.
                (said.status == 200 && said.data()["namespace"]["outage"] == outage).then_some(())
            });
        }
    }

    fn ready(&self) {
        for server in &self.servers {
            assert_eq!(server.client().ask("GET", "/readyz").status, 200);
        }
    }
}

/// Both answer; a machine that is busy may take more than one request for it.
fn heard(client: &mut Client, namespace: &str) {
    // Another subject each time, in all rounds: one that was heard of is not asked about.
    static TURNS: AtomicU64 = AtomicU64::new(0);
    eventually(DEADLINE, || {
        let turn = TURNS.fetch_add(1, Ordering::Relaxed);
        let data = client.post(LIMIT, &of(namespace, &format!("heard-{turn}"), 1)).data().clone();
        assert!(data["success"] == true || data["reason"] == "outage", "{data}");
        (data["success"] == true && data["degraded"] == false).then_some(())
    });
}

/// Redis is away: both namespaces say so, each in its way.
fn unheard(client: &mut Client, round: &str) {
    for n in 0..3 {
        let name = format!("{round}-{n}");
        let local = client.post(LIMIT, &of("local", &name, 1)).data().clone();
        assert_eq!((&local["success"], &local["degraded"]), (&json!(true), &json!(true)));
        let deny = client.post(LIMIT, &of("deny", &name, 1)).data().clone();
        let said = (&deny["success"], &deny["degraded"], &deny["reason"], &deny["remaining"]);
        assert_eq!(said, (&json!(false), &json!(true), &json!("outage"), &json!(0)), "{deny}");
        assert!((50..=1_000).contains(&deny["retryAfterMs"].as_u64().unwrap()), "{deny}");
        let both = json!([of("local", &name, 1), of("deny", &name, 1)]);
        let both = client.post(MULTI_LIMIT, &both).data().clone();
        let items = &both["limits"];
        assert_eq!((&both["passed"], &items[1]["reason"]), (&json!(false), &json!("outage")));
        assert_eq!((&items[0]["passed"], &items[0]["remaining"]), (&json!(true), &json!(9)));
        // What is denied anyway keeps its reason.
        let never = client.post(LIMIT, &of("deny", &name, 11)).data().clone();
        assert_eq!((&never["success"], never.get("reason")), (&json!(false), None), "{never}");
    }
}

#[test]
fn every_store_that_is_away_leaves_what_the_namespace_chose() {
    let mut fleet = Fleet::start();
    for database_up in [true, false] {
        if !database_up {
            fleet.database.kill_9();
        }
        for redis in [Redis::Up, Redis::Paused, Redis::Up, Redis::Killed, Redis::Up] {
            match redis {
                Redis::Up => {}
                Redis::Paused => fleet.redis.pause().unwrap(),
                Redis::Killed => fleet.redis.kill_9(),
            }
            for (at, server) in fleet.servers.iter().enumerate() {
                let mut client = server.client();
                match redis {
                    Redis::Up => ["local", "deny"].iter().for_each(|it| heard(&mut client, it)),
                    _ => unheard(&mut client, &format!("{redis:?}-{database_up}-{at}")),
                }
            }
            fleet.ready();
            match redis {
                Redis::Up => {}
                Redis::Paused => fleet.redis.resume().unwrap(),
                Redis::Killed => fleet.redis.restart().unwrap(),
            }
        }
    }
}

#[test]
fn a_server_has_a_default_and_a_namespace_takes_its_word_back() {
    let (mut redis, place) = (RedisServer::start().unwrap(), Place::file());
    let args = ["serve", "--listen", "127.0.0.1:0", "--redis", &redis.url(), "--outage", "deny"];
    let server = Server::start_with(&mut place.command(&args), KEY);
    let mut client = server.client();
    heard(&mut client, "test");
    redis.kill_9();
    eventually(DEADLINE, || {
        let data = client.post(LIMIT, &of("test", "gone", 1)).data().clone();
        (data["reason"] == "outage").then_some(())
    });
    let said = |said: &str| place.run(&["namespace", "set", "test", "--outage", said], 0);
    let mut turn = 0;
    let mut becomes = |success: bool| {
        eventually(DEADLINE, || {
            turn += 1;
            let data = client.post(LIMIT, &of("test", &format!("x{turn}"), 1)).data().clone();
            (data["success"] == success).then_some(())
        });
    };
    said("local");
    becomes(true);
    let listed = place.json(&["namespace", "list"]);
    assert_eq!(listed[0]["outage"], "local");
    said("default");
    becomes(false);
    // In shadow it is told, and let through.
    place.run(&["namespace", "set", "test", "--mode", "shadow"], 0);
    becomes(true);
    let data = client.post(LIMIT, &of("test", "shadow", 1)).data().clone();
    assert_eq!((&data["wouldDeny"], &data["reason"]), (&json!(true), &json!("outage")), "{data}");
    let events = place.json(&["audit", "--last", "100"]).to_string();
    assert_eq!(events.matches("namespace.set_outage").count(), 2, "{events}");
}

/// Sends a call under a name.
fn again(client: &mut Client, key: &str, path: &str, body: &Json) -> Reply {
    let body = body.to_string();
    let framing = format!("Content-Length: {}\r\nIdempotency-Key: {key}", body.len());
    let head = client.head(path, &framing);
    client.send(&[head.as_bytes(), body.as_bytes()]);
    client.reply()
}

/// What is denied for an outage is not remembered as if it had been decided.
#[test]
fn a_call_that_is_sent_again_after_the_outage_is_decided() {
    let (mut redis, place) = (RedisServer::start().unwrap(), Place::file());
    let args = ["serve", "--listen", "127.0.0.1:0", "--redis", &redis.url(), "--outage", "deny"];
    // Bounded ones may be charged when they are denied, and are remembered for ten seconds.
    let args = [&args[..], &["--consistency", "fast"]].concat();
    let server = Server::start_with(&mut place.command(&args), KEY);
    let mut client = server.client();
    heard(&mut client, "test");
    redis.kill_9();
    let one = of("test", "one", 3);
    let two = json!([of("test", "two", 3), of("test", "three", 3)]);
    let calls = [(LIMIT, "k1", &one, "success"), (MULTI_LIMIT, "k2", &two, "passed")];
    for (path, key, body, word) in calls {
        let data = again(&mut client, key, path, body).data().clone();
        assert_eq!(data[word], false, "{data}");
        assert!(data.to_string().contains("\"reason\":\"outage\""), "{data}");
    }
    redis.restart().unwrap();
    heard(&mut client, "test");
    for (path, key, body, word) in calls {
        let admitted = eventually(DEADLINE, || {
            let reply = again(&mut client, key, path, body);
            (reply.status == 200 && reply.data()[word] == true).then_some(reply)
        });
        let repeated = again(&mut client, key, path, body);
        assert_eq!(repeated.header("idempotency-replayed"), Some("true"));
        assert_eq!(repeated.body, admitted.body, "and that is remembered");
    }
    let left = eventually(DEADLINE, || {
        let data = client.post(LIMIT, &of("test", "one", 0)).data().clone();
        (data["success"] == true).then(|| data["remaining"].clone())
    });
    assert_eq!(left, 7, "charged once");
}

#[test]
fn a_process_on_its_own_has_nobody_to_miss() {
    let server = Server::start_saying(&["--outage", "deny"]);
    let data = server.client().post(LIMIT, &of("test", "a", 1)).data().clone();
    assert_eq!((&data["success"], data.get("reason")), (&json!(true), None), "{data}");
}

#[test]
fn the_end_counts_what_an_outage_denied() {
    let (mut redis, place) = (RedisServer::start().unwrap(), Place::file());
    let args = ["serve", "--listen", "127.0.0.1:0", "--redis", &redis.url(), "--outage", "deny"];
    redis.kill_9();
    let mut server = Server::start_for_programs(&mut place.command(&args), KEY);
    let mut client = server.client();
    for n in 0..3 {
        let data = client.post(LIMIT, &of("test", &format!("n{n}"), 1)).data().clone();
        assert_eq!((&data["success"], &data["reason"]), (&json!(false), &json!("outage")));
    }
    server.signal("TERM");
    assert_eq!(server.wait_for_end().code(), Some(0));
    let line = server.wait_for_warning("\"event\":\"stopped\"");
    assert!(line.contains("\"admitted\":0,\"denied\":3,"), "{line}");
}
