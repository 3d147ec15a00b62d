//! Against recorded replies: what is sent, and how what comes back is shown.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::fake::Fake;
use super::{Ended, asking, run};

const OK: &str = "200 OK\r\nContent-Type: application/json";

fn success(data: &Value) -> (&'static str, String) {
    (OK, json!({"meta": {"requestId": "req_1"}, "data": data}).to_string())
}

fn page(data: &Value, pagination: &Value) -> (&'static str, String) {
    let meta = json!({"requestId": "req_1"});
    (OK, json!({"meta": meta, "data": data, "pagination": pagination}).to_string())
}

fn an_override(number: u32) -> Value {
    let (id, identifier) = (format!("rlor_{number}"), format!("user-{number}"));
    json!({"overrideId": id, "identifier": identifier, "limit": number, "duration": 60_000})
}

/// Runs a command against a reply; gives what was asked as well.
fn against(reply: (&'static str, String), args: &[&str]) -> (Ended, String, Value) {
    let fake = Fake::start(vec![reply]);
    let ended = run(&fake.url(), args);
    let request = fake.asked().pop().unwrap();
    assert_eq!(request.header("authorization"), Some("Bearer tidegate_test"));
    assert_eq!(request.header("content-type"), Some("application/json"));
    (ended, request.path, request.body)
}

const SUBJECT: [&str; 4] = ["--namespace", "n", "--identifier", "vip_*"];

#[test]
fn an_override_is_set_shown_and_deleted() {
    let what = json!({"namespace": "n", "identifier": "vip_*"});
    let set = [&["override", "set"], &SUBJECT[..], &["--limit", "0", "--window", "1m"]].concat();
    let (ended, path, body) = against(success(&json!({"overrideId": "rlor_7"})), &set);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "set: rlor_7\n"));
    assert_eq!(path, "/v2/ratelimit.setOverride");
    assert_eq!(
        body,
        json!({"namespace": "n", "identifier": "vip_*", "limit": 0, "duration": 60_000})
    );
    let get = [&["override", "get"], &SUBJECT[..]].concat();
    let (ended, path, body) = against(success(&an_override(5)), &get);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "user-5  5 per 1m  rlor_5\n"));
    assert_eq!((path.as_str(), &body), ("/v2/ratelimit.getOverride", &what));
    let delete = [&["override", "delete"], &SUBJECT[..]].concat();
    let (ended, path, body) = against(success(&json!({})), &delete);
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), "deleted\n"));
    assert_eq!((path.as_str(), &body), ("/v2/ratelimit.deleteOverride", &what));
}

#[test]
fn a_list_is_followed_to_its_end() {
    let pages = || {
        vec![
            page(
                &json!([an_override(1), an_override(2)]),
                &json!({"hasMore": true, "cursor": "rlor_3"}),
            ),
            page(&json!([an_override(3)]), &json!({"hasMore": false})),
        ]
    };
    let list = ["override", "list", "--namespace", "n"];
    let fake = Fake::start(pages());
    let ended = run(&fake.url(), &list);
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let lines = "user-1  1 per 1m  rlor_1\nuser-2  2 per 1m  rlor_2\nuser-3  3 per 1m  rlor_3\n";
    assert_eq!(ended.out, lines);
    let asked: Vec<Value> = fake.asked().into_iter().map(|request| request.body).collect();
    assert_eq!(asked, [json!({"namespace": "n"}), json!({"namespace": "n", "cursor": "rlor_3"})]);

    let fake = Fake::start(pages());
    let ended = run(&fake.url(), &[&list[..], &["--output", "json"]].concat());
    assert_eq!((ended.code, ended.out.lines().count()), (Some(0), 1), "{ended:?}");
    let all: Value = serde_json::from_str(&ended.out).unwrap();
    let data = json!([an_override(1), an_override(2), an_override(3)]);
    let meta = json!({"requestId": "req_1"});
    assert_eq!(all, json!({"meta": meta, "data": data, "pagination": {"hasMore": false}}));
    fake.asked();

    let more = page(&json!([an_override(1)]), &json!({"hasMore": true, "cursor": "rlor_3"}));
    let one_page = [&list[..], &["--page-size", "1", "--cursor", "rlor_1"]].concat();
    let (ended, _, body) = against(more, &one_page);
    assert_eq!(ended.out, "user-1  1 per 1m  rlor_1\nthere are more: --cursor rlor_3\n");
    assert_eq!(body, json!({"namespace": "n", "limit": 1, "cursor": "rlor_1"}));
}

