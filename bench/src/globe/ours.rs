//! Our fleet: the production state machines, one for each process, in virtual time.
//!
//! Decisions are those of a real table. The region is instant and exact: what a process admits all
//! others of its region know at once, and each hears of a subject as often as it would replay it.

mod globes;
mod latency;

use tidegate_convergence::{
    CellReply, GlobalCall, GlobeCounts, GlobeEffect, GlobeTuning, Reply, Rule, ShardCall,
    ShardReply, Touched,
};
use tidegate_limiter::{Cost, Decision, Limit, Request, Ticket};

use super::dense::Dense;
use super::feed::Feed;
use super::fleet::PROCESSES;
use super::world::{Event, Scheme, Spot, World};
use crate::Failure;
use globes::Globes;
use latency::Latency;

/// How long a call takes, to the region or to the database.
const CALL_MS: u64 = 1;
/// How long a process keeps to itself what is too little to be worth a replay.
const REPLAY_MS: u64 = 1_000;
/// Which part of the limit is worth one at once...
const REPLAY_PART: u64 = 64;
/// ...or of the room that is left, for each process of the region.
const REPLAY_ROOM_PART: u64 = 8;

/// Who publishes what a region has used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Publisher {
    /// One of its processes.
    Leader,
    /// Each of them what it sees itself.
    Each,
}

/// See the module.
pub(crate) struct Ours<'a> {
    tuning: GlobeTuning,
    globes: Globes,
    feed: Feed<'a>,
    seats: Dense<Seat>,
    /// What was sent and has not arrived, and places in it that are free.
    under_way: Dense<Option<(usize, GlobeEffect)>>,
    free: Vec<usize>,
    latency: Latency,
    /// Totals published in the current second, and in the worst of those measured.
    second: (u64, u64),
    pub(crate) peak: u64,
}

/// A subject in the table of a process.
#[derive(Clone, Copy, Debug, Default)]
struct Seat {
    ticket: Option<Ticket>,
    /// The window for which the rest is true.
    sequence: u64,
    /// What the region held, and when, when this process last heard of it.
    heard: u64,
    heard_ms: u64,
    /// What this process admitted since.
    unsent: u64,
    /// It will hear of it.
    waits: bool,
}

impl<'a> Ours<'a> {
    pub(crate) fn new(
        world: &mut World,
        feed: Feed<'a>,
        publisher: Publisher,
    ) -> Result<Self, Failure> {
        let tuning = GlobeTuning::default();
        let subjects = world.fleet.places.len();
        Ok(Self {
            tuning,
            globes: Globes::new((tuning, publisher), subjects, &mut world.chance)?,
            feed,
            seats: (0..world.fleet.seats).map(|_| Seat::default()).collect(),
            under_way: Dense::default(),
            free: Vec::new(),
            latency: Latency::new(world.fleet.places.len()),
            second: (0, 0),
            peak: 0,
        })
    }

    /// What all processes counted, together.
    pub(crate) fn counts(&self, world: &World) -> Vec<GlobeCounts> {
        self.globes.counts(world.now())
    }

    /// What each process spent on other regions so far, in ns.
    pub(crate) fn spent_ns(&self) -> Vec<u64> {
        self.globes.spent_ns()
    }

    /// The seat of a subject, in the current window.
    fn seat(&mut self, world: &World, at: Spot) -> Result<Option<Ticket>, Failure> {
        let place = world.fleet.places.at(at.place);
        let person = world.fleet.people.at(place.person);
        let number = place.first_seat + at.rank;
        let seat = *self.seats.at(number);
        let sequence = place.sequence;
        let ticket = match seat.ticket {
            Some(ticket) if seat.sequence == sequence => ticket,
            known => {
                // Asking for nothing brings it into the table and to the current window.
                let look = Request::new(person.subject()?, Limit::new(person.limit), Cost::new(0)?);
                let table = self.globes.table(at.process);
                let ticket = match table.decide_or_refresh(&look, world.now()) {
                    Decision::Refresh(need) => Some(need.subject),
                    Decision::Answered(_) => known,
                    // Nothing is asked for when nothing is wanted.
                    Decision::Ask(asking) => {
                        table.release(asking);
                        known
                    }
                };
                let Some(ticket) = ticket else { return Ok(None) };
                let heard_ms = world.ms.saturating_sub(world.unix_ms() % person.window_ms);
                let waits = seat.waits;
                *self.seats.at_mut(number) =
                    Seat { ticket: Some(ticket), sequence, heard: 0, heard_ms, unsent: 0, waits };
                self.globes.adopt(at.process, ticket, world.now());
                ticket
            }
        };
        self.observe(world, at, ticket);
        Ok(Some(ticket))
    }

