//! Where a subject's two cells stand in time.
//!
//! A wall clock that jumps must not refill a budget. The rules, for a request whose clock says
//! sequence `s` while the ledger stands at `h`:
//!
//! | `s` | what happens |
//! |---|---|
//! | `h` | the ordinary case |
//! | `h − 1` | the clock is behind, or the request is late: decided in `h`, nothing elapsed |
//! | `h + 1` | the next turn: the current cell becomes the previous one |
//! | `>= h + 2`, and the monotonic clock agrees | both cells are past: two turns on |
//! | anything else | the wall clock jumped: the cells stay as they are and change their names |
//!
//! So only time that really passed makes room, and a clock that jumped a day and came back
//! neither denies for a day nor forgets what was spent.

use crate::register::{Turn, Word};
use crate::request::Window;
use crate::sync::Ordering;
use crate::time::Now;

use super::Ledger;

/// How much of each window the monotonic clock may miss before the wall clock is said to have
/// jumped: one part in sixteen, far more than clocks drift.
const DRIFT_SHARE: u64 = 16;

/// The current turn and the sequence of its cell, in one word, and whether anything was heard of
/// others: if not, decisions need not look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position(Word);

impl Position {
    /// The bit above the sequence, which needs no more than 39.
    pub(crate) const HEARD: u64 = 1 << 50;

    pub(crate) const fn new(turn: Turn, sequence: u64) -> Self {
        Self(Word::new(turn, sequence))
    }

    pub(crate) const fn turn(self) -> Turn {
        self.0.turn()
    }

    pub(crate) const fn sequence(self) -> u64 {
        self.0.count() & !Self::HEARD
    }

    pub(crate) const fn has_heard(self) -> bool {
        self.0.count() & Self::HEARD != 0
    }

    /// Another place in time, with what was heard.
    const fn to(self, turn: Turn, sequence: u64) -> Self {
        Self(Word::new(turn, sequence | (self.0.count() & Self::HEARD)))
    }
}

impl From<Position> for u64 {
    fn from(position: Position) -> Self {
        position.0.into()
    }
}

/// The cell a request is decided in, and how far into its window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) turn: Turn,
    /// Others have used the subject too.
    pub(crate) heard: bool,
    pub(crate) start_ms: u64,
    pub(crate) elapsed_ms: u64,
}

impl Ledger<'_> {
    // ORDER: acquires what the turn that began at this position released.
    #[inline]
    pub(crate) fn position(&self) -> Position {
        Position(Word::from(self.front.position.load(Ordering::Acquire)))
    }

    /// Finds the cell of `now`, turning the ledger if it is time.
    #[inline]
    pub(crate) fn place(&self, window: Window, now: Now) -> Place {
        let window_ms = window.as_millis();
        loop {
            let at = self.position();
            let start_ms = at.sequence().saturating_mul(window_ms);
            let elapsed_ms = now.unix_ms().wrapping_sub(start_ms);
            let (turn, heard) = (at.turn(), at.has_heard());
            if elapsed_ms < window_ms {
                return Place { turn, heard, start_ms, elapsed_ms };
            }
            match self.destination(at, window, now) {
                None => return Place { turn, heard, start_ms, elapsed_ms: 0 },
                Some(to) => self.turn_to(at, to, now),
            }
        }
    }

    /// Where the ledger has to move before it can decide, or `None` to decide where it stands.
    #[cold]
    fn destination(&self, at: Position, window: Window, now: Now) -> Option<Position> {
        let window_ms = window.as_millis();
        let sequence = now.unix_ms() / window_ms;
        let turned_at = self.back.turned_at.load(Ordering::Acquire);
        let ahead = sequence.saturating_sub(at.sequence());
        // If it was first used in its cell then, this much has passed at least since.
        let passed_ms = (window_ms - window_ms / DRIFT_SHARE).saturating_mul(ahead.wrapping_sub(1));
        let has_passed = now.monotonic_ms().saturating_sub(turned_at) >= passed_ms;
        if ahead == 1 {
            Some(at.to(at.turn().next(), sequence))
        } else if ahead > 1 && has_passed {
            Some(at.to(at.turn().next().next(), sequence))
        } else if sequence + 1 == at.sequence() {
            None
        } else if ahead == 0 && now.monotonic_ms() < turned_at {
            // The reading is from before this cell was first used: a late request, not a clock
            // that stepped back.
            None
        } else {
            Some(at.to(at.turn(), sequence))
        }
    }

    /// Moves the ledger. Losing the race means that it moved already.
    #[cold]
    fn turn_to(&self, from: Position, to: Position, now: Now) {
        if from.turn() != to.turn() {
            // Before the turn can be seen, so that a request with an older reading is known to be
            // late and not taken for a clock that stepped back.
            self.back.turned_at.fetch_max(now.monotonic_ms(), Ordering::AcqRel);
        }
        // ORDER: releases the new turn to whoever loads the position or any word of the turn.
        let moved = self
            .front
            .position
            .compare_exchange(from.into(), to.into(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if moved && from.turn() != to.turn() {
            let turn = to.turn();
            // This thread may sleep here while others turn again: see `Register::begin`.
            let alive = || self.position().turn() == turn;
            self.cell(turn).begin(turn, alive);
            if from.turn().next() != turn {
                self.cell(turn.previous()).begin(turn.previous(), alive);
            }
        }
    }
}
