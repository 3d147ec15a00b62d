//! Decisions of a process that is one of several in its region.
//!
//! A denial is final: counts only grow, so nothing that could be read would refute it. An
//! admission may have to hear of the others first; then the caller gets a [`Need`], asks the
//! region, and decides with what is known by then.

use crate::answer::{Answer, BatchAnswer, Source};
use crate::asking::{Asking, Wanted};
use crate::batch::{self, Needs, Waited};
use crate::cells::{CellHandle, CellTicket, Cells, Ticket};
use crate::key::Key;
use crate::ledger::{Conditions, Freshness, Reason, Terms, Verdict};
use crate::planted::{self, Planted};
use crate::request::{Batch, Request, Window};
use crate::sync::{AtomicU64, Mutex, Ordering};
use crate::time::Now;
use crate::window::fits;

use super::options::Wake;
use super::{Spot, Table};

/// What a table in a region has besides.
#[derive(Debug)]
pub(crate) struct Regional {
    pub(crate) freshness: Freshness,
    /// There are no other processes in the region.
    pub(crate) alone: bool,
    wake: Wake,
    /// Subjects with something to tell. Each cell is in it once at most: see
    /// [`Ledger::asks_replay`](crate::ledger::Ledger::asks_replay).
    noted: Mutex<Vec<Ticket>>,
    globe: GlobeMark,
    /// Requests that were denied because the region could not be asked.
    pub(super) denied_outage: AtomicU64,
}

/// When other regions were heard of, and whom that concerns.
#[derive(Debug)]
pub(crate) struct GlobeMark {
    /// Subjects with shorter windows have nothing to do with other regions.
    window_min_ms: AtomicU64,
    heard_ms: AtomicU64,
}

impl GlobeMark {
    /// How old what is known of other regions is; 0 if they do not matter.
    #[inline]
    pub(crate) fn age_ms(&self, window_ms: u64, now_ms: u64) -> u64 {
        // ORDER: relaxed. A moment later the age is that much more.
        if window_ms < self.window_min_ms.load(Ordering::Relaxed) {
            return 0;
        }
        now_ms.saturating_sub(self.heard_ms.load(Ordering::Relaxed))
    }
}

impl Regional {
    pub(crate) fn new(freshness: Freshness, wake: Wake, alone: bool) -> Self {
        let window_min_ms = AtomicU64::new(u64::MAX);
        let globe = GlobeMark { window_min_ms, heard_ms: AtomicU64::new(0) };
        let (noted, denied_outage) = (Mutex::new(Vec::new()), AtomicU64::new(0));
        Self { freshness, alone, wake, noted, globe, denied_outage }
    }

    pub(super) fn denied_outage(&self) -> u64 {
        // ORDER: relaxed, for display only.
        self.denied_outage.load(Ordering::Relaxed)
    }

    pub(crate) const fn globe(&self) -> &GlobeMark {
        &self.globe
    }

    fn lock(&self) -> crate::sync::MutexGuard<'_, Vec<Ticket>> {
        self.noted.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// A subject of which the region has to be asked.
/// [`Table::decide_or_refresh`](crate::Table::decide_or_refresh) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The subject.
    pub subject: Ticket,
    /// Why.
    pub reason: Reason,
}

impl From<Wanted> for Need {
    /// To read what cannot be granted.
    fn from(wanted: Wanted) -> Self {
        Self { subject: wanted.cell.subject, reason: Reason::Credit }
    }
}

/// What became of a request in a region.
/// [`Table::decide_or_refresh`](crate::Table::decide_or_refresh) has an example.
#[derive(Debug)]
#[must_use]
pub enum Decision {
    /// It is decided.
    Answered(Answer),
    /// It would be admitted, if the region has nothing to add.
    Refresh(Need),
    /// It is admitted if the region grants it.
    Ask(Asking),
}

