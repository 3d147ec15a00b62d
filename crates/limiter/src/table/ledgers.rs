//! The memory of all ledgers of a shard: taken as needed, never freed.
//!
//! Fronts and backs lie apart, so that the memory a decision walks over is a quarter of it. Those
//! of all shards lie together, and shards take turns in them, so that what is in use is dense.

use std::sync::Arc;

use crate::ledger::{Back, Front, Ledger};
use crate::sync::{AtomicU64, Ordering};

use super::index::{LEDGER, LEDGER_BITS};
use super::zeroed::Room;

/// Room for all ledgers of a table.
#[derive(Debug)]
pub(crate) struct Rooms {
    fronts: Room<Front>,
    backs: Room<Back>,
    ledgers: usize,
    shards: usize,
}

impl Rooms {
    /// For so many shards of so many subjects.
    pub(crate) fn new(shards: u16, subjects_max: usize) -> Self {
        let shards = usize::from(shards);
        let ledgers = shards * subjects_max;
        Self { fronts: Room::new(ledgers), backs: Room::new(ledgers), ledgers, shards }
    }

    /// What is allocated beside the ledgers of a table that has so many at most.
    pub(crate) const fn bytes_beside_many(ledgers: usize) -> usize {
        // The two counts of an `Arc`.
        let itself = size_of::<Self>() + 2 * size_of::<usize>();
        itself + Room::<Front>::spare_bytes(ledgers) + Room::<Back>::spare_bytes(ledgers)
    }

    /// What is allocated beside the ledgers.
    pub(crate) const fn bytes_beside(&self) -> usize {
        Self::bytes_beside_many(self.ledgers)
    }

    /// The ledger of this name.
    pub(crate) fn ledger(&self, name: u32) -> Option<Ledger<'_>> {
        let place = self.place(name & LEDGER, (name >> LEDGER_BITS) as usize);
        Some(Ledger::new(self.fronts.get(place)?, self.backs.get(place)?))
    }

    /// The ledger that this front, one of these, belongs to.
    #[inline(always)]
    pub(crate) fn ledger_of<'a>(&'a self, front: &'a Front) -> Option<Ledger<'a>> {
        Some(Ledger::new(front, self.backs.get(self.fronts.place_of(front))?))
    }

    /// Where a ledger of a shard is.
    #[inline(always)]
    fn place(&self, at: u32, shard: usize) -> usize {
        (at as usize).wrapping_mul(self.shards).wrapping_add(shard)
    }
}

#[derive(Debug)]
pub(crate) struct Ledgers {
    rooms: Arc<Rooms>,
    /// The number of this shard.
    number: u16,
    subjects_max: usize,
    /// Ledgers that were ever used: the first so many.
    made: AtomicU64,
}

impl Ledgers {
    pub(crate) fn new(number: u16, rooms: &Arc<Rooms>, subjects_max: usize) -> Self {
        Self { rooms: Arc::clone(rooms), number, subjects_max, made: AtomicU64::new(0) }
    }

    /// The most that [`bytes`](Self::bytes) can be for that many subjects.
    pub(crate) fn bytes_max(subjects: usize) -> usize {
        subjects * (size_of::<Front>() + size_of::<Back>())
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        Self::bytes_max(usize::try_from(self.made()).unwrap_or(usize::MAX))
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<Ledger<'_>> {
        let place = self.place(at);
        Some(Ledger::new(self.rooms.fronts.get(place)?, self.rooms.backs.get(place)?))
    }

    /// The front of a ledger that an index names.
    #[inline(always)]
    pub(crate) fn front(&self, at: u32) -> Option<&Front> {
        self.rooms.fronts.get(self.place(at))
    }

    /// The ledger with this number, which nobody knows of yet if it is the first time. The caller
    /// holds the lock of the structure, which gives numbers out one after the other.
    pub(crate) fn get_or_new(&self, at: u32) -> Option<Ledger<'_>> {
        if u64::from(at) >= self.made() {
            let fits = (at as usize) < self.subjects_max;
            let place = fits.then(|| self.place(at))?;
            let name = at | u32::from(self.number) << LEDGER_BITS;
            self.rooms.fronts.make(place, Front::free(name))?;
            self.rooms.backs.make(place, Back::free())?;
            // ORDER: under the lock; those who count bytes may be late.
            self.made.store(u64::from(at) + 1, Ordering::Relaxed);
        }
        self.get(at)
    }

    fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn place(&self, at: u32) -> usize {
        self.rooms.place(at, self.number.into())
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::ledger;

    #[test]
    fn every_ledger_has_a_place_of_its_own() {
        let (shards, subjects) = (4, 1_000);
        let rooms = Arc::new(Rooms::new(shards, subjects));
        let all: Vec<_> =
            (0..shards).map(|number| Ledgers::new(number, &rooms, subjects)).collect();
        for at in 0..u32::try_from(subjects).unwrap() {
            assert!(all.iter().all(|ledgers| ledgers.get_or_new(at).is_some()));
        }
        let mut names: Vec<u32> = (0..u32::try_from(subjects).unwrap())
            .flat_map(|at| {
                all.iter().map(move |ledgers| ledger::name_of(ledgers.get(at).unwrap().era()))
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), usize::from(shards) * subjects);
    }

    #[test]
    fn there_are_no_more_than_fit() {
        for subjects in [1, 15, 16, 17, 1_000, 5_000] {
            let ledgers = Ledgers::new(0, &Arc::new(Rooms::new(1, subjects)), subjects);
            for at in 0..subjects {
                assert!(ledgers.get_or_new(u32::try_from(at).unwrap()).is_some());
            }
            assert!(ledgers.get_or_new(u32::try_from(subjects).unwrap()).is_none());
            assert_eq!(ledgers.bytes(), Ledgers::bytes_max(subjects));
        }
    }
}
