//! What is known of a subject, and why a request would be decided as it would. Nothing here seats
//! a subject, turns a ledger, arms strict mode or claims anything.

use crate::answer::{Answer, Denial};
use crate::key::{Digest, Key};
use crate::ledger::{Held, Peek, Reason, Terms, credit_of, would_ask};
use crate::request::{Consistency, Outage, Request, Subject, Window};
use crate::time::Now;
use crate::window::{fits, weigh};

use super::outage::wait_ms;
use super::{MOVES_MAX, Spot, Table};

/// What a cell holds, as far as this process knows. [`Table::inspect`] has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CellCounts {
    /// Which window it is.
    pub sequence: u64,
    /// Its first millisecond since the Unix epoch.
    pub start_unix_ms: u64,
    /// The first millisecond after it.
    pub end_unix_ms: u64,
    /// What this process admitted.
    pub mine: u64,
    /// The same, and what is reserved: what decisions count.
    pub claimed: u64,
    /// What of it batches in flight hold.
    pub reserved: u64,
    /// How much of `mine` the regional store has recorded.
    pub acked: u64,
    /// What the other processes of the region have used.
    pub peers: u64,
    /// The largest sum that the regional store has reported.
    pub confirmed: u64,
    /// What other regions have used.
    pub foreign: u64,
    /// What of `peers` an earlier life of this process had saved.
    pub restored: u64,
    /// The limit it is measured by; 0 if none is known.
    pub limit: u64,
}

impl CellCounts {
    fn of(held: &Held, sequence: u64, window_ms: u64) -> Self {
        let start_unix_ms = sequence.saturating_mul(window_ms);
        Self {
            sequence,
            start_unix_ms,
            end_unix_ms: start_unix_ms.saturating_add(window_ms),
            mine: held.mine,
            claimed: held.claimed,
            reserved: held.reserved,
            acked: held.acked,
            peers: held.peers,
            confirmed: held.confirmed,
            foreign: held.foreign,
            restored: 0,
            limit: held.limit,
        }
    }

    /// What a decision counts: `claimed + peers + foreign`. [`Table::inspect`] has an example.
    #[must_use]
    pub const fn view(&self) -> u64 {
        self.claimed.saturating_add(self.peers).saturating_add(self.foreign)
    }

    /// What was admitted here and the regional store has not recorded. Means nothing for a process
    /// on its own.
    ///
    /// ```
    /// # use tidegate_limiter::*;
    /// let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
    /// # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
    /// # let subject = Subject::new(part, part, part, window);
    /// # let now = Now::new(28_333_334 * 60_000, 0);
    /// let _ = table.decide(&Request::new(subject, Limit::new(9), Cost::new(4)?), now);
    /// assert_eq!(table.inspect(&subject, now).current.unreplayed(), 4);
    /// let cell = table.cell(&subject, 28_333_334).ok_or("it was decided on")?;
    /// cell.acknowledge(3);
    /// assert_eq!(table.inspect(&subject, now).current.unreplayed(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub const fn unreplayed(&self) -> u64 {
        self.mine.saturating_sub(self.acked)
    }
}

/// The subject was at its limit a moment ago: admissions are checked with the region first.
///
/// ```
/// # use tidegate_limiter::*;
/// # let table = Table::new(Options::default(), Seed::from_bytes([7; 32]));
/// # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
/// # let subject = Subject::new(part, part, part, window);
/// # let now = Now::new(28_333_334 * 60_000, 0);
/// let request = Request::new(subject, Limit::new(1), Cost::ONE);
/// let _ = (table.decide(&request, now), table.decide(&request, now)); // The second is denied.
/// let strict = table.inspect(&subject, now).strict.ok_or("one of one is used")?;
/// assert_eq!((strict.left_ms, strict.limit), (60_000, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Strict {
    /// For how long.
    pub left_ms: u64,
    /// Requests with a larger limit are not concerned.
    pub limit: u64,
}

