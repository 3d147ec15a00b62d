//! The ordinary decision, in one go: the cell is the current one of both clocks, nothing was heard
//! of others, nobody interferes. Whatever is out of the ordinary is left to the decision that can
//! take its time, which does the same steps in the same order, and more.
//!
//! It is here for its instructions alone: without a loop and without the rare cases, what it knows
//! stays in registers.

use crate::register::{Turn, Word};
use crate::request::Cost;
use crate::time::Now;
use crate::window::View;

use super::decide::{Claim, Look, Terms};
use super::{Ledger, Place};

/// Nothing was decided and nothing taken, after so many lost races.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Undecided {
    pub(crate) races: u32,
}

/// What was decided at once.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) enum AtOnce {
    /// The cost is claimed.
    Held(Claim, Look),
    /// It does not fit, and nothing is reserved.
    Denied(Look),
}

impl Ledger<'_> {
    /// Takes the cost if it fits, as [`Ledger::claim`] does, or says that it does not fit.
    #[inline(always)]
    pub(crate) fn claim_at_once(
        &self,
        era: u64,
        terms: Terms,
        now: Now,
    ) -> Result<AtOnce, Undecided> {
        const UNDECIDED: Result<AtOnce, Undecided> = Err(Undecided { races: 0 });
        let (at, window_ms, cost) = (self.position(), terms.window.as_millis(), terms.cost);
        // A sequence that is not of this window may wrap around: then the era has changed too.
        let start_ms = at.sequence().wrapping_mul(window_ms);
        let elapsed_ms = now.unix_ms().wrapping_sub(start_ms);
        if elapsed_ms >= window_ms || at.has_heard() || cost.get() == 0 {
            return UNDECIDED;
        }
        let (turn, before) = (at.turn(), at.turn().previous());
        let seen = self.claimed(turn);
        let [seen_current, seen_before] = seen;
        // A word of another turn is a leftover, a successor, or closed.
        let (Some(current), Some(previous)) =
            (seen_current.count_of(turn), seen_before.count_of(before))
        else {
            return UNDECIDED;
        };
        #[cfg(feature = "planted")]
        if crate::planted::is(crate::planted::Planted::EndedAskIgnored) {
            return UNDECIDED;
        }
        // As in `see`: afterwards, because whoever begins a turn moves the position first.
        if self.position() != at {
            return UNDECIDED;
        }
        let view = View { current, previous };
        let used = view.used(terms.window, elapsed_ms);
        let place = Place { turn, heard: false, start_ms, elapsed_ms, behind: false };
        let look = Look { place, view, used };
        // Both are far below 2^64, and the cost is not 0: so a limit of 0 fits nothing.
        let with_cost = used.wrapping_add(cost.get());
        if with_cost > terms.limit.get() {
            let [first, second] = &self.back.marks;
            let settled = first.has_no_reservations() && second.has_no_reservations();
            // As in `claim_where`: nothing was released in between, and it is the subject's.
            if !settled || self.claimed(turn) != seen || self.era() != era {
                return UNDECIDED;
            }
            return Ok(AtOnce::Denied(look));
        }
        // As in `claim_where`: after the word was loaded, so that it was the subject's.
        if self.era() != era {
            return UNDECIDED;
        }
        let near = with_cost > terms.limit.get() / 2;
        let claim = Claim { era, turn, cost, near, races: 0 };
        if !self.cell(turn).claimed.swap(seen_current, seen_current.plus(cost.get())) {
            return Err(Undecided { races: 1 });
        }
        // The claim stands if the cell still is the current one of this subject.
        if (self.position() == at && self.era() == era) || self.stands(era, turn, cost) {
            return Ok(AtOnce::Held(claim, look));
        }
        UNDECIDED
    }

    /// Something has changed since the claim. Takes it back if that concerns it.
    #[cold]
    fn stands(&self, era: u64, turn: Turn, cost: Cost) -> bool {
        let stands = self.position().turn() == turn && self.era() == era;
        if !stands {
            // Whosever the ledger is by now: this claim is on it.
            self.cell(turn).claimed.take_back(turn, cost.get());
        }
        stands
    }

    /// [`Ledger::commit`], if neither the limit has to be remembered nor anybody interferes.
    #[inline(always)]
    pub(crate) fn commit_at_once(&self, claim: &Claim) -> bool {
        let mine = self.cell(claim.turn).mine;
        let seen: Word = mine.load();
        let begun = seen.count_of(claim.turn).is_some_and(|count| count > 0);
        // What is admitted was claimed before, and fits a limit with it.
        let ordinary = begun && !claim.near && claim.cost.get() > 0;
        ordinary && mine.swap(seen, seen.plus(claim.cost.get()))
    }
}
