//! Every race is run in both ways in which a decision may go.

use super::Memory;
use crate::ledger::{Refusal, Terms, Undecided, Verdict};
use crate::time::Now;

std::thread_local! {
    /// Whether a decision is tried at once before it takes its time. The threads of a checker are
    /// all run by the thread of the test.
    static AT_ONCE: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

impl Memory {
    /// Claims as the present way is.
    pub(super) fn claim(&self, era: u64, terms: Terms, now: Now) -> Verdict {
        let ledger = self.ledger();
        if !AT_ONCE.get() {
            return ledger.claim(era, terms, now);
        }
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
    for at_once in [false, true] {
        AT_ONCE.set(at_once);
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
