//! Waiting for something to become true, never for a time to pass.

use std::time::{Duration, Instant};

use crate::{Error, Result};

/// How long a server may take to do what it was told. Generous, because the build machine is
/// slow and shared; a wait ends as soon as the condition holds.
pub const DEADLINE: Duration = Duration::from_secs(30);

/// How often a condition is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Looks until the condition gives a value, at most until the deadline.
///
/// # Errors
/// When the deadline passed: says what was waited for.
///
/// ```
/// use std::time::Duration;
///
/// let mut looks = 0;
/// let third = tidegate_lab::eventually("the third look", Duration::from_secs(5), || {
///     looks += 1;
///     (looks == 3).then_some(looks)
/// });
/// assert_eq!(third, Ok(3));
/// ```
#[expect(clippy::disallowed_methods, reason = "the one place that waits in real time")]
pub fn eventually<T>(
    what: &str,
    deadline: Duration,
    mut condition: impl FnMut() -> Option<T>,
) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(value) = condition() {
            return Ok(value);
        }
        if start.elapsed() > deadline {
            return Err(Error::new(format!("{what}: not within {deadline:?}")));
        }
        std::thread::sleep(LOOK);
    }
}
