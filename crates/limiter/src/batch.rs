//! Several requests decided as one: all are admitted, or none is.
//!
//! An ordinary batch is admitted [at once](at_once). Otherwise first every subject is found; those
//! that are not there are then taken in, at the cost of nobody in the batch. Then look: if an item
//! would be denied, nothing is touched. Then each item reserves its cost by a compare-and-swap that
//! checks its own limit, in the order of the ledgers, so that two batches over the same subjects do
//! not each take what the other needs. If one fails, what was taken is released; if all hold, they
//! are committed; or, if the region has to grant some of them, handed to the caller to ask for.

mod at_once;

use arrayvec::ArrayVec;

use crate::answer::{Answer, BatchAnswer};
use crate::asking::{Asked, Asking};
use crate::cells::Ticket;
use crate::key::Key;
use crate::ledger::{Look, Reason, Refusal, Terms};
use crate::planted::{self, Planted};
use crate::request::{BATCH_MAX, Request};
use crate::reserve::{Held, Reserved, Want};
use crate::table::{Need, Spot, Table};
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
    key: Key,
    /// `None` if there is no memory for the subject.
    spot: Option<Spot<'a>>,
    /// What earlier items of the batch take from the same subject.
    earlier: u64,
    seen: Seen,
    /// The region should be asked, and was asked a moment ago in vain.
    unasked: bool,
    /// The region has to grant it.
    asks: bool,
    /// It is taken on credit: of the room, this part.
    credit_part: Option<u64>,
}

/// What a batch needs of the region first.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// What it has to hear of.
    pub(crate) reads: Vec<Need>,
    /// What it has claimed, to be granted.
    pub(crate) asking: Option<Asking>,
}

/// What a batch has waited for.
#[derive(Clone, Copy)]
pub(crate) struct Waited<'a> {
    /// The region did not answer for these.
    pub(crate) unheard: &'a [Ticket],
    /// It waited for the end of what others asked for: the region was asked about nothing.
    pub(crate) reserved: bool,
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

