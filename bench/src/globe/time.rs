//! Real time: what things cost, not when they happen.

use std::time::{Duration, Instant};

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Sleeps on the timer of the runtime.
#[expect(clippy::disallowed_methods, reason = "a bench watches a server do nothing")]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}
