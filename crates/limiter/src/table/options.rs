//! How large a table may grow.

use std::fmt;
use std::sync::Arc;

use crate::key::FleetSecret;
use crate::ledger::Freshness;
use crate::saved::SavedSubjects;

use super::Table;
use super::region::Regional;
use super::restore::Restored;
use super::shard::Shard;

/// Whom to call when there is something to tell the region. Called by whoever admits: it must be
/// quick and must not block.
#[derive(Clone)]
pub struct Wake(Arc<dyn Fn() + Send + Sync>);

impl Wake {
    /// Calls `wake`.
    pub fn new(wake: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Arc::new(wake))
    }

    pub(crate) fn wake(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Wake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wake(..)")
    }
}

/// Largest number of shards. Only coming and going locks one, so a few are enough; what a look-up
/// reads of each on its way stays in the nearest cache.
const SHARDS_MAX: usize = 16;
/// A shard smaller than this would fill up by chance before its neighbours.
const SHARD_SUBJECTS_MIN: usize = 4_096;

/// What a [`Table`](crate::Table) is made with.
#[derive(Clone, Debug)]
pub struct Options {
    budget_bytes: usize,
    region: Option<(Freshness, Wake)>,
    alone: bool,
    secret: FleetSecret,
    saved: Option<SavedSubjects>,
}

/// What a table is made of besides its shards.
pub(crate) struct Parts {
    pub(crate) secret: FleetSecret,
    pub(crate) regional: Option<Regional>,
    pub(crate) restored: Option<Restored>,
}

impl Default for Options {
    /// 256 MiB, one process.
    fn default() -> Self {
        let secret = FleetSecret::default();
        Self { budget_bytes: 256 << 20, region: None, alone: false, secret, saved: None }
    }
}

impl Options {
    /// The most bytes the table may take, itself and what it allocates for its subjects. A budget
    /// too small for one subject is raised to what one subject needs. In a region, the list of
    /// [noted](crate::Table::take_noted) subjects comes on top.
    #[must_use]
    pub const fn with_budget_bytes(mut self, budget_bytes: usize) -> Self {
        self.budget_bytes = budget_bytes;
        self
    }

    /// Says that a regional store records what is admitted: cells that count and that it has not
    /// recorded yet are then never evicted (those that have expired are dropped all the same), and
    /// [`Table::take_noted`](crate::Table::take_noted) says which they are.
    #[must_use]
    pub fn with_region(mut self) -> Self {
        self.region.get_or_insert_with(|| (Freshness::default(), Wake::new(|| {})));
        self
    }

    /// As [`with_region`](Self::with_region), with another idea of what is fresh.
    #[must_use]
    pub fn with_freshness(self, freshness: Freshness) -> Self {
        let mut options = self.with_region();
        options.region = options.region.map(|(_, wake)| (freshness, wake));
        options
    }

    /// As [`with_region`](Self::with_region), and calls `wake` when there is something to tell.
    #[must_use]
    pub fn with_wake(self, wake: Wake) -> Self {
        let mut options = self.with_region();
        options.region = options.region.map(|(freshness, _)| (freshness, wake));
        options
    }

    /// Says that the region is this process and nobody else: what it admits it need not ask for.
    #[must_use]
    pub const fn with_nobody_else(mut self) -> Self {
        self.alone = true;
        self
    }

    /// The secret of the fleet, for the names of subjects outside this process.
    #[must_use]
    pub const fn with_fleet_secret(mut self, secret: FleetSecret) -> Self {
        self.secret = secret;
        self
    }

    /// Which secret that is: see [`FleetSecret::fingerprint`].
    #[must_use]
    pub fn secret_fingerprint(&self) -> [u8; 16] {
        self.secret.fingerprint()
    }

    /// What an earlier life of this process saved: its subjects begin with that when they come
    /// back. Not for a process whose regional store remembers it. Until all of it has expired it
    /// is kept on top of the budget, 48 bytes for each subject.
    #[must_use]
    pub fn with_saved(mut self, saved: SavedSubjects) -> Self {
        self.saved = Some(saved);
        self
    }

    /// How many subjects the budget holds.
    #[must_use]
    pub fn subjects_max(&self) -> usize {
        usize::from(self.shards()) * self.shard_subjects_max()
    }

    pub(crate) const fn is_regional(&self) -> bool {
        self.region.is_some()
    }

    pub(crate) fn into_parts(self) -> Parts {
        let regional =
            self.region.map(|(freshness, wake)| Regional::new(freshness, wake, self.alone));
        let saved = self.saved.filter(|saved| !saved.as_slice().is_empty());
        Parts { secret: self.secret, regional, restored: saved.map(Restored::new) }
    }

    pub(crate) fn shards(&self) -> u16 {
        let subjects = Shard::subjects_in(self.shards_bytes());
        let shards = (subjects / SHARD_SUBJECTS_MIN).clamp(1, SHARDS_MAX);
        // The largest power of two that is not larger.
        1 << shards.ilog2()
    }

    pub(crate) fn shard_subjects_max(&self) -> usize {
        Shard::subjects_in(self.shards_bytes() / usize::from(self.shards()))
    }

    /// What is left for the shards.
    const fn shards_bytes(&self) -> usize {
        self.budget_bytes.saturating_sub(size_of::<Table>())
    }
}
