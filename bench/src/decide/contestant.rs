//! The one loop that drives every contestant.

use std::hint::black_box;

use super::keys::{Key, Script};

/// The wall clock at the start of every run: the start of a window of a minute.
pub(crate) const START_UNIX_MS: u64 = 28_333_334 * WINDOW_MS;
/// Everybody's window.
pub(crate) const WINDOW_MS: u64 = 60_000;

/// What a contestant is built for.
#[derive(Clone, Copy)]
pub(crate) struct Setup {
    /// How many keys it will meet.
    pub(crate) keys: usize,
    /// What each may spend in a window.
    pub(crate) limit: u32,
    /// Whether the workload asks for five keys at once.
    pub(crate) batch: bool,
    /// Whether the process is one of several in a region that has just told of all keys.
    pub(crate) region: bool,
}

/// What a table says it holds.
#[derive(Clone, Copy)]
pub(crate) struct Accounted {
    /// How many subjects.
    pub(crate) subjects: usize,
    /// In how many bytes.
    pub(crate) bytes: usize,
}

/// A limiter, and how it is asked.
pub(crate) trait Contestant: Send + Sync {
    /// A reading of the clock, made once per millisecond; `()` for those who read their own.
    type Now: Copy;

    /// How many keys one question takes.
    const KEYS_PER_QUESTION: usize = 1;

    /// The reading `ms` after the start.
    fn now(&self, ms: u64) -> Self::Now;

    /// Asks about the key of access `at`: whether it was admitted.
    fn decide(&self, script: &Script, at: usize, now: Self::Now) -> bool;

    /// What it says it holds.
    fn accounted(&self) -> Option<Accounted> {
        None
    }
}

/// One stretch of questions.
#[derive(Clone, Copy)]
pub(crate) struct Stretch {
    /// The first access.
    pub(crate) start: usize,
    /// How many questions.
    pub(crate) questions: u64,
    /// When it starts.
    pub(crate) from_ms: u64,
    /// After how many questions a millisecond has passed.
    pub(crate) questions_per_ms: u64,
}

impl Stretch {
    /// When it ends.
    pub(crate) const fn until_ms(self) -> u64 {
        self.from_ms + self.questions.div_ceil(self.questions_per_ms)
    }
}

/// A contestant whose type is forgotten: the loop inside is still its own.
pub(crate) trait Drive: Send + Sync {
    /// Asks all questions of the stretch and returns how many were admitted.
    fn drive(&self, script: &Script, stretch: Stretch) -> u64;
    /// How many keys one question takes.
    fn keys_per_question(&self) -> usize;
    /// What it says it holds.
    fn accounted(&self) -> Option<Accounted>;
}

impl<C: Contestant> Drive for C {
    fn drive(&self, script: &Script, stretch: Stretch) -> u64 {
        drive(self, script, stretch)
    }

    fn keys_per_question(&self) -> usize {
        C::KEYS_PER_QUESTION
    }

    fn accounted(&self) -> Option<Accounted> {
        Contestant::accounted(self)
    }
}

/// The loop. Never inlined, so that its cost is the same whoever calls it.
#[inline(never)]
fn drive<C: Contestant>(contestant: &C, script: &Script, stretch: Stretch) -> u64 {
    let usable = script.len() - script.len() % C::KEYS_PER_QUESTION;
    let mut at = stretch.start - stretch.start % C::KEYS_PER_QUESTION;
    let mut ms = stretch.from_ms;
    let mut left = stretch.questions;
    let mut admitted = 0;
    while left > 0 {
        let now = contestant.now(ms);
        let chunk = left.min(stretch.questions_per_ms);
        for _ in 0..chunk {
            if at >= usable {
                at = 0;
            }
            admitted += u64::from(contestant.decide(script, at, now));
            at += C::KEYS_PER_QUESTION;
        }
        left -= chunk;
        ms += 1;
    }
    admitted
}

/// Nobody: what the loop and the reading of the key cost by themselves.
pub(crate) struct Noop;

impl Contestant for Noop {
    type Now = ();

    fn now(&self, _ms: u64) {}

    #[inline(always)]
    fn decide(&self, script: &Script, at: usize, (): ()) -> bool {
        let key: Option<Key<'_>> = script.key(at);
        black_box(key).is_some()
    }
}
