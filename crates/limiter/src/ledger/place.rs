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
//! | `>= h + 2`, and the monotonic clock agrees | both cells are past: three turns on |
//! | anything else | the wall clock jumped: the cells stay, under the names of `s + 1` and `s` |
//!
//! After a jump the clock is one window behind, so nothing fades until it has passed the next
//! boundary, and it is not believed to have done so before that much time has passed. So only time
//! that really passed makes room, and a clock that jumped a day and came back neither denies for a
//! day nor forgets what was spent.

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
    /// Bits above the sequence, which needs no more than 39.
    pub(crate) const HEARD: u64 = 1 << 50;
    /// The cell got its name by a jump of the clock, when that was one window behind.
    const RENAMED: u64 = 1 << 49;

    pub(crate) const fn new(turn: Turn, sequence: u64) -> Self {
        Self(Word::new(turn, sequence))
    }

    pub(crate) const fn turn(self) -> Turn {
        self.0.turn()
    }

    pub(crate) const fn sequence(self) -> u64 {
        self.0.count() & !(Self::HEARD | Self::RENAMED)
    }

    pub(crate) const fn has_heard(self) -> bool {
        self.0.count() & Self::HEARD != 0
    }

    const fn is_renamed(self) -> bool {
        self.0.count() & Self::RENAMED != 0
    }

    /// Another place in time, with what was heard.
    const fn to(self, turn: Turn, sequence: u64) -> Self {
        Self(Word::new(turn, sequence | (self.0.count() & Self::HEARD)))
    }

    /// The same cells under the name of `sequence`.
    const fn renamed(self, sequence: u64) -> Self {
        self.to(self.turn(), sequence | Self::RENAMED)
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
    // ORDER: acquires what the turn that began at this position released; sequentially consistent
    // for the reason given at `Register::load`.
    #[inline]
    pub(crate) fn position(&self) -> Position {
        Position(Word::from(self.front.position.load(Ordering::SeqCst)))
    }

    /// Finds the cell of `now`, turning the ledger if it is time. `None` if the ledger is not the
    /// subject's any more.
    #[inline]
    pub(crate) fn place(&self, era: u64, window: Window, now: Now) -> Option<Place> {
        let window_ms = window.as_millis();
        loop {
            let at = self.position();
            let start_ms = at.sequence().saturating_mul(window_ms);
            let elapsed_ms = now.unix_ms().wrapping_sub(start_ms);
            let (turn, heard) = (at.turn(), at.has_heard());
            if elapsed_ms < window_ms {
                return Some(Place { turn, heard, start_ms, elapsed_ms });
            }
            // After the position was read: if the era is ours, so was the position.
            if self.era() != era {
                return None;
            }
            match self.destination(at, window, now) {
                None => return Some(Place { turn, heard, start_ms, elapsed_ms: 0 }),
                Some(to) => self.turn_to(at, to, now),
            }
        }
    }

    /// Where the ledger has to move before it can decide, or `None` to decide where it stands.
    #[cold]
    fn destination(&self, at: Position, window: Window, now: Now) -> Option<Position> {
        let window_ms = window.as_millis();
        let sequence = now.unix_ms() / window_ms;
        let turned_at = self.turned_at(at.turn(), now);
        let ahead = sequence.saturating_sub(at.sequence());
        // So many whole windows lie between: those after the cell that was first used then, and
        // the cell itself if the clock had not even reached it.
        let windows = (ahead + u64::from(at.is_renamed())).saturating_sub(1);
        let passed_ms = (window_ms - window_ms / DRIFT_SHARE).saturating_mul(windows);
        let has_passed = now.monotonic_ms().saturating_sub(turned_at) >= passed_ms;
        if ahead == 1 && has_passed {
            Some(at.to(at.turn().next(), sequence))
        } else if ahead > 1 && has_passed {
            Some(at.to(at.turn().skip(), sequence))
        } else if sequence + 1 == at.sequence() {
            None
        } else if ahead == 0 && now.monotonic_ms() < turned_at {
            // The reading is from before this cell was first used: a late request, not a clock
            // that stepped back.
            None
        } else {
            Some(at.renamed(sequence + 1))
        }
    }

    /// Moves the ledger. Losing the race means that it moved already.
    #[cold]
    fn turn_to(&self, from: Position, to: Position, now: Now) {
        // Before it can be seen; and if it is another turn, in the other cell's register, so that
        // whoever sees a position sees since when it is so, and not when the next one will be.
        let since = self.turned_at(from.turn(), now).max(now.monotonic_ms());
        let alive = || self.position().turn() == from.turn();
        let turned_at = self.cell(to.turn()).turned_at;
        let _ = turned_at.write(to.turn(), alive, |held| held.max(since));
        // ORDER: releases the new turn to whoever loads the position or any word of the turn.
        let moved = self
            .front
            .position
            .compare_exchange(from.into(), to.into(), Ordering::SeqCst, Ordering::SeqCst)
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
