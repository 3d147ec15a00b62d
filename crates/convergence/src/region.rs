//! How one process speaks with its region: a state machine that is told what happened and says
//! what to do. It opens no socket and reads no clock.
//!
//! - [`tick`](Region::tick): subjects that admitted something are *replayed*: at once if it is
//!   significant, otherwise within seconds, together. What is not acknowledged is sent again.
//! - [`refresh`](Region::refresh): an admission that has to hear of the others first waits for one
//!   call, which records and reads at once. Whoever needs the same shares it.
//! - [`ask`](Region::ask): an admission that the region has to grant waits for one call too, which
//!   records, reads and grants at once.
//! - [`replied`](Region::replied): what a store answered is merged into the table.
//! - A shard that lost its data is noticed by its token; everything alive is sent again.

mod ask;
mod counts;
mod due;
mod line;
mod loss;
mod merge;
mod refresh;
mod replay;
mod state;
mod subjects;
mod unrecorded;

use std::collections::BTreeMap;

use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{Now, Table, Ticket, Walk};

pub use ask::Granted;
pub use counts::RegionCounts;

use crate::store::{Component, Record, Shard, ShardCall, ShardReply, StoreError, Token};
use crate::tuning::Tuning;
use ask::Asker;
use due::Due;
use loss::Resend;
use state::{Entry, Flight, Item, Kind, ShardState, Wait};
use subjects::Subjects;
use unrecorded::Unrecorded;

/// Names a call until its answer comes. The [crate](crate) begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(u64);

/// Names a caller that waits. The [crate](crate) begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Waiter(u64);

/// What has to be done. The [crate](crate) begins with an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Call the store. The answer, or that none came in time, goes to [`Region::replied`].
    Call {
        /// Its name.
        id: CallId,
        /// What to send.
        call: ShardCall,
        /// How long to wait for the answer.
        timeout_ms: u64,
    },
    /// Tell a caller that its wait is over.
    Wake {
        /// Which one.
        waiter: Waiter,
        /// What came of it.
        outcome: Outcome,
    },
    /// Another process has this one's identity. Draw a new one and say it to
    /// [`Region::reincarnate`].
    Reincarnate,
}

/// What a caller waited for. The [crate](crate) begins with an example.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Subjects of which nothing was heard.
    pub unheard: Vec<Ticket>,
    /// The read it found under way was older than its question: it has to look again, and ask
    /// again if it still would be admitted.
    pub look_again: bool,
    /// What came of what it [asked for](Region::ask).
    pub granted: Option<Granted>,
}

impl Outcome {
    const fn asked(granted: Granted) -> Self {
        Self { unheard: Vec::new(), look_again: false, granted: Some(granted) }
    }
}

/// What a caller that has claimed something does: see [`Region::ask`]. The [crate](crate) begins
/// with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Asked {
    /// It waits for an [`Effect::Wake`] with its name.
    Wait(Waiter),
    /// The region is not asked now: what was claimed is admitted; or given back, if the caller is
    /// to be [denied](tidegate_limiter::Asking::denies).
    Unheard,
    /// The caller is to be denied if the region does not answer, and it did not answer last: what
    /// was claimed is given back. Read, which charges nobody, and look again if that is heard.
    ReadFirst,
    /// The subjects are in several shards, which cannot grant together: what was claimed is given
    /// back. Read them, and decide on that.
    Apart,
    /// The subjects were dropped meanwhile, and with them the claims: look again.
    LookAgain,
}

/// What a caller that needs the region does. The [crate](crate) begins with an example.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Refresh {
    /// It waits for an [`Effect::Wake`] with its name.
    Wait(Waiter),
    /// The region is not asked now: decide on what is known.
    Refused,
    /// The subjects were dropped meanwhile: look again.
    LookAgain,
}

/// A subject of which the region has recorded more, or that this process has just begun to serve.
/// The [crate](crate) begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// The subject.
    pub subject: Ticket,
    /// How much the region's total of the current cell grew...
    pub grown: u64,
    /// ...since it was last heard of, this long ago.
    pub over_ms: u64,
    /// What regions have published of it is to be told: nothing was heard of that cell before, or
    /// an ask of it was answered.
    pub is_untold: bool,
}

