//! The largest total that each region has published of each cell that is still of use.
//!
//! Kept for all cells, served here or not: a value that no longer changes is not delivered twice,
//! and a subject may come, be evicted and come back at any time. Most cells are of one region, so
//! one value lies in the cell's own entry.

use std::collections::BTreeMap;

use tidegate_limiter::Digest;
use tidegate_limiter::planted::{self, Planted};

use crate::global::RegionNumber;
use crate::pack::Counter;

use super::digests::Digests;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct Values {
    own: Option<RegionNumber>,
    /// By when they expire, and by the length of the window: both together name a window.
    groups: BTreeMap<(u64, u64), Digests<Held>>,
    cells: usize,
    own_cells: usize,
    cells_max: usize,
}

/// What the regions have published of a cell.
#[derive(Clone, Debug)]
enum Held {
    One(RegionNumber, u64),
    #[expect(clippy::box_collection, reason = "a vector itself would make every entry larger")]
    Many(Box<Vec<(RegionNumber, u64)>>),
}

/// What is known of a cell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Value {
    /// What the own region has published.
    pub(super) own: u64,
    /// What the others have, together.
    pub(super) foreign: u64,
}

/// Where a walk over what the own region has published is.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OwnWalk {
    group: (u64, u64),
    after: Option<Digest>,
}

/// What a counter changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    Known,
    /// There is no room for it.
    Dropped,
    /// A value is larger now, or new.
    Raised {
        /// Nothing was known of the cell.
        cell_is_new: bool,
        /// Nothing was known of the region.
        region_is_new: bool,
    },
}

impl Values {
    pub(super) const fn new(cells_max: usize) -> Self {
        Self { own: None, groups: BTreeMap::new(), cells: 0, own_cells: 0, cells_max }
    }

    /// Says which region is the own, and returns whether it was another. Values are reckoned apart
    /// by it from then on.
    pub(super) fn set_own(&mut self, own: RegionNumber) -> bool {
        let before = self.own.replace(own);
        if before != Some(own) {
            self.own_cells = 0;
            for group in self.groups.values() {
                group.each(|held| self.own_cells += usize::from(held.count(own).is_some()));
            }
        }
        before.is_some_and(|before| before != own)
    }

    /// How many cells there are.
    pub(super) const fn cells(&self) -> usize {
        self.cells
    }

    /// How many of them the own region has published something of.
    pub(super) const fn own_cells(&self) -> usize {
        self.own_cells
    }

    /// Takes a counter in, by maximum.
    pub(super) fn raise(&mut self, region: RegionNumber, counter: &Counter) -> Change {
        let group = (counter.expires_ms(), counter.window_ms);
        let full = self.cells >= self.cells_max;
        if full && !self.groups.contains_key(&group) {
            return Change::Dropped;
        }
        let change = self.groups.entry(group).or_default().meet(counter.subject, |held| {
            let Some(held) = held else {
                let new = Change::Raised { cell_is_new: true, region_is_new: true };
                let one = Held::One(region, counter.count);
                return if full { (None, Change::Dropped) } else { (Some(one), new) };
            };
            (None, held.raise(region, counter.count))
        });
        if let Change::Raised { cell_is_new, region_is_new } = change {
            self.cells += usize::from(cell_is_new);
            self.own_cells += usize::from(region_is_new && self.own == Some(region));
        }
        change
    }

    /// What is known of a cell.
    pub(super) fn of(&self, window_ms: u64, sequence: u64, subject: Digest) -> Value {
        let cell = Counter { window_ms, sequence, subject, count: 0 };
        let group = self.groups.get(&(cell.expires_ms(), window_ms));
        let Some(held) = group.and_then(|group| group.get(subject)) else {
            return Value::default();
        };
        let mut value = Value::default();
        for (region, count) in held.all() {
            let own = self.own == Some(*region);
            if own && !planted::is(Planted::OwnInForeign) {
                value.own = *count;
            } else {
                value.foreign = value.foreign.saturating_add(*count);
            }
        }
        value
    }

    /// What each region has published of a cell.
    pub(super) fn all(
        &self,
        window_ms: u64,
        sequence: u64,
        subject: Digest,
    ) -> Vec<(RegionNumber, u64)> {
        let cell = Counter { window_ms, sequence, subject, count: 0 };
        let group = self.groups.get(&(cell.expires_ms(), window_ms));
        let held = group.and_then(|group| group.get(subject));
        held.map(|held| held.all().map(|(of, count)| (*of, *count)).collect()).unwrap_or_default()
    }

