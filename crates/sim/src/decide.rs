//! Requests: how they come and how they are decided.

use tidegate_convergence::Refresh;
use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{
    Answer, Batch, BatchDecision, Decision, Denial, Need, Now, Request, Ticket,
};

use crate::ghost::{Ghost, Gone, Reading};
use crate::node::{Ask, Caller, Process};
use crate::options::{Fault, Traffic};
use crate::truth::End;
use crate::world::{Event, World};

/// How far a caller is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It just came.
    First,
    /// It waited for a read that was older than its question.
    Again,
    /// It waited, and this was not heard of; `None` if it waited in vain.
    Last(Option<Vec<Ticket>>),
}

/// How a caller was answered.
pub(crate) struct Concluded {
    pub(crate) admitted: bool,
    pub(crate) answers: Vec<Answer>,
    pub(crate) reading: Reading,
    /// It asked the region first.
    pub(crate) asked: bool,
    /// It asked and heard nothing.
    pub(crate) in_vain: bool,
}

impl World {
    /// The next request comes, and the one after it is put into the queue.
    pub(crate) fn arrive(&mut self) {
        if self.requests_left == 0 || self.healed {
            return;
        }
        self.requests_left -= 1;
        self.report.events += 1;
        let gap_us = self.gap_us();
        self.queue.push(self.now_us + gap_us, Event::Arrive);
        let any = self.workload.index(self.nodes.len());
        let batch = self.workload.percent(self.options.batch_percent);
        let items = if batch { self.workload.between(2, 4) } else { 1 };
        let asks: Vec<Ask> = (0..items).map(|_| self.ask()).collect();
        let node = self.node_for(any, &asks);
        let held = self.nodes.get(node).filter(|node| node.paused_until_us <= self.now_us);
        let process = held.and_then(|node| node.process.as_ref()).filter(|p| !p.draining);
        let Some(number) = process.map(|process| process.number) else { return };
        self.with_process(node, number, |world, process| {
            let deadline_us = world.now_us + world.tuning.deadline_ms * 1_000;
            let came = world.reading(process);
            let caller = Caller::new(asks, batch, came, deadline_us);
            world.decide(process, caller, Stage::First);
            world.pump(process);
        });
    }

    /// With several regions, half of the requests of a subject go to one of them for a while.
    fn node_for(&mut self, any: usize, asks: &[Ask]) -> usize {
        let (regions, nodes) = (self.homes.len(), self.nodes.len());
        if regions < 2 || self.workload.percent(50) {
            return any;
        }
        let epoch = usize::try_from(self.now_us / 20_000_000).unwrap_or(0);
        let home = (asks.first().map_or(0, |ask| ask.subject) + epoch) % regions;
        let node = any - any % regions + home;
        if node < nodes { node } else { home.min(nodes - 1) }
    }

    fn gap_us(&mut self) -> u64 {
        let mean_us = self.options.safety_ms * 1_000 / self.options.requests.max(1);
        if self.options.traffic == Traffic::Steady {
            return self.workload.below(2 * mean_us);
        }
        if self.burst_left > 0 {
            self.burst_left -= 1;
            return self.workload.below(200);
        }
        self.burst_left = self.workload.skewed(10, 120);
        let gap_us = self.workload.below(2 * mean_us * self.burst_left);
        if self.options.traffic == Traffic::Burst {
            return gap_us;
        }
        // Windows are whole seconds: a little before or after the next one.
        let second_us = (self.now_us + gap_us).next_multiple_of(1_000_000);
        (second_us + self.workload.below(40_000)).saturating_sub(self.now_us + 20_000)
    }

    fn ask(&mut self) -> Ask {
        let own = self.options.kinds.len();
        let flood = self.options.faults.has(Fault::Flood) && self.workload.percent(30);
        let subject = if flood {
            self.report.count(Fault::Flood);
            own + self.workload.index(self.specs.len() - own)
        } else if self.workload.percent(35) {
            0
        } else {
            self.workload.index(own)
        };
        let limit = self.specs.get(subject).map_or(1, |spec| spec.limit);
        let cost = match self.workload.below(100) {
            0..5 => 0,
            5..75 => 1,
            75..95 => self.workload.between(2, 5),
            _ => self.workload.between(1, limit + limit / 4),
        };
        let limit = match self.workload.below(100) {
            0 => 0,
            n if n <= self.options.second_limit_percent => 2 * limit,
            _ => limit,
        };
        Ask { subject, limit, cost }
    }

