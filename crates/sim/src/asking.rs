//! What is claimed until the region grants it, reckoned apart from the production code.
//!
//! A ghost knows what each asker has claimed and where. It is told what a store honestly answered,
//! that nobody answered, or that the asker does not wait any longer, and moves the claims by
//! itself: to what is admitted, or back. So whoever ends a claim twice, or not at all, or the wrong
//! way, is seen at the next comparison.

use std::collections::BTreeSet;

use tidegate_convergence::{Ask, AskCell, CallId, Grant, Granted, ShardReply, Unit, Waiter};
use tidegate_limiter::{Asking, Claimed};

use crate::ghost::{Ghost, Reading};
use crate::node::{Ask as Request, Call, Caller, Charged, Process};
use crate::truth::Name;
use crate::world::World;

/// What one caller has claimed: all of it becomes an admission, or nothing does.
#[derive(Clone, Debug)]
pub(crate) struct Claims {
    items: Vec<Cost>,
    /// The ask that carries it; before that it stands in line.
    call: Option<CallId>,
    /// How it ended. The caller may not have been told yet.
    pub(crate) ended: Option<Granted>,
    /// Somebody wants to hear how.
    attended: bool,
    /// If nobody says that it is granted, it is denied.
    denies: bool,
}

/// One cost.
#[derive(Clone, Copy, Debug)]
struct Cost {
    ask: Request,
    era: u64,
    life: u64,
    turn: u64,
    /// The cell as it was named when it was claimed.
    name: Name,
    /// The region has to grant it.
    asks: bool,
}

impl World {
    /// Something is claimed. What is asked of it must be of what the caller wants.
    pub(crate) fn claim(
        &mut self,
        process: &mut Process,
        caller: &Caller,
        (asking, reading): (&Asking, Reading),
    ) -> Claims {
        let mut items = Vec::new();
        for (ask, Claimed { asks, .. }) in caller.asks.iter().zip(asking.claimed()) {
            if ask.bounded && ask.cost > 0 && !asks {
                self.check_lent_with(process, *ask, reading);
            }
            let Some(ghost) = process.ghosts.get_mut(&ask.subject) else { continue };
            ghost.current.pending += ask.cost;
            let Ghost { era, life, turn, sequence, .. } = *ghost;
            let (ask, name) = (*ask, (ask.subject, sequence));
            items.push(Cost { ask, era, life, turn, name, asks });
        }
        let wanted = asking.wanted().map(|wanted| {
            let cells = process.table.cells(wanted.cell.subject);
            let subject = cells.and_then(|cells| self.digests.get(&cells.current.digest()));
            (subject.copied(), wanted.cost.get(), wanted.limit.get())
        });
        let asked = items.iter().filter(|item| item.asks).map(|item| item.ask);
        let all = wanted.eq(asked.map(|ask| (Some(ask.subject), ask.cost, ask.limit)));
        let bounded = items.iter().any(|item| item.ask.bounded && item.ask.cost > 0);
        let some = items.iter().any(|item| item.asks);
        if !all || !some || !bounded || items.len() != caller.asks.len() {
            let (number, asks) = (process.number, caller.asks.clone());
            self.broken("asking", || format!("process {number} claims {asking:?} of {asks:?}"));
        }
        let denies = items.iter().any(|item| item.asks && item.ask.deny);
        if denies != asking.denies() {
            let number = process.number;
            self.broken("asking", || format!("process {number} denies {denies}: {asking:?}"));
        }
        Claims { items, call: None, ended: None, attended: true, denies }
    }

    /// An ask goes out: it carries what waits, in the order in which it came. Says who waits for
    /// each of its units.
    pub(crate) fn take_claims(
        &mut self,
        process: &mut Process,
        id: CallId,
        ask: &Ask,
    ) -> Vec<Vec<Waiter>> {
        let mut together = Vec::new();
        for unit in &ask.units {
            let mut waiters = Vec::new();
            for _ in 0..unit.count {
                let matching = process.claims.iter().find(|(_, claims)| {
                    claims.call.is_none()
                        && claims.ended.is_none()
                        && self.is_unit(process, claims, ask, unit)
                });
                let Some(waiter) = matching.map(|(waiter, _)| *waiter) else {
                    let number = process.number;
                    self.broken("asking", || {
                        format!("process {number} asks for {unit:?} of {ask:?} for nobody")
                    });
                    continue;
                };
                self.send_claims(process, waiter, id);
                waiters.push(waiter);
            }
            together.push(waiters);
        }
        together
    }

    fn send_claims(&mut self, process: &mut Process, waiter: Waiter, id: CallId) {
        let Some(claims) = process.claims.get_mut(&waiter) else { return };
        claims.call = Some(id);
        let truth = &mut self.homes.at_mut(process.home).truth;
        for item in claims.items.iter().filter(|item| item.asks) {
            truth.ask(item.name, (process.number, item.life), item.ask.cost);
        }
    }

