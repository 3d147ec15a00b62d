//! Many runs at once. Each is still in one thread, and a function of its seed.

use std::num::NonZero;
use std::sync::mpsc;
use std::thread;

/// How many runs a machine can have at once.
#[must_use]
pub fn jobs_max() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Does `work` for each item of `next`, in so many threads, until there is none. Results are handed
/// to `take` in this thread, in the order in which they come.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// let (seeds, mut sum) = (AtomicU64::new(0), 0);
/// let next = || Some(seeds.fetch_add(1, Ordering::Relaxed)).filter(|seed| *seed < 10);
/// tidegate_sim::in_jobs(2, next, |seed| 2 * seed, |twice| sum += twice);
/// assert_eq!(sum, 90);
/// ```
pub fn in_jobs<I, T: Send>(
    jobs: usize,
    next: impl Fn() -> Option<I> + Sync,
    work: impl Fn(I) -> T + Sync,
    mut take: impl FnMut(T),
) {
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (sender, next, work) = (sender.clone(), &next, &work);
            scope.spawn(move || {
                while let Some(item) = next() {
                    // Nobody listens any more if `take` has panicked.
                    if sender.send(work(item)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        results.iter().for_each(&mut take);
    });
}
