//! Panics of any thread or task: each is a mistake in the program.
//!
//! A task that panics ends alone, and the process goes on; so somebody has to count.

use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static PANICS: AtomicU64 = AtomicU64::new(0);

/// Counts from here on. What else is done about a panic goes on.
pub(crate) fn count_panics() {
    static COUNTED: Once = Once::new();
    COUNTED.call_once(|| {
        let said = panic::take_hook();
        panic::set_hook(Box::new(move |about| {
            // ORDER: relaxed, here and where it is read. A count that nothing else follows from.
            PANICS.fetch_add(1, Ordering::Relaxed);
            said(about);
        }));
    });
}

/// How many there were.
pub(super) fn panics() -> u64 {
    PANICS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_of_a_thread_is_counted() {
        count_panics();
        count_panics();
        let before = panics();
        let ended = std::thread::spawn(|| panic!("this one is meant to be")).join();
        assert!(ended.is_err());
        assert!(panics() > before, "other tests may have some too");
    }
}