/// What became of a batch in a region.
/// [`Table::decide_all_or_refresh`](crate::Table::decide_all_or_refresh) has an example.
#[derive(Debug)]
#[must_use]
pub enum BatchDecision {
    /// It is decided.
    Answered(BatchAnswer),
    /// It would be admitted, if the region has nothing to add to these.
    Refresh(Vec<Need>),
    /// It is admitted if the region grants it.
    Ask(Asking),
}

/// Where a walk over all subjects is. [`Options::with_saved`](crate::Options::with_saved) has an
/// example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk {
    shard: u16,
    ledger: u32,
}

impl Table {
    /// Decides one request, unless the region has to be asked first.
    ///
    /// ```
    /// # use tidegate_limiter::*;
    /// let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
    /// # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
    /// # let subject = Subject::new(part, part, part, window);
    /// let request = Request::new(subject, Limit::new(10), Cost::ONE);
    /// let now = Now::new(1_700_000_040_000, 10_000);
    /// let Decision::Refresh(need) = table.decide_or_refresh(&request, now) else {
    ///     unreachable!()
    /// };
    /// assert_eq!(need.reason, Reason::Cold);
    ///
    /// // The region was asked, and says that others have used 3.
    /// let cells = table.cells(need.subject).ok_or("it was seated")?;
    /// cells.current.observe_region(3, 0);
    /// cells.current.mark_fresh_until_ms(15_000);
    /// cells.previous.mark_fresh_until_ms(15_000);
    /// let answer = table.decide_refreshed(&request, true, now);
    /// assert_eq!((answer.source(), answer.remaining()), (Source::Region, 6));
    /// // It is fresh for a while.
    /// let Decision::Answered(answer) = table.decide_or_refresh(&request, now) else {
    ///     unreachable!()
    /// };
    /// assert_eq!((answer.source(), answer.remaining()), (Source::Local, 5));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn decide_or_refresh(&self, request: &Request<'_>, now: Now) -> Decision {
        let key = Key::of(&request.subject, &self.seed);
        let bounded = self.is_bounded(request);
        if let Some(spot) = self.shard(&key).find(&key)
            && self.is_warm(&spot, request, now)
        {
            let terms = Terms::of(request);
            let part = self.credit_part_of(request);
            // As in `decide`: this is the path of nearly every request.
            match spot.ledger.claim_lent(spot.era, terms, part, now) {
                Verdict::Held(claim, look) => {
                    return Decision::Answered(self.admit(&spot, request, (claim, &look), now));
                }
                Verdict::Denied(seen) if !bounded || !seen.is_by_reservations(terms) => {
                    return Decision::Answered(self.deny(&spot, request, &seen, now));
                }
                // Nothing is lent, or others wait for the room.
                _ if bounded => {}
                _ => self.counters.mine().count(|all| &all.ledgers_moved),
            }
        }
        if bounded {
            return self.decide_bounded(&key, request, now);
        }
        self.decide_or_refresh_anew(&key, request, now)
    }

    /// The view is not fresh, the subject is new, or its ledger was retired meanwhile.
    #[cold]
    fn decide_or_refresh_anew(&self, key: &Key, request: &Request<'_>, now: Now) -> Decision {
        if self.denies_unasked(request) {
            return self.decide_heard(key, request, now);
        }
        let found = self.shard(key).find(key);
        let Some(spot) = found.or_else(|| self.seat(key, &request.subject, &[], now)) else {
            return Decision::Answered(self.refuse(request, now));
        };
        let asked_in_vain = || spot.ledger.retry_at() > now.monotonic_ms();
        let known = || self.decide_known(key, &spot, request, now);
        Decision::Answered(match self.needs(&spot, request, now) {
            None => known(),
            Some(_) if asked_in_vain() => known().into_degraded(),
            Some(reason) => return Decision::Refresh(Need { subject: spot.ticket(), reason }),
        })
    }

    /// Whether the process is one of several in its region, or shares limits with other regions.
    pub(crate) const fn is_regional(&self) -> bool {
        self.regional.is_some()
    }

    /// When the region need not be heard, nor grant it.
    #[inline(always)]
    pub(crate) fn conditions(&self, request: &Request<'_>) -> Conditions {
        let freshness = self.regional.as_ref().map(|regional| regional.freshness);
        Conditions { freshness, part: self.credit_part_of(request) }
    }

    /// Whether nothing speaks for asking the region, if the request were admitted.
    #[inline(always)]
    pub(crate) fn is_warm(&self, spot: &Spot<'_>, request: &Request<'_>, now: Now) -> bool {
        let Some(regional) = &self.regional else { return true };
        let terms = Terms::of(request);
        matches!(spot.ledger.needs_region(spot.era, terms, regional.freshness, now), Ok(None))
    }

    /// Decides a request that has waited for the region; `heard` says whether it answered.
    /// [`Table::decide_or_refresh`](crate::Table::decide_or_refresh) has an example.
    pub fn decide_refreshed(&self, request: &Request<'_>, heard: bool, now: Now) -> Answer {
        let key = Key::of(&request.subject, &self.seed);
        let found = self.shard(&key).find_surely(&key);
        if self.denies_unasked(request) {
            return self.decide_heard_last(found, request, heard, now);
        }
        let Some(spot) = found else {
            // It was dropped meanwhile, and with it what was heard.
            return self.decide_anew(&key, request, now).into_degraded();
        };
        let answer = self.decide_known(&key, &spot, request, now);
        let heard = heard || planted::is(Planted::DegradedUnsaid);
        let source = if heard { Source::Region } else { answer.source };
        let answer = Answer { source, ..answer };
        if heard { self.unasked(answer, request) } else { answer.into_degraded() }
    }

    /// Decides a batch, unless the region has to be asked first: of all its subjects at once.
    ///
    /// ```
    /// # use tidegate_limiter::*;
    /// let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
    /// # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
    /// # let subject = Subject::new(part, part, part, window);
    /// let both = [Request::new(subject, Limit::new(10), Cost::ONE); 2];
    /// let (batch, now) = (Batch::new(&both)?, Now::new(1_700_000_040_000, 10_000));
    /// let BatchDecision::Refresh(needs) = table.decide_all_or_refresh(&batch, now) else {
    ///     unreachable!()
    /// };
    /// assert_eq!(needs.len(), 1, "both are of one subject");
    /// let answer = table.decide_all_refreshed(&batch, &[needs[0].subject], now);
    /// assert!(answer.admitted() && answer.items()[1].degraded(), "the region did not answer");
    /// # Ok::<(), RequestError>(())
    /// ```
    pub fn decide_all_or_refresh(&self, batch: &Batch<'_>, now: Now) -> BatchDecision {
        let (mut answer, mut needs) = (BatchAnswer::default(), Needs::default());
        if batch::decide(self, batch.requests(), (now, None), Some(&mut needs), &mut answer) {
            return BatchDecision::Answered(answer);
        }
        match needs.asking {
            Some(asking) => BatchDecision::Ask(asking),
            None => BatchDecision::Refresh(needs.reads),
        }
    }

    /// Decides a batch that has waited for the region, which did not answer for `unheard`.
    /// [`Table::decide_all_or_refresh`](crate::Table::decide_all_or_refresh) has an example.
    pub fn decide_all_refreshed(
        &self,
        batch: &Batch<'_>,
        unheard: &[Ticket],
        now: Now,
    ) -> BatchAnswer {
        self.decide_all_last(batch, Waited { unheard, reserved: false }, now)
    }

    /// Decides a batch that has waited in vain for the end of what others asked for of `unheard`:
    /// [`Reason::Reserved`]. The region was asked about none of it, so an item that needs the
    /// region is as one of which nothing was heard.
    /// [`Table::decide_all_or_refresh`](crate::Table::decide_all_or_refresh) has an example.
    pub fn decide_all_waited(
        &self,
        batch: &Batch<'_>,
        unheard: &[Ticket],
        now: Now,
    ) -> BatchAnswer {
        self.decide_all_last(batch, Waited { unheard, reserved: true }, now)
    }

    fn decide_all_last(&self, batch: &Batch<'_>, waited: Waited<'_>, now: Now) -> BatchAnswer {
        let (mut answer, unheard) = (BatchAnswer::default(), waited.unheard);
        batch::decide(self, batch.requests(), (now, Some(waited)), None, &mut answer);
        for (item, request) in answer.items.iter_mut().zip(batch.requests()) {
            let key = Key::of(&request.subject, &self.seed);
            let spot = self.shard(&key).find_surely(&key);
            let missed = spot.is_some_and(|spot| unheard.contains(&spot.ticket()));
            if !missed && unheard.is_empty() {
                item.source = Source::Region;
            }
            // Who is to be denied was then admitted on credit.
            let lent = waited.reserved && self.denies_unasked(request);
            // What the region did not grant was decided as if it had not been asked for.
            if missed || self.is_bounded(request) && answer.admitted && !lent {
                *item = item.into_degraded();
            }
        }
        answer
    }

    /// Decides on what is known, and says how old that is.
    fn decide_known(&self, key: &Key, spot: &Spot<'_>, request: &Request<'_>, now: Now) -> Answer {
        let verdict = spot.ledger.claim(spot.era, Terms::of(request), now);
        match self.conclude(spot, request, verdict, now) {
            Some(answer) => answer,
            None => self.decide_anew(key, request, now),
        }
    }

    /// Why an admission of this request has to hear of the region first, if it would be admitted.
    pub(crate) fn needs(&self, spot: &Spot<'_>, request: &Request<'_>, now: Now) -> Option<Reason> {
        let regional = self.regional.as_ref()?;
        let terms = Terms::of(request);
        // A ledger that moved is found again by the decision.
        let reason =
            spot.ledger.needs_region(spot.era, terms, regional.freshness, now).ok().flatten()?;
        let look = spot.ledger.look(spot.era, terms.window, now)?.look;
        fits(look.used, terms.cost, terms.limit).then_some(reason)
    }

    /// Everything that other regions had published at this moment of the monotonic clock is known.
    /// It concerns subjects whose windows are at least so long: the age of their answers says it
    /// from now on.
    ///
    /// ```
    /// # use tidegate_limiter::*;
    /// let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
    /// # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
    /// # let subject = Subject::new(part, part, part, window);
    /// table.heard_globe(10_000, 60_000);
    /// let now = Now::new(28_333_334 * 60_000, 25_000);
    /// let request = Request::new(subject, Limit::new(10), Cost::ONE);
    /// let _ = table.decide(&request, now);
    /// let cell = table.cell(&subject, 28_333_334).ok_or("it was decided on")?;
    /// cell.mark_fresh_until_ms(30_000); // The region was asked just now,
    /// assert_eq!(table.decide(&request, now).age_ms(), 15_000, "the globe was not");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn heard_globe(&self, monotonic_ms: u64, window_min_ms: u64) {
        if let Some(regional) = &self.regional {
            // ORDER: relaxed, as where they are read.
            regional.globe.heard_ms.fetch_max(monotonic_ms, Ordering::Relaxed);
            regional.globe.window_min_ms.store(window_min_ms, Ordering::Relaxed);
        }
    }

    /// Takes the subjects that have something to tell.
    ///
    /// ```
    /// # use tidegate_limiter::*;
    /// let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
    /// # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
    /// # let subject = Subject::new(part, part, part, window);
    /// let now = Now::new(28_333_334 * 60_000, 10_000);
    /// let _ = table.decide(&Request::new(subject, Limit::new(10), Cost::new(4)?), now);
    /// let mut noted = Vec::new();
    /// table.take_noted(&mut noted);
    /// let cells = table.cells(noted[0]).ok_or("it is in the table")?;
    /// assert_eq!((cells.sequence, cells.current.mine()), (28_333_334, 4));
    /// assert_eq!(cells.used_of_limit(now), (4, 10));
    ///
    /// // A cell is found again, also as the previous one, and not after that.
    /// let ticket = cells.current.ticket(noted[0]);
    /// for (later_ms, found) in [(60_000, true), (120_000, false)] {
    ///     table.turn(noted[0], now.after_ms(later_ms));
    ///     assert_eq!(table.cell_of(ticket).is_some(), found);
    /// }
    /// assert_eq!(table.forget_all(), 0, "nothing is left");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn take_noted(&self, into: &mut Vec<Ticket>) {
        if let Some(regional) = &self.regional {
            into.append(&mut regional.lock());
        }
    }

    /// Remembers that the subject has something to tell.
    #[cold]
    pub(crate) fn note(&self, subject: Ticket) {
        let Some(regional) = &self.regional else { return };
        let first = {
            let mut noted = regional.lock();
            noted.push(subject);
            noted.len() == 1
        };
        if first {
            regional.wake.wake();
        }
    }

    /// Both cells of a subject, if it still is in the table.
    /// [`Table::take_noted`](crate::Table::take_noted) has an example.
    #[must_use]
    pub fn cells(&self, subject: Ticket) -> Option<Cells<'_>> {
        let spot = self.shards.get(usize::from(subject.shard))?.spot(subject.ledger)?;
        (spot.era == subject.era).then(|| Cells::new(spot.ledger, spot.era)).flatten()
    }

    /// Turns a subject to the window that the clock is in, as a request would: what is known of
    /// that window can then be told before the first request of it.
    /// [`Table::take_noted`](crate::Table::take_noted) has an example.
    pub fn turn(&self, subject: Ticket, now: Now) {
        let shard = self.shards.get(usize::from(subject.shard));
        let Some(spot) = shard.and_then(|shard| shard.spot(subject.ledger)) else { return };
        if spot.era == subject.era
            && let Ok(window) = Window::from_millis(spot.ledger.window_ms())
        {
            let _ = spot.ledger.place(spot.era, window, now);
        }
    }

    /// A cell, if it still is the current or the previous one of its subject.
    /// [`Table::take_noted`](crate::Table::take_noted) has an example.
    #[must_use]
    pub fn cell_of(&self, cell: CellTicket) -> Option<CellHandle<'_>> {
        let subject = cell.subject;
        let spot = self.shards.get(usize::from(subject.shard))?.spot(subject.ledger)?;
        cell.find(spot.ledger)
    }

    /// Goes on with a walk over all subjects: looks at the next `steps` ledgers and calls `visit`
    /// with those in use. Returns whether the walk is not over.
    /// [`Options::with_saved`](crate::Options::with_saved) has an example.
    pub fn walk(&self, walk: &mut Walk, steps: usize, mut visit: impl FnMut(Ticket)) -> bool {
        let mut left = steps;
        while let Some(shard) = self.shards.get(usize::from(walk.shard)) {
            let ever = u32::try_from(shard.subjects_ever()).unwrap_or(u32::MAX);
            while walk.ledger < ever {
                if left == 0 {
                    return true;
                }
                left -= 1;
                let spot = shard.spot(walk.ledger);
                walk.ledger += 1;
                if let Some(spot) = spot {
                    visit(spot.ticket());
                }
            }
            *walk = Walk { shard: walk.shard + 1, ledger: 0 };
        }
        false
    }

    /// Forgets every subject that nothing is claimed of at this moment, however much is used or
    /// unrecorded, and says how many are left. [`Table::take_noted`](crate::Table::take_noted) has
    /// an example.
    pub fn forget_all(&self) -> usize {
        self.shards.iter().map(super::Shard::forget_all).sum()
    }
}