/// Decides a batch, and returns whether it did: if the region has to be asked first and `needs` can
/// take of whom, it does not. If it has `waited`, it is decided whatever came of that.
pub(crate) fn decide(
    table: &Table,
    requests: &[Request<'_>],
    (now, waited): (Now, Option<Waited<'_>>),
    mut needs: Option<&mut Needs>,
    answer: &mut BatchAnswer,
) -> bool {
    if waited.is_none() && at_once::admit(table, requests, (now, needs.is_some()), answer) {
        return true;
    }
    let mut items: Items<Item<'_, '_>> = ArrayVec::new();
    for attempt in 0..MOVES_MAX {
        // Once a ledger was seen closing, only the lock says what became of it.
        let locked = attempt > 0;
        items.clear();
        for request in requests {
            let key = table.key(&request.subject);
            let spot = table.find(&key, locked);
            items.push(Item::new(request, key, spot));
        }
        seat(table, &mut items, now);
        // Whoever lost races for what is lent lets the region grant it.
        let lent = attempt < MOVES_MAX / 2;
        match decide_items(table, &mut items, (now, lent, waited), needs.as_deref_mut()) {
            Ok(Some(outcome)) => {
                report(table, &items, outcome, now, answer);
                return true;
            }
            Ok(None) => return false,
            Err(Moved) => {}
        }
        table.counters().mine().count(|all| &all.ledgers_moved);
    }
    table.counters().mine().count(|all| &all.batches_denied);
    answer.admitted = false;
    answer.items.clear();
    answer.items.extend(requests.iter().map(|request| table.refuse(request, now)));
    true
}

/// Takes in the subjects that were not found, and works out what duplicated ones take before.
fn seat<'a>(table: &'a Table, items: &mut [Item<'a, '_>], now: Now) {
    for at in 0..items.len() {
        let Some((item, before)) = items.get(..=at).and_then(<[_]>::split_last) else { continue };
        // Duplicated subjects count in the order given. Who was refused once in a batch is not
        // taken in later.
        let same = |other: &&Item<'_, '_>| other.key == item.key;
        let earlier = before.iter().filter(same).map(|item| item.request.cost.get()).sum();
        let spot = match (item.spot, before.iter().find(same)) {
            (None, Some(first)) => first.spot,
            (None, None) => {
                let company: Items<_> = items.iter().filter_map(|item| item.spot).collect();
                table.seat(&item.key, &item.request.subject, &company, now)
            }
            (found, _) => found,
        };
        if let Some(item) = items.get_mut(at) {
            (item.spot, item.earlier) = (spot, earlier);
        }
    }
}

/// What became of a batch.
#[derive(Clone, Copy)]
enum Outcome {
    /// Admitted, and so many of its items are the first of their cells.
    Admitted(u64),
    Denied,
}

/// What becomes of the batch; `None` if the region has to be asked first. Leaves in each item what
/// was seen of it.
fn decide_items(
    table: &Table,
    items: &mut [Item<'_, '_>],
    (now, lent, waited): (Now, bool, Option<Waited<'_>>),
    needs: Option<&mut Needs>,
) -> Result<Option<Outcome>, Moved> {
    for item in items.iter_mut() {
        item.look(now)?;
    }
    if !items.iter().all(|item| matches!(item.seen, Seen::Fits(_))) {
        if let Some(needs) = needs {
            needs.reads = waits_of(table, items);
            if !needs.reads.is_empty() {
                return Ok(None);
            }
        }
        return Ok(Some(Outcome::Denied));
    }
    if let Some(needs) = needs {
        needs.reads = needs_of(table, items, (now, lent));
        let bounded = items.iter().any(|item| table.is_bounded(item.request));
        if (!bounded || needs.reads.is_empty()) && items.iter().any(|item| item.is_denied(table)) {
            needs.reads.clear();
            return Ok(Some(Outcome::Denied));
        }
        if needs.reads.is_empty() {
            return reserve_and_commit(table, items, now).map(Some);
        }
        // What is lent is held while the rest is heard of: whoever only read would take it twice.
        if bounded {
            for item in items.iter_mut() {
                // The region did not answer a moment ago, but is asked anyway.
                item.asks |= std::mem::take(&mut item.unasked);
            }
            needs.asking = Some(reserve_and_ask(table, items, now)?);
        }
        return Ok(None);
    }
    let Some(waited) = waited else {
        return reserve_and_commit(table, items, now).map(Some);
    };
    for item in items.iter_mut().filter(|item| table.denies_unasked(item.request)) {
        let Some(spot) = item.spot else { continue };
        item.unasked = waited.unheard.contains(&spot.ticket())
            || table.is_cold(&spot, item.request, now)
            || waited.reserved && item.reason(table, &spot, (now, lent)).is_some();
    }
    if items.iter().any(|item| item.unasked) {
        return Ok(Some(Outcome::Denied));
    }
    reserve_and_commit(table, items, now).map(Some)
}

/// Whom to wait for, if nothing but what others wait for is in the way of the batch.
fn waits_of(table: &Table, items: &[Item<'_, '_>]) -> Vec<Need> {
    let mut waits = Vec::new();
    for Item { request, spot, seen, .. } in items {
        let (Some(spot), Seen::Denied(refusal)) = (spot, seen) else {
            if matches!(seen, Seen::Nothing) {
                return Vec::new();
            }
            continue;
        };
        if !table.is_bounded(request) || !refusal.is_by_reservations(Terms::of(request)) {
            return Vec::new();
        }
        waits.push(Need { subject: spot.ticket(), reason: Reason::Reserved });
    }
    waits
}

/// Of whom the region has to be asked, each subject once. One that was asked a moment ago and did
/// not answer is decided on its view.
fn needs_of(table: &Table, items: &mut [Item<'_, '_>], (now, lent): (Now, bool)) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    for item in items {
        let Some(spot) = item.spot else { continue };
        let Some(reason) = item.reason(table, &spot, (now, lent)) else { continue };
        item.unasked = spot.ledger.retry_at() > now.monotonic_ms();
        item.asks = !item.unasked;
        if !item.unasked && !needs.iter().any(|need| need.subject == spot.ticket()) {
            needs.push(Need { subject: spot.ticket(), reason });
        }
    }
    needs
}

impl<'a, 'r> Item<'a, 'r> {
    const fn new(request: &'r Request<'r>, key: Key, spot: Option<Spot<'a>>) -> Self {
        let (unasked, asks, credit_part) = (false, false, None);
        Self { request, key, spot, earlier: 0, seen: Seen::Nothing, unasked, asks, credit_part }
    }

    /// Why the region has to be asked of it first. If it need not be, it may be that only because
    /// of its credit, if anything is `lent`.
    fn reason(
        &mut self,
        table: &Table,
        spot: &Spot<'_>,
        (now, lent): (Now, bool),
    ) -> Option<Reason> {
        let reason = table.needs(spot, self.request, now);
        if reason.is_some() || !table.is_bounded(self.request) {
            return reason;
        }
        self.credit_part = table.credit_part();
        let Seen::Fits(look) = self.seen else { return None };
        // As if the earlier items had been taken, as the look is.
        let seen = spot.ledger.claimed_with(look.place.turn, self.earlier);
        let lends = |part| spot.ledger.lends(&look, seen, Terms::of(self.request), part);
        (!lent || !self.credit_part.is_some_and(lends)).then_some(Reason::Credit)
    }
}

impl<'a> Item<'a, '_> {
    /// What it asks of its ledger.
    fn want(&self) -> Option<Want<'a>> {
        let Spot { ledger, era, .. } = self.spot?;
        // What the region grants needs no credit.
        let credit_part = self.credit_part.filter(|_| !self.asks && !self.unasked);
        Some(Want { credit_part, ..Want::new(ledger, era, Terms::of(self.request)) })
    }

    /// It would be admitted, but the region could not be asked, and it is denied for that.
    fn is_denied(&self, table: &Table) -> bool {
        self.unasked && table.denies_unasked(self.request)
    }

    /// Evaluates without taking anything, as if the earlier items of the batch were admitted.
    fn look(&mut self, now: Now) -> Result<(), Moved> {
        let Some(Spot { ledger, era, .. }) = self.spot else { return Ok(()) };
        let terms = Terms::of(self.request);
        let mut seen = ledger.look(era, terms.window, now).ok_or(Moved)?;
        seen.look.used = seen.look.used.saturating_add(self.earlier);
        seen.earlier = self.earlier;
        let fit = fits(seen.look.used, terms.cost, terms.limit);
        self.seen = if fit { Seen::Fits(seen.look) } else { Seen::Denied(seen) };
        Ok(())
    }
}

