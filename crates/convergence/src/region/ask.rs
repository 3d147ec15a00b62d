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
//!   arrives late finds more recorded than it says, and grants nothing.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{Asking, Now, Table, Ticket, Wanted};

use super::{Asked, At, CallId, Effect, Entry, Flight, Item, Kind, Outcome, Region, Waiter};
use crate::ask::{Ask, AskCell, AskReply, Grant, Unit, Want};
use crate::store::{Shard, ShardCall, Token};

/// A caller whose costs are claimed.
#[derive(Debug)]
pub(super) struct Asker {
    shard: Shard,
    /// Of which something is asked, each once.
    subjects: Vec<Ticket>,
    /// `None` once the claims have ended.
    asking: Option<Asking>,
    /// Under way, or still in line.
    call: Option<CallId>,
    /// Somebody wants to hear what comes of it.
    attended: bool,
}

/// What is to be done with the first in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It goes.
    Goes,
    /// Its window is over.
    Over,
    /// It is not the first everywhere, or something is under way.
    Waits,
}

/// Those who want the same, in the order in which they came.
#[derive(Debug)]
pub(super) struct Together {
    waiters: Vec<Waiter>,
}

/// How a wait ends: see [`Region::ask`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// It is granted: the claims are admissions.
    Yes,
    /// It does not fit, or has to be asked for anew: the claims are given back. Look again.
    No,
    /// The region did not answer, or is not asked now: the claims are admissions all the same.
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
    ///         break table.answer_asked(&request, AskedFor::Granted, now);
    ///     }
    /// };
    /// assert_eq!(answer.remaining(), 4);
    /// # Ok::<(), tidegate_limiter::RequestError>(())
    /// ```
    pub fn ask(&mut self, table: &Table, asking: Asking, now: Now) -> Asked {
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
        if !self.state(shard).is_some_and(|state| state.refresh.may_admit(at.ms())) {
            self.end_unasked(at, (&subjects_of(&asking), asking));
            return Asked::Unheard;
        }
        let waiter = Waiter(self.next());
        let subjects = subjects_of(&asking);
        for subject in &subjects {
            let entry = self.subjects.entry(*subject).or_default();
            entry.askers += 1;
            entry.line.push_back(waiter);
        }
        self.free_lines(shard, &subjects);
        let asker = Asker { shard, subjects, asking: Some(asking), call: None, attended: true };
        self.askers.insert(waiter, asker);
        self.counts.asked_for += 1;
        self.send_lines(at, shard);
        Asked::Wait(waiter)
    }

    /// A caller does not wait any longer, and wants its answer now: what it claimed is admitted.
    /// Says whether that is so; if not, its wait has ended already, and an [`Effect::Wake`] says
    /// how. See [`ask`](Self::ask).
    pub fn give_up(&mut self, table: &Table, waiter: Waiter, now: Now) -> bool {
        let at = At { table, now };
        let Some(asker) = self.askers.get_mut(&waiter) else { return false };
        asker.attended = false;
        let Some(asking) = asker.asking.take() else { return false };
        let (shard, subjects) = (asker.shard, std::mem::take(&mut asker.subjects));
        if asker.call.is_none() {
            self.askers.remove(&waiter);
        }
        // What is under way lands or fails by itself: only that says whether the region answers.
        self.admit_unheard(at, asking);
        self.leave_lines(at, shard, &subjects);
        true
    }

    /// A caller is gone: what it claimed is given back, unless it is under way.
    pub(super) fn leave_asking(&mut self, at: At<'_>, waiter: Waiter) {
        let Some(asker) = self.askers.get_mut(&waiter) else { return };
        asker.attended = false;
        if asker.call.is_none()
            && let Some(Asker { shard, subjects, asking: Some(asking), .. }) =
                self.askers.remove(&waiter)
        {
            at.table.release(asking);
            self.leave_lines(at, shard, &subjects);
        }
    }

    /// Someone is gone from these lines: whoever stood behind may go.
    fn leave_lines(&mut self, at: At<'_>, shard: Shard, subjects: &[Ticket]) {
        for subject in subjects {
            if let Some(entry) = self.subjects.get_mut(subject) {
                entry.askers = entry.askers.saturating_sub(1);
            }
            self.wake_later(*subject, true);
        }
        self.free_lines(shard, subjects);
        self.send_lines(at, shard);
        for subject in subjects {
            self.schedule(at, *subject);
        }
    }

    /// Lines that may move, unless something of theirs is under way.
    pub(super) fn free_lines(&mut self, shard: Shard, subjects: &[Ticket]) {
        for subject in subjects {
            let Some(entry) = self.subjects.get_mut(subject) else { continue };
            let moves = entry.ask.is_none() && !entry.line.is_empty();
            if moves
                && !std::mem::replace(&mut entry.free, true)
                && let Some(state) = self.state(shard)
            {
                state.free.push_back(*subject);
            }
        }
    }

    /// Sends what stands in line, as long as the shard takes it.
    pub(super) fn send_lines(&mut self, at: At<'_>, shard: Shard) {
        let most = self.tuning.asks_in_flight_max.max(1);
        while let Some(state) = self.state(shard)
            && state.asks_in_flight < most
            && !state.free.is_empty()
        {
            let waiters = self.take_lines(at, shard);
            if waiters.is_empty() {
                continue;
            }
            let admitted = self.state(shard).is_some_and(|state| state.refresh.admits(at.ms()));
            if admitted {
                self.send_ask(at, shard, waiters);
            } else {
                for waiter in waiters {
                    self.end_ask(at, waiter, Granted::Unheard);
                }
            }
        }
    }

    /// Takes those who are first, up to what one ask holds. Those whose window is over look again.
    fn take_lines(&mut self, at: At<'_>, shard: Shard) -> Vec<Waiter> {
        let (mut taken, mut wants) = (Vec::new(), 0);
        while wants < self.tuning.ask_wants_max
            && let Some(subject) = self.state(shard).and_then(|state| state.free.pop_front())
        {
            if let Some(entry) = self.subjects.get_mut(&subject) {
                entry.free = false;
            }
            while let Some(waiter) = self.first_in(subject) {
                if wants >= self.tuning.ask_wants_max {
                    self.free_lines(shard, &[subject]);
                    break;
                }
                match self.turn_of(at, waiter) {
                    Turn::Waits => break,
                    Turn::Over => {
                        self.step_out(waiter);
                        self.end_ask(at, waiter, Granted::No);
                    }
                    Turn::Goes => {
                        wants += usize::from(!self.wants_same(taken.last(), waiter));
                        self.step_out(waiter);
                        taken.push(waiter);
                    }
                }
            }
        }
        taken
    }

    /// The first in a line who has not left it.
    fn first_in(&mut self, subject: Ticket) -> Option<Waiter> {
        loop {
            let waiter = *self.subjects.get(&subject)?.line.front()?;
            if self.askers.contains_key(&waiter) {
                return Some(waiter);
            }
            self.subjects.get_mut(&subject)?.line.pop_front();
        }
    }

    fn turn_of(&mut self, at: At<'_>, waiter: Waiter) -> Turn {
        let Some(asker) = self.askers.get(&waiter) else { return Turn::Over };
        let current = |wanted: Wanted| {
            let cells = at.table.cells(wanted.cell.subject);
            cells.is_some_and(|cells| cells.current.ticket(wanted.cell.subject) == wanted.cell)
        };
        if !asker.asking.as_ref().is_some_and(|asking| asking.wanted().all(current)) {
            return Turn::Over;
        }
        for subject in asker.subjects.clone() {
            let flies = self.subjects.get(&subject).is_none_or(|entry| entry.ask.is_some());
            if flies || self.first_in(subject) != Some(waiter) {
                return Turn::Waits;
            }
        }
        Turn::Goes
    }

    /// Takes one who is first out of its lines; one who is not is left out when it would be.
    fn step_out(&mut self, waiter: Waiter) {
        let Some(asker) = self.askers.get(&waiter) else { return };
        for subject in &asker.subjects {
            if let Some(entry) = self.subjects.get_mut(subject) {
                entry.line.pop_front_if(|first| *first == waiter);
            }
        }
    }

    /// Whether a caller wants what the one before it does: together they are one unit.
    fn wants_same(&self, before: Option<&Waiter>, waiter: Waiter) -> bool {
        let asking = |waiter| self.askers.get(waiter).and_then(|asker| asker.asking.as_ref());
        match (before.and_then(asking), asking(&waiter)) {
            (Some(before), Some(asking)) => before.wanted().eq(asking.wanted()),
            _ => false,
        }
    }

    fn send_ask(&mut self, at: At<'_>, shard: Shard, waiters: Vec<Waiter>) {
        let id = CallId(self.next());
        let mut load = Load::default();
        for waiter in waiters {
            let asking = self.askers.get(&waiter).and_then(|asker| asker.asking.as_ref());
            let wanted: Vec<Wanted> = asking.into_iter().flat_map(Asking::wanted).collect();
            let wants: Option<Vec<Want>> =
                wanted.iter().map(|wanted| self.want(at, &mut load, *wanted)).collect();
            match (wants, self.askers.get_mut(&waiter)) {
                (Some(wants), Some(asker)) => {
                    asker.call = Some(id);
                    load.add(waiter, wants);
                }
                // Its window has just ended.
                _ => {
                    let subjects = self.askers.get(&waiter).map(|asker| asker.subjects.clone());
                    self.end_ask(at, waiter, Granted::No);
                    self.free_lines(shard, &subjects.unwrap_or_default());
                }
            }
        }
        let Load { cells, items, units, together, .. } = load;
        if units.is_empty() {
            return;
        }
        for item in &items {
            let entry = self.subjects.entry(item.subject).or_default();
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
        let kind = Kind::Ask;
        let flight = Flight { shard, generation, kind, sent_ms, draining, items, together };
        self.calls.insert(id, flight);
        (self.counts.calls, self.counts.asks) = (self.counts.calls + 1, self.counts.asks + 1);
        self.effects.push(Effect::Call { id, call, timeout_ms: self.tuning.deadline_ms });
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
            let granted = match grant {
                Some(Grant::Granted(count)) => usize::try_from(count).unwrap_or(usize::MAX),
                _ => 0,
            };
            for (at_place, waiter) in together.waiters.iter().enumerate() {
                let end = match grant {
                    Some(Grant::Granted(_)) if at_place < granted => Granted::Yes,
                    Some(Grant::Granted(_) | Grant::Stranger) => Granted::No,
                    Some(Grant::Conflict) | None => Granted::Unheard,
                };
                self.end_ask(at, *waiter, end);
            }
        }
    }

    /// Ends the wait of a caller and its claims.
    pub(super) fn end_ask(&mut self, at: At<'_>, waiter: Waiter, granted: Granted) {
        let Some(asker) = self.askers.remove(&waiter) else { return };
        if let Some(asking) = asker.asking {
            for subject in &asker.subjects {
                if let Some(entry) = self.subjects.get_mut(subject) {
                    entry.askers = entry.askers.saturating_sub(1);
                }
            }
            match granted {
                Granted::Yes => at.table.commit(asking),
                Granted::No => {
                    self.counts.asks_refused += 1;
                    at.table.release(asking);
                }
                Granted::Unheard => self.end_unasked(at, (&asker.subjects, asking)),
            }
        }
        if asker.attended {
            let outcome = Outcome::asked(granted);
            self.effects.push(Effect::Wake { waiter, outcome });
        }
    }

    /// No answer: what is claimed is admitted, and the region is not asked again for a moment.
    fn end_unasked(&mut self, at: At<'_>, (subjects, asking): (&[Ticket], Asking)) {
        for subject in subjects {
            if let Some(cells) = at.table.cells(*subject) {
                cells.retry_no_sooner(at.ms().saturating_add(self.tuning.ask_retry_ms));
            }
        }
        self.admit_unheard(at, asking);
    }

    /// Nobody knows whether the store counts it: it is admitted, so that it is never less here.
    fn admit_unheard(&mut self, at: At<'_>, asking: Asking) {
        self.counts.asks_unheard += 1;
        if planted::is(Planted::ForgetUnheard) {
            at.table.release(asking);
        } else {
            at.table.commit(asking);
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

/// The subjects that something is asked of, each once.
fn subjects_of(asking: &Asking) -> Vec<Ticket> {
    let mut subjects: Vec<Ticket> = asking.wanted().map(|wanted| wanted.cell.subject).collect();
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
    /// Nobody asks for it, and nobody waits for those who do.
    pub(super) const fn is_unasked(&self) -> bool {
        self.askers == 0 && self.ask.is_none()
    }
}
