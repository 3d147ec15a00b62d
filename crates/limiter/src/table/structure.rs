//! Who holds which ledger, and who has to give one up.
//!
//! Everything here is behind the shard's lock and is touched only when a subject comes or goes.
//!
//! When a shard is full, a newcomer gets the ledger of
//!
//! 1. a subject that has expired; or else
//! 2. if its workspace holds its share or more: the least used subject of that workspace, but none
//!    above half of its limit, so that a flood of identifiers pushes out its own kind only, and
//!    nothing that matters; or else
//! 3. the least used subject of a workspace that holds more than its share, whatever its use: a
//!    quiet workspace must not be refused because a loud one exhausts all its limits.
//!
//! Never one that something is claimed in, or that the regional store has not recorded yet. No
//! workspace may take the last sixteenth of the ledgers from the others. If nothing is left, there
//! is no room, and the answer says so.

use std::collections::BTreeMap;

use crate::ledger::{Ledger, is_in_use};
use crate::time::Now;

use super::index::LEDGERS_MAX;

/// Ledgers looked at to find an expired one when the shard is full.
const EXPIRED_LOOKS: usize = 16;
/// Ledgers looked at to find the least used one: a sample, so that a full table stays quick.
const LEAST_USED_LOOKS: usize = 32;
/// Above this share of its limit, in 1/1024, a subject is never evicted to make room.
const USE_SHARE_MAX: u64 = 512;
/// One part in this many of a shard is never given to a workspace that has all the rest.
const LAST_SHARE: usize = 16;
/// The largest number of a life: the bit above says that the clock jumped.
const LIFE_MAX: u32 = (1 << 31) - 1;
/// Links allocated at a time.
const GROWTH: usize = 1_024;

/// A ledger's place among those of its workspace: a ring, so that any of them is a beginning.
#[derive(Clone, Copy, Debug)]
struct Link {
    owner: u64,
    before: u32,
    after: u32,
}

/// What a workspace holds in this shard.
#[derive(Clone, Copy, Debug)]
struct Account {
    held: u32,
    /// Where the next search for a victim begins.
    hand: u32,
}

/// Where a newcomer goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Vacancy {
    /// A ledger that nobody uses.
    Free(u32),
    /// A ledger that was just retired, and whether its subject had expired. It must
    /// [`leave`](Structure::leave) before it is free.
    Evict(u32, bool),
    /// No room for this workspace.
    None,
}

#[derive(Debug)]
pub(crate) struct Structure {
    subjects_max: usize,
    regional: bool,
    /// Ledgers that were used before and are free again.
    free: Vec<u32>,
    /// One for each ledger that was ever used.
    links: Vec<Link>,
    accounts: BTreeMap<u64, Account>,
    /// Where the sweep is.
    hand: u32,
    /// The workspace that held most when one was last looked for.
    loud: u64,
    /// Wraps after 2^31 sweeps: no cell lives that long.
    life: u32,
}

impl Structure {
    pub(crate) fn new(subjects_max: usize, regional: bool) -> Self {
        Self {
            subjects_max: subjects_max.min(LEDGERS_MAX),
            regional,
            free: Vec::new(),
            links: Vec::new(),
            accounts: BTreeMap::new(),
            hand: 0,
            loud: 0,
            life: 0,
        }
    }

    /// The most that [`bytes`](Self::bytes) can be for that many subjects. The list of free
    /// ledgers doubles when it grows; each subject may belong to a workspace of its own.
    pub(crate) fn bytes_max(subjects: usize) -> usize {
        subjects * (size_of::<Link>() + 2 * size_of::<u32>() + account_bytes()) + 64
    }

