//! Admitted and denied over time: slices of one length, never too many.

use crate::findings::Slice;

/// Most slices: about as many as a page has pixels for.
const SLICES_MAX: usize = 500;
/// The shortest slice.
const SLICE_MS_MIN: u64 = 1_000;

#[derive(Debug)]
pub(crate) struct Slices {
    pub(crate) slice_ms: u64,
    /// The first slice, as a multiple of their length.
    first: u64,
    counts: Vec<[u64; 2]>,
}

impl Default for Slices {
    fn default() -> Self {
        Self { slice_ms: SLICE_MS_MIN, first: 0, counts: Vec::new() }
    }
}

impl Slices {
    /// Counts a call. Times do not fall.
    #[inline]
    pub(crate) fn count(&mut self, at_ms: u64, admitted: bool) {
        if self.counts.is_empty() {
            self.first = at_ms / self.slice_ms;
        }
        let mut at = (at_ms / self.slice_ms).saturating_sub(self.first);
        while at >= SLICES_MAX as u64 {
            self.double();
            at = (at_ms / self.slice_ms).saturating_sub(self.first);
        }
        let at = usize::try_from(at).unwrap_or(0);
        if at >= self.counts.len() {
            self.counts.resize(at.saturating_add(1), [0; 2]);
        }
        if let Some(count) =
            self.counts.get_mut(at).and_then(|it| it.get_mut(usize::from(admitted)))
        {
            *count = count.saturating_add(1);
        }
    }

    /// Makes slices twice as long. They begin at multiples of their length.
    fn double(&mut self) {
        let old = std::mem::take(&mut self.counts);
        let odd = self.first % 2;
        self.slice_ms = self.slice_ms.saturating_mul(2);
        self.first /= 2;
        for (at, [denied, admitted]) in (odd..).zip(old) {
            let at = usize::try_from(at / 2).unwrap_or(0);
            if at >= self.counts.len() {
                self.counts.push([0; 2]);
            }
            if let Some([before_denied, before_admitted]) = self.counts.get_mut(at) {
                *before_denied = before_denied.saturating_add(denied);
                *before_admitted = before_admitted.saturating_add(admitted);
            }
        }
    }

    pub(crate) fn all(&self) -> Vec<Slice> {
        let slices = (self.first..).zip(&self.counts);
        slices
            .map(|(at, [denied, admitted])| Slice {
                from_unix_ms: at.saturating_mul(self.slice_ms),
                admitted: *admitted,
                denied: *denied,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_long_a_trace_is_there_are_few_slices_and_nothing_is_lost() {
        let mut slices = Slices::default();
        let start = 1_700_000_000_123;
        for at in 0..100_000_u64 {
            slices.count(start + at * 700, at % 3 != 0);
        }
        let all = slices.all();
        assert!(all.len() <= SLICES_MAX && all.len() > SLICES_MAX / 3, "{}", all.len());
        assert_eq!(all.iter().map(|it| it.admitted + it.denied).sum::<u64>(), 100_000);
        assert!(all[0].from_unix_ms <= start && start < all[0].from_unix_ms + slices.slice_ms);
        assert!(
            all.windows(2).all(|it| it[1].from_unix_ms - it[0].from_unix_ms == slices.slice_ms)
        );
        // A jump by a thousand years.
        slices.count(start + 31_536_000_000_000, true);
        assert!(slices.all().len() <= SLICES_MAX);
        assert_eq!(slices.all().iter().map(|it| it.admitted + it.denied).sum::<u64>(), 100_001);
    }
}
