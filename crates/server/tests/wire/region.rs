//! Processes that share their limits, with a private Redis for each test.

use serde_json::{Value as Json, json};
use tidegate_lab::{RedisCluster, RedisOptions, RedisServer, Sentinel, Value};

use crate::support::{
    Client, DEADLINE, KEY, LIMIT, MULTI_LIMIT, Server, ask, eventually, tidegate,
};

const LISTEN: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

/// A process in the region of that Redis.
fn join(url: &str) -> Server {
    let args = [&LISTEN[..], &["--redis", url]].concat();
    Server::start_with(&mut tidegate(&args), KEY)
}

/// What Redis has recorded, of all cells.
fn recorded(redis: &RedisServer) -> i64 {
    let keys = redis.command(&["KEYS", "tg:1:*"]).unwrap();
    // What the look at the start wrote is not a count, and stays for a second.
    let keys = keys.items().iter().map(Value::text).filter(|key| !key.contains(":check:"));
    // The token is text: what is asked of it here is refused, and no number.
    keys.filter_map(|key| redis.command(&["HGET", &key, "s"]).unwrap().int()).sum()
}

/// The answer of a process that has heard the region: on a slow machine that may take more than
/// one request.
fn heard(client: &mut Client, identifier: &str, limit: u64) -> Json {
    eventually(DEADLINE, || {
        let reply = client.post(LIMIT, &ask(identifier, limit, 0));
        (reply.data()["degraded"] == false).then(|| reply.data().clone())
    })
}

#[test]
fn processes_of_a_region_share_one_limit() {
    let redis = RedisServer::start().unwrap();
    let (one, other) = (join(&redis.url()), join(&redis.url()));
    let (mut one, mut other) = (one.client(), other.client());
    assert_eq!(one.post(LIMIT, &ask("a", 10, 6)).data()["success"], true);
    eventually(DEADLINE, || (recorded(&redis) == 6).then_some(()));

    assert_eq!(heard(&mut other, "a", 10)["remaining"], 4);
    assert_eq!(other.post(LIMIT, &ask("a", 10, 5)).data()["success"], false, "4 are left");
    assert_eq!(other.post(LIMIT, &ask("a", 10, 4)).data()["success"], true);
    eventually(DEADLINE, || (recorded(&redis) == 10).then_some(()));
    let remaining = eventually(DEADLINE, || {
        let remaining = heard(&mut one, "a", 10)["remaining"].as_u64();
        remaining.filter(|remaining| *remaining < 4)
    });
    assert_eq!(remaining, 0, "the first hears of it when its view is no longer fresh");

    let third = join(&redis.url());
    let mut third = third.client();
    assert_eq!(heard(&mut third, "a", 11)["remaining"], 1, "whoever comes later knows");
    assert_eq!(third.post(LIMIT, &ask("a", 10, 1)).data()["success"], false);
}

/// What one process of the region spends, another hears of.
fn share(url: &str) {
    let (one, other) = (join(url), join(url));
    let mut one = one.client();
    heard(&mut one, "a", 9);
    assert_eq!(one.post(LIMIT, &ask("a", 9, 5)).data()["success"], true);
    // What was heard too early is heard again when it is no longer fresh.
    eventually(DEADLINE, || (heard(&mut other.client(), "a", 9)["remaining"] == 4).then_some(()));
}

#[test]
fn a_region_behind_sentinels_is_shared() {
    let sentinels = Sentinel::start().unwrap();
    let nodes = sentinels.addresses().join(",");
    share(&format!("redis://{nodes}/?sentinel={}", Sentinel::MASTER));
}

#[test]
fn a_region_in_a_cluster_is_shared() {
    let cluster = RedisCluster::start(3).unwrap();
    share(&format!("redis://{}/?cluster=true", cluster.addresses().join(",")));
}

#[test]
fn an_answer_says_how_well_the_region_was_known() {
    let redis = RedisServer::start().unwrap();
    let server = join(&redis.url());
    let mut client = server.client();
    let known = |data: &Json| {
        let age_ms = data["ageMs"].as_u64().unwrap();
        (data["source"].as_str().unwrap().to_owned(), age_ms < 30_000, data["degraded"] == true)
    };
    let mut turn = 0;
    let region = eventually(DEADLINE, || {
        // Another subject each time: one that was heard of is not asked about.
        turn += 1;
        let reply = client.post(LIMIT, &ask(&format!("user-{turn}"), 5, 1));
        (reply.data()["source"] == "region").then(|| reply.data().clone())
    });
    assert_eq!(known(&region), ("region".to_owned(), true, false));
    assert_eq!((&region["success"], &region["remaining"]), (&json!(true), &json!(4)));

    heard(&mut client, "a", 5);
    let local = client.post(LIMIT, &ask("a", 5, 6)).data().clone();
    assert_eq!(known(&local), ("local".to_owned(), true, false), "a denial asks nobody");
    let batch = json!([ask("a", 5, 1), ask("b", 5, 1)]);
    let batch = client.post(MULTI_LIMIT, &batch).data().clone();
    for item in batch["limits"].as_array().unwrap() {
        assert!(item["source"].is_string() && item["ageMs"].is_u64(), "{batch}");
        assert!(item["degraded"].is_boolean(), "{batch}");
    }
}

