//! Decisions of [`Consistency::Bounded`]: here as far as the credit goes, beyond it by the region.
//!
//! What the region is asked for is claimed first, so that no two callers of this process wait for
//! the same room. A claim that waits looks like a reservation of a batch: whoever is denied only
//! because of it waits for its end too, and looks again.
//!
//! The window may end meanwhile. The cost is in the cell that ended, and so is the answer: what was
//! left of it, and when it ended.

use crate::answer::{Answer, BatchAnswer, Source};
use crate::asking::{Asked, Asking, Claimed};
use crate::cells::CellTicket;
use crate::key::Key;
use crate::ledger::{Look, Place, Reason, Terms, Verdict};
use crate::planted::{self, Planted};
use crate::request::{Batch, Consistency, Request, Window};
use crate::time::Now;
use crate::window::fits;

use super::{Decision, MOVES_MAX, Need, Spot, Table};

/// What came of a request that was asked for. [`Asking`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AskedFor {
    /// The region granted it.
    Granted,
    /// The region did not answer: it is admitted on what was known, unless it is to be denied then.
    Unheard,
}

/// How one look of a bounded decision ended.
enum Step {
    Done(Decision),
    /// The ledger moved, or someone else took what was seen.
    Again,
}

impl Table {
    /// Which part of the room may be taken on credit.
    #[inline(always)]
    pub(crate) fn credit_part(&self) -> Option<u64> {
        self.regional.as_ref().map(|regional| regional.freshness.credit_part)
    }

    /// Of the room, the part up to which this request may be taken unasked, if it is not all of it.
    #[inline(always)]
    pub(crate) fn credit_part_of(&self, request: &Request<'_>) -> Option<u64> {
        if self.is_bounded(request) { self.credit_part() } else { None }
    }

    /// Whether the request is decided by [`Consistency::Bounded`] here: a cost of 0 takes nothing,
    /// and who is alone knows everything.
    #[inline(always)]
    pub(crate) fn is_bounded(&self, request: &Request<'_>) -> bool {
        request.consistency == Consistency::Bounded
            && request.cost.get() > 0
            && self.regional.as_ref().is_some_and(|regional| !regional.alone)
    }

    /// An answer that nobody was asked for, although the request wants it.
    #[inline(always)]
    pub(crate) fn unasked(&self, answer: Answer, request: &Request<'_>) -> Answer {
        if self.is_bounded(request) && answer.admitted() { answer.into_degraded() } else { answer }
    }

    /// Decides on credit, or claims what the region is to be asked for.
    #[cold]
    pub(super) fn decide_bounded(&self, key: &Key, request: &Request<'_>, now: Now) -> Decision {
        for _ in 0..MOVES_MAX {
            let found = self.shard(key).find(key);
            let Some(spot) = found.or_else(|| self.seat(key, &request.subject, &[], now)) else {
                return Decision::Answered(self.refuse(request, now));
            };
            if let Step::Done(decision) = self.step_bounded(&spot, request, now) {
                return decision;
            }
            self.counters.mine().count(|all| &all.ledgers_moved);
        }
        // Each time takes an eviction or a lost race at that very moment.
        if self.denies_unasked(request) {
            return Decision::Answered(self.deny_lost(request, now));
        }
        Decision::Answered(self.decide_alone(key, request, now).into_degraded())
    }

    fn step_bounded(&self, spot: &Spot<'_>, request: &Request<'_>, now: Now) -> Step {
        let Some(regional) = &self.regional else { return Step::Again };
        let (ledger, terms) = (spot.ledger, Terms::of(request));
        let part = regional.freshness.credit_part;
        let Ok(reason) = ledger.needs_region(spot.era, terms, regional.freshness, now) else {
            return Step::Again;
        };
        if reason.is_none()
            && let Some(verdict) = ledger.claim_on_credit(spot.era, terms, part, now)
        {
            return self.step_of(spot, request, verdict, now);
        }
        let Some(seen) = ledger.look(spot.era, terms.window, now) else { return Step::Again };
        if !fits(seen.look.used, terms.cost, terms.limit) {
            return self.step_of(spot, request, Verdict::Denied(seen), now);
        }
        if ledger.retry_at() > now.monotonic_ms() {
            // It did not answer a moment ago.
            if self.denies_unasked(request) && !planted::is(Planted::OutageAdmits) {
                let answer = self.deny_unasked(spot, request, &seen.look, now);
                return Step::Done(Decision::Answered(answer));
            }
            let verdict = ledger.claim(spot.era, terms, now);
            let answer = self.conclude(spot, request, verdict, now);
            return answer.map_or(Step::Again, |answer| {
                Step::Done(Decision::Answered(answer.into_degraded()))
            });
        }
        match ledger.reserve(spot.era, terms, now) {
            Verdict::Held(claim, _) => {
                let denies = self.denies_unasked(request);
                match Asked::new(ledger, spot.ticket(), (claim, terms), (true, denies)) {
                    Some(item) => Step::Done(Decision::Ask(Asking { items: vec![item] })),
                    None => {
                        ledger.release(claim);
                        ledger.settle(claim.era, claim.turn, claim.cost);
                        Step::Again
                    }
                }
            }
            // Someone was quicker: by what is there now, it may be denied.
            Verdict::Denied(_) | Verdict::Moved => Step::Again,
        }
    }

