//! `ratelimit.limit`, case by case as the contract has it.

use serde_json::{Value, json};

use crate::support::{Client, LIMIT, Server, WINDOW_MS, ask};

/// Verdict and remainder.
fn spend(client: &mut Client, identifier: &str, limit: u64, cost: u64) -> (bool, u64) {
    let reply = client.post(LIMIT, &ask(identifier, limit, cost));
    let data = reply.data();
    assert_eq!(data["limit"], limit);
    (data["success"].as_bool().unwrap(), data["remaining"].as_u64().unwrap())
}

#[test]
fn equality_passes_and_a_denial_consumes_nothing() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(spend(&mut client, "a", 3, 1), (true, 2));
    assert_eq!(spend(&mut client, "a", 3, 3), (false, 0), "2 are left");
    assert_eq!(spend(&mut client, "a", 3, 1), (true, 1));
    assert_eq!(spend(&mut client, "a", 3, 1), (true, 0), "exactly the limit");
    for _ in 0..5 {
        assert_eq!(spend(&mut client, "a", 3, 1), (false, 0));
    }
    assert_eq!(spend(&mut client, "a", 8, 5), (true, 0), "five denials consumed nothing");
}

#[test]
fn a_cost_of_zero_asks_without_consuming() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(spend(&mut client, "a", 5, 0), (true, 5));
    assert_eq!(spend(&mut client, "a", 5, 5), (true, 0));
    assert_eq!(spend(&mut client, "a", 5, 0), (true, 0), "at the limit there is room for nothing");
    assert_eq!(spend(&mut client, "a", 4, 0), (false, 0), "above a limit there is not");
}

#[test]
fn a_cost_above_the_limit_never_fits() {
    let server = Server::start();
    let mut client = server.client();
    let reply = client.post(LIMIT, &ask("a", 10, 11));
    assert_eq!(reply.data()["success"], false);
    assert_eq!(reply.data().get("retryAfterMs"), None, "waiting does not help");
    assert_eq!(spend(&mut client, "a", 10, 0), (true, 10));
}

#[test]
fn a_reply_has_the_form_of_the_contract() {
    let server = Server::start();
    let mut client = server.client();
    let body = json!({"namespace": "n", "identifier": "i", "limit": 100, "duration": WINDOW_MS});
    let first = client.post(LIMIT, &body);
    assert_eq!(first.header("content-type"), Some("application/json"));
    let id = first.body["meta"]["requestId"].as_str().unwrap().strip_prefix("req_").unwrap();
    assert!(id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{id}");
    let keys: Vec<&String> = first.data().as_object().unwrap().keys().collect();
    assert_eq!(keys, ["limit", "remaining", "reset", "success"], "no overrideId, nothing new");
    assert_eq!(first.data()["remaining"], 99, "the default cost is 1");
    assert_eq!(first.data()["reset"].as_u64().unwrap() % WINDOW_MS, 0, "windows are aligned");

    let second = client.post(LIMIT, &body);
    assert_ne!(first.body["meta"], second.body["meta"]);
    assert_eq!(first.data()["reset"], second.data()["reset"]);
}

#[test]
fn a_denial_says_when_to_come_back() {
    let server = Server::start();
    let mut client = server.client();
    spend(&mut client, "a", 1, 1);
    let denied = client.post(LIMIT, &ask("a", 1, 1));
    let retry_after_ms = denied.data()["retryAfterMs"].as_u64().unwrap();
    assert!((1..=2 * WINDOW_MS).contains(&retry_after_ms), "{denied:?}");
    assert_eq!(denied.data().get("reason"), None, "it was the limit");
}

#[test]
fn subjects_that_differ_in_any_part_are_counted_apart() {
    let server = Server::start();
    let mut client = server.client();
    let mut remaining = |namespace: &str, identifier: &str, duration: u64| {
        let body = json!({"namespace": namespace, "identifier": identifier, "limit": 9,
                          "duration": duration});
        client.post(LIMIT, &body).data()["remaining"].clone()
    };
    for (namespace, identifier, duration) in [
        ("a", "b", WINDOW_MS),
        ("ab", "b", WINDOW_MS),
        ("a", "bb", WINDOW_MS),
        ("a", "b", WINDOW_MS - 1_000),
        ("A", "b", WINDOW_MS),
        ("a ", "b", WINDOW_MS),
        ("a", "b\u{0}", WINDOW_MS),
        ("é", "b", WINDOW_MS),
        ("e\u{301}", "b", WINDOW_MS),
    ] {
        assert_eq!(remaining(namespace, identifier, duration), 8, "{namespace:?} {identifier:?}");
    }
    assert_eq!(remaining("a", "b", WINDOW_MS), 7);
}

#[test]
fn an_escape_names_the_same_subject_as_the_character() {
    let server = Server::start();
    let mut client = server.client();
    spend(&mut client, "é/", 9, 1);
    let escaped = format!(
        r#"{{"namespace":"te\u0073t","identifier":"\u00e9\/","limit":9,"duration":{WINDOW_MS}}}"#
    );
    assert_eq!(client.post_bytes(LIMIT, escaped.as_bytes()).data()["remaining"], 7);
}

#[test]
fn a_limit_that_cannot_be_reached_is_clamped_and_said() {
    let server = Server::start();
    let mut client = server.client();
    let mut body = ask("a", 1, 1);
    body["limit"] = Value::from(i64::MAX);
    assert_eq!(client.post(LIMIT, &body).data()["limit"], 1_u64 << 50);
}

#[test]
fn one_connection_carries_many_requests_even_at_once() {
    let server = Server::start();
    let mut client = server.client();
    for left in (0..50).rev() {
        assert_eq!(spend(&mut client, "a", 50, 1), (true, left));
    }
    let body = ask("b", 9, 1).to_string();
    let request = client.head(LIMIT, &format!("Content-Length: {}", body.len())) + &body;
    client.send(&[request.repeat(3).as_bytes()]);
    let remaining: Vec<Value> =
        (0..3).map(|_| client.reply().data()["remaining"].clone()).collect();
    assert_eq!(remaining, [8, 7, 6]);
}

#[test]
fn clients_that_race_for_a_limit_get_exactly_that_many() {
    let server = Server::start();
    let admitted: usize = std::thread::scope(|scope| {
        let client = || {
            let mut client = server.client();
            (0..100).filter(|_| spend(&mut client, "a", 150, 1).0).count()
        };
        let clients: Vec<_> = (0..4).map(|_| scope.spawn(client)).collect();
        clients.into_iter().map(|client| client.join().unwrap()).sum()
    });
    assert_eq!(admitted, 150);
}
