//! All that is kept of one subject: two cells that take turns, and where in time they stand.
//!
//! Ledgers are never freed, only used again for another subject, so a decision may meet one that
//! was retired under its feet. Three facts make that harmless, without a lock or a pin:
//!
//! 1. the *era* of a ledger is another when it is retired and when it is used again;
//! 2. retiring closes both `claimed` words first, and only if nothing is claimed: a claim keeps
//!    its ledger, and a compare-and-swap on a closed word fails;
//! 3. a decision looks at the era again after its compare-and-swap (or, for a denial, after its
//!    last load). If it is the one it looked up, the claim is on the right subject and now keeps
//!    the ledger there; if not, the claim is taken back before `mine` ever saw it.

mod at_once;
mod decide;
mod peek;
mod place;
mod region;

use crate::cell::{Cell, Heard, Marks, Spent};
use crate::planted::{self, Planted};
use crate::register::{Register, Turn, Word};
use crate::request::{WINDOW_MS_MAX, Window};
use crate::sync::{AtomicU64, Ordering, replace};
use crate::time::Now;

pub(crate) use at_once::{Admitted, Conditions, Glance, Sighting, Undecided, is_near};
pub(crate) use decide::{Claim, Denied, Look, Refusal, Terms, Verdict};
pub(crate) use peek::{Held, Peek, would_ask};
use place::Began;
pub(crate) use place::Place;
pub(crate) use place::Position;
pub(crate) use region::credit_of;
pub use region::{Freshness, Reason};

/// What every decision reads and swaps: one cache line, because on a large table the cost of a
/// decision is the number of lines it has to wait for. It and the back are words of 64 bits and
/// nothing else, which the table relies on.
#[derive(Debug)]
pub(crate) struct Front {
    /// In the high half how often it was taken into use or retired, which is odd while it is in
    /// use; in the low half its name, which never changes.
    era: AtomicU64,
    /// The current turn and its sequence.
    position: AtomicU64,
    fingerprint: [AtomicU64; 2],
    spent: [Spent; 2],
}

/// What a decision reads only if there is a reason to: the process is one of several, the limit is
/// near or exhausted, a window begins. What it reads in a region stands together at the beginning:
/// left to the compiler it was in four lines.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Back {
    /// Until when, on the monotonic clock, admissions are checked with the region first.
    strict_until: AtomicU64,
    /// How many processes use the subject, or may: their shares of the room are that small.
    company: AtomicU64,
    heard: [Heard; 2],
    marks: [Marks; 2],
    /// The largest limit exhausted while strict: requests above it are not concerned.
    strict_limit: AtomicU64,
    /// Until when, on the monotonic clock, the region is not asked again after it did not answer.
    retry_at: AtomicU64,
    /// When a turn [began](Began). Written before it begins, so there is one for the current turn
    /// and one for each that may follow it.
    turned_at: [Register; 3],
    /// The length of the window, in the low half; in the high half the eviction sweep during which
    /// the ledger was taken into use, which is part of its component.
    kind: AtomicU64,
    digest: [AtomicU64; 2],
}

/// What is added to an era when a ledger is retired, and when it is used again. A number comes
/// again after two billion subjects: nobody looks at one ledger for as long.
const ERA: u64 = 1 << 32;

/// Whether a ledger is in use in this era. One that was never made is not: its era is 0.
#[inline]
pub(crate) const fn is_in_use(era: u64) -> bool {
    era & ERA != 0
}

/// What the ledger of an era is called.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the low half")]
pub(crate) const fn name_of(era: u64) -> u32 {
    era as u32
}

/// After so many windows on the monotonic clock neither cell of a subject counts: one in which it
/// was the current one, one as the previous, one for clocks.
const WINDOWS_PAST: u64 = 3;
/// The least [use](Standing::use_share) that is more than half.
const ABOVE_HALF: u64 = 513;

/// The mark of a jump in the word that holds window and life.
const JUMPED: u64 = 1 << 63;

const _: () = assert!(WINDOW_MS_MAX <= u32::MAX as u64);

impl Front {
    /// The front of a ledger of that name that is free: nothing can be claimed in it.
    pub(crate) fn free(name: u32) -> Self {
        let both = [0, 1];
        Self {
            era: AtomicU64::new(name.into()),
            position: AtomicU64::new(Position::new(Turn::FIRST, 0).into()),
            fingerprint: both.map(AtomicU64::new),
            spent: both.map(|_| Spent::new(Turn::RETIRED)),
        }
    }

    /// [`Ledger::era`].
    // ORDER: acquires what `found` released; loads before it in program order acquire too, so it
    // cannot move ahead of them (partner: `found`, `retire`).
    #[inline]
    pub(crate) fn era(&self) -> u64 {
        self.era.load(Ordering::Acquire)
    }

    /// [`Ledger::is_of`].
    #[inline]
    pub(crate) fn is_of(&self, fingerprint: [u64; 2]) -> bool {
        // ORDER: acquire keeps these loads ahead of the second look at the era.
        self.fingerprint.each_ref().map(|word| word.load(Ordering::Acquire)) == fingerprint
    }

