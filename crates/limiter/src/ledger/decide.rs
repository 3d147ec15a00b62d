//! The decision itself: look, decide by a pure function, swap one word.

use crate::register::{Turn, Word};
use crate::request::{Cost, Limit, Window};
use crate::sync::Ordering;
use crate::time::Now;
use crate::window::{View, fits};

use super::{Ledger, Place};

/// Lost races after which a claim is made by adding first and checking after. A lost race means
/// that another thread got on, so this only bounds how often one thread may be unlucky. Model
/// checkers explore both ways from the start.
#[cfg(not(any(loom, shuttle)))]
const RACES_MAX: u32 = 32;
#[cfg(any(loom, shuttle))]
const RACES_MAX: u32 = 1;

/// What is asked of a ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) window: Window,
    pub(crate) limit: Limit,
    pub(crate) cost: Cost,
}

/// What a decision saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) place: Place,
    /// With everything that is claimed.
    pub(crate) view: View,
    /// What the sliding window holds, by that view.
    pub(crate) used: u64,
    /// Nothing was claimed in the current cell yet.
    pub(crate) first: bool,
}

/// Room that a decision has taken. It must be committed or released.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Claim {
    pub(crate) era: u64,
    pub(crate) turn: Turn,
    pub(crate) cost: Cost,
    first: bool,
    /// Compare-and-swaps that were lost on the way.
    pub(crate) races: u32,
}

/// The verdict on one request.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) enum Verdict {
    /// The cost is claimed.
    Held(Claim, Look),
    /// It does not fit.
    Denied(Look),
    /// The ledger is not the subject's any more: look it up again.
    Moved,
}

impl Ledger {
    /// What both cells hold, with everything that is claimed.
    pub(crate) fn view(&self, turn: Turn) -> View {
        let (current, previous) = (self.cell(turn), self.cell(turn.previous()));
        let before = turn.previous();
        View {
            current: current.claimed.read(turn) + current.told(turn),
            previous: previous.claimed.read(before) + previous.told(before),
        }
    }

    /// The same without what batches in flight have reserved.
    fn without_reservations(&self, look: &Look) -> View {
        let turn = look.place.turn;
        let before = turn.previous();
        View {
            current: look.view.current.saturating_sub(self.reserved(turn).read(turn)),
            previous: look.view.previous.saturating_sub(self.reserved(before).read(before)),
        }
    }

    /// Looks without taking anything. `None` if the ledger is not the subject's any more.
    pub(crate) fn look(&self, era: u64, window: Window, now: Now) -> Option<Look> {
        let place = self.place(window, now);
        let claimed = self.cell(place.turn).claimed.load();
        let count = if claimed.turn() == place.turn { claimed.count() } else { 0 };
        let look = self.look_from(place, count, window);
        (claimed.turn() != Turn::RETIRED && self.era() == era).then_some(look)
    }

    /// Takes the cost if it fits. INV-4: what is claimed in a cell never exceeds the limit of
    /// the request that claimed last.
    #[inline]
    pub(crate) fn claim(&self, era: u64, terms: Terms, now: Now) -> Verdict {
        let mut races = 0;
        loop {
            let place = self.place(terms.window, now);
            let cell = self.cell(place.turn);
            let seen = cell.claimed.load();
            let claimed = match self.claimed_in(seen, place.turn) {
                Some(claimed) => claimed,
                None if seen.turn() == Turn::RETIRED => return Verdict::Moved,
                None => continue,
            };
            let look = self.look_from(place, claimed, terms.window);
            if !fits(look.used, terms.cost, terms.limit) {
                return if self.era() == era { Verdict::Denied(look) } else { Verdict::Moved };
            }
            let (turn, cost) = (place.turn, terms.cost);
            let claim = Claim { era, turn, cost, first: claimed == 0, races };
            if terms.cost.get() == 0 {
                return if self.era() == era { Verdict::Held(claim, look) } else { Verdict::Moved };
            }
            // Only a swap can begin a turn: adding to a leftover would come to nothing for ever.
            let won = if races < RACES_MAX || seen.turn() != place.turn {
                cell.claimed.swap(seen, Word::new(place.turn, claimed + terms.cost.get()))
            } else {
                self.claim_by_adding(place, terms)
            };
            if won {
                return self.confirm(claim, look);
            }
            races += 1;
        }
    }

    /// Takes the cost for a batch, and says so before anyone can be denied because of it. What is
    /// reserved must be [settled](Self::settle) after the claim is committed or released.
    pub(crate) fn reserve(&self, era: u64, terms: Terms, now: Now) -> Verdict {
        let turn = self.place(terms.window, now).turn;
        self.reserve_in(era, turn, terms.cost);
        let verdict = self.claim(era, terms, now);
        match verdict {
            Verdict::Held(claim, _) if claim.turn == turn => {}
            Verdict::Held(claim, _) => {
                self.settle(turn, terms.cost);
                self.reserve_in(era, claim.turn, terms.cost);
            }
            Verdict::Denied(_) | Verdict::Moved => self.settle(turn, terms.cost),
        }
        verdict
    }

