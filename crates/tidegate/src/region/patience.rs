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
