//! Panics: one event each, and loops that go on.
//!
//! Promises: a panic is said and counted, with where it was. Its words are said only if they are a
//! constant of the program: what was formatted may hold what a caller sent. A loop that panicked
//! begins again after a second, and is counted.

use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{Instant, sleep_until};

use super::{Event, Log};

/// How long a loop rests that has panicked. One that panics at once would otherwise spin.
const REST: Duration = Duration::from_secs(1);

/// Panics of this process.
static PANICS: AtomicU64 = AtomicU64::new(0);

/// How many panics there were.
pub(crate) fn count() -> u64 {
    // ORDER: relaxed. A number for display.
    PANICS.load(Ordering::Relaxed)
}

/// From here on panics are said to `log`, and to nobody else.
pub(crate) fn tell(log: &Log) {
    let log = log.clone();
    panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        log.say(event(info));
    }));
}

fn event(info: &PanicHookInfo<'_>) -> Event {
    let location = info.location();
    Event::TaskPanicked {
        // Both are compiled into the program.
        file: location.map(|location| super::Text::of(&Place(location.file()))),
        line: location.map(|location| u64::from(location.line())),
        words: info.payload().downcast_ref::<&'static str>().copied(),
    }
}

/// A file of the source.
struct Place<'a>(&'a str);

impl std::fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.0)
    }
}

/// A path of the source is a constant of the compiler.
impl super::Sayable for Place<'_> {}

/// Runs a loop that should never end, and begins it anew when it panics. Ends when it ends, or when
/// it is aborted.
pub(crate) fn keep<F>(
    task: &'static str,
    log: &Log,
    mut begin: impl FnMut() -> F + Send + 'static,
) -> JoinHandle<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let log = log.clone();
    tokio::spawn(async move {
        loop {
            let running = tokio::spawn(begin());
            let _ended = Ended(running.abort_handle());
            match running.await {
                Err(why) if why.is_panic() => {}
                _ => return,
            }
            sleep_until(Instant::now() + REST).await;
            log.say(Event::TaskRestarted { task });
        }
    })
}

/// Aborts what it holds when nobody waits for it any more.
struct Ended(AbortHandle);

impl Drop for Ended {
    fn drop(&mut self) {
        self.0.abort();
    }
}
