//! Requests that would rather be denied than be decided without the region:
//! [`Outage::Deny`](crate::Outage::Deny).
//!
//! INV-49: none of them is admitted on a view that the region should have been asked about first
//! and was not. They differ from the others only there: what is fresh, on credit or proven to be
//! used up is decided as ever, and whoever would be denied anyway keeps its own reason. A denial
//! for this reason changes no register.

use crate::answer::{Answer, BatchAnswer, Source};
use crate::asking::Claimed;
use crate::key::Key;
use crate::ledger::{Look, Reason, Terms};
use crate::request::{Outage, Request};
use crate::sync::Ordering;
use crate::time::Now;
use crate::window::fits;

use super::{Decision, MOVES_MAX, Need, Spot, Table};

/// How long a caller is told to wait at least: after an ask that was not answered nobody asks again
/// for as long. Less, and those who come back at once only find the same.
const WAIT_MS_MIN: u64 = 50;

/// How long the region is not asked again.
pub(super) const fn wait_ms(retry_at_ms: u64, now: Now) -> u64 {
    let wait_ms = retry_at_ms.saturating_sub(now.monotonic_ms());
    if wait_ms < WAIT_MS_MIN { WAIT_MS_MIN } else { wait_ms }
}

impl Table {
    /// Whether the request is denied when the region cannot be asked. Who has nobody to ask never
    /// fails to.
    #[inline]
    pub(crate) fn denies_unasked(&self, request: &Request<'_>) -> bool {
        request.outage == Outage::Deny && self.regional.is_some()
    }

    /// Decides one that is not on credit, or on a view that is not fresh.
    #[cold]
    pub(super) fn decide_heard(&self, key: &Key, request: &Request<'_>, now: Now) -> Decision {
        for _ in 0..MOVES_MAX {
            let found = self.shard(key).find(key);
            let Some(spot) = found.or_else(|| self.seat(key, &request.subject, &[], now)) else {
                return Decision::Answered(self.refuse(request, now));
            };
            if let Some(decision) = self.step_heard(&spot, request, now) {
                return decision;
            }
            self.counters.mine().count(|all| &all.ledgers_moved);
        }
        Decision::Answered(self.deny_lost(request, now))
    }

    /// One look. `None` if the ledger moved.
    fn step_heard(&self, spot: &Spot<'_>, request: &Request<'_>, now: Now) -> Option<Decision> {
        let (ledger, terms) = (spot.ledger, Terms::of(request));
        let freshness = self.regional.as_ref()?.freshness;
        let Some(reason) = ledger.needs_region(spot.era, terms, freshness, now).ok()? else {
            let verdict = ledger.claim(spot.era, terms, now);
            return self.conclude(spot, request, verdict, now).map(Decision::Answered);
        };
        let seen = ledger.look(spot.era, terms.window, now)?;
        Some(if !fits(seen.look.used, terms.cost, terms.limit) {
            Decision::Answered(self.deny(spot, request, &seen, now))
        } else if ledger.retry_at() > now.monotonic_ms() {
            Decision::Answered(self.deny_unasked(spot, request, &seen.look, now))
        } else {
            Decision::Refresh(Need { subject: spot.ticket(), reason })
        })
    }

    /// Decides one that has waited for the region; `heard` says whether it answered.
    pub(super) fn decide_heard_last(
        &self,
        found: Option<Spot<'_>>,
        request: &Request<'_>,
        heard: bool,
        now: Now,
    ) -> Answer {
        // One that was dropped meanwhile took with it what was heard.
        let Some(spot) = found else { return self.deny_lost(request, now) };
        let (ledger, terms) = (spot.ledger, Terms::of(request));
        if heard && !self.is_bounded(request) && !self.is_cold(&spot, request, now) {
            let verdict = ledger.claim(spot.era, terms, now);
            let answer = self.conclude(&spot, request, verdict, now);
            return answer.map_or_else(
                || self.deny_lost(request, now),
                |answer| Answer { source: Source::Region, ..answer },
            );
        }
        match ledger.look(spot.era, terms.window, now) {
            None => self.deny_lost(request, now),
            Some(seen) if fits(seen.look.used, terms.cost, terms.limit) => {
                self.deny_unasked(&spot, request, &seen.look, now)
            }
            Some(seen) => self.deny(&spot, request, &seen, now).into_degraded(),
        }
    }

