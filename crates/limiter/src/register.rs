//! One fact in one atomic: how much, and whose turn it is.
//!
//! A subject has two cells and uses them alternately, so a register outlives the cell it counts
//! for. Each word therefore carries the *turn* of its cell beside the count. A register whose
//! word belongs to another turn reads as zero, and the first write of the new turn replaces it:
//! a window that ends needs no step that resets anything, so none can race with a decision.
//!
//! ```text
//!   63        51 50                                                0
//!   [ turn: 13 ][ count: 51                                        ]
//! ```
//!
//! Within a turn a register only grows; `claimed` alone may fall, when a reservation is released.

use crate::request::{COST_MAX, LIMIT_MAX};
use crate::sync::{AtomicU64, Ordering, replace};

/// Bits of a word that hold the count: room for twice the largest limit.
const COUNT_BITS: u32 = 51;
/// The largest count; sums that a store reports are held there.
pub(crate) const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
/// The first turn, which comes again after the last one. There is a number below it that no turn
/// has: that less one of a turn is the turn before, or nobody's.
const FIRST: u64 = 6;
/// Where turns end. There are an even number of them, so that they alternate between two cells for
/// ever, and a multiple of three, so that three consecutive ones never share a
/// [third](Turn::third). A ledger that goes from subject to subject uses them up in milliseconds,
/// so nobody may rely on a turn alone across such a change: decisions check the era after their
/// swap, verbs before it.
const TURNS: u64 = 8_190;
/// The turn of a word that accepts nothing: its ledger is being retired, or free.
const RETIRED: u64 = 8_191;

const _: () = assert!(COUNT_MAX >= LIMIT_MAX + COST_MAX);
const _: () = assert!((TURNS - FIRST).is_multiple_of(6) && FIRST.is_multiple_of(6));
const _: () = assert!(FIRST > 0 && TURNS < RETIRED);
const _: () = assert!(RETIRED < 1 << (64 - COUNT_BITS));

/// Which use of a subject's two cells: consecutive turns are consecutive cells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Turn(u64);

impl Turn {
    pub(crate) const FIRST: Self = Self(FIRST);
    pub(crate) const RETIRED: Self = Self(RETIRED);

    /// The turn after this one.
    pub(crate) const fn next(self) -> Self {
        Self(if self.0 + 1 >= TURNS { FIRST } else { self.0 + 1 })
    }

    /// Two turns on: neither of the two that count from then on is one that counted before, so that
    /// whatever the registers hold reads as zero.
    pub(crate) const fn skip(self) -> Self {
        self.next().next()
    }

    /// The turn before this one.
    #[inline]
    pub(crate) const fn previous(self) -> Self {
        Self(if self.0 == FIRST { TURNS - 1 } else { self.0.wrapping_sub(1) })
    }

    /// Which of the two cells the turn uses: 0 or 1.
    pub(crate) const fn cell(self) -> usize {
        (self.0 & 1) as usize
    }

    /// Which of three registers is the turn's: 0, 1 or 2. A turn, the next one and the one a
    /// [`skip`](Self::skip) leads to each have another.
    pub(crate) const fn third(self) -> usize {
        (self.0 % 3) as usize
    }
}

/// A turn and a number of 51 bits in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    #[inline]
    pub(crate) const fn new(turn: Turn, count: u64) -> Self {
        debug_assert!(count <= COUNT_MAX);
        Self(turn.0 << COUNT_BITS | count)
    }

    #[inline]
    pub(crate) const fn turn(self) -> Turn {
        Turn(self.0 >> COUNT_BITS)
    }

    #[inline]
    pub(crate) const fn count(self) -> u64 {
        self.0 & COUNT_MAX
    }

    /// The count, if the word is of this turn; otherwise zero.
    #[inline]
    pub(crate) const fn count_in(self, turn: Turn) -> u64 {
        if self.turn().0 == turn.0 { self.count() } else { 0 }
    }

    /// The count, if the word is of this turn.
    #[inline]
    pub(crate) const fn count_of(self, turn: Turn) -> Option<u64> {
        // What is left of a word of the same turn is its count; of another, there is more above.
        let count = self.0 ^ (turn.0 << COUNT_BITS);
        if count <= COUNT_MAX { Some(count) } else { None }
    }

    /// Whether the words are one of the turn that `other` is of and one of the turn before. Of the
    /// first turn, it says no.
    #[inline]
    pub(crate) const fn are_of_turn_of([word, before]: [Self; 2], other: Self) -> bool {
        // What differs in no bit above the count is of the same turn.
        let differ = word.0 ^ other.0;
        let differ_before = before.0 ^ other.0.wrapping_sub(1 << COUNT_BITS);
        (differ | differ_before) >> COUNT_BITS == 0
    }

    /// The same turn with a larger count, for those who know that it is one.
    #[inline]
    pub(crate) const fn plus(self, more: u64) -> Self {
        debug_assert!(self.count() + more <= COUNT_MAX);
        Self(self.0.wrapping_add(more))
    }
}

