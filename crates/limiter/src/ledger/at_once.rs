//! The ordinary decision, in one go: the cell is the current one of both clocks, nothing was heard
//! of others, nobody interferes. Whatever is out of the ordinary is left to the decision that can
//! take its time, which does the same steps in the same order, and more.
//!
//! It is here for its instructions alone. On a large table a decision waits for its front to come
//! from memory, and the processor goes on with what follows only as far as what waits with it can
//! be set aside: some hundred instructions. If an admission is over by then, the next one is on its
//! way to its own front meanwhile.

use crate::cell::Heard;
use crate::register::{Turn, Word};
use crate::request::{Cost, Limit};
use crate::time::Now;
use crate::window::{View, fits};

use super::decide::{Claim, Look, Terms};
use super::{Freshness, Front, Ledger, Place, Position};

/// Nothing was decided and nothing taken.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Undecided {
    /// Something is out of the ordinary.
    Other,
    /// Somebody else was first.
    Raced,
    /// What the previous cell holds has to be weighed.
    Weighs,
    /// It does not fit, by what was seen.
    Full(Glance),
}

/// What an ordinary decision looks at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance {
    at: Position,
    /// What is claimed in the two cells, in their order.
    cells: [Word; 2],
    pub(crate) look: Look,
}

/// An ordinary admission.
pub(crate) struct Admitted {
    /// When the window ends.
    pub(crate) reset_ms: u64,
    /// What is left of the limit.
    pub(crate) remaining: u64,
    pub(crate) at: Position,
    /// Whether `mine` has taken it, too.
    pub(crate) committed: bool,
}

impl Front {
    /// Takes the cost if it fits, and commits it if there is no more to it than that. If it does
    /// not `WEIGH`, what the previous cell holds is left to who does: a division takes registers
    /// that everything else then has not.
    #[inline(always)]
    pub(crate) fn admit_at_once<const WEIGH: bool>(
        &self,
        era: u64,
        terms: Terms,
        now: Now,
    ) -> Result<Admitted, Undecided> {
        let (claim, Glance { at, look, .. }) = self.claim_at_once::<WEIGH>(era, terms, now)?;
        let committed = self.commit_at_once(&claim);
        let used = look.used.wrapping_add(claim.cost.get());
        let remaining = terms.limit.get().wrapping_sub(used);
        // It began at most a window ago, so that there is an end to it.
        let reset_ms = look.place.start_ms.wrapping_add(terms.window.as_millis());
        Ok(Admitted { reset_ms, remaining, at, committed })
    }

    /// Takes the cost if it fits, as [`Ledger::claim`] does.
    #[inline(always)]
    pub(crate) fn claim_at_once<const WEIGH: bool>(
        &self,
        era: u64,
        terms: Terms,
        now: Now,
    ) -> Result<(Claim, Glance), Undecided> {
        let at = self.position();
        let glance = self.glance::<WEIGH>(at, terms, now)?;
        let Glance { cells: [first, second], look, .. } = glance;
        let seen = if at.turn().cell() == 0 { first } else { second };
        let (turn, cost) = (at.turn(), terms.cost);
        // Both are far below 2^64, and the cost is not 0: so a limit of 0 fits nothing.
        let with_cost = look.used.wrapping_add(cost.get());
        let room = terms.limit.get().checked_sub(with_cost).ok_or(Undecided::Full(glance))?;
        // As in `claim_where`: after the word was loaded, so that it was the subject's.
        if self.era() != era {
            return Err(Undecided::Other);
        }
        if !self.spent(turn).claimed.swap(seen, seen.plus(cost.get())) {
            return Err(Undecided::Raced);
        }
        // The claim stands if the cell still is the current one of this subject. It then was all
        // the time, because turns and eras only go on: so both words that were seen were its own.
        if (self.position() == at && self.era() == era) || self.stands(era, turn, cost) {
            let near = is_near(terms.limit, room);
            return Ok((Claim { era, turn, cost, near, races: 0 }, glance));
        }
        Err(Undecided::Other)
    }

    /// Looks at both cells, unless anything is out of the ordinary.
    #[inline(always)]
    fn glance<const WEIGH: bool>(
        &self,
        at: Position,
        terms: Terms,
        now: Now,
    ) -> Result<Glance, Undecided> {
        let (turn, window_ms) = (at.turn(), terms.window.as_millis());
        // A sequence that is not of this window may wrap around: then the era has changed too.
        let start_ms = at.plain_sequence().ok_or(Undecided::Other)?.wrapping_mul(window_ms);
        let elapsed_ms = now.unix_ms().wrapping_sub(start_ms);
        if elapsed_ms >= window_ms || terms.cost.get() == 0 {
            return Err(Undecided::Other);
        }
        #[cfg(feature = "planted")]
        if crate::planted::is(crate::planted::Planted::EndedAskIgnored) {
            return Err(Undecided::Other);
        }
        let cells = self.cells();
        let [first, second] = cells;
        let seen = if turn.cell() == 0 { [first, second] } else { [second, first] };
        // A word of another turn is a leftover, a successor, or closed.
        if !Word::are_of_turn_of(seen, at.word()) {
            return Err(Undecided::Other);
        }
        let [current, previous] = seen.map(Word::count);
        let view = View { current, previous };
        if previous > 0 && !WEIGH {
            return Err(Undecided::Weighs);
        }
        let used = if WEIGH { view.used(terms.window, elapsed_ms) } else { current };
        let place = Place { turn, heard: false, start_ms, elapsed_ms, behind: false };
        Ok(Glance { at, cells, look: Look { place, view, used } })
    }