/// One process's conversation with its region. The [crate](crate) begins with an example.
#[derive(Debug)]
pub struct Region {
    tuning: Tuning,
    incarnation: u128,
    shards: Vec<ShardState>,
    subjects: Subjects,
    unrecorded: Unrecorded,
    /// When subjects are to be replayed.
    due: Due,
    calls: BTreeMap<CallId, Flight>,
    waiters: BTreeMap<Waiter, Wait>,
    /// Callers that have claimed something.
    askers: BTreeMap<Waiter, Asker>,
    /// Something was ever asked for: others have to know that this process is there.
    bounded: bool,
    /// For names and tokens that were never used before.
    last: u64,
    counts: RegionCounts,
    /// Noted by admissions, and not looked at yet.
    noted: Vec<Ticket>,
    draining: bool,
    /// Another process has this one's identity, and a new one is on its way.
    clashing: bool,
    effects: Vec<Effect>,
    /// What grew, if anybody wants to know.
    touched: Option<Vec<Touched>>,
}

/// Where and when something happens.
#[derive(Clone, Copy, Debug)]
struct At<'a> {
    table: &'a Table,
    now: Now,
}

impl At<'_> {
    const fn ms(self) -> u64 {
        self.now.monotonic_ms()
    }
}

impl Region {
    /// A process with a random identity, in front of a store with so many shards. The
    /// [crate](crate) begins with an example.
    #[must_use]
    pub fn new(tuning: Tuning, incarnation: u128, shards: u16) -> Self {
        let shards = (0..shards.max(1)).map(|_| ShardState::new(&tuning)).collect();
        Self {
            tuning,
            incarnation,
            shards,
            subjects: Subjects::default(),
            unrecorded: Unrecorded::default(),
            due: Due::default(),
            calls: BTreeMap::new(),
            waiters: BTreeMap::new(),
            askers: BTreeMap::new(),
            bounded: false,
            last: 0,
            counts: RegionCounts::default(),
            noted: Vec::new(),
            draining: false,
            clashing: false,
            effects: Vec::new(),
            touched: None,
        }
    }

    /// From now on [`take_touched`](Self::take_touched) says what grew. The [crate](crate) begins
    /// with an example.
    pub fn watch_growth(&mut self) {
        self.touched.get_or_insert_default();
    }

    /// Takes what grew since the last time. The [crate](crate) begins with an example.
    pub fn take_touched(&mut self, into: &mut Vec<Touched>) {
        if let Some(touched) = &mut self.touched {
            into.append(touched);
        }
    }

    /// The identity under which totals are recorded. The [crate](crate) begins with an example.
    #[must_use]
    pub const fn incarnation(&self) -> u128 {
        self.incarnation
    }

    /// A caller is gone, and wants no answer. The call it waited for goes on. The [crate](crate)
    /// begins with an example.
    pub fn leave(&mut self, table: &Table, waiter: Waiter, now: Now) {
        self.waiters.remove(&waiter);
        self.leave_asking(At { table, now }, waiter);
    }

    /// Does what is due. Call it when the table has something to tell, and no later than
    /// [`next_tick_ms`](Self::next_tick_ms). The [crate](crate) begins with an example.
    pub fn tick(&mut self, table: &Table, now: Now) {
        let at = At { table, now };
        self.take_noted(at);
        self.go_on_resending(at);
        self.ask_tokens(at);
        self.replay_due(at);
    }

    /// Takes what has to be done, in order. The [crate](crate) begins with an example.
    pub fn take_effects(&mut self, into: &mut Vec<Effect>) {
        into.append(&mut self.effects);
    }

    /// The moment of the monotonic clock at which [`tick`](Self::tick) has something to do. The
    /// [crate](crate) begins with an example.
    #[must_use]
    pub fn next_tick_ms(&self) -> Option<u64> {
        let due = self.due.first_ms();
        let shards = self.shards.iter().filter_map(|state| state.next_ms(&self.tuning));
        // What was more than one step could do is to be done at once.
        let noted = (!self.noted.is_empty()).then_some(0);
        due.into_iter().chain(shards).chain(noted).min()
    }

    /// From now on nothing waits: everything is sent at once, and every shard is asked whether it
    /// still has what it acknowledged. Over when it [is clean](Self::is_clean). The [crate](crate)
    /// begins with an example.
    pub fn drain(&mut self, now: Now) {
        self.draining = true;
        for state in &mut self.shards {
            // What was acknowledged may be lost since: the shard is asked once more who it is.
            (state.next_token_ms, state.trusted) = (now.monotonic_ms(), !state.used);
        }
        for subject in self.subjects.tickets() {
            self.due_at(subject, now.monotonic_ms());
        }
    }

