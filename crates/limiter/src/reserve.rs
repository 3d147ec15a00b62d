//! Reservations of a batch: held together, committed together, released by dropping.

use arrayvec::ArrayVec;

use crate::ledger::{Claim, Ledger, Look, Refusal, Terms, Verdict};
use crate::request::BATCH_MAX;
use crate::time::Now;

/// What one item of a batch asks of a ledger.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want<'a> {
    pub(crate) ledger: Ledger<'a>,
    pub(crate) era: u64,
    pub(crate) terms: Terms,
}

/// What became of one reservation.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) enum Reserved {
    /// It is held until the batch is committed or dropped.
    Held(Look),
    /// It does not fit.
    Denied(Refusal),
    /// The ledger is not the subject's any more.
    Moved,
}

/// Reservations of one batch. INV-10: dropping it without a commit leaves nothing claimed.
#[derive(Debug, Default)]
pub(crate) struct Held<'a> {
    claims: ArrayVec<(Want<'a>, Claim), BATCH_MAX>,
}

impl<'a> Held<'a> {
    /// Claims the cost of one item if it fits.
    pub(crate) fn reserve(&mut self, want: Want<'a>, now: Now) -> Reserved {
        match want.ledger.reserve(want.era, want.terms, now) {
            Verdict::Held(claim, look) => {
                self.claims.push((want, claim));
                Reserved::Held(look)
            }
            Verdict::Denied(refusal) => Reserved::Denied(refusal),
            Verdict::Moved => Reserved::Moved,
        }
    }

    /// Makes all of them admissions, and says how many are the first of their cells.
    pub(crate) fn commit(&mut self) -> u64 {
        let mut begun = 0;
        for (want, claim) in self.claims.drain(..) {
            begun += u64::from(want.ledger.commit_held(claim, want.terms));
            want.ledger.settle(claim.era, claim.turn, claim.cost);
        }
        begun
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for (want, claim) in self.claims.drain(..) {
            want.ledger.release(claim);
            want.ledger.settle(claim.era, claim.turn, claim.cost);
        }
    }
}