#[test]
fn a_process_on_its_own_says_nothing_of_a_region() {
    let server = Server::start();
    let single = server.client().post(LIMIT, &ask("a", 1, 1));
    let batch = server.client().post(MULTI_LIMIT, &json!([ask("b", 1, 1)]));
    for data in [single.data(), &batch.data()["limits"][0]] {
        for field in ["source", "ageMs", "degraded", "consistency"] {
            assert_eq!(data.get(field), None, "{data}");
        }
    }
    assert!(!server.said().join("\n").contains("region"));
}

#[test]
fn a_redis_that_is_not_there_fails_nothing() {
    let mut redis = RedisServer::start().unwrap();
    redis.kill_9();
    let server = join(&redis.url());
    let mut client = server.client();
    for (success, remaining) in [(true, 1), (true, 0), (false, 0)] {
        let reply = client.post(LIMIT, &ask("a", 2, 1));
        let data = reply.data();
        assert_eq!((&data["success"], &data["remaining"]), (&json!(success), &json!(remaining)));
        assert_eq!(data["source"], "local");
        assert_eq!(data["degraded"], success, "{data}: a denial needs no region");
    }
    server.wait_for_warning(&redis.address());

    redis.restart().unwrap();
    server.wait_for_warning("answers now");
    eventually(DEADLINE, || (recorded(&redis) == 2).then_some(()));
    let later = join(&redis.url());
    assert_eq!(heard(&mut later.client(), "a", 2)["remaining"], 0, "nothing was lost");
}

#[test]
fn a_redis_that_evicts_is_warned_about() {
    let options = RedisOptions::new().set("maxmemory-policy", "allkeys-lru");
    let redis = RedisServer::start_with(&options).unwrap();
    let line = join(&redis.url()).wait_for_warning("noeviction");
    assert!(line.contains(" warn region_unfit: ") && line.contains("allkeys-lru"), "{line}");
}

#[test]
fn a_wrong_password_is_a_warning_that_does_not_show_it() {
    let redis = RedisServer::start().unwrap();
    let server = join(&format!("redis://me:s3cret@{}", redis.address()));
    assert!(server.said().join("\n").contains(&format!("redis at {}\n", redis.address())));
    assert_eq!(server.client().post(LIMIT, &ask("a", 1, 1)).data()["degraded"], true);
    server.wait_for_warning(" warn region_away: ");
    let all = [server.said(), server.warned()].concat().join("\n");
    assert!(!all.contains("s3cret"), "{all}");
}

#[test]
fn a_bad_address_is_refused_without_repeating_it() {
    for bad in [
        "",
        "s3cret",
        "http://:s3cret@cache",
        "redis://:s3cret@cache:port",
        "redis://:s3cret@one,two",
        "redis://:s3cret@one/?cluster=s3cret",
        "redis://:s3cret%@one",
    ] {
        let given = tidegate(&[&LISTEN[..], &["--redis", bad]].concat());
        let mut from_environment = tidegate(&LISTEN);
        from_environment.env("TIDEGATE_REDIS", bad);
        for mut command in [given, from_environment] {
            let (code, said) = Server::run_to_end(&mut command);
            assert_eq!(code, Some(2), "{bad}: {said}");
            assert!(said.contains("TIDEGATE_REDIS") && said.contains("redis://["), "{said}");
            assert!(!said.contains("s3cr"), "{said}");
        }
    }
}

#[test]
fn a_bad_fleet_secret_is_refused_without_repeating_it() {
    for bad in ["", "s3cret", &"s3cret".repeat(11)] {
        let (code, said) = Server::run_to_end(tidegate(&LISTEN).env("TIDEGATE_FLEET_SECRET", bad));
        assert_eq!(code, Some(2), "{said}");
        assert!(said.contains("TIDEGATE_FLEET_SECRET") && said.contains("64"), "{said}");
        assert!(!said.contains("s3cr"), "{said}");
    }
}