    /// How things stand. The [crate](crate) begins with an example.
    #[must_use]
    pub fn counts(&self, table: &Table) -> RegionCounts {
        self.count(table, usize::MAX)
    }

    /// The same in bounded time: of more than some thousands of subjects, what the region has not
    /// recorded is reckoned from those. See [`counts`](Self::counts) for an example.
    #[must_use]
    pub fn glance(&self, table: &Table) -> RegionCounts {
        self.count(table, GLANCE_SUBJECTS)
    }

    fn count(&self, table: &Table, most: usize) -> RegionCounts {
        let dirty = self.subjects.len() as u64;
        let mut counts = RegionCounts { dirty, ..self.counts };
        for (subject, entry) in self.subjects.iter().take(most) {
            counts.unreplayed_cost += unrecorded(table, *subject, entry.lost);
        }
        if self.subjects.len() > most {
            let (cost, some) = (u128::from(counts.unreplayed_cost), most.max(1) as u128);
            let all = cost * u128::from(dirty) / some;
            counts.unreplayed_cost = u64::try_from(all).unwrap_or(u64::MAX);
        }
        let resent = self.shards.iter().filter_map(|state| state.resend.as_ref());
        for subject in resent.flat_map(Resend::found).take(most) {
            counts.unreplayed_cost += unrecorded(table, *subject, true);
        }
        for state in &self.shards {
            counts.asked += state.asked.len() as u64;
            let (refresh, replay) = (state.refresh.state(), state.replay.state());
            counts.count_breaker(refresh);
            counts.count_breaker(replay);
            counts.refresh_breaker = counts.refresh_breaker.max(refresh);
            counts.replay_breaker = counts.replay_breaker.max(replay);
        }
        counts
    }

    /// How old the oldest cost can be, in ms, that the region has not recorded; 0 if there is none.
    /// The [crate](crate) begins with an example.
    #[must_use]
    pub fn unrecorded_age_ms(&self, now: Now) -> u64 {
        self.unrecorded.age_ms(now.monotonic_ms())
    }