/// What a write to a register came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Write {
    /// The register now holds the new count.
    Done,
    /// The turn has passed; its cell counts for nothing any more.
    Passed,
}

/// An atomic [`Word`].
#[derive(Debug)]
pub(crate) struct Register(AtomicU64);

impl Register {
    pub(crate) fn new(word: Word) -> Self {
        Self(AtomicU64::new(word.0))
    }

    // ORDER: acquire and release, so that whoever sees a word of a turn also sees the position
    // that began it; and sequentially consistent, so that of a claim in a cell and a turn away
    // from it one sees the other: the claimer the new position, or those who decide after the
    // turn the claim (partners: `Ledger::position`, `Ledger::turn_to`).
    #[inline]
    pub(crate) fn load(&self) -> Word {
        Word(self.0.load(Ordering::SeqCst))
    }

    /// The count, if the word is of this turn; otherwise zero.
    #[inline]
    pub(crate) fn read(&self, turn: Turn) -> u64 {
        self.load().count_in(turn)
    }

    /// Replaces the word whatever it is. Only for a ledger that nobody else can use.
    pub(crate) fn store(&self, word: Word) {
        replace(&self.0, word.0, Ordering::Release);
    }

    /// Replaces `seen` by `new` if nothing happened in between.
    #[inline]
    pub(crate) fn swap(&self, seen: Word, new: Word) -> bool {
        self.0.compare_exchange(seen.0, new.0, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Subtracts a cost that this caller added to a word of `turn`. If the turn has passed, the
    /// cost went with it.
    pub(crate) fn take_back(&self, turn: Turn, cost: u64) {
        let mut seen = self.load();
        while seen.turn() == turn {
            let new = Word::new(turn, seen.count().saturating_sub(cost));
            if self.swap(seen, new) {
                return;
            }
            seen = self.load();
        }
    }

    /// Replaces the count by `change(count)`. `alive` says whether the turn still counts: a word
    /// of another turn is a leftover if it does, and a successor if it does not. For those who
    /// keep the ledger by a claim.
    #[inline]
    pub(crate) fn write(
        &self,
        turn: Turn,
        alive: impl Fn() -> bool,
        change: impl Fn(u64) -> u64,
    ) -> Write {
        loop {
            let seen = self.load();
            if seen.turn() != turn && (seen.turn() == Turn::RETIRED || !alive()) {
                return Write::Passed;
            }
            let new = Word::new(turn, change(seen.count_in(turn)).min(COUNT_MAX));
            if new == seen || self.swap(seen, new) {
                return Write::Done;
            }
        }
    }

    /// Merges by maximum: idempotent, commutative, associative, never backward. For those who
    /// keep nothing: the ledger may be another subject's by now, with the same turn.
    pub(crate) fn raise(&self, turn: Turn, alive: impl Fn() -> bool, count: u64) -> Write {
        if !alive() {
            return Write::Passed;
        }
        self.write(turn, alive, |held| held.max(count))
    }

    /// Replaces the count. For those who keep nothing, as [`raise`](Self::raise) is.
    pub(crate) fn set(&self, turn: Turn, alive: impl Fn() -> bool, count: u64) -> Write {
        if !alive() {
            return Write::Passed;
        }
        self.write(turn, alive, |_| count)
    }

    /// Gives a leftover of an earlier turn its new turn, with nothing in it. `alive` is asked
    /// after the word was read: if the turn still is the one to begin, the word cannot be a
    /// successor's. Losing the race means that someone else began the turn.
    pub(crate) fn begin(&self, turn: Turn, alive: impl Fn() -> bool) {
        let seen = self.load();
        if seen.turn() != turn && seen.turn() != Turn::RETIRED && alive() {
            let _ = self.swap(seen, Word::new(turn, 0));
        }
    }
}

impl From<u64> for Word {
    fn from(word: u64) -> Self {
        Self(word)
    }
}

impl From<Word> for u64 {
    fn from(word: Word) -> Self {
        word.0
    }
}
