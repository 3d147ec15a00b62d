//! Keys, namespaces and overrides of real servers: alone, in a fleet, and with a database that
//! goes away.

mod callers;
mod explained;
mod fleet;
mod once;
mod restart;

use serde_json::{Value, json};

use crate::support::{Client, Place, Server, WINDOW_MS};

pub(super) const SET_OVERRIDE: &str = "/v2/ratelimit.setOverride";
pub(super) const GET_OVERRIDE: &str = "/v2/ratelimit.getOverride";
pub(super) const DELETE_OVERRIDE: &str = "/v2/ratelimit.deleteOverride";

pub(super) fn setting(identifier: &str, limit: u64) -> Value {
    json!({
        "namespace": "test", "identifier": identifier, "limit": limit, "duration": WINDOW_MS,
    })
}

pub(super) fn target(identifier: &str) -> Value {
    json!({"namespace": "test", "identifier": identifier})
}

/// The limit that applies to someone, as a server has it.
pub(super) fn applied(client: &mut Client, identifier: &str) -> u64 {
    let room = crate::support::ask(identifier, 10, 0);
    client.post(crate::support::LIMIT, &room).data()["limit"].as_u64().unwrap()
}