/// Which items want something, in the order in which all batches reserve. Only their numbers are
/// sorted: what they want is several times as large.
fn order_of(items: &[Item<'_, '_>]) -> Items<(usize, usize)> {
    let numbered = items.iter().enumerate();
    let mut order: Items<_> = numbered
        .filter_map(|(at, item)| item.spot.map(|spot| (spot.ledger.address(), at)))
        .collect();
    // Duplicates stay in the order given.
    order.sort_unstable();
    order
}

/// Reserves every item, to be asked for.
fn reserve_and_ask(table: &Table, items: &[Item<'_, '_>], now: Now) -> Result<Asking, Moved> {
    let order = order_of(items);
    let mut held = Held::default();
    for (_, at) in &order {
        let Some(want) = items.get(*at).and_then(Item::want) else { continue };
        match held.reserve(want, now) {
            Reserved::Held(_) => {}
            // Someone was quicker: by what is there now, it may be denied.
            Reserved::Denied(_) | Reserved::Moved => return Err(Moved),
        }
    }
    let claims = held.take();
    let mut asked: Vec<(usize, Asked)> = Vec::with_capacity(claims.len());
    for ((_, at), (want, claim)) in order.iter().zip(&claims) {
        let Some(Item { spot: Some(spot), asks, request, .. }) = items.get(*at) else { continue };
        let how = (*asks, table.denies_unasked(request));
        let item = Asked::new(want.ledger, spot.ticket(), (*claim, want.terms), how);
        match item {
            Some(item) => asked.push((*at, item)),
            None => {
                drop(Held::from(claims));
                return Err(Moved);
            }
        }
    }
    // In the order given: so do duplicates count.
    asked.sort_unstable_by_key(|(at, _)| *at);
    Ok(Asking { items: asked.into_iter().map(|(_, item)| item).collect() })
}

