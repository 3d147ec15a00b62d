//! Calls that are sent again, by clients that left.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use tidegate_lab::RedisServer;

use super::*;
use crate::support::{DEADLINE, KEY, LIMIT, MULTI_LIMIT, Server, ask, eventually, tidegate};

/// A batch of what is enforced and what is only tried.
fn batch(identifier: &str) -> Value {
    let tried = json!({
        "namespace": "tried", "identifier": identifier, "limit": 100, "duration": WINDOW_MS,
    });
    json!([ask(identifier, 100, 1), tried])
}

/// Sends a call with a key, and hears of it for so long at most.
fn call(server: &Server, key: &str, body: &Value, patience: Duration) -> Option<String> {
    let body = body.to_string();
    let mut stream = TcpStream::connect(server.address).unwrap();
    stream.set_read_timeout(Some(patience)).unwrap();
    let head = format!(
        "POST {MULTI_LIMIT} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\nConnection: \
         close\r\nIdempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).ok().map(|_| said)
}

#[test]
fn whoever_leaves_at_any_moment_and_comes_back_is_charged_once() {
    leave_and_come_back("fast");
}

/// What the region was asked to grant is charged, whether the caller waits or not.
#[test]
fn whoever_leaves_while_the_region_is_to_grant_is_charged_once() {
    leave_and_come_back("bounded");
}

fn leave_and_come_back(consistency: &str) {
    let redis = RedisServer::start().unwrap();
    let url = redis.url();
    let said = ["--redis", &url, "--consistency", consistency];
    let args = [&["serve", "--listen", "127.0.0.1:0"][..], &said].concat();
    let mut command = tidegate(&args);
    let data = crate::support::data_dir();
    command.env("TIDEGATE_DATA", &data);
    let server = Server::start_with(&mut command, KEY);
    server.client().post(
        LIMIT,
        &json!({
            "namespace": "tried", "identifier": "i", "limit": 1, "duration": WINDOW_MS,
        }),
    );
    let mut shadow = tidegate(&["namespace", "set", "tried", "--mode", "shadow"]);
    assert_eq!(Server::run_to_end(shadow.env("TIDEGATE_DATA", &data)).0, Some(0));
    let is_tried = || {
        let reply = server.client().post(MULTI_LIMIT, &batch("other"));
        (reply.data()["limits"][1]["mode"] == "shadow").then_some(())
    };
    eventually(DEADLINE, is_tried);
    for trial in 0..40_u64 {
        let identifier = format!("trial-{trial}");
        // What is enforced is known, what is tried is not: the region has to be asked.
        server.client().post(LIMIT, &ask(&identifier, 100, 0));
        redis.pause().unwrap();
        let left =
            call(&server, &identifier, &batch(&identifier), Duration::from_millis(1 + trial));
        redis.resume().unwrap();
        let again = eventually(DEADLINE, || {
            let said = call(&server, &identifier, &batch(&identifier), DEADLINE)?;
            // The claim of the one who left may still be there for a moment.
            (!said.starts_with("HTTP/1.1 409")).then_some(said)
        });
        assert!(again.starts_with("HTTP/1.1 200"), "{again}");
        let spent =
            server.client().post(LIMIT, &ask(&identifier, 100, 0)).data()["remaining"].clone();
        assert_eq!(spent, 99, "trial {trial}, answered before: {}", left.is_some());
    }
}
