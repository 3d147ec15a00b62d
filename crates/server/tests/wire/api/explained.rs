//! `explain` and `inspect`, over HTTP and on the command line.

use tidegate_lab::RedisServer;

use super::*;
use crate::support::{DEADLINE, KEY, LIMIT, Server, ask, data_dir, eventually, tidegate};

fn command(server: &Server, args: &[&str]) -> String {
    let mut command = tidegate(args);
    command.env("TIDEGATE_URL", format!("http://{}", server.address));
    let (code, said) = Server::run_to_end(&mut command);
    assert_eq!(code, Some(0), "{args:?}: {said}");
    said
}

const ANN: [&str; 6] = ["--namespace", "test", "--identifier", "ann", "--window", "30d"];

#[test]
fn an_explanation_is_what_happens_next() {
    let data = data_dir();
    let mut serve = tidegate(&["serve", "--listen", "127.0.0.1:0"]);
    let server = Server::start_with(serve.env("TIDEGATE_DATA", &data), KEY);
    let mut client = server.client();
    client.post(LIMIT, &ask("ann", 5, 3));
    let explain = |client: &mut Client, cost| {
        client.post("/v2/tidegate.explain", &ask("ann", 5, cost)).data().clone()
    };
    for cost in [2, 3] {
        let said = explain(&mut client, cost);
        assert_eq!(said["terms"]["current"], 3);
        assert_eq!(said["terms"]["effective"], 3 + cost);
        assert_eq!(said, explain_again(&mut client, &said, cost), "looking changes nothing");
    }
    let said = explain(&mut client, 3);
    assert!(said["because"].as_str().unwrap().starts_with("denied: 3 in this window"), "{said}");
    let happened = client.post(LIMIT, &ask("ann", 5, 3)).data().clone();
    for field in ["success", "limit", "remaining", "reset"] {
        assert_eq!(said["answer"][field], happened[field], "{field}");
    }
    assert_eq!(client.post(SET_OVERRIDE, &setting("a*", 100)).status, 200);
    let said = explain(&mut client, 3);
    assert_eq!(
        (&said["override"]["identifier"], &said["answer"]["success"]),
        (&json!("a*"), &json!(true))
    );
    let mut off = tidegate(&["namespace", "set", "test", "--mode", "off"]);
    off.env("TIDEGATE_DATA", &data);
    assert_eq!(Server::run_to_end(&mut off).0, Some(0));
    let said = eventually(DEADLINE, || {
        Some(explain(&mut client, 300)).filter(|said| said["namespace"]["mode"] == "off")
    });
    assert_eq!(
        (&said["answer"]["success"], &said["answer"]["mode"]),
        (&json!(true), &json!("off"))
    );
    let text = command(&server, &[&["explain", "--limit", "5"][..], &ANN].concat());
    assert!(text.contains("admitted") && text.contains("a*"), "{text}");
    let missing = json!({"namespace": "nothing", "identifier": "a", "limit": 1, "duration": 1_000});
    assert_eq!(client.post("/v2/tidegate.explain", &missing).status, 404);
}

/// The same explanation once more, at the same time of day.
fn explain_again(client: &mut Client, said: &Value, cost: u64) -> Value {
    let mut again = client.post("/v2/tidegate.explain", &ask("ann", 5, cost)).data().clone();
    for field in ["nowMs", "elapsedMs", "previousWeightMs"] {
        again["terms"][field] = said["terms"][field].clone();
    }
    // When to come back follows from the time.
    again["because"] = said["because"].clone();
    if let Some(ms) = said["answer"].get("retryAfterMs") {
        again["answer"]["retryAfterMs"] = ms.clone();
    }
    again
}

#[test]
fn a_region_is_looked_into_from_each_process() {
    let redis = RedisServer::start().unwrap();
    let start = || {
        let args = ["serve", "--listen", "127.0.0.1:0", "--redis", &redis.url()];
        Server::start_with(&mut tidegate(&args), KEY)
    };
    let (here, there) = (start(), start());
    here.client().post(LIMIT, &ask("ann", 5, 3));
    there.client().post(LIMIT, &ask("ann", 5, 0));
    let inspect = |server: &Server| {
        let body = json!({"namespace": "test", "identifier": "ann", "duration": WINDOW_MS});
        server.client().post("/v2/tidegate.inspect", &body).data().clone()
    };
    let recorded = |said: &Value| said["region"]["current"]["sum"] == 3;
    let said = eventually(DEADLINE, || Some(inspect(&here)).filter(recorded));
    assert_eq!(said["node"]["current"]["mine"], 3);
    assert_eq!(said["region"]["current"]["processes"], 1);
    assert_eq!(said["region"]["current"]["ofThisProcess"], 3);
    let said = inspect(&there);
    assert_eq!(
        (&said["node"]["current"]["mine"], &said["region"]["current"]["sum"]),
        (&json!(0), &json!(3))
    );
    let text = command(&here, &[&["inspect"][..], &ANN].concat());
    assert!(text.contains("mine") && text.contains("sum"), "{text}");
}