    /// Whether nothing is known of a subject. After it was heard of that is so if it was dropped
    /// meanwhile and is new again, or if the region turned out to have forgotten what it had.
    pub(crate) fn is_cold(&self, spot: &Spot<'_>, request: &Request<'_>, now: Now) -> bool {
        let Some(regional) = &self.regional else { return false };
        let (ledger, terms) = (spot.ledger, Terms::of(request));
        let needs = ledger.needs_region(spot.era, terms, regional.freshness, now);
        !matches!(needs, Ok(None | Some(Reason::Stale | Reason::Strict | Reason::Significant)))
    }

    /// It would be admitted, but the region could not be asked.
    #[cold]
    pub(crate) fn deny_unasked(
        &self,
        spot: &Spot<'_>,
        request: &Request<'_>,
        look: &Look,
        now: Now,
    ) -> Answer {
        self.count_outage();
        let at = (look.place, request.subject.window);
        let answer = self.aged(Answer::admit(request, look), spot, at, now);
        answer.into_outage(wait_ms(spot.ledger.retry_at(), now))
    }

    /// The same of a subject of which nothing is in memory any more.
    #[cold]
    pub(super) fn deny_lost(&self, request: &Request<'_>, now: Now) -> Answer {
        self.count_outage();
        Answer::forgotten(request, now).into_outage(WAIT_MS_MIN)
    }

    fn count_outage(&self) {
        if let Some(regional) = &self.regional {
            // ORDER: relaxed, as where it is read.
            regional.denied_outage.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The answer to a request whose ask was not answered.
    pub(super) fn deny_unheard(&self, request: &Request<'_>, now: Now) -> Answer {
        match self.look_at(request, now) {
            Some((spot, look)) => self.deny_unasked(&spot, request, &look, now),
            None => self.deny_lost(request, now),
        }
    }

    /// The same of a batch: nothing of it is admitted.
    pub(super) fn deny_all_unheard(
        &self,
        requests: &[Request<'_>],
        claimed: &[Claimed],
        now: Now,
    ) -> BatchAnswer {
        let mut undone = 0;
        let answer = |(at, request): (usize, &Request<'_>)| {
            let asks = claimed.get(at).is_none_or(|claimed| claimed.asks);
            if asks && self.denies_unasked(request) {
                return self.deny_unheard(request, now);
            }
            undone += 1;
            let answer = match self.look_at(request, now) {
                Some((spot, look)) => {
                    let at = (look.place, request.subject.window);
                    self.aged(Answer::admit(request, &look), &spot, at, now)
                }
                None => Answer::forgotten(request, now),
            };
            // Nothing was spent: the cost is still there.
            let remaining = answer.remaining.saturating_add(request.cost.get());
            let answer = Answer { remaining, ..answer };
            if asks { answer.into_degraded() } else { answer }
        };
        let items = requests.iter().enumerate().map(answer).collect();
        let counters = self.counters.mine();
        counters.count(|all| &all.batches_denied);
        counters.count_many(|all| &all.batch_items_undone, undone);
        BatchAnswer { admitted: false, items }
    }

    /// Where a subject is, and what is known of it, if it is in memory.
    fn look_at(&self, request: &Request<'_>, now: Now) -> Option<(Spot<'_>, Look)> {
        let key = Key::of(&request.subject, &self.seed);
        let spot = self.shard(&key).find_surely(&key)?;
        let seen = spot.ledger.look(spot.era, request.subject.window, now)?;
        Some((spot, seen.look))
    }
}
