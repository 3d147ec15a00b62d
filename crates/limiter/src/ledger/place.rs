//! Where a subject's two cells stand in time.
//!
//! A wall clock that jumps must not refill a budget. The rules, for a request whose clock says
//! sequence `s` while the ledger stands at `h`:
//!
//! | `s` | what happens |
//! |---|---|
//! | `h` | the ordinary case |
//! | `h − 1` | the clock is behind, or the request is late: decided in `h`, nothing elapsed |
//! | `h + 1`, and the turn before began at least most of a window ago | the next turn |
//! | `>= h + 2`, and the monotonic clock agrees | both cells are past: two turns on |
//! | three windows have passed since `h` was first used | both cells are past: two turns on |
//! | older than `h`, and read before it was first used | a late request: decided in `h` |
//! | anything else | the wall clock jumped: the cells stay, under the names of `s + 1` and `s` |
//!
//! After a jump the clock is one window behind, so nothing fades until it has passed the next
//! boundary, and it is not believed to have done so before that much time has passed. So a clock
//! that jumped a day and came back neither denies for a day nor forgets what was spent. What a jump
//! can do nevertheless is in ADR 3.
//!
//! When a turn began is written before it begins. From a turn the ledger may go to the next one or
//! to the one after that; each of the three has a register of its own, so that who loses the race
//! to turn the ledger leaves no word where another turn's should be. Those who race for the same
//! turn write the earliest of their readings; the winner then puts it right, and says so.

use crate::register::{Register, Turn, Word};
use crate::request::Window;
use crate::sync::Ordering;
use crate::time::Now;

