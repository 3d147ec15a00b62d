//! How the store in memory grants.

use tidegate_limiter::planted::{self, Planted};

use crate::ask::{ANSWER_LIFE_MS, Ask, AskCell, AskReply, Grant, Tally, Unit};
use crate::store::{CellName, Component, PRESENCE_LIFE_MS, Reply};

use super::{MemoryRegion, ShardMemory};

/// What was answered to the last operation of a component in a cell.
#[derive(Clone, Debug)]
pub(super) struct Answered {
    operation: u64,
    /// To the units that name the cell first, in their order.
    grants: Vec<Grant>,
    pub(super) expires_ms: u64,
}

impl Answered {
    /// What was answered to the unit in that place. If it never wanted so much, the operation was
    /// another process's with the same name.
    fn again(&self, place: usize, unit: &Unit) -> Grant {
        match self.grants.get(place) {
            Some(Grant::Granted(count)) if *count <= unit.count => Grant::Granted(*count),
            _ => Grant::Conflict,
        }
    }
}

impl MemoryRegion {
    /// What a component has recorded of a cell. The [type](Self) has an example of records.
    #[must_use]
    pub fn recorded(&self, cell: CellName, component: Component, now_ms: u64) -> u64 {
        let shard = self.shards.get(usize::from(self.shard_of(cell).0));
        let held = shard.and_then(|shard| shard.cells.get(&cell));
        let held = held.filter(|cell| cell.expires_ms > now_ms);
        held.and_then(|cell| cell.components.get(&component)).copied().unwrap_or(0)
    }
}

impl ShardMemory {
    /// Notes that a process is present, and says how many are.
    pub(super) fn be_present(&mut self, incarnation: u128, now_ms: u64) -> u32 {
        self.present.insert(incarnation, now_ms.saturating_add(PRESENCE_LIFE_MS));
        self.present.retain(|_, until_ms| *until_ms > now_ms);
        u32::try_from(self.present.len()).unwrap_or(u32::MAX)
    }

    /// Records what the ask carries and grants what fits.
    pub(super) fn ask(&mut self, ask: &Ask, now_ms: u64) -> AskReply {
        let mut replies: Vec<Reply> =
            ask.cells.iter().map(|cell| self.record(&cell.record, now_ms)).collect();
        if self.token != Some(ask.token) && !planted::is(Planted::AnyToken) {
            return AskReply { cells: replies, grants: vec![Grant::Stranger; ask.units.len()] };
        }
        let known: Vec<Option<Answered>> =
            ask.cells.iter().map(|cell| self.answered(cell, now_ms)).collect();
        let mut tally = Tally::new(&ask.cells, &replies);
        // What is answered anew, by the first cell of each unit.
        let mut anew: Vec<Vec<Grant>> = vec![Vec::new(); ask.cells.len()];
        let mut grants = Vec::new();
        for unit in &ask.units {
            let first = unit.wants.first().map_or(0, |want| want.cell);
            let place = anew.get(first).map_or(0, Vec::len);
            let again = known.get(first).and_then(Option::as_ref);
            let again = again.filter(|known| known.operation == ask.operation);
            let grant = match again {
                Some(known) => known.again(place, unit),
                None if is_late(ask, unit, &known, &replies) => Grant::Conflict,
                None => Grant::Granted(tally.grant(unit)),
            };
            if let Some(anew) = anew.get_mut(first) {
                anew.push(grant);
            }
            grants.push(grant);
        }
        for (at, cell) in ask.cells.iter().enumerate() {
            let more = tally.granted.get(at).copied().unwrap_or(0);
            if let Some(reply) = replies.get_mut(at).filter(|_| more > 0) {
                self.add(cell, more, now_ms);
                reply.current = reply.current.granted(more);
            }
            let late = known.get(at).and_then(Option::as_ref);
            let grants = anew.get(at).cloned().unwrap_or_default();
            // What granted nothing need not be known again: it would grant nothing again.
            let granted = grants.iter().any(|grant| matches!(grant, Grant::Granted(1..)));
            if granted && late.is_none_or(|known| known.operation < ask.operation) {
                let expires_ms = now_ms.saturating_add(ANSWER_LIFE_MS);
                let answered = Answered { operation: ask.operation, grants, expires_ms };
                self.answers.insert((cell.record.cell(), cell.record.component), answered);
            }
        }
        AskReply { cells: replies, grants }
    }

    fn answered(&self, cell: &AskCell, now_ms: u64) -> Option<Answered> {
        let answered = self.answers.get(&(cell.record.cell(), cell.record.component));
        answered.filter(|answered| answered.expires_ms > now_ms).cloned()
    }

    /// Adds what was granted to the component's total.
    fn add(&mut self, cell: &AskCell, more: u64, now_ms: u64) {
        let (record, life_ms) = (&cell.record, cell.record.life_ms());
        let held = self.cells.get(&record.cell());
        let had = held.and_then(|held| held.components.get(&record.component));
        let total = had.copied().unwrap_or(0).saturating_add(more);
        self.record_cell(record.cell(), record.component, total, (now_ms, life_ms));
    }
}

/// Whether an ask comes too late for a unit: more was recorded since it was sent, or a later one
/// has been answered.
fn is_late(ask: &Ask, unit: &Unit, known: &[Option<Answered>], replies: &[Reply]) -> bool {
    unit.wants.iter().any(|want| {
        let (Some(cell), Some(reply)) = (ask.cells.get(want.cell), replies.get(want.cell)) else {
            return true;
        };
        let answered = known.get(want.cell).and_then(Option::as_ref);
        let passed = answered.is_some_and(|answered| answered.operation >= ask.operation);
        let recorded = reply.current.had > cell.record.total;
        passed || recorded && !planted::is(Planted::NoGuard)
    })
}
