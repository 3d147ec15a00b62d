//! How long things take: a histogram of atomics.
//!
//! Promises: noting something takes no lock and no memory; a look sees every note that was made
//! before, in its bucket and, at the latest a moment later, in the sum.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// The upper end of a bucket: in microseconds, and in seconds as it is written.
pub(super) type Bound = (u64, &'static str);

/// Those of the reference, for calls to stores.
pub(crate) const STORE_BOUNDS: &[Bound] = &[
    (1_000, "0.001"),
    (2_000, "0.002"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (20_000, "0.02"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (200_000, "0.2"),
    (300_000, "0.3"),
    (400_000, "0.4"),
    (500_000, "0.5"),
    (750_000, "0.75"),
    (1_000_000, "1"),
    (2_000_000, "2"),
    (3_000_000, "3"),
    (5_000_000, "5"),
    (10_000_000, "10"),
];

/// For requests: a decision in memory takes some ten microseconds, one that asks the region a
/// millisecond or so, and a body may take ten seconds to arrive.
pub(crate) const REQUEST_BOUNDS: &[Bound] = &[
    (25, "0.000025"),
    (50, "0.00005"),
    (100, "0.0001"),
    (250, "0.00025"),
    (500, "0.0005"),
    (1_000, "0.001"),
    (2_500, "0.0025"),
    (5_000, "0.005"),
    (10_000, "0.01"),
    (25_000, "0.025"),
    (50_000, "0.05"),
    (100_000, "0.1"),
    (250_000, "0.25"),
    (500_000, "0.5"),
    (1_000_000, "1"),
    (10_000_000, "10"),
];

/// Most buckets, that above the last bound included.
const BUCKETS_MAX: usize = 18;

const _: () = assert!(STORE_BOUNDS.len() < BUCKETS_MAX && REQUEST_BOUNDS.len() < BUCKETS_MAX);

/// In so many places a histogram of requests is noted: threads that note at once rarely share one.
/// There are about as many threads as cores.
const STRIPES: usize = 16;

/// How long something took, each time.
#[derive(Debug)]
pub(crate) struct Histogram {
    bounds: &'static [Bound],
    stripes: Box<[Stripe]>,
}

/// A place of its own in memory, so that threads that note at once do not wait for each other:
/// processors fetch two lines of 64 bytes at a time.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Stripe {
    buckets: [AtomicU64; BUCKETS_MAX],
    sum_us: AtomicU64,
}

/// What a histogram has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Spread {
    /// How many took at most that long, and longer than the bound before.
    pub(super) buckets: Vec<(&'static str, u64)>,
    /// How many took longer than the last.
    pub(super) above: u64,
    pub(super) sum_us: u64,
}

impl Histogram {
    /// For what happens a few thousand times a second.
    pub(crate) fn new(bounds: &'static [Bound]) -> Self {
        Self { bounds, stripes: Box::new([Stripe::default()]) }
    }

    /// For what every thread does all the time.
    pub(crate) fn striped(bounds: &'static [Bound]) -> Self {
        Self { bounds, stripes: (0..STRIPES).map(|_| Stripe::default()).collect() }
    }

    /// It took that long.
    pub(crate) fn note(&self, took: Duration) {
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = self.bounds.iter().take_while(|(bound_us, _)| us > *bound_us).count();
        let Some(stripe) = self.stripe() else { return };
        // ORDER: relaxed, here and where they are read. Counts that nothing else follows from.
        if let Some(bucket) = stripe.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        stripe.sum_us.fetch_add(us, Ordering::Relaxed);
    }

    fn stripe(&self) -> Option<&Stripe> {
        match &*self.stripes {
            [only] => Some(only),
            several => several.get(thread_number() % several.len().max(1)),
        }
    }

    pub(super) fn read(&self) -> Spread {
        let all = |bucket: usize| -> u64 {
            let of = |stripe: &Stripe| stripe.buckets.get(bucket).map(load);
            self.stripes.iter().filter_map(of).sum()
        };
        let bounds = self.bounds.iter().enumerate();
        Spread {
            buckets: bounds.map(|(bucket, (_, bound))| (*bound, all(bucket))).collect(),
            above: all(self.bounds.len()),
            sum_us: self.stripes.iter().map(|stripe| load(&stripe.sum_us)).sum(),
        }
    }
}

fn load(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

/// Threads are numbered as they come.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static NUMBER: Cell<usize> = Cell::new(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    // A thread that ends has no number any more.
    NUMBER.try_with(Cell::get).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_rise_and_are_written_as_seconds() {
        for bounds in [STORE_BOUNDS, REQUEST_BOUNDS] {
            assert!(bounds.windows(2).all(|two| two[0].0 < two[1].0));
            for (us, text) in bounds {
                let (seconds, us): (f64, _) = (text.parse().unwrap(), u32::try_from(*us).unwrap());
                assert!((seconds * 1e6 - f64::from(us)).abs() < 0.1, "{text}");
            }
        }
    }

    #[test]
    fn everything_is_in_the_first_bucket_that_holds_it() {
        for histogram in [Histogram::new(STORE_BOUNDS), Histogram::striped(STORE_BOUNDS)] {
            for us in [0, 1_000, 1_001, 10_000_000, 10_000_001] {
                histogram.note(Duration::from_micros(us));
            }
            let spread = histogram.read();
            let full: Vec<_> = spread.buckets.iter().filter(|(_, count)| *count > 0).collect();
            assert_eq!(full, [&("0.001", 2), &("0.002", 1), &("10", 1)]);
            assert_eq!((spread.above, spread.sum_us), (1, 20_002_002));
        }
    }

    #[test]
    fn threads_that_note_at_once_lose_nothing() {
        let histogram = Histogram::striped(REQUEST_BOUNDS);
        std::thread::scope(|scope| {
            for _ in 0..STRIPES * 2 {
                scope.spawn(|| (0..1_000).for_each(|_| histogram.note(Duration::from_micros(7))));
            }
        });
        let spread = histogram.read();
        assert_eq!(spread.buckets[0], ("0.000025", 32_000));
        assert_eq!(spread.sum_us, 7 * 32_000);
    }
}
