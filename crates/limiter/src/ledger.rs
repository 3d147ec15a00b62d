//! All that is kept of one subject: two cells that take turns, and where in time they stand.
//!
//! Ledgers are never freed, only used again for another subject, so a decision may meet one that
//! was retired under its feet. Three facts make that harmless, without a lock or a pin:
//!
//! 1. the *era* of a ledger is raised when it is retired and when it is used again;
//! 2. retiring closes both `claimed` words first, and only if nothing is claimed: a claim keeps
//!    its ledger, and a compare-and-swap on a closed word fails;
//! 3. a decision looks at the era again after its compare-and-swap (or, for a denial, after its
//!    last load). If it is the one it looked up, the claim is on the right subject and now keeps
//!    the ledger there; if not, the claim is taken back before `mine` ever saw it.

mod decide;
mod place;

use crate::cell::{Cell, Heard, Marks, Spent};
use crate::register::{Turn, Word};
use crate::request::Window;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Now;

pub(crate) use decide::{Claim, Denied, Look, Refusal, Terms, Verdict};
pub(crate) use place::Place;
use place::Position;

/// What every decision reads and swaps: one cache line, because on a large table the cost of a
/// decision is the number of lines it has to wait for.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Front {
    /// Even: in use. Odd: free.
    era: AtomicU64,
    /// The current turn and its sequence.
    position: AtomicU64,
    fingerprint: [AtomicU64; 2],
    spent: [Spent; 2],
}

/// What a decision reads only if there is a reason to: others have used the subject too, the
/// limit is near or exhausted, a window begins.
#[derive(Debug)]
pub(crate) struct Back {
    heard: [Heard; 2],
    /// Until when, on the monotonic clock, admissions are checked with the region first.
    strict_until: AtomicU64,
    /// The largest limit exhausted while strict: requests above it are not concerned.
    strict_limit: AtomicU64,
    marks: [Marks; 2],
    window_ms: AtomicU64,
    /// The eviction sweep during which the ledger was taken into use: part of its component.
    life: AtomicU64,
    digest: [AtomicU64; 2],
}

const _: () = assert!(size_of::<Front>() == 64 || cfg!(any(loom, shuttle)));

impl Front {
    /// The front of a ledger that is free: nothing can be claimed in it.
    pub(crate) fn free() -> Self {
        let both = [0, 1];
        Self {
            era: AtomicU64::new(1),
            position: AtomicU64::new(Position::new(Turn::FIRST, 0).into()),
            fingerprint: both.map(AtomicU64::new),
            spent: both.map(|_| Spent::new(Turn::RETIRED)),
        }
    }
}

impl Back {
    /// The back of a ledger that is free.
    pub(crate) fn free() -> Self {
        let both = [0, 1];
        Self {
            heard: both.map(|_| Heard::new(Turn::RETIRED)),
            strict_until: AtomicU64::new(0),
            strict_limit: AtomicU64::new(0),
            marks: both.map(|_| Marks::new(Turn::RETIRED)),
            window_ms: AtomicU64::new(1),
            life: AtomicU64::new(0),
            digest: both.map(AtomicU64::new),
        }
    }
}

/// Everything about one subject.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ledger<'a> {
    front: &'a Front,
    back: &'a Back,
}

/// How a new ledger starts.
pub(crate) struct Founding {
    pub(crate) window: Window,
    pub(crate) fingerprint: [u64; 2],
    pub(crate) digest: [u64; 2],
    pub(crate) life: u64,
}

/// What an eviction weighs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Both cells have left the sliding window, by the monotonic clock.
    pub(crate) expired: bool,
    /// Something is claimed, or the regional store has not recorded everything.
    pub(crate) dirty: bool,
    /// Use of the smallest limit, in 1/1024; above 512 is more than half.
    pub(crate) use_share: u64,
    pub(crate) idle_ms: u64,
}

impl<'a> Ledger<'a> {
    #[inline]
    pub(crate) const fn new(front: &'a Front, back: &'a Back) -> Self {
        Self { front, back }
    }

    /// Takes a free ledger into use and returns its era. Only one thread at a time may call this
    /// for a ledger, and only between [`Ledger::free`] or [`Ledger::retire`] and the moment it
    /// is published.
    pub(crate) fn found(&self, founding: &Founding, now: Now) -> u64 {
        let window_ms = founding.window.as_millis();
        // Two turns on: no register can hold a word of the new turns.
        let turn = self.position().turn().next().next();
        let position = Position::new(turn, now.unix_ms() / window_ms);
        for (word, value) in self.front.fingerprint.iter().zip(founding.fingerprint) {
            word.store(value, Ordering::Relaxed);
        }
        for (word, value) in self.back.digest.iter().zip(founding.digest) {
            word.store(value, Ordering::Relaxed);
        }
        self.back.window_ms.store(window_ms, Ordering::Relaxed);
        self.back.life.store(founding.life, Ordering::Relaxed);
        self.back.strict_until.store(0, Ordering::Relaxed);
        self.back.strict_limit.store(0, Ordering::Relaxed);
        self.front.position.store(position.into(), Ordering::Relaxed);
        self.cell(turn).reset(turn);
        self.cell(turn.previous()).reset(turn.previous());
        self.cell(turn).turned_at.store(Word::new(turn, now.monotonic_ms()));
        // ORDER: releases all of the above to whoever loads the even era (partner: `era`).
        self.front.era.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Closes the ledger if nothing is claimed and `may` agrees, and makes it free. The caller
    /// holds the lock of the structure: nobody else retires or founds.
    pub(crate) fn retire(&self, may: impl Fn() -> bool) -> bool {
        let (first, second) = (self.cell(Turn::FIRST), self.cell(Turn::FIRST.next()));
        let seen = [first.claimed.load(), second.claimed.load()];
        let current = self.position().turn();
        // Judged by the very words that are swapped below. A claim in a cell that has passed
        // keeps nothing: it will be told so.
        let keeps = |cell: Cell<'_>, seen: Word| {
            let counts = seen.turn() == current || seen.turn() == current.previous();
            counts && cell.has_claims(seen)
        };
        if keeps(first, seen[0]) || keeps(second, seen[1]) || !may() {
            return false;
        }
        let closed = Word::new(Turn::RETIRED, 0);
        // A word that moved since it was loaded has a new claim on it: the ledger stays.
        if !first.claimed.swap(seen[0], closed) {
            return false;
        }
        if !second.claimed.swap(seen[1], closed) {
            first.claimed.store(seen[0]);
            return false;
        }
        self.front.era.fetch_add(1, Ordering::AcqRel);
        true
    }

