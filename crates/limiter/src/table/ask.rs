//! Decisions of [`Consistency::Bounded`]: here as far as the credit goes, beyond it by the region.
//!
//! What the region is asked for is claimed first, so that no two callers of this process wait for
//! the same room. A claim that waits looks like a reservation of a batch: whoever is denied only
//! because of it waits for its end too, and looks again.

use crate::answer::{Answer, BatchAnswer, Source};
use crate::asking::{Asked, Asking};
use crate::key::Key;
use crate::ledger::{Reason, Terms, Verdict};
use crate::planted::{self, Planted};
use crate::request::{Batch, Consistency, Request};
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
    /// [committed](Self::commit); or that was not granted, and is denied for it.
    pub fn answer_asked(&self, request: &Request<'_>, asked: AskedFor, now: Now) -> Answer {
        if asked == AskedFor::Unheard && self.denies_unasked(request) {
            return self.deny_unheard(request, now);
        }
        self.counters.mine().count(|all| match asked {
            AskedFor::Granted => &all.admitted_granted,
            AskedFor::Unheard => &all.admitted_local,
        });
        self.answer_committed(request, Some(asked), 0, now)
    }

    /// The answer to a batch whose [`Asking`], which has an example, was
    /// [committed](Self::commit); or that was not granted, and is denied for it. `asks` says which
    /// items the region had to grant; the others were only held with them.
    pub fn answer_all_asked(
        &self,
        batch: &Batch<'_>,
        (asked, asks): (AskedFor, &[bool]),
        now: Now,
    ) -> BatchAnswer {
        let requests = batch.requests();
        let denies = |(request, asks): (&Request<'_>, &bool)| *asks && self.denies_unasked(request);
        if asked == AskedFor::Unheard && requests.iter().zip(asks).any(denies) {
            return self.deny_all_unheard(requests, asks, now);
        }
        let granted =
            asks.iter().filter(|asks| **asks && asked == AskedFor::Granted).count() as u64;
        let counters = self.counters.mine();
        counters.count(|all| &all.batches_admitted);
        counters.count_many(|all| &all.admitted_granted, granted);
        counters.count_many(|all| &all.admitted_local, requests.len() as u64 - granted);
        let answer = |(at, request): (usize, &Request<'_>)| {
            // What later items take of the same subject was not taken yet when this one was.
            let same = |later: &&Request<'_>| later.subject == request.subject;
            let later = requests.iter().skip(at.saturating_add(1)).filter(same);
            let later = later.map(|later| later.cost.get()).sum();
            let asked = asks.get(at).copied().unwrap_or(true).then_some(asked);
            self.answer_committed(request, asked, later, now)
        };
        let items = requests.iter().enumerate().map(answer).collect();
        BatchAnswer { admitted: true, items }
    }

    /// Says what is left; of it, `later` is taken by others that came with it.
    fn answer_committed(
        &self,
        request: &Request<'_>,
        asked: Option<AskedFor>,
        later: u64,
        now: Now,
    ) -> Answer {
        let key = Key::of(&request.subject, &self.seed);
        let spot = self.shard(&key).find_surely(&key);
        let seen = spot.as_ref().and_then(|spot| {
            let seen = spot.ledger.look(spot.era, request.subject.window, now)?;
            Some((spot, seen.look))
        });
        let answer = match seen {
            Some((spot, mut look)) => {
                let own = request.cost.get().saturating_add(later);
                look.used = look.used.saturating_sub(own);
                self.aged(Answer::admit(request, &look, now), spot, look.place, now)
            }
            // It was dropped since: nothing of it counts any more.
            None => Answer::forgotten(request, now),
        };
        match asked {
            None => answer,
            Some(AskedFor::Granted) => Answer { source: Source::Region, ..answer },
            Some(AskedFor::Unheard) => answer.into_degraded(),
        }
    }
}