/// What this process may admit of a subject before the region has recorded it, if a request is of
/// [`Bounded`](Consistency::Bounded) consistency. Whatever is beyond it the region has to grant.
/// [`SubjectView::credit`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Credit {
    /// What is free in the sliding window.
    pub room: u64,
    /// How many processes share it, as far as is known; 0 if that is not known yet, and then
    /// nothing is lent.
    pub processes: u64,
    /// What this one may have admitted and not recorded: a part of the room.
    pub most: u64,
    /// What it has.
    pub used: u64,
}

impl Credit {
    /// Whether a cost can be admitted without asking. [`SubjectView::credit`] has an example.
    #[must_use]
    pub const fn covers(&self, cost: u64) -> bool {
        self.used.saturating_add(cost) <= self.most
    }
}

/// What this process knows of a subject. [`Table::inspect`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SubjectView {
    /// The reading of the clock.
    pub now: Now,
    /// The name of the subject outside this process.
    pub digest: Digest,
    /// The length of its windows.
    pub window_ms: u64,
    /// The subject is in the table. If not, all that is known of it is what was restored.
    pub known: bool,
    /// How much of the current window is over.
    pub elapsed_ms: u64,
    /// The clock has not reached the current cell: nothing of the previous one fades.
    pub behind: bool,
    /// The cell that a decision would be made in.
    pub current: CellCounts,
    /// The one before it.
    pub previous: CellCounts,
    /// Whether strict mode is armed.
    pub strict: Option<Strict>,
    /// In a region: something was admitted that the regional store has not recorded.
    pub dirty: bool,
    /// In a region: how old what is known of it is, at most.
    pub age_ms: Option<u64>,
    /// In a region: for how long that still counts as fresh.
    pub fresh_for_ms: Option<u64>,
    /// In a region that did not answer: it is not asked again for so long.
    pub retry_in_ms: Option<u64>,
    /// In a region of several: how many processes use the subject, or may; 0 if that is not known
    /// yet.
    pub processes: Option<u64>,
    /// Which part of the room may be taken on credit.
    pub(crate) credit_part: u64,
}

impl SubjectView {
    /// What a request of bounded consistency with this limit would be lent; `None` if there is
    /// nobody to ask.
    ///
    /// ```
    /// # use tidegate_limiter::*;
    /// # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
    /// # let subject = Subject::new(part, part, part, window);
    /// let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
    /// let request = Request::new(subject, Limit::new(100), Cost::ONE);
    /// let now = Now::new(1_700_000_040_000, 10_000);
    /// let Decision::Refresh(need) = table.decide_or_refresh(&request, now) else {
    ///     unreachable!()
    /// };
    /// // The region says that two processes use it.
    /// table.cells(need.subject).ok_or("it was seated")?.set_company(2);
    /// let credit = table.inspect(&subject, now).credit(100).ok_or("there are others")?;
    /// assert_eq!((credit.room, credit.processes, credit.most), (100, 2, 6));
    /// assert!(credit.covers(6) && !credit.covers(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn credit(&self, limit: u64) -> Option<Credit> {
        let processes = self.processes?;
        let window = Window::from_millis(self.window_ms).ok()?;
        let weighted = weigh(self.previous.view(), window, self.elapsed_ms);
        let room = limit.saturating_sub(self.current.view().saturating_add(weighted));
        let most = credit_of(room, self.credit_part, processes);
        let used = self.current.claimed.saturating_sub(self.current.acked);
        Some(Credit { room, processes, most, used })
    }
}

/// What would become of a request now, and why.
///
/// `effective = current.view() + weighted + cost`, and the request fits if that is at most the
/// limit; `weighted = floor(previous.view() · weight_ms / window_ms)`. [`Table::explain`] has an
/// example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// What is known of the subject.
    pub subject: SubjectView,
    /// How much of the previous window still lies in the sliding one.
    pub weight_ms: u64,
    /// What of the previous cell counts.
    pub weighted: u64,
    /// What the request would consume.
    pub cost: u64,
    /// What the sliding window would hold with it.
    pub effective: u64,
    /// What it may hold.
    pub limit: u64,
    /// What the answer would be if nobody knows more than this process does.
    pub answer: Answer,
    /// Why the region would be asked before that is said.
    pub asks: Option<Reason>,
    /// The region should be asked, but did not answer a moment ago: it is decided without it, or
    /// denied for that.
    pub asked_in_vain: bool,
    /// What the request wants an admission to be worth.
    pub consistency: Consistency,
    /// What becomes of it when the region cannot be asked.
    pub outage: Outage,
    /// What it is lent, if that matters: it is bounded, and there is somebody to ask.
    pub credit: Option<Credit>,
}

