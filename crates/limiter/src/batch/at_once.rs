//! The ordinary batch, in one go: all of its subjects are there, nothing speaks for hearing the
//! region, and of each limit half is left. Whatever is out of the ordinary is left to the decision
//! that can take its time.
//!
//! What is claimed here is not marked as reserved: to say so and to take it back would be two more
//! swaps, in a line that is otherwise not needed. Nobody who shares the limit and asks for less
//! than half of it can be denied for it; ADR 6 has the rest.

use arrayvec::ArrayVec;

use crate::answer::{Answer, BatchAnswer};
use crate::ledger::{Claim, Look, Terms};
use crate::request::Request;
use crate::table::{Spot, Table};
use crate::time::Now;

/// Items of a batch that is decided at once. Larger ones are rare, and what is held of each item
/// would go to the stack of everybody.
const ITEMS_MAX: usize = 16;

type Items<T> = ArrayVec<T, ITEMS_MAX>;

/// What is claimed of one item.
struct Taken {
    /// Which one it is.
    at: usize,
    claim: Claim,
    look: Look,
}

/// What is claimed so far. INV-10: dropping it without a commit leaves nothing claimed.
struct Held<'a> {
    /// Of all items, where their subjects are. These lists are filled where they are and lent: to
    /// move them takes longer than what is done with them.
    spots: Items<Spot<'a>>,
    taken: Items<Taken>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for Taken { at, claim, .. } in self.taken.drain(..) {
            if let Some(spot) = self.spots.get(at) {
                spot.ledger.release(claim);
            }
        }
    }
}

/// Admits a batch and says so; or decides nothing, and nothing is taken. If it `asks`, only what
/// need not be heard of is admitted.
pub(super) fn admit(
    table: &Table,
    requests: &[Request<'_>],
    (now, asks): (Now, bool),
    answer: &mut BatchAnswer,
) -> bool {
    if requests.len() > ITEMS_MAX {
        return false;
    }
    let mut held = Held { spots: ArrayVec::new(), taken: ArrayVec::new() };
    for request in requests {
        let Some(spot) = table.find(&table.key(&request.subject), false) else { return false };
        held.spots.push(spot);
    }
    let is_ordinary = |(request, spot): (&Request<'_>, &Spot<'_>)| {
        let heard = !asks || table.is_warm(spot, request, now);
        heard && spot.ledger.leaves_half(spot.era, Terms::of(request), now)
    };
    // All of them, before any is touched.
    if !requests.iter().zip(&held.spots).all(is_ordinary) || !held.claim(table, requests, now, asks)
    {
        return false;
    }
    held.commit(table, requests, now, answer);
    true
}

impl Held<'_> {
    /// Claims all items, in the order in which all batches do, as in [`super::order_of`]. Of one
    /// subject, that is the order given: a claim sees those before it.
    fn claim(&mut self, table: &Table, requests: &[Request<'_>], now: Now, asks: bool) -> bool {
        let mut order: Items<(usize, usize)> = ArrayVec::new();
        order.extend(self.spots.iter().enumerate().map(|(at, spot)| (spot.ledger.address(), at)));
        order.sort_unstable();
        for &(_, at) in &order {
            let (Some(request), Some(spot)) = (requests.get(at), self.spots.get(at)) else {
                return false;
            };
            let part = if asks { table.credit_part_of(request) } else { None };
            let terms = Terms::of(request);
            match spot.ledger.claim_leaving_half(spot.era, terms, part, now) {
                Some((claim, look)) => self.taken.push(Taken { at, claim, look }),
                None => return false,
            }
        }
        true
    }

    /// Makes all of them admissions, and says what is left.
    fn commit(
        &mut self,
        table: &Table,
        requests: &[Request<'_>],
        now: Now,
        answer: &mut BatchAnswer,
    ) {
        let mut begun = 0;
        answer.admitted = true;
        answer.items.clear();
        answer.items.reserve(requests.len());
        for (at, (request, spot)) in requests.iter().zip(&self.spots).enumerate() {
            let Some(taken) = self.taken.iter().find(|taken| taken.at == at) else { continue };
            let (claim, look) = (taken.claim, &taken.look);
            begun += u64::from(spot.ledger.commit_held(claim, Terms::of(request)));
            table.note_if_due(spot, look.place.turn);
            let at = (look.place, request.subject.window);
            answer.items.push(table.aged(Answer::admit(request, look), spot, at, now));
        }
        self.taken.clear();
        let counters = table.counters().mine();
        counters.count(|all| &all.batches_admitted);
        counters.count_many(|all| &all.admitted_local, requests.len() as u64);
        counters.count_many(|all| &all.cells_begun, begun);
    }
}
