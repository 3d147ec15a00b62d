//! A limiter that is one of several in its region.

use std::sync::Arc;
use std::time::Duration;

use tidegate_convergence::{
    GlobalStore, GlobeCounts, GlobeOptions, GlobeTuning, PrivateStore, RegionCounts, RegionName,
    RegionalStore, StoreError, Tuning,
};
use tidegate_limiter::{
    Answer, AskedFor, Batch, BatchAnswer, BatchDecision, Claimed, Decision, Now, Options, Reason,
    Request, Seed, Subject, Table, Ticket, Wake,
};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::{BuildError, Builder, Limiter};
use crate::clock::Clock;
use crate::region::{Abroad, Conversation, Drained, Heard, Patience, RegionView, draw_incarnation};

/// How many regions there are at most, unless it is said.
const REGIONS_MAX: u16 = 10;

/// Times a request looks again because what it waited for was older than it, or because others wait
/// for the room. Each takes a round trip or another thread that is about to end; the deadline ends
/// most before.
const LOOKS_MAX: usize = 64;

/// With whom a limiter shares its limits.
#[derive(Default)]
pub(super) struct Choice {
    region: Option<(Arc<dyn RegionalStore>, Tuning)>,
    globe: Option<(GlobeOptions, Arc<dyn GlobalStore>, GlobeTuning)>,
}

impl Choice {
    /// Whether there is anybody.
    pub(super) const fn is_any(&self) -> bool {
        self.region.is_some() || self.globe.is_some()
    }

    /// Whether a regional store remembers what was admitted.
    pub(super) const fn remembers(&self) -> bool {
        self.region.is_some()
    }

    /// Begins to share. `identity` is that of an earlier life, if there was one.
    pub(super) fn start(
        self,
        options: Options,
        seed: Seed,
        clock: &Arc<dyn Clock>,
        identity: Option<u128>,
    ) -> Result<(Arc<Table>, Conversation), BuildError> {
        let runtime = Handle::try_current().map_err(|_| BuildError::Runtime)?;
        let options = if self.remembers() { options } else { options.with_nobody_else() };
        let (stores, tuning) = self.stores(clock, identity);
        let wake = Arc::new(Notify::new());
        let noted = Arc::clone(&wake);
        let options = options
            .with_freshness(tuning.freshness)
            .with_wake(Wake::new(move || noted.notify_one()));
        let table = Arc::new(Table::new(options, seed));
        // Drawn here, in the process that uses it: a name that was kept could be used twice.
        let incarnation = draw_incarnation().map_err(BuildError::Seed)?;
        let (clock, identity) = (Arc::clone(clock), (tuning, incarnation));
        let region =
            Conversation::start(Arc::clone(&table), clock, stores, identity, (wake, runtime));
        Ok((table, region))
    }

    /// The stores. A process that speaks with other regions and has no region is one of its own.
    /// `identity` is that of an earlier life, if there was one.
    fn stores(
        self,
        clock: &Arc<dyn Clock>,
        identity: Option<u128>,
    ) -> ((Arc<dyn RegionalStore>, Option<Abroad>), Tuning) {
        let (regional, private, tuning) = match self.region {
            Some((store, tuning)) => (store, false, tuning),
            None => {
                let clock = Arc::clone(clock);
                let store = PrivateStore::new(move || clock.now().monotonic_ms());
                (Arc::new(store) as Arc<dyn RegionalStore>, true, Tuning::default())
            }
        };
        let abroad = self.globe.map(|(options, store, tuning)| {
            let options = GlobeOptions { private, ..options };
            Abroad { store, options, tuning, identity }
        });
        ((regional, abroad), tuning)
    }
}

