//! A regional store in memory.

use std::collections::BTreeMap;

use tidegate_limiter::Digest;

/// One fixed window of one subject, as it is known outside a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CellName {
    /// The subject.
    pub subject: Digest,
    /// Which of its windows.
    pub sequence: u64,
}

/// Who owns a total: one life of one process, and the eviction sweep since which it knows the
/// subject. A process that forgot a cell and meets it again is another component, so that its
/// new total is not mistaken for the old one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Component {
    /// Random, drawn when the process starts.
    pub incarnation: u128,
    /// The eviction sweep.
    pub life: u64,
}

/// What a store answers: what it holds now, whatever was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recorded {
    /// The sum of all components of the cell.
    pub sum: u64,
    /// The largest total of the component that asked.
    pub recorded: u64,
    /// How many components the cell has.
    pub components: usize,
}

/// The totals of a region's cells.
///
/// ```
/// use tidegate_convergence::{CellName, Component, MemoryRegion};
/// # use tidegate_limiter::{Digest, FleetSecret, Part, Subject, Window};
/// # let window = Window::from_millis(60_000)?;
/// # let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
///
/// let cell = CellName { subject: Digest::of(&subject, &FleetSecret::default()), sequence: 7 };
/// let component = |incarnation| Component { incarnation, life: 0 };
///
/// let mut region = MemoryRegion::default();
/// region.record(cell, component(1), 5);
/// region.record(cell, component(2), 3);
/// // A total that arrives late or twice changes nothing.
/// let answer = region.record(cell, component(1), 4);
/// assert_eq!((answer.sum, answer.recorded), (8, 5));
/// # Ok::<(), tidegate_limiter::RequestError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryRegion {
    cells: BTreeMap<CellName, BTreeMap<Component, u64>>,
}

impl MemoryRegion {
    /// Keeps the larger of `total` and what the component has, and says what the cell holds.
    pub fn record(&mut self, cell: CellName, component: Component, total: u64) -> Recorded {
        let components = self.cells.entry(cell).or_default();
        let held = components.entry(component).or_insert(0);
        *held = total.max(*held);
        let recorded = *held;
        let sum = components.values().fold(0_u64, |sum, total| sum.saturating_add(*total));
        Recorded { sum, recorded, components: components.len() }
    }

    /// What the cell holds.
    #[must_use]
    pub fn sum(&self, cell: CellName) -> u64 {
        let components = self.cells.get(&cell);
        components.map_or(0, |all| all.values().fold(0, |sum, total| sum.saturating_add(*total)))
    }

    /// Forgets the cells that `expired` names.
    pub fn expire(&mut self, expired: impl Fn(&CellName) -> bool) {
        self.cells.retain(|cell, _| !expired(cell));
    }
}

#[cfg(test)]
mod tests;
