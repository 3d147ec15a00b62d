//! Where the ledgers are: a hash index that is read without a lock.
//!
//! Open addressing with linear probing. A place is 32 bits: eight of the hash, and the number of a
//! ledger plus one; 0 is empty. Few bits, because the index has to stay in the cache; a ledger
//! that is looked at in vain, one in 256 on the way, costs less. Places are written under the
//! shard's lock only.
//!
//! The index grows with the number of subjects, so that a small table is a dense one: the levels
//! are twice as large from one to the next, and readers use the newest. They lie one behind the
//! other in memory that nobody has touched before; older ones stay, for readers that are just in
//! them, and all of them together are as large as the newest.

use crate::sync::{AtomicU32, AtomicU64, Ordering};

use super::zeroed;

/// Bits of the hash that choose the shard.
const SHARD_BITS: u32 = 8;
/// Places of the first level.
const FIRST_PLACES: usize = 16;

/// Bits of a place that name a ledger.
pub(crate) const LEDGER_BITS: u32 = 24;
/// The most ledgers an index can name.
pub(crate) const LEDGERS_MAX: usize = (1 << LEDGER_BITS) - 1;

pub(crate) struct Index {
    /// Of all levels.
    places: Box<[AtomicU32]>,
    /// Places of the newest level. It begins where the smaller ones, of which there is one of each
    /// size, end: at as many less those of the first.
    newest: AtomicU64,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").field("newest", &self.newest).finish_non_exhaustive()
    }
}

impl Index {
    /// An index for so many subjects at most.
    pub(crate) fn new(subjects: usize) -> Self {
        let places = zeroed::places(2 * places_for(subjects) - FIRST_PLACES);
        Self { places, newest: AtomicU64::new(FIRST_PLACES as u64) }
    }

    /// The most that [`bytes`](Self::bytes) can be for that many subjects.
    pub(crate) fn bytes_max(subjects: usize) -> usize {
        levels_bytes(places_for(subjects))
    }

    /// Bytes in use.
    pub(crate) fn bytes(&self) -> usize {
        levels_bytes(self.level().len())
    }

    /// Calls `check` with each ledger that may be the one, until it agrees.
    #[inline(always)]
    pub(crate) fn find<R>(&self, hash: u64, check: impl Fn(u32) -> Option<R>) -> Option<R> {
        // ORDER: acquires the level that was filled before it became the newest.
        let newest = usize::try_from(self.newest.load(Ordering::Acquire)).unwrap_or(0);
        let (tag, mut at) = (tag(hash), home(hash, newest));
        for _ in 0..newest {
            // ORDER: acquires the ledger that was founded before it was put here.
            let place = self.places.get(begin_of(newest).wrapping_add(at))?;
            let place = place.load(Ordering::Acquire);
            // First, because it is nearly always the one. What is empty may look like it, and names
            // a ledger that is not there.
            if place & !LEDGER == tag
                && let Some(found) = check((place & LEDGER).wrapping_sub(1))
            {
                return Some(found);
            }
            if place == 0 {
                return None;
            }
            at = at.wrapping_add(1) & newest.wrapping_sub(1);
        }
        None
    }

    /// The first ledger that [`find`](Self::find) would check: nearly always the one.
    #[inline(always)]
    pub(crate) fn find_first(&self, hash: u64) -> Option<u32> {
        self.find(hash, Some)
    }

    /// Puts a ledger in. `subjects` is how many there are with it; `hash_of` knows the others.
    pub(crate) fn insert(&self, ledger: u32, subjects: usize, hash_of: impl Fn(u32) -> u64) {
        self.grow_for(subjects, &hash_of);
        put(self.level(), hash_of(ledger), ledger);
    }

