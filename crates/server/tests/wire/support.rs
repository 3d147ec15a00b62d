//! Starting the binary, speaking HTTP to it, and waiting.

mod http;
mod http2;
mod place;
mod server;

use std::time::Duration;

use serde_json::{Value, json};

pub(crate) use http::{Client, Reply};
pub(crate) use http2::{Http2, received};
pub(crate) use place::Place;
pub(crate) use server::{KEY, Server, data_dir, program, tidegate};

pub(crate) const LIMIT: &str = "/v2/ratelimit.limit";
pub(crate) const MULTI_LIMIT: &str = "/v2/ratelimit.multiLimit";
/// 30 days.
pub(crate) const WINDOW_MS: u64 = 2_592_000_000;
/// Long enough for anything that happens at all, on the slowest machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// A request for `cost` of `limit`.
pub(crate) fn ask(identifier: &str, limit: u64, cost: u64) -> Value {
    json!({
        "namespace": "test",
        "identifier": identifier,
        "limit": limit,
        "duration": WINDOW_MS,
        "cost": cost,
    })
}

/// Waits until `condition` gives something.
pub(crate) fn eventually<T>(deadline: Duration, condition: impl FnMut() -> Option<T>) -> T {
    tidegate_lab::eventually("what is waited for happens", deadline, condition)
        .unwrap_or_else(|why| panic!("{why}"))
}