    /// Tells a process what its region has recorded.
    fn observe(&self, world: &World, at: Spot, ticket: Ticket) {
        let [current, previous] = world.fleet.places.at(at.place).used;
        let Some(cells) = self.globes.table(at.process).cells(ticket) else { return };
        for (cell, sum) in [(cells.current, current), (cells.previous, previous)] {
            if sum > cell.confirmed() {
                let mine = cell.mine();
                cell.observe_region(sum, mine);
                cell.acknowledge(mine);
            }
        }
    }

    fn decide(&self, world: &World, at: Spot, cost: u64) -> Result<bool, Failure> {
        let person = world.fleet.people.at(world.fleet.places.at(at.place).person);
        let (limit, cost) = (Limit::new(person.limit), Cost::new(cost)?);
        let request = Request::new(person.subject()?, limit, cost);
        Ok(self.globes.table(at.process).decide(&request, world.now()).admitted())
    }

    /// What a process admitted is recorded, and it hears of it at once or later.
    fn record(&mut self, world: &mut World, at: Spot, (ticket, cost): (Ticket, u64)) {
        world.admitted(at.place, cost);
        self.observe(world, at, ticket);
        let place = world.fleet.places.at(at.place);
        let limit = world.fleet.people.at(place.person).limit;
        let used = self.globes.used(at.process, ticket, world.now());
        let processes = PROCESSES.get(place.region).copied().unwrap_or(1) as u64;
        let of_room = limit.saturating_sub(used) / (REPLAY_ROOM_PART * processes);
        let number = place.first_seat + at.rank;
        let seat = self.seats.at_mut(number);
        seat.unsent += cost;
        if seat.unsent >= (limit / REPLAY_PART).min(of_room).max(1) {
            self.hear(world, at.process, (at.place, number));
        } else if !seat.waits {
            seat.waits = true;
            world.at(world.ms + REPLAY_MS, Event::Hear(at.process, at.place));
        }
    }

    /// A process hears what its region holds of a subject.
    fn hear(&mut self, world: &mut World, process: usize, (number, seat): (usize, usize)) {
        let place = world.fleet.places.at(number);
        let seat = self.seats.at_mut(seat);
        let Some(ticket) = seat.ticket.filter(|_| seat.sequence == place.sequence) else { return };
        let (grown, is_untold) = (place.used[0].saturating_sub(seat.heard), seat.heard == 0);
        let over_ms = world.ms.saturating_sub(seat.heard_ms).max(1);
        (seat.heard, seat.heard_ms, seat.unsent) = (place.used[0], world.ms, 0);
        let touched = Touched { subject: ticket, grown, over_ms, is_untold };
        if self.globes.touched(process, touched, world.now()) {
            self.latency.found(number, world.ms);
        }
        self.go_on(world, process);
    }

    /// Sends what a process wants to have sent, and sees to it that it gets its next tick.
    fn go_on(&mut self, world: &mut World, process: usize) {
        for effect in self.globes.take_effects(process) {
            let region = self.globes.region(process);
            self.latency.sent(world, region, &effect);
            let sent = Some((process, effect));
            let number = match self.free.pop() {
                Some(number) => {
                    *self.under_way.at_mut(number) = sent;
                    number
                }
                None => self.under_way.add(sent),
            };
            world.at(world.ms + CALL_MS, Event::Deliver(number));
        }
        if let Some(tick_ms) = self.globes.next_tick(process, world.ms) {
            world.at(tick_ms, Event::Tick(process));
        }
    }