    /// What the own region has published of two cells of a subject, and how many other regions use
    /// either.
    pub(super) fn both(
        &self,
        window_ms: u64,
        sequences: [u64; 2],
        subject: Digest,
    ) -> ([u64; 2], u64) {
        let mut others: Vec<RegionNumber> = Vec::new();
        let own = sequences.map(|sequence| {
            let cell = Counter { window_ms, sequence, subject, count: 0 };
            let group = self.groups.get(&(cell.expires_ms(), window_ms));
            let Some(held) = group.and_then(|group| group.get(subject)) else { return 0 };
            let regions = held.all().map(|(region, _)| *region);
            for region in regions.filter(|region| self.own != Some(*region)) {
                if !others.contains(&region) {
                    others.push(region);
                }
            }
            self.own.and_then(|own| held.count(own)).unwrap_or(0)
        });
        (own, others.len() as u64)
    }

    /// Goes on with a walk over all that the own region has published: looks at the next `most`
    /// cells. Returns what was found, and whether the walk is not over.
    pub(super) fn own(&self, walk: &mut OwnWalk, most: usize) -> (Vec<Counter>, bool) {
        let (mut found, mut left, mut more) = (Vec::new(), most, false);
        for ((expires_ms, window_ms), group) in self.groups.range(walk.group..) {
            let (window_ms, name) = (*window_ms, (*expires_ms, *window_ms));
            let sequence = (expires_ms / window_ms.max(1)).saturating_sub(2);
            let after = walk.after.filter(|_| walk.group == name);
            group.walk(after.unwrap_or(Digest::from_bytes([0; 16])), |subject, held| {
                if after == Some(subject) {
                    return true;
                }
                more = left == 0;
                if more {
                    return false;
                }
                left -= 1;
                *walk = OwnWalk { group: name, after: Some(subject) };
                if let Some(count) = self.own.and_then(|own| held.count(own)) {
                    found.push(Counter { window_ms, sequence, subject, count });
                }
                true
            });
            if more {
                break;
            }
        }
        (found, more)
    }

    /// Forgets what is of no use any more, about `most` cells; says whether there may be more.
    pub(super) fn expire(&mut self, unix_ms: u64, most: usize) -> bool {
        let early = |window_ms: u64| if planted::is(Planted::ExpiredEarly) { window_ms } else { 0 };
        let mut left = most;
        while left > 0 {
            let Some(mut first) = self.groups.first_entry() else { return false };
            let (expires_ms, window_ms) = *first.key();
            if expires_ms.saturating_sub(early(window_ms)) > unix_ms {
                return false;
            }
            let some = first.get_mut().take_some();
            if some.is_empty() {
                first.remove();
            }
            left = left.saturating_sub(some.len().max(1));
            self.cells = self.cells.saturating_sub(some.len());
            if let Some(own) = self.own {
                let owned = some.iter().filter(|(_, held)| held.count(own).is_some()).count();
                self.own_cells = self.own_cells.saturating_sub(owned);
            }
        }
        true
    }
}

impl Held {
    fn all(&self) -> impl Iterator<Item = (&RegionNumber, &u64)> {
        let (one, many) = match self {
            Self::One(region, count) => (Some((region, count)), None),
            Self::Many(all) => (None, Some(all)),
        };
        one.into_iter().chain(many.into_iter().flat_map(|all| all.iter().map(|(r, c)| (r, c))))
    }

    fn count(&self, region: RegionNumber) -> Option<u64> {
        self.all().find(|(of, _)| **of == region).map(|(_, count)| *count)
    }

    fn raise(&mut self, region: RegionNumber, count: u64) -> Change {
        let before = self.count(region);
        match before {
            Some(before) if before == count => return Change::Known,
            Some(before) if before > count && !planted::is(Planted::Overwrite) => {
                return Change::Known;
            }
            _ => self.set(region, count),
        }
        Change::Raised { cell_is_new: false, region_is_new: before.is_none() }
    }

