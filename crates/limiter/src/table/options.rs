//! How large a table may grow.

use crate::key::FleetSecret;

use super::shard::Shard;

/// Largest number of shards. Only coming and going locks one, so a few are enough; what a look-up
/// reads of each on its way stays in the nearest cache.
const SHARDS_MAX: usize = 16;
/// A shard smaller than this would fill up by chance before its neighbours.
const SHARD_SUBJECTS_MIN: usize = 4_096;

/// What a [`Table`](crate::Table) is made with.
#[derive(Clone, Debug)]
pub struct Options {
    budget_bytes: usize,
    regional: bool,
    secret: FleetSecret,
}

impl Default for Options {
    /// 256 MiB, one process.
    fn default() -> Self {
        Self { budget_bytes: 256 << 20, regional: false, secret: FleetSecret::default() }
    }
}

impl Options {
    /// The most bytes the table may allocate. A budget too small for one subject is raised to
    /// what one subject needs.
    #[must_use]
    pub const fn with_budget_bytes(mut self, budget_bytes: usize) -> Self {
        self.budget_bytes = budget_bytes;
        self
    }

    /// Says that a regional store records what is admitted: cells that it has not recorded yet
    /// are then never evicted.
    #[must_use]
    pub const fn with_region(mut self) -> Self {
        self.regional = true;
        self
    }

    /// The secret of the fleet, for the names of subjects outside this process.
    #[must_use]
    pub const fn with_fleet_secret(mut self, secret: FleetSecret) -> Self {
        self.secret = secret;
        self
    }

    /// How many subjects the budget holds.
    #[must_use]
    pub fn subjects_max(&self) -> usize {
        self.shards() * self.shard_subjects_max()
    }

    pub(crate) const fn is_regional(&self) -> bool {
        self.regional
    }

    pub(crate) fn into_fleet_secret(self) -> FleetSecret {
        self.secret
    }

    pub(crate) fn shards(&self) -> usize {
        let subjects = Shard::subjects_in(self.budget_bytes);
        let shards = (subjects / SHARD_SUBJECTS_MIN).clamp(1, SHARDS_MAX);
        // The largest power of two that is not larger.
        1 << shards.ilog2()
    }

    pub(crate) fn shard_subjects_max(&self) -> usize {
        Shard::subjects_in(self.budget_bytes / self.shards())
    }
}
