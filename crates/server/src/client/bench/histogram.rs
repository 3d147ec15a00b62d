//! How long things took: counts in steps that grow with the time.
//!
//! Promises: a percentile is never below the true one and less than 1 % above it; the largest value
//! is exact; the memory is the same however many values there are.
//! Refuses: nothing. A value beyond the last step counts in it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Steps of each doubling, as a power of two: 128, so a step is less than 1 % of its values.
const STEPS_LOG2: u32 = 7;
const STEPS: u64 = 1 << STEPS_LOG2;
/// Doublings: up to 2^43 ns, more than two hours. No request is waited for that long.
const DOUBLINGS: u64 = 43;
const SLOTS: usize = 128 * (43 - 7 + 1);

const _: () = assert!(SLOTS == 4_736 && STEPS == 128 && DOUBLINGS == 43);

/// Times in nanoseconds.
#[derive(Debug)]
pub(super) struct Histogram {
    slots: Box<[AtomicU64]>,
    max: AtomicU64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        let slots = (0..SLOTS).map(|_| AtomicU64::new(0)).collect();
        Self { slots, max: AtomicU64::new(0) }
    }

    pub(super) fn record(&self, ns: u64) {
        let last = SLOTS.saturating_sub(1);
        // ORDER: relaxed, here and below: numbers that are read when nobody writes any more, or
        // for a line of progress.
        if let Some(slot) = self.slots.get(slot(ns).min(last)) {
            slot.fetch_add(1, Ordering::Relaxed);
        }
        self.max.fetch_max(ns, Ordering::Relaxed);
    }

    pub(super) fn count(&self) -> u64 {
        self.slots.iter().map(|slot| slot.load(Ordering::Relaxed)).sum()
    }

    pub(super) fn max(&self) -> u64 {
        self.max.load(Ordering::Relaxed)
    }

    /// The value that `per_mille` of 1,000 are not above; 0 if there are none.
    pub(super) fn percentile(&self, per_mille: u64) -> u64 {
        let wanted = self.count().saturating_mul(per_mille).div_ceil(1_000).max(1);
        let mut seen = 0_u64;
        for (index, slot) in (0_u64..).zip(&self.slots) {
            seen = seen.saturating_add(slot.load(Ordering::Relaxed));
            if seen >= wanted {
                return largest(index).min(self.max());
            }
        }
        self.max()
    }
}

/// The slot of a value.
fn slot(ns: u64) -> usize {
    let log2 = ns.checked_ilog2().unwrap_or(0);
    let Some(shift) = log2.checked_sub(STEPS_LOG2) else {
        return usize::try_from(ns).unwrap_or(usize::MAX);
    };
    // The leading bit stays: so the steps of a doubling follow those of the one before.
    let index = u64::from(shift) * STEPS + (ns >> shift);
    usize::try_from(index).unwrap_or(usize::MAX)
}

/// The largest value of a slot.
const fn largest(index: u64) -> u64 {
    if index < 2 * STEPS {
        return index;
    }
    let shift = index / STEPS - 1;
    ((index % STEPS + STEPS + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_slot_begins_where_the_one_before_ends() {
        for index in 0_u64..4_736 {
            let (first, last) = (index.checked_sub(1).map_or(0, |it| largest(it) + 1), index);
            assert_eq!(u64::try_from(slot(first)).unwrap(), last);
            assert_eq!(u64::try_from(slot(largest(index))).unwrap(), last);
        }
        assert!(largest(4_735) >= (1 << DOUBLINGS) - 1);
    }

    proptest! {
        #[test]
        fn percentiles_are_within_one_percent_of_the_exact_ones(
            mut values in prop::collection::vec(0_u64..20_000_000_000, 1..500),
            per_mille in 1_u64..=1_000,
        ) {
            let histogram = Histogram::new();
            values.iter().for_each(|value| histogram.record(*value));
            values.sort_unstable();
            let rank = (values.len() * usize::try_from(per_mille).unwrap()).div_ceil(1_000);
            let exact = values[rank - 1];
            let said = histogram.percentile(per_mille);
            prop_assert!(said >= exact && said - exact <= exact / 100, "{said} for {exact}");
            prop_assert_eq!(histogram.max(), *values.last().unwrap());
        }
    }

    #[test]
    fn nothing_and_too_much_have_percentiles_too() {
        let histogram = Histogram::new();
        assert_eq!(histogram.percentile(990), 0);
        histogram.record(u64::MAX);
        assert_eq!((histogram.count(), histogram.max()), (1, u64::MAX));
        histogram.percentile(500);
    }
}