#[test]
fn a_page_that_was_asked_for_is_printed_as_it_is() {
    let json = ["override", "list", "--namespace", "n", "--output", "json"];
    for which in [["--page-size", "1"], ["--cursor", "rlor_1"]] {
        let more = page(&json!([an_override(1)]), &json!({"hasMore": true, "cursor": "rlor_3"}));
        let reply = more.1.clone();
        let (ended, ..) = against(more, &[&json[..], &which].concat());
        assert_eq!((ended.code, ended.out.as_str()), (Some(0), format!("{reply}\n").as_str()));
    }
}

#[test]
fn a_list_that_is_cut_short_is_no_list() {
    let first = page(&json!([an_override(1)]), &json!({"hasMore": true, "cursor": "c"}));
    let error = json!({"title": "T", "detail": "d", "status": 500, "type": "x/y"});
    let second = json!({"meta": {"requestId": "req_2"}, "error": error}).to_string();
    let fake = Fake::start(vec![first, ("500 Oops", second.clone())]);
    let ended = run(&fake.url(), &["override", "list", "--namespace", "n", "--output", "json"]);
    assert_eq!((ended.code, ended.out.as_str()), (Some(3), format!("{second}\n").as_str()));
    fake.asked();
}

#[test]
fn a_list_without_an_end_is_given_up() {
    let again = || page(&json!([]), &json!({"hasMore": true, "cursor": "c"}));
    let fake = Fake::start(vec![again(), again()]);
    let ended = run(&fake.url(), &["override", "list", "--namespace", "n"]);
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.contains("has no end"), "{ended:?}");
    assert_eq!(fake.asked().len(), 2);
}

#[test]
fn whatever_is_explained_or_found_is_shown() {
    let data = json!({"admitted": false, "cells": {"current": {"mine": 7}}, "reasons": ["cold"]});
    let (ended, path, body) = against(success(&data), &asking("explain", "a", "10"));
    let lines = "admitted  no\ncells:\n  current:\n    mine  7\nreasons   cold\n";
    assert_eq!((ended.code, ended.out.as_str()), (Some(0), lines));
    assert_eq!(path, "/v2/tidegate.explain");
    let window_ms = 2_592_000_000_u64;
    assert_eq!(
        body,
        json!({"namespace": "test", "identifier": "a", "limit": 10, "duration": window_ms})
    );
    let inspect = [&["inspect"], &SUBJECT[..], &["--window", "1m"]].concat();
    let (ended, path, body) = against(success(&data), &inspect);
    assert_eq!((ended.out.as_str(), path.as_str()), (lines, "/v2/tidegate.inspect"));
    assert_eq!(body, json!({"namespace": "n", "identifier": "vip_*", "duration": 60_000}));
}

#[test]
fn a_cost_of_zero_and_a_key_are_sent() {
    let limited = json!({"limit": 3, "remaining": 2, "reset": 0, "success": true});
    let (_, body) = success(&limited);
    let head = "200 OK\r\nIdempotency-Scope: node\r\nIdempotency-Replayed: true";
    let fake = Fake::start(vec![(head, body)]);
    let more = ["--cost", "0", "--idempotency-key", "order-17"];
    let ended = run(&fake.url(), &[&asking("limit", "a", "3")[..], &more].concat());
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert!(ended.out.contains("nothing more was spent"), "{ended:?}");
    let request = fake.asked().pop().unwrap();
    assert_eq!(request.header("idempotency-key"), Some("order-17"));
    assert_eq!(request.body["cost"], 0);
    let wrong = ["--idempotency-key", "order 17"];
    let ended = run("http://127.0.0.1:1", &[&asking("limit", "a", "3")[..], &wrong].concat());
    assert_eq!(ended.code, Some(2), "{ended:?}: before anything is sent");
}

