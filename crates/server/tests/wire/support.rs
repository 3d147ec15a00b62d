//! Starting the binary, speaking HTTP to it, and waiting.

mod http;
mod server;

use std::time::{Duration, Instant};

use serde_json::{Value, json};

pub(crate) use http::{Client, Reply};
pub(crate) use server::{Server, tidegate};

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

/// Waits until `condition` gives something. The only place in the tests that sleeps.
#[expect(clippy::disallowed_methods, reason = "the one helper that waits")]
pub(crate) fn eventually<T>(deadline: Duration, mut condition: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return value;
        }
        assert!(start.elapsed() < deadline, "it did not happen within {deadline:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}
