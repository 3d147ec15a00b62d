//! Several requests decided as one: all are admitted, or none is.
//!
//! First look: if an item would be denied, nothing is touched. Then each item reserves its cost
//! by a compare-and-swap that checks its own limit, in the order of the ledgers, so that two
//! batches over the same subjects do not each take what the other needs. If one fails, what was
//! taken is released; if all hold, they are committed.

use arrayvec::ArrayVec;

use crate::answer::{Answer, BatchAnswer};
use crate::ledger::{Look, Refusal, Terms};
use crate::request::{BATCH_MAX, Request};
use crate::reserve::{Held, Reserved, Want};
use crate::table::{Spot, Table};
use crate::time::Now;
use crate::window::fits;

/// Times a batch starts again because a ledger was retired while it looked: each takes an eviction
/// at that moment. After that there is no room in memory for its subjects together.
const MOVES_MAX: usize = 8;

/// Large when full, so it stays where it is and is lent.
type Items<T> = ArrayVec<T, BATCH_MAX>;

/// One item of a batch: where its subject is, and what became of it so far.
struct Item<'a, 'r> {
    request: &'r Request<'r>,
    /// `None` if there is no memory for the subject.
    spot: Option<Spot<'a>>,
    /// What earlier items of the batch take from the same subject.
    earlier: u64,
    seen: Seen,
}

/// What the first look or the reservation of an item saw.
#[derive(Clone, Copy)]
enum Seen {
    Fits(Look),
    Denied(Refusal),
    Nothing,
}

/// A ledger was retired or used again while the batch looked at it.
struct Moved;

pub(crate) fn decide(table: &Table, requests: &[Request<'_>], now: Now, answer: &mut BatchAnswer) {
    let mut items: Items<Item<'_, '_>> = ArrayVec::new();
    for attempt in 0..MOVES_MAX {
        items.clear();
        for request in requests {
            // Once a ledger was seen closing, only the lock says what became of it.
            let locked = attempt > 0;
            let company = || items.iter().filter_map(|item| item.spot).collect();
            let spot = table.find_or_seat(&request.subject, locked, company, now);
            let earlier = earlier(&items, spot);
            items.push(Item { request, spot, earlier, seen: Seen::Nothing });
        }
        if let Ok(admitted) = decide_items(table, &mut items, now) {
            return report(table, &items, admitted, now, answer);
        }
        table.counters().mine().count(|all| &all.ledgers_moved);
    }
    table.counters().mine().count(|all| &all.batches_denied);
    answer.admitted = false;
    answer.items.clear();
    answer.items.extend(requests.iter().map(|request| table.refuse(request, now)));
}

/// Duplicated subjects count in the order given.
fn earlier(items: &[Item<'_, '_>], spot: Option<Spot<'_>>) -> u64 {
    let Some(spot) = spot else { return 0 };
    let same =
        |item: &&Item<'_, '_>| item.spot.is_some_and(|other| other.ledger.is_same(&spot.ledger));
    items.iter().filter(same).map(|item| item.request.cost.get()).sum()
}

/// Whether the batch is admitted. Leaves in each item what was seen of it.
fn decide_items(table: &Table, items: &mut [Item<'_, '_>], now: Now) -> Result<bool, Moved> {
    for item in items.iter_mut() {
        item.look(now)?;
    }
    if items.iter().all(|item| matches!(item.seen, Seen::Fits(_))) {
        reserve_and_commit(table, items, now)
    } else {
        Ok(false)
    }
}

impl Item<'_, '_> {
    /// Evaluates without taking anything, as if the earlier items of the batch were admitted.
    fn look(&mut self, now: Now) -> Result<(), Moved> {
        let Some(Spot { ledger, era }) = self.spot else { return Ok(()) };
        let terms = Terms::of(self.request);
        let mut seen = ledger.look(era, terms.window, now).ok_or(Moved)?;
        seen.look.used = seen.look.used.saturating_add(self.earlier);
        seen.earlier = self.earlier;
        let fit = fits(seen.look.used, terms.cost, terms.limit);
        self.seen = if fit { Seen::Fits(seen.look) } else { Seen::Denied(seen) };
        Ok(())
    }
}

/// Reserves every item; commits all or releases all.
fn reserve_and_commit(table: &Table, items: &mut [Item<'_, '_>], now: Now) -> Result<bool, Moved> {
    let mut wants: Items<(usize, Want<'_>)> = ArrayVec::new();
    for (at, item) in items.iter().enumerate() {
        if let Some(Spot { ledger, era }) = item.spot {
            wants.push((at, Want { ledger, era, terms: Terms::of(item.request) }));
        }
    }
    // Duplicates stay in the order given.
    wants.sort_unstable_by_key(|(at, want)| (want.ledger.address(), *at));
    let mut held = Held::default();
    for (at, want) in wants {
        let reserved = held.reserve(want, now);
        let Some(item) = items.get_mut(at) else { continue };
        match reserved {
            Reserved::Held(look) => item.seen = Seen::Fits(look),
            Reserved::Denied(mut seen) => {
                // What the batch itself holds there is about to be released.
                seen.look.view.current = seen.look.view.current.saturating_sub(item.earlier);
                seen.earlier = item.earlier;
                item.seen = Seen::Denied(seen);
                table.counters().mine().count(|all| &all.reservations_denied);
                return Ok(false);
            }
            Reserved::Moved => return Err(Moved),
        }
    }
    held.commit();
    Ok(true)
}

/// The answers, in the order of the requests, and the counts.
fn report(
    table: &Table,
    items: &[Item<'_, '_>],
    admitted: bool,
    now: Now,
    answer: &mut BatchAnswer,
) {
    let (mut fitted, mut begun) = (0, 0);
    answer.admitted = admitted;
    answer.items.clear();
    for Item { request, spot, seen, .. } in items {
        answer.items.push(match (seen, spot) {
            (Seen::Fits(look), _) => {
                fitted += 1;
                begun += u64::from(look.first && request.cost.get() > 0);
                let answer = Answer::admit(request, look, now);
                // Nothing was spent in a batch that is denied: the cost is still there.
                let undone = if admitted { 0 } else { request.cost.get() };
                Answer { remaining: answer.remaining.saturating_add(undone), ..answer }
            }
            (Seen::Denied(seen), Some(spot)) => table.deny(spot, request, seen, now),
            (Seen::Nothing, _) | (Seen::Denied(_), None) => table.refuse(request, now),
        });
    }
    let counters = table.counters().mine();
    if admitted {
        counters.count(|all| &all.batches_admitted);
        counters.count_many(|all| &all.admitted_local, fitted);
        counters.count_many(|all| &all.cells_begun, begun);
    } else {
        counters.count(|all| &all.batches_denied);
        counters.count_many(|all| &all.batch_items_undone, fitted);
    }
}