impl Builder {
    /// Shares limits with the other processes of the region, through this store. Build the limiter
    /// inside a tokio runtime then.
    ///
    /// ```
    /// use tidegate::{Limiter, MemoryStore};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let limiter = Limiter::builder().region(MemoryStore::new(1, || 0)).build()?;
    /// assert!(limiter.region_counts().is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn region(self, store: impl RegionalStore + 'static) -> Self {
        self.region_tuned(Arc::new(store), Tuning::default())
    }

    /// The same as [`region`](Self::region) with other constants. For tests: the processes of a
    /// region have to agree on them.
    pub fn region_tuned(mut self, store: Arc<dyn RegionalStore>, tuning: Tuning) -> Self {
        self.shared.region = Some((store, tuning));
        self
    }

    /// Shares limits of a minute and longer with other regions, through this store. The name is
    /// that of the region this process is in: all its processes say the same, no other region
    /// does. Without a [`region`](Self::region) the process is one of its own.
    ///
    /// Build the limiter inside a tokio runtime. No check ever waits for this store. The modules
    /// `mysql` and `sqlite` have examples.
    pub fn globe(self, name: RegionName, store: impl GlobalStore + 'static) -> Self {
        let options = GlobeOptions { name, regions_max: REGIONS_MAX, private: false };
        self.globe_tuned(options, Arc::new(store), GlobeTuning::default())
    }

    /// The same as [`globe`](Self::globe) with more said: how many regions there are at most; and,
    /// for tests, other constants. All regions have to agree on both. Whether the region is
    /// `private` is known here.
    pub fn globe_tuned(
        mut self,
        options: GlobeOptions,
        store: Arc<dyn GlobalStore>,
        tuning: GlobeTuning,
    ) -> Self {
        self.shared.globe = Some((options, store, tuning));
        self
    }
}

