//! The decision itself: look, decide by a pure function, swap one word, look once more.

use crate::cell::Heard;
use crate::register::{COUNT_MAX, Turn, Word, Write};
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

impl Terms {
    /// Whether with the cost more than half of the limit is used, where so much is.
    #[inline(always)]
    pub(super) const fn is_near(self, used: u64) -> bool {
        used.saturating_add(self.cost.get()) > self.limit.get() / 2
    }
}

/// What a decision saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look {
    pub(crate) place: Place,
    /// With everything that is claimed.
    pub(crate) view: View,
    /// What the sliding window holds, by that view.
    pub(crate) used: u64,
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

impl Refusal {
    /// Whether the request would fit but for what batches in flight have reserved.
    #[inline(always)]
    pub(crate) fn is_by_reservations(&self, terms: Terms) -> bool {
        fits(self.settled.saturating_add(self.earlier), terms.cost, terms.limit)
    }
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
    /// With it, more than half of the limit is used.
    pub(crate) near: bool,
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
            let seen = self.claimed(place.turn);
            match self.see(place, seen, window) {
                Sight::Clear(look) => {
                    let settled = self.settled(&look, window);
                    if self.claimed(place.turn) == seen {
                        let refusal = Refusal { look, settled, earlier: 0 };
                        return (self.era() == era).then_some(refusal);
                    }
                }
                Sight::Closed => return None,
                Sight::Turned => {}
            }
        }
    }

    /// Takes the cost if it fits. INV-4: what is claimed in a cell never exceeds the limit of
    /// the request that claimed last.
    ///
    /// A lost race means that another thread got on, so the loop ends; it never denies.
    pub(crate) fn claim(&self, era: u64, terms: Terms, now: Now) -> Verdict {
        self.claim_where(era, terms, now, (|_| true, |_: &Look, _| true))
    }

    /// [`Ledger::claim`]; with a `part`, only if the cost may be taken on credit: otherwise it
    /// moved.
    #[inline(always)]
    pub(crate) fn claim_lent(
        &self,
        era: u64,
        terms: Terms,
        part: Option<u64>,
        now: Now,
    ) -> Verdict {
        let lends = |look: &Look, seen| match part {
            Some(part) => self.lends(look, seen, terms, part),
            None => true,
        };
        self.claim_where(era, terms, now, (|_| true, lends))
    }

    /// [`Ledger::claim`], if the cost may be taken on credit: `None` if not.
    pub(crate) fn claim_on_credit(
        &self,
        era: u64,
        terms: Terms,
        part: u64,
        now: Now,
    ) -> Option<Verdict> {
        let short = std::cell::Cell::new(false);
        let lends = |look: &Look, seen| {
            short.set(!self.lends(look, seen, terms, part));
            !short.get()
        };
        let verdict = self.claim_where(era, terms, now, (|_| true, lends));
        (!short.get()).then_some(verdict)
    }

    /// [`Ledger::claim`], in a turn that `may` agrees to and if `lends` does; otherwise it
    /// moved.
    #[inline(always)]
    pub(super) fn claim_where(
        &self,
        era: u64,
        terms: Terms,
        now: Now,
        (may, lends): (impl Fn(Turn) -> bool, impl Fn(&Look, Word) -> bool),
    ) -> Verdict {
        let mut races = 0;
        loop {
            let Some(place) = self.place(era, terms.window, now) else {
                return Verdict::Moved;
            };
            if !may(place.turn) {
                return Verdict::Moved;
            }
            let seen = self.claimed(place.turn);
            let look = match self.see(place, seen, terms.window) {
                Sight::Clear(look) => look,
                Sight::Closed => return Verdict::Moved,
                Sight::Turned => continue,
            };
            if !fits(look.used, terms.cost, terms.limit) {
                let settled = self.settled(&look, terms.window);
                // What was reserved is what was seen only if nothing was released in between.
                if self.claimed(place.turn) != seen {
                    continue;
                }
                let refusal = Refusal { look, settled, earlier: 0 };
                return self.verdict(era, Verdict::Denied(refusal));
            }
            let (turn, cost) = (place.turn, terms.cost);
            let [seen_current, _] = seen;
            if !lends(&look, seen_current) {
                return Verdict::Moved;
            }
            let near = terms.is_near(look.used);
            let claim = Claim { era, turn, cost, near, races };
            if cost.get() == 0 {
                return self.verdict(era, Verdict::Held(claim, look));
            }
            // After the word was loaded: if the era is ours, so was the word, and swapping it takes
            // nothing from a newcomer.
            if self.era() != era {
                return Verdict::Moved;
            }
            let new = Word::new(turn, seen_current.count_in(turn).saturating_add(cost.get()));
            if !self.cell(turn).claimed.swap(seen_current, new) {
                races = races.saturating_add(1);
                continue;
            }
            // The claim stands if the cell still is the current one of this subject: those who
            // decide after a turn then see it. From here on it keeps the ledger.
            if self.position().turn() == turn && self.era() == era {
                return Verdict::Held(claim, look);
            }
            // Whosever the ledger is by now: this claim is on it.
            self.take_back(claim);
            if self.era() != era {
                return Verdict::Moved;
            }
        }
    }

    /// What is claimed in the cell of a turn and in the one before it.
    #[inline(always)]
    pub(super) fn claimed(&self, turn: Turn) -> [Word; 2] {
        self.front.claimed(turn)
    }

    /// What is claimed in the cell of a turn, as if `more` were.
    pub(crate) fn claimed_with(&self, turn: Turn, more: u64) -> Word {
        let claimed = self.cell(turn).claimed.read(turn).saturating_add(more);
        Word::new(turn, claimed.min(COUNT_MAX))
    }

    /// A verdict that took nothing stands if the ledger still is the subject's.
    #[inline(always)]
    fn verdict(&self, era: u64, verdict: Verdict) -> Verdict {
        if self.era() == era { verdict } else { Verdict::Moved }
    }

    /// Looks at what the cells hold, `seen` being what is claimed in them.
    ///
    /// Words of other turns count for nothing. Whether they are leftovers, as they should be, or
    /// were written by those who turned the ledger meanwhile, the position tells afterwards:
    /// whoever begins a turn moves it first.
    #[inline(always)]
    fn see(&self, place: Place, seen: [Word; 2], window: Window) -> Sight {
        let Some(view) = self.add_up(place, seen) else { return Sight::Closed };
        if self.position().turn() != place.turn {
            return Sight::Turned;
        }
        let used = view.used(window, place.elapsed_ms);
        Sight::Clear(Look { place, view, used })
    }

    /// Adds up what the cells hold. `None` if the ledger is being retired, or is free.
    #[inline(always)]
    pub(super) fn add_up(&self, place: Place, seen: [Word; 2]) -> Option<View> {
        let (turn, before) = (place.turn, place.turn.previous());
        let [seen, seen_before] = seen;
        let mut view =
            View { current: seen.count_in(turn), previous: seen_before.count_in(before) };
        #[cfg(feature = "planted")]
        if crate::planted::is(crate::planted::Planted::EndedAskIgnored) {
            view.previous = self.cell(before).mine.read(before);
        }
        if place.heard {
            view.current += self.cell(turn).told(turn);
            view.previous += self.cell(before).told(before);
        }
        let closed = seen.turn() == Turn::RETIRED || seen_before.turn() == Turn::RETIRED;
        (!closed).then_some(view)
    }

    /// What a look used, without what batches in flight have reserved.
    #[inline]
    pub(super) fn settled(&self, look: &Look, window: Window) -> u64 {
        if Heard::have_no_reservations(&self.back.heard) {
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
        self.reserve_if(era, terms, now, |_, _| true)
    }

    /// [`Ledger::reserve`], if `lends` agrees; otherwise it moved.
    pub(crate) fn reserve_if(
        &self,
        era: u64,
        terms: Terms,
        now: Now,
        lends: impl Fn(&Look, Word) -> bool,
    ) -> Verdict {
        let cost = terms.cost;
        let mut marked = None;
        loop {
            let place = self.place(era, terms.window, now);
            if let Some(Place { turn, .. }) = place {
                self.reserve_in(era, turn, cost);
            }
            // The new turn is marked before the old one is settled.
            if let Some(turn) = marked {
                self.settle(era, turn, cost);
            }
            let Some(Place { turn, .. }) = place else { return Verdict::Moved };
            marked = Some(turn);
            let turned = std::cell::Cell::new(false);
            let here = |current| {
                turned.set(current != turn);
                current == turn
            };
            match self.claim_where(era, terms, now, (here, &lends)) {
                Verdict::Moved if turned.get() => {}
                held @ Verdict::Held(..) => return held,
                verdict => {
                    self.settle(era, turn, cost);
                    return verdict;
                }
            }
        }
    }

    /// Says that a cost of the cell of this turn is about to be reserved.
    pub(crate) fn reserve_in(&self, era: u64, turn: Turn, cost: Cost) {
        let alive = || self.is_alive(era, turn);
        let _ = self.cell(turn).reserved.write(turn, alive, |held| held.saturating_add(cost.get()));
    }

    /// A reservation has ended.
    pub(crate) fn settle(&self, era: u64, turn: Turn, cost: Cost) {
        if self.era() == era {
            self.cell(turn).reserved.take_back(turn, cost.get());
        }
    }

    /// Makes a claim an admission: `mine` takes it. Returns whether it is the first of its cell.
    #[inline]
    pub(crate) fn commit(&self, claim: Claim, terms: Terms) -> bool {
        !self.front.commit_at_once(&claim) && self.commit_slowly(claim, terms)
    }

    /// [`Ledger::commit`], after it could not be done at once.
    pub(crate) fn commit_slowly(&self, claim: Claim, terms: Terms) -> bool {
        if claim.cost.get() == 0 {
            return false;
        }
        let (mine, turn) = (self.cell(claim.turn).mine, claim.turn);
        let seen = mine.load();
        let begins = seen.count_in(turn) == 0;
        // The limit is remembered where it may matter: by the first, and by those it is near to.
        // Before `mine` is raised, because until then the claim keeps the ledger.
        if claim.near || begins {
            self.remember_limit(claim, terms.limit);
        }
        let new = seen.count_in(turn).saturating_add(claim.cost.get()).min(COUNT_MAX);
        if seen.turn() == turn && mine.swap(seen, Word::new(turn, new)) {
            return begins;
        }
        self.commit_anew(claim)
    }

    fn remember_limit(&self, claim: Claim, limit: Limit) {
        let alive = || self.is_alive(claim.era, claim.turn);
        let smaller = |held: u64| if held == 0 { limit.get() } else { held.min(limit.get()) };
        let _ = self.cell(claim.turn).limit.write(claim.turn, alive, smaller);
    }

    /// The word is of another turn, or another admission was first.
    #[cold]
    fn commit_anew(&self, claim: Claim) -> bool {
        let alive = || self.is_alive(claim.era, claim.turn);
        let begins = std::cell::Cell::new(false);
        let add = |mine: u64| {
            begins.set(mine == 0);
            mine.saturating_add(claim.cost.get())
        };
        // Passed: the cell left the sliding window while the claim was held, and the cost with it.
        self.cell(claim.turn).mine.write(claim.turn, alive, add) == Write::Done && begins.get()
    }

    /// [`Ledger::commit`] for one that may have been held for long: a cell that passes meanwhile
    /// does not keep the ledger.
    pub(crate) fn commit_held(&self, claim: Claim, terms: Terms) -> bool {
        self.era() == claim.era && self.commit(claim, terms)
    }

    /// Gives a claim back.
    pub(crate) fn release(&self, claim: Claim) {
        if self.era() == claim.era {
            self.take_back(claim);
        }
    }

    pub(super) fn take_back(&self, claim: Claim) {
        if claim.cost.get() > 0 {
            self.cell(claim.turn).claimed.take_back(claim.turn, claim.cost.get());
        }
    }

    /// Why a request is denied. If the limit is exhausted, reservations and other items of the
    /// batch aside, strict mode is armed: admissions are checked with the region first for one
    /// window. A single oversized request must not turn every later admission into a store read,
    /// so a cost of 1 must be denied too.
    #[inline(always)]
    pub(crate) fn deny(&self, era: u64, seen: &Refusal, terms: Terms, now: Now) -> Denied {
        if seen.is_by_reservations(terms) {
            return Denied::Reserved;
        }
        Denied::Limit { arms: self.arm_if_exhausted(era, seen.settled, terms, now) }
    }

    /// Arms strict mode if what is `settled` exhausts the limit: a cost of 1 does not fit. Returns
    /// whether it was not armed before.
    #[inline(always)]
    pub(crate) fn arm_if_exhausted(&self, era: u64, settled: u64, terms: Terms, now: Now) -> bool {
        let exhausted = settled >= terms.limit.get() && terms.limit.get() > 0;
        exhausted && terms.cost.get() > 0 && self.era() == era && self.arm_strict(terms, now)
    }

    /// Returns whether it was not armed before. If the ledger becomes another subject's at this
    /// moment, that one reads the region more often than it must, for one window.
    #[inline]
    pub(crate) fn arm_strict(&self, terms: Terms, now: Now) -> bool {
        // Both are far below 2^64.
        let until = now.monotonic_ms().wrapping_add(terms.window.as_millis());
        #[cfg(feature = "planted")]
        let until = crate::planted::strict_until(until, terms.window.as_millis(), now);
        let known = self.back.strict_until.load(Ordering::Acquire);
        let limit = self.back.strict_limit.load(Ordering::Acquire);
        // Many are denied in the same millisecond.
        if known >= until && limit >= terms.limit.get() {
            return false;
        }
        self.arm_anew(known, until, terms.limit, now)
    }

    #[inline(never)]
    fn arm_anew(self, known: u64, until: u64, limit: Limit, now: Now) -> bool {
        let armed = known > now.monotonic_ms();
        if !armed || self.back.strict_limit.load(Ordering::Acquire) < limit.get() {
            self.raise_strict_limit(limit, armed);
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
