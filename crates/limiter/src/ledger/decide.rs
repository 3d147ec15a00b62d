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
    /// What earlier items of the same batch take, beside what `view` holds.
    pub(crate) earlier: u64,
}

/// How a look went.
enum Sight {
    Clear(Look),
    /// The ledger is being retired, or is free.
    Closed,
    /// It turned meanwhile.
    Turned,
}

/// Room that a decision has taken. It must be committed or released.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct Claim {
    pub(crate) era: u64,
    pub(crate) turn: Turn,
    pub(crate) cost: Cost,
    first: bool,
    /// With it, more than half of the limit is used.
    near: bool,
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

/// Why a request is denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    /// The limit; and whether that armed strict mode.
    Limit { arms: bool },
    /// Reservations of batches in flight, and nothing else.
    Reserved,
}

impl Ledger<'_> {
    /// What both cells hold, with everything that is claimed.
    pub(crate) fn view(&self, turn: Turn) -> View {
        let (current, previous) = (self.cell(turn), self.cell(turn.previous()));
        let before = turn.previous();
        View {
            current: current.claimed.read(turn) + current.told(turn),
            previous: previous.claimed.read(before) + previous.told(before),
        }
    }

    /// Looks without taking anything. `None` if the ledger is not the subject's any more.
    pub(crate) fn look(&self, era: u64, window: Window, now: Now) -> Option<Look> {
        loop {
            let place = self.place(window, now);
            let seen = self.cell(place.turn).claimed.load();
            match self.see(place, seen, window) {
                Sight::Clear(look) => return (self.era() == era).then_some(look),
                Sight::Closed => return None,
                Sight::Turned => {}
            }
        }
    }

    /// [`Ledger::claim_here`], for those who are not in a hurry.
    pub(crate) fn claim(&self, era: u64, terms: Terms, now: Now) -> Verdict {
        self.claim_here(era, terms, now)
    }

    /// Takes the cost if it fits. INV-4: what is claimed in a cell never exceeds the limit of
    /// the request that claimed last.
    #[inline(always)]
    pub(crate) fn claim_here(&self, era: u64, terms: Terms, now: Now) -> Verdict {
        let mut races = 0;
        loop {
            let place = self.place(terms.window, now);
            let cell = self.cell(place.turn);
            let seen = cell.claimed.load();
            let look = match self.see(place, seen, terms.window) {
                Sight::Clear(look) => look,
                Sight::Closed => return Verdict::Moved,
                Sight::Turned => continue,
            };
            if !fits(look.used, terms.cost, terms.limit) {
                return if self.era() == era { Verdict::Denied(look) } else { Verdict::Moved };
            }
            let (turn, cost) = (place.turn, terms.cost);
            let near = look.used.saturating_add(cost.get()) > terms.limit.get() / 2;
            let claim = Claim { era, turn, cost, first: look.first, near, races };
            if terms.cost.get() == 0 {
                return if self.era() == era { Verdict::Held(claim, look) } else { Verdict::Moved };
            }
            // Only a swap can begin a turn: adding to a leftover would come to nothing for ever.
            let won = if races < RACES_MAX || seen.turn() != place.turn {
                cell.claimed.swap(seen, Word::new(turn, seen.count_in(turn) + cost.get()))
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
        let _ = self.cell(turn).reserved.write(turn, alive, |held| held.saturating_add(cost.get()));
    }

    /// A reservation has ended.
    pub(crate) fn settle(&self, turn: Turn, cost: Cost) {
        self.cell(turn).reserved.take_back(turn, cost.get());
    }

    /// Adds up what the cells hold, `seen` being what is claimed in the current one.
    ///
    /// Words of other turns count for nothing. Whether they are leftovers, as they should be, or
    /// were written by those who turned the ledger meanwhile, the position tells afterwards:
    /// whoever begins a turn moves it first.
    #[inline(always)]
    fn see(&self, place: Place, seen: Word, window: Window) -> Sight {
        let (turn, before) = (place.turn, place.turn.previous());
        let (current, previous) = (self.cell(turn), self.cell(before));
        let seen_before = previous.claimed.load();
        let mut view =
            View { current: seen.count_in(turn), previous: seen_before.count_in(before) };
        let first = view.current == 0;
        if place.heard {
            view.current += current.told(turn);
            view.previous += previous.told(before);
        }
        if seen.turn() == Turn::RETIRED || seen_before.turn() == Turn::RETIRED {
            return Sight::Closed;
        }
        if self.position().turn() != turn {
            return Sight::Turned;
        }
        let used = view.used(window, place.elapsed_ms);
        Sight::Clear(Look { place, view, used, first, earlier: 0 })
    }

    /// Adds first and checks after: needs no luck, and holds room for a moment that it may have
    /// to give back. Returns whether the cost is claimed; if not, the caller looks again.
    #[cold]
    fn claim_by_adding(&self, place: Place, terms: Terms) -> bool {
        let cell = self.cell(place.turn);
        let cost = terms.cost.get();
        let seen = cell.claimed.add_blindly(cost);
        if seen.turn() == place.turn
            && let Sight::Clear(look) = self.see(place, seen, terms.window)
            && fits(look.used, terms.cost, terms.limit)
        {
            return true;
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
    #[inline]
    pub(crate) fn commit(&self, claim: Claim, terms: Terms) {
        if claim.cost.get() == 0 {
            return;
        }
        // The limit is remembered where it may matter: by the first, and by those it is near to.
        // Before `mine` is raised, because until then the claim keeps the ledger.
        if claim.first || claim.near {
            self.remember_limit(terms.limit, claim.first);
        }
        let alive = || self.is_alive(claim.era, claim.turn);
        // Passed: the cell left the sliding window while the claim was held, and the cost with it.
        let _ = self
            .cell(claim.turn)
            .mine
            .write(claim.turn, alive, |mine| mine.saturating_add(claim.cost.get()));
    }

    /// Gives a claim back.
    pub(crate) fn release(&self, claim: Claim) {
        if claim.cost.get() > 0 {
            self.cell(claim.turn).claimed.take_back(claim.turn, claim.cost.get());
        }
    }

    fn remember_limit(&self, limit: Limit, first: bool) {
        let known = self.back.limit.load(Ordering::Relaxed);
        if limit.get() < known || (first && limit.get() != known) || known == 0 {
            // ORDER: a hint for eviction and publishing; any of several racing limits will do.
            self.back.limit.store(limit.get(), Ordering::Release);
        }
    }

    /// What a denial saw, without what batches in flight have reserved: `None` if there is none.
    #[inline]
    fn without_reservations(&self, look: &Look, window: Window) -> Option<u64> {
        let [first, second] = &self.back.marks;
        if first.has_no_reservations() && second.has_no_reservations() {
            return None;
        }
        Some(self.used_without_reservations(look, window))
    }

    #[cold]
    fn used_without_reservations(&self, look: &Look, window: Window) -> u64 {
        let (turn, before) = (look.place.turn, look.place.turn.previous());
        let current = self.cell(turn).reserved.read(turn);
        let previous = self.cell(before).reserved.read(before);
        let view = View {
            current: look.view.current.saturating_sub(current),
            previous: look.view.previous.saturating_sub(previous),
        };
        view.used(window, look.place.elapsed_ms)
    }

    /// Why a request is denied. If the limit is exhausted, reservations aside, strict mode is
    /// armed: admissions are checked with the region first for one window. A single oversized
    /// request must not turn every later admission into a store read, so a cost of 1 must be
    /// denied too.
    #[inline(always)]
    pub(crate) fn deny(&self, look: &Look, terms: Terms, now: Now) -> Denied {
        let settled = match self.without_reservations(look, terms.window) {
            Some(settled) if fits(settled, terms.cost, terms.limit) => return Denied::Reserved,
            Some(settled) => settled,
            None => look.used,
        };
        let exhausted = terms.limit.get() > 0 && !fits(settled, Cost::ONE, terms.limit);
        let arms = exhausted && terms.cost.get() > 0 && self.arm_strict(terms, now);
        Denied::Limit { arms }
    }

    /// Returns whether it was not armed before.
    #[inline]
    fn arm_strict(&self, terms: Terms, now: Now) -> bool {
        let until = now.monotonic_ms().saturating_add(terms.window.as_millis());
        let known = self.back.strict_until.load(Ordering::Acquire);
        let armed = known > now.monotonic_ms();
        if !armed || self.back.strict_limit.load(Ordering::Acquire) < terms.limit.get() {
            self.raise_strict_limit(terms.limit, armed);
        }
        if known < until {
            self.back.strict_until.fetch_max(until, Ordering::AcqRel);
        }
        !armed
    }

    #[cold]
    fn raise_strict_limit(&self, limit: Limit, armed: bool) {
        let word = &self.back.strict_limit;
        let seen = word.load(Ordering::Acquire);
        let concerned = if armed { seen.max(limit.get()) } else { limit.get() };
        // ORDER: losing the swap means that another denial armed just now: keep the larger.
        if word.compare_exchange(seen, concerned, Ordering::AcqRel, Ordering::Acquire).is_err() {
            word.fetch_max(limit.get(), Ordering::AcqRel);
        }
    }
}
