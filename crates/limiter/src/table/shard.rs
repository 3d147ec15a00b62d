//! One part of the table: an index that is read without a lock, ledgers, and their structure.

use std::sync::OnceLock;

use crate::counters::{Counters, count, count_many};
use crate::key::{Digest, FleetSecret, Key, Seed};
use crate::ledger::{Founding, Ledger};
use crate::request::{Subject, Window};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::time::Now;

use super::Options;
use super::structure::{Structure, Vacancy};

/// Ledgers allocated at a time: a large shard grows in steps of 320 KiB.
const CHUNK: usize = 1_024;
/// Index places per 2 subjects: at most two thirds are taken, so that probes stay short.
const PLACES_PER_TWO: usize = 3;

/// A ledger and the era in which it belongs to the subject that was looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    pub(crate) ledger: &'a Ledger,
    pub(crate) era: u64,
}

/// A subject that may not be in the table yet.
pub(crate) struct Newcomer<'a> {
    pub(crate) key: &'a Key,
    pub(crate) subject: &'a Subject<'a>,
    pub(crate) seed: &'a Seed,
    pub(crate) secret: &'a FleetSecret,
}

impl Newcomer<'_> {
    /// Whose share of the memory it takes. Two workspaces whose hashes collide share a share.
    fn owner(&self) -> u64 {
        self.seed.hash_workspace(self.subject)
    }

    fn digest(&self) -> Digest {
        Digest::of(self.subject, self.secret)
    }
}

#[derive(Debug)]
pub(crate) struct Shard {
    /// Open addressing, linear probing: `tag << 32 | ledger + 1`, 0 if empty. The tag is the high
    /// half of the hash and says where the probe starts. Changed under the lock only.
    index: Box<[AtomicU64]>,
    chunks: Box<[OnceLock<Box<[Ledger]>>]>,
    structure: Mutex<Structure>,
}

impl Shard {
    pub(crate) fn new(options: &Options) -> Self {
        let subjects = options.shard_subjects_max();
        let empty = || AtomicU64::new(0);
        Self {
            index: std::iter::repeat_with(empty).take(places_for(subjects)).collect(),
            chunks: std::iter::repeat_with(OnceLock::new).take(subjects.div_ceil(CHUNK)).collect(),
            structure: Mutex::new(Structure::new(subjects, options.is_regional())),
        }
    }

