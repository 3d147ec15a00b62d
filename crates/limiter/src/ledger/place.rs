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
//! | `>= h + 2`, and the monotonic clock agrees that time passed | both cells are past: two turns |
//! | anything else | the wall clock jumped: the cells stay as they are and change their names |
//!
//! So only time that really passed makes room, and a clock that jumped a day and came back
//! neither denies for a day nor forgets what was spent.

use crate::register::{Turn, Word};
use crate::request::Window;
use crate::sync::Ordering;
use crate::time::Now;

use super::{Ledger, TOUCH_SHARE};

/// The current turn and the sequence of its cell, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Position(Word);

impl Position {
    pub(crate) fn new(turn: Turn, sequence: u64) -> Self {
        Self(Word::new(turn, sequence))
    }

    pub(crate) fn turn(self) -> Turn {
        self.0.turn()
    }

    pub(crate) const fn sequence(self) -> u64 {
        self.0.count()
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
    pub(crate) start_ms: u64,
    pub(crate) elapsed_ms: u64,
}

impl Ledger {
    // ORDER: acquires what the turn that began at this position released.
    pub(crate) fn position(&self) -> Position {
        Position(Word::from(self.position.load(Ordering::Acquire)))
    }

    /// Finds the cell of `now`, turning the ledger if it is time.
    #[inline]
    pub(crate) fn place(&self, window: Window, now: Now) -> Place {
        let window_ms = window.as_millis();
        loop {
            let at = self.position();
            let start_ms = at.sequence().saturating_mul(window_ms);
            let elapsed_ms = now.unix_ms().wrapping_sub(start_ms);
            if elapsed_ms < window_ms {
                return Place { turn: at.turn(), start_ms, elapsed_ms };
            }
            match self.destination(at, window, now) {
                None => return Place { turn: at.turn(), start_ms, elapsed_ms: 0 },
                Some(to) => self.turn_to(at, to, now),
            }
        }
    }

    /// Where the ledger has to move before it can decide, or `None` to decide where it stands.
    #[cold]
    fn destination(&self, at: Position, window: Window, now: Now) -> Option<Position> {
        let window_ms = window.as_millis();
        let sequence = now.unix_ms() / window_ms;
        let touched = self.touched.load(Ordering::Acquire);
        let idle_ms = now.monotonic_ms().saturating_sub(touched);
        // `touched` is kept to a share of a window, so this much idleness is a whole window.
        let a_window_passed = idle_ms >= window_ms - window_ms / TOUCH_SHARE;
        if sequence == at.sequence() + 1 {
            Some(Position::new(at.turn().next(), sequence))
        } else if sequence > at.sequence() && a_window_passed {
            Some(Position::new(at.turn().next().next(), sequence))
        } else if sequence + 1 == at.sequence() {
            None
        } else if sequence < at.sequence() && now.monotonic_ms() < touched {
            // The reading is older than the ledger's last use: a late request, not a clock that
            // stepped back.
            None
        } else {
            Some(Position::new(at.turn(), sequence))
        }
    }

    /// Moves the ledger. Losing the race means that it moved already.
    fn turn_to(&self, from: Position, to: Position, now: Now) {
        if from.turn() != to.turn() {
            // Before the turn can be seen, so that a request with an older reading is known to be
            // late and not taken for a clock that stepped back.
            self.touched.fetch_max(now.monotonic_ms(), Ordering::AcqRel);
        }
        // ORDER: releases the new turn to whoever loads the position or any word of the turn.
        let moved = self
            .position
            .compare_exchange(from.into(), to.into(), Ordering::AcqRel, Ordering::Acquire)
            .is_ok();
        if moved && from.turn() != to.turn() {
            let turn = to.turn();
            self.cell(turn).begin(turn);
            self.reserved(turn).begin(turn);
            if from.turn().next() != turn {
                self.cell(turn.previous()).begin(turn.previous());
                self.reserved(turn.previous()).begin(turn.previous());
            }
        }
    }
}