/// Reserves every item; commits all or releases all.
fn reserve_and_commit(
    table: &Table,
    items: &mut [Item<'_, '_>],
    now: Now,
) -> Result<Outcome, Moved> {
    let mut held = Held::default();
    // Lent, not handed over: with room for a hundred, it is too large to be moved.
    for (_, at) in &order_of(items) {
        let Some(item) = items.get_mut(*at) else { continue };
        let Some(want) = item.want() else { continue };
        match held.reserve(want, now) {
            Reserved::Held(look) => item.seen = Seen::Fits(look),
            Reserved::Denied(mut seen) => {
                // What the batch itself holds there is about to be released.
                seen.look.view.current = seen.look.view.current.saturating_sub(item.earlier);
                seen.earlier = item.earlier;
                item.seen = Seen::Denied(seen);
                table.counters().mine().count(|all| &all.reservations_denied);
                return Ok(Outcome::Denied);
            }
            Reserved::Moved => return Err(Moved),
        }
    }
    let begun = held.commit();
    for Item { spot, seen, .. } in items.iter() {
        if let (Some(spot), Seen::Fits(look)) = (spot, seen) {
            table.note_if_due(spot, look.place.turn);
        }
    }
    Ok(Outcome::Admitted(begun))
}

/// The answers, in the order of the requests, and the counts.
fn report(
    table: &Table,
    items: &[Item<'_, '_>],
    outcome: Outcome,
    now: Now,
    answer: &mut BatchAnswer,
) {
    let mut fitted = 0;
    let admitted = matches!(outcome, Outcome::Admitted(_));
    answer.admitted = admitted;
    answer.items.clear();
    answer.items.reserve(items.len());
    for it @ Item { request, spot, seen, unasked, .. } in items {
        let item = match (seen, spot) {
            (Seen::Fits(look), Some(spot)) if it.is_denied(table) => {
                table.deny_unasked(spot, request, look, now)
            }
            (Seen::Fits(look), spot) => {
                fitted += 1;
                let answer = Answer::admit(request, look);
                // Nothing was spent in a batch that is denied: the cost is still there.
                let undone = if admitted { 0 } else { request.cost.get() };
                let answer =
                    Answer { remaining: answer.remaining.saturating_add(undone), ..answer };
                match spot {
                    Some(spot) => {
                        let at = (look.place, request.subject.window);
                        table.aged(answer, spot, at, now)
                    }
                    None => answer,
                }
            }
            (Seen::Denied(seen), Some(spot)) => table.deny(spot, request, seen, now),
            (Seen::Nothing, _) | (Seen::Denied(_), None) => table.refuse(request, now),
        };
        answer.items.push(if *unasked { item.into_degraded() } else { item });
    }
    let counters = table.counters().mine();
    if let Outcome::Admitted(begun) = outcome {
        counters.count(|all| &all.batches_admitted);
        counters.count_many(|all| &all.admitted_local, fitted);
        counters.count_many(|all| &all.cells_begun, begun);
    } else {
        counters.count(|all| &all.batches_denied);
        counters.count_many(|all| &all.batch_items_undone, fitted);
        answer.admitted = fitted > 0 && planted::is(Planted::AnyOfBatch);
    }
}
