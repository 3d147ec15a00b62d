//! Several requests decided as one: all are admitted, or none is.
//!
//! First look: if an item would be denied, nothing is touched. Then each item reserves its cost
//! by a compare-and-swap that checks its own limit, in the order of the ledgers, so that two
//! batches over the same subjects do not each take what the other needs. If one fails, what was
//! taken is released; if all hold, they are committed.

use arrayvec::ArrayVec;

use crate::answer::{Answer, BatchAnswer};
use crate::counters::{count, count_many};
use crate::ledger::{Ledger, Look, Terms};
use crate::request::{BATCH_MAX, Request};
use crate::reserve::{Held, Reserved, Want};
use crate::table::{Spot, Table};
use crate::time::Now;
use crate::window::fits;

/// Times a batch starts again because a ledger was retired while it looked: each takes an eviction
/// at that moment. After that there is no room in memory for its subjects together.
const MOVES_MAX: usize = 8;

type Items<T> = ArrayVec<T, BATCH_MAX>;

/// One item of a batch: where its subject is, and what earlier items of the batch take there.
struct Item<'a, 'r> {
    request: &'r Request<'r>,
    spot: Spot<'a>,
    earlier: u64,
}

/// What the first look or the reservations came to for an item.
#[derive(Clone, Copy)]
enum Seen {
    Fits(Look),
    Denied(Look),
    /// There is no memory for the subject.
    Refused,
}

pub(crate) fn decide(table: &Table, requests: &[Request<'_>], now: Now) -> BatchAnswer {
    for _ in 0..MOVES_MAX {
        let items: Items<_> = requests.iter().map(|request| find(table, request, now)).collect();
        if let Some(answer) = decide_items(table, requests, items, now) {
            return answer;
        }
        count(&table.counters().mine().ledgers_moved);
    }
    count(&table.counters().mine().batches_denied);
    let items = requests.iter().map(|request| table.refuse(request, now)).collect();
    BatchAnswer { admitted: false, items }
}

fn find<'a>(table: &'a Table, request: &Request<'_>, now: Now) -> Option<Spot<'a>> {
    table.find_or_seat(&request.subject, now)
}

/// `None` if a ledger moved.
fn decide_items(
    table: &Table,
    requests: &[Request<'_>],
    spots: Items<Option<Spot<'_>>>,
    now: Now,
) -> Option<BatchAnswer> {
    let mut items: Items<Option<Item<'_, '_>>> = ArrayVec::new();
    for (request, spot) in requests.iter().zip(spots) {
        let item = spot.map(|spot| Item { request, spot, earlier: 0 });
        items.push(item);
    }
    count_earlier(&mut items);
    let mut seen = first_look(&items, now)?;
    let all_fit = seen.iter().all(|seen| matches!(seen, Seen::Fits(_)));
    let admitted = all_fit && reserve_and_commit(table, &items, &mut seen, now)?;
    Some(report(table, requests, (&items, &seen), admitted, now))
}

/// Duplicated subjects count in the order given.
fn count_earlier(items: &mut [Option<Item<'_, '_>>]) {
    for at in 1..items.len() {
        let (before, rest) = items.split_at_mut(at);
        let Some(Some(item)) = rest.first_mut() else { continue };
        let same = before.iter().flatten().filter(|other| other.is_at(item.spot.ledger));
        item.earlier = same.map(|other| other.request.cost.get()).sum();
    }
}

impl Item<'_, '_> {
    fn is_at(&self, ledger: &Ledger) -> bool {
        std::ptr::eq(self.spot.ledger, ledger)
    }

    fn want(&self) -> Want<'_> {
        let Spot { ledger, era } = self.spot;
        Want { ledger, era, terms: Terms::of(self.request) }
    }

    /// Evaluates without taking anything, as if the earlier items of the batch were admitted.
    fn look(&self, now: Now) -> Option<Seen> {
        let terms = Terms::of(self.request);
        let mut look = self.spot.ledger.look(self.spot.era, terms.window, now)?;
        look.used = look.used.saturating_add(self.earlier);
        look.view.current = look.view.current.saturating_add(self.earlier);
        let fit = fits(look.used, terms.cost, terms.limit);
        Some(if fit { Seen::Fits(look) } else { Seen::Denied(look) })
    }
}

/// Evaluates every item. `None` if a ledger moved.
fn first_look(items: &[Option<Item<'_, '_>>], now: Now) -> Option<Items<Seen>> {
    let look = |item: &Option<Item<'_, '_>>| match item {
        Some(item) => item.look(now),
        None => Some(Seen::Refused),
    };
    items.iter().map(look).collect()
}

/// Reserves every item; commits all or releases all. `None` if a ledger moved.
fn reserve_and_commit(
    table: &Table,
    items: &[Option<Item<'_, '_>>],
    seen: &mut [Seen],
    now: Now,
) -> Option<bool> {
    let mut wants: Items<(usize, Want<'_>)> = items
        .iter()
        .enumerate()
        .filter_map(|(at, item)| Some((at, item.as_ref()?.want())))
        .collect();
    // Stable: duplicates stay in the order given.
    wants.sort_by_key(|(_, want)| std::ptr::from_ref(want.ledger).addr());
    let mut held = Held::default();
    for (at, want) in wants {
        let verdict = held.reserve(want, now);
        let Some(seen) = seen.get_mut(at) else { continue };
        match verdict {
            Reserved::Held(look) => *seen = Seen::Fits(look),
            Reserved::Denied(look) => {
                *seen = Seen::Denied(look);
                count(&table.counters().mine().reservations_denied);
                return Some(false);
            }
            Reserved::Moved => return None,
        }
    }
    held.commit(now);
    Some(true)
}

/// The answers, in the order of the requests, and the counts.
fn report(
    table: &Table,
    requests: &[Request<'_>],
    (items, seen): (&[Option<Item<'_, '_>>], &[Seen]),
    admitted: bool,
    now: Now,
) -> BatchAnswer {
    let mut answers = ArrayVec::new();
    let (mut fitted, mut begun) = (0, 0);
    for ((request, item), seen) in requests.iter().zip(items).zip(seen) {
        answers.push(match (seen, item) {
            (Seen::Fits(look), _) => {
                fitted += 1;
                begun += u64::from(look.first && request.cost.get() > 0);
                let answer = Answer::admit(request, look, now);
                // Nothing was spent in a batch that is denied: the cost is still there.
                let undone = if admitted { 0 } else { request.cost.get() };
                Answer { remaining: answer.remaining.saturating_add(undone), ..answer }
            }
            (Seen::Denied(look), Some(item)) => table.deny(&item.spot, request, look, now),
            (Seen::Refused, _) | (Seen::Denied(_), None) => table.refuse(request, now),
        });
    }
    let counters = table.counters().mine();
    count_many(
        if admitted { &counters.admitted_local } else { &counters.batch_items_undone },
        fitted,
    );
    count(if admitted { &counters.batches_admitted } else { &counters.batches_denied });
    if admitted {
        count_many(&counters.cells_begun, begun);
    }
    BatchAnswer { admitted, items: answers }
}
