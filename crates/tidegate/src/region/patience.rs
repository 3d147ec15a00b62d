//! How long a caller waits, and how often it looks.

use std::time::Duration;

use tidegate_convergence::Waiter;
use tokio::time::{Instant, sleep_until};

/// Times a caller looks again at once.
const QUICK_LOOKS: u32 = 4;

/// What is left of a caller's patience.
pub(crate) struct Patience {
    pub(super) until: Instant,
    /// Who it was when it first waited.
    pub(super) since: Option<Waiter>,
    /// How often it found that it has to look again at once.
    looks: u32,
}

impl Patience {
    pub(super) const fn until(until: Instant) -> Self {
        Self { until, since: None, looks: 0 }
    }

    /// How long it lasts. Whoever has just come has all of it: part of a millisecond is one.
    pub(super) fn left_ms(&self) -> u64 {
        let left = self.until.saturating_duration_since(Instant::now());
        u64::try_from(left.as_micros().div_ceil(1_000)).unwrap_or(u64::MAX)
    }

    /// Someone is about to end what is in the way. Mostly at once; but a thread that the system has
    /// put aside takes milliseconds.
    pub(super) async fn rest(&mut self) {
        self.looks += 1;
        if self.looks <= QUICK_LOOKS {
            tokio::task::yield_now().await;
        } else {
            sleep_until((Instant::now() + Duration::from_millis(1)).min(self.until)).await;
        }
    }
}
