//! Who may do what, and what strangers learn.

use tokio::time::Instant;

use super::*;
use crate::support::{DEADLINE, LIMIT, MULTI_LIMIT, Reply, ask, eventually};

/// What a reply says, but for what is different in each.
fn said(reply: &Reply) -> (u16, Value, Vec<Option<String>>) {
    let mut body = reply.body.clone();
    body["meta"] = Value::Null;
    let header = |name| reply.header(name).map(str::to_owned);
    let headers = ["content-type", "content-length", "www-authenticate", "connection"];
    (reply.status, body, headers.map(header).to_vec())
}

#[test]
fn keys_that_were_and_keys_that_never_were_get_the_same_bytes() {
    let place = Place::file();
    let (revoked, id) = place.key(&[]);
    let (expired, _) = place.key(&["--expires-in", "1ms"]);
    place.run(&["key", "revoke", &id], 0);
    let server = place.serve();
    let refusal = |key: &str| {
        let mut client = Client::connect(server.address, key);
        eventually(DEADLINE, || {
            let reply = client.post(LIMIT, &ask("a", 1, 1));
            (reply.status == 401).then(|| said(&reply))
        })
    };
    let never = refusal(&format!("tidegate_{}", "x".repeat(43)));
    for was in [&revoked, &expired, "short", "tidegate_"] {
        assert_eq!(refusal(was), never);
    }
    tell_times(&server, [("never", "tidegate_x"), ("revoked", &revoked), ("expired", &expired)]);
}

/// How long refusals take, in turns, to be looked at (`--nocapture`): a busy machine may say
/// anything, so nothing is asserted.
fn tell_times(server: &Server, keys: [(&str, &str); 3]) {
    let mut clients = keys.map(|(name, key)| (name, Client::connect(server.address, key), vec![]));
    for _ in 0..500 {
        for (_, client, times) in &mut clients {
            let start = Instant::now();
            assert_eq!(client.post(LIMIT, &ask("a", 1, 1)).status, 401);
            times.push(start.elapsed().as_nanos());
        }
    }
    for (name, _, mut times) in clients {
        times.sort_unstable();
        println!("{name}: median {} ns, 90 % {} ns", times[250], times[450]);
    }
}

#[test]
fn workspaces_do_not_see_each_other() {
    let place = Place::file();
    place.run(&["workspace", "create", "acme"], 0);
    let (acme, _) = place.key(&["--workspace", "acme"]);
    let server = place.serve();
    let (mut ours, mut theirs) = (server.client(), Client::connect(server.address, &acme));
    for left in [1, 0] {
        assert_eq!(ours.post(LIMIT, &ask("ann", 2, 1)).data()["remaining"], left);
    }
    assert_eq!(ours.post(SET_OVERRIDE, &setting("ann", 77)).status, 200);
    let listed = place.json(&["namespace", "list"]);
    let id = listed[0]["id"].as_str().unwrap().to_owned();

    // By its name it is another namespace, by its id it is a name that nobody has.
    assert_eq!(theirs.post(LIMIT, &ask("ann", 2, 1)).data()["remaining"], 1);
    assert_eq!(theirs.post(GET_OVERRIDE, &target("ann")).status, 404);
    for (path, body) in [
        (GET_OVERRIDE, json!({"namespace": id, "identifier": "ann"})),
        (DELETE_OVERRIDE, json!({"namespace": id, "identifier": "ann"})),
        (
            SET_OVERRIDE,
            json!({"namespace": id, "identifier": "ann", "limit": 0, "duration": 1_000}),
        ),
        ("/v2/ratelimit.listOverrides", json!({"namespace": id})),
        ("/v2/tidegate.inspect", json!({"namespace": id, "identifier": "ann", "duration": 1_000})),
    ] {
        assert_eq!(theirs.post(path, &body).status, 404, "{path}");
    }
    assert_eq!(applied(&mut ours, "ann"), 77);
    place.run(&["workspace", "set", "acme", "--enabled", "false"], 0);
    let is_closed = || (theirs.post(LIMIT, &ask("ann", 2, 0)).status == 403).then_some(());
    eventually(DEADLINE, is_closed);
    assert_eq!(ours.post(LIMIT, &ask("bob", 2, 1)).status, 200);
}

