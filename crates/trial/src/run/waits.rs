//! How long callers waited, in little memory: a histogram whose steps grow with the value.

use crate::findings::Waits;

/// Steps between a power of two and the next: values are known to 3 %.
const FINE_BITS: u32 = 5;
const FINE: u64 = 1 << FINE_BITS;

#[derive(Debug, Default)]
pub(crate) struct WaitCounts {
    steps: Vec<u64>,
    calls: u64,
    waited: u64,
    longest_us: u64,
}

impl WaitCounts {
    #[inline]
    pub(crate) fn count(&mut self, waited_us: u64) {
        self.calls = self.calls.saturating_add(1);
        if waited_us == 0 {
            return;
        }
        self.waited = self.waited.saturating_add(1);
        self.longest_us = self.longest_us.max(waited_us);
        let at = usize::try_from(step_of(waited_us)).unwrap_or(0);
        if at >= self.steps.len() {
            self.steps.resize(at.saturating_add(1), 0);
        }
        if let Some(count) = self.steps.get_mut(at) {
            *count = count.saturating_add(1);
        }
    }

    pub(crate) fn findings(&self) -> Waits {
        Waits { calls: self.waited, p99_us: self.p99_us(), longest_us: self.longest_us }
    }

    fn p99_us(&self) -> u64 {
        // From the longest down: one in a hundred may be longer.
        let mut longer = self.calls / 100;
        for (step, count) in self.steps.iter().enumerate().rev() {
            match longer.checked_sub(*count) {
                Some(rest) => longer = rest,
                None => return end_of(step as u64).min(self.longest_us),
            }
        }
        0
    }
}

fn step_of(value: u64) -> u64 {
    let bits = value.max(1).ilog2();
    match bits.checked_sub(FINE_BITS) {
        None => value,
        Some(shift) => (u64::from(shift) + 1) * FINE + (value >> shift) - FINE,
    }
}

/// The largest value of a step.
fn end_of(step: u64) -> u64 {
    match (step / FINE).checked_sub(1) {
        None => step,
        Some(shift) => ((step % FINE + FINE + 1) << shift).saturating_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_the_step_that_ends_after_it() {
        for value in (0..10_000).chain([1 << 20, (1 << 33) + 77]) {
            let step = step_of(value);
            assert!(end_of(step) >= value && end_of(step) <= value + value / FINE, "{value}");
            assert!(step == 0 || end_of(step - 1) < value, "{value}");
        }
    }

    #[test]
    fn one_in_a_hundred_waited_longer() {
        let mut waits = WaitCounts::default();
        for at in 0..1_000 {
            waits.count(if at < 11 { 5_000 } else { at % 2 });
        }
        let Waits { calls, p99_us, longest_us } = waits.findings();
        assert_eq!((p99_us, longest_us), (5_000, 5_000));
        assert!((400..600).contains(&calls));
        assert_eq!(WaitCounts::default().findings(), Waits::default());
    }
}
