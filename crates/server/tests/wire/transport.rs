//! Connections: which protocols, how many, and how they end.

use std::time::Duration;

use serde_json::json;
use tidegate_lab::RedisServer;

use crate::support::{
    Client, DEADLINE, Http2, LIMIT, MULTI_LIMIT, Server, ask, eventually, tidegate,
};

#[tokio::test]
async fn both_operations_are_answered_over_http2() {
    let server = Server::start();
    let mut client = Http2::connect(server.address).await;
    let (status, body) = client.post(LIMIT, &ask("a", 10, 4)).await;
    assert_eq!((status, &body["data"]["remaining"]), (200, &json!(6)));
    let batch = json!([ask("a", 10, 1), ask("b", 3, 4)]);
    let (status, body) = client.post(MULTI_LIMIT, &batch).await;
    assert_eq!((status, &body["data"]["passed"]), (200, &json!(false)));
    assert_eq!(body["data"]["limits"][0]["remaining"], 6, "nothing of it was spent");
    assert_eq!(client.get("/livez").await.0, 200);
    let (status, body) = client.post(LIMIT, &json!({})).await;
    assert_eq!((status, &body["error"]["title"]), (400, &json!("Bad Request")));

    // What was spent over one protocol is spent over the other.
    assert_eq!(server.client().post(LIMIT, &ask("a", 10, 0)).data()["remaining"], 6);
}

#[tokio::test]
async fn many_requests_of_one_connection_are_answered_at_the_same_time() {
    let server = Server::start();
    let client = Http2::connect(server.address).await;
    let mut begun = Vec::new();
    for _ in 0..100 {
        begun.push(client.begin(LIMIT).await);
    }
    for (_, sender) in begun.iter_mut().rev() {
        let body = ask("a", 100, 1).to_string();
        sender.send_data(body.into(), true).unwrap();
    }
    let mut remaining = Vec::new();
    for (reply, _) in begun {
        let (status, body) = crate::support::received(reply).await;
        assert_eq!(status, 200);
        remaining.push(body["data"]["remaining"].as_u64().unwrap());
    }
    remaining.sort_unstable();
    assert!(remaining.iter().copied().eq(0..100), "{remaining:?}");
}

#[test]
fn health_is_told_to_everyone() {
    let server = Server::start();
    let mut client = server.client();
    for (path, status) in [("/livez", "live"), ("/readyz", "ready")] {
        let reply = client.ask("GET", path);
        assert_eq!((reply.status, &reply.body), (200, &json!({"status": status})));
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(client.ask("HEAD", path).status, 200);
        let reply = client.ask("POST", path);
        assert_eq!((reply.status, reply.header("allow")), (405, Some("GET, HEAD")));
    }
    // Whoever asks is no caller that made a mistake.
    assert_eq!(client.post(LIMIT, &ask("a", 1, 1)).status, 200);
}

#[test]
fn a_server_whose_redis_is_away_is_ready() {
    let redis = RedisServer::start().unwrap();
    let url = redis.url();
    drop(redis);
    let server = Server::start_saying(&["--redis", &url]);
    let mut client = server.client();
    assert_eq!(client.ask("GET", "/readyz").status, 200);
    assert_eq!(client.post(LIMIT, &ask("a", 1, 1)).data()["degraded"], true);
    assert_eq!(client.ask("GET", "/readyz").status, 200, "and stays so");
    assert_eq!(client.ask("GET", "/livez").status, 200);
}

#[test]
fn the_next_client_takes_the_place_of_the_longest_idle() {
    let server =
        Server::start_saying(&["--connections-max", "3", "--connections-per-address-max", "9"]);
    let mut clients: Vec<Client> = (0..2).map(|_| server.client()).collect();
    for client in &mut clients {
        assert_eq!(client.post(LIMIT, &ask("a", 9, 1)).status, 200);
    }
    // The first is used again, so the second is idle for longer.
    assert_eq!(clients[0].post(LIMIT, &ask("a", 9, 1)).status, 200);
    let mut busy = server.client();
    let head = busy.head(LIMIT, "Content-Length: 10\r\nExpect: 100-continue");
    busy.send(&[head.as_bytes()]);
    assert_eq!(busy.reply().status, 100, "a request is in flight");

    let mut next = server.client();
    assert_eq!(next.post(LIMIT, &ask("a", 9, 1)).status, 200);
    assert!(clients[1].is_closed());
    assert_eq!(clients[0].post(LIMIT, &ask("a", 9, 1)).status, 200, "it was not its turn");
    assert!(!busy.is_closed_now());
}