    /// Even if the ledger is in use.
    // ORDER: acquires what `found` released; loads before it in program order acquire too, so it
    // cannot move ahead of them (partner: `found`, `retire`).
    #[inline]
    pub(crate) fn era(&self) -> u64 {
        self.front.era.load(Ordering::Acquire)
    }

    /// Whether this is the ledger of the subject with that fingerprint. Meaningful only if the
    /// era is the same before and after.
    #[inline]
    pub(crate) fn is_of(&self, fingerprint: [u64; 2]) -> bool {
        // ORDER: acquire keeps these loads ahead of the second look at the era.
        let [low, high] = &self.front.fingerprint;
        [low.load(Ordering::Acquire), high.load(Ordering::Acquire)] == fingerprint
    }

    /// Whether both are the same memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.front, other.front)
    }

    /// A number by which all ledgers can be ordered.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self.front).addr()
    }

    /// The 16-byte name under which the subject is known outside this process.
    pub(crate) fn digest(&self) -> [u64; 2] {
        let [high, low] = &self.back.digest;
        [high.load(Ordering::Acquire), low.load(Ordering::Acquire)]
    }

    /// The eviction sweep during which the ledger was taken into use.
    pub(crate) fn life(&self) -> u64 {
        self.back.life.load(Ordering::Acquire)
    }

    /// The strict deadline on the monotonic clock and the largest limit it concerns.
    pub(crate) fn strict(&self) -> (u64, u64) {
        (
            self.back.strict_until.load(Ordering::Acquire),
            self.back.strict_limit.load(Ordering::Acquire),
        )
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "two cells, and 0 or 1")]
    pub(crate) fn cell(&self, turn: Turn) -> Cell<'a> {
        let at = turn.cell();
        Cell::of(&self.front.spent[at], &self.back.heard[at], &self.back.marks[at])
    }

    /// From now on decisions look at what was heard of others.
    pub(crate) fn mark_heard(&self) {
        // ORDER: after the register was raised, so that whoever sees the mark sees the count.
        self.front.position.fetch_or(Position::HEARD, Ordering::AcqRel);
    }

    /// Whether cells of this turn still count, in this era.
    #[inline]
    pub(crate) fn is_alive(&self, era: u64, turn: Turn) -> bool {
        let current = self.position().turn();
        (current == turn || current.previous() == turn) && self.era() == era
    }

    /// The turn of the cell with this sequence, if it is the current or the previous one.
    pub(crate) fn turn_of(&self, sequence: u64) -> Option<Turn> {
        let position = self.position();
        if position.sequence() == sequence {
            Some(position.turn())
        } else if position.sequence() == sequence.saturating_add(1) {
            Some(position.turn().previous())
        } else {
            None
        }
    }

    /// What an eviction needs to know. `regional` says whether there is a store to be dirty to.
    pub(crate) fn standing(&self, now: Now, regional: bool) -> Standing {
        let window_ms = self.back.window_ms.load(Ordering::Acquire).max(1);
        let strict = self.back.strict_until.load(Ordering::Acquire) > now.monotonic_ms();
        let turn = self.position().turn();
        let idle_ms = now.monotonic_ms().saturating_sub(self.turned_at(turn, now));
        let unrecorded = |turn| {
            let cell = self.cell(turn);
            regional && cell.mine.read(turn) > cell.acked.read(turn)
        };
        // One window in which it was the current cell, one as the previous, one for clocks.
        let expired = !strict && idle_ms >= window_ms.saturating_mul(3);
        let share = |turn| {
            let cell = self.cell(turn);
            let used = cell.claimed.read(turn).saturating_add(cell.told(turn));
            used.saturating_mul(1_024) / cell.limit.read(turn).max(1)
        };
        Standing {
            expired,
            dirty: !expired && (unrecorded(turn) || unrecorded(turn.previous())),
            use_share: share(turn).max(share(turn.previous())),
            idle_ms,
        }
    }

    /// When the cell of the current turn was first used, on the monotonic clock. Two who turn the
    /// ledger differently at one moment can leave it unsaid; then it is now.
    pub(crate) fn turned_at(&self, turn: Turn, now: Now) -> u64 {
        let register = self.cell(turn).turned_at;
        let said = register.load();
        if said.turn() == turn {
            return said.count();
        }
        let alive = || self.position().turn() == turn;
        let _ = register.write(turn, alive, |held| held.max(now.monotonic_ms()));
        now.monotonic_ms()
    }

    /// One compare-and-swap that changes nothing.
    #[cfg(feature = "bench")]
    pub(crate) fn swap_one_word(&self) -> bool {
        let word = self.cell(Turn::FIRST).claimed;
        let seen = word.load();
        word.swap(seen, seen)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
