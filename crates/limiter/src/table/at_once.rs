//! A decision of a process on its own: at once if it is an ordinary one, as nearly all are.
//!
//! What they need is inlined into one function. What is not ordinary finds its own way, and is said
//! to be cold, so that nothing is kept for it: why that matters, [`crate::ledger`] and ADR 20 say.

use crate::answer::{Answer, Denial};
use crate::key::Key;
use crate::ledger::{
    Admitted, Claim, Front, Glance, Position, Refusal, Terms, Undecided, is_near, name_of,
};
use crate::request::{Request, Subject};
use crate::time::Now;

use super::{Spot, Table};

impl Table {
    /// Decides one request. The [type](Self) has an example.
    pub fn decide(&self, request: &Request<'_>, now: Now) -> Answer {
        let Some((front, era)) = self.find_at_once(&request.subject) else {
            return self.decide_slowly(request, now);
        };
        let found = (front, era);
        match front.admit_at_once::<false>(era, Terms::of(request), now) {
            Ok(admitted) => self.admit_at_once(&admitted, era, request),
            Err(Undecided::Full(glance)) => self.deny_at_once(glance, found, request, now),
            Err(Undecided::Weighs) => self.decide_weighing(found, request, now),
            Err(Undecided::Raced) => self.decide_again(request, now),
            Err(Undecided::Other) => self.decide_slowly(request, now),
        }
    }

    /// Denies what does not fit by a glance, if that is as sure as it has to be.
    #[inline(always)]
    fn deny_at_once(
        &self,
        glance: Glance,
        (front, era): (&Front, u64),
        request: &Request<'_>,
        now: Now,
    ) -> Answer {
        let ledger = self.rooms.ledger_of(front);
        let Some(ledger) = ledger.filter(|ledger| ledger.confirms(&glance, era)) else {
            return self.decide_slowly(request, now);
        };
        self.counters.mine().count(|all| &all.denied_local);
        let (look, limit) = (glance.look, request.limit.get());
        // As in `arm_if_exhausted`, of which the rest is known.
        if look.used >= limit && limit > 0 && ledger.arm_strict(Terms::of(request), now) {
            self.counters.mine().count(|all| &all.strict_armed);
        }
        let refusal = Refusal { look, settled: look.used, earlier: 0 };
        Answer::deny(request, &refusal, Denial::Limit, now)
    }

    /// Decides where the previous cell holds something.
    #[inline(never)]
    fn decide_weighing(&self, found: (&Front, u64), request: &Request<'_>, now: Now) -> Answer {
        let (front, era) = found;
        match front.admit_at_once::<true>(era, Terms::of(request), now) {
            Ok(admitted) => self.admit_at_once(&admitted, era, request),
            Err(Undecided::Full(glance)) => self.deny_at_once(glance, found, request, now),
            Err(Undecided::Raced) => self.decide_again(request, now),
            Err(Undecided::Weighs | Undecided::Other) => self.decide_slowly(request, now),
        }
    }

    /// Decides what somebody else was first at.
    #[cold]
    #[inline(never)]
    fn decide_again(&self, request: &Request<'_>, now: Now) -> Answer {
        self.counters.mine().count(|all| &all.races_lost);
        self.decide_slowly(request, now)
    }

    /// Counts what was admitted, and commits it if that is left to do.
    #[inline(always)]
    fn admit_at_once(&self, admitted: &Admitted, era: u64, request: &Request<'_>) -> Answer {
        let Admitted { reset_ms, remaining, at, committed } = *admitted;
        if committed {
            self.counters.mine().count(|all| &all.admitted_local);
        } else {
            self.commit_slowly((at, remaining), era, request);
        }
        Answer::of(request, reset_ms, remaining)
    }

    /// Finds the front of a subject that is not asked of a region, and its era.
    #[inline(always)]
    fn find_at_once(&self, subject: &Subject<'_>) -> Option<(&Front, u64)> {
        let key = Key::at_once(subject, &self.seed);
        self.shard(&key).find_first(&key).filter(|_| self.regional.is_none())
    }

    /// Decides what could not be decided at once.
    #[cold]
    #[inline(never)]
    fn decide_slowly(&self, request: &Request<'_>, now: Now) -> Answer {
        let key = &Key::of(&request.subject, &self.seed);
        let conclude = |spot: Spot<'_>| {
            let verdict = spot.ledger.claim(spot.era, Terms::of(request), now);
            self.conclude(&spot, request, verdict, now)
        };
        let answer = self.shard(key).find(key).and_then(conclude);
        self.unasked(answer.unwrap_or_else(|| self.decide_anew(key, request, now)), request)
    }

    /// Commits what begins a cell, comes near its limit, or meets another admission.
    #[cold]
    #[inline(never)]
    fn commit_slowly(&self, (at, remaining): (Position, u64), era: u64, request: &Request<'_>) {
        let near = is_near(request.limit, remaining);
        let claim = Claim { era, turn: at.turn(), cost: request.cost, near, races: 0 };
        // A claim keeps its ledger, unless its cell has passed.
        let ledger = self.rooms.ledger(name_of(era)).filter(|ledger| ledger.era() == era);
        let begins = ledger.is_some_and(|it| it.commit_slowly(claim, Terms::of(request)));
        self.count_admission(claim, begins);
    }
}