#[test]
fn an_address_has_its_share_of_the_connections() {
    let server = Server::start_saying(&["--connections-per-address-max", "2"]);
    let (mut first, mut second) = (server.client(), server.client());
    for client in [&mut first, &mut second] {
        assert_eq!(client.post(LIMIT, &ask("a", 9, 1)).status, 200);
    }
    assert!(server.client().is_closed());
    assert_eq!(first.post(LIMIT, &ask("a", 9, 1)).status, 200);
    drop(first);
    let mut third = eventually(DEADLINE, || {
        let mut third = server.client();
        let taken = third.try_send(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n");
        (taken && third.rest_begins_with(b"HTTP/1.1 200")).then_some(third)
    });
    assert!(!third.is_closed_now());
}

#[test]
fn plain_http_is_for_this_machine_unless_it_is_wanted() {
    let exposed = |args: &[&str]| {
        let mut command = tidegate(&[&["serve", "--listen", "0.0.0.0:0"], args].concat());
        command.env("TIDEGATE_ROOT_KEY", "s3cret");
        command
    };
    let (code, said) = Server::run_to_end(&mut exposed(&[]));
    assert_eq!(code, Some(2), "{said}");
    for way_out in ["--plain-http", "--tls-cert", "127.0.0.1"] {
        assert!(said.contains(way_out), "{said}");
    }
    let server = Server::start_with(&mut exposed(&["--plain-http"]), "s3cret");
    assert_eq!(server.client().post(LIMIT, &ask("a", 1, 1)).status, 200);
}

#[cfg(unix)]
mod ending {
    use super::*;

    #[test]
    fn a_server_that_retires_says_so_and_answers_on() {
        let mut server = Server::start_saying(&["--retire-for", "1h"]);
        let (mut idle, mut busy) = (server.client(), server.client());
        assert_eq!(idle.post(LIMIT, &ask("a", 9, 1)).header("connection"), None);
        let body = ask("a", 9, 1).to_string();
        let framing = format!("Content-Length: {}\r\nExpect: 100-continue", body.len());
        busy.send(&[busy.head(LIMIT, &framing).as_bytes()]);
        assert_eq!(busy.reply().status, 100, "a request is in flight");

        server.signal("TERM");
        server.wait_for_line("retiring");
        let reply = idle.post(LIMIT, &ask("a", 9, 1));
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        assert!(idle.is_closed(), "not before it was answered once more");
        busy.send(&[body.as_bytes()]);
        let reply = busy.reply();
        assert_eq!((reply.status, reply.header("connection")), (200, Some("close")));
        assert!(busy.is_closed());
        for (path, status) in [("/readyz", 503), ("/livez", 200)] {
            let mut late = server.client();
            let reply = late.ask("GET", path);
            assert_eq!((reply.status, reply.header("connection")), (status, Some("close")));
            assert!(late.is_closed());
        }
        let mut late = server.client();
        assert_eq!(late.post(LIMIT, &ask("a", 9, 1)).data()["remaining"], 5);

        server.signal("TERM");
        assert_eq!(server.wait_for_end().code(), Some(0), "a second signal ends it at once");
        server.wait_for_line("stopped:");
        assert!(server.said().iter().all(|line| !line.contains("stopping")));
    }

    #[test]
    fn a_retirement_ends_by_itself_and_then_nobody_is_taken_in() {
        let mut server = Server::start_saying(&["--retire-for", "300ms"]);
        server.signal("INT");
        server.wait_for_line("retiring");
        server.wait_for_line("stopping");
        assert_eq!(server.wait_for_end().code(), Some(0));
        assert!(std::net::TcpStream::connect(server.address).is_err());
    }

    #[tokio::test]
    async fn clients_of_http2_are_sent_elsewhere_in_order() {
        let mut server = Server::start_saying(&["--retire-for", "1h"]);
        let idle = Http2::connect(server.address).await;
        assert_eq!(idle.post(LIMIT, &ask("a", 9, 1)).await.0, 200);
        let busy = Http2::connect(server.address).await;
        let (reply, mut sender) = busy.begin(LIMIT).await;
        sender.send_data("{".into(), false).unwrap();
        // Answered over the same connection, so the one before it has arrived.
        assert_eq!(busy.post(LIMIT, &ask("a", 9, 1)).await.0, 200);
        let mut fresh = Http2::connect(server.address).await;

        server.signal("TERM");
        server.wait_for_line("retiring");
        assert!(idle.ended().await.is_ok(), "GOAWAY without an error");
        assert!(fresh.goes_on_for(Duration::from_millis(100)).await, "it has asked nothing yet");
        assert_eq!(fresh.get("/readyz").await.0, 503);
        assert!(fresh.ended().await.is_ok());
        sender.send_data("}".into(), true).unwrap();
        assert_eq!(crate::support::received(reply).await.0, 400, "what is in flight is answered");
        assert!(busy.ended().await.is_ok());

        server.signal("TERM");
        assert_eq!(server.wait_for_end().code(), Some(0));
    }
}