#[test]
fn processes_with_different_fleet_secrets_share_nothing() {
    let redis = RedisServer::start().unwrap();
    let with_secret = |digit: &str| {
        let secret = digit.repeat(64);
        let mut command = tidegate(&LISTEN);
        command.env("TIDEGATE_REDIS", redis.url()).env("TIDEGATE_FLEET_SECRET", &secret);
        let server = Server::start_with(&mut command, KEY);
        assert!(!server.said().join("\n").contains(&secret));
        server
    };
    let one = with_secret("a");
    assert_eq!(one.client().post(LIMIT, &ask("a", 9, 5)).data()["success"], true);
    eventually(DEADLINE, || (recorded(&redis) == 5).then_some(()));
    let other = with_secret("b");
    assert_eq!(heard(&mut other.client(), "a", 9)["remaining"], 9);
    other.wait_for_warning("another fleet secret");
    assert_eq!(one.warned(), Vec::<String>::new());
    assert_eq!(heard(&mut with_secret("a").client(), "a", 9)["remaining"], 4);
}

#[cfg(unix)]
mod ending {
    use super::*;

    #[test]
    fn a_signal_leaves_nothing_unrecorded() {
        let redis = RedisServer::start().unwrap();
        let mut server = join(&redis.url());
        let mut client = server.client();
        // Large limits: what is spent is too little to be sent at once.
        for number in 1..=50 {
            let reply = client.post(LIMIT, &ask(&format!("user-{number}"), 1_000_000, number));
            assert_eq!(reply.data()["success"], true);
        }
        server.signal("TERM");
        assert_eq!(server.wait_for_end().code(), Some(0));
        server.wait_for_line("0 of the admitted cost is unrecorded");
        assert_eq!(recorded(&redis), (1..=50).sum::<i64>());
    }

    #[test]
    fn a_redis_that_does_not_answer_at_the_end_is_said_and_waited_for_no_longer_than_asked() {
        let redis = RedisServer::start().unwrap();
        let mut server = join(&redis.url());
        let mut client = server.client();
        heard(&mut client, "a", 9);
        redis.pause().unwrap();
        for identifier in ["a", "a", "b"] {
            assert_eq!(client.post(LIMIT, &ask(identifier, 9, 1)).data()["success"], true);
        }
        server.signal("INT");
        server.wait_for_line("stopping");
        server.signal("INT");
        assert_eq!(server.wait_for_end().code(), Some(0));
        server.wait_for_line("3 units of 2 subjects were not recorded: Redis did not answer");
    }

    #[test]
    fn a_region_that_is_away_does_not_keep_the_process() {
        let mut redis = RedisServer::start().unwrap();
        let mut server = join(&redis.url());
        redis.kill_9();
        assert_eq!(server.client().post(LIMIT, &ask("a", 9, 7)).data()["success"], true);
        server.signal("TERM");
        assert_eq!(server.wait_for_end().code(), Some(0));
        server.wait_for_line("7 units of 1 subjects were not recorded: Redis did not answer");
    }

    /// What a process that is killed takes with it: what it had not sent, at most one part in 64
    /// of the limit for each cell, or one in 24 if it was alone; and what was on its way.
    #[test]
    fn a_process_that_is_killed_takes_little_with_it() {
        const LIMIT_OF_ONE: u64 = 6_400;
        for (others, part, most) in [(0, 24, 266), (1, 64, 100)] {
            let redis = RedisServer::start().unwrap();
            let (mut server, other) = (join(&redis.url()), join(&redis.url()));
            let mut client = server.client();
            if others > 0 {
                // Who has asked for something is present.
                let ask_of_other = ask("b", 1, 1);
                assert_eq!(other.client().post(LIMIT, &ask_of_other).data()["success"], true);
                eventually(DEADLINE, || {
                    let known = redis.command(&["ZCARD", "tg:1:{0}:present"]).unwrap().int();
                    (known == Some(1)).then_some(())
                });
            }
            heard(&mut client, "a", LIMIT_OF_ONE);
            let before = recorded(&redis);
            for _ in 0..1_000 {
                assert_eq!(client.post(LIMIT, &ask("a", LIMIT_OF_ONE, 1)).data()["success"], true);
            }
            server.signal("KILL");
            server.wait_for_end();
            let lost = 1_000 - (recorded(&redis) - before);
            println!(
                "kill -9 beside {others} others lost {lost} of 1,000 units; one part in {part} is \
                 {most}"
            );
            // It is in step by now. A hundred units more may be on their way.
            assert!((0..=most + 100).contains(&lost), "{lost}");
        }
    }
}
