//! All subjects of this process, in a fixed budget of memory.
//!
//! A look-up takes no lock and writes nothing. Only taking in or dropping a subject locks, and
//! only the shard that it belongs to. Ledgers are never freed, only used again, so that a
//! decision can never touch memory that is gone: see [`crate::ledger`].

mod answers;
mod ask;
mod at_once;
mod explain;
mod index;
mod ledgers;
mod options;
mod outage;
mod region;
mod restore;
mod shard;
mod structure;
mod zeroed;

use std::sync::Arc;

use crate::answer::{Answer, BatchAnswer, Denial};
use crate::batch;
use crate::cells::CellHandle;
use crate::counters::{Counters, Counts};
use crate::key::{FleetSecret, Key, Seed};
use crate::ledger::{Claim, Denied, Look, Place, Refusal, Terms, Verdict};
use crate::register::Turn;
use crate::request::{Batch, Request, Subject, Window};
use crate::sync::{AtomicU64, Ordering};
use crate::time::Now;

pub use ask::AskedFor;
pub use explain::{CellCounts, Credit, Explanation, Strict, SubjectView};
use ledgers::Rooms;
use options::Parts;
pub use options::{Options, Wake};
use region::Regional;
pub use region::{BatchDecision, Decision, Need, Walk};
use restore::Restored;
pub(crate) use shard::Spot;
use shard::{Newcomer, Shard};

/// Ledgers looked at in one step of [`Table::sweep`]: some ten microseconds under one lock.
const SWEEP_STEP: usize = 256;
/// Times a decision looks its subject up again after meeting a ledger that was retired. Each time
/// takes an eviction at that very moment; after that the shard is locked while it decides.
const MOVES_MAX: usize = 4;

/// The subjects of one process and their cells: decides requests.
///
/// ```
/// use tidegate_limiter::{
///     Cost, Limit, Now, Options, Part, Request, Seed, Subject, Table, Window,
/// };
///
/// let table = Table::new(Options::default(), Seed::from_bytes([7; 32]));
/// let subject = Subject::new(
///     Part::new("acme")?,
///     Part::new("email")?,
///     Part::new("user-1")?,
///     Window::from_millis(60_000)?,
/// );
/// let request = Request::new(subject, Limit::new(2), Cost::ONE);
/// let now = Now::new(1_700_000_040_000, 0);
///
/// assert_eq!(table.decide(&request, now).remaining(), 1);
/// assert_eq!(table.decide(&request, now).remaining(), 0);
///
/// let denied = table.decide(&request, now);
/// assert!(!denied.admitted());
/// let wait_ms = denied.retry_after_ms().unwrap_or(u64::MAX);
/// assert!(table.decide(&request, now.after_ms(wait_ms)).admitted());
///
/// let counts = table.counts();
/// assert_eq!((counts.admitted_local, counts.denied_local, table.subjects()), (3, 1, 1));
/// assert_eq!(table.subjects_ever(), 1);
/// assert!(table.accounted_bytes() <= 256 << 20, "the default");
/// # Ok::<(), tidegate_limiter::RequestError>(())
/// ```
#[derive(Debug)]
pub struct Table {
    shards: Box<[Shard]>,
    rooms: Arc<Rooms>,
    seed: Seed,
    secret: FleetSecret,
    counters: Counters,
    /// Counts the steps of the sweep, so that each takes the next shard.
    sweeps: AtomicU64,
    /// `None` for a process on its own.
    regional: Option<Regional>,
    /// `None` if nothing was saved before it started.
    restored: Option<Restored>,
}

impl Table {
    /// A table that keeps to the budget of `options`. The [type](Self) has an example.
    #[must_use]
    pub fn new(options: Options, seed: Seed) -> Self {
        let rooms = Arc::new(Rooms::new(options.shards(), options.shard_subjects_max()));
        let shard = |at| Shard::new(at, &options, &rooms, seed.spread());
        let shards = (0..options.shards()).map(shard).collect();
        let (counters, sweeps) = (Counters::new(), AtomicU64::new(0));
        let Parts { secret, regional, restored } = options.into_parts();
        Self { shards, rooms, seed, secret, counters, sweeps, regional, restored }
    }

    fn count_admission(&self, claim: Claim, begins: bool) {
        let counters = self.counters.mine();
        counters.count(|all| &all.admitted_local);
        if begins {
            counters.count(|all| &all.cells_begun);
        }
        if claim.races > 0 {
            counters.count_many(|all| &all.races_lost, claim.races.into());
        }
    }