    /// Decides a request or a batch, or lets it wait for the region.
    pub(crate) fn decide(&mut self, process: &mut Process, caller: Caller, stage: Stage) {
        let fresh = self.reading(process);
        let reading = if self.options.late_readings { caller.came } else { fresh };
        self.give_back(process, &caller);
        for ask in &caller.asks {
            self.verify(process, ask.subject);
        }
        for ask in &caller.asks {
            // Those that are there move with the decision; those that are not are founded by it.
            if process.ghosts.contains_key(&ask.subject) {
                self.seat(process, ask.subject, reading);
            }
        }
        let specs = std::sync::Arc::clone(&self.specs);
        let requests: Vec<Request<'_>> = caller
            .asks
            .iter()
            .filter_map(|ask| specs.get(ask.subject)?.request(*ask).ok())
            .collect();
        let Some(first) = requests.first() else { return };
        let now = Now::from(reading);
        let needs = match &stage {
            Stage::First | Stage::Again if caller.batch => {
                let Ok(batch) = Batch::new(&requests) else { return };
                match process.table.decide_all_or_refresh(&batch, now) {
                    BatchDecision::Answered(answer) => {
                        let answers = answer.items().to_vec();
                        let admitted = answer.admitted();
                        let asked = matches!(stage, Stage::Again);
                        let (reading, in_vain) = (reading, false);
                        let c = Concluded { admitted, answers, reading, asked, in_vain };
                        return self.conclude(process, &caller, &c);
                    }
                    BatchDecision::Refresh(needs) => needs,
                    BatchDecision::Ask(asking) => return process.table.release(asking),
                }
            }
            Stage::First | Stage::Again => match process.table.decide_or_refresh(first, now) {
                Decision::Answered(answer) => {
                    let (admitted, answers) = (answer.admitted(), vec![answer]);
                    let asked = matches!(stage, Stage::Again);
                    let c = Concluded { admitted, answers, reading, asked, in_vain: false };
                    return self.conclude(process, &caller, &c);
                }
                Decision::Refresh(need) => vec![need],
                Decision::Ask(asking) => return process.table.release(asking),
            },
            Stage::Last(unheard) => {
                let unheard = unheard.as_deref();
                return self.decide_last(process, &caller, &requests, (reading, unheard));
            }
        };
        for ask in &caller.asks {
            self.verify(process, ask.subject);
            self.seat(process, ask.subject, reading);
        }
        self.wait(process, caller, &needs, (&requests, reading));
    }

