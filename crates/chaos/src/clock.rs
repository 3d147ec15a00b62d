//! The time of a run: milliseconds since its start, and the one place that waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// How often a wait looks whether the run was stopped. Ctrl-C is noticed that late.
const LOOK: Duration = Duration::from_millis(20);

/// The time of a run, and whether somebody wants it to end.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    start: Instant,
    stopped: Arc<AtomicBool>,
}

impl Clock {
    /// A run that begins now.
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), stopped: Arc::new(AtomicBool::new(false)) }
    }

    /// Milliseconds since the start.
    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Microseconds since the start.
    pub(crate) fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Ends every wait from now on.
    pub(crate) fn stop(&self) {
        // ORDER: sequentially consistent; it is not hot, and nothing else is handed over by it.
        self.stopped.store(true, Ordering::SeqCst);
    }

    /// Whether the run was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        // ORDER: as above.
        self.stopped.load(Ordering::SeqCst)
    }

    /// Waits until that time, or until the run is stopped.
    #[expect(clippy::disallowed_methods, reason = "a fault lasts for a time, not until something")]
    pub(crate) fn wait_until(&self, at_ms: u64) {
        while !self.is_stopped() {
            let left = Duration::from_millis(at_ms.saturating_sub(self.now_ms()));
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(LOOK));
        }
    }

    /// Waits for so long, or until the run is stopped.
    pub(crate) fn wait_for(&self, ms: u64) {
        self.wait_until(self.now_ms().saturating_add(ms));
    }
}
