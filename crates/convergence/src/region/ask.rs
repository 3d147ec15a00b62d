//! What is asked for before it is admitted: who waits, what is sent, and what comes of it.
//!
//! Costs that wait are claimed in the table. They stand in line for their subjects, in the order in
//! which they came; of each subject one ask is under way, and those that come meanwhile go with the
//! next one. A batch stands in several lines and goes when it is the first in all of them: the
//! oldest of all always is. Whatever ends a wait also ends its claims:
//!
//! - granted: they become admissions, also if the caller has left, because the store counts them;
//! - refused: they are given back, and the caller looks again;
//! - no answer: nobody knows whether the store counts them, so they become admissions. What this
//!   process has admitted is then never less than what the store holds of it, and an ask that
//!   arrives late finds more recorded than it says, and grants nothing;
//! - no answer, and the caller is to be denied then: what was sent is charged all the same, for the
//!   same reason, although nobody is admitted; what was not sent is given back. So that an outage
//!   charges little, such a caller does not ask a shard that did not answer last: it reads first.
//!   Nor does it ask when too little of its time is left to hear the answer.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{Asking, Now, Table, Ticket, Wanted};

use super::{Asked, At, CallId, Effect, Entry, Flight, Item, Kind, Outcome, Region, Waiter};
use crate::ask::{Ask, AskCell, AskReply, Grant, Unit, Want};
use crate::store::{Shard, ShardCall, Token};

/// A caller whose costs are claimed.
#[derive(Debug)]
pub(super) struct Asker {
    pub(super) shard: Shard,
    /// Of which something is asked, each once.
    pub(super) subjects: Vec<Ticket>,
    /// Of which something is only held with the rest, each once.
    pub(super) held: Vec<Ticket>,
    /// `None` once the claims have ended.
    pub(super) asking: Option<Asking>,
    /// Under way, or still in line.
    call: Option<CallId>,
    /// Somebody wants to hear what comes of it...
    pub(super) attended: bool,
    /// ...until this moment of the monotonic clock.
    pub(super) until_ms: u64,
}

/// Those who want the same, in the order in which they came.
#[derive(Debug)]
pub(super) struct Together {
    waiters: Vec<Waiter>,
}

/// How a wait ends. [`Region::ask`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// It is granted: the claims are admissions.
    Yes,
    /// It does not fit, or has to be asked for anew: the claims are given back. Look again.
    No,
    /// The region did not answer, or is not asked now: the claims are admissions all the same.
    /// Those of callers that are to be [denied](Asking::denies) are charged if they were sent, and
    /// otherwise given back.
    Unheard,
}

impl Region {
    /// Asks for what is claimed. Whatever comes of it, the claims are taken care of.
    ///
    /// ```
    /// use tidegate_convergence::{Asked, Effect, Granted, MemoryRegion, Region, Tuning};
    /// use tidegate_limiter::{AskedFor, Consistency, Decision};
    /// # use tidegate_limiter::{Cost, Limit, Now, Options, Part, Request, Seed, Subject};
    /// # use tidegate_limiter::{Table, Window};
    /// # let window = Window::from_millis(60_000)?;
    /// # let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// # let request = Request::new(subject, Limit::new(5), Cost::ONE);
    /// # let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
    /// # let (mut store, now) = (MemoryRegion::new(1), Now::new(1_700_000_040_000, 0));
    ///
    /// let request = request.with_consistency(Consistency::Bounded);
    /// let mut region = Region::new(Tuning::default(), 1, 1);
    /// let mut effects = Vec::new();
    /// // A process that has not met its shard yet asks twice.
    /// let answer = loop {
    ///     let Decision::Ask(asking) = table.decide_or_refresh(&request, now) else {
    ///         unreachable!("a small limit is asked for");
    ///     };
    ///     let claimed = asking.claimed().next();
    ///     assert!(matches!(region.ask(&table, asking, now), Asked::Wait(_)));
    ///     region.take_effects(&mut effects);
    ///     for effect in std::mem::take(&mut effects) {
    ///         if let Effect::Call { id, call, .. } = effect {
    ///             region.replied(&table, id, Ok(store.call(&call, 0)), now);
    ///         }
    ///     }
    ///     region.take_effects(&mut effects);
    ///     let Some(Effect::Wake { outcome, .. }) = effects.pop() else { unreachable!() };
    ///     if outcome.granted == Some(Granted::Yes) {
    ///         break table.answer_asked(&request, (AskedFor::Granted, claimed), now);
    ///     }
    /// };
    /// assert_eq!(answer.remaining(), 4);
    /// # Ok::<(), tidegate_limiter::RequestError>(())
    /// ```
    pub fn ask(&mut self, table: &Table, asking: Asking, now: Now) -> Asked {
        self.ask_within(table, asking, self.tuning.deadline_ms, now)
    }

