//! What the server says while it runs: typed events, one line each, to standard error.
//!
//! Promises: whoever says something never waits: events go through a bounded queue to one thread.
//! What finds no room is counted, and said when there is room again. An event that repeats is held
//! to a rate, and how often it was left out is said. Every line is one line, in both forms.
//! Refuses: text of callers. A field is a number, a word of this program, or a [`Text`], which is
//! made only of types that hold no secret (`text`).
//! Fails: a reader that stops reading loses lines, and nothing else happens. The same holds for the
//! words for people on standard output (`people`).
//!
//! To add an event: a row in `event`, and one in `docs/logs.md`; a test compares them. ADR 19 says
//! why this is not a framework.

mod event;
mod line;
pub(crate) mod panics;
mod people;
mod queue;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod watch;

use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use tidegate::Clock;

pub(crate) use event::Event;
use people::People;
use queue::Queue;
pub(crate) use text::{CONFIG_CHARS_MAX, Sayable, Text};

/// How a line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// For people.
    Pretty,
    /// One JSON object.
    Json,
}

/// How much an event matters; the first matters most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Something is wrong with this process, and somebody has to look.
    Error,
    /// Something is worse than it should be; it may mend itself.
    Warn,
    /// Something changed.
    Info,
    /// Of use to whoever looks for the cause of something.
    Debug,
}

impl Level {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// What is said, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogSettings {
    pub(crate) form: Form,
    /// What matters less is not said.
    pub(crate) level: Level,
}

/// Where events are said. Clones say to the same place.
#[derive(Clone)]
pub(crate) struct Log {
    form: Form,
    /// None: nobody listens.
    to: Option<Arc<To>>,
}

struct To {
    queue: Queue,
    /// What matters less is not said. A [`Level`] as a number; it can be another while we run.
    level: AtomicU8,
    clock: Arc<dyn Clock>,
    /// None if programs read us.
    people: Option<People>,
}

impl Log {
    /// One that writes to `out`, on a thread of its own.
    pub(crate) fn start(
        settings: LogSettings,
        clock: Arc<dyn Clock>,
        mut out: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let LogSettings { form, level } = settings;
        let level = AtomicU8::new(level as u8);
        let people = match form {
            Form::Pretty => Some(People::start(io::stdout())?),
            Form::Json => None,
        };
        let to = Arc::new(To { queue: Queue::default(), level, clock, people });
        let from = Arc::clone(&to);
        // What panics is one of its lines, and those are lost. The next ones may be in order.
        let mut write = move || from.queue.write_all_to(form, &mut out);
        let write = move || while catch_unwind(AssertUnwindSafe(&mut write)).is_err() {};
        thread::Builder::new().name("tidegate-log".to_owned()).spawn(write)?;
        Ok(Self { form, to: Some(to) })
    }

    /// One that nobody listens to.
    pub(crate) const fn off() -> Self {
        Self { form: Form::Pretty, to: None }
    }

    /// How its lines look.
    pub(crate) const fn form(&self) -> Form {
        self.form
    }

    /// From here on what matters less is not said. What `say` says of it is heard if it matters
    /// enough for the old level or for the new one.
    pub(crate) fn turn_to(&self, level: Level, say: impl FnOnce(&Self)) {
        // ORDER: relaxed. An event that misses it came before it.
        if let Some(to) = &self.to {
            to.level.fetch_max(level as u8, Ordering::Relaxed);
        }
        say(self);
        if let Some(to) = &self.to {
            to.level.store(level as u8, Ordering::Relaxed);
        }
    }

    /// Tells people on standard output. Never waits: nobody may be reading.
    pub(crate) fn tell_people(&self, text: String) {
        if let Some(people) = self.to.as_ref().and_then(|to| to.people.as_ref()) {
            people.tell(text);
        }
    }

    /// Says it, unless it matters too little or was said too often. Never waits.
    pub(crate) fn say(&self, event: Event) {
        let Some(to) = &self.to else { return };
        if event.kind().level as u8 <= to.level.load(Ordering::Relaxed) {
            to.queue.push(event, to.clock.now());
        }
    }

    /// Says how often events were left out, if it is time. To be called every second or so.
    pub(crate) fn tick(&self) {
        if let Some(to) = &self.to {
            to.queue.tick(to.clock.now(), false);
        }
    }

    /// How many lines were lost.
    pub(crate) fn dropped(&self) -> u64 {
        self.to.as_ref().map_or(0, |to| to.queue.dropped())
    }

    /// Waits until everything is written, but not for long: nobody may be reading.
    pub(crate) fn flush(&self, within: Duration) {
        if let Some(to) = &self.to {
            to.queue.tick(to.clock.now(), true);
            to.queue.flush(within);
            to.people.iter().for_each(|people| people.flush(within));
        }
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Log").field("form", &self.form).finish_non_exhaustive()
    }
}