    /// Bytes allocated here. A node of the tree holds up to eleven accounts and is at least about
    /// half full.
    pub(crate) fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
            + self.free.capacity() * size_of::<u32>()
            + self.accounts.len() * account_bytes()
    }

    pub(crate) fn subjects(&self) -> usize {
        self.links.len() - self.free.len()
    }

    /// Ledgers that were ever used.
    pub(crate) fn subjects_ever(&self) -> usize {
        self.links.len()
    }

    /// The number of this eviction sweep.
    pub(crate) fn life(&self) -> u32 {
        self.life
    }

    /// A sweep that drops subjects begins: those that come back later are new components.
    pub(crate) fn begin_sweep(&mut self) {
        self.life = self.life.wrapping_add(1) & LIFE_MAX;
    }

    /// Finds room for a newcomer of workspace `owner`.
    pub(crate) fn vacancy<'a>(
        &mut self,
        owner: u64,
        now: Now,
        ledger: impl Fn(u32) -> Option<Ledger<'a>> + Copy,
    ) -> Vacancy {
        let held = self.accounts.get(&owner).map_or(0, |account| account.held as usize);
        let last = self.subjects_max / LAST_SHARE;
        if held < self.subjects_max - last
            && let Some(at) = self.take_free()
        {
            return Vacancy::Free(at);
        }
        self.begin_sweep();
        for _ in 0..EXPIRED_LOOKS.min(self.links.len()) {
            if let Some(at) = self.next_expired(now, ledger) {
                return Vacancy::Evict(at, true);
            }
        }
        let workspaces = self.accounts.len() + usize::from(held == 0);
        let share = (self.subjects_max / workspaces).clamp(1, self.subjects_max - last);
        let victim = if held >= share {
            self.least_used_of(owner, USE_SHARE_MAX, now, ledger)
        } else {
            let loud = self.loudest().filter(|(_, held)| *held > share);
            loud.and_then(|(loud, _)| self.least_used_of(loud, u64::MAX, now, ledger))
        };
        victim.map_or(Vacancy::None, |(at, expired)| Vacancy::Evict(at, expired))
    }

    /// The workspace that holds most: the one that was seen to, or one of those that hold the next
    /// few ledgers, which are more likely the more they hold.
    fn loudest(&mut self) -> Option<(u64, usize)> {
        let ever = u32::try_from(self.links.len()).ok()?.max(1);
        let mut candidates = vec![self.loud];
        for _ in 0..LEAST_USED_LOOKS.min(self.links.len()) {
            self.hand = (self.hand + 1) % ever;
            candidates.extend(self.link(self.hand).map(|link| link.owner));
        }
        let held = |owner: u64| Some((owner, self.accounts.get(&owner)?.held as usize));
        let loudest = candidates.into_iter().filter_map(held).max_by_key(|(_, held)| *held)?;
        self.loud = loudest.0;
        Some(loudest)
    }

    /// A ledger that is free, or that was never used.
    pub(crate) fn take_free(&mut self) -> Option<u32> {
        let unused = || (self.links.len() < self.subjects_max).then_some(self.links.len());
        self.free.pop().or_else(|| unused().and_then(|at| u32::try_from(at).ok()))
    }

    /// The ledger at `at` now belongs to a subject of `owner`.
    pub(crate) fn join(&mut self, at: u32, owner: u64) {
        let alone = Link { owner, before: at, after: at };
        match self.links.get_mut(at as usize) {
            Some(link) => *link = alone,
            None => {
                if self.links.len() == self.links.capacity() {
                    // By steps, not by doubling: the lists of a large table are not small.
                    let rest = self.subjects_max - self.links.len();
                    self.links.reserve_exact(GROWTH.min(rest));
                }
                self.links.push(alone);
            }
        }
        let account = self.accounts.entry(owner).or_insert(Account { held: 0, hand: at });
        account.held += 1;
        let after = account.hand;
        if after != at {
            let before = self.link(after).map_or(at, |link| link.before);
            self.set_neighbours(before, at, after);
        }
    }

    /// The ledger at `at` was retired: it is free now.
    pub(crate) fn leave(&mut self, at: u32) {
        let Some(link) = self.link(at) else { return };
        if let Some(before) = self.links.get_mut(link.before as usize) {
            before.after = link.after;
        }
        if let Some(after) = self.links.get_mut(link.after as usize) {
            after.before = link.before;
        }
        if let Some(account) = self.accounts.get_mut(&link.owner) {
            account.held -= 1;
            account.hand = link.after;
            if account.held == 0 {
                self.accounts.remove(&link.owner);
            }
        }
        self.free.push(at);
    }

    /// The next ledger of the sweep.
    pub(crate) const fn hand(&self) -> u32 {
        self.hand
    }

    /// Looks at the next ledger of the sweep and retires it if its subject has expired.
    pub(crate) fn next_expired<'a>(
        &mut self,
        now: Now,
        ledger: impl Fn(u32) -> Option<Ledger<'a>>,
    ) -> Option<u32> {
        let at = self.hand;
        let next = self.hand + 1;
        self.hand = if (next as usize) < self.links.len() { next } else { 0 };
        // First by a glance, which is enough for nearly all.
        let ledger =
            ledger(at).filter(|ledger| is_in_use(ledger.era()) && ledger.is_expired(now))?;
        ledger.retire(|| ledger.is_expired(now)).then_some(at)
    }

    /// Retires the least used subject among the next few of a workspace, of those the longest idle
    /// one, if it does not use more than `use_share_max` of its limit; or one that has expired, and
    /// says so.
    fn least_used_of<'a>(
        &mut self,
        owner: u64,
        use_share_max: u64,
        now: Now,
        ledger: impl Fn(u32) -> Option<Ledger<'a>>,
    ) -> Option<(u32, bool)> {
        let account = self.accounts.get(&owner)?;
        let regional = self.regional;
        let may = |ledger: &Ledger<'_>| {
            let standing = ledger.standing(now, regional);
            let little = !standing.dirty && standing.use_share <= use_share_max;
            (standing.expired || little).then_some(standing)
        };
        let (mut at, mut candidates) = (account.hand, Vec::with_capacity(LEAST_USED_LOOKS));
        for _ in 0..LEAST_USED_LOOKS.min(account.held as usize) {
            if let Some(ledger) = ledger(at)
                && let Some(standing) = may(&ledger)
            {
                let idle = std::cmp::Reverse(standing.idle_ms);
                let rank = (!standing.expired, standing.use_share, idle);
                candidates.push((rank, at, ledger));
            }
            at = self.link(at)?.after;
        }
        if let Some(account) = self.accounts.get_mut(&owner) {
            account.hand = at;
        }
        candidates.sort_by_key(|(rank, ..)| *rank);
        let ((lives, ..), at, _) =
            candidates.iter().find(|(_, _, ledger)| ledger.retire(|| may(ledger).is_some()))?;
        Some((*at, !lives))
    }

    fn link(&self, at: u32) -> Option<Link> {
        self.links.get(at as usize).copied()
    }

    /// Puts `at` between two neighbours.
    fn set_neighbours(&mut self, before: u32, at: u32, after: u32) {
        if let Some(link) = self.links.get_mut(before as usize) {
            link.after = at;
        }
        if let Some(link) = self.links.get_mut(after as usize) {
            link.before = at;
        }
        if let Some(link) = self.links.get_mut(at as usize) {
            (link.before, link.after) = (before, after);
        }
    }
}

/// What an account costs in a tree whose nodes are half full.
const fn account_bytes() -> usize {
    2 * (size_of::<u64>() + size_of::<Account>()) + 8
}