impl Explanation {
    /// It would fit, but for what batches in flight have reserved. [`Table::explain`] has an
    /// example.
    #[must_use]
    pub fn is_by_reservations(&self) -> bool {
        self.answer.denial() == Some(Denial::Reserved)
    }
}

impl Table {
    /// What this process knows of a subject. Changes nothing.
    ///
    /// ```
    /// use tidegate_limiter::{
    ///     Cost, Limit, Now, Options, Part, Request, Seed, Subject, Table, Window,
    /// };
    ///
    /// let table = Table::new(Options::default(), Seed::from_bytes([7; 32]));
    /// let window = Window::from_millis(60_000)?;
    /// let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// let now = Now::new(1_700_000_040_000, 0);
    /// assert!(!table.inspect(&subject, now).known);
    ///
    /// let _ = table.decide(&Request::new(subject, Limit::new(5), Cost::new(2)?), now);
    /// let seen = table.inspect(&subject, now);
    /// assert_eq!((seen.known, seen.current.mine, seen.previous.mine), (true, 2, 0));
    /// assert_eq!((seen.current.view(), seen.strict), (2, None));
    /// # Ok::<(), tidegate_limiter::RequestError>(())
    /// ```
    #[must_use]
    pub fn inspect(&self, subject: &Subject<'_>, now: Now) -> SubjectView {
        let (spot, peek) = self.peek(subject, now);
        self.view(subject, spot.is_some(), &peek, now)
    }

    /// What would become of a request now, and why. Changes nothing. A new subject is explained as
    /// if there were memory for it.
    ///
    /// ```
    /// use tidegate_limiter::{
    ///     Cost, Limit, Now, Options, Part, Request, Seed, Subject, Table, Window,
    /// };
    ///
    /// let table = Table::new(Options::default(), Seed::from_bytes([7; 32]));
    /// let window = Window::from_millis(60_000)?;
    /// let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// let request = Request::new(subject, Limit::new(5), Cost::new(2)?);
    /// let now = Now::new(1_700_000_040_000, 0);
    /// let _ = table.decide(&request, now);
    ///
    /// // Half a window later, half of the two count.
    /// let later = now.after_ms(90_000);
    /// let why = table.explain(&request, later);
    /// assert_eq!((why.weight_ms, why.weighted, why.effective), (30_000, 1, 3));
    /// assert_eq!(why.answer, table.decide(&request, later));
    /// assert!(!why.is_by_reservations(), "no batch is in flight");
    /// # Ok::<(), tidegate_limiter::RequestError>(())
    /// ```
    #[must_use]
    pub fn explain(&self, request: &Request<'_>, now: Now) -> Explanation {
        let (spot, peek) = self.peek(&request.subject, now);
        let terms = Terms::of(request);
        let look = &peek.refusal.look;
        let fit = fits(look.used, terms.cost, terms.limit);
        let answer = if fit {
            Answer::admit(request, look)
        } else {
            let reserved = peek.refusal.is_by_reservations(terms);
            let denial = if reserved { Denial::Reserved } else { Denial::Limit };
            Answer::deny(request, &peek.refusal, denial, now)
        };
        let needs = self.regional.as_ref().filter(|_| fit).and_then(|regional| {
            let ledger = spot.map(|spot| spot.ledger);
            would_ask(ledger, &peek, terms, regional.freshness, now)
        });
        let subject = self.view(&request.subject, spot.is_some(), &peek, now);
        let credit = self.is_bounded(request).then(|| subject.credit(terms.limit.get())).flatten();
        let short = credit.filter(|credit| fit && !credit.covers(terms.cost.get()));
        // Who is denied only because others wait for the region, waits with them.
        let waits = credit.filter(|_| answer.denial() == Some(Denial::Reserved));
        let asks = needs.or(short.map(|_| Reason::Credit)).or(waits.map(|_| Reason::Reserved));
        let asked_in_vain = fit && asks.is_some() && peek.retry_at > now.monotonic_ms();
        let answer = match asked_in_vain {
            true if self.denies_unasked(request) => answer.into_outage(wait_ms(peek.retry_at, now)),
            true => answer.into_degraded(),
            false => answer,
        };
        let age_ms = subject.age_ms.unwrap_or(0);
        let elapsed_ms = look.place.elapsed_ms;
        Explanation {
            subject,
            weight_ms: terms.window.as_millis().saturating_sub(elapsed_ms),
            weighted: weigh(look.view.previous, terms.window, elapsed_ms),
            cost: terms.cost.get(),
            effective: look.used.saturating_add(terms.cost.get()),
            limit: terms.limit.get(),
            answer: Answer { age_ms, ..answer },
            asks,
            asked_in_vain,
            consistency: request.consistency,
            outage: request.outage,
            credit,
        }
    }