    /// [`Ledger::position`].
    // ORDER: acquires what the turn that began at this position released; sequentially consistent
    // for the reason given at `Register::load`.
    #[inline]
    fn position(&self) -> Position {
        Position::from(self.position.load(Ordering::SeqCst))
    }

    #[inline]
    #[expect(clippy::indexing_slicing, reason = "two cells, and 0 or 1")]
    fn spent(&self, turn: Turn) -> &Spent {
        &self.spent[turn.cell()]
    }

    /// What is claimed in the cell of a turn and in the one before it.
    #[inline(always)]
    fn claimed(&self, turn: Turn) -> [Word; 2] {
        [self.spent(turn).claimed.load(), self.spent(turn.previous()).claimed.load()]
    }
}

impl Back {
    /// The back of a ledger that is free.
    pub(crate) fn free() -> Self {
        let both = [0, 1];
        Self {
            strict_until: AtomicU64::new(0),
            company: AtomicU64::new(0),
            heard: both.map(|_| Heard::new(Turn::RETIRED)),
            marks: both.map(|_| Marks::new(Turn::RETIRED)),
            strict_limit: AtomicU64::new(0),
            retry_at: AtomicU64::new(0),
            turned_at: [0, 1, 2].map(|_| Register::new(Word::new(Turn::FIRST, 0))),
            kind: AtomicU64::new(1),
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
    pub(crate) life: u32,
}

/// What an eviction weighs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Standing {
    /// Both cells have left the sliding window, by both clocks.
    pub(crate) expired: bool,
    /// The regional store has not recorded everything.
    pub(crate) dirty: bool,
    /// Use of the smallest limit, in 1/1024; above 512 is more than half. Strict is more than half.
    pub(crate) use_share: u64,
    pub(crate) idle_ms: u64,
}

impl<'a> Ledger<'a> {
    #[inline]
    pub(crate) const fn new(front: &'a Front, back: &'a Back) -> Self {
        Self { front, back }
    }

    /// Reads words of the back that are a line apart at most; the front was read by who found it.
    #[inline]
    pub(crate) fn warm(&self) {
        let Back { strict_until, heard, turned_at, digest, .. } = self.back;
        let words = [strict_until, &digest[1]].map(|word| word.load(Ordering::Relaxed));
        let registers = [heard[0].last(), heard[1].last(), &turned_at[2]].map(Register::load);
        std::hint::black_box((words, registers));
    }

    /// Reads a word of the front and, if the process is one of several, one of each line of the
    /// back that an ordinary admission then reads.
    #[inline(always)]
    pub(crate) fn read_ahead(&self, regional: bool) {
        // ORDER: relaxed. Nothing depends on what is read.
        std::hint::black_box(self.front.era.load(Ordering::Relaxed));
        if regional {
            let Back { strict_until, heard: [first, second], .. } = self.back;
            let registers = [first, second].map(|heard| heard.last().load());
            std::hint::black_box((strict_until.load(Ordering::Relaxed), registers));
        }
    }

    /// Takes a free ledger into use and returns its era. Only one thread at a time may call this
    /// for a ledger, and only between [`Front::free`] or [`Ledger::retire`] and the moment it
    /// is published.
    pub(crate) fn found(&self, founding: &Founding, now: Now) -> u64 {
        let window_ms = founding.window.as_millis();
        // Two turns on: no register can hold a word of the new turns.
        let turn = self.position().turn().next().next();
        let position = Position::new(turn, now.unix_ms() / window_ms);
        // ORDER: each releases the era of a free one: whoever reads what is the newcomer's, and the
        // era afterwards, does not find the old one (partners: `is_of`, `position`, `digest`,
        // `life`).
        for (word, value) in self.front.fingerprint.iter().zip(founding.fingerprint) {
            word.store(value, Ordering::Release);
        }
        for (word, value) in self.back.digest.iter().zip(founding.digest) {
            word.store(value, Ordering::Release);
        }
        self.back.kind.store(u64::from(founding.life) << 32 | window_ms, Ordering::Release);
        self.back.retry_at.store(0, Ordering::Relaxed);
        self.back.company.store(0, Ordering::Relaxed);
        self.back.strict_until.store(0, Ordering::Relaxed);
        self.back.strict_limit.store(0, Ordering::Relaxed);
        replace(&self.front.position, position.into(), Ordering::Release);
        self.cell(turn).reset(turn);
        self.cell(turn.previous()).reset(turn.previous());
        // Nothing is known of other turns: in their registers, a word of this turn says nothing.
        for register in &self.back.turned_at {
            register.store(Word::new(turn, Began::count(now.monotonic_ms())));
        }
        // ORDER: releases all of the above to whoever loads the new era (partner: `era`).
        self.front.era.fetch_add(ERA, Ordering::AcqRel).wrapping_add(ERA)
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
        self.front.era.fetch_add(ERA, Ordering::AcqRel);
        true
    }