    fn deliver(&mut self, world: &mut World, number: usize) -> Result<(), Failure> {
        let Some((process, effect)) = self.under_way.at_mut(number).take() else { return Ok(()) };
        self.free.push(number);
        let now = world.now();
        match effect {
            GlobeEffect::Board { id, call, .. } => self.globes.board(process, (id, &call), now),
            GlobeEffect::Region { id, call, .. } => {
                let reply = self.read(world, process, &call);
                self.globes.region_replied(process, (id, reply), now);
            }
            GlobeEffect::Global { id, call, .. } => {
                let answered = self.feed.call(&call, world.unix_ms());
                if let Err(why) = &answered {
                    return Err(format!("the global store: {why}").into());
                }
                self.latency.arrived(world, self.globes.whereabouts(process), &answered);
                self.count_second(world, &call);
                self.globes.global_replied(process, (id, answered), now);
            }
        }
        self.go_on(world, process);
        Ok(())
    }

    fn count_second(&mut self, world: &World, call: &GlobalCall) {
        if let GlobalCall::Publish(batch) = call {
            let counters = tidegate_convergence::unpack(&batch.payload).map_or(0, |all| all.len());
            let second = world.ms / 1_000;
            if self.second.0 != second {
                self.second = (second, 0);
            }
            self.second.1 += counters as u64;
            if world.measures() {
                self.peak = self.peak.max(self.second.1);
            }
        }
    }

    /// What the region holds of the cells that a leader asks for.
    fn read(&self, world: &World, process: usize, call: &ShardCall) -> ShardReply {
        let region = self.globes.region(process);
        let of = |sum| CellReply { sum, ..CellReply::default() };
        let replies = call.records.iter().map(|record| {
            let person = world.fleet.find(&record.subject);
            let place = person.and_then(|person| world.fleet.place(person, region));
            let sum =
                |sequence| place.map_or(0, |place| world.fleet.places.at(place).sum(sequence));
            let previous = record.sequence.checked_sub(1).map_or(0, sum);
            Some(Reply { current: of(sum(record.sequence)), previous: of(previous) })
        });
        let (server, present, asked) = (None, None, None);
        ShardReply { token: call.proposal, server, present, replies: replies.collect(), asked }
    }
}

impl Scheme for Ours<'_> {
    fn begin(&mut self, world: &mut World) -> Result<(), Failure> {
        for process in 0..self.globes.len() {
            let ms = 1 + world.chance.roll() % 1_000;
            world.at(ms, Event::Tick(process));
        }
        Ok(())
    }

    fn admit(&mut self, world: &mut World, at: Spot, cost: u64) -> Result<u64, Failure> {
        let Some(ticket) = self.seat(world, at)? else { return Ok(0) };
        let mut admitted = cost;
        if !self.decide(world, at, cost)? {
            // Requests that come together are not one: those that fit are admitted.
            let person = world.fleet.people.at(world.fleet.places.at(at.place).person);
            let used = self.globes.used(at.process, ticket, world.now());
            admitted = person.limit.saturating_sub(used).min(cost);
            if admitted == 0 || !self.decide(world, at, admitted)? {
                return Ok(0);
            }
        }
        self.record(world, at, (ticket, admitted));
        Ok(admitted)
    }

    fn happen(&mut self, world: &mut World, event: Event) -> Result<(), Failure> {
        match event {
            Event::Tick(process) => {
                if self.globes.tick(process, world.now()) {
                    self.go_on(world, process);
                }
            }
            Event::Hear(process, place) => {
                world.roll(place);
                let rank = self.globes.whereabouts(process).1;
                let seat = world.fleet.places.at(place).first_seat + rank;
                self.seats.at_mut(seat).waits = false;
                if self.seats.at(seat).unsent > 0 {
                    self.hear(world, process, (place, seat));
                }
            }
            Event::Deliver(number) => self.deliver(world, number)?,
            Event::Sync(_) | Event::Arrive(_) => {}
        }
        Ok(())
    }

    fn is_silent(&self, limit: u64, current: u64, weighted_previous: u64) -> bool {
        let Rule::Budget { quiet_part, .. } = self.tuning.rule else { return false };
        let regions = PROCESSES.len() as u64;
        let speaks = (limit / (quiet_part * regions)).max(1);
        current + weighted_previous < speaks
    }
}