    /// A verdict on what is known; who is denied because others wait, waits too.
    fn step_of(&self, spot: &Spot<'_>, request: &Request<'_>, verdict: Verdict, now: Now) -> Step {
        if let Verdict::Denied(seen) = &verdict
            && seen.is_by_reservations(Terms::of(request))
            && !planted::is(Planted::ReservedDenied)
        {
            let (subject, reason) = (spot.ticket(), Reason::Reserved);
            return Step::Done(Decision::Refresh(Need { subject, reason }));
        }
        let answer = self.conclude(spot, request, verdict, now);
        answer.map_or(Step::Again, |answer| Step::Done(Decision::Answered(answer)))
    }

    /// Makes everything that is claimed an admission. [`Asking`] has an example.
    pub fn commit(&self, asking: Asking) {
        let mut begun = 0;
        for item in &asking.items {
            if let Some(spot) = self.spot_of(item) {
                begun += u64::from(spot.ledger.commit_held(item.claim, item.terms));
                spot.ledger.settle(item.claim.era, item.turn(), item.claim.cost);
                self.note_if_due(&spot, item.turn());
            }
        }
        self.counters.mine().count_many(|all| &all.cells_begun, begun);
    }

    /// Gives everything back that is claimed. [`Asking`] has an example.
    pub fn release(&self, asking: Asking) {
        for item in &asking.items {
            if let Some(spot) = self.spot_of(item) {
                spot.ledger.release(item.claim);
                spot.ledger.settle(item.claim.era, item.turn(), item.claim.cost);
            }
        }
    }

    /// Ends what is claimed and the region was never asked for: it is admitted, as what was known
    /// said; or given back, if it was to be [denied](Asking::denies). [`Asking`] has an example.
    pub fn end_unsent(&self, asking: Asking) {
        if asking.denies() { self.release(asking) } else { self.commit(asking) }
    }

    /// Ends what is claimed and the region was asked for in vain: it becomes an admission. If it
    /// was to be [denied](Asking::denies), only what was sent does, because the store may count
    /// it; what was merely held with it is given back. [`Asking`] has an example.
    pub fn end_unheard(&self, asking: Asking) {
        if !asking.denies() {
            return self.commit(asking);
        }
        let (sent, held) = asking.items.into_iter().partition(|item| item.asks);
        self.commit(Asking { items: sent });
        self.release(Asking { items: held });
    }

