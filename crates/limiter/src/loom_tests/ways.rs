//! Every race is run in all ways in which a decision may go.

use super::Memory;
use crate::ledger::{Conditions, Refusal, Terms, Undecided, Verdict};
use crate::time::Now;

/// How a decision goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// It takes its time.
    Slowly,
    /// It is tried at once, as one that is asked for alone.
    AtOnce,
    /// It is seen first and then claimed, as an item of a batch at once.
    Seen,
}

std::thread_local! {
    /// The present way. The threads of a checker are all run by the thread of the test.
    static WAY: std::cell::Cell<Way> = const { std::cell::Cell::new(Way::Slowly) };
}

impl Memory {
    /// Claims as the present way is.
    pub(super) fn claim(&self, era: u64, terms: Terms, now: Now) -> Verdict {
        match WAY.get() {
            Way::Slowly => self.ledger().claim(era, terms, now),
            Way::AtOnce => self.claim_at_once(era, terms, now),
            Way::Seen => self.claim_seen(era, terms, now),
        }
    }

    fn claim_seen(&self, era: u64, terms: Terms, now: Now) -> Verdict {
        let ledger = self.ledger();
        let seen = self.claim_on(Conditions::default(), era, terms, now);
        seen.unwrap_or_else(|| ledger.claim(era, terms, now))
    }

    /// Claims what is seen if these conditions hold.
    fn claim_on(
        &self,
        conditions: Conditions,
        era: u64,
        terms: Terms,
        now: Now,
    ) -> Option<Verdict> {
        let ledger = self.ledger();
        let seen = ledger.sight(era, terms, conditions, now)?;
        let claim = ledger.claim_seen(era, terms.cost, &seen)?;
        Some(Verdict::Held(claim, seen.look))
    }

    /// Claims on credit, if this part of the room is lent: `None` if it is not.
    pub(super) fn claim_on_credit(
        &self,
        era: u64,
        terms: Terms,
        part: u64,
        now: Now,
    ) -> Option<Verdict> {
        let slowly = || self.ledger().claim_on_credit(era, terms, part, now);
        let lent = Conditions { part: Some(part), ..Conditions::default() };
        match WAY.get() {
            Way::Seen => self.claim_on(lent, era, terms, now).or_else(slowly),
            Way::Slowly | Way::AtOnce => slowly(),
        }
    }

    fn claim_at_once(&self, era: u64, terms: Terms, now: Now) -> Verdict {
        let ledger = self.ledger();
        let front = ledger.front();
        let mut claimed = front.claim_at_once::<false>(era, terms, now);
        if matches!(claimed, Err(Undecided::Weighs)) {
            claimed = front.claim_at_once::<true>(era, terms, now);
        }
        match claimed {
            Ok((claim, glance)) => Verdict::Held(claim, glance.look),
            Err(Undecided::Full(glance)) if ledger.confirms(&glance, era) => {
                let look = glance.look;
                Verdict::Denied(Refusal { look, settled: look.used, earlier: 0 })
            }
            Err(_) => ledger.claim(era, terms, now),
        }
    }
}

pub(super) fn explore(preemptions: Option<usize>, test: impl Fn() + Sync + Send + 'static) {
    let test = std::sync::Arc::new(test);
    for way in [Way::Slowly, Way::AtOnce, Way::Seen] {
        WAY.set(way);
        let test = std::sync::Arc::clone(&test);
        explore_one_way(preemptions, move || test());
    }
}

#[cfg(shuttle)]
fn explore_one_way(_: Option<usize>, test: impl Fn() + Sync + Send + 'static) {
    super::super::explore(test);
}

#[cfg(loom)]
fn explore_one_way(preemptions: Option<usize>, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 100_000;
    builder.check(test);
}
