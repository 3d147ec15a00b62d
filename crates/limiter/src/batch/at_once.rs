//! The ordinary batch, in one go: all of its subjects are there and each is asked for once, nothing
//! speaks for hearing the region, and of each limit half is left. Whatever is out of the ordinary
//! is left to the decision that can take its time.
//!
//! What a process on its own claims here is not marked as reserved: that would be two more swaps
//! for each item, in a line that is otherwise not needed. It is taken back only if somebody else
//! came in between and used up what was seen; ADR 6 has what that may do to others. In a region it
//! is marked, because there a denial that is not said to be by reservations has everybody read.

use arrayvec::ArrayVec;

use crate::answer::{Answer, BatchAnswer};
use crate::key::Key;
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
    /// Whether the region is to be heard where it should be.
    asks: bool,
    /// Whether it is said to be reserved.
    marked: bool,
    committed: bool,
    /// Of all items, where their subjects are. These lists are filled where they are and lent: to
    /// move them takes longer than what is done with them.
    spots: Items<Spot<'a>>,
    taken: Items<Taken>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        for Taken { at, claim, .. } in self.taken.drain(..) {
            if let Some(spot) = self.spots.get(at) {
                spot.ledger.release(claim);
                settle(spot, claim, self.marked);
            }
        }
    }
}

/// What was claimed is reserved no longer.
fn settle(spot: &Spot<'_>, claim: Claim, marked: bool) {
    if marked {
        spot.ledger.settle(claim.era, claim.turn, claim.cost);
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
    // All names first, then what is kept of all: an item waits for memory that is in no cache, and
    // so all wait together.
    let keys: Items<Key> = requests.iter().map(|request| table.key(&request.subject)).collect();
    table.read_ahead(&keys);
    let (spots, taken) = (ArrayVec::new(), ArrayVec::new());
    let mut held = Held { asks, marked: table.is_regional(), committed: false, spots, taken };
    for key in &keys {
        let Some(spot) = table.find(key, false) else { return false };
        // Duplicated subjects count in the order given, which a glance does not see.
        if held.spots.iter().any(|other| other.ledger.is_same(&spot.ledger)) {
            return false;
        }
        held.spots.push(spot);
    }
    let is_ordinary = |(request, spot): (&Request<'_>, &Spot<'_>)| {
        let heard = !asks || table.is_warm(spot, request, now);
        let part = held.part_of(table, request);
        heard && spot.ledger.leaves_half(spot.era, Terms::of(request), part, now)
    };
    // All of them, before any is touched.
    if !requests.iter().zip(&held.spots).all(is_ordinary) || !held.claim(table, requests, now) {
        return false;
    }
    held.commit(table, requests, now, answer);
    true
}

impl Held<'_> {
    /// Of the room, the part that is lent, if it is not all of it.
    fn part_of(&self, table: &Table, request: &Request<'_>) -> Option<u64> {
        if self.asks { table.credit_part_of(request) } else { None }
    }

    /// Claims all items, in the order in which all batches do, as in [`super::order_of`].
    fn claim(&mut self, table: &Table, requests: &[Request<'_>], now: Now) -> bool {
        let mut order: Items<(usize, usize)> = ArrayVec::new();
        order.extend(self.spots.iter().enumerate().map(|(at, spot)| (spot.ledger.address(), at)));
        order.sort_unstable();
        for &(_, at) in &order {
            let (Some(request), Some(spot)) = (requests.get(at), self.spots.get(at)) else {
                return false;
            };
            let (terms, how) = (Terms::of(request), (self.part_of(table, request), self.marked));
            match spot.ledger.claim_leaving_half(spot.era, terms, how, now) {
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
        // Before anybody is told of it: whoever is woken may do what it likes.
        self.committed = true;
        let mut begun = 0;
        for Taken { at, claim, .. } in &self.taken {
            let (Some(request), Some(spot)) = (requests.get(*at), self.spots.get(*at)) else {
                continue;
            };
            begun += u64::from(spot.ledger.commit_held(*claim, Terms::of(request)));
            settle(spot, *claim, self.marked);
        }
        answer.admitted = true;
        answer.items.clear();
        answer.items.reserve(requests.len());
        for (at, (request, spot)) in requests.iter().zip(&self.spots).enumerate() {
            let Some(taken) = self.taken.iter().find(|taken| taken.at == at) else { continue };
            let look = &taken.look;
            table.note_if_due(spot, look.place.turn);
            let at = (look.place, request.subject.window);
            answer.items.push(table.aged(Answer::admit(request, look), spot, at, now));
        }
        let counters = table.counters().mine();
        counters.count(|all| &all.batches_admitted);
        counters.count_many(|all| &all.admitted_local, requests.len() as u64);
        counters.count_many(|all| &all.cells_begun, begun);
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