    /// Whether a unit of an ask is what a caller has claimed, in cells that are current.
    fn is_unit(&self, process: &Process, claims: &Claims, ask: &Ask, unit: &Unit) -> bool {
        let items = claims.items.iter().filter(|item| item.asks);
        let wants = unit.wants.iter().map(|want| {
            let cell = ask.cells.get(want.cell);
            let subject = cell.and_then(|cell| self.digests.get(&cell.record.subject)).copied();
            (subject, want.cost, want.head)
        });
        let claimed = items.map(|item| {
            let Request { subject, limit, cost, .. } = item.ask;
            let ghost = process.ghosts.get(&subject).filter(|ghost| item.is_current(ghost));
            let head = ghost.map(|ghost| limit.saturating_sub(ghost.current.foreign));
            (Some(subject), cost, head.unwrap_or(u64::MAX))
        });
        wants.eq(claimed)
    }

    /// A cell of an ask says what its process admitted, claimed and knows.
    pub(crate) fn check_ask_cell(&mut self, process: &mut Process, subject: usize, cell: &AskCell) {
        self.verify(process, subject);
        let era = process.ghosts.get(&subject).map(|ghost| ghost.era);
        // Before it is seen that it disturbs the other one.
        if era.is_some_and(|era| process.asked.contains(&(subject, era))) {
            self.broken("one ask", || format!("subject {subject} is asked for twice at once"));
            return;
        }
        self.check_record(process, subject, &cell.record);
        let unix_ms = self.reading(process).unix_ms;
        let Some(ghost) = process.ghosts.get(&subject).filter(|_| self.options.inside) else {
            return;
        };
        let (current, previous) = (&ghost.current, &ghost.previous);
        let window_ms = cell.record.window_ms;
        let elapsed_ms = unix_ms.saturating_sub(ghost.sequence * window_ms);
        let meant = (
            current.mine + current.known,
            previous.mine + previous.pending + previous.known,
            previous.foreign,
            window_ms.saturating_sub(elapsed_ms),
        );
        let said = (cell.known, cell.known_previous, cell.foreign_previous, cell.rest_ms);
        if said != meant {
            let number = process.number;
            self.broken("asking", || {
                format!("process {number} asks of {subject} with {said:?}, knows {meant:?}")
            });
        }
        process.asked.insert((subject, ghost.era));
    }

    /// An ask has landed, or nobody answered it: its claims end.
    pub(crate) fn land_ask(
        &mut self,
        process: &mut Process,
        call: &Call,
        said: Option<&ShardReply>,
    ) {
        if call.call.ask.is_none() {
            return;
        }
        for (subject, era, _) in &call.about {
            process.asked.remove(&(*subject, *era));
        }
        let asked = said.and_then(|said| said.asked.as_ref());
        for (place, waiters) in call.together.iter().enumerate() {
            let grant = asked.and_then(|asked| asked.grants.get(place)).copied();
            for (at, waiter) in waiters.iter().enumerate() {
                let how = match grant {
                    Some(Grant::Granted(count)) if (at as u64) < u64::from(count) => Granted::Yes,
                    Some(Grant::Granted(_) | Grant::Stranger) => Granted::No,
                    Some(Grant::Conflict) | None => Granted::Unheard,
                };
                self.end_claims(process, *waiter, how);
                if how == Granted::No && grant != Some(Grant::Stranger) {
                    note_refusal(process, *waiter);
                }
            }
        }
    }

    fn end_claims(&mut self, process: &mut Process, waiter: Waiter, how: Granted) {
        let Some(mut claims) = process.claims.remove(&waiter) else { return };
        if claims.ended.is_none() {
            claims.ended = Some(how);
            self.settle_claims(process, &claims, how);
        }
        if claims.attended {
            process.claims.insert(waiter, claims);
        }
    }

    /// A caller does not wait any longer: what it claimed is admitted at once. Says whether that
    /// is so, or whether it had ended already.
    pub(crate) fn give_claims_up(&mut self, process: &mut Process, waiter: Waiter) -> bool {
        let Some(claims) = process.claims.get_mut(&waiter) else { return false };
        if claims.ended.is_some() {
            return false;
        }
        claims.attended = false;
        claims.ended = Some(Granted::Unheard);
        let claims = claims.clone();
        self.settle_claims(process, &claims, Granted::Unheard);
        if claims.call.is_none() {
            process.claims.remove(&waiter);
        }
        true
    }