    /// The same for a caller that waits for so long at most, because it has waited before. One that
    /// is to be [denied](Asking::denies) is not asked for when too little time is left to hear of
    /// it: it would be charged for nothing. [`ask`](Self::ask) has an example.
    pub fn ask_within(&mut self, table: &Table, asking: Asking, left_ms: u64, now: Now) -> Asked {
        let at = At { table, now };
        let shard = |wanted: Wanted| {
            let cells = table.cells(wanted.cell.subject)?;
            Some(self.shard_of(cells.current.digest()))
        };
        let Some(shards) = asking.wanted().map(shard).collect::<Option<BTreeSet<Shard>>>() else {
            table.release(asking);
            return Asked::LookAgain;
        };
        let mut shards = shards.into_iter();
        let (Some(shard), None) = (shards.next(), shards.next()) else {
            self.counts.asks_apart += 1;
            table.release(asking);
            return Asked::Apart;
        };
        self.bounded = true;
        if asking.denies() && self.state(shard).is_some_and(|state| state.doubtful) {
            table.release(asking);
            return Asked::ReadFirst;
        }
        let admits = self.state(shard).is_some_and(|state| state.refresh.may_admit(at.ms()));
        if !admits || planted::is(Planted::AskedAside) && self.is_asked(&asking) {
            let subjects = each_once(asking.wanted().map(|wanted| wanted.cell.subject));
            self.end_unasked(at, (&subjects, asking), false);
            return Asked::Unheard;
        }
        let until_ms = at.ms().saturating_add(left_ms);
        if asking.denies() && self.is_late(at, shard, until_ms) {
            self.admit_unheard(at, asking, false);
            return Asked::Unheard;
        }
        let waiter = Waiter(self.next());
        self.stand_in_line(waiter, (shard, until_ms), asking);
        self.counts.asked_for += 1;
        self.send_lines(at, shard);
        Asked::Wait(waiter)
    }

    /// Whether some of it is being asked for.
    fn is_asked(&self, asking: &Asking) -> bool {
        let mut entries = asking.wanted().filter_map(|it| self.subjects.get(&it.cell.subject));
        entries.any(|entry| entry.ask.is_some())
    }

    fn stand_in_line(&mut self, waiter: Waiter, (shard, until_ms): (Shard, u64), asking: Asking) {
        let subjects = each_once(asking.wanted().map(|wanted| wanted.cell.subject));
        let mut held = each_once(asking.held());
        held.retain(|subject| !subjects.contains(subject));
        for subject in &subjects {
            let entry = self.subjects.enter(*subject);
            entry.askers += 1;
            entry.line.push_back(waiter);
        }
        for subject in &held {
            self.subjects.enter(*subject).holders += 1;
        }
        self.free_lines(shard, &subjects);
        let (asking, call, attended) = (Some(asking), None, true);
        let asker = Asker { shard, subjects, held, asking, call, attended, until_ms };
        self.askers.insert(waiter, asker);
    }