    fn set(&mut self, region: RegionNumber, count: u64) {
        match self {
            Self::One(of, held) if *of == region => *held = count,
            Self::One(of, held) => {
                *self = Self::Many(Box::new(vec![(*of, *held), (region, count)]));
            }
            Self::Many(all) => match all.iter_mut().find(|(of, _)| *of == region) {
                Some((_, held)) => *held = count,
                None => all.push((region, count)),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: RegionNumber = RegionNumber(1);
    const B: RegionNumber = RegionNumber(2);
    const C: RegionNumber = RegionNumber(3);

    fn counter(subject: u8, sequence: u64, count: u64) -> Counter {
        let subject = Digest::from_bytes([subject; 16]);
        Counter { window_ms: 60_000, sequence, subject, count }
    }

    fn of(values: &Values, subject: u8, sequence: u64) -> (u64, u64, u64) {
        let subject = Digest::from_bytes([subject; 16]);
        let Value { own, foreign } = values.of(60_000, sequence, subject);
        (own, foreign, values.both(60_000, [sequence, sequence], subject).1)
    }

    #[test]
    fn the_own_region_is_never_foreign() {
        let mut values = Values::new(100);
        values.set_own(A);
        values.raise(A, &counter(1, 7, 6));
        assert_eq!(of(&values, 1, 7), (6, 0, 0));
        values.raise(B, &counter(1, 7, 3));
        values.raise(C, &counter(1, 7, 4));
        assert_eq!(of(&values, 1, 7), (6, 7, 2));
        assert_eq!((values.cells(), values.own_cells()), (1, 1));
        values.set_own(B);
        assert_eq!(of(&values, 1, 7), (3, 10, 2));
    }

    #[test]
    fn values_only_grow() {
        let mut values = Values::new(100);
        values.set_own(A);
        let raised = Change::Raised { cell_is_new: true, region_is_new: true };
        assert_eq!(values.raise(B, &counter(1, 7, 6)), raised);
        assert_eq!(values.raise(B, &counter(1, 7, 5)), Change::Known);
        let raised = Change::Raised { cell_is_new: false, region_is_new: false };
        assert_eq!(values.raise(B, &counter(1, 7, 8)), raised);
        assert_eq!(of(&values, 1, 7), (0, 8, 1));
        assert_eq!([of(&values, 1, 8), of(&values, 2, 7)], [(0, 0, 0); 2]);
    }

    #[test]
    fn they_expire_by_their_sequence() {
        let mut values = Values::new(100);
        values.set_own(A);
        values.raise(A, &counter(1, 7, 6));
        values.raise(B, &counter(2, 8, 6));
        assert!(!values.expire(9 * 60_000 - 1, 100));
        assert_eq!((values.cells(), all_own(&values).len()), (2, 1));
        assert!(values.expire(9 * 60_000, 1), "one at a time");
        assert!(!values.expire(9 * 60_000, 100));
        assert_eq!((values.cells(), values.own_cells(), all_own(&values).len()), (1, 0, 0));
        assert_eq!(of(&values, 2, 8), (0, 6, 1));
    }

    fn all_own(values: &Values) -> Vec<Counter> {
        let (mut walk, mut all) = (OwnWalk::default(), Vec::new());
        loop {
            let (found, more) = values.own(&mut walk, 1);
            all.extend(found);
            if !more {
                return all;
            }
        }
    }

    #[test]
    fn a_walk_meets_each_own_value_once() {
        let mut values = Values::new(100);
        values.set_own(A);
        for subject in 0..9 {
            let region = if subject % 3 == 0 { B } else { A };
            values.raise(region, &counter(subject, u64::from(subject % 2), 5));
        }
        let mut subjects: Vec<u8> =
            all_own(&values).iter().map(|counter| counter.subject.as_bytes()[0]).collect();
        subjects.sort_unstable();
        assert_eq!(subjects, [1, 2, 4, 5, 7, 8]);
    }

    #[test]
    fn regions_of_both_cells_are_counted_once() {
        let mut values = Values::new(100);
        values.set_own(A);
        for (region, sequence) in [(A, 7), (B, 7), (B, 8), (C, 8)] {
            values.raise(region, &counter(1, sequence, 5));
        }
        let both = values.both(60_000, [8, 7], Digest::from_bytes([1; 16]));
        assert_eq!(both, ([0, 5], 2));
    }

    #[test]
    fn there_is_an_end_to_them() {
        let mut values = Values::new(1);
        values.raise(B, &counter(1, 7, 6));
        assert_eq!(values.raise(B, &counter(2, 7, 6)), Change::Dropped);
        assert_ne!(values.raise(C, &counter(1, 7, 6)), Change::Dropped);
    }

    #[test]
    fn an_entry_takes_32_bytes() {
        assert_eq!(size_of::<(Digest, Held)>(), 32);
    }
}
