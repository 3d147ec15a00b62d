//! Whether the wall clock can be trusted.
//!
//! It says what has expired, and so what is forgotten, repeated and deleted. A clock that jumped
//! ahead makes a process forget what is live; when it comes back, everything is read again.

use super::{At, Globe};

/// A wall clock that is corrected by less is not said to jump.
const JUMP_MS: i128 = 1_000;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Steady {
    /// By how much the wall clock was ahead of the monotonic one.
    ahead_ms: Option<i128>,
    jumped_ms: Option<u64>,
}

impl Globe {
    /// Compares both clocks.
    pub(super) fn watch_clock(&mut self, at: At<'_>) {
        let ahead_ms = i128::from(at.now.unix_ms()) - i128::from(at.ms());
        let before_ms = self.steady.ahead_ms.replace(ahead_ms).unwrap_or(ahead_ms);
        if (ahead_ms - before_ms).abs() > JUMP_MS {
            self.steady.jumped_ms = Some(at.ms());
        }
        if ahead_ms < before_ms - JUMP_MS {
            self.feed.restart();
        }
    }

    /// Whether the wall clock has not jumped for as long as rows are kept that were repeated.
    pub(super) fn is_steady(&self, at: At<'_>) -> bool {
        let since_ms = |jumped_ms: u64| at.ms().saturating_sub(jumped_ms);
        self.steady.jumped_ms.is_none_or(|jumped_ms| since_ms(jumped_ms) > self.tuning.grace_ms)
    }
}