    /// Whether everything admitted so far is recorded. The [crate](crate) begins with an example.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        let told = |state: &ShardState| state.resend.is_none() && state.trusted;
        self.subjects.is_empty() && self.noted.is_empty() && self.shards.iter().all(told)
    }

    /// Goes on under another identity, after another process was found to have this one's. What was
    /// recorded under the old one is that process's now; everything is cold. The [crate](crate)
    /// begins with an example.
    pub fn reincarnate(&mut self, table: &Table, incarnation: u128, now: Now) {
        self.end_all_asks(At { table, now });
        (self.incarnation, self.clashing) = (incarnation, false);
        table.forget_all();
        // Those of whom something is claimed at this moment stay, and note themselves again.
        table.walk(&mut Walk::default(), usize::MAX, |subject| {
            if let Some(cells) = table.cells(subject) {
                cells.current.replay_from(0);
                cells.previous.replay_from(0);
            }
        });
        self.unrecorded.clear();
        self.due.clear();
        self.calls.clear();
        let mut subjects = std::mem::take(&mut self.subjects);
        for subject in subjects.tickets() {
            let Some(entry) = subjects.get_mut(&subject) else { continue };
            let Entry { waiters, later, .. } = std::mem::take(entry);
            for waiter in waiters.into_iter().chain(later) {
                self.end_wait(waiter, subject, (false, false));
            }
        }
        for state in &mut self.shards {
            // What is under way will not be heard of again: a breaker must not wait for it.
            let resumed = ShardState::new(&self.tuning);
            let ShardState { token, server, generation, used, trusted, .. } = *state;
            let (next_token_ms, present) = (state.next_token_ms, state.present);
            let kept = ShardState { token, server, generation, used, ..resumed };
            *state = ShardState { trusted, next_token_ms, present, ..kept };
        }
    }

    /// Sends the totals of these subjects, which all belong to one shard, and says of which.
    fn send(&mut self, at: At<'_>, shard: Shard, kind: Kind, subjects: &[Ticket]) -> Vec<Ticket> {
        let id = CallId(self.next());
        let count = subjects.len();
        let (mut items, mut records) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut sent = Vec::with_capacity(count);
        for subject in subjects {
            if let Some((mut item, record)) = self.item(at.table, *subject) {
                let entry = self.subjects.enter(*subject);
                item.resend = std::mem::take(&mut entry.resend);
                entry.sent = Some((item.current, record.total));
                entry.sent_previous = Some((item.previous, record.previous_total));
                entry.flights += 1;
                if kind == Kind::Refresh {
                    entry.refresh = Some(id);
                }
                items.push(item);
                records.push(record);
                sent.push(*subject);
            }
        }
        let proposal = Token(self.incarnation.wrapping_add(u128::from(self.next())));
        let timeout_ms = match kind {
            Kind::Ask | Kind::Refresh => self.tuning.deadline_ms,
            Kind::Replay | Kind::Token => self.tuning.replay_timeout_ms,
        };
        let Some(state) = self.state(shard) else { return sent };
        state.used = true;
        let generation = state.generation;
        // Who recorded the first totals must be known too, or the next one is taken for it.
        let identify = kind == Kind::Token || state.server.is_none();
        match kind {
            Kind::Refresh => state.refreshes_in_flight += 1,
            Kind::Replay => {
                state.replays_in_flight += 1;
                state.replayed_ms = Some(at.ms());
            }
            Kind::Ask | Kind::Token => {}
        }
        self.counts.calls += 1;
        let (sent_ms, draining, together) = (at.ms(), self.draining, Vec::new());
        let late = false;
        let flight = Flight { shard, generation, kind, sent_ms, draining, late, items, together };
        self.calls.insert(id, flight);
        let awaited = kind == Kind::Refresh;
        let asks = self.bounded && kind == Kind::Token;
        let present = asks.then_some(self.incarnation);
        let records = ShardCall::of(shard, proposal, records);
        let call = ShardCall { identify, present, awaited, ..records };
        self.effects.push(Effect::Call { id, call, timeout_ms });
        sent
    }

    /// What is sent of a subject, if it still is in the table.
    fn item(&self, table: &Table, subject: Ticket) -> Option<(Item, Record)> {
        let cells = table.cells(subject)?;
        let (current, previous) = (cells.current, cells.previous);
        // What is acknowledged is read before what is admitted, so that it is never more.
        let acked = current.acked();
        let total = current.mine();
        let life = if planted::is(Planted::SameComponent) { 0 } else { current.life() };
        let component = Component { incarnation: self.incarnation, life };
        let record = Record {
            subject: current.digest(),
            window_ms: cells.window_ms,
            sequence: cells.sequence,
            component,
            total,
            previous_total: if planted::is(Planted::NoPrevious) { 0 } else { previous.mine() },
        };
        let (current, previous) = (current.ticket(subject), previous.ticket(subject));
        Some((Item { subject, current, previous, acked, total, resend: false }, record))
    }

    fn state(&mut self, shard: Shard) -> Option<&mut ShardState> {
        self.shards.get_mut(usize::from(shard.0))
    }

    fn shard_of(&self, subject: tidegate_limiter::Digest) -> Shard {
        Shard::of(subject, u16::try_from(self.shards.len()).unwrap_or(u16::MAX))
    }

    fn all_shards(&self) -> impl Iterator<Item = Shard> + use<> {
        (0..u16::try_from(self.shards.len()).unwrap_or(u16::MAX)).map(Shard)
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// One read that a caller waited for has ended: it was `heard`, or it was too old for it.
    fn end_wait(&mut self, waiter: Waiter, subject: Ticket, (heard, look_again): (bool, bool)) {
        let Some(wait) = self.waiters.get_mut(&waiter) else { return };
        wait.left = wait.left.saturating_sub(1);
        wait.outcome.look_again |= look_again;
        if !heard && !look_again {
            wait.outcome.unheard.push(subject);
        }
        if wait.left == 0
            && let Some(wait) = self.waiters.remove(&waiter)
        {
            self.effects.push(Effect::Wake { waiter, outcome: wait.outcome });
        }
    }
}

/// Subjects that a glance looks at: well below a millisecond, for which callers have to wait.
const GLANCE_SUBJECTS: usize = 4_096;

/// What the region has not recorded of a subject: everything, if it lost what it had.
fn unrecorded(table: &Table, subject: Ticket, lost: bool) -> u64 {
    let Some(cells) = table.cells(subject) else { return 0 };
    let cells = [cells.current, cells.previous].into_iter();
    cells.map(|cell| cell.mine().saturating_sub(if lost { 0 } else { cell.acked() })).sum()
}

/// What a store answered, or why it did not. The [crate](crate) begins with an example.
pub type Answered = Result<ShardReply, StoreError>;

#[cfg(test)]
mod tests;
