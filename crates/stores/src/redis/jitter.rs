//! How long to wait before the next attempt.

use std::time::Duration;

/// The longest wait after the first failure. A restart of Redis takes about that long.
const FIRST_MS: u64 = 50;
/// The longest wait of all: even a fleet of hundreds then asks a returning server only a few
/// hundred times a second, and no process is late by more than this.
const LAST_MS: u64 = 2_000;

/// A source of waits: exponential with full jitter, so that processes that failed together do not
/// come back together.
#[derive(Debug)]
pub(super) struct Jitter {
    state: u64,
    failures: u32,
}

impl Jitter {
    pub(super) const fn new(seed: u64) -> Self {
        Self { state: seed, failures: 0 }
    }

    /// After one more failure.
    pub(super) fn next(&mut self) -> Duration {
        let longest_ms = FIRST_MS.checked_shl(self.failures).unwrap_or(LAST_MS).min(LAST_MS);
        // Far below the bits of the shift, whatever happens.
        self.failures = self.failures.saturating_add(1).min(16);
        Duration::from_millis(self.draw() % longest_ms.saturating_add(1))
    }

    /// After a success.
    pub(super) const fn reset(&mut self) {
        self.failures = 0;
    }

    /// SplitMix64.
    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }
}

/// Spreads every bit over all.
pub(super) const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_to_a_bound_and_differ() {
        let waits = |seed| {
            let mut jitter = Jitter::new(seed);
            (0..40).map(|_| jitter.next()).collect::<Vec<_>>()
        };
        let (one, other) = (waits(1), waits(2));
        assert_ne!(one, other);
        for (turn, wait) in one.iter().chain(&other).enumerate() {
            let longest = FIRST_MS << (turn % 40).min(16);
            assert!(*wait <= Duration::from_millis(longest.min(LAST_MS)), "{turn}");
        }
        assert!(one.iter().any(|wait| *wait > Duration::from_millis(LAST_MS / 2)));
        let mut jitter = Jitter::new(1);
        jitter.next();
        jitter.reset();
        assert!(jitter.next() <= Duration::from_millis(FIRST_MS));
    }
}