    /// How many subjects fit into a budget, everything counted. At least one.
    pub(crate) fn subjects_in(budget_bytes: usize) -> usize {
        let fits = |subjects: &usize| {
            let ledgers = subjects.next_multiple_of((*subjects).min(CHUNK)) * size_of::<Ledger>();
            let index = places_for(*subjects) * size_of::<AtomicU64>();
            let chunks = subjects.div_ceil(CHUNK) * size_of::<OnceLock<Box<[Ledger]>>>();
            ledgers + index + chunks + Structure::bytes_max(*subjects) <= budget_bytes
        };
        // The largest number that fits, by halving the distance to it.
        let (mut below, mut above) = (1, budget_bytes / size_of::<Ledger>() + 2);
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if fits(&middle) { below = middle } else { above = middle }
        }
        below
    }

    /// Finds the ledger of a subject without a lock. May miss one that is being moved in the
    /// index at this moment; [`Shard::seat_and`] does not.
    #[inline]
    pub(crate) fn find(&self, key: &Key, window: Window) -> Option<Spot<'_>> {
        let tag = key.hash >> 32;
        let mut at = self.home(tag);
        for _ in 0..self.index.len() {
            // ORDER: acquires the ledger that was founded before it was put here.
            let place = self.index.get(at)?.load(Ordering::Acquire);
            if place == 0 {
                return None;
            }
            if place >> 32 == tag
                && let Some(ledger) = self.ledger_at(place)
            {
                let era = ledger.era();
                if era % 2 == 0 && ledger.is_of(key.words(), window) {
                    return Some(Spot { ledger, era });
                }
            }
            at = self.after(at);
        }
        None
    }

    /// Finds the ledger of a subject, or founds it if there is room, and hands it to `then` while
    /// nothing can be retired.
    pub(crate) fn seat_and<'a, R>(
        &'a self,
        newcomer: &Newcomer<'_>,
        counters: &Counters,
        now: Now,
        then: impl FnOnce(Option<Spot<'a>>) -> R,
    ) -> R {
        let (key, window, owner) = (newcomer.key, newcomer.subject.window, newcomer.owner());
        let mut structure = self.lock();
        if let Some(spot) = self.find(key, window) {
            return then(Some(spot));
        }
        let vacancy = match structure.vacancy(owner, now, |at| self.ledger(at)) {
            Vacancy::Free(at) => Some(at),
            Vacancy::Evict(at, expired) => {
                self.remove(at, structure.leave(at));
                let counters = counters.mine();
                count(if expired {
                    &counters.subjects_expired
                } else {
                    &counters.subjects_evicted
                });
                structure.take_free()
            }
            Vacancy::None => None,
        };
        let Some(at) = vacancy else { return then(None) };
        let Some(ledger) = self.ledger_or_new(at, structure.subjects_max()) else {
            return then(None);
        };
        let founding = Founding {
            window,
            identity: key.identity(),
            digest: newcomer.digest().to_words(),
            life: structure.life(),
        };
        let era = ledger.found(&founding, now);
        structure.join(at, owner, key.hash >> 32);
        self.insert(key.hash >> 32, at);
        count(&counters.mine().subjects_created);
        then(Some(Spot { ledger, era }))
    }

    /// Drops expired subjects among the next `step` ledgers.
    pub(crate) fn sweep(&self, step: usize, counters: &Counters, now: Now) -> usize {
        let mut structure = self.lock();
        structure.begin_sweep();
        let mut dropped = 0;
        for _ in 0..step.min(structure.subjects_ever()) {
            if let Some(at) = structure.next_expired(now, |at| self.ledger(at)) {
                self.remove(at, structure.leave(at));
                dropped += 1;
            }
        }
        count_many(&counters.mine().subjects_expired, dropped as u64);
        dropped
    }

    pub(crate) fn subjects(&self) -> usize {
        self.lock().subjects()
    }

    pub(crate) fn accounted_bytes(&self) -> usize {
        let chunks: usize = self
            .chunks
            .iter()
            .filter_map(OnceLock::get)
            .map(|chunk| size_of_val::<[Ledger]>(chunk))
            .sum();
        let index = size_of_val::<[AtomicU64]>(&self.index);
        let list = size_of_val::<[OnceLock<Box<[Ledger]>>]>(&self.chunks);
        chunks + index + list + self.lock().bytes()
    }

    /// A panic cannot leave the structure half changed in a way that matters more than going on:
    /// the index and the ledgers are checked by whoever reads them.
    fn lock(&self) -> MutexGuard<'_, Structure> {
        self.structure.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn home(&self, tag: u64) -> usize {
        // A power of two: see `places_for`.
        usize::try_from(tag).unwrap_or(usize::MAX) & (self.index.len() - 1)
    }

    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.index.len() - 1)
    }

    #[inline]
    fn ledger_at(&self, place: u64) -> Option<&Ledger> {
        #[expect(clippy::cast_possible_truncation, reason = "the low half of the place")]
        self.ledger((place as u32).checked_sub(1)?)
    }

    #[inline]
    fn ledger(&self, at: u32) -> Option<&Ledger> {
        let at = at as usize;
        self.chunks.get(at / CHUNK)?.get()?.get(at % CHUNK)
    }

    fn ledger_or_new(&self, at: u32, subjects_max: usize) -> Option<&Ledger> {
        let first = at as usize / CHUNK * CHUNK;
        let chunk = self.chunks.get(at as usize / CHUNK)?;
        let len = CHUNK.min(subjects_max - first.min(subjects_max));
        let new = || std::iter::repeat_with(Ledger::free).take(len).collect();
        chunk.get_or_init(new).get(at as usize % CHUNK)
    }

    /// Puts a ledger into the index. There is room: the index is larger than the shard.
    fn insert(&self, tag: u64, ledger: u32) {
        let mut at = self.home(tag);
        for _ in 0..self.index.len() {
            let Some(place) = self.index.get(at) else { return };
            if place.load(Ordering::Relaxed) == 0 {
                // ORDER: releases the founded ledger (partner: `find`).
                place.store(tag << 32 | (u64::from(ledger) + 1), Ordering::Release);
                return;
            }
            at = self.after(at);
        }
    }

    /// Takes a ledger out of the index and closes the gap, so that probes never walk over
    /// leftovers. A reader may miss a place that moves at this moment; it then asks the lock.
    fn remove(&self, ledger: u32, tag: u64) {
        let load = |at: usize| self.index.get(at).map_or(0, |place| place.load(Ordering::Relaxed));
        let store = |at: usize, value| {
            if let Some(place) = self.index.get(at) {
                place.store(value, Ordering::Release);
            }
        };
        let Some(mut gap) = self.place_of(ledger, tag) else { return };
        let mut at = self.after(gap);
        while load(at) != 0 {
            let home = self.home(load(at) >> 32);
            // What is there may move back if its home is not between the gap and where it is.
            let distance = |from: usize| at.wrapping_sub(from) & (self.index.len() - 1);
            if distance(home) >= distance(gap) {
                store(gap, load(at));
                gap = at;
            }
            at = self.after(at);
        }
        store(gap, 0);
    }

    fn place_of(&self, ledger: u32, tag: u64) -> Option<usize> {
        let mut at = self.home(tag);
        for _ in 0..self.index.len() {
            let place = self.index.get(at)?.load(Ordering::Relaxed);
            if place == tag << 32 | (u64::from(ledger) + 1) {
                return Some(at);
            }
            at = self.after(at);
        }
        None
    }
}

/// Places in the index for that many subjects: a power of two.
fn places_for(subjects: usize) -> usize {
    (subjects * PLACES_PER_TWO / 2).next_power_of_two().max(4)
}
