//! How far the clock of this process is from that of a store.
//!
//! Promises: measured beside requests, a few times a minute. The error is that of the round trip:
//! the store read its clock at some moment of it, and nobody knows at which.
//! Refuses: to correct anything. Windows are of this process's clock.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::Clock;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};

/// How often it is measured. Clocks drift by milliseconds in an hour; a step should be seen at the
/// next scrape.
const EVERY: Duration = Duration::from_secs(15);
/// What took longer says too little.
const WITHIN: Duration = Duration::from_secs(2);
/// Both clocks are read in whole milliseconds.
const GRAIN_US: u64 = 1_000;

/// What was measured last.
#[derive(Debug, Default)]
pub(crate) struct Skew {
    ahead_us: AtomicI64,
    error_us: AtomicU64,
    measured: AtomicU64,
}

/// The same, at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SkewSeen {
    /// How far this process is ahead; less than 0 if it is behind.
    pub(super) ahead_us: i64,
    /// By how much that may be wrong, in either direction.
    pub(super) error_us: u64,
    /// How often it was measured.
    pub(super) measured: u64,
}

impl Skew {
    /// Measures for as long as the process runs. `ask` asks the store what time it is.
    pub(crate) async fn keep<F, T>(self: Arc<Self>, clock: Arc<dyn Clock>, ask: F)
    where
        F: Fn() -> T + Send,
        T: Future<Output = Option<u64>> + Send,
    {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let (before_ms, begun) = (clock.now().unix_ms(), Instant::now());
            if let Ok(Some(theirs_ms)) = timeout(WITHIN, ask()).await {
                self.note(before_ms, begun.elapsed(), theirs_ms);
            }
        }
    }

    /// Half way through the round trip their clock was taken to be read.
    fn note(&self, before_ms: u64, took: Duration, theirs_ms: u64) {
        let half_us = u64::try_from(took.as_micros() / 2).unwrap_or(u64::MAX);
        let ours = i128::from(before_ms) * 1_000 + i128::from(half_us);
        let ahead = ours - i128::from(theirs_ms) * 1_000;
        let ahead_us = i64::try_from(ahead).unwrap_or(if ahead < 0 { i64::MIN } else { i64::MAX });
        // ORDER: relaxed, here and where they are read. A look between two of them sees the error
        // of one measurement beside the other, and both are a few milliseconds.
        self.ahead_us.store(ahead_us, Ordering::Relaxed);
        self.error_us.store(half_us.saturating_add(GRAIN_US), Ordering::Relaxed);
        self.measured.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn seen(&self) -> SkewSeen {
        SkewSeen {
            ahead_us: self.ahead_us.load(Ordering::Relaxed),
            error_us: self.error_us.load(Ordering::Relaxed),
            measured: self.measured.load(Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_is_positive_and_one_behind_negative() {
        let skew = Skew::default();
        assert_eq!(skew.seen(), SkewSeen::default());
        skew.note(10_000, Duration::from_millis(4), 9_000);
        assert_eq!(
            skew.seen(),
            SkewSeen { ahead_us: 1_002_000, error_us: 3_000, measured: 1 },
            "half of the round trip is over when their clock is read, give or take"
        );
        skew.note(10_000, Duration::ZERO, 10_250);
        assert_eq!(skew.seen().ahead_us, -250_000);
        skew.note(0, Duration::ZERO, u64::MAX);
        assert_eq!(skew.seen().ahead_us, i64::MIN, "what cannot be said is as far as can be");
    }
}
