//! One part of the table: an index that is read without a lock, ledgers, and their structure.

use std::sync::Arc;

use crate::cells::Ticket;
use crate::counters::Counters;
use crate::key::{Digest, FleetSecret, Key, Seed, Spread};
use crate::ledger::{Founding, Front, Ledger, is_in_use};
use crate::request::Subject;
use crate::sync::{Mutex, MutexGuard};
use crate::time::Now;

use super::Options;
use super::index::{Index, LEDGERS_MAX};
use super::ledgers::{Ledgers, Rooms};
use super::restore::Restored;
use super::structure::{Structure, Vacancy};

/// A ledger and the era in which it belongs to the subject that was looked up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot<'a> {
    pub(crate) ledger: Ledger<'a>,
    pub(crate) era: u64,
    shard: u16,
    at: u32,
}

impl Spot<'_> {
    pub(crate) const fn ticket(&self) -> Ticket {
        Ticket { shard: self.shard, ledger: self.at, era: self.era }
    }
}

/// A subject that may not be in the table yet.
pub(crate) struct Newcomer<'a> {
    pub(crate) key: &'a Key,
    pub(crate) subject: &'a Subject<'a>,
    /// Those who came in the same batch: they must not make room for it.
    pub(crate) company: &'a [Spot<'a>],
    pub(crate) seed: &'a Seed,
    pub(crate) secret: &'a FleetSecret,
    /// What was saved of it, maybe.
    pub(crate) restored: Option<&'a Restored>,
}

