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

use crate::cell::Cell;
use crate::register::{Register, Turn, Word};
use crate::request::Window;
use crate::sync::{AtomicU64, Ordering};
use crate::time::Now;

pub(crate) use decide::{Claim, Look, Terms, Verdict};
pub(crate) use place::Place;
use place::Position;

/// Words of a subject's identity kept in its ledger: a header and 88 bytes of text.
pub(crate) const IDENTITY_WORDS: usize = 12;

/// Identity of a subject as its ledger keeps it.
pub(crate) type Identity = [u64; IDENTITY_WORDS];

/// A window is divided by this to say how exactly `touched` is kept: often enough to tell a jump
/// of the clock from time that passed, seldom enough that a hot subject is not written for it.
const TOUCH_SHARE: u64 = 16;

/// Everything about one subject. Five cache lines: two cells, the header, the identity.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Ledger {
    cells: [Cell; 2],
    /// Even: in use. Odd: free.
    era: AtomicU64,
    /// The current turn and its sequence.
    position: AtomicU64,
    window_ms: AtomicU64,
    /// When a decision last used the ledger, on the monotonic clock.
    touched: AtomicU64,
    /// The smallest limit that admitted something in the current cell, or else the last one that
    /// did: says what is near its limit and what is worth publishing.
    limit: AtomicU64,
    /// Until when, on the monotonic clock, admissions are checked with the region first.
    strict_until: AtomicU64,
    /// The largest limit exhausted while strict: requests above it are not concerned.
    strict_limit: AtomicU64,
    /// The eviction sweep during which the ledger was taken into use: part of its component.
    life: AtomicU64,
    digest: [AtomicU64; 2],
    /// What of each cell's `claimed` is held by batches in flight. Says why a request is denied;
    /// no verdict depends on it.
    reserved: [Register; 2],
    identity: [AtomicU64; IDENTITY_WORDS],
}

const _: () = assert!(size_of::<Ledger>() == 5 * 64 || cfg!(any(loom, shuttle)));

/// How a new ledger starts.
pub(crate) struct Founding<'a> {
    pub(crate) window: Window,
    pub(crate) identity: &'a Identity,
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