    /// A caller is gone: what it claimed is given back, unless the region is being asked for it.
    pub(crate) fn leave_claims(&mut self, process: &mut Process, waiter: Waiter) {
        let Some(mut claims) = process.claims.remove(&waiter) else { return };
        if claims.call.is_none() {
            self.settle_claims(process, &claims, Granted::No);
        } else if claims.ended.is_none() {
            claims.attended = false;
            process.claims.insert(waiter, claims);
        }
    }

    /// A caller is told how its wait ended. If it still stands in line, that is news: its window is
    /// over, or the region is not asked now.
    pub(crate) fn heed(&mut self, process: &mut Process, waiter: Waiter, how: Granted) {
        let number = process.number;
        let Some(claims) = process.claims.remove(&waiter) else {
            self.broken("told", || format!("process {number} tells {waiter:?} {how:?} twice"));
            return;
        };
        let ended = claims.ended.unwrap_or(how);
        if claims.ended.is_none() {
            let mut over = false;
            for item in claims.items.iter().filter(|item| item.asks) {
                // What takes nothing keeps nobody.
                self.verify(process, item.ask.subject);
                let ghost = process.ghosts.get(&item.ask.subject);
                over |= !ghost.is_some_and(|ghost| item.is_current(ghost));
            }
            let right = match how {
                Granted::Yes => false,
                Granted::No => over,
                Granted::Unheard => true,
            };
            if claims.call.is_some() || !right {
                self.broken("told", || format!("process {number} tells {claims:?} {how:?}"));
            }
            self.settle_claims(process, &claims, how);
        }
        if ended != how {
            self.broken("told", || format!("process {number} says {how:?} instead of {ended:?}"));
        }
    }

    /// Moves claims to what is admitted, or back. Those of who is denied because nobody answered
    /// are charged if they were sent: the store may hold them. What is only held was not.
    pub(crate) fn settle_claims(&mut self, process: &mut Process, claims: &Claims, how: Granted) {
        let (sent, denied) = (claims.call.is_some(), claims.denies && how == Granted::Unheard);
        for item in &claims.items {
            let charged = denied && sent && item.asks;
            let end = if denied && !charged { Granted::No } else { how };
            self.settle_item(process, item, sent, end);
            self.report.charged += if charged { item.ask.cost } else { 0 };
        }
        self.report.unheard += u64::from(how == Granted::Unheard);
    }

    fn settle_item(&mut self, process: &mut Process, item: &Cost, sent: bool, how: Granted) {
        let Cost { ask: Request { subject, cost, limit, bounded, .. }, era, name, .. } = *item;
        let owner = (process.number, item.life);
        let admitted = how != Granted::No;
        let truth = &mut self.homes.at_mut(process.home).truth;
        if sent && item.asks {
            truth.end_ask(name, owner, cost);
        }
        let side = process.ghosts.get_mut(&subject).and_then(|it| it.side_of(era, item.turn));
        let Some((sequence, side)) = side else {
            // Its cell has left the window meanwhile.
            if admitted {
                truth.admit_late(name, owner, (cost, limit));
            }
            return;
        };
        side.pending = side.pending.saturating_sub(cost);
        if !admitted || cost == 0 {
            return;
        }
        side.mine += cost;
        let (total, now_named) = (side.mine, (subject, sequence));
        if side.former.is_empty() {
            truth.charge(now_named, owner, total, limit);
        } else {
            truth.carry(now_named, owner, total);
            // What was granted was granted under the old name.
            if now_named != name {
                truth.admit_late(name, owner, (cost, limit));
            }
        }
        if !bounded || how != Granted::Yes {
            truth.loosen(now_named, cost);
        }
        self.touch_cell(process.home, now_named);
    }
}

/// A caller knows that the region has no room for it.
fn note_refusal(process: &mut Process, waiter: Waiter) {
    let Some(caller) = process.callers.get_mut(&waiter) else { return };
    let ghost = caller.asks.first().and_then(|ask| process.ghosts.get(&ask.subject));
    caller.refused = ghost.map(|ghost| ghost.turn);
}

impl Claims {
    /// The cells, in order.
    pub(crate) fn cells(&self) -> Vec<Charged> {
        let cell = |item: &Cost| Charged { era: item.era, turn: item.turn, sequence: item.name.1 };
        self.items.iter().map(cell).collect()
    }

    /// Whether it stands in several lines, one of which is also one of the `others`.
    pub(crate) fn delays(&self, others: &Self) -> bool {
        let lines = |of: &Self| -> BTreeSet<usize> {
            of.items.iter().filter(|item| item.asks).map(|item| item.ask.subject).collect()
        };
        let (own, waits) = (lines(self), self.call.is_none() && self.ended.is_none());
        waits && own.len() > 1 && !own.is_disjoint(&lines(others))
    }
}

impl Cost {
    fn is_current(&self, ghost: &Ghost) -> bool {
        (ghost.era, ghost.turn, ghost.sequence) == (self.era, self.turn, self.name.1)
    }
}
