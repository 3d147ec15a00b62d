//! Where the ledgers are: a hash index that is read without a lock.
//!
//! Open addressing with linear probing. A place is 32 bits: eight of the hash, and the number of a
//! ledger plus one; 0 is empty. Few bits, because the index has to stay in the cache; a ledger
//! that is looked at in vain, one in 256 on the way, costs less. Places are written under the
//! shard's lock only.
//!
//! The index grows with the number of subjects, so that a small table is a dense one: the levels
//! are twice as large from one to the next, and readers use the newest. Older ones are kept, for
//! readers that are just in them; all of them together are as large as the newest.

use std::sync::OnceLock;

use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// Bits of the hash that choose the shard.
const SHARD_BITS: u32 = 8;
/// Places of the first level.
const FIRST_PLACES: usize = 16;
/// More levels than a table of 2^32 subjects needs.
const LEVELS: usize = 30;

/// Bits of a place that name a ledger.
const LEDGER_BITS: u32 = 24;
/// The most ledgers an index can name.
pub(crate) const LEDGERS_MAX: usize = (1 << LEDGER_BITS) - 1;

type Places = Box<[AtomicU32]>;

#[derive(Debug)]
pub(crate) struct Index {
    levels: [OnceLock<Places>; LEVELS],
    /// The newest level.
    level: AtomicU64,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { levels: std::array::from_fn(|_| OnceLock::new()), level: AtomicU64::new(0) }
    }

    /// The most that [`bytes`](Self::bytes) can be for that many subjects.
    pub(crate) fn bytes_max(subjects: usize) -> usize {
        2 * places_for(subjects) * size_of::<AtomicU32>()
    }

    /// Bytes allocated.
    pub(crate) fn bytes(&self) -> usize {
        let levels = self.levels.iter().filter_map(OnceLock::get);
        levels.map(|places| size_of_val::<[AtomicU32]>(places)).sum()
    }

    /// Calls `check` with each ledger that may be the one, until it agrees.
    #[inline]
    pub(crate) fn find<R>(&self, hash: u64, check: impl Fn(u32) -> Option<R>) -> Option<R> {
        let places = self.places()?;
        let (tag, mut at) = (tag(hash), home(hash, places.len()));
        for _ in 0..places.len() {
            // ORDER: acquires the ledger that was founded before it was put here.
            let place = places.get(at)?.load(Ordering::Acquire);
            if place == 0 {
                return None;
            }
            if place & !LEDGER == tag
                && let Some(found) = check((place & LEDGER).wrapping_sub(1))
            {
                return Some(found);
            }
            at = at.wrapping_add(1) & places.len().wrapping_sub(1);
        }
        None
    }

    /// The first ledger that [`find`](Self::find) would check: nearly always the one.
    #[inline]
    pub(crate) fn find_first(&self, hash: u64) -> Option<u32> {
        self.find(hash, Some)
    }

    /// Puts a ledger in. `subjects` is how many there are with it; `hash_of` knows the others.
    pub(crate) fn insert(&self, ledger: u32, subjects: usize, hash_of: impl Fn(u32) -> u64) {
        self.grow_for(subjects, &hash_of);
        if let Some(places) = self.places() {
            put(places, hash_of(ledger), ledger);
        }
    }

    /// Takes a ledger out and closes the gap, so that probes never walk over leftovers. A reader
    /// may miss a place that moves at this moment; it then asks the lock.
    pub(crate) fn remove(&self, ledger: u32, hash_of: impl Fn(u32) -> u64) {
        let Some(places) = self.places() else { return };
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

    #[inline]
    fn places(&self) -> Option<&[AtomicU32]> {
        // ORDER: acquires the level that was filled before it became the newest.
        let level = self.level.load(Ordering::Acquire);
        let level = usize::try_from(level).unwrap_or(usize::MAX);
        self.levels.get(level)?.get().map(|places| &**places)
    }

    /// Moves everything to a larger level if this one would become too full.
    fn grow_for(&self, subjects: usize, hash_of: &impl Fn(u32) -> u64) {
        let wanted = places_for(subjects);
        let old = self.places().unwrap_or_default();
        if old.len() >= wanted {
            return;
        }
        let level = (wanted / FIRST_PLACES).ilog2();
        let Some(next) = self.levels.get(level as usize) else { return };
        let empty = || std::iter::repeat_with(|| AtomicU32::new(0)).take(wanted).collect();
        let places: &[AtomicU32] = next.get_or_init(empty);
        for place in old.iter().map(|place| place.load(Ordering::Relaxed)) {
            if let Some(ledger) = (place & LEDGER).checked_sub(1) {
                put(places, hash_of(ledger), ledger);
            }
        }
        // ORDER: releases the filled level (partner: `places`).
        self.level.store(level.into(), Ordering::Release);
    }
}

/// Where the number of a ledger is in a place; the rest is the tag.
const LEDGER: u32 = (1 << LEDGER_BITS) - 1;

/// The tag of a hash, where it stands in a place: the highest eight bits.
#[inline]
const fn tag(hash: u64) -> u32 {
    (hash >> 32) as u32 & !LEDGER
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