#[test]
fn a_server_that_fails_is_told_from_one_that_refuses() {
    let problem = |status: u16| {
        let error = json!({"title": "T", "detail": "d", "status": status, "type": "x/y"});
        json!({"meta": {"requestId": "req_1"}, "error": error}).to_string()
    };
    let ask = asking("limit", "a", "3");
    for (head, body, code, said) in [
        ("500 Oops", problem(500), 3, "error: T (500): d [req_1]"),
        ("503 Away\r\nRetry-After: 1", problem(503), 3, "error: T (503)"),
        ("403 No", problem(403), 2, "hint: the key must have that permission"),
        ("422 No", problem(422), 2, "error: T (422)"),
        ("408 Late", problem(408), 3, "error: T (408)"),
        ("409 Wait\r\nRetry-After: 1", problem(409), 3, "hint: try again in 1 s."),
        ("425 Early", problem(425), 3, "error: T (425)"),
        ("429 Slow\r\nRetry-After: 7", problem(429), 3, "hint: try again in 7 s."),
        ("302 Found\r\nLocation: /x", String::new(), 3, "not as Tidegate does"),
        ("502 Bad", "<html>".to_owned(), 3, "not as Tidegate does"),
        ("200 OK", "<html>".to_owned(), 3, "makes no sense"),
        ("200 OK", "{\"data\":{}}".to_owned(), 3, "makes no sense"),
    ] {
        let (ended, ..) = against((head, body), &ask);
        assert_eq!((ended.code, ended.out.as_str()), (Some(code), ""), "{head}: {ended:?}");
        assert!(ended.err.contains(said), "{head}: {ended:?}");
    }
}

#[test]
fn a_server_that_hangs_up_is_said() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let hang_up = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let ended = run(&url, &asking("limit", "a", "3"));
    hang_up.join().unwrap();
    assert_eq!(ended.code, Some(3), "{ended:?}");
    assert!(ended.err.starts_with(&format!("error: cannot reach {url}: ")), "{ended:?}");
}

#[cfg(feature = "tls")]
mod encrypted {
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};
    use tidegate_lab::Certificate;

    use super::super::fake::exchange;
    use super::super::run_with;
    use super::*;

    #[test]
    fn a_certificate_is_checked() {
        let certificate = Certificate::new().unwrap();
        let chain = vec![CertificateDer::from_pem_slice(certificate.pem().as_bytes()).unwrap()];
        let key = PrivateKeyDer::from_pem_slice(certificate.key_pem().as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider);
        let config = config.with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://127.0.0.1:{}", listener.local_addr().unwrap().port());
        let (_, body) = success(&json!({"limit": 3, "remaining": 2, "reset": 0, "success": true}));
        let server = std::thread::spawn(move || {
            let stream = || {
                let (socket, _) = listener.accept().unwrap();
                StreamOwned::new(ServerConnection::new(Arc::clone(&config)).unwrap(), socket)
            };
            let trusted = exchange(stream(), "200 OK", &body);
            // Whoever does not trust it ends the handshake.
            let mut stranger = stream();
            assert!(stranger.conn.complete_io(&mut stranger.sock).is_err());
            trusted
        });
        let authority = std::env::temp_dir().join(format!("authority-{}.pem", std::process::id()));
        std::fs::write(&authority, certificate.pem()).unwrap();
        let ask = asking("limit", "a", "3");
        let trust = [("SSL_CERT_FILE", authority.to_str().unwrap())];
        let trusted = run_with(&url, &ask, "", &trust);
        assert!(trusted.out.starts_with("admitted: 2 of 3 left"), "{trusted:?}");
        let other = Certificate::new().unwrap();
        std::fs::write(&authority, other.pem()).unwrap();
        let stranger = run_with(&url, &ask, "", &trust);
        assert_eq!(stranger.code, Some(3), "{stranger:?}");
        assert!(stranger.err.contains("certificate"), "{stranger:?}");
        std::fs::remove_file(&authority).unwrap();
        assert_eq!(server.join().unwrap().path, "/v2/ratelimit.limit");
    }
}
