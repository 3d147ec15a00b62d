//! What is taken as published for a while, until an import shows it or time is up.

use std::collections::{BTreeMap, BTreeSet};

use crate::store::CellName;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Assumed {
    cells: BTreeMap<CellName, Assumption>,
    until: BTreeSet<(u64, CellName)>,
}

/// How much of a cell is taken as published, and until when.
#[derive(Clone, Copy, Debug)]
struct Assumption {
    count: u64,
    window_ms: u64,
    until_ms: u64,
    /// When it was first assumed, if anybody wants to know.
    since_ms: Option<u64>,
}

impl Assumed {
    pub(super) const fn new() -> Self {
        Self { cells: BTreeMap::new(), until: BTreeSet::new() }
    }

    /// Assumes that so much of a cell is published, until this moment. Of two counts the larger
    /// stands.
    pub(super) fn set(&mut self, cell: CellName, (count, window_ms): (u64, u64), until_ms: u64) {
        let before = self.cells.get(&cell).copied();
        if let Some(before) = before {
            self.until.remove(&(before.until_ms, cell));
        }
        let count = before.map_or(count, |before| before.count.max(count));
        let since_ms = before.and_then(|before| before.since_ms);
        self.cells.insert(cell, Assumption { count, window_ms, until_ms, since_ms });
        self.until.insert((until_ms, cell));
    }

    /// It is asked for how long something is assumed of a cell: from the first time on.
    pub(super) fn begin(&mut self, cell: CellName, now_ms: u64) {
        if let Some(assumed) = self.cells.get_mut(&cell) {
            assumed.since_ms.get_or_insert(now_ms);
        }
    }

    pub(super) fn of(&self, cell: CellName) -> u64 {
        self.cells.get(&cell).map_or(0, |assumed| assumed.count)
    }

    /// The same, if its time is not up.
    pub(super) fn of_at(&self, cell: CellName, now_ms: u64) -> u64 {
        let assumed = self.cells.get(&cell).filter(|assumed| assumed.until_ms > now_ms);
        assumed.map_or(0, |assumed| assumed.count)
    }

    /// So much of a cell is published: if it is what was assumed, nothing is assumed any more. Says
    /// since when it was.
    pub(super) fn shown(&mut self, cell: CellName, count: u64) -> Option<u64> {
        let assumed = self.cells.get(&cell).copied().filter(|assumed| assumed.count <= count)?;
        self.cells.remove(&cell);
        self.until.remove(&(assumed.until_ms, cell));
        assumed.since_ms
    }

    /// Goes on assuming what is assumed of a cell until this moment.
    pub(super) fn keep(&mut self, cell: CellName, until_ms: u64) {
        if let Some(assumed) = self.cells.get(&cell).copied() {
            self.set(cell, (assumed.count, assumed.window_ms), until_ms);
        }
    }

    /// Takes a cell whose time is up, with what was assumed of it and the length of its window.
    pub(super) fn take_late(&mut self, now_ms: u64) -> Option<(CellName, (u64, u64))> {
        let first = self.until.first().copied().filter(|(until_ms, _)| *until_ms <= now_ms)?;
        self.until.remove(&first);
        let assumed = self.cells.remove(&first.1)?;
        Some((first.1, (assumed.count, assumed.window_ms)))
    }

    pub(super) fn clear(&mut self) {
        self.cells.clear();
        self.until.clear();
    }

    pub(super) fn len(&self) -> usize {
        self.cells.len()
    }

    pub(super) fn next_ms(&self) -> Option<u64> {
        self.until.first().map(|(until_ms, _)| *until_ms)
    }
}
