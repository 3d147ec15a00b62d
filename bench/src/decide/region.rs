//! Ours in a region that has just told of every key: what is decided there on what is known.

use std::hint::black_box;

use tidegate_limiter::{Batch, BatchDecision, Consistency, Decision, Now, Request, Ticket};

use super::contestant::{Accounted, Contestant, Setup};
use super::keys::Script;
use super::ours::{BATCH, Desk, reading};
use crate::Failure;

/// A view that is fresh until then is so for as long as anything is measured.
const FRESH_UNTIL_MS: u64 = 1 << 40;

impl Desk {
    /// The region tells of a subject that nobody else uses.
    fn hear(&self, subject: Ticket) {
        let Some(cells) = self.table.cells(subject) else { return };
        cells.set_company(1);
        for cell in [cells.current, cells.previous] {
            cell.mark_fresh_until_ms(FRESH_UNTIL_MS);
        }
    }
}

/// By the rule that is usual there.
fn bounded(request: Request<'_>) -> Request<'_> {
    request.with_consistency(Consistency::Bounded)
}

/// One decision.
pub(crate) struct Region(Desk);

impl Region {
    pub(crate) fn new(setup: Setup) -> Result<Self, Failure> {
        Ok(Self(Desk::new(setup)?))
    }
}

impl Contestant for Region {
    type Now = Now;

    fn now(&self, ms: u64) -> Now {
        reading(ms)
    }

    #[inline(always)]
    fn decide(&self, script: &Script, at: usize, now: Now) -> bool {
        let Some(request) = self.0.ask(script, at).map(bounded) else { return false };
        let answer = match self.0.table.decide_or_refresh(&request, now) {
            Decision::Answered(answer) => answer,
            Decision::Refresh(need) => {
                self.0.hear(need.subject);
                self.0.table.decide_refreshed(&request, true, now)
            }
            Decision::Ask(asking) => {
                asking.wanted().for_each(|wanted| self.0.hear(wanted.cell.subject));
                self.0.table.commit(asking);
                return true;
            }
        };
        black_box((answer.remaining(), answer.reset_unix_ms(), answer.age_ms()));
        answer.admitted()
    }

    fn accounted(&self) -> Option<Accounted> {
        Some(self.0.accounted())
    }
}

/// Five requests as one.
pub(crate) struct RegionBatch(Desk);

impl RegionBatch {
    pub(crate) fn new(setup: Setup) -> Result<Self, Failure> {
        Ok(Self(Desk::new(setup)?))
    }
}

impl Contestant for RegionBatch {
    type Now = Now;

    const KEYS_PER_QUESTION: usize = BATCH;

    fn now(&self, ms: u64) -> Now {
        reading(ms)
    }

    #[inline(always)]
    fn decide(&self, script: &Script, at: usize, now: Now) -> bool {
        let Some(requests) = self.0.ask_five(script, at) else { return false };
        let requests = requests.map(bounded);
        let Ok(batch) = Batch::new(&requests) else { return false };
        match self.0.table.decide_all_or_refresh(&batch, now) {
            BatchDecision::Answered(answer) => black_box(&answer).admitted(),
            BatchDecision::Refresh(needs) => {
                needs.iter().for_each(|need| self.0.hear(need.subject));
                self.0.table.decide_all_refreshed(&batch, &[], now).admitted()
            }
            BatchDecision::Ask(asking) => {
                asking.wanted().for_each(|wanted| self.0.hear(wanted.cell.subject));
                self.0.table.commit(asking);
                true
            }
        }
    }
}