impl Ledger {
    /// A ledger that is free: nothing can be claimed in it.
    pub(crate) fn free() -> Self {
        Self {
            cells: [Cell::new(Turn::RETIRED), Cell::new(Turn::RETIRED)],
            era: AtomicU64::new(1),
            position: AtomicU64::new(Position::new(Turn::FIRST, 0).into()),
            window_ms: AtomicU64::new(1),
            touched: AtomicU64::new(0),
            limit: AtomicU64::new(0),
            strict_until: AtomicU64::new(0),
            strict_limit: AtomicU64::new(0),
            life: AtomicU64::new(0),
            digest: [AtomicU64::new(0), AtomicU64::new(0)],
            reserved: [0, 1].map(|_| Register::new(Word::new(Turn::FIRST, 0))),
            identity: std::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    /// Takes a free ledger into use and returns its era. Only one thread at a time may call this
    /// for a ledger, and only between [`Ledger::free`] or [`Ledger::retire`] and the moment it
    /// is published.
    pub(crate) fn found(&self, founding: &Founding<'_>, now: Now) -> u64 {
        let window_ms = founding.window.as_millis();
        // Two turns on: no register can hold a word of the new turns.
        let turn = self.position().turn().next().next();
        let position = Position::new(turn, now.unix_ms() / window_ms);
        for (word, value) in self.identity.iter().zip(founding.identity) {
            word.store(*value, Ordering::Relaxed);
        }
        for (word, value) in self.digest.iter().zip(founding.digest) {
            word.store(value, Ordering::Relaxed);
        }
        self.window_ms.store(window_ms, Ordering::Relaxed);
        self.touched.store(now.monotonic_ms(), Ordering::Relaxed);
        self.limit.store(0, Ordering::Relaxed);
        self.strict_until.store(0, Ordering::Relaxed);
        self.strict_limit.store(0, Ordering::Relaxed);
        self.life.store(founding.life, Ordering::Relaxed);
        self.position.store(position.into(), Ordering::Relaxed);
        self.cell(turn).reset(turn);
        self.cell(turn.previous()).reset(turn.previous());
        self.reserved(turn).store(Word::new(turn, 0));
        self.reserved(turn.previous()).store(Word::new(turn.previous(), 0));
        // ORDER: releases all of the above to whoever loads the even era (partner: `era`).
        self.era.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// Closes the ledger if nothing is claimed and `may` agrees, and makes it free. The caller
    /// holds the lock of the structure: nobody else retires or founds.
    pub(crate) fn retire(&self, may: impl Fn() -> bool) -> bool {
        let [first, second] = &self.cells;
        let seen = [first.claimed.load(), second.claimed.load()];
        if first.has_claims() || second.has_claims() || !may() {
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
        self.era.fetch_add(1, Ordering::AcqRel);
        true
    }

    /// Even if the ledger is in use.
    // ORDER: acquires what `found` released; loads before it in program order acquire too, so it
    // cannot move ahead of them (partner: `found`, `retire`).
    pub(crate) fn era(&self) -> u64 {
        self.era.load(Ordering::Acquire)
    }

    /// Whether this is the ledger of that subject. Meaningful only if the era is the same before
    /// and after.
    pub(crate) fn is_of(&self, identity: &[u64], window: Window) -> bool {
        // ORDER: acquire keeps these loads ahead of the second look at the era.
        self.window_ms.load(Ordering::Acquire) == window.as_millis()
            && self
                .identity
                .iter()
                .zip(identity)
                .all(|(word, expected)| word.load(Ordering::Acquire) == *expected)
    }

    /// The 16-byte name under which the subject is known outside this process.
    pub(crate) fn digest(&self) -> [u64; 2] {
        let [high, low] = &self.digest;
        [high.load(Ordering::Acquire), low.load(Ordering::Acquire)]
    }

    /// The eviction sweep during which the ledger was taken into use.
    pub(crate) fn life(&self) -> u64 {
        self.life.load(Ordering::Acquire)
    }

    /// The strict deadline on the monotonic clock and the largest limit it concerns.
    pub(crate) fn strict(&self) -> (u64, u64) {
        (self.strict_until.load(Ordering::Acquire), self.strict_limit.load(Ordering::Acquire))
    }

    pub(crate) fn cell(&self, turn: Turn) -> &Cell {
        let [even, odd] = &self.cells;
        if turn.is_odd() { odd } else { even }
    }

    fn reserved(&self, turn: Turn) -> &Register {
        let [even, odd] = &self.reserved;
        if turn.is_odd() { odd } else { even }
    }

    /// Whether cells of this turn still count, in this era.
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
        let window_ms = self.window_ms.load(Ordering::Acquire).max(1);
        let idle_ms = now.monotonic_ms().saturating_sub(self.touched.load(Ordering::Acquire));
        let strict = self.strict_until.load(Ordering::Acquire) > now.monotonic_ms();
        let turn = self.position().turn();
        let unrecorded = |turn| {
            let cell = self.cell(turn);
            regional && cell.mine.read(turn) > cell.acked.read(turn)
        };
        // `touched` lags by up to a share of a window; the third window covers it.
        let expired = !strict && idle_ms >= window_ms.saturating_mul(3);
        let view = self.view(turn);
        let limit = self.limit.load(Ordering::Acquire).max(1);
        let used = view.current.max(view.previous);
        Standing {
            expired,
            dirty: !expired && (unrecorded(turn) || unrecorded(turn.previous())),
            use_share: used.saturating_mul(1_024) / limit,
            idle_ms,
        }
    }

    /// One compare-and-swap, on a word that nothing else needs in a benchmark.
    #[cfg(feature = "bench")]
    pub(crate) fn swap_one_word(&self) -> bool {
        let seen = self.life.load(Ordering::Acquire);
        let new = seen.wrapping_add(1);
        self.life.compare_exchange(seen, new, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Remembers that the ledger is in use.
    fn touch(&self, window: Window, now: Now) {
        let touched = self.touched.load(Ordering::Relaxed);
        let stale_ms = now.monotonic_ms().saturating_sub(touched);
        if stale_ms >= window.as_millis() / TOUCH_SHARE {
            // ORDER: a hint; the larger of two racing readings is as good as the other.
            self.touched.fetch_max(now.monotonic_ms(), Ordering::Release);
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