    /// Asks the region, or decides at once if that is not possible.
    fn wait(
        &mut self,
        process: &mut Process,
        mut caller: Caller,
        needs: &[Need],
        (requests, reading): (&[Request<'_>], Reading),
    ) {
        caller.needs = needs.iter().map(|need| need.subject).collect();
        let needed = caller.needs.clone();
        self.adopt_all(process, &needed);
        let now = self.reading(process);
        // Those that are refused are not asked about again for a while.
        for ask in &caller.asks {
            if let Some(ghost) = process.ghosts.get_mut(&ask.subject) {
                ghost.retry_ms = ghost.retry_ms.max(now.monotonic_ms + self.tuning.retry_ms);
            }
        }
        let late = self.now_us >= caller.deadline_us;
        let refresh = if late {
            Refresh::Refused
        } else {
            process.region.refresh(&process.table, needs, now.into())
        };
        let Refresh::Wait(waiter) = refresh else {
            return self.decide_last(process, &caller, requests, (reading, None));
        };
        caller.leads = self.flush(process);
        self.take_early(process, &mut caller);
        let (node, number) = (process.node, process.number);
        let deadline = Event::Deadline { node, number, waiter, leaves: false };
        self.queue.push(caller.deadline_us, deadline);
        if self.options.faults.has(Fault::Leave) && !self.healed && self.scheduling.percent(5) {
            let at_us = self.now_us + self.scheduling.below(5_000);
            self.queue.push(at_us, Event::Deadline { node, number, waiter, leaves: true });
        }
        process.callers.insert(waiter, caller);
    }

    /// Decides on what is known now.
    fn decide_last(
        &mut self,
        process: &mut Process,
        caller: &Caller,
        requests: &[Request<'_>],
        (reading, unheard): (Reading, Option<&[Ticket]>),
    ) {
        let now = Now::from(reading);
        let in_vain = unheard.is_none_or(|unheard| !unheard.is_empty());
        let (admitted, answers) = match requests {
            [request] if !caller.batch => {
                let answer = process.table.decide_refreshed(request, !in_vain, now);
                (answer.admitted(), vec![answer])
            }
            requests => {
                let Ok(batch) = Batch::new(requests) else { return };
                let unheard = unheard.unwrap_or(&caller.needs);
                let answer = process.table.decide_all_refreshed(&batch, unheard, now);
                (answer.admitted(), answer.items().to_vec())
            }
        };
        let concluded = Concluded { admitted, answers, reading, asked: true, in_vain };
        self.conclude(process, caller, &concluded);
    }

    /// A request is answered: it is compared with what should have been.
    fn conclude(&mut self, process: &mut Process, caller: &Caller, concluded: &Concluded) {
        let lives: Vec<Option<u64>> = caller
            .asks
            .iter()
            .map(|ask| process.ghosts.get(&ask.subject).map(|ghost| ghost.era))
            .collect();
        for ask in &caller.asks {
            self.verify(process, ask.subject);
            self.seat(process, ask.subject, concluded.reading);
        }
        // A batch may push out one of its own subjects before it comes to it: then what was
        // expected of it is not what was there.
        let moved = caller.asks.iter().zip(&lives).any(|(ask, era)| {
            let now = process.ghosts.get(&ask.subject).map(|ghost| ghost.era);
            era.is_some() && *era != now
        });
        if !moved {
            self.judge(process, caller, concluded);
        }
        for (ask, answer) in caller.asks.iter().zip(&concluded.answers) {
            self.settle(process, *ask, answer, concluded);
        }
        let number = process.number;
        let admitted = concluded.admitted;
        self.note(&[8, number.into(), admitted.into()], || {
            let (asks, reading) = (&caller.asks, concluded.reading);
            format!("process {number} answers {admitted} to {asks:?} at {reading:?}")
        });
        for ask in &caller.asks {
            self.check_registers(process, ask.subject);
        }
    }

    /// Charges what was admitted; arms what was exhausted.
    fn settle(&mut self, process: &mut Process, ask: Ask, answer: &Answer, c: &Concluded) {
        self.report.degraded += u64::from(answer.degraded());
        match answer.denial() {
            Some(Denial::Memory) => self.report.refused += 1,
            Some(_) => self.report.denied += 1,
            None => self.report.admitted += u64::from(c.admitted),
        }
        let (number, home, subject) = (process.number, process.home, ask.subject);
        let Some(ghost) = process.ghosts.get_mut(&subject) else { return };
        if c.admitted && ask.cost > 0 {
            ghost.current.mine += ask.cost;
            let (owner, name) = ((number, ghost.life), (subject, ghost.sequence));
            let total = ghost.current.mine;
            if ghost.current.former.is_empty() {
                self.homes.at_mut(home).truth.charge(name, owner, total, ask.limit);
            } else {
                self.homes.at_mut(home).truth.carry(name, owner, total);
            }
            self.account(process, ask, c.reading);
        } else if !c.admitted && answer.denial() == Some(Denial::Limit) && ask.cost > 0 {
            let elapsed_ms = ghost.place(c.reading, &mut Vec::new());
            let used = ghost.used(elapsed_ms);
            if ask.limit > 0 && used + 1 > ask.limit {
                ghost.arm(ask.limit, c.reading.monotonic_ms);
            }
        }
    }

    /// Makes a ghost for a subject that was taken in, and moves those that are there.
    pub(crate) fn seat(&mut self, process: &mut Process, subject: usize, reading: Reading) {
        let Some(spec) = self.specs.get(subject) else { return };
        let (number, home, window_ms) = (process.number, process.home, spec.window_ms);
        if !process.ghosts.contains_key(&subject) {
            let Ok(request) = spec.request(Ask { subject, limit: 1, cost: 0 }) else { return };
            let sequence = reading.unix_ms / window_ms;
            let Some(cell) = process.table.cell(request.subject(), sequence) else { return };
            self.eras += 1;
            let mut ghost = Ghost::new(self.eras, window_ms, reading);
            ghost.life = cell.life();
            process.ghosts.insert(subject, ghost);
            return;
        }
        let Some(ghost) = process.ghosts.get_mut(&subject) else { return };
        let (mut gone, renames, turn) = (Vec::new(), ghost.current.former.len(), ghost.turn);
        ghost.place(reading, &mut gone);
        let (owner, sequence) = ((number, ghost.life), ghost.sequence);
        let turned = ghost.turn == turn + 1;
        if ghost.turn == turn && ghost.current.former.len() > renames {
            self.rename(process, subject);
        }
        for (sequence, side) in gone {
            self.leave(home, (subject, owner), (sequence, side));
        }
        if turned && planted::is(Planted::RolloverReset) {
            self.reset_early(process, subject, sequence);
        }
    }

    /// A cell has left the sliding window.
    fn leave(
        &mut self,
        home: usize,
        (subject, owner): (usize, (u32, u64)),
        (sequence, side): Gone,
    ) {
        let _ = side;
        self.homes.at_mut(home).truth.end((subject, sequence), owner, End::Left);
    }

    /// A clock jumped: what was admitted under the old names counts under the new ones.
    fn rename(&mut self, process: &Process, subject: usize) {
        let Some(ghost) = process.ghosts.get(&subject) else { return };
        let (owner, home) = ((process.number, ghost.life), process.home);
        let truth = &mut self.homes.at_mut(home).truth;
        let before = ghost.sequence.saturating_sub(1);
        let sides = [(ghost.sequence, &ghost.current), (before, &ghost.previous)];
        for (_, side) in sides {
            for name in &side.former {
                truth.end((subject, *name), owner, End::Renamed);
            }
        }
        for (sequence, side) in sides {
            truth.carry((subject, sequence), owner, side.mine);
        }
    }
}