    fn reserve_in(&self, era: u64, turn: Turn, cost: Cost) {
        let alive = || self.is_alive(era, turn);
        let _ = self.reserved(turn).write(turn, alive, |held| held.saturating_add(cost.get()));
    }

    /// A reservation has ended.
    pub(crate) fn settle(&self, turn: Turn, cost: Cost) {
        self.reserved(turn).take_back(turn, cost.get());
    }

    /// What a word of `claimed` says for a turn. `None`: the turn has passed, or the word is
    /// closed.
    #[inline]
    fn claimed_in(&self, seen: Word, turn: Turn) -> Option<u64> {
        if seen.turn() == turn {
            Some(seen.count())
        } else if seen.turn() != Turn::RETIRED && self.position().turn() == turn {
            // A leftover of two turns ago: whoever began a later turn moved the position first.
            Some(0)
        } else {
            None
        }
    }

    #[inline]
    fn look_from(&self, place: Place, claimed: u64, window: Window) -> Look {
        let (current, before) = (self.cell(place.turn), place.turn.previous());
        let previous = self.cell(before);
        let view = View {
            current: claimed + current.told(place.turn),
            previous: previous.claimed.read(before) + previous.told(before),
        };
        let used = view.used(window, place.elapsed_ms);
        Look { place, view, used, first: claimed == 0 }
    }

    /// Adds first and checks after: needs no luck, and holds room for a moment that it may have
    /// to give back. Returns whether the cost is claimed; if not, the caller looks again.
    #[cold]
    fn claim_by_adding(&self, place: Place, terms: Terms) -> bool {
        let cell = self.cell(place.turn);
        let cost = terms.cost.get();
        let seen = cell.claimed.add_blindly(cost);
        if seen.turn() == place.turn {
            let look = self.look_from(place, seen.count(), terms.window);
            if fits(look.used, terms.cost, terms.limit) {
                return true;
            }
        }
        cell.claimed.take_back(seen.turn(), cost);
        false
    }

    /// The claim stands if the ledger is still the subject's and the cell still counts.
    #[inline]
    fn confirm(&self, claim: Claim, look: Look) -> Verdict {
        if self.is_alive(claim.era, claim.turn) {
            return Verdict::Held(claim, look);
        }
        self.release(claim);
        Verdict::Moved
    }

    /// Makes a claim an admission: `mine` takes it.
    pub(crate) fn commit(&self, claim: Claim, terms: Terms, now: Now) {
        if claim.cost.get() == 0 {
            return;
        }
        let alive = || self.is_alive(claim.era, claim.turn);
        // Passed: the cell left the sliding window while the claim was held, and the cost with it.
        let _ = self
            .cell(claim.turn)
            .mine
            .write(claim.turn, alive, |mine| mine.saturating_add(claim.cost.get()));
        self.touch(terms.window, now);
        self.remember_limit(terms.limit, claim.first);
    }

    /// Gives a claim back.
    pub(crate) fn release(&self, claim: Claim) {
        if claim.cost.get() > 0 {
            self.cell(claim.turn).claimed.take_back(claim.turn, claim.cost.get());
        }
    }

    fn remember_limit(&self, limit: Limit, first: bool) {
        let known = self.limit.load(Ordering::Relaxed);
        if limit.get() < known || (first && limit.get() != known) || known == 0 {
            // ORDER: a hint for eviction and publishing; any of several racing limits will do.
            self.limit.store(limit.get(), Ordering::Release);
        }
    }

    /// Whether the request is denied by reservations only.
    pub(crate) fn is_reserved(&self, look: &Look, terms: Terms) -> bool {
        let settled = self.without_reservations(look);
        settled != look.view
            && fits(settled.used(terms.window, look.place.elapsed_ms), terms.cost, terms.limit)
    }

    /// After a denial: check admissions with the region first for one window, but only if a cost
    /// of 1 would be denied too, reservations aside. A single oversized request must not turn
    /// every later admission into a store read. Returns whether it was armed.
    pub(crate) fn arm_strict(&self, look: &Look, terms: Terms, now: Now) -> bool {
        let settled = self.without_reservations(look).used(terms.window, look.place.elapsed_ms);
        if terms.limit.get() == 0 || terms.cost.get() == 0 || fits(settled, Cost::ONE, terms.limit)
        {
            return false;
        }
        let until = now.monotonic_ms().saturating_add(terms.window.as_millis());
        let known = self.strict_until.load(Ordering::Acquire);
        let armed = known > now.monotonic_ms();
        let seen = self.strict_limit.load(Ordering::Acquire);
        let concerned = if armed { seen.max(terms.limit.get()) } else { terms.limit.get() };
        if concerned != seen {
            // ORDER: losing the swap means that another denial armed just now: keep the larger.
            let swapped = self.strict_limit.compare_exchange(
                seen,
                concerned,
                Ordering::AcqRel,
                Ordering::Acquire,
            );
            if swapped.is_err() {
                self.strict_limit.fetch_max(terms.limit.get(), Ordering::AcqRel);
            }
        }
        if known < until {
            self.strict_until.fetch_max(until, Ordering::AcqRel);
        }
        true
    }
}
