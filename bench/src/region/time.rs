//! Real time, shifted so that every run begins at the same place of a window.

use std::time::{Duration, Instant};

use tidegate::{Clock, Now};

/// A multiple of all windows used here, in 2023.
pub(crate) const START_UNIX_MS: u64 = 1_700_000_040_000;

/// The monotonic clock.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Sleeps on the timer of the runtime.
#[expect(clippy::disallowed_methods, reason = "a bench keeps a rate in real time")]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Real time, but the wall clock begins at a known place of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shifted {
    start: Instant,
    unix_ms: u64,
}

impl Shifted {
    /// Begins so long after the boundary of a window.
    pub(crate) fn at(offset: Duration) -> Self {
        Self { start: now(), unix_ms: START_UNIX_MS + whole_ms(offset) }
    }

    /// How long after that boundary it is.
    pub(crate) fn since_boundary(&self) -> Duration {
        Duration::from_millis(self.unix_ms - START_UNIX_MS) + self.start.elapsed()
    }

    /// Lets this thread sleep until so long after that boundary.
    #[expect(clippy::disallowed_methods, reason = "a bench does harm at a moment of real time")]
    pub(crate) fn block_until(&self, offset: Duration) {
        std::thread::sleep(offset.saturating_sub(self.since_boundary()));
    }

    /// Sleeps until so long after that boundary.
    pub(crate) async fn until(&self, offset: Duration) {
        sleep(offset.saturating_sub(self.since_boundary())).await;
    }
}

impl Clock for Shifted {
    fn now(&self) -> Now {
        let monotonic_ms = whole_ms(self.start.elapsed());
        Now::new(self.unix_ms + monotonic_ms, monotonic_ms)
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