    /// A caller does not wait any longer, and wants its answer now: what it claimed is admitted, or
    /// as [`Granted::Unheard`] says. Returns whether that is so; if not, its wait has ended, and
    /// an [`Effect::Wake`] says how. [`ask`](Self::ask) has an example of a wait.
    pub fn give_up(&mut self, table: &Table, waiter: Waiter, now: Now) -> bool {
        let at = At { table, now };
        let Some(asker) = self.askers.get_mut(&waiter) else { return false };
        asker.attended = planted::is(Planted::ToldAgain);
        let Some(asking) = asker.asking.take() else { return false };
        let (subjects, held) =
            (std::mem::take(&mut asker.subjects), std::mem::take(&mut asker.held));
        let (shard, call) = (asker.shard, asker.call);
        let flies = call.is_some();
        if !flies {
            self.askers.remove(&waiter);
        }
        if let Some(flight) = call.and_then(|call| self.calls.get_mut(&call))
            && asking.denies()
        {
            // It is charged and denied: the next one reads first.
            flight.late = true;
            if let Some(state) = self.state(shard) {
                state.doubtful = true;
            }
        }
        // What is under way lands or fails by itself: only that tells the breaker.
        self.admit_unheard(at, asking, flies);
        self.claims_ended(at, shard, (&subjects, &held), false);
        self.send_lines(at, shard);
        true
    }

    /// A caller is gone: what it claimed is given back, unless it is under way.
    pub(super) fn leave_asking(&mut self, at: At<'_>, waiter: Waiter) {
        let Some(asker) = self.askers.get_mut(&waiter) else { return };
        asker.attended = false;
        if asker.call.is_some() {
            return;
        }
        let Some(asker) = self.askers.remove(&waiter) else { return };
        if let Some(asking) = asker.asking {
            at.table.release(asking);
            self.claims_ended(at, asker.shard, (&asker.subjects, &asker.held), false);
            self.send_lines(at, asker.shard);
        }
    }

    /// The claims of a caller have ended: whoever waits for that looks again, and whoever stood
    /// behind may go. What is under way says so itself when it `lands`.
    pub(super) fn claims_ended(
        &mut self,
        at: At<'_>,
        shard: Shard,
        (subjects, held): (&[Ticket], &[Ticket]),
        lands: bool,
    ) {
        for subject in subjects {
            if let Some(entry) = self.subjects.get_mut(subject) {
                entry.askers = entry.askers.saturating_sub(1);
            }
        }
        for subject in held {
            if let Some(entry) = self.subjects.get_mut(subject) {
                entry.holders = entry.holders.saturating_sub(1);
            }
        }
        let subjects = if lands { &[] } else { subjects };
        self.free_lines(shard, subjects);
        for subject in subjects.iter().chain(held) {
            self.wake_later(*subject, true);
            self.schedule(at, *subject);
        }
    }

    pub(super) fn send_ask(&mut self, at: At<'_>, shard: Shard, waiters: Vec<Waiter>) {
        let load = self.load(at, waiters);
        // The breaker counts on what it admits: nothing must be left to send by then.
        let admitted = !load.units.is_empty()
            && self.state(shard).is_some_and(|state| state.refresh.admits(at.ms()));
        let Load { cells, items, units, together, .. } = load;
        if !admitted {
            for item in items {
                self.subjects.enter(item.subject).resend |= item.resend;
            }
            for waiter in together.into_iter().flat_map(|together| together.waiters) {
                self.end_ask(at, waiter, Granted::Unheard);
            }
            return;
        }
        let id = CallId(self.next());
        for waiter in together.iter().flat_map(|together| &together.waiters) {
            if let Some(asker) = self.askers.get_mut(waiter) {
                asker.call = Some(id);
            }
        }
        for item in &items {
            let entry = self.subjects.enter(item.subject);
            entry.sent = Some((item.current, item.total));
            entry.flights += 1;
            entry.ask = Some(id);
        }
        for (item, cell) in items.iter().zip(&cells) {
            if let Some(entry) = self.subjects.get_mut(&item.subject) {
                entry.sent_previous = Some((item.previous, cell.record.previous_total));
            }
        }
        let proposal = Token(self.incarnation.wrapping_add(u128::from(self.next())));
        let (sent_ms, draining, incarnation) = (at.ms(), self.draining, self.incarnation);
        let Some(state) = self.state(shard) else { return };
        (state.used, state.asks_in_flight) = (true, state.asks_in_flight + 1);
        let (generation, identify) = (state.generation, state.server.is_none());
        let present = state.present.is_none().then_some(incarnation);
        let empty = ShardCall::of(shard, proposal, Vec::new());
        // Whoever was never heard of grants nothing: it is not known what it remembers.
        let token = state.token.unwrap_or(proposal);
        let token = if state.token.is_none() { Token(!token.0) } else { token };
        let operation = if planted::is(Planted::SameOperation) { 1 } else { id.0 };
        let ask = Ask { operation, token, cells, units };
        let call = ShardCall { identify, present, ask: Some(ask), ..empty };
        let (kind, late) = (Kind::Ask, false);
        let flight = Flight { shard, generation, kind, sent_ms, draining, late, items, together };
        self.calls.insert(id, flight);
        (self.counts.calls, self.counts.asks) = (self.counts.calls + 1, self.counts.asks + 1);
        self.effects.push(Effect::Call { id, call, timeout_ms: self.tuning.deadline_ms });
    }