    /// Takes a ledger out and closes the gap, so that probes never walk over leftovers. A reader
    /// may miss a place that moves at this moment; it then asks the lock.
    pub(crate) fn remove(&self, ledger: u32, hash_of: impl Fn(u32) -> u64) {
        let places = self.level();
        let load = |at: usize| places.get(at).map_or(0, |place| place.load(Ordering::Relaxed));
        let store = |at: usize, value| {
            if let Some(place) = places.get(at) {
                place.store(value, Ordering::Release);
            }
        };
        let (hash, len) = (hash_of(ledger), places.len());
        let word = tag(hash) | (ledger + 1);
        let Some(mut gap) = probe(home(hash, len), len).find(|at| load(*at) == word) else {
            return;
        };
        for at in probe(gap, len).skip(1).take_while(|at| load(*at) != 0) {
            // What is there may move back if its home is not between the gap and where it is.
            let distance = |from: usize| at.wrapping_sub(from) & (len - 1);
            let resident = (load(at) & LEDGER).wrapping_sub(1);
            if distance(home(hash_of(resident), len)) >= distance(gap) {
                store(gap, load(at));
                gap = at;
            }
        }
        store(gap, 0);
    }

    /// The newest level.
    fn level(&self) -> &[AtomicU32] {
        // ORDER: as in `find`.
        self.level_of(usize::try_from(self.newest.load(Ordering::Acquire)).unwrap_or(0))
    }

    /// The level with so many places.
    fn level_of(&self, places: usize) -> &[AtomicU32] {
        let from = begin_of(places);
        self.places.get(from..from + places).unwrap_or_default()
    }

    /// Moves everything to a larger level if this one would become too full.
    fn grow_for(&self, subjects: usize, hash_of: &impl Fn(u32) -> u64) {
        let wanted = places_for(subjects);
        let old = self.level();
        if old.len() >= wanted {
            return;
        }
        let places = self.level_of(wanted);
        for place in old.iter().map(|place| place.load(Ordering::Relaxed)) {
            if let Some(ledger) = (place & LEDGER).checked_sub(1) {
                put(places, hash_of(ledger), ledger);
            }
        }
        // ORDER: releases the filled level (partner: `find`).
        self.newest.store(wanted as u64, Ordering::Release);
    }
}

/// Where the number of a ledger is in a place; the rest is the tag.
pub(crate) const LEDGER: u32 = (1 << LEDGER_BITS) - 1;

/// The tag of a hash, where it stands in a place: the highest eight bits.
#[inline]
const fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32 & !LEDGER
}

/// Where the level of so many places begins: the smaller ones are before it, one of each size.
#[inline]
const fn begin_of(places: usize) -> usize {
    places.wrapping_sub(FIRST_PLACES)
}

/// What a level of so many places and all the smaller ones take.
const fn levels_bytes(places: usize) -> usize {
    (2 * places - FIRST_PLACES) * size_of::<AtomicU32>()
}

/// Places for that many subjects: a power of two, at most two thirds full.
fn places_for(subjects: usize) -> usize {
    (subjects + subjects / 2).next_power_of_two().max(FIRST_PLACES)
}

/// Where the probe for a hash begins: by bits that neither the tag nor the shard is made of.
#[inline]
fn home(hash: u64, places: usize) -> usize {
    usize::try_from(hash >> SHARD_BITS & (places as u64).wrapping_sub(1)).unwrap_or(0)
}

/// All places, from the first one on.
fn probe(first: usize, places: usize) -> impl Iterator<Item = usize> {
    (0..places).map(move |step| first.wrapping_add(step) & (places - 1))
}

/// Writes a ledger into the first empty place for its hash.
fn put(places: &[AtomicU32], hash: u64, ledger: u32) {
    let mut free = probe(home(hash, places.len()), places.len())
        .filter_map(|at| places.get(at))
        .filter(|place| place.load(Ordering::Relaxed) == 0);
    if let Some(place) = free.next() {
        // ORDER: releases the founded ledger (partner: `find`).
        place.store(tag(hash) | (ledger + 1), Ordering::Release);
    }
}
