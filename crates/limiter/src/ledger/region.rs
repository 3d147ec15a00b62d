//! What a decision in a region asks besides: whether to hear of the others first, and whether what
//! it admitted has to be told.

use crate::cell::REPLAY_ASKED;
use crate::register::{Turn, Word};
use crate::request::Window;
use crate::sync::Ordering;
use crate::time::Now;
use crate::window::weigh;

use super::{Ledger, Look, Place, Terms};

/// Why the region is asked before an admission.
/// [`Table::decide_or_refresh`](crate::Table::decide_or_refresh) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// This process knows nothing of the cell.
    Cold,
    /// What it knows is too old.
    Stale,
    /// The subject was at its limit a moment ago: every admission is checked.
    Strict,
    /// The cell is new and would do, but this cost alone is a large part of the limit.
    Significant,
    /// More is admitted here and not recorded than a request of
    /// [`Bounded`](crate::Consistency::Bounded) consistency may add to.
    Credit,
    /// Requests that wait for the region hold the room that is left.
    Reserved,
}

/// How old a view may be, and which cost is too large for a cell that nobody has asked about.
/// [`Options`](crate::Options) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Freshness {
    /// How long a view is fresh, from the moment the region was asked.
    pub fresh_ms: u64,
    /// A cost above one part in this many of the limit is significant.
    pub significant_part: u64,
    /// What a process has admitted and the region has not recorded may come to one part in this
    /// many of the room, divided by how many processes there are, before a request of
    /// [`Bounded`](crate::Consistency::Bounded) consistency asks.
    pub credit_part: u64,
}

impl Default for Freshness {
    /// Five seconds, as the reference has it; one part in 64 and one in 8, by simulation.
    fn default() -> Self {
        Self { fresh_ms: 5_000, significant_part: 64, credit_part: 8 }
    }
}