    /// What these callers want. Those whose window has just ended look again.
    fn load(&mut self, at: At<'_>, waiters: Vec<Waiter>) -> Load {
        let mut load = Load::default();
        for waiter in waiters {
            let asking = self.askers.get(&waiter).and_then(|asker| asker.asking.as_ref());
            let wanted: Vec<Wanted> = asking.into_iter().flat_map(Asking::wanted).collect();
            let wants: Option<Vec<Want>> =
                wanted.iter().map(|wanted| self.want(at, &mut load, *wanted)).collect();
            match wants {
                Some(wants) => load.add(waiter, wants),
                None => self.end_ask(at, waiter, Granted::No),
            }
        }
        load
    }

    /// One cost of a load. `None` if its cell is not the one that is asked about.
    fn want(&mut self, at: At<'_>, load: &mut Load, wanted: Wanted) -> Option<Want> {
        let place = load.place(wanted.cell.subject, |subject| self.ask_cell(at, subject))?;
        let (item, foreign) = (load.items.get(place)?, load.foreign.get(place)?);
        let head = wanted.limit.get().saturating_sub(*foreign);
        let want = Want { cell: place, cost: wanted.cost.get(), head };
        (item.current == wanted.cell).then_some(want)
    }

    /// What is sent of a subject, and what of other regions counts in it.
    fn ask_cell(&mut self, at: At<'_>, subject: Ticket) -> Option<(Item, AskCell, u64)> {
        let (mut item, record) = self.item(at.table, subject)?;
        item.resend =
            self.subjects.get_mut(&subject).is_some_and(|it| std::mem::take(&mut it.resend));
        let cells = at.table.cells(subject)?;
        let (current, previous) = (cells.current, cells.previous);
        let claimed = match () {
            () if planted::is(Planted::EndedAskIgnored) => previous.mine(),
            () => previous.claimed().max(previous.mine()),
        };
        let cell = AskCell {
            record,
            known: record.total.saturating_add(current.peers()),
            known_previous: claimed.saturating_add(previous.peers()),
            foreign_previous: previous.foreign(),
            rest_ms: cells.rest_ms(at.now),
        };
        Some((item, cell, current.foreign()))
    }

    /// An ask has landed: what became of its units. Everything else is merged as after a read.
    pub(super) fn settle_units(&mut self, at: At<'_>, flight: &Flight, reply: Option<&AskReply>) {
        for (place, together) in flight.together.iter().enumerate() {
            let grant = reply.and_then(|reply| reply.grants.get(place)).copied();
            self.counts.asks_conflicted += u64::from(grant == Some(Grant::Conflict));
            self.counts.asks_estranged += u64::from(grant == Some(Grant::Stranger));
            let granted = match grant {
                Some(Grant::Granted(count)) => usize::try_from(count).unwrap_or(usize::MAX),
                _ => 0,
            };
            for (at_place, waiter) in together.waiters.iter().enumerate() {
                let end = match grant {
                    Some(Grant::Granted(_)) if at_place < granted => Granted::Yes,
                    Some(Grant::Granted(_)) => {
                        self.counts.asks_refused += 1;
                        Granted::No
                    }
                    Some(Grant::Stranger) => Granted::No,
                    Some(Grant::Conflict) | None => Granted::Unheard,
                };
                self.end_ask(at, *waiter, end);
            }
        }
    }

