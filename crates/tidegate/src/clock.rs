//! Where time enters: one reading per check, of both clocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tidegate_limiter::Now;

mod manual;
#[cfg(test)]
mod tests;

pub use manual::ManualClock;

/// How far the wall clock may be from the anchored one before it is followed. Large enough that
/// reading two clocks one after the other never counts as a disagreement, even on a busy machine;
/// small against the shortest window of a second, whose boundaries would be off by as much.
const DISAGREEMENT_MS_MAX: u64 = 20;

/// How often the two are compared. A clock that is slewed by the usual 500 ppm drifts 0.5 ms in
/// this time; a step is followed after at most this long. Comparing on every check would cost a
/// second reading each.
const COMPARE_INTERVAL_MS: u64 = 1_000;

const _: () = assert!(COMPARE_INTERVAL_MS / 2_000 < DISAGREEMENT_MS_MAX);

/// Where a [`Limiter`](crate::Limiter) takes the time from.
///
/// Processes that share limits must agree on the wall time, because windows are aligned to it.
///
/// ```
/// use tidegate::{Clock, Limiter, Now, SystemClock};
///
/// /// The machine's, an hour late.
/// struct Late(SystemClock);
///
/// impl Clock for Late {
///     fn now(&self) -> Now {
///         let now = self.0.now();
///         Now::new(now.unix_ms() - 3_600_000, now.monotonic_ms())
///     }
/// }
///
/// let limiter = Limiter::builder().clock(Late(SystemClock::new())).build()?;
/// # let _ = limiter;
/// # Ok::<(), tidegate::BuildError>(())
/// ```
pub trait Clock: Send + Sync {
    /// Reads both clocks once.
    fn now(&self) -> Now;
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Now {
        (**self).now()
    }
}

/// The machine's clocks: wall time anchored on the monotonic clock.
///
/// Between two comparisons time passes evenly, whatever is done to the wall clock. When the wall
/// clock has moved away by more than 20 ms (it was slewed or stepped, or the machine slept), it
/// is followed within a second.
///
/// ```
/// use tidegate::{Clock, SystemClock};
///
/// let clock = SystemClock::new();
/// let (first, second) = (clock.now(), clock.now());
/// assert!(first.monotonic_ms() <= second.monotonic_ms());
/// ```
#[derive(Debug)]
pub struct SystemClock {
    start: Instant,
    anchor: Anchor,
}

impl SystemClock {
    /// Anchors the wall clock on the monotonic one.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is where time enters")]
    pub fn new() -> Self {
        Self { start: Instant::now(), anchor: Anchor::new(wall_ms()) }
    }
}

impl Default for SystemClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Now {
        self.anchor.read(whole_ms(self.start.elapsed()), wall_ms)
    }
}

#[expect(clippy::disallowed_methods, reason = "this is where time enters")]
fn wall_ms() -> u64 {
    // A machine whose clock stands before 1970 has lost it: it counts from 1970 on.
    whole_ms(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// The wall time as an offset from the monotonic one. All arithmetic on the offset wraps: it is
/// "negative" when the wall clock was set to a time shortly after 1970.
#[derive(Debug)]
struct Anchor {
    offset_ms: AtomicU64,
    /// When the two clocks were last compared, in monotonic time.
    compared_ms: AtomicU64,
}

impl Anchor {
    /// `wall_ms` is the wall time at monotonic time 0.
    fn new(wall_ms: u64) -> Self {
        Self { offset_ms: AtomicU64::new(wall_ms), compared_ms: AtomicU64::new(0) }
    }

    fn read(&self, monotonic_ms: u64, wall_ms: impl FnOnce() -> u64) -> Now {
        // ORDER: relaxed. The two numbers are independent: a thread that sees an old offset gives
        // the time of a moment ago, one that sees an old comparison compares once more.
        let compared_ms = self.compared_ms.load(Ordering::Relaxed);
        if monotonic_ms.saturating_sub(compared_ms) >= COMPARE_INTERVAL_MS {
            self.compared_ms.store(monotonic_ms, Ordering::Relaxed);
            self.follow(monotonic_ms, wall_ms());
        }
        let offset_ms = self.offset_ms.load(Ordering::Relaxed);
        Now::new(monotonic_ms.wrapping_add(offset_ms), monotonic_ms)
    }

    fn follow(&self, monotonic_ms: u64, wall_ms: u64) {
        let anchored_ms = monotonic_ms.wrapping_add(self.offset_ms.load(Ordering::Relaxed));
        if anchored_ms.abs_diff(wall_ms) > DISAGREEMENT_MS_MAX {
            self.offset_ms.store(wall_ms.wrapping_sub(monotonic_ms), Ordering::Relaxed);
        }
    }
}