    /// What a decision reads first.
    #[cfg(any(loom, shuttle))]
    pub(crate) const fn front(&self) -> &'a Front {
        self.front
    }

    /// Says whether the ledger [is in use](is_in_use).
    #[inline]
    pub(crate) fn era(&self) -> u64 {
        self.front.era()
    }

    /// Whether this is the ledger of the subject with that fingerprint. Meaningful only if the
    /// era is the same before and after.
    #[inline]
    pub(crate) fn is_of(&self, fingerprint: [u64; 2]) -> bool {
        self.front.is_of(fingerprint)
    }

    /// Whether both are the same memory.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self.front, other.front)
    }

    /// A number by which all ledgers can be ordered.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self.front).addr()
    }

    /// What the subject is found by.
    pub(crate) fn fingerprint(&self) -> [u64; 2] {
        let [low, high] = &self.front.fingerprint;
        [low.load(Ordering::Acquire), high.load(Ordering::Acquire)]
    }

    /// The 16-byte name under which the subject is known outside this process.
    pub(crate) fn digest(&self) -> [u64; 2] {
        let [high, low] = &self.back.digest;
        [high.load(Ordering::Acquire), low.load(Ordering::Acquire)]
    }

    /// The eviction sweep during which the ledger was taken into use.
    pub(crate) fn life(&self) -> u64 {
        (self.back.kind.load(Ordering::Acquire) & !JUMPED) >> 32
    }

    /// The clock jumped while the subject was here: its cells have had other names, and may come
    /// back to one that they had, where the store holds more of them than they do.
    pub(crate) fn has_jumped(&self) -> bool {
        self.back.kind.load(Ordering::Acquire) & JUMPED != 0
    }

    pub(crate) fn mark_jumped(&self) {
        self.back.kind.fetch_or(JUMPED, Ordering::AcqRel);
    }

    /// The length of the subject's windows.
    pub(crate) fn window_ms(&self) -> u64 {
        self.back.kind.load(Ordering::Acquire) & u64::from(u32::MAX)
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

    /// Whether both cells have left the sliding window, by both clocks. Of who is in use that is
    /// seen at a glance.
    pub(crate) fn is_expired(&self, now: Now) -> bool {
        let (window_ms, position) = (self.window_ms().max(1), self.position());
        // While the wall clock is in one of the two cells or next to them, they count by it,
        // however long that lasts.
        let counts = (now.unix_ms() / window_ms).abs_diff(position.sequence()) <= 1;
        let past_ms = window_ms.saturating_mul(WINDOWS_PAST);
        !counts && !self.is_strict(now) && self.idle_ms(position.turn(), now) >= past_ms
    }

    fn is_strict(&self, now: Now) -> bool {
        self.back.strict_until.load(Ordering::Acquire) > now.monotonic_ms()
    }

    /// How long ago a turn began.
    fn idle_ms(&self, turn: Turn, now: Now) -> u64 {
        let began = self.began(turn).map_or(now.monotonic_ms(), |began| began.at_ms);
        let idle_ms = now.monotonic_ms().saturating_sub(began);
        if planted::is(Planted::WallClockExpiry) { u64::MAX } else { idle_ms }
    }

    /// What an eviction needs to know. `regional` says whether there is a store to be dirty to.
    pub(crate) fn standing(&self, now: Now, regional: bool) -> Standing {
        let strict = self.is_strict(now);
        let position = self.position();
        let (turn, before) = (position.turn(), position.turn().previous());
        let (idle_ms, expired) = (self.idle_ms(turn, now), self.is_expired(now));
        let cells = [(turn, self.cell(turn)), (before, self.cell(before))];
        let unrecorded =
            |(turn, cell): &(Turn, Cell<'_>)| cell.mine.read(*turn) > cell.acked.read(*turn);
        let used = |(turn, cell): &(Turn, Cell<'_>)| {
            cell.claimed.read(*turn).saturating_add(cell.told(*turn))
        };
        let limits = cells.iter().map(|(turn, cell)| cell.limit.read(*turn));
        let limit = limits.filter(|limit| *limit > 0).min().unwrap_or(1);
        let used = cells.iter().map(used).fold(0, u64::saturating_add);
        let least = if strict { ABOVE_HALF } else { 0 };
        Standing {
            expired,
            dirty: regional && !expired && cells.iter().any(unrecorded),
            use_share: (used.saturating_mul(1_024) / limit).max(least),
            idle_ms,
        }
    }

    /// Counts one with a compare-and-swap, tried until it is counted; returns how much there is.
    #[cfg(feature = "bench")]
    pub(crate) fn count_one(&self) -> u64 {
        let word = self.cell(Turn::FIRST).claimed;
        let mut seen = word.load();
        while !word.swap(seen, seen.plus(1)) {
            seen = word.load();
        }
        seen.plus(1).count()
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
