//! What really happened: who admitted how much to which cell, and what became of it.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_convergence::Shard;

/// A cell: the number of its subject and its sequence.
pub(crate) type Name = (usize, u64);

/// A component: the number of a process and a life of its table.
pub(crate) type Owner = (u32, u64);

/// Why the owner of a total cannot send it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The process was killed before the store had it.
    Crashed,
    /// The process was killed, or stopped, after the store had it, and the store lost it.
    DeadAndLost,
    /// The cell was evicted from the process's table after the store had it, and the store lost it.
    EvictedAndLost,
    /// The cell left the sliding window before the store had it.
    Expired,
    /// A clock that jumped gave the cell another name.
    Renamed,
    /// The store lost the cell alone, and nobody has asked for it since.
    LostAlone,
}

/// How the owner of a total ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// Killed.
    Crashed,
    /// Stopped when everything was recorded.
    Drained,
    /// Dropped from the table when everything was recorded.
    Evicted,
    /// The cell left the sliding window, or its subject expired.
    Left,
    /// The cell goes by another name now.
    Renamed,
}

/// What one component has in a cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub(crate) owner: Owner,
    /// What it admitted.
    pub(crate) amount: u64,
    /// The most that the store ever had of it.
    pub(crate) applied: u64,
    /// What the store may have granted beside what it admitted: asks that have not ended.
    pub(crate) asked: u64,
    /// What asks carried that were answered twice, by a store that had lost its first answer...
    pub(crate) regranted: u64,
    /// ...and how much of it was granted to nobody.
    pub(crate) excess: u64,
    pub(crate) end: Option<End>,
    /// A clock that jumped gave the cell this name. What was recorded under the old one counts as
    /// recorded, so that it may never be told under the new one.
    pub(crate) carried: bool,
}

impl Part {
    /// The most that anybody may have heard of.
    pub(crate) fn most(&self) -> u64 {
        self.amount.max(self.applied)
    }

    /// What the store holds, or held, of it that was neither admitted nor may be granted.
    pub(crate) const fn surplus(&self, held: u64) -> u64 {
        held.saturating_sub(self.amount + self.asked)
    }
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct CellTruth {
    pub(crate) parts: Vec<Part>,
    /// The store lost it once: then sums may fall.
    pub(crate) lossy: bool,
    /// The store lost this cell alone: nobody notices until someone asks for it.
    pub(crate) lost_alone: bool,
    /// When the store will forget it.
    pub(crate) expires_ms: Option<u64>,
    /// The largest sum that the store ever held.
    pub(crate) peak: u64,
    /// The largest limit anything was admitted under.
    pub(crate) limit: u64,
    /// What of it was admitted by another rule than the bounded one.
    pub(crate) loose: u64,
    /// Something was admitted to it when not all processes could know how many they are.
    pub(crate) early: bool,
}

impl CellTruth {
    /// Everything admitted to it.
    pub(crate) fn total(&self) -> u64 {
        self.parts.iter().map(|part| part.amount).sum()
    }

    /// Everything that anybody may have heard of: also what was granted a moment ago.
    pub(crate) fn most(&self) -> u64 {
        self.parts.iter().map(Part::most).sum()
    }

    /// Everything the store ever had of it.
    pub(crate) fn applied(&self) -> u64 {
        self.parts.iter().map(|part| part.applied).sum()
    }

    /// Whether the store has forgotten it because its time is over.
    pub(crate) fn is_over(&self, now_ms: u64) -> bool {
        self.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms)
    }

    pub(crate) fn part(&mut self, owner: Owner) -> &mut Part {
        let at = self.parts.iter().position(|part| part.owner == owner);
        let at = at.unwrap_or_else(|| {
            let (amount, applied, asked, regranted, excess) = (0, 0, 0, 0, 0);
            let (end, carried) = (None, false);
            let part = Part { owner, amount, applied, asked, regranted, excess, end, carried };
            self.parts.push(part);
            self.parts.len() - 1
        });
        #[expect(clippy::indexing_slicing, reason = "found, or pushed just now")]
        &mut self.parts[at]
    }
}

/// All cells of a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Truth {
    pub(crate) cells: BTreeMap<Name, CellTruth>,
    /// The processes that each shard has heard of, and until when the others may not know of the
    /// last one.
    met: BTreeMap<Shard, (BTreeSet<u32>, u64)>,
}

impl Truth {
    /// A process speaks with a shard: if it is the first time, the others hear of it until then.
    pub(crate) fn meet(&mut self, shard: Shard, number: u32, until_ms: u64) {
        let (numbers, known_ms) = self.met.entry(shard).or_default();
        if numbers.insert(number) {
            *known_ms = (*known_ms).max(until_ms);
        }
    }

    /// Something was admitted to a cell of this shard.
    pub(crate) fn touch(&mut self, name: Name, shard: Shard, now_ms: u64) {
        let early = self.met.get(&shard).is_none_or(|(_, until_ms)| now_ms <= *until_ms);
        if let Some(cell) = self.cells.get_mut(&name) {
            cell.early |= early;
        }
    }