    /// Decides a batch: all requests are admitted, or none is.
    ///
    /// ```
    /// use tidegate_limiter::{
    ///     Batch, Cost, Limit, Now, Options, Part, Request, Seed, Subject, Table, Window,
    /// };
    ///
    /// let table = Table::new(Options::default(), Seed::from_bytes([7; 32]));
    /// let (part, minute) = (Part::new("a")?, Window::from_millis(60_000)?);
    /// let ask = |window, limit| {
    ///     Request::new(Subject::new(part, part, part, window), Limit::new(limit), Cost::ONE)
    /// };
    /// let both = [ask(minute, 9), ask(Window::from_millis(1_000)?, 0)];
    /// let now = Now::new(1_700_000_040_000, 0);
    /// let mut answer = table.decide_all(&Batch::new(&both)?, now);
    /// assert!(!answer.admitted() && answer.items()[0].admitted(), "the other one did not fit");
    ///
    /// table.decide_all_into(&Batch::new(&both[..1])?, now, &mut answer);
    /// assert!(answer.admitted());
    /// assert_eq!(answer.items()[0].remaining(), 8, "the first time nothing was spent");
    /// # Ok::<(), tidegate_limiter::RequestError>(())
    /// ```
    pub fn decide_all(&self, batch: &Batch<'_>, now: Now) -> BatchAnswer {
        let mut answer = BatchAnswer::default();
        self.decide_all_into(batch, now, &mut answer);
        answer
    }

    /// Decides a batch and puts the answer where an older one was: allocates nothing if that one
    /// was as long. [`decide_all`](Self::decide_all) has an example.
    pub fn decide_all_into(&self, batch: &Batch<'_>, now: Now, answer: &mut BatchAnswer) {
        batch::decide(self, batch.requests(), (now, None), None, answer);
        for (item, request) in answer.items.iter_mut().zip(batch.requests()) {
            if self.is_bounded(request) {
                *item = self.unasked(*item, request);
            }
        }
    }

    /// The subject is new, or its ledger was retired while the decision looked at it.
    #[cold]
    fn decide_anew(&self, key: &Key, request: &Request<'_>, now: Now) -> Answer {
        let terms = Terms::of(request);
        for _ in 0..MOVES_MAX {
            let Some(spot) = self.seat(key, &request.subject, &[], now) else {
                return self.refuse(request, now);
            };
            let verdict = spot.ledger.claim(spot.era, terms, now);
            if let Some(answer) = self.conclude(&spot, request, verdict, now) {
                return answer;
            }
        }
        self.decide_alone(key, request, now)
    }

    /// Decides with the shard locked: nothing can be retired meanwhile.
    fn decide_alone(&self, key: &Key, request: &Request<'_>, now: Now) -> Answer {
        let (newcomer, terms) = (self.newcomer(key, &request.subject, &[]), Terms::of(request));
        let decided = self.shard(key).seat_and(&newcomer, &self.counters, now, |spot| {
            spot.map(|spot| (spot, spot.ledger.claim(spot.era, terms, now)))
        });
        let answer =
            decided.and_then(|(spot, verdict)| self.conclude(&spot, request, verdict, now));
        answer.unwrap_or_else(|| self.refuse(request, now))
    }