    /// One look at a subject, in the table or not.
    fn peek(&self, subject: &Subject<'_>, now: Now) -> (Option<Spot<'_>>, Peek) {
        let key = Key::of(subject, &self.seed);
        let shard = self.shard(&key);
        let mut found = shard.find_surely(&key);
        for _ in 0..MOVES_MAX {
            let Some(spot) = found else { break };
            if let Some(peek) = spot.ledger.peek(spot.era, subject.window, now) {
                return (Some(spot), peek);
            }
            // It is being dropped, or was: the lock waits for that.
            found = shard.find_locked(&key);
        }
        let sequence = now.unix_ms() / subject.window.as_millis();
        let both = [Some(sequence), sequence.checked_sub(1)];
        let restored = both.map(|sequence| self.restored_of(subject, sequence, now));
        (None, Peek::of_stranger(subject.window, restored, now))
    }

    fn restored_of(&self, subject: &Subject<'_>, sequence: Option<u64>, now: Now) -> u64 {
        match (&self.restored, sequence) {
            (Some(_), Some(sequence)) => self.restored(self.digest_of(subject), sequence, now),
            _ => 0,
        }
    }

    fn view(&self, subject: &Subject<'_>, known: bool, peek: &Peek, now: Now) -> SubjectView {
        let (window_ms, now_ms) = (subject.window.as_millis(), now.monotonic_ms());
        let place = peek.refusal.look.place;
        let before = peek.sequence.checked_sub(1);
        let [current, previous] = &peek.cells;
        let cell = |held: &Held, sequence: Option<u64>| CellCounts {
            restored: self.restored_of(subject, sequence, now).min(held.peers),
            ..CellCounts::of(held, sequence.unwrap_or(0), window_ms)
        };
        let (until_ms, limit) = peek.strict;
        let left = |until_ms: u64| Some(until_ms.saturating_sub(now_ms)).filter(|ms| *ms > 0);
        let regional = self.regional.as_ref();
        let unrecorded = |held: &Held| held.mine > held.acked;
        SubjectView {
            now,
            digest: self.digest_of(subject),
            window_ms,
            known,
            elapsed_ms: place.elapsed_ms,
            behind: place.behind,
            current: cell(current, Some(peek.sequence)),
            previous: cell(previous, before),
            strict: left(until_ms).map(|left_ms| Strict { left_ms, limit }),
            dirty: regional.is_some() && peek.cells.iter().any(unrecorded),
            age_ms: regional.map(|regional| {
                let globe_ms = regional.globe().age_ms(window_ms, now_ms);
                peek.age_ms(subject.window, regional.freshness.fresh_ms, now).max(globe_ms)
            }),
            fresh_for_ms: regional.map(|_| current.fresh_until.saturating_sub(now_ms)),
            retry_in_ms: regional.and_then(|_| left(peek.retry_at)),
            processes: regional.filter(|regional| !regional.alone).map(|_| peek.company),
            credit_part: regional.map_or(0, |regional| regional.freshness.credit_part),
        }
    }
}