    fn spot_of(&self, item: &Asked) -> Option<Spot<'_>> {
        let subject = item.cell.subject;
        let spot = self.shards.get(usize::from(subject.shard))?.spot(subject.ledger)?;
        (spot.era == subject.era).then_some(spot)
    }

    /// The answer to a request whose [`Asking`], which has an example, was
    /// [committed](Self::commit); or that was not granted, and is denied for it. An admission is
    /// answered by the cell in which it was [claimed](Asking::claimed).
    pub fn answer_asked(
        &self,
        request: &Request<'_>,
        (asked, claimed): (AskedFor, Option<Claimed>),
        now: Now,
    ) -> Answer {
        if asked == AskedFor::Unheard && self.denies_unasked(request) {
            return self.deny_unheard(request, now);
        }
        self.counters.mine().count(|all| match asked {
            AskedFor::Granted => &all.admitted_granted,
            AskedFor::Unheard => &all.admitted_local,
        });
        let cell = claimed.map(|claimed| claimed.cell);
        self.answer_committed(request, (Some(asked), cell), 0, now)
    }

    /// The answer to a batch whose [`Asking`], which has an example, was
    /// [committed](Self::commit); or that was not granted, and is denied for it. `claimed` says of
    /// every item [where](Asking::claimed), and whether the region had to grant it.
    pub fn answer_all_asked(
        &self,
        batch: &Batch<'_>,
        (asked, claimed): (AskedFor, &[Claimed]),
        now: Now,
    ) -> BatchAnswer {
        let requests = batch.requests();
        let denies = |(request, claimed): (&Request<'_>, &Claimed)| {
            claimed.asks && self.denies_unasked(request)
        };
        if asked == AskedFor::Unheard && requests.iter().zip(claimed).any(denies) {
            return self.deny_all_unheard(requests, claimed, now);
        }
        let is_granted = |claimed: &&Claimed| claimed.asks && asked == AskedFor::Granted;
        let granted = claimed.iter().filter(is_granted).count() as u64;
        let counters = self.counters.mine();
        counters.count(|all| &all.batches_admitted);
        counters.count_many(|all| &all.admitted_granted, granted);
        counters.count_many(|all| &all.admitted_local, requests.len() as u64 - granted);
        let answer = |(at, request): (usize, &Request<'_>)| {
            let (cell, asks) = claimed.get(at).map_or((None, true), |it| (Some(it.cell), it.asks));
            // What later items take of the same cell was not taken yet when this one was.
            let pairs = requests.iter().zip(claimed).skip(at.saturating_add(1));
            let later = pairs.filter(|(_, later)| Some(later.cell) == cell);
            let later = later.map(|(later, _)| later.cost.get()).sum();
            self.answer_committed(request, (asks.then_some(asked), cell), later, now)
        };
        let items = requests.iter().enumerate().map(answer).collect();
        BatchAnswer { admitted: true, items }
    }

    /// Says what is left of the cell; of it, `later` is taken by others that came with it.
    fn answer_committed(
        &self,
        request: &Request<'_>,
        (asked, cell): (Option<AskedFor>, Option<CellTicket>),
        later: u64,
        now: Now,
    ) -> Answer {
        let answer = match cell {
            Some(cell) => {
                let (spot, mut look) = self.look_in(request, cell, now);
                let own = request.cost.get().saturating_add(later);
                look.used = look.used.saturating_sub(own);
                let answer = Answer::admit(request, &look);
                let at = (look.place, request.subject.window);
                match spot {
                    Some(spot) => self.aged(answer, &spot, at, now),
                    None => self.aged_unknown(answer, at, now),
                }
            }
            None => Answer::forgotten(request, now),
        };
        match asked {
            None => answer,
            Some(AskedFor::Granted) => Answer { source: Source::Region, ..answer },
            Some(AskedFor::Unheard) => answer.into_degraded(),
        }
    }

    /// What is known of a cell in which something was claimed, and where it is. It may have ended
    /// since; if it is gone, nothing of it counts any more.
    fn look_in(
        &self,
        request: &Request<'_>,
        cell: CellTicket,
        now: Now,
    ) -> (Option<Spot<'_>>, Look) {
        let (key, window) = (Key::of(&request.subject, &self.seed), request.subject.window);
        let found = self.shard(&key).find_surely(&key);
        // Moves the subject to its window, as every request does.
        let seen = found.and_then(|spot| spot.ledger.look(spot.era, window, now));
        if let (Some(spot), Some(seen)) = (found, seen)
            && (spot.ticket(), seen.look.place.turn) == (cell.subject, cell.turn())
        {
            return (found, seen.look);
        }
        #[cfg(feature = "planted")]
        if let Some(seen) = seen.filter(|_| planted::is(Planted::AnswerOfNow)) {
            return (found, seen.look);
        }
        let spot = found.filter(|spot| spot.ticket() == cell.subject);
        let back = spot.and_then(|it| it.ledger.look_back(it.era, cell.turn(), window, now));
        match back {
            Some(look) => (spot, look),
            None => (None, Look::ended((cell.turn(), cell.sequence(), 0), window, now)),
        }
    }

    /// Says how old the view of a cell that is gone was: as old as if nobody had been heard of.
    fn aged_unknown(&self, answer: Answer, (place, window): (Place, Window), now: Now) -> Answer {
        let Some(regional) = &self.regional else { return answer };
        let window_ms = window.as_millis();
        let globe_ms = regional.globe().age_ms(window_ms, now.monotonic_ms());
        let region_ms = place.elapsed_ms.saturating_add(window_ms);
        Answer { age_ms: region_ms.max(globe_ms), ..answer }
    }
}
