//! Who goes when: every subject that is asked for has a line.

use std::collections::BTreeSet;

use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{Ticket, Wanted};

use super::{At, Effect, Granted, Outcome, Region, Waiter};
use crate::store::Shard;

/// What is to be done with the first in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It goes.
    Goes,
    /// Its window is over.
    Over,
    /// It is to be denied, and is not asked for any more.
    Late,
    /// It is not the first everywhere, or something is under way.
    Waits,
}

impl Region {
    /// Lines that may move, unless something of theirs is under way.
    pub(super) fn free_lines(&mut self, shard: Shard, subjects: &[Ticket]) {
        for subject in subjects {
            let Some(entry) = self.subjects.get_mut(subject) else { continue };
            let flies = entry.ask.is_some() && !planted::is(Planted::TwoAsks);
            let moves = !flies && !entry.line.is_empty();
            if moves
                && !std::mem::replace(&mut entry.free, true)
                && let Some(state) = self.state(shard)
            {
                state.free.push_back(*subject);
            }
        }
    }

    /// Sends what stands in line, as long as the shard takes it.
    pub(super) fn send_lines(&mut self, at: At<'_>, shard: Shard) {
        let most = self.tuning.asks_in_flight_max.max(1);
        while let Some(state) = self.state(shard)
            && state.asks_in_flight < most
            && !state.free.is_empty()
        {
            let waiters = self.take_lines(at, shard);
            self.send_ask(at, shard, waiters);
        }
    }

    /// Takes those who are first, up to what one ask holds. Those whose window is over look again.
    fn take_lines(&mut self, at: At<'_>, shard: Shard) -> Vec<Waiter> {
        let (mut taken, mut wants, mut cells) = (Vec::new(), 0, BTreeSet::new());
        let (wants_max, cells_max) =
            (self.tuning.ask_wants_max.max(1), self.tuning.call_records_max.max(1));
        while wants < wants_max
            && cells.len() < cells_max
            && let Some(subject) = self.state(shard).and_then(|state| state.free.pop_front())
        {
            if let Some(entry) = self.subjects.get_mut(&subject) {
                entry.free = false;
            }
            while let Some(waiter) = self.first_in(subject) {
                if wants >= wants_max || cells.len() >= cells_max {
                    self.free_lines(shard, &[subject]);
                    break;
                }
                match self.turn_of(at, waiter) {
                    Turn::Waits => break,
                    Turn::Over => {
                        self.step_out(waiter);
                        self.end_ask(at, waiter, Granted::No);
                    }
                    Turn::Late => {
                        self.step_out(waiter);
                        self.end_late(at, waiter);
                    }
                    Turn::Goes => {
                        wants += self.wants_more(taken.last(), waiter);
                        if let Some(asker) = self.askers.get(&waiter) {
                            cells.extend(asker.subjects.iter().copied());
                        }
                        self.step_out(waiter);
                        taken.push(waiter);
                    }
                }
            }
        }
        taken
    }

    /// The first in a line who has not left it.
    fn first_in(&mut self, subject: Ticket) -> Option<Waiter> {
        loop {
            let waiter = *self.subjects.get(&subject)?.line.front()?;
            if self.askers.contains_key(&waiter) {
                return Some(waiter);
            }
            self.subjects.get_mut(&subject)?.line.pop_front();
        }
    }

    fn turn_of(&mut self, at: At<'_>, waiter: Waiter) -> Turn {
        let Some(asker) = self.askers.get(&waiter) else { return Turn::Over };
        let current = |wanted: Wanted| {
            let cells = at.table.cells(wanted.cell.subject);
            cells.is_some_and(|cells| cells.current.ticket(wanted.cell.subject) == wanted.cell)
        };
        let Some(asking) = asker.asking.as_ref().filter(|it| it.wanted().all(current)) else {
            return Turn::Over;
        };
        let (denies, shard, until_ms) = (asking.denies(), asker.shard, asker.until_ms);
        for subject in asker.subjects.clone() {
            let flies = self.subjects.get(&subject).is_none_or(|entry| entry.ask.is_some());
            let flies = flies && !planted::is(Planted::TwoAsks);
            if flies || self.first_in(subject) != Some(waiter) {
                return Turn::Waits;
            }
        }
        if denies && self.is_late(at, shard, until_ms) { Turn::Late } else { Turn::Goes }
    }

    /// Whether a caller that is to be denied has too little time left to ask, or would ask a shard
    /// that did not answer last.
    pub(super) fn is_late(&mut self, at: At<'_>, shard: Shard, until_ms: u64) -> bool {
        let (left_ms, deadline_ms) = (until_ms.saturating_sub(at.ms()), self.tuning.deadline_ms);
        self.state(shard)
            .is_none_or(|state| state.doubtful || left_ms < state.ask_within_ms(deadline_ms))
    }

    /// Ends the wait of a caller that is to be denied and does not go any more. The region answers,
    /// only not in time for it: the next one may ask.
    fn end_late(&mut self, at: At<'_>, waiter: Waiter) {
        let Some(asker) = self.askers.remove(&waiter) else { return };
        if let Some(asking) = asker.asking {
            self.admit_unheard(at, asking, false);
            self.claims_ended(at, asker.shard, (&asker.subjects, &asker.held), false);
        }
        if asker.attended {
            let outcome = Outcome::asked(Granted::Unheard);
            self.effects.push(Effect::Wake { waiter, outcome });
        }
    }

    /// Takes one who is first out of its lines; one who is not is left out when it would be.
    fn step_out(&mut self, waiter: Waiter) {
        let Some(asker) = self.askers.get(&waiter) else { return };
        for subject in &asker.subjects {
            if let Some(entry) = self.subjects.get_mut(subject) {
                entry.line.pop_front_if(|first| *first == waiter);
            }
        }
    }

    /// How many costs a caller adds to an ask: none, if the one before it wants the same.
    fn wants_more(&self, before: Option<&Waiter>, waiter: Waiter) -> usize {
        let asking = |waiter| self.askers.get(waiter).and_then(|asker| asker.asking.as_ref());
        match (before.and_then(asking), asking(&waiter)) {
            (Some(before), Some(asking)) if before.wanted().eq(asking.wanted()) => 0,
            (_, asking) => asking.map_or(0, |asking| asking.wanted().count()),
        }
    }
}
