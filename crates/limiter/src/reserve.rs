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
    /// It may be taken on credit only: of the room, this part.
    pub(crate) credit_part: Option<u64>,
}

impl<'a> Want<'a> {
    /// One that needs no credit.
    pub(crate) const fn new(ledger: Ledger<'a>, era: u64, terms: Terms) -> Self {
        Self { ledger, era, terms, credit_part: None }
    }
}

/// What became of one reservation.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) enum Reserved {
    /// It is held until the batch is committed or dropped.
    Held(Look),
    /// It does not fit.
    Denied(Refusal),
    /// The ledger is not the subject's any more, or does not lend so much.
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
        let lends = |look: &Look, seen| {
            want.credit_part.is_none_or(|part| want.ledger.lends(look, seen, want.terms, part))
        };
        match want.ledger.reserve_if(want.era, want.terms, now, lends) {
            Verdict::Held(claim, look) => {
                self.claims.push((want, claim));
                Reserved::Held(look)
            }
            Verdict::Denied(refusal) => Reserved::Denied(refusal),
            Verdict::Moved => Reserved::Moved,
        }
    }

    /// Hands them over, in the order in which they were reserved.
    pub(crate) fn take(mut self) -> ArrayVec<(Want<'a>, Claim), BATCH_MAX> {
        std::mem::take(&mut self.claims)
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

impl<'a> From<ArrayVec<(Want<'a>, Claim), BATCH_MAX>> for Held<'a> {
    /// To be committed, or released by dropping.
    fn from(claims: ArrayVec<(Want<'a>, Claim), BATCH_MAX>) -> Self {
        Self { claims }
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