    /// The component now has this much in the cell.
    pub(crate) fn charge(&mut self, name: Name, owner: Owner, amount: u64, limit: u64) {
        if amount > 0 {
            let cell = self.cells.entry(name).or_default();
            cell.limit = cell.limit.max(limit);
            let part = cell.part(owner);
            // A clock that stepped back led it to a cell where it has been before.
            part.carried |= part.end.is_some();
            part.amount = part.amount.max(amount);
            part.end = None;
        }
    }

    /// A clock that jumped gave a cell this name: what was admitted to it counts here as well.
    pub(crate) fn carry(&mut self, name: Name, owner: Owner, amount: u64) {
        self.charge(name, owner, amount, u64::MAX);
        let cell = self.cells.get_mut(&name).filter(|_| amount > 0);
        if let Some(part) = cell.map(|cell| cell.part(owner)) {
            part.carried = true;
        }
    }

    /// The store is asked to grant a component this much.
    pub(crate) fn ask(&mut self, name: Name, owner: Owner, cost: u64) {
        if cost > 0 {
            self.cells.entry(name).or_default().part(owner).asked += cost;
        }
    }

    /// That has ended, one way or the other.
    pub(crate) fn end_ask(&mut self, name: Name, owner: Owner, cost: u64) {
        if cost > 0 {
            let part = self.cells.entry(name).or_default().part(owner);
            part.asked = part.asked.saturating_sub(cost);
        }
    }

    /// The component admitted this much more to a cell that it cannot tell of any more.
    pub(crate) fn admit_late(&mut self, name: Name, owner: Owner, (cost, limit): (u64, u64)) {
        if cost > 0 {
            let cell = self.cells.entry(name).or_default();
            cell.limit = cell.limit.max(limit);
            cell.loose += cost;
            let part = cell.part(owner);
            part.amount += cost;
            part.end.get_or_insert(End::Left);
        }
    }

    /// So much was admitted by another rule than the bounded one.
    pub(crate) fn loosen(&mut self, name: Name, cost: u64) {
        if let Some(cell) = self.cells.get_mut(&name) {
            cell.loose += cost;
        }
    }

    /// What a component can no longer send of a cell.
    pub(crate) fn end(&mut self, name: Name, owner: Owner, end: End) {
        if let Some(cell) = self.cells.get_mut(&name)
            && let Some(part) = cell.parts.iter_mut().find(|part| part.owner == owner)
        {
            // The first cause is the cause.
            part.end.get_or_insert(end);
        }
    }

    /// Everything admitted to a cell.
    pub(crate) fn total(&self, name: Name) -> u64 {
        self.cells.get(&name).map_or(0, CellTruth::total)
    }

    /// Everything that anybody may have heard of it.
    pub(crate) fn most(&self, name: Name) -> u64 {
        self.cells.get(&name).map_or(0, CellTruth::most)
    }

    /// What one component admitted to it, or was granted. What a store that forgot granted to it
    /// once more it never heard of: its region publishes that, and it comes back as another's.
    pub(crate) fn most_of(&self, name: Name, owner: Owner) -> u64 {
        let parts = self.cells.get(&name).map(|cell| cell.parts.as_slice()).unwrap_or_default();
        let part = parts.iter().find(|part| part.owner == owner);
        let unheard = |part: &Part| part.surplus(part.applied).min(part.regranted);
        part.map_or(0, |part| part.most().saturating_sub(unheard(part)))
    }

    /// What one component admitted to it.
    pub(crate) fn amount(&self, name: Name, owner: Owner) -> u64 {
        let parts = self.cells.get(&name).map(|cell| cell.parts.as_slice()).unwrap_or_default();
        parts.iter().find(|part| part.owner == owner).map_or(0, |part| part.amount)
    }

    /// Whether a clock that jumped led a component to this cell.
    pub(crate) fn is_carried(&self, name: Name, owner: Owner) -> bool {
        let parts = self.cells.get(&name).map(|cell| cell.parts.as_slice()).unwrap_or_default();
        parts.iter().any(|part| part.owner == owner && part.carried)
    }

    /// The store is about to record a total. The cell is forgotten first if its time is over.
    pub(crate) fn apply(&mut self, name: Name, owner: Owner, total: u64, times: (u64, u64)) {
        let (now_ms, life_ms) = times;
        let Some(cell) = self.cells.get_mut(&name) else { return };
        if cell.expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms) {
            (cell.expires_ms, cell.lossy, cell.lost_alone) = (None, true, true);
        }
        if total > 0 {
            cell.expires_ms.get_or_insert(now_ms + life_ms);
            let part = cell.part(owner);
            part.applied = part.applied.max(total);
        }
    }

    /// The store lost these cells.
    pub(crate) fn lose(&mut self, mut lost: impl FnMut(Name) -> bool, alone: bool) {
        for (name, cell) in &mut self.cells {
            if lost(*name) {
                (cell.lossy, cell.lost_alone, cell.expires_ms) = (true, alone, None);
            }
        }
    }
}