impl Newcomer<'_> {
    /// Whose share of the memory it takes. Two workspaces whose hashes collide share a share.
    fn owner(&self) -> u64 {
        let [workspace, ..] = self.subject.parts;
        self.seed.hash_workspace(workspace)
    }

    fn founding(&self, life: u32) -> Founding {
        Founding {
            window: self.subject.window,
            fingerprint: self.key.fingerprint,
            digest: Digest::of(self.subject, self.secret).to_words(),
            life,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Shard {
    number: u16,
    spread: Spread,
    index: Index,
    ledgers: Ledgers,
    structure: Mutex<Structure>,
}

impl Shard {
    pub(crate) fn new(number: u16, options: &Options, rooms: &Arc<Rooms>, spread: Spread) -> Self {
        let subjects = options.shard_subjects_max();
        Self {
            number,
            spread,
            index: Index::new(subjects),
            ledgers: Ledgers::new(number, rooms, subjects),
            structure: Mutex::new(Structure::new(subjects, options.is_regional())),
        }
    }

    /// How many subjects fit into a budget, everything counted. At least one.
    pub(crate) fn subjects_in(budget_bytes: usize) -> usize {
        let fits = |subjects: usize| {
            let shard = size_of::<Self>() + Index::bytes_max(subjects);
            shard + Ledgers::bytes_max(subjects) + Structure::bytes_max(subjects) <= budget_bytes
        };
        // The largest number that fits, by halving the distance to it.
        let (mut below, mut above) = (1, (budget_bytes / 64 + 2).min(LEDGERS_MAX + 1));
        while above - below > 1 {
            let middle = below + (above - below) / 2;
            if fits(middle) { below = middle } else { above = middle }
        }
        below
    }

    /// Finds the ledger of a subject without a lock. May miss one that is being moved in the
    /// index at this moment; [`Shard::seat_and`] does not.
    #[inline]
    pub(crate) fn find(&self, key: &Key) -> Option<Spot<'_>> {
        self.index
            .find(key.hash, |at| self.spot(at).filter(|spot| spot.ledger.is_of(key.fingerprint)))
    }

    /// Reads ahead what is kept of a subject, so that several can be waited for at once: nearly
    /// always the right one, and nothing depends on it.
    #[inline(always)]
    pub(crate) fn read_ahead(&self, key: &Key, regional: bool) {
        let ledger = self.index.find_first(key.hash).and_then(|at| self.ledgers.get(at));
        if let Some(ledger) = ledger {
            ledger.read_ahead(regional);
        }
    }

    /// [`Shard::find`], unless another subject has the same tag and comes first: the front of the
    /// ledger, and its era.
    #[inline(always)]
    pub(crate) fn find_first(&self, key: &Key) -> Option<(&Front, u64)> {
        let front = self.ledgers.front(self.index.find_first(key.hash)?)?;
        let era = front.era();
        (is_in_use(era) && front.is_of(key.fingerprint)).then_some((front, era))
    }

    /// Finds the ledger of a subject if it has one, with the lock if need be.
    pub(crate) fn find_surely(&self, key: &Key) -> Option<Spot<'_>> {
        self.find(key).or_else(|| self.find_locked(key))
    }

    /// Finds the ledger of a subject while nothing moves.
    pub(crate) fn find_locked(&self, key: &Key) -> Option<Spot<'_>> {
        let _structure = self.lock();
        self.find(key)
    }

    /// The ledger at `at`, if it is in use.
    #[inline]
    pub(crate) fn spot(&self, at: u32) -> Option<Spot<'_>> {
        let ledger = self.ledgers.get(at)?;
        let era = ledger.era();
        is_in_use(era).then_some(Spot { ledger, era, shard: self.number, at })
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
        let mut structure = self.lock();
        let spot = self.find(newcomer.key);
        then(spot.or_else(|| self.found(newcomer, &mut structure, counters, now)))
    }

    fn found<'a>(
        &'a self,
        newcomer: &Newcomer<'_>,
        structure: &mut Structure,
        counters: &Counters,
        now: Now,
    ) -> Option<Spot<'a>> {
        let owner = newcomer.owner();
        let alone =
            |ledger: &Ledger<'_>| !newcomer.company.iter().any(|spot| spot.ledger.is_same(ledger));
        let stranger = |at| self.ledgers.get(at).filter(alone);
        let at = match structure.vacancy(owner, now, stranger) {
            Vacancy::Free(at) => at,
            Vacancy::Evict(at, expired) => {
                self.remove(at, structure);
                counters.mine().count(|all| match expired {
                    true => &all.subjects_expired,
                    false => &all.subjects_evicted,
                });
                structure.take_free()?
            }
            Vacancy::None => return None,
        };
        let ledger = self.ledgers.get_or_new(at)?;
        let era = ledger.found(&newcomer.founding(structure.life()), now);
        if let Some(restored) = newcomer.restored {
            restored.seat(ledger, era, now);
        }
        structure.join(at, owner);
        self.index.insert(at, structure.subjects_ever(), |at| self.hash_of(at));
        counters.mine().count(|all| &all.subjects_created);
        Some(Spot { ledger, era, shard: self.number, at })
    }

    /// Drops expired subjects among the next `step` ledgers, and gives the others what was saved
    /// of them.
    pub(crate) fn sweep(
        &self,
        step: usize,
        counters: &Counters,
        restored: Option<&Restored>,
        now: Now,
    ) -> usize {
        let mut structure = self.lock();
        structure.begin_sweep();
        let mut dropped = 0;
        for _ in 0..step.min(structure.subjects_ever()) {
            let next = structure.hand();
            if let Some(at) = structure.next_expired(now, |at| self.ledgers.get(at)) {
                self.remove(at, &mut structure);
                dropped += 1;
            } else if let (Some(restored), Some(spot)) = (restored, self.spot(next)) {
                restored.seat(spot.ledger, spot.era, now);
            }
        }
        counters.mine().count_many(|all| &all.subjects_expired, dropped as u64);
        dropped
    }

    /// Takes a ledger that was retired out of the index and the lists.
    fn remove(&self, at: u32, structure: &mut Structure) {
        self.index.remove(at, |at| self.hash_of(at));
        structure.leave(at);
    }

    /// The hash that a ledger is found by, even if it was just retired.
    fn hash_of(&self, at: u32) -> u64 {
        self.ledgers.get(at).map_or(0, |ledger| self.spread.hash(ledger.fingerprint()))
    }

    /// Ledgers that were ever used.
    pub(crate) fn subjects_ever(&self) -> usize {
        self.lock().subjects_ever()
    }

    /// Retires every ledger that nothing is claimed in; returns how many stay.
    pub(crate) fn forget_all(&self) -> usize {
        let mut structure = self.lock();
        structure.begin_sweep();
        for at in 0..u32::try_from(structure.subjects_ever()).unwrap_or(u32::MAX) {
            if self.spot(at).is_some_and(|spot| spot.ledger.retire(|| true)) {
                self.remove(at, &mut structure);
            }
        }
        structure.subjects()
    }

    pub(crate) fn subjects(&self) -> usize {
        self.lock().subjects()
    }

    /// Bytes of the shard itself and of all that it has allocated.
    pub(crate) fn accounted_bytes(&self) -> usize {
        let lists = self.lock().bytes();
        size_of::<Self>() + self.index.bytes() + self.ledgers.bytes() + lists
    }

    /// A panic cannot leave the structure half changed in a way that matters more than going on:
    /// the index and the ledgers are checked by whoever reads them.
    fn lock(&self) -> MutexGuard<'_, Structure> {
        self.structure.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
