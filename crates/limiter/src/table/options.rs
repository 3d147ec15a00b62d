//! How large a table may grow.

use std::fmt;
use std::sync::Arc;

use crate::key::FleetSecret;
use crate::ledger::Freshness;
use crate::planted::{self, Planted};
use crate::saved::SavedSubjects;

use super::Table;
use super::ledgers::{Ledgers, Rooms};
use super::region::Regional;
use super::restore::Restored;
use super::shard::Shard;

/// Whom to call when there is something to tell the region. Called by whoever admits: it must be
/// quick and must not block.
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// # use tidegate_limiter::*;
/// let calls = Arc::new(AtomicU32::new(0));
/// let counted = Arc::clone(&calls);
/// let wake = Wake::new(move || {
///     counted.fetch_add(1, Ordering::Relaxed);
/// });
/// let table = Table::new(Options::default().with_wake(wake), Seed::from_bytes([7; 32]));
/// # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
/// # let subject = Subject::new(part, part, part, window);
/// let request = Request::new(subject, Limit::new(9), Cost::ONE);
/// let now = Now::new(1_700_000_040_000, 0);
/// let _ = (table.decide(&request, now), table.decide(&request, now));
/// assert_eq!(calls.load(Ordering::Relaxed), 1, "once, until what is noted is taken");
/// # Ok::<(), tidegate_limiter::RequestError>(())
/// ```
#[derive(Clone)]
pub struct Wake(Arc<dyn Fn() + Send + Sync>);

impl Wake {
    /// Calls `wake`. The [type](Self) has an example.
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
///
/// ```
/// use tidegate_limiter::{FleetSecret, Freshness, Options};
///
/// let small = Options::default().with_budget_bytes(1 << 20);
/// assert!(small.subjects_max() > 1_000);
/// assert!(small.subjects_max() < Options::default().subjects_max());
///
/// // A member of a fleet that has a secret, in a region that is asked every second.
/// let secret = FleetSecret::from_bytes([1; 32]);
/// let fingerprint = secret.fingerprint();
/// let freshness = Freshness { fresh_ms: 1_000, ..Freshness::default() };
/// let member = small.with_region().with_freshness(freshness).with_fleet_secret(secret);
/// assert_eq!(member.secret_fingerprint(), fingerprint);
/// ```
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
    /// [noted](crate::Table::take_noted) subjects comes on top. The [type](Self) has an example.
    #[must_use]
    pub const fn with_budget_bytes(mut self, budget_bytes: usize) -> Self {
        self.budget_bytes = budget_bytes;
        self
    }

    /// Says that a regional store records what is admitted: cells that count and that it has not
    /// recorded yet are then never evicted (those that have expired are dropped all the same), and
    /// [`Table::take_noted`](crate::Table::take_noted) says which they are. The [type](Self) has an
    /// example.
    #[must_use]
    pub fn with_region(mut self) -> Self {
        self.region.get_or_insert_with(|| (Freshness::default(), Wake::new(|| {})));
        self
    }

    /// As [`with_region`](Self::with_region), with another idea of what is fresh. The [type](Self)
    /// has an example.
    #[must_use]
    pub fn with_freshness(self, freshness: Freshness) -> Self {
        let mut options = self.with_region();
        options.region = options.region.map(|(_, wake)| (freshness, wake));
        options
    }

    /// As [`with_region`](Self::with_region), and calls `wake` when there is something to tell.
    /// [`Wake`] has an example.
    #[must_use]
    pub fn with_wake(self, wake: Wake) -> Self {
        let mut options = self.with_region();
        options.region = options.region.map(|(freshness, _)| (freshness, wake));
        options
    }

    /// Says that the region is this process and nobody else: what it admits it need not ask for.
    ///
    /// ```
    /// # use tidegate_limiter::*;
    /// # let window = Window::from_millis(60_000)?;
    /// # let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// # let request = Request::new(subject, Limit::new(5), Cost::ONE);
    /// let options = Options::default().with_region().with_nobody_else();
    /// let table = Table::new(options, Seed::from_bytes([7; 32]));
    /// let request = request.with_consistency(Consistency::Bounded);
    /// let answer = table.decide(&request, Now::new(1_700_000_040_000, 0));
    /// assert_eq!(answer.consistency(), Consistency::Bounded);
    /// # Ok::<(), RequestError>(())
    /// ```
    #[must_use]
    pub const fn with_nobody_else(mut self) -> Self {
        self.alone = true;
        self
    }

    /// The secret of the fleet, for the names of subjects outside this process.
    ///
    /// The [type](Self) has an example.
    #[must_use]
    pub const fn with_fleet_secret(mut self, secret: FleetSecret) -> Self {
        self.secret = secret;
        self
    }

    /// Which secret that is: see [`FleetSecret::fingerprint`]. The [type](Self) has an example.
    #[must_use]
    pub fn secret_fingerprint(&self) -> [u8; 16] {
        self.secret.fingerprint()
    }

    /// What an earlier life of this process saved: its subjects begin with that when they come
    /// back. Not for a process whose regional store remembers it. Until all of it has expired it
    /// is kept on top of the budget, 48 bytes for each subject.
    ///
    /// ```
    /// # use tidegate_limiter::*;
    /// # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
    /// # let subject = Subject::new(part, part, part, window);
    /// let request = Request::new(subject, Limit::new(9), Cost::new(4)?);
    /// let now = Now::new(28_333_334 * 60_000, 0);
    /// let first_life = Table::new(Options::default(), Seed::from_bytes([7; 32]));
    /// let _ = first_life.decide(&request, now);
    /// let mut saved = Vec::new();
    /// first_life.walk(&mut Walk::default(), 1_000, |ticket| {
    ///     saved.extend(first_life.to_save(ticket, now));
    /// });
    ///
    /// let options = Options::default().with_saved(SavedSubjects::new(saved));
    /// let second_life = Table::new(options, Seed::from_bytes([8; 32]));
    /// let digest = second_life.digest_of(&subject);
    /// assert_eq!(second_life.restored(digest, 28_333_334, now), 4);
    /// assert_eq!(second_life.all_restored(now).map(|all| all.as_slice().len()), Some(1));
    /// assert_eq!(second_life.decide(&request, now).remaining(), 1, "4 + 4 of 9");
    /// # Ok::<(), tidegate_limiter::RequestError>(())
    /// ```
    #[must_use]
    pub fn with_saved(mut self, saved: SavedSubjects) -> Self {
        self.saved = Some(saved);
        self
    }

    /// How many subjects the budget holds. The [type](Self) has an example.
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
    fn shards_bytes(&self) -> usize {
        // At most as many ledgers as if they were all there is.
        let beside = Rooms::bytes_beside_many(self.budget_bytes / Ledgers::bytes_max(1));
        let bytes = self.budget_bytes.saturating_sub(size_of::<Table>() + beside);
        if planted::is(Planted::TwiceTheBudget) { 2 * bytes } else { bytes }
    }
}
