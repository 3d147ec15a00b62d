//! Requests made up from the OpenAPI document, good and bad ones.

use serde_json::{Value, json};
use tidegate_lab::RedisServer;

use crate::program::{Home, in_environment};
use crate::support::Settled;

const DOCUMENT: &str = include_str!("../../../../docs/openapi.json");

/// Which statuses it takes for an answer to a call that is in order.
const SETTINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sdk/schemathesis.toml");

/// How many requests each operation gets at least; a few thousand in all, in seconds.
const EXAMPLES: &str = "300";

/// The same requests in every run: a failure can be repeated.
const SEED: &str = "1";

/// What is not checked. A missing key is a 400 here, as the contract has it, and these two want a
/// 401; the tests of the wire say what it is.
const NOT_CHECKED: &str = "ignored_auth,missing_required_header";

/// Makes replies closed: for clients they are open, but we must not send what is not described.
fn close(schema: &mut Value) {
    if let Value::Array(items) = schema {
        items.iter_mut().for_each(close);
    }
    let Value::Object(fields) = schema else { return };
    fields.values_mut().for_each(close);
    if fields.contains_key("properties") && !fields.contains_key("additionalProperties") {
        fields.insert("additionalProperties".to_owned(), json!(false));
    }
}

#[test]
fn random_requests_meet_only_what_the_document_says() {
    check(&Settled::start(&[]));
}

#[test]
fn random_requests_meet_only_what_the_document_says_in_a_region_too() {
    let redis = RedisServer::start().unwrap();
    check(&Settled::in_region(&redis));
}

/// Something to meet: the namespace of the examples, and an override that nobody deletes.
fn settle(settled: &Settled) {
    let mut client = settled.server.client();
    let mut body = json!({
        "namespace": "email", "identifier": "user-1", "limit": 10, "duration": 60_000,
    });
    assert_eq!(client.post("/v2/ratelimit.limit", &body).status, 200);
    body["identifier"] = "user-*".into();
    assert_eq!(client.post("/v2/ratelimit.setOverride", &body).status, 200);
}

fn check(settled: &Settled) {
    let home = Home::new();
    settle(settled);
    let mut document: Value = serde_json::from_str(DOCUMENT).unwrap();
    close(&mut document);
    let document = home.write("openapi.json", &document.to_string());
    let mut program = in_environment("schemathesis");
    let command = program.command();
    // It writes beside itself what it learns.
    command.current_dir(home.path()).env("SCHEMATHESIS_HOOKS", "hooks");
    command.env("TIDEGATE_NAMESPACE_DELETED", Settled::DELETED);
    command.arg("--config-file").arg(SETTINGS);
    command.arg("run").arg(document).args(["--url", &format!("http://{}", settled.server.address)]);
    command.args(["--header", "Authorization: Bearer tidegate_test"]);
    command.args(["--phases", "examples,coverage,fuzzing", "--exclude-checks", NOT_CHECKED]);
    command.args(["--max-examples", EXAMPLES, "--seed", SEED, "--continue-on-failure"]);
    command.args(["--request-timeout", "10", "--no-color"]);
    program.succeeds();
}
