//! What is refused, how it is said, and that nothing of it is counted.

use serde_json::{Value, json};

use crate::support::{
    Client, DEADLINE, LIMIT, MULTI_LIMIT, Reply, Server, WINDOW_MS, ask, eventually,
};

/// Field and JSON text that must be refused there.
fn bad_fields() -> Vec<(&'static str, String)> {
    let long = format!("\"{}\"", "x".repeat(513));
    let deep = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
    let mut bad = Vec::new();
    for field in ["namespace", "identifier"] {
        for value in [r#""""#, &long, "1", "null", "true", "[]", "{}", &deep] {
            bad.push((field, value.to_owned()));
        }
    }
    for field in ["limit", "duration", "cost"] {
        for value in [
            "-1",
            "1.5",
            "1e3",
            "1000.0",
            "18446744073709551616",
            r#""1000""#,
            "null",
            "false",
            "[1000]",
            "{}",
            &deep,
        ] {
            bad.push((field, value.to_owned()));
        }
    }
    for (field, value) in [
        ("limit", "0"),
        ("limit", "9223372036854775808"),
        ("duration", "0"),
        ("duration", "999"),
        ("duration", "2592000001"),
        ("cost", "1099511627777"),
        ("unknown", "1"),
        ("overrideId", r#""rlor_1""#),
        ("Limit", "1"),
    ] {
        bad.push((field, value.to_owned()));
    }
    bad
}

/// The good request with one field replaced or added, as JSON text.
fn with(field: &str, value: &str) -> String {
    let good = ask("victim", 10, 1);
    let mut parts: Vec<String> = good
        .as_object()
        .unwrap()
        .iter()
        .filter(|(name, _)| *name != field)
        .map(|(name, value)| format!("\"{name}\":{value}"))
        .collect();
    parts.push(format!("\"{field}\":{value}"));
    format!("{{{}}}", parts.join(","))
}

fn assert_schema_error(reply: &Reply, path: &str, locations: &[&str]) {
    let error = &reply.body["error"];
    assert_eq!(reply.status, 400, "{reply:?}");
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(error["title"], "Bad Request");
    assert_eq!(error["status"], 400);
    assert_eq!(error["type"], "https://unkey.com/docs/errors/unkey/application/invalid_input");
    assert_eq!(
        error["detail"],
        format!("POST request body for '{path}' failed to validate schema")
    );
    assert!(reply.body["meta"]["requestId"].as_str().unwrap().starts_with("req_"));
    let errors = error["errors"].as_array().unwrap();
    let said: Vec<&str> = errors.iter().map(|error| error["location"].as_str().unwrap()).collect();
    assert_eq!(said, locations);
    assert!(errors.iter().all(|error| !error["message"].as_str().unwrap().is_empty()));
}

fn assert_nothing_counted(client: &mut Client) {
    let reply = client.post(LIMIT, &ask("victim", 10, 0));
    assert_eq!(reply.data()["remaining"], 10);
}

#[test]
fn every_bad_field_of_a_single_is_named_and_nothing_is_counted() {
    let server = Server::start();
    let mut client = server.client();
    for (field, value) in bad_fields() {
        let reply = client.post_bytes(LIMIT, with(field, &value).as_bytes());
        assert_schema_error(&reply, LIMIT, &[&format!("body.{field}")]);
    }
    assert_nothing_counted(&mut client);
}

#[test]
fn every_bad_field_of_a_batch_is_named_with_its_item_and_nothing_is_counted() {
    let server = Server::start();
    let mut client = server.client();
    let good = ask("victim", 10, 1);
    for (field, value) in bad_fields() {
        let body = format!("[{good},{},{good}]", with(field, &value));
        let reply = client.post_bytes(MULTI_LIMIT, body.as_bytes());
        assert_schema_error(&reply, MULTI_LIMIT, &[&format!("body[1].{field}")]);
    }
    assert_nothing_counted(&mut client);
}

#[test]
fn missing_and_repeated_fields_are_named() {
    let server = Server::start();
    let mut client = server.client();
    let all = ["body.namespace", "body.identifier", "body.limit", "body.duration"];
    assert_schema_error(&client.post_bytes(LIMIT, b"{}"), LIMIT, &all);
    let twice = with("cost", "1,\"limit\":10");
    assert_schema_error(&client.post_bytes(LIMIT, twice.as_bytes()), LIMIT, &["body.limit"]);
    let batch = format!("[{twice}]");
    let reply = client.post_bytes(MULTI_LIMIT, batch.as_bytes());
    assert_schema_error(&reply, MULTI_LIMIT, &["body[0].limit"]);
    assert_nothing_counted(&mut client);
}

#[test]
fn the_shape_of_the_body_must_fit_the_operation() {
    let server = Server::start();
    let mut client = server.client();
    let good = ask("victim", 10, 1);
    for body in [json!([good]), json!("x"), json!(null), json!(1)] {
        assert_schema_error(&client.post(LIMIT, &body), LIMIT, &["body"]);
    }
    for body in [good.clone(), json!("x"), json!([]), Value::from(vec![good; 101])] {
        assert_schema_error(&client.post(MULTI_LIMIT, &body), MULTI_LIMIT, &["body"]);
    }
    assert_nothing_counted(&mut client);
}

#[test]
fn what_is_not_json_names_no_field() {
    let server = Server::start();
    let mut client = server.client();
    let good = ask("victim", 10, 1).to_string();
    let trailing = format!("{good} {good}");
    let bodies: [&[u8]; 8] = [
        b"",
        b"not json",
        &good.as_bytes()[..good.len() - 1],
        trailing.as_bytes(),
        b"{\"namespace\":\"\xff\xfe\"}",
        b"{\"namespace\":\"\\ud800\"}",
        &[b'['; 200_000],
        b"\xef\xbb\xbf{}",
    ];
    for path in [LIMIT, MULTI_LIMIT] {
        for body in bodies {
            // Inside an array everything is looked at, so wrong escapes are found there too.
            let body = if path == LIMIT || body.is_empty() {
                body.to_vec()
            } else {
                [b"[", body].concat()
            };
            assert_schema_error(&client.post_bytes(path, &body), path, &[]);
        }
    }
    assert_nothing_counted(&mut client);
}

fn chunked(bytes: usize) -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..bytes.div_ceil(1 << 16) {
        body.extend_from_slice(b"10000\r\n");
        body.extend_from_slice(&[b' '; 1 << 16]);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(b"0\r\n\r\n");
    body
}

fn assert_too_large(client: &mut Client) {
    let reply = client.reply();
    assert_eq!(reply.status, 413, "{reply:?}");
    assert_eq!(reply.kind(), "request_body_too_large");
    assert_eq!(reply.body["error"]["errors"], json!([]));
    assert!(client.is_closed());
}

#[test]
fn a_body_over_the_cap_is_refused_however_its_length_is_told() {
    let server = Server::start();
    for path in [LIMIT, MULTI_LIMIT] {
        let mut client = server.client();
        let body = vec![b' '; (1 << 20) + 1];
        let head = client.head(path, &format!("Content-Length: {}", body.len()));
        client.send(&[head.as_bytes(), &body]);
        assert_too_large(&mut client);

        let mut client = server.client();
        let head = client.head(path, "Transfer-Encoding: chunked");
        client.send(&[head.as_bytes(), &chunked(3 << 20)]);
        assert_too_large(&mut client);

        let mut client = server.client();
        let head = client.head(path, "Content-Length: 9999999999999\r\nExpect: 100-continue");
        client.send(&[head.as_bytes()]);
        assert_too_large(&mut client);
    }
    assert_nothing_counted(&mut server.client());
}

#[test]
fn a_chunked_body_below_the_cap_is_answered() {
    let server = Server::start();
    let mut client = server.client();
    let body = ask("chunks", 10, 1).to_string();
    let (first, second) = body.split_at(7);
    let chunk = |text: &str| format!("{:x}\r\n{text}\r\n", text.len());
    let head = client.head(LIMIT, "Transfer-Encoding: chunked");
    client.send(&[
        head.as_bytes(),
        chunk(first).as_bytes(),
        chunk(second).as_bytes(),
        b"0\r\n\r\n",
    ]);
    assert_eq!(client.reply().data()["remaining"], 9);
}

#[test]
fn a_body_that_cannot_be_read_is_refused() {
    let server = Server::start();
    let mut client = server.client();
    let head = client.head(LIMIT, "Transfer-Encoding: chunked");
    client.send(&[head.as_bytes(), b"nonsense\r\n"]);
    let reply = client.reply();
    assert_eq!((reply.status, reply.kind()), (400, "request_body_unreadable"));
    assert!(client.is_closed());
}

#[test]
fn keys_are_looked_at_after_the_body() {
    let server = Server::start();
    let mut client = server.client();
    let body = ask("victim", 10, 1).to_string();
    let mut send = |authorization: &str, body: &str| {
        let length = body.len();
        let head = format!(
            "POST {LIMIT} HTTP/1.1\r\nHost: x\r\n{authorization}Content-Length: {length}\r\n\r\n"
        );
        client.send(&[head.as_bytes(), body.as_bytes()]);
        client.reply()
    };
    let missing = send("", &body);
    assert_eq!((missing.status, missing.kind()), (400, "invalid_input"));
    assert_eq!(missing.body["error"]["errors"][0]["location"], "header.Authorization");
    let malformed = send("Authorization: Basic dGlkZQ==\r\n", &body);
    assert_eq!((malformed.status, malformed.kind()), (400, "malformed"));
    let unknown = send("Authorization: Bearer nobody\r\nAccept: */*\r\n", &body);
    assert_eq!((unknown.status, unknown.kind()), (401, "key_not_found"));
    assert_eq!(unknown.header("content-type"), Some("application/problem+json"));
    assert_eq!(unknown.header("www-authenticate"), Some("Bearer"));
    assert!(unknown.body["error"].get("errors").is_none());

    let bad_body = send("Authorization: Bearer nobody\r\n", "{}");
    assert_eq!((bad_body.status, bad_body.kind()), (400, "invalid_input"));
    assert_nothing_counted(&mut server.client());
}

#[test]
fn unknown_paths_and_methods_are_refused_in_the_same_envelope() {
    let server = Server::start();
    let mut client = server.client();
    let reply = client.post("/v2/ratelimit.nothing", &ask("victim", 10, 1));
    assert_eq!((reply.status, reply.kind()), (404, "path_not_found"));
    client.send(&[format!("GET {LIMIT} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()]);
    let reply = client.reply();
    assert_eq!((reply.status, reply.kind()), (405, "method_not_allowed"));
    assert_eq!(reply.header("allow"), Some("POST"));
    assert_eq!(client.post(LIMIT, &ask("victim", 10, 0)).data()["remaining"], 10);
}

#[test]
fn what_is_refused_leaves_the_connection_usable() {
    let server = Server::start();
    let mut client = server.client();
    assert_eq!(client.post_bytes(LIMIT, b"{").status, 400);
    let body = json!({"namespace": "n", "identifier": "i", "limit": 2, "duration": WINDOW_MS});
    assert_eq!(client.post(LIMIT, &body).data()["remaining"], 1);
}

#[test]
fn a_client_that_dribbles_its_head_is_cut_off() {
    let server = Server::start();
    let mut client = server.client();
    let mut head = "POST / HTTP/1.1\r\nX: ".bytes().chain(std::iter::repeat(b'x'));
    eventually(DEADLINE, || {
        let sent = head.next().is_some_and(|byte| client.try_send(&[byte]));
        (!sent || client.is_closed_now()).then_some(())
    });
    assert_eq!(server.client().post(LIMIT, &ask("a", 1, 1)).data()["success"], true);
}
