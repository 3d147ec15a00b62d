//! A clock that stands still until it is told to move.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate_limiter::Now;

use super::{Clock, whole_ms};

/// A clock for tests: time passes only when you say so. Clones show the same time.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Cost, Limit, Limiter, ManualClock, Part, Request, Subject, Window};
///
/// let clock = ManualClock::at_unix_ms(1_700_000_000_000);
/// let limiter = Limiter::builder().clock(clock.clone()).build()?;
///
/// let window = Window::from_millis(1_000)?;
/// let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
/// let request = Request::new(subject, Limit::new(1), Cost::ONE);
///
/// assert!(limiter.check_now(&request).admitted());
/// assert!(!limiter.check_now(&request).admitted());
/// clock.advance(Duration::from_secs(2));
/// assert!(limiter.check_now(&request).admitted());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    // One lock and not two atomics: a reading must show both clocks of one moment.
    now: Arc<Mutex<Now>>,
}

impl ManualClock {
    /// A clock that shows this wall time, in milliseconds since the Unix epoch. The
    /// [type](Self) has an example.
    #[must_use]
    pub fn at_unix_ms(unix_ms: u64) -> Self {
        Self { now: Arc::new(Mutex::new(Now::new(unix_ms, 0))) }
    }

    /// Lets time pass on both clocks. Parts of a millisecond are dropped. The [type](Self) has an
    /// example.
    pub fn advance(&self, by: Duration) {
        self.change(|now| now.after_ms(whole_ms(by)));
    }

    /// Sets the wall clock, forwards or back, while no time passes: what a machine sees whose
    /// clock is corrected.
    ///
    /// ```
    /// use tidegate::{Clock, ManualClock};
    ///
    /// let clock = ManualClock::at_unix_ms(5_000);
    /// clock.step_to_unix_ms(1_000);
    /// assert_eq!((clock.now().unix_ms(), clock.now().monotonic_ms()), (1_000, 0));
    /// ```
    pub fn step_to_unix_ms(&self, unix_ms: u64) {
        self.change(|now| Now::new(unix_ms, now.monotonic_ms()));
    }

    fn change(&self, to: impl FnOnce(Now) -> Now) {
        // `Now` is replaced as a whole, so a panic elsewhere cannot have left half a time here.
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        *now = to(*now);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Now {
        *self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
