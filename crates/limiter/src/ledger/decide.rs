//! The decision itself: look, decide by a pure function, swap one word, look once more.

use crate::register::{Turn, Word};
use crate::request::{Cost, Limit, Window};
use crate::sync::Ordering;
use crate::time::Now;
use crate::window::{View, fits};

use super::{Ledger, Place};

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

/// What a denial saw besides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Refusal {
    pub(crate) look: Look,
    /// What the sliding window holds without what batches in flight have reserved.
    pub(crate) settled: u64,
    /// What earlier items of the same batch take, beside what the look saw.
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
    Denied(Refusal),
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
    /// Looks without taking anything, as thoroughly as a denial must. `None` if the ledger is not
    /// the subject's any more.
    pub(crate) fn look(&self, era: u64, window: Window, now: Now) -> Option<Refusal> {
        loop {
            let place = self.place(era, window, now)?;
            let claimed = self.cell(place.turn).claimed;
            let seen = claimed.load();
            match self.see(place, seen, window) {
                Sight::Clear(look) => {
                    let settled = self.settled(&look, window);
                    if claimed.load() == seen {
                        let refusal = Refusal { look, settled, earlier: 0 };
                        return (self.era() == era).then_some(refusal);
                    }
                }
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
    ///
    /// A lost race means that another thread got on, so the loop ends; it never denies.
    #[inline(always)]
    pub(crate) fn claim_here(&self, era: u64, terms: Terms, now: Now) -> Verdict {
        let mut races = 0;
        loop {
            let Some(place) = self.place(era, terms.window, now) else { return Verdict::Moved };
            let claimed = self.cell(place.turn).claimed;
            let seen = claimed.load();
            let look = match self.see(place, seen, terms.window) {
                Sight::Clear(look) => look,
                Sight::Closed => return Verdict::Moved,
                Sight::Turned => continue,
            };
            if !fits(look.used, terms.cost, terms.limit) {
                let settled = self.settled(&look, terms.window);
                // What was reserved is what was seen only if nothing was released in between.
                if claimed.load() != seen {
                    continue;
                }
                let refusal = Refusal { look, settled, earlier: 0 };
                return self.verdict(era, Verdict::Denied(refusal));
            }
            let (turn, cost) = (place.turn, terms.cost);
            let near = look.used.saturating_add(cost.get()) > terms.limit.get() / 2;
            let claim = Claim { era, turn, cost, first: look.first, near, races };
            if cost.get() == 0 {
                return self.verdict(era, Verdict::Held(claim, look));
            }
            if !claimed.swap(seen, Word::new(turn, seen.count_in(turn).saturating_add(cost.get())))
            {
                races = races.saturating_add(1);
                continue;
            }
            // The claim stands if the cell still is the current one of this subject: those who
            // decide after a turn then see it. From here on it keeps the ledger.
            if self.position().turn() == turn && self.era() == era {
                return Verdict::Held(claim, look);
            }
            self.release(claim);
            if self.era() != era {
                return Verdict::Moved;
            }
        }
    }

    /// A verdict that took nothing stands if the ledger still is the subject's.
    #[inline(always)]
    fn verdict(&self, era: u64, verdict: Verdict) -> Verdict {
        if self.era() == era { verdict } else { Verdict::Moved }
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
        Sight::Clear(Look { place, view, used, first })
    }

    /// What a look used, without what batches in flight have reserved.
    #[inline]
    fn settled(&self, look: &Look, window: Window) -> u64 {
        let [first, second] = &self.back.marks;
        if first.has_no_reservations() && second.has_no_reservations() {
            return look.used;
        }
        self.used_without_reservations(look, window)
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

    /// Takes the cost for a batch, and says so before anyone can be denied because of it. What is
    /// reserved must be [settled](Self::settle) after the claim is committed or released.
    pub(crate) fn reserve(&self, era: u64, terms: Terms, now: Now) -> Verdict {
        let Some(Place { turn, .. }) = self.place(era, terms.window, now) else {
            return Verdict::Moved;
        };
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

    /// Makes a claim an admission: `mine` takes it.
    #[inline]
    pub(crate) fn commit(&self, claim: Claim, terms: Terms) {
        if claim.cost.get() == 0 {
            return;
        }
        let cell = self.cell(claim.turn);
        let alive = || self.is_alive(claim.era, claim.turn);
        // The limit is remembered where it may matter: by the first, and by those it is near to.
        // Before `mine` is raised, because until then the claim keeps the ledger.
        if claim.first || claim.near {
            let limit = terms.limit.get();
            let smaller = |held: u64| if held == 0 { limit } else { held.min(limit) };
            let _ = cell.limit.write(claim.turn, alive, smaller);
        }
        // Passed: the cell left the sliding window while the claim was held, and the cost with it.
        let add = |mine: u64| mine.saturating_add(claim.cost.get());
        let _ = cell.mine.write(claim.turn, alive, add);
    }

    /// Gives a claim back.
    pub(crate) fn release(&self, claim: Claim) {
        if claim.cost.get() > 0 {
            self.cell(claim.turn).claimed.take_back(claim.turn, claim.cost.get());
        }
    }

    /// Why a request is denied. If the limit is exhausted, reservations and other items of the
    /// batch aside, strict mode is armed: admissions are checked with the region first for one
    /// window. A single oversized request must not turn every later admission into a store read,
    /// so a cost of 1 must be denied too.
    #[inline(always)]
    pub(crate) fn deny(&self, seen: &Refusal, terms: Terms, now: Now) -> Denied {
        if fits(seen.settled.saturating_add(seen.earlier), terms.cost, terms.limit) {
            return Denied::Reserved;
        }
        let exhausted = terms.limit.get() > 0 && !fits(seen.settled, Cost::ONE, terms.limit);
        let arms = exhausted && terms.cost.get() > 0 && self.arm_strict(terms, now);
        Denied::Limit { arms }
    }

    /// Returns whether it was not armed before. The ledger may be another subject's by now, which
    /// then reads the region more often than it must, for one window.
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
