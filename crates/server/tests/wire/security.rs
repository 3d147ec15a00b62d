//! Lines of `docs/security.md` that no other test shows.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::{Client, DEADLINE, KEY, LIMIT, Place, Server, ask, eventually, tidegate};

/// How often each kind of key is tried: enough for a middle that means something.
const TRIES: usize = 400;

/// How long it takes to be refused.
fn refused_within(client: &mut Client) -> Duration {
    #[expect(clippy::disallowed_methods, reason = "what a caller would see is measured")]
    let began = Instant::now();
    assert_eq!(client.post(LIMIT, &ask("a", 1, 0)).status, 401);
    began.elapsed()
}

/// The bytes are compared by `keys_that_were_and_keys_that_never_were_get_the_same_bytes`. Times
/// are printed for whoever looks (`-- --nocapture`): a bound on them would be one on the machine.
#[test]
fn times_of_refusals_can_be_compared_by_whoever_looks() {
    let place = Place::file();
    let (revoked, id) = place.key(&["--name", "revoked"]);
    let server = place.serve();
    place.run(&["key", "revoke", &id], 0);
    eventually(DEADLINE, || {
        let mut client = Client::connect(server.address, &revoked);
        (client.post(LIMIT, &ask("a", 1, 0)).status == 401).then_some(())
    });
    // One that differs from a good one in its last character, and one that is nothing like it.
    let (near, far) = (format!("{}x", &KEY[..KEY.len() - 1]), "z".repeat(revoked.len()));
    let kinds = [("revoked", revoked), ("nearly a good one", near), ("unknown", far)];
    let mut tried = kinds.map(|(what, key)| {
        (what, Client::connect(server.address, &key), Vec::with_capacity(TRIES))
    });
    // In turns, so that whatever else the machine does concerns all of them.
    for _ in 0..TRIES {
        for (_, client, took) in &mut tried {
            took.push(refused_within(client));
        }
    }
    for (what, _, took) in &mut tried {
        took.sort_unstable();
        println!("{what}: {} us", took[TRIES / 2].as_micros());
    }
}

#[test]
fn nothing_that_is_sent_says_from_where_it_comes() {
    let args = ["serve", "--listen", "127.0.0.1:0", "--connections-per-address-max", "2"];
    let server = Server::start_with(&mut tidegate(&args), KEY);
    let said = |number: u8| {
        let mut client = server.client();
        let body = ask("a", 10, 0).to_string();
        let framing = format!(
            "X-Forwarded-For: 203.0.113.{number}\r\nForwarded: for=203.0.113.{number}\r\n\
             X-Real-IP: 203.0.113.{number}\r\nContent-Length: {}",
            body.len()
        );
        let head = client.head(LIMIT, &framing);
        let sent = client.try_send(&[head.as_bytes(), body.as_bytes()].concat());
        let answered = sent && client.rest_begins_with(b"HTTP/1.1 200");
        (answered, client)
    };
    let held = [said(1), said(2)];
    assert!(held.iter().all(|(answered, _)| *answered));
    assert!(!said(3).0, "another name is not another address");
}

#[test]
fn no_field_and_no_header_names_a_workspace() {
    let place = Place::file();
    place.run(&["workspace", "create", "acme"], 0);
    let (key, _) = place.key(&["--workspace", "acme"]);
    let server = place.serve();
    let (mut ours, mut theirs) = (server.client(), Client::connect(server.address, &key));
    assert_eq!(ours.post(LIMIT, &ask("a", 1, 1)).data()["success"], true);
    for field in ["workspace", "workspaceId", "workspace_id", "tenant"] {
        let mut body = ask("a", 1, 1);
        body[field] = json!("default");
        assert_eq!(theirs.post(LIMIT, &body).status, 400, "{field} is no field");
    }
    let body = ask("a", 1, 1).to_string();
    let framing =
        format!("X-Workspace: default\r\nX-Tenant-Id: default\r\nContent-Length: {}", body.len());
    let head = theirs.head(LIMIT, &framing);
    theirs.send(&[head.as_bytes(), body.as_bytes()]);
    assert_eq!(theirs.reply().data()["success"], true, "it counts for the workspace of the key");
    assert_eq!(ours.post(LIMIT, &ask("a", 1, 1)).data()["success"], false);
}

#[test]
fn no_header_changes_the_time() {
    let server = Server::start();
    let mut client = server.client();
    let body = ask("a", 1, 1).to_string();
    let mut call = |header: &str| {
        let framing = format!("{header}Content-Length: {}", body.len());
        let head = client.head(LIMIT, &framing);
        client.send(&[head.as_bytes(), body.as_bytes()]);
        let reply = client.reply();
        (reply.data()["success"] == true, reply.data()["reset"].as_u64())
    };
    let (admitted, reset) = call("");
    assert!(admitted);
    for header in ["X-Test-Time", "X-Unkey-Time", "X-Tidegate-Time", "Date"] {
        assert_eq!(call(&format!("{header}: 4102444800000\r\n")), (false, reset), "{header}");
    }
}