use super::{Ledger, WINDOWS_PAST};

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

    /// For those who compare turns.
    #[inline]
    pub(crate) const fn word(self) -> Word {
        self.0
    }

    /// The sequence, if nothing was heard and the cell has the name that it began with.
    #[inline]
    pub(crate) const fn plain_sequence(self) -> Option<u64> {
        let sequence = self.0.count();
        if sequence < Self::RENAMED { Some(sequence) } else { None }
    }

    pub(crate) const fn has_heard(self) -> bool {
        self.0.count() & Self::HEARD != 0
    }

    pub(crate) const fn is_renamed(self) -> bool {
        self.0.count() & Self::RENAMED != 0
    }

    /// The sequence of the cell of a turn, if it is the current or the previous one.
    pub(crate) fn sequence_of(self, turn: Turn) -> Option<u64> {
        if turn == self.turn() {
            Some(self.sequence())
        } else if turn == self.turn().previous() {
            Some(self.sequence().saturating_sub(1))
        } else {
            None
        }
    }

    /// The turn of the cell with this sequence, if it is the current or the previous one.
    pub(crate) fn turn_of(self, sequence: u64) -> Option<Turn> {
        [self.turn(), self.turn().previous()]
            .into_iter()
            .find(|turn| self.sequence_of(*turn) == Some(sequence))
    }

    /// The same cells under the same names, whatever was heard.
    fn is_at(self, other: Self) -> bool {
        (self.turn(), self.sequence()) == (other.turn(), other.sequence())
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

impl From<u64> for Position {
    #[inline]
    fn from(word: u64) -> Self {
        Self(Word::from(word))
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
    /// The clock has not reached the cell, or the request is late: how old the cell is, is not
    /// known.
    pub(crate) behind: bool,
}

impl Ledger<'_> {
    #[inline]
    pub(crate) fn position(&self) -> Position {
        self.front.position()
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
                return Some(Place { turn, heard, start_ms, elapsed_ms, behind: false });
            }
            // After the position was read: if the era is ours, so was the position.
            if self.era() != era {
                return None;
            }
            match self.destination(at, window, now) {
                Ok(to) => self.turn_to(at, to, now),
                Err(stay) => {
                    if let Stay::Behind = stay {
                        self.hold(era, turn, now);
                    }
                    return Some(Place { turn, heard, start_ms, elapsed_ms: 0, behind: true });
                }
            }
        }
    }

    /// Where the ledger has to move before it can decide, or why it decides where it stands.
    #[cold]
    pub(super) fn destination(
        &self,
        at: Position,
        window: Window,
        now: Now,
    ) -> Result<Position, Stay> {
        let (window_ms, sequence) = (window.as_millis(), now.unix_ms() / window.as_millis());
        let began =
            self.began(at.turn()).unwrap_or(Began { at_ms: now.monotonic_ms(), sure: false });
        if sequence + 1 == at.sequence() {
            return Err(Stay::Behind);
        }
        if sequence < at.sequence() && !(began.sure && began.at_ms <= now.monotonic_ms()) {
            // The reading is from before this cell was first used: a late request, not a clock
            // that stepped back.
            return Err(Stay::Late);
        }
        let ahead = sequence.saturating_sub(at.sequence());
        // So many whole windows lie between: those after the cell that was first used then, and
        // the cell itself if the clock had not even reached it.
        let windows = (ahead + u64::from(at.is_renamed())).saturating_sub(1);
        let most_ms = window_ms - window_ms / DRIFT_SHARE;
        let past_ms = window_ms.saturating_mul(WINDOWS_PAST);
        let passed_ms =
            if ahead == 0 { past_ms } else { most_ms.saturating_mul(windows).min(past_ms) };
        let has_passed = now.monotonic_ms().saturating_sub(began.at_ms) >= passed_ms;
        // A whole window lies between the last turn but one and the next. Who skips from here may
        // have written over when it began; then nothing is known of it.
        let since = |before: Began| now.monotonic_ms().saturating_sub(before.at_ms);
        let before = self.began(at.turn().previous());
        let steady = before.is_none_or(|before| since(before) >= most_ms);
        Ok(if ahead == 1 && has_passed && steady {
            at.to(at.turn().next(), sequence)
        } else if ahead != 1 && has_passed {
            at.to(at.turn().skip(), sequence)
        } else {
            at.renamed(sequence + 1)
        })
    }

    /// When a turn began, if that is known.
    pub(crate) fn began(&self, turn: Turn) -> Option<Began> {
        let said = self.turned_at_register(turn).load();
        (said.turn() == turn).then(|| Began::from_count(said.count()))
    }

    #[expect(clippy::indexing_slicing, reason = "three registers, and 0, 1 or 2")]
    fn turned_at_register(&self, turn: Turn) -> &Register {
        &self.back.turned_at[turn.third()]
    }

    /// The clock has not reached the current cell yet: its window has not begun before now.
    #[cold]
    fn hold(&self, era: u64, turn: Turn, now: Now) {
        let alive = || self.position().turn() == turn && self.era() == era;
        let _ = self.turned_at_register(turn).raise(turn, alive, Began::count(now.monotonic_ms()));
    }

    /// Moves the ledger. Losing the race means that it moved already.
    #[cold]
    fn turn_to(&self, from: Position, to: Position, now: Now) {
        let turn = to.turn();
        let since = self.began(from.turn()).map_or(0, |began| began.at_ms).max(now.monotonic_ms());
        let turned_at = self.turned_at_register(turn);
        let (stays, moves) = (from.turn() == turn, from.turn() != turn);
        // Before it can be seen, so that whoever sees a position sees since when it is so.
        let alive = || self.position().turn() == from.turn();
        if stays {
            let _ = turned_at.raise(turn, alive, Began::count(since));
        } else {
            let _ = turned_at.write(turn, alive, |held| Began::earliest(held, since));
        }
        if stays || to.sequence() < from.sequence() {
            // Also before it can be seen: the cells may come to a name that they had before.
            self.mark_jumped();
        }
        // ORDER: releases the new turn to whoever loads the position or any word of the turn.
        let moved = self
            .front
            .position
            .compare_exchange(from.into(), to.into(), Ordering::SeqCst, Ordering::SeqCst)
            .is_ok();
        // This thread may sleep here while others turn again: see `Register::begin`.
        let alive = || self.position().turn() == turn;
        if moved && moves {
            let _ = turned_at.raise(turn, alive, Began::count(since));
            self.cell(turn).begin(turn, alive);
            if from.turn().next() != turn {
                self.cell(turn.previous()).begin(turn.previous(), alive);
            }
        }
        if moved && stays {
            let alive = || self.position().is_at(to);
            self.cell(turn).rename(turn, alive);
            self.cell(turn.previous()).rename(turn.previous(), alive);
        }
    }
}

/// When a turn began, on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Began {
    pub(crate) at_ms: u64,
    /// It is known. Otherwise it was then or later: who turned the ledger has not said it yet.
    pub(crate) sure: bool,
}

impl Began {
    /// A bit above the time, which needs 48: so what is sure is larger than what is not.
    const SURE: u64 = 1 << 48;

    /// What a register holds of a turn that surely began then.
    pub(crate) const fn count(at_ms: u64) -> u64 {
        at_ms | Self::SURE
    }

    const fn from_count(count: u64) -> Self {
        Self { at_ms: count & !Self::SURE, sure: count & Self::SURE != 0 }
    }

    /// What a register holds of a turn that may begin at `at_ms`, or that others may have begun.
    fn earliest(held: u64, at_ms: u64) -> u64 {
        match held {
            0 => at_ms,
            held if Self::from_count(held).sure => held,
            held => held.min(at_ms),
        }
    }
}

/// Why a request whose clock names another cell is decided where the ledger stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stay {
    /// The clock is one window behind.
    Behind,
    /// The reading is old.
    Late,
}