    /// Finds the subject's ledger or founds one, at the cost of nobody in its `company`. `None` if
    /// there is no memory for it.
    pub(crate) fn seat<'a>(
        &'a self,
        key: &Key,
        subject: &Subject<'_>,
        company: &[Spot<'_>],
        now: Now,
    ) -> Option<Spot<'a>> {
        let newcomer = self.newcomer(key, subject, company);
        self.shard(key).seat_and(&newcomer, &self.counters, now, |spot| spot)
    }

    fn newcomer<'a>(
        &'a self,
        key: &'a Key,
        subject: &'a Subject<'a>,
        company: &'a [Spot<'a>],
    ) -> Newcomer<'a> {
        let restored = self.restored.as_ref();
        Newcomer { key, subject, company, seed: &self.seed, secret: &self.secret, restored }
    }

    pub(crate) fn key(&self, subject: &Subject<'_>) -> Key {
        Key::of(subject, &self.seed)
    }

    /// Reads ahead what is kept of subjects that are decided on next. Nothing depends on it, so
    /// that there is nothing to explore.
    #[inline(always)]
    pub(crate) fn read_ahead(&self, keys: &[Key]) {
        if cfg!(any(loom, shuttle)) {
            return;
        }
        for key in keys {
            self.shard(key).read_ahead(key, self.is_regional());
        }
    }

    /// Finds the ledger of a subject; with the lock from the start if `locked`.
    pub(crate) fn find(&self, key: &Key, locked: bool) -> Option<Spot<'_>> {
        let shard = self.shard(key);
        if locked { shard.find_locked(key) } else { shard.find(key) }
    }

    /// Turns a verdict into an answer. `None` if the ledger moved.
    fn conclude(
        &self,
        spot: &Spot<'_>,
        request: &Request<'_>,
        verdict: Verdict,
        now: Now,
    ) -> Option<Answer> {
        match verdict {
            Verdict::Held(claim, look) => Some(self.admit(spot, request, (claim, &look), now)),
            Verdict::Denied(seen) => Some(self.deny(spot, request, &seen, now)),
            Verdict::Moved => {
                self.counters.mine().count(|all| &all.ledgers_moved);
                None
            }
        }
    }

    /// Makes a claim an admission.
    #[inline(always)]
    fn admit(
        &self,
        spot: &Spot<'_>,
        request: &Request<'_>,
        (claim, look): (Claim, &Look),
        now: Now,
    ) -> Answer {
        let begins = spot.ledger.commit(claim, Terms::of(request));
        if request.cost.get() > 0 {
            self.note_if_due(spot, claim.turn);
        }
        self.count_admission(claim, begins);
        let window = request.subject.window;
        self.aged(Answer::admit(request, look), spot, (look.place, window), now)
    }

    /// Says how old the view was that an answer was decided on.
    #[inline(always)]
    pub(crate) fn aged(
        &self,
        answer: Answer,
        spot: &Spot<'_>,
        (place, window): (Place, Window),
        now: Now,
    ) -> Answer {
        match &self.regional {
            None => answer,
            Some(regional) => {
                let fresh_ms = regional.freshness.fresh_ms;
                let globe_ms = regional.globe().age_ms(window.as_millis(), now.monotonic_ms());
                let region_ms = spot.ledger.age_ms(place, window, fresh_ms, now);
                Answer { age_ms: region_ms.max(globe_ms), ..answer }
            }
        }
    }

    /// After an admission: remembers the subject if it has enough to tell.
    #[inline(always)]
    pub(crate) fn note_if_due(&self, spot: &Spot<'_>, turn: Turn) {
        if self.regional.is_some() && spot.ledger.asks_replay(spot.era, turn) {
            self.note(spot.ticket());
        }
    }

    /// The request does not fit. Says why, and arms strict mode if the limit is exhausted.
    #[inline(always)]
    pub(crate) fn deny(
        &self,
        spot: &Spot<'_>,
        request: &Request<'_>,
        seen: &Refusal,
        now: Now,
    ) -> Answer {
        let counters = self.counters.mine();
        let denial = match spot.ledger.deny(spot.era, seen, Terms::of(request), now) {
            Denied::Reserved => {
                counters.count(|all| &all.denied_reserved);
                Denial::Reserved
            }
            Denied::Limit { arms } => {
                counters.count(|all| &all.denied_local);
                if arms {
                    counters.count(|all| &all.strict_armed);
                }
                Denial::Limit
            }
        };
        let at = (seen.look.place, request.subject.window);
        self.aged(Answer::deny(request, seen, denial, now), spot, at, now)
    }

    /// There is no memory for a new subject of this workspace.
    #[cold]
    pub(crate) fn refuse(&self, request: &Request<'_>, now: Now) -> Answer {
        self.counters.mine().count(|all| &all.denied_memory);
        Answer::refuse(request, now)
    }

    /// Does one bounded step of cleaning up and returns how many subjects it dropped. Call it now
    /// and then, for example every 100 ms: expired subjects then make room before it is needed.
    ///
    /// ```
    /// # use tidegate_limiter::*;
    /// let options = Options::default().with_budget_bytes(64 << 10);
    /// let table = Table::new(options, Seed::from_bytes([7; 32]));
    /// # let (part, second) = (Part::new("a")?, Window::from_millis(1_000)?);
    /// # let subject = Subject::new(part, part, part, second);
    /// # let request = Request::new(subject, Limit::new(9), Cost::ONE);
    /// let now = Now::new(1_700_000_040_000, 0);
    /// let _ = table.decide(&request, now); // Of a window of a second.
    /// let later = now.after_ms(60_000);
    /// assert_eq!((0..100).map(|_| table.sweep(later)).sum::<usize>(), 1);
    /// assert_eq!(table.subjects(), 0);
    /// # Ok::<(), tidegate_limiter::RequestError>(())
    /// ```
    pub fn sweep(&self, now: Now) -> usize {
        if let Some(restored) = &self.restored {
            restored.sweep(now);
        }
        let step = self.sweeps.fetch_add(1, Ordering::Relaxed);
        let shards = self.shards.len().max(1) as u64;
        let shard = usize::try_from(step % shards).ok().and_then(|at| self.shards.get(at));
        let early = self.restored.as_ref().filter(|restored| restored.was_early());
        shard.map_or(0, |shard| shard.sweep(SWEEP_STEP, &self.counters, early, now))
    }

    /// The cell of a subject, if it is in the table and the cell is its current or previous one.
    /// This is how convergence reads and raises what a cell holds.
    ///
    /// ```
    /// # use tidegate_limiter::*;
    /// # let table = Table::new(Options::default(), Seed::from_bytes([7; 32]));
    /// # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
    /// # let subject = Subject::new(part, part, part, window);
    /// let now = Now::new(28_333_334 * 60_000, 0);
    /// let _ = table.decide(&Request::new(subject, Limit::new(9), Cost::new(4)?), now);
    /// let cell = table.cell(&subject, 28_333_334).ok_or("it was decided on")?;
    /// cell.observe_foreign(5);
    /// assert_eq!((cell.mine(), cell.foreign()), (4, 5));
    /// assert!(!table.decide(&Request::new(subject, Limit::new(9), Cost::ONE), now).admitted());
    /// assert!(table.cell(&subject, 7).is_none(), "long ago");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cell(&self, subject: &Subject<'_>, sequence: u64) -> Option<CellHandle<'_>> {
        let key = Key::of(subject, &self.seed);
        let spot = self.shard(&key).find_surely(&key)?;
        CellHandle::new(spot.ledger, spot.era, sequence)
    }

    /// Reads what is kept of a subject, so that a decision on it soon after need not wait for
    /// memory. Changes nothing, and says whether there was anything. It pays for who knows many
    /// requests before the first is decided: the processor then waits for many at once.
    ///
    /// ```
    /// # use tidegate_limiter::*;
    /// # let table = Table::new(Options::default(), Seed::from_bytes([7; 32]));
    /// # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
    /// # let subject = Subject::new(part, part, part, window);
    /// assert!(!table.warm(&subject));
    /// let now = Now::new(1_700_000_040_000, 0);
    /// let _ = table.decide(&Request::new(subject, Limit::new(9), Cost::ONE), now);
    /// assert!(table.warm(&subject));
    /// # Ok::<(), RequestError>(())
    /// ```
    pub fn warm(&self, subject: &Subject<'_>) -> bool {
        let key = Key::of(subject, &self.seed);
        let spot = self.shard(&key).find(&key);
        spot.is_some_and(|spot| {
            spot.ledger.warm();
            true
        })
    }

    /// Hash, look-up and one count on this map by compare-and-swap: the floor that benchmarks
    /// compare with. Returns what is counted for the subject. Callers use
    /// [`decide`](Self::decide), of which the [type](Self) has an example.
    #[cfg(feature = "bench")]
    #[must_use]
    pub fn bare_loop(&self, request: &Request<'_>) -> Option<u64> {
        let key = Key::of(&request.subject, &self.seed);
        let spot = self.shard(&key).find(&key);
        spot.map(|spot| spot.ledger.count_one())
    }

    /// What happened so far. The [type](Self) has an example.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let denied_outage = self.regional.as_ref().map_or(0, Regional::denied_outage);
        Counts { denied_outage, ..self.counters.counts() }
    }

    /// Subjects in the table. The [type](Self) has an example.
    #[must_use]
    pub fn subjects(&self) -> usize {
        self.shards.iter().map(Shard::subjects).sum()
    }

    /// The most subjects that were in the table at a time: what [`sweep`](Self::sweep) goes over.
    /// Nothing is ever taken from it. The [type](Self) has an example.
    #[must_use]
    pub fn subjects_ever(&self) -> usize {
        self.shards.iter().map(Shard::subjects_ever).sum()
    }

    /// Bytes of the table itself and of all that it has allocated for its subjects. Never above the
    /// budget (INV-32). The [type](Self) has an example.
    #[must_use]
    pub fn accounted_bytes(&self) -> usize {
        let shards: usize = self.shards.iter().map(Shard::accounted_bytes).sum();
        size_of::<Self>() + self.rooms.bytes_beside() + shards
    }

    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    #[inline]
    fn shard(&self, key: &Key) -> &Shard {
        // The number of shards is a power of two; the lowest bits of the hash choose among them,
        // those above among the places inside.
        let mask = (self.shards.len() as u64).wrapping_sub(1);
        #[expect(clippy::cast_possible_truncation, reason = "masked to the number of shards")]
        let at = (key.hash & mask) as usize;
        #[expect(clippy::indexing_slicing, reason = "masked to the number of shards")]
        &self.shards[at]
    }
}

impl Terms {
    pub(crate) fn of(request: &Request<'_>) -> Self {
        Self { window: request.subject.window, limit: request.limit, cost: request.cost }
    }
}
