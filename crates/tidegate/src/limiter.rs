//! The limiter: a table, a clock, and how to build one.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;
use tidegate_limiter::{
    Answer, Batch, BatchAnswer, Counts, FleetSecret, Now, Options, Request, Seed, Table,
};

use crate::clock::{Clock, SystemClock};
use crate::saved::Saved;

mod explain;
#[cfg(feature = "region")]
mod region;
mod save;

pub use explain::Inspection;
pub use save::{SavedCounts, Saving};

#[cfg(test)]
mod tests;

/// Decides requests in memory. Share it by reference, or in an [`Arc`]: every method takes `&self`
/// and none blocks. The [crate](crate) begins with an example.
pub struct Limiter {
    table: Arc<Table>,
    subjects_max: usize,
    clock: Arc<dyn Clock>,
    /// Under which other regions know this process, if it is a region of its own or was one when
    /// the counts were saved that it began with.
    identity: Option<u128>,
    #[cfg(feature = "region")]
    region: Option<crate::region::Conversation>,
}

impl Limiter {
    /// A limiter with other than the default budget, clock or seed.
    ///
    /// ```
    /// let limiter = tidegate::Limiter::builder().memory_budget_bytes(64 << 20).build()?;
    /// assert_eq!(limiter.subjects(), 0);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn builder() -> Builder {
        Builder {
            options: Options::default(),
            clock: None,
            seed: None,
            saved: None,
            #[cfg(feature = "region")]
            shared: region::Choice::default(),
        }
    }

    /// Decides one request on what this process knows, and spends its cost if it is admitted. Waits
    /// for nobody: a process on its own needs nothing else, one in a region has `check`.
    ///
    /// ```
    /// use tidegate::{Cost, Limit, Limiter, Part, Request, Subject, Window};
    ///
    /// let limiter = Limiter::builder().build()?;
    /// let window = Window::from_millis(60_000)?;
    /// let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    ///
    /// let answer = limiter.check_now(&Request::new(subject, Limit::new(5), Cost::new(6)?));
    /// assert!(!answer.admitted());
    /// assert_eq!(answer.retry_after_ms(), None, "6 never fit under 5");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_now(&self, request: &Request<'_>) -> Answer {
        let now = self.clock.now(); // one reading, used throughout
        self.table.decide(request, now) // local memory, one look-up
    }

    /// Decides several requests as one, on what this process knows: all are admitted, or none is.
    ///
    /// ```
    /// use tidegate::{Batch, Cost, Limit, Limiter, Part, Request, Subject, Window};
    ///
    /// let limiter = Limiter::builder().build()?;
    /// let (workspace, window) = (Part::new("acme")?, Window::from_millis(60_000)?);
    /// let ask = |namespace, limit| {
    ///     let subject = Subject::new(workspace, namespace, Part::new("user-1")?, window);
    ///     Ok::<_, tidegate::RequestError>(Request::new(subject, Limit::new(limit), Cost::ONE))
    /// };
    /// let both = [ask(Part::new("email")?, 10)?, ask(Part::new("sms")?, 0)?];
    ///
    /// let answer = limiter.check_all_now(&Batch::new(&both)?);
    /// assert!(!answer.admitted(), "a limit of 0 denies, and with it the batch");
    /// assert!(answer.items()[0].admitted(), "this one alone would have fitted");
    /// assert_eq!(answer.items()[0].remaining(), 10, "and nothing was spent");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn check_all_now(&self, batch: &Batch<'_>) -> BatchAnswer {
        let now = self.clock.now();
        self.table.decide_all(batch, now)
    }

    /// Takes one bounded step of giving back the memory of expired subjects, and says how many
    /// it forgot. Call it now and then, say ten times a second; checks make room themselves when
    /// they must, so nothing breaks without it.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::builder().build()?;
    /// assert_eq!(limiter.sweep(), 0);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn sweep(&self) -> usize {
        self.table.sweep(self.clock.now())
    }

    /// What happened since the start.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::builder().build()?;
    /// assert_eq!(limiter.counts().admitted_local, 0);
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.table.counts()
    }

    /// How many subjects are in memory; see [`subjects_max`](Self::subjects_max).
    #[must_use]
    pub fn subjects(&self) -> usize {
        self.table.subjects()
    }

    /// The most that were there at a time: what [`sweep`](Self::sweep) goes over; see
    /// [`subjects_max`](Self::subjects_max).
    #[must_use]
    pub fn subjects_ever(&self) -> usize {
        self.table.subjects_ever()
    }

    /// How many subjects the memory budget holds.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::builder().build()?;
    /// assert!(limiter.subjects() == 0 && limiter.subjects_max() > 700_000);
    /// assert_eq!(limiter.subjects_ever(), 0);
    /// assert!(limiter.accounted_bytes() < 256 << 20, "the budget");
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    #[must_use]
    pub const fn subjects_max(&self) -> usize {
        self.subjects_max
    }

    /// How much of the memory budget is used; see [`subjects_max`](Self::subjects_max).
    #[must_use]
    pub fn accounted_bytes(&self) -> usize {
        self.table.accounted_bytes()
    }
}

/// For those who keep a limiter in something of theirs.
impl AsRef<Limiter> for Limiter {
    fn as_ref(&self) -> &Limiter {
        self
    }
}

