//! The ordinary batch, in one go: all of its subjects are there and each is asked for once, nothing
//! speaks for hearing the region, and of each limit half is left. Whatever is out of the ordinary
//! is left to the decision that can take its time.
//!
//! What is claimed here is not marked as reserved: that would be two more swaps for each item, in a
//! line that is otherwise not written to. It is taken back only if others got on with one of the
//! subjects in between; ADR 6 has what that may do to whoever is denied until then. In a region a
//! denial that is not said to be by reservations has everybody read for a window: there only a
//! single unit of a limit that is not small is left unmarked.

use arrayvec::ArrayVec;

use crate::answer::{Answer, BatchAnswer};
use crate::key::Key;
use crate::ledger::{Claim, Conditions, Sighting, Terms};
use crate::request::Request;
use crate::table::{Spot, Table};
use crate::time::Now;

/// Items of a batch that is decided at once. Larger ones are rare, and what is held of each item
/// would go to the stack of everybody.
const ITEMS_MAX: usize = 16;
/// Times an item is tried. Each but the first takes another thread that got on with the same
/// subject at that very moment.
const TRIES_MAX: usize = 4;
/// In a region, a claim of one unit is not marked if the limit is at least this: whoever says that
/// the limit is exhausted because of it says so a unit early. Of a small limit a unit is a large
/// part.
const UNMARKED_LIMIT: u64 = 64;

type Items<T> = ArrayVec<T, ITEMS_MAX>;

/// One item.
struct Item<'a, 'r> {
    request: &'r Request<'r>,
    spot: Spot<'a>,
    conditions: Conditions,
    sighting: Sighting,
    /// It is said to be reserved while it is claimed.
    marked: bool,
}

/// What is claimed so far. INV-10: dropping it without a commit leaves nothing claimed.
struct Held<'a, 'r> {
    /// Filled where they are and lent: to move them takes longer than what is done with them.
    items: Items<Item<'a, 'r>>,
    /// Which items are claimed.
    taken: Items<(usize, Claim)>,
    committed: bool,
}

impl Drop for Held<'_, '_> {
    fn drop(&mut self) {
        if self.committed {
            return;
        }
        for (at, claim) in self.taken.drain(..) {
            if let Some(item) = self.items.get(at) {
                item.spot.ledger.release(claim);
                item.settle();
            }
        }
    }
}

/// Admits a batch and says so; or decides nothing, and nothing is taken. If it `asks`, only what
/// need not be heard of is admitted.
pub(super) fn admit<'r>(
    table: &Table,
    requests: &'r [Request<'r>],
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
    let mut held = Held { items: ArrayVec::new(), taken: ArrayVec::new(), committed: false };
    // All of them, before any is touched.
    for (request, key) in requests.iter().zip(&keys) {
        let Some(spot) = table.find(key, false) else { return false };
        let conditions = if asks { table.conditions(request) } else { Conditions::default() };
        let terms = Terms::of(request);
        let Some(sighting) = look(&spot, terms, conditions, now) else { return false };
        let marked = table.is_regional() && is_missed(terms);
        held.items.push(Item { request, spot, conditions, sighting, marked });
    }
    if !held.claim(now) {
        return false;
    }
    held.commit(table, now, answer);
    true
}

/// Whether it would be missed if the limit were said to be exhausted so much too early.
#[inline(always)]
const fn is_missed(terms: Terms) -> bool {
    terms.cost.get() > 1 || terms.limit.get() < UNMARKED_LIMIT
}

/// Looks at an item, and says what was seen if it is ordinary and half of its limit is left.
#[inline(always)]
fn look(spot: &Spot<'_>, terms: Terms, conditions: Conditions, now: Now) -> Option<Sighting> {
    spot.ledger.sight(spot.era, terms, conditions, now).filter(|sighting| !sighting.near)
}

impl Item<'_, '_> {
    /// Claims it by what was seen of it, or is seen now.
    fn claim(&mut self, now: Now) -> Option<Claim> {
        let (Spot { ledger, era, .. }, terms) = (self.spot, Terms::of(self.request));
        for _ in 0..TRIES_MAX {
            let turn = self.sighting.look.place.turn;
            if self.marked {
                // It was seen a while ago: by now the ledger may be somebody else's.
                if !ledger.is_alive(era, turn) {
                    return None;
                }
                ledger.reserve_in(era, turn, terms.cost);
            }
            if let Some(claim) = ledger.claim_seen(era, terms.cost, &self.sighting) {
                return Some(claim);
            }
            self.settle();
            self.sighting = look(&self.spot, terms, self.conditions, now)?;
        }
        None
    }

    /// What was claimed or about to be is reserved no longer.
    fn settle(&self) {
        if self.marked {
            let turn = self.sighting.look.place.turn;
            self.spot.ledger.settle(self.spot.era, turn, self.request.cost);
        }
    }
}

impl Held<'_, '_> {
    /// Claims all items, in the order in which all batches do, as in [`super::order_of`].
    fn claim(&mut self, now: Now) -> bool {
        let mut order: Items<(usize, usize)> = ArrayVec::new();
        let addresses = self.items.iter().map(|item| item.spot.ledger.address());
        order.extend(addresses.enumerate().map(|(at, address)| (address, at)));
        order.sort_unstable();
        // Duplicated subjects count in the order given, which looking at each alone does not see.
        if order.windows(2).any(|both| matches!(both, [(one, _), (other, _)] if one == other)) {
            return false;
        }
        for &(_, at) in &order {
            let Some(claim) = self.items.get_mut(at).and_then(|item| item.claim(now)) else {
                return false;
            };
            self.taken.push((at, claim));
        }
        true
    }

    /// Makes all of them admissions, and says what is left.
    fn commit(&mut self, table: &Table, now: Now, answer: &mut BatchAnswer) {
        // Before anybody is told of it: whoever is woken may do what it likes.
        self.committed = true;
        let mut begun = 0;
        for (at, claim) in &self.taken {
            let Some(item) = self.items.get(*at) else { continue };
            begun += u64::from(item.spot.ledger.commit_held(*claim, Terms::of(item.request)));
            item.settle();
        }
        answer.admitted = true;
        answer.items.clear();
        answer.items.reserve(self.items.len());
        for Item { request, spot, sighting: Sighting { look, .. }, .. } in &self.items {
            table.note_if_due(spot, look.place.turn);
            let at = (look.place, request.subject.window);
            answer.items.push(table.aged(Answer::admit(request, look), spot, at, now));
        }
        let counters = table.counters().mine();
        counters.count(|all| &all.batches_admitted);
        counters.count_many(|all| &all.admitted_local, self.items.len() as u64);
        counters.count_many(|all| &all.cells_begun, begun);
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
