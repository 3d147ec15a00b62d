//! A decision of a process on its own: at once if it is an ordinary one, as nearly all are.
//!
//! What they need is inlined into one function, and what is rare finds its own way, so that nothing
//! has to be kept for it: why that matters, [`crate::ledger`] and ADR 20 say.

use crate::answer::{Answer, Denial};
use crate::key::Key;
use crate::ledger::{
    Admitted, Claim, Front, Position, Refusal, Terms, Undecided, is_near, name_of,
};
use crate::request::{Request, Subject};
use crate::time::Now;

use super::{Spot, Table};

impl Table {
    /// Decides one request. The [type](Self) has an example.
    pub fn decide(&self, request: &Request<'_>, now: Now) -> Answer {
        let Some((front, era)) = self.find_at_once(&request.subject) else {
            return self.decide_slowly(request, 0, now);
        };
        match front.admit_at_once::<false>(era, Terms::of(request), now) {
            Ok(admitted) => self.admit_at_once(&admitted, era, request),
            Err(undecided) => self.deny_at_once(undecided, (front, era), request, now),
        }
    }

    /// Denies what does not fit, or decides what is not as ordinary as that.
    #[inline(always)]
    fn deny_at_once(
        &self,
        undecided: Undecided,
        (front, era): (&Front, u64),
        request: &Request<'_>,
        now: Now,
    ) -> Answer {
        let glance = match undecided {
            Undecided::Full(glance) => glance,
            Undecided::Weighs => return self.decide_weighing((front, era), request, now),
            Undecided::Other(races) => return self.decide_slowly(request, races, now),
        };
        let ledger = self.rooms.ledger_of(front);
        let Some(ledger) = ledger.filter(|ledger| ledger.confirms(&glance, era)) else {
            return self.decide_slowly(request, 0, now);
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
    fn decide_weighing(
        &self,
        (front, era): (&Front, u64),
        request: &Request<'_>,
        now: Now,
    ) -> Answer {
        match front.admit_at_once::<true>(era, Terms::of(request), now) {
            Ok(admitted) => self.admit_at_once(&admitted, era, request),
            Err(Undecided::Weighs) => self.decide_slowly(request, 0, now),
            Err(undecided) => self.deny_at_once(undecided, (front, era), request, now),
        }
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

    /// Decides what could not be decided at once, after so many lost races.
    #[inline(never)]
    fn decide_slowly(&self, request: &Request<'_>, races: u32, now: Now) -> Answer {
        let key = &Key::of(&request.subject, &self.seed);
        let conclude = |spot: Spot<'_>| {
            let verdict = spot.ledger.claim_after(races, spot.era, Terms::of(request), now);
            self.conclude(&spot, request, verdict, now)
        };
        let answer = self.shard(key).find(key).and_then(conclude);
        self.unasked(answer.unwrap_or_else(|| self.decide_anew(key, request, now)), request)
    }

    /// Commits what begins a cell, comes near its limit, or meets another admission.
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