    /// What is claimed in the two cells, in their order.
    #[inline(always)]
    fn cells(&self) -> [Word; 2] {
        self.spent.each_ref().map(|spent| spent.claimed.load())
    }

    /// Something has changed since the claim. Takes it back if that concerns it.
    #[cold]
    fn stands(&self, era: u64, turn: Turn, cost: Cost) -> bool {
        let stands = self.position().turn() == turn && self.era() == era;
        if !stands {
            // Whosever the ledger is by now: this claim is on it.
            self.spent(turn).claimed.take_back(turn, cost.get());
        }
        stands
    }

    /// [`Ledger::commit`], if neither the limit has to be remembered nor anybody interferes.
    #[inline(always)]
    pub(crate) fn commit_at_once(&self, claim: &Claim) -> bool {
        let mine = &self.spent(claim.turn).mine;
        let seen: Word = mine.load();
        let begun = seen.count_of(claim.turn).is_some_and(|count| count > 0);
        // What is admitted was claimed before, and fits a limit with it.
        let ordinary = begun && !claim.near && claim.cost.get() > 0;
        ordinary && mine.swap(seen, seen.plus(claim.cost.get()))
    }
}

/// What an item of an ordinary batch was seen to fit by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sighting {
    pub(crate) look: Look,
    /// What is claimed in the current cell.
    seen: Word,
    /// With the cost, more than half of the limit is used.
    pub(crate) near: bool,
}

/// What is asked of a view besides that the cost fits: nothing by default, as of a process on its
/// own.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Conditions {
    /// It is as fresh as this says, and nothing else speaks for hearing of others.
    pub(crate) freshness: Option<Freshness>,
    /// Only this part of the room is lent, and the cost is within it.
    pub(crate) part: Option<u64>,
}

impl Ledger<'_> {
    /// Looks, and says what was seen if the cost fits and these conditions hold.
    #[inline]
    pub(crate) fn sight(
        &self,
        era: u64,
        terms: Terms,
        Conditions { freshness, part }: Conditions,
        now: Now,
    ) -> Option<Sighting> {
        let place = self.place(era, terms.window, now)?;
        let heard_of = |freshness| self.needs_region_at(place, terms, freshness, now).is_none();
        if !freshness.is_none_or(heard_of) {
            return None;
        }
        let both = self.claimed(place.turn);
        let view = self.add_up(place, both)?;
        let look = Look { place, view, used: view.used(terms.window, place.elapsed_ms) };
        let [seen, _] = both;
        let lent = part.is_none_or(|part| self.lends(&look, seen, terms, part));
        let near = terms.is_near(look.used);
        (lent && fits(look.used, terms.cost, terms.limit)).then_some(Sighting { look, seen, near })
    }

    /// Takes the cost, unless what is claimed is not as it was seen.
    #[inline]
    pub(crate) fn claim_seen(&self, era: u64, cost: Cost, sighting: &Sighting) -> Option<Claim> {
        let Sighting { look, seen, near } = sighting;
        let turn = look.place.turn;
        let claim = Claim { era, turn, cost, near: *near, races: 0 };
        let is_current = || self.position().turn() == turn && self.era() == era;
        // After the words were loaded: if the turn is the same, none of them was written by those
        // who turned the ledger, and if the era is, they were the subject's.
        if !is_current() {
            return None;
        }
        let with_cost = || Word::new(turn, seen.count_in(turn).saturating_add(cost.get()));
        if cost.get() > 0 && !self.cell(turn).claimed.swap(*seen, with_cost()) {
            return None;
        }
        // As in `claim_at_once`: it then was the current cell of this subject all the time.
        if is_current() {
            return Some(claim);
        }
        self.take_back(claim);
        None
    }

    /// Whether a glance that says that a request does not fit is as thorough as
    /// [`Ledger::claim`]: it is the limit's doing, and it still is as it was.
    #[inline(always)]
    pub(crate) fn confirms(&self, glance: &Glance, era: u64) -> bool {
        let settled = Heard::have_no_reservations(&self.back.heard);
        // As in `see`: afterwards, because whoever begins a turn moves the position first. As in
        // `claim_where`: nothing was released in between, and it is the subject's.
        let Glance { at, cells, .. } = *glance;
        let same = self.position() == at && self.front.cells() == cells;
        settled && same && self.era() == era
    }
}

/// Whether more than half of a limit is used if so much is left.
#[inline]
pub(crate) const fn is_near(limit: Limit, remaining: u64) -> bool {
    remaining < limit.get().wrapping_sub(remaining)
}
