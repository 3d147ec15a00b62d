//! What must be true of a history, as far as it can be seen from outside.
//!
//! Promises: what is found is a broken promise of the documents; the times and costs that are
//! allowed are those they state, and each is named here.
//! Refuses: to guess. A call that was sent and not answered may have counted or not.

mod answers;
pub(crate) mod atomic;
pub(crate) mod conservation;
mod once;
mod overshoot;
mod views;

#[cfg(test)]
mod tests;

use crate::history::History;

/// How long after a fault its consequences may still be there: an open breaker, a connection that
/// is made anew, totals that are sent again. The documents say about two seconds; a busy machine
/// gets more.
const AFTER_MS: u64 = 6_000;
/// By when what was admitted is recorded if Redis answers: 2 s (docs/globe.md), and a busy machine.
const RECORD_MS: u64 = 3_000;

/// What one oracle found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    /// A short name.
    pub(crate) name: &'static str,
    /// How many things it judged.
    pub(crate) judged: u64,
    /// What was seen, in words.
    pub(crate) said: String,
    /// What was wrong.
    pub(crate) broken: Vec<String>,
}

impl Verdict {
    fn new(name: &'static str) -> Self {
        Self { name, ..Self::default() }
    }

    /// Whether something was judged, and nothing was wrong.
    pub(crate) fn held(&self) -> bool {
        self.broken.is_empty() && self.judged > 0
    }

    /// For an oracle that sees something in every run: if it did not, the run was none.
    fn demand(mut self) -> Self {
        if self.judged == 0 {
            self.breaks("nothing was judged".to_owned());
        }
        self
    }

    fn breaks(&mut self, what: String) {
        self.broken.push(what);
    }
}

/// What all oracles find.
pub(crate) fn all(history: &History) -> Vec<Verdict> {
    vec![
        answers::judge(history).demand(),
        overshoot::exact(history).demand(),
        overshoot::judge(history).demand(),
        conservation::judge(history).demand(),
        atomic::judge(history),
        views::monotone(history),
        views::ready(history).demand(),
        once::judge(history),
    ]
}

/// A part of something, rounded up.
const fn part(of: u64, times: u64, by: u64) -> u64 {
    of.saturating_mul(times).div_ceil(by)
}