    /// Ends the wait of a caller and its claims.
    pub(super) fn end_ask(&mut self, at: At<'_>, waiter: Waiter, granted: Granted) {
        let Some(asker) = self.askers.remove(&waiter) else { return };
        let lands = asker.call.is_some();
        if let Some(asking) = asker.asking {
            match granted {
                Granted::Yes => at.table.commit(asking),
                Granted::No => at.table.release(asking),
                Granted::Unheard => self.end_unasked(at, (&asker.subjects, asking), lands),
            }
            self.claims_ended(at, asker.shard, (&asker.subjects, &asker.held), lands);
        }
        if asker.attended {
            let outcome = Outcome::asked(granted);
            self.effects.push(Effect::Wake { waiter, outcome });
        }
    }

    /// No answer to what was `sent` or not: the region is not asked again for a moment.
    fn end_unasked(&mut self, at: At<'_>, (subjects, asking): (&[Ticket], Asking), sent: bool) {
        for subject in subjects {
            if let Some(cells) = at.table.cells(*subject) {
                cells.retry_no_sooner(at.ms().saturating_add(self.tuning.ask_retry_ms));
            }
        }
        self.admit_unheard(at, asking, sent);
    }

    /// Nobody knows whether the store counts what was sent: it is charged, so that it is never less
    /// here. What was only held with it is given back, if the caller is to be denied.
    pub(super) fn admit_unheard(&mut self, at: At<'_>, asking: Asking, sent: bool) {
        self.counts.asks_unheard += 1;
        let forgets = planted::is(Planted::OutageForgets) && asking.denies();
        if planted::is(Planted::ForgetUnheard) || forgets {
            at.table.release(asking);
        } else if sent {
            at.table.end_unheard(asking);
        } else {
            at.table.end_unsent(asking);
        }
    }

    /// Wakes those who wait for the end of what others asked for.
    pub(super) fn wake_later(&mut self, subject: Ticket, heard: bool) {
        let later = match self.subjects.get_mut(&subject) {
            Some(entry) => std::mem::take(&mut entry.later),
            None => return,
        };
        for waiter in later {
            self.end_wait(waiter, subject, (false, heard));
        }
    }

    /// Ends all waits, because this process goes on under another name.
    pub(super) fn end_all_asks(&mut self, at: At<'_>) {
        let waiters: Vec<Waiter> = self.askers.keys().copied().collect();
        for waiter in waiters {
            let flies = self.askers.get(&waiter).is_some_and(|asker| asker.call.is_some());
            self.end_ask(at, waiter, if flies { Granted::Unheard } else { Granted::No });
        }
    }
}

fn each_once(subjects: impl Iterator<Item = Ticket>) -> Vec<Ticket> {
    let mut subjects: Vec<Ticket> = subjects.collect();
    subjects.sort_unstable();
    subjects.dedup();
    subjects
}

/// What one ask carries.
#[derive(Default)]
struct Load {
    places: BTreeMap<Ticket, usize>,
    foreign: Vec<u64>,
    cells: Vec<AskCell>,
    items: Vec<Item>,
    units: Vec<Unit>,
    together: Vec<Together>,
}

impl Load {
    /// Where a subject is among the cells.
    fn place(
        &mut self,
        subject: Ticket,
        make: impl FnOnce(Ticket) -> Option<(Item, AskCell, u64)>,
    ) -> Option<usize> {
        if let Some(place) = self.places.get(&subject) {
            return Some(*place);
        }
        let (item, cell, foreign) = make(subject)?;
        let place = self.cells.len();
        self.places.insert(subject, place);
        self.cells.push(cell);
        self.items.push(item);
        self.foreign.push(foreign);
        Some(place)
    }

    /// Adds a caller; those in a row who want the same are one unit.
    fn add(&mut self, waiter: Waiter, wants: Vec<Want>) {
        if let (Some(unit), Some(together)) = (self.units.last_mut(), self.together.last_mut())
            && unit.wants == wants
        {
            unit.count = unit.count.saturating_add(1);
            together.waiters.push(waiter);
            return;
        }
        self.units.push(Unit { wants, count: 1 });
        self.together.push(Together { waiters: vec![waiter] });
    }
}

impl Entry {
    /// Nobody asks for it or holds some of it, and nobody waits for those who do.
    pub(super) const fn is_unasked(&self) -> bool {
        self.askers == 0 && self.holders == 0 && self.ask.is_none()
    }
}