impl fmt::Debug for Limiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Subjects carry names of users; they do not belong into a log.
        f.debug_struct("Limiter").field("subjects", &self.subjects()).finish_non_exhaustive()
    }
}

/// Why a limiter could not be built.
///
/// ```
/// # #[cfg(feature = "region")] {
/// use tidegate::{BuildError, Limiter, MemoryStore};
///
/// // There is no tokio runtime here.
/// let built = Limiter::builder().region(MemoryStore::new(1, || 0)).build();
/// assert!(matches!(built, Err(BuildError::Runtime)));
/// # }
/// ```
#[derive(Clone, Copy, Debug, Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The map of subjects is seeded at random, so that nobody can choose identifiers that
    /// collide. Give a [`seed`](Builder::seed) where the system has none to offer.
    #[error("the operating system gave no random seed")]
    Seed(#[source] getrandom::Error),
    /// A limiter that shares its limits speaks with others in the background.
    #[error("a limiter with a regional or a global store has to be built inside a tokio runtime")]
    Runtime,
    /// The saved counts would be those of nobody.
    #[error("the saved counts were written with another fleet secret")]
    SavedWithOtherSecret,
}

/// Collects what a [`Limiter`] is built from.
///
/// ```
/// use tidegate::{Limiter, ManualClock};
///
/// // Repeats exactly: no system time, no system randomness.
/// let limiter = Limiter::builder()
///     .memory_budget_bytes(16 << 20)
///     .clock(ManualClock::at_unix_ms(1_700_000_000_000))
///     .seed([7; 32])
///     .build()?;
/// # let _ = limiter;
/// # Ok::<(), tidegate::BuildError>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
pub struct Builder {
    options: Options,
    clock: Option<Arc<dyn Clock>>,
    seed: Option<[u8; 32]>,
    saved: Option<Saved>,
    #[cfg(feature = "region")]
    shared: region::Choice,
}

impl Builder {
    /// How many bytes the subjects may use, 256 MiB unless said otherwise. When they are used
    /// up, expired subjects go first, then the least used. The [type](Self) has an example.
    pub fn memory_budget_bytes(mut self, bytes: usize) -> Self {
        self.options = self.options.with_budget_bytes(bytes);
        self
    }

    /// Where time comes from: [`SystemClock`] unless said otherwise. The [type](Self) has an
    /// example.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Replaces the random seed of the operating system. For runs that must repeat; a seed that
    /// others can guess lets them slow the limiter down. The [type](Self) has an example.
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// A secret that all processes of all regions share, so that nobody else can compute under
    /// which names they keep subjects in the stores. It must be the same in all of them.
    ///
    /// ```
    /// let secret: [u8; 32] = *b"not a good one, but long enough!";
    /// let limiter = tidegate::Limiter::builder().fleet_secret(secret).build()?;
    /// # let _ = limiter;
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    pub fn fleet_secret(mut self, secret: [u8; 32]) -> Self {
        self.options = self.options.with_fleet_secret(FleetSecret::from_bytes(secret));
        self
    }

    /// Begins with what an earlier life of this process saved; [`Saved`] has an example. A limiter
    /// with a regional store does without: the store remembers.
    pub fn restore(mut self, saved: Saved) -> Self {
        self.saved = Some(saved);
        self
    }

    /// Builds the limiter. The [type](Self) has an example.
    ///
    /// # Errors
    /// [`BuildError::Seed`] if no seed was given and the operating system has none;
    /// [`BuildError::Runtime`] if a store was given and there is no tokio runtime for it;
    /// [`BuildError::SavedWithOtherSecret`] if the saved counts are not of this fleet.
    pub fn build(mut self) -> Result<Limiter, BuildError> {
        let seed = match self.seed {
            Some(seed) => seed,
            None => random_seed()?,
        };
        let clock = self.clock.take().unwrap_or_else(|| Arc::new(SystemClock::new()));
        let subjects_max = self.options.subjects_max();
        let identity = self.take_saved(clock.now())?;
        #[cfg(feature = "region")]
        if self.shared.is_any() {
            let (options, seed) = (self.options, Seed::from_bytes(seed));
            let (table, region) = self.shared.start(options, seed, &clock, identity)?;
            let identity = region.private_identity();
            return Ok(Limiter { table, subjects_max, clock, identity, region: Some(region) });
        }
        Ok(Limiter {
            table: Arc::new(Table::new(self.options, Seed::from_bytes(seed))),
            subjects_max,
            clock,
            identity,
            #[cfg(feature = "region")]
            region: None,
        })
    }

    /// Lets the table begin with what was saved, and says who the process was then.
    fn take_saved(&mut self, now: Now) -> Result<Option<u128>, BuildError> {
        #[cfg(feature = "region")]
        if self.shared.remembers() {
            return Ok(None);
        }
        let Some(saved) = self.saved.take() else { return Ok(None) };
        if saved.fingerprint != self.options.secret_fingerprint() {
            return Err(BuildError::SavedWithOtherSecret);
        }
        self.options = self.options.clone().with_saved(saved.subjects.live(now));
        Ok(saved.identity)
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The seed stays unsaid: whoever knows it can choose identifiers that collide.
        f.debug_struct("Builder").field("options", &self.options).finish_non_exhaustive()
    }
}

fn random_seed() -> Result<[u8; 32], BuildError> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(BuildError::Seed)?;
    Ok(seed)
}
