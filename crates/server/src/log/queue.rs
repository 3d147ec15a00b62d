//! The queue between those who say something and the thread that writes it.
//!
//! Promises: the lock is held for a push or a swap, never while something is written.

use std::collections::{BTreeMap, VecDeque};
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate::Now;

use super::Form;
use super::event::Event;
use super::line::Said;

/// Lines that may wait to be written: some hundred KiB, unless all are about configurations. Events
/// are rare; a reader that stalls for longer than these last loses some.
pub(super) const LINES_MAX: usize = 1_024;
/// How many events of one name are said in a minute. A store that comes and goes every second
/// would otherwise bury what else there is.
pub(super) const PER_MINUTE_MAX: u32 = 10;
pub(super) const MINUTE_MS: u64 = 60_000;

/// See the module.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// There is something to write.
    filled: Condvar,
    /// All was written.
    emptied: Condvar,
}

#[derive(Default)]
struct State {
    lines: VecDeque<Said>,
    is_writing: bool,
    rates: BTreeMap<&'static str, Rate>,
    dropped: u64,
    /// Of these, those that nobody was told of.
    dropped_untold: u64,
}

/// How often an event was said in the minute that began with it.
#[derive(Default)]
struct Rate {
    began_ms: u64,
    said: u32,
    suppressed: u64,
}

impl Queue {
    /// Adds it, if it may be said now and there is room.
    pub(super) fn push(&self, event: Event, now: Now) {
        self.lock().push(event, now);
        self.filled.notify_one();
    }

    /// Says what was left out in minutes that have ended, or in all if `is_last`.
    pub(super) fn tick(&self, now: Now, is_last: bool) {
        self.lock().tell_suppressed(now, is_last);
        self.filled.notify_one();
    }

    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// Waits until everything is written, or until it took too long.
    pub(super) fn flush(&self, within: Duration) {
        let unwritten = |state: &mut State| state.is_writing || !state.lines.is_empty();
        let waited = self.emptied.wait_timeout_while(self.lock(), within, unwritten);
        drop(waited);
    }

    /// Writes what comes, for ever.
    pub(super) fn write_all_to(&self, form: Form, out: &mut impl Write) {
        let (mut lines, mut text) = (VecDeque::new(), String::new());
        loop {
            self.take(&mut lines);
            let mut writing = Writing { queue: self, lost: lines.len() };
            text.clear();
            lines.drain(..).for_each(|said| said.write(form, &mut text));
            if out.write_all(text.as_bytes()).and_then(|()| out.flush()).is_ok() {
                writing.lost = 0;
            }
        }
    }

    /// Takes all there is, as soon as there is something.
    fn take(&self, lines: &mut VecDeque<Said>) {
        let mut state = self.lock();
        while state.lines.is_empty() {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        std::mem::swap(&mut state.lines, lines);
        state.is_writing = true;
    }

    fn wrote(&self, lost: usize) {
        let mut state = self.lock();
        state.is_writing = false;
        state.drop_lines(lost);
        if state.lines.is_empty() {
            self.emptied.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lines that were taken and are being written. Whoever waits is told when it goes, also if that is
/// because of a panic.
struct Writing<'a> {
    queue: &'a Queue,
    lost: usize,
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.queue.wrote(self.lost);
    }
}

impl State {
    fn push(&mut self, event: Event, now: Now) {
        let Some(suppressed) = self.may_say(&event, now) else { return };
        let unix_ms = now.unix_ms();
        if self.dropped_untold > 0 && self.lines.len() + 1 < LINES_MAX {
            let count = std::mem::take(&mut self.dropped_untold);
            let event = Event::LogDropped { count };
            self.lines.push_back(Said { event, unix_ms, suppressed: 0 });
        }
        self.add(Said { event, unix_ms, suppressed });
    }

    fn add(&mut self, said: Said) {
        if self.lines.len() < LINES_MAX {
            self.lines.push_back(said);
        } else {
            self.drop_lines(1);
        }
    }

    fn drop_lines(&mut self, lines: usize) {
        let lines = u64::try_from(lines).unwrap_or(u64::MAX);
        self.dropped = self.dropped.saturating_add(lines);
        self.dropped_untold = self.dropped_untold.saturating_add(lines);
    }

    /// How many were left out before, if this one may be said.
    fn may_say(&mut self, event: &Event, now: Now) -> Option<u64> {
        if !event.is_held() {
            return Some(0);
        }
        let (now_ms, rate) = (now.monotonic_ms(), self.rates.entry(event.kind().name).or_default());
        if rate.said == 0 || now_ms.saturating_sub(rate.began_ms) >= MINUTE_MS {
            let suppressed = rate.suppressed;
            *rate = Rate { began_ms: now_ms, said: 1, suppressed: 0 };
            return Some(suppressed);
        }
        if rate.said < PER_MINUTE_MAX {
            rate.said += 1;
            return Some(0);
        }
        rate.suppressed = rate.suppressed.saturating_add(1);
        None
    }

    fn tell_suppressed(&mut self, now: Now, is_last: bool) {
        let (now_ms, unix_ms) = (now.monotonic_ms(), now.unix_ms());
        let mut told = Vec::new();
        for (&event, rate) in &mut self.rates {
            let has_ended = is_last || now_ms.saturating_sub(rate.began_ms) >= MINUTE_MS;
            if has_ended && rate.suppressed > 0 {
                let count = std::mem::take(&mut rate.suppressed);
                told.push(Event::EventsSuppressed { name: event, count });
            }
        }
        told.into_iter().for_each(|event| self.add(Said { event, unix_ms, suppressed: 0 }));
    }
}
