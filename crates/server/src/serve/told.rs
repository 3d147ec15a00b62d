//! How the server is heard: people in words on standard output, programs by events.

use std::fmt;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::log::{Event, Form, Log};

/// From when on the end is said to take long: it usually takes milliseconds.
const END_SLOW: Duration = Duration::from_secs(2);

/// Tells people in their words, and programs by events.
pub(super) fn tell(log: &Log, text: &dyn fmt::Display, events: impl FnOnce() -> Vec<Event>) {
    match log.form() {
        Form::Pretty => log.tell_people(text.to_string()),
        Form::Json => events().into_iter().for_each(|event| log.say(event)),
    }
}

/// Says that the end takes long, if it does.
pub(super) async fn tell_if_slow(log: Log, open: impl Fn() -> usize) {
    sleep_until(Instant::now() + END_SLOW).await;
    let waited_ms = u64::try_from(END_SLOW.as_millis()).unwrap_or(u64::MAX);
    let connections = u64::try_from(open()).unwrap_or(u64::MAX);
    log.say(Event::DrainSlow { waited_ms, connections });
}