#[test]
fn a_key_does_what_it_may_and_nothing_else() {
    let place = Place::file();
    let (edge, _) = place.key(&["--permission", "ratelimit.*.limit"]);
    let server = place.serve();
    let (mut root, mut edge) = (server.client(), Client::connect(server.address, &edge));
    assert_eq!(edge.post(LIMIT, &ask("a", 1, 1)).status, 403, "it may not make a namespace");
    assert_eq!(root.post(LIMIT, &ask("a", 1, 0)).status, 200);
    assert_eq!(edge.post(LIMIT, &ask("a", 1, 1)).status, 200);
    assert_eq!(edge.post(MULTI_LIMIT, &json!([ask("b", 1, 1)])).status, 200);
    let refused = edge.post(SET_OVERRIDE, &setting("a", 9));
    assert_eq!((refused.status, refused.kind()), (403, "insufficient_permissions"));
    let (inspect, body) = (
        "/v2/tidegate.inspect",
        json!({"namespace": "test", "identifier": "a", "duration": WINDOW_MS}),
    );
    assert_eq!(edge.post(inspect, &body).status, 403);
    assert_eq!(root.post(inspect, &body).status, 200);
}

#[test]
fn a_workspace_with_a_cap_is_told_how_it_stands() {
    let place = Place::file();
    let server = place.serve();
    place.run(&["workspace", "set", "default", "--requests-per-minute", "1000000"], 0);
    let mut client = server.client();
    let reply = eventually(DEADLINE, || {
        let reply = client.post(LIMIT, &ask("a", 1, 0));
        reply.header("ratelimit-limit").is_some().then_some(reply)
    });
    assert_eq!(reply.header("ratelimit-limit"), Some("1000000"));
    assert_eq!(reply.header("ratelimit-remaining"), Some("999999"));
    place.run(&["workspace", "set", "default", "--requests-per-minute", "0"], 0);
    let reply = eventually(DEADLINE, || {
        let reply = client.post(LIMIT, &ask("a", 1, 1));
        (reply.status == 429).then_some(reply)
    });
    assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    assert_eq!(reply.header("ratelimit-limit"), None);
}

#[test]
fn what_callers_write_reaches_neither_heads_nor_the_log() {
    let server = Server::start();
    let mut client = server.client();
    let nasty = "x\r\nSet-Cookie: a=b\r\n\u{1b}[2J\u{0}\u{202e}evil";
    let body = json!({"namespace": nasty, "identifier": nasty, "limit": 1, "duration": WINDOW_MS});
    assert_eq!(client.post(LIMIT, &body).data()["success"], true);
    assert_eq!(client.post(LIMIT, &body).data()["success"], false);
    let batch = client.post(MULTI_LIMIT, &json!([body]));
    assert_eq!(batch.data()["limits"][0]["identifier"], nasty, "as it was sent");
    assert_eq!(batch.header("set-cookie"), None);
    let wrong = json!({"namespace": nasty, "identifier": nasty, "limit": 0, nasty: 1});
    assert_eq!(client.post(LIMIT, &wrong).status, 400);
    let set = json!({"namespace": nasty, "identifier": nasty, "limit": 1, "duration": WINDOW_MS});
    assert_eq!(client.post(SET_OVERRIDE, &set).status, 200);
    let printed = [server.said(), server.warned()].concat().join("\n");
    assert!(!printed.contains("evil") && !printed.contains("Set-Cookie"), "{printed}");
}

#[test]
fn bombs_of_wildcards_are_refused_or_defused() {
    let server = Server::start();
    let mut client = server.client();
    client.post(LIMIT, &ask("a", 10, 0));
    let bomb = client.post(SET_OVERRIDE, &setting(&("a*".repeat(255) + "b"), 1));
    assert_eq!(bomb.status, 400, "too many pieces");
    let mut refused = 0;
    for number in 0..100 {
        let pattern = format!("*{}b{number}*", "a".repeat(100));
        refused += u32::from(client.post(SET_OVERRIDE, &setting(&pattern, 1)).status == 400);
    }
    assert_eq!(refused, 100 - 64);
    // Patterns that lie within each other, and an identifier that all of them nearly match.
    for (before, after) in (0..20).flat_map(|n| (0..20).map(move |m| (n, m))) {
        let pattern = format!("{}*{}{}", "a".repeat(before), "c".repeat(after), "b".repeat(300));
        assert_eq!(client.post(SET_OVERRIDE, &setting(&pattern, 7)).status, 200);
    }
    let nearly = format!("{}d{}", "a".repeat(100), "b".repeat(300));
    let batch = json!(vec![ask(&nearly, 10, 0); 100]);
    for _ in 0..20 {
        let reply = client.post(MULTI_LIMIT, &batch);
        assert_eq!(reply.data()["limits"][99]["limit"], 7);
        assert_eq!(applied(&mut client, &"a".repeat(511)), 10);
    }
}