impl Limiter {
    /// Decides one request, and spends its cost if it is admitted. Waits for the region only if it
    /// would be admitted on a view that is cold, stale or was at the limit a moment ago: one round
    /// trip, and no longer than 20 ms. A store that does not answer is not an error: the request
    /// is then decided on what is known, and the answer says so.
    ///
    /// A request of [`Consistency::Bounded`](crate::Consistency::Bounded) waits whenever more than
    /// a small share of the room would be admitted unrecorded: the region grants it then.
    ///
    /// A request of [`Outage::Deny`](crate::Outage::Deny) is denied where the region should have
    /// been asked and does not answer.
    ///
    /// ```
    /// use tidegate::{Cost, Limit, Limiter, MemoryStore, Part, Request, Subject, Window};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let limiter = Limiter::builder().region(MemoryStore::new(1, || 0)).build()?;
    /// let window = Window::from_millis(86_400_000)?;
    /// let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// let request = Request::new(subject, Limit::new(5), Cost::new(3)?);
    /// let answer = limiter.check(&request).await;
    /// assert!(answer.admitted());
    /// assert_eq!(answer.remaining(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn check(&self, request: &Request<'_>) -> Answer {
        let now = self.clock.now(); // one reading, used throughout
        let Some(region) = &self.region else { return self.table.decide(request, now) };
        // Local memory, one look-up: a denial, or an admission on a fresh view, is final here.
        match self.table.decide_or_refresh(request, now) {
            Decision::Answered(answer) => answer,
            // In a box: who waits for a network can wait for an allocation, and who does not has a
            // smaller state to carry.
            undecided => Box::pin(self.check_with(region, request, undecided, now)).await,
        }
    }

    /// Hears of the region first, or lets it grant, and decides with what is known by then.
    async fn check_with(
        &self,
        region: &Conversation,
        request: &Request<'_>,
        mut undecided: Decision,
        now: Now,
    ) -> Answer {
        let mut patience = region.patience();
        for _ in 0..LOOKS_MAX {
            let mut claimed = None;
            let heard = match undecided {
                Decision::Answered(answer) => return answer,
                Decision::Refresh(need) => region.refresh(&[need], &mut patience).await,
                Decision::Ask(asking) => {
                    claimed = asking.claimed().next();
                    region.ask(asking, &mut patience).await
                }
            };
            match self.read_first(region, heard, &mut patience).await {
                Heard::But(unheard) => {
                    return self.table.decide_refreshed(request, unheard.is_empty(), now);
                }
                Heard::Granted => {
                    return self.table.answer_asked(request, (AskedFor::Granted, claimed), now);
                }
                Heard::Unheard => {
                    return self.table.answer_asked(request, (AskedFor::Unheard, claimed), now);
                }
                Heard::LookAgain | Heard::Apart(_) | Heard::ReadFirst(_) => {
                    undecided = self.table.decide_or_refresh(request, now);
                }
            }
        }
        self.decide_unheard(undecided, request, now)
    }

    /// Reads what has to be read before it is asked for: whoever hears of it looks again.
    async fn read_first(
        &self,
        region: &Conversation,
        heard: Heard,
        patience: &mut Patience,
    ) -> Heard {
        let Heard::ReadFirst(needs) = heard else { return heard };
        match region.refresh(&needs, patience).await {
            Heard::But(unheard) if unheard.is_empty() => Heard::LookAgain,
            heard => heard,
        }
    }

    /// Looked so often that it is decided on what is known.
    fn decide_unheard(&self, undecided: Decision, request: &Request<'_>, now: Now) -> Answer {
        match undecided {
            Decision::Answered(answer) => answer,
            Decision::Refresh(_) => self.table.decide_refreshed(request, false, now),
            Decision::Ask(asking) => {
                let claimed = asking.claimed().next();
                self.table.end_unsent(asking);
                self.table.answer_asked(request, (AskedFor::Unheard, claimed), now)
            }
        }
    }

    /// Decides several requests as one: all are admitted, or none is. Everything that the region
    /// has to be asked about is asked in one round trip.
    ///
    /// ```
    /// use tidegate::{Batch, Cost, Limit, Limiter, MemoryStore, Part, Request, Subject, Window};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let limiter = Limiter::builder().region(MemoryStore::new(1, || 0)).build()?;
    /// let window = Window::from_millis(86_400_000)?;
    /// let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// let request = Request::new(subject, Limit::new(5), Cost::new(3)?);
    /// let twice = [request, request];
    /// let answer = limiter.check_all(&Batch::new(&twice)?).await;
    /// assert!(!answer.admitted(), "6 do not fit under 5");
    /// assert_eq!(limiter.check(&request).await.remaining(), 2, "and nothing was spent");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn check_all(&self, batch: &Batch<'_>) -> BatchAnswer {
        let now = self.clock.now();
        let Some(region) = &self.region else { return self.table.decide_all(batch, now) };
        match self.table.decide_all_or_refresh(batch, now) {
            BatchDecision::Answered(answer) => answer,
            undecided => Box::pin(self.check_all_with(region, batch, undecided, now)).await,
        }
    }

    /// The same as [`check_with`](Self::check_with), for a batch.
    async fn check_all_with(
        &self,
        region: &Conversation,
        batch: &Batch<'_>,
        mut undecided: BatchDecision,
        now: Now,
    ) -> BatchAnswer {
        let mut patience = region.patience();
        for _ in 0..LOOKS_MAX {
            let (mut claimed, reserved) = (Vec::new(), is_reserved(&undecided));
            let mut heard = match undecided {
                BatchDecision::Answered(answer) => return answer,
                BatchDecision::Refresh(needs) => region.refresh(&needs, &mut patience).await,
                BatchDecision::Ask(asking) => {
                    claimed = asking.claimed().collect();
                    region.ask(asking, &mut patience).await
                }
            };
            if let Heard::Apart(needs) = heard {
                // Nobody can grant all of it: it is decided on what is read.
                heard = region.refresh(&needs, &mut patience).await;
            }
            match self.read_first(region, heard, &mut patience).await {
                Heard::But(unheard) if reserved => {
                    return self.table.decide_all_waited(batch, &unheard, now);
                }
                Heard::But(unheard) => {
                    return self.table.decide_all_refreshed(batch, &unheard, now);
                }
                Heard::Granted => {
                    return self.table.answer_all_asked(batch, (AskedFor::Granted, &claimed), now);
                }
                Heard::Unheard => {
                    return self.table.answer_all_asked(batch, (AskedFor::Unheard, &claimed), now);
                }
                Heard::LookAgain | Heard::Apart(_) | Heard::ReadFirst(_) => {
                    undecided = self.table.decide_all_or_refresh(batch, now);
                }
            }
        }
        self.decide_all_unheard(undecided, batch, now)
    }

    fn decide_all_unheard(
        &self,
        undecided: BatchDecision,
        batch: &Batch<'_>,
        now: Now,
    ) -> BatchAnswer {
        let reserved = is_reserved(&undecided);
        match undecided {
            BatchDecision::Answered(answer) => answer,
            BatchDecision::Refresh(needs) => {
                let unheard: Vec<Ticket> = needs.iter().map(|need| need.subject).collect();
                match reserved {
                    true => self.table.decide_all_waited(batch, &unheard, now),
                    false => self.table.decide_all_refreshed(batch, &unheard, now),
                }
            }
            BatchDecision::Ask(asking) => {
                let claimed: Vec<Claimed> = asking.claimed().collect();
                self.table.end_unsent(asking);
                self.table.answer_all_asked(batch, (AskedFor::Unheard, &claimed), now)
            }
        }
    }

    /// Asks the regional store what it holds of a subject: one call, of a second at most, that
    /// records nothing. `None` if there is no regional store but this process.
    ///
    /// ```
    /// use tidegate::{Cost, Limit, Limiter, MemoryStore, Part, Request, Subject, Window};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let limiter = Limiter::builder().region(MemoryStore::new(1, || 0)).build()?;
    /// let window = Window::from_millis(86_400_000)?;
    /// let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// let _ = limiter.check(&Request::new(subject, Limit::new(5), Cost::new(3)?)).await;
    /// let drained = limiter.drain(std::time::Duration::from_secs(20)).await;
    /// assert_eq!(drained.unreplayed_cost, 0);
    ///
    /// let region = limiter.ask_region(&subject).await?.ok_or("there is one")?;
    /// assert_eq!((region.current.sum, region.current.components), (3, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError`], if the store does not say.
    pub async fn ask_region(
        &self,
        subject: &Subject<'_>,
    ) -> Result<Option<RegionView>, StoreError> {
        let seen = self.table.inspect(subject, self.clock.now());
        match self.region.as_ref().filter(|region| region.private_identity().is_none()) {
            Some(region) => region.ask_store(subject, &seen).await.map(Some),
            None => Ok(None),
        }
    }

    /// What was said to the region since the start; `None` for a process on its own.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::builder().build()?;
    /// assert!(limiter.region_counts().is_none() && limiter.globe_counts().is_none());
    /// # Ok::<(), tidegate::BuildError>(())
    /// ```
    #[must_use]
    pub fn region_counts(&self) -> Option<RegionCounts> {
        self.region.as_ref().map(Conversation::counts)
    }

    /// What was said to other regions and heard of them since the start; `None` if there are none.
    /// See [`region_counts`](Self::region_counts).
    #[must_use]
    pub fn globe_counts(&self) -> Option<GlobeCounts> {
        self.region.as_ref().and_then(Conversation::globe_counts)
    }

    /// Sends everything to the region that it has not recorded, and to other regions what they
    /// should know; waits until that is done, but not longer than `patience`, and says what is
    /// left. Call it when no more requests come, before the process ends: what is left is
    /// forgotten with it. From then on everything is sent to the region at once, and nothing to
    /// the others.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Cost, Limit, Limiter, MemoryStore, Part, Request, Subject, Window};
    ///
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// let limiter = Limiter::builder().region(MemoryStore::new(1, || 0)).build()?;
    /// let window = Window::from_millis(86_400_000)?;
    /// let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// let request = Request::new(subject, Limit::new(5), Cost::new(3)?);
    /// assert!(limiter.check(&request).await.admitted());
    /// let left = limiter.drain(Duration::from_secs(20)).await;
    /// assert_eq!(left.unreplayed_cost, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn drain(&self, patience: Duration) -> Drained {
        match &self.region {
            Some(region) => region.drain(patience).await,
            None => Drained { unreplayed_cost: 0, subjects: 0, unpublished: 0 },
        }
    }
}

/// Whether a batch waits for the end of what others asked for.
fn is_reserved(undecided: &BatchDecision) -> bool {
    let BatchDecision::Refresh(needs) = undecided else { return false };
    needs.iter().any(|need| need.reason == Reason::Reserved)
}