impl Ledger<'_> {
    /// Whether an admission has to hear of the region first. `Err` if the ledger is not the
    /// subject's any more.
    #[inline(always)]
    pub(crate) fn needs_region(
        &self,
        era: u64,
        terms: Terms,
        freshness: Freshness,
        now: Now,
    ) -> Result<Option<Reason>, ()> {
        let place = self.place(era, terms.window, now).ok_or(())?;
        Ok(self.needs_region_at(place, terms, freshness, now))
    }

    /// The same at a place that was found before.
    #[inline(always)]
    pub(super) fn needs_region_at(
        &self,
        place: Place,
        terms: Terms,
        freshness: Freshness,
        now: Now,
    ) -> Option<Reason> {
        let strict = self.back.strict_until.load(Ordering::Acquire) > now.monotonic_ms()
            && self.back.strict_limit.load(Ordering::Acquire) >= terms.limit.get();
        if strict {
            return Some(Reason::Strict);
        }
        let fresh_until = self.cell(place.turn).fresh_until.read(place.turn);
        if fresh_until > now.monotonic_ms() {
            return None;
        }
        if fresh_until > 0 && crate::planted::is(crate::planted::Planted::NeverStale) {
            None
        } else if fresh_until > 0 {
            Some(Reason::Stale)
        } else {
            self.needs_region_anew(place, terms, freshness)
        }
    }

    /// A cell whose window began `t` ago is no staler than `t`: if the one before it is known, a
    /// new cell needs no read, or every subject would be read at every boundary.
    #[cold]
    fn needs_region_anew(
        &self,
        place: Place,
        terms: Terms,
        freshness: Freshness,
    ) -> Option<Reason> {
        let known = self.cell(place.turn.previous()).fresh_until.read(place.turn.previous()) > 0;
        if !known || place.behind || place.elapsed_ms >= freshness.fresh_ms {
            Some(Reason::Cold)
        } else if terms.cost.get().saturating_mul(freshness.significant_part) > terms.limit.get() {
            Some(Reason::Significant)
        } else {
            None
        }
    }

    /// Whether the cost may be taken on credit, `seen` being what is claimed in the current cell.
    /// INV-16: together with what this process has not had recorded it is at most its share of the
    /// room.
    #[inline]
    pub(crate) fn lends(&self, look: &Look, seen: Word, terms: Terms, part: u64) -> bool {
        let turn = look.place.turn;
        // After the word was loaded: what was recorded since only makes it less.
        let unrecorded = seen.count_in(turn).saturating_sub(self.cell(turn).acked.read(turn));
        let room = terms.limit.get().saturating_sub(look.used);
        let processes = self.company();
        #[cfg(feature = "planted")]
        if crate::planted::is(crate::planted::Planted::NoCredit) {
            return true;
        }
        // At most room / shares. A product says the same of whole numbers, and sooner.
        let shares = part.saturating_mul(processes);
        let taken = unrecorded.saturating_add(terms.cost.get()).saturating_mul(shares);
        shares > 0 && taken <= room
    }

    /// How many processes use the subject, or may; 0 if that is not known yet.
    #[inline]
    pub(crate) fn company(&self) -> u64 {
        // ORDER: relaxed, as where it is written.
        self.back.company.load(Ordering::Relaxed)
    }

    /// So many processes use the subject, or may. Before that is known, nothing is lent.
    pub(crate) fn set_company(&self, processes: u64) {
        // ORDER: relaxed. It is an estimate; a moment later it is as good.
        self.back.company.store(processes, Ordering::Relaxed);
    }

    /// How old what a decision knows of the region is, at most. INV-28: never less than it is.
    pub(crate) fn age_ms(&self, place: Place, window: Window, fresh_ms: u64, now: Now) -> u64 {
        let fresh_until = |turn: Turn| self.cell(turn).fresh_until.read(turn);
        let current = fresh_until(place.turn);
        // Of what is known of the current cell, the previous one says nothing.
        let before = if current == 0 { fresh_until(place.turn.previous()) } else { 0 };
        let both = [current, before];
        age_of(both, place, (window, fresh_ms), now)
    }

    /// After an admission: whether it is the one that asks for a replay. Of those that pass the
    /// mark, one does.
    #[inline]
    pub(crate) fn asks_replay(&self, era: u64, turn: Turn) -> bool {
        let cell = self.cell(turn);
        // ORDER: `mine` was raised before, and whoever sets the mark reads `mine` afterwards; both
        // are sequentially consistent, so that of the two one sees the other (partner:
        // `CellHandle::replay_from`).
        let mark = cell.replay_at.load();
        if cell.mine.read(turn) < mark.count_in(turn) {
            return false;
        }
        (mark.turn() == turn || self.is_alive(era, turn))
            && cell.replay_at.swap(mark, Word::new(turn, REPLAY_ASKED))
    }

    /// Until when the region is not asked again.
    #[inline]
    pub(crate) fn retry_at(&self) -> u64 {
        self.back.retry_at.load(Ordering::Acquire)
    }

    /// The region did not answer: it is not asked again before this moment. If the ledger is
    /// another subject's by now, that one is decided on its view for as long.
    pub(crate) fn retry_no_sooner(&self, monotonic_ms: u64) {
        self.back.retry_at.fetch_max(monotonic_ms, Ordering::AcqRel);
    }

    /// What the sliding window holds at `now`, and the limit it is measured by; turns nothing.
    pub(crate) fn used_of_limit(&self, now: Now) -> (u64, u64) {
        let position = self.position();
        let (turn, before) = (position.turn(), position.turn().previous());
        let view = |turn: Turn| {
            let cell = self.cell(turn);
            cell.claimed.read(turn).saturating_add(cell.told(turn))
        };
        let limit = |turn: Turn| self.cell(turn).limit.read(turn);
        let weighted = Window::from_millis(self.window_ms()).map_or(0, |window| {
            let start_ms = position.sequence().saturating_mul(window.as_millis());
            let elapsed_ms = now.unix_ms().saturating_sub(start_ms);
            weigh(view(before), window, elapsed_ms)
        });
        let limit = if limit(turn) > 0 { limit(turn) } else { limit(before) };
        (view(turn).saturating_add(weighted), limit)
    }
}

/// What one of so many processes may have admitted and not recorded, of this room; nothing before
/// it is known how many they are.
#[inline(always)]
pub(crate) fn credit_of(room: u64, part: u64, processes: u64) -> u64 {
    room.checked_div(part.saturating_mul(processes)).unwrap_or(0)
}

/// How old what is known of the region is, by when the current and the previous cell were heard of.
#[inline(always)]
pub(super) fn age_of(
    fresh_until: [u64; 2],
    place: Place,
    (window, fresh_ms): (Window, u64),
    now: Now,
) -> u64 {
    match fresh_until {
        [0, before] if before > 0 && !place.behind => place.elapsed_ms,
        [0, _] => place.elapsed_ms.saturating_add(window.as_millis()),
        [until, _] => now.monotonic_ms().saturating_sub(until.saturating_sub(fresh_ms)),
    }
}
