//! Requests: how they come, how they are decided, and whether that was right.

use tidegate_convergence::Refresh;
use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{
    Answer, Batch, BatchDecision, Decision, Denial, Need, Now, Request, Source, Ticket,
};

use crate::ghost::{Ghost, Gone, Reading, weigh};
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
struct Concluded {
    admitted: bool,
    answers: Vec<Answer>,
    reading: Reading,
    /// It asked the region first.
    asked: bool,
    /// It asked and heard nothing.
    in_vain: bool,
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
        let node = self.workload.index(self.nodes.len());
        let batch = self.workload.percent(self.options.batch_percent);
        let items = if batch { self.workload.between(2, 4) } else { 1 };
        let asks: Vec<Ask> = (0..items).map(|_| self.ask()).collect();
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
        let (number, subject) = (process.number, ask.subject);
        let Some(ghost) = process.ghosts.get_mut(&subject) else { return };
        if c.admitted && ask.cost > 0 {
            ghost.current.mine += ask.cost;
            let (owner, name) = ((number, ghost.life), (subject, ghost.sequence));
            let total = ghost.current.mine;
            if ghost.current.former.is_empty() {
                self.truth.charge(name, owner, total, ask.limit);
            } else {
                self.truth.carry(name, owner, total);
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

    /// What the verdict should have been, item by item.
    fn judge(&mut self, process: &mut Process, caller: &Caller, c: &Concluded) {
        let mut all = true;
        for (at, (ask, answer)) in caller.asks.iter().zip(&c.answers).enumerate() {
            let earlier = earlier(caller, c, at);
            if answer.denial() == Some(Denial::Memory) {
                all = false;
                self.check_refused(process);
                continue;
            }
            let Some(ghost) = process.ghosts.get_mut(&ask.subject) else { continue };
            let elapsed_ms = ghost.place(c.reading, &mut Vec::new());
            let (ghost, used) = (ghost.clone(), ghost.used(elapsed_ms) + earlier);
            let fits = ask.limit > 0 && used + ask.cost <= ask.limit;
            all &= fits;
            if fits != answer.admitted() {
                let oracle = if fits { "arithmetic" } else { "knowledge" };
                let (number, ask) = (process.number, *ask);
                self.broken(oracle, || {
                    format!("process {number} knows of {used}, and admits {}: {ask:?}", !fits)
                });
            }
            if !fits {
                self.check_denial(process, &ghost, (*ask, earlier), elapsed_ms);
            }
            let remaining = ask.limit.saturating_sub(used + ask.cost);
            if !caller.batch && fits && answer.remaining() != remaining {
                let said = answer.remaining();
                self.broken("arithmetic", || format!("{said} remaining instead of {remaining}"));
            }
            self.check_asked(process, &ghost, (*ask, answer), (c, elapsed_ms));
        }
        if all != c.admitted {
            let admitted = c.admitted;
            self.broken("atomicity", || format!("all fit: {all}, admitted: {admitted}"));
        }
    }

    /// Whether an admission had to ask, and whether the answer owns up to what it does not know.
    fn check_asked(
        &mut self,
        process: &Process,
        ghost: &Ghost,
        (ask, answer): (Ask, &Answer),
        (c, elapsed_ms): (&Concluded, u64),
    ) {
        let now_ms = c.reading.monotonic_ms;
        let terms = (ask.cost, ask.limit);
        // Where a clock is behind its subject nothing elapses, and a new cell is warm for as long.
        let passed_ms = now_ms.saturating_sub(ghost.turned_ms);
        let elapsed_ms = if self.options.excuses { elapsed_ms } else { elapsed_ms.max(passed_ms) };
        let fresh = ghost.is_fresh(terms, elapsed_ms, self.tuning.freshness.fresh_ms, now_ms);
        let strict = ghost.is_strict(ask.limit, now_ms);
        let jumps = self.options.faults.has(Fault::Step);
        let number = process.number;
        let excused = self.options.excuses && jumps && !strict;
        if c.admitted && !c.asked && !answer.degraded() && (strict || !fresh) && !excused {
            let oracle = if strict { "strict" } else { "freshness" };
            self.broken(oracle, || format!("process {number} admits without asking: {ask:?}"));
        }
        // Not of a subject that was dropped while it waited, and is new again.
        if c.in_vain && !answer.degraded() && answer.source() == Source::Region {
            self.broken("degraded", || format!("process {number} did not hear of {ask:?}"));
        }
        let least_ms = match ghost.current.asked_ms {
            Some(asked_ms) => now_ms.saturating_sub(asked_ms),
            None => elapsed_ms,
        };
        // After a jump nothing counts as elapsed, and the age that is said is less than it is.
        let jumped = self.options.excuses && jumps;
        if answer.age_ms() < least_ms && !jumped {
            let said_ms = answer.age_ms();
            self.broken("age", || format!("{said_ms} ms old, in truth {least_ms} ms"));
        }
    }

    /// A denial is right if the truth has no room either.
    fn check_denial(
        &mut self,
        process: &Process,
        ghost: &Ghost,
        (ask, earlier): (Ask, u64),
        elapsed_ms: u64,
    ) {
        let window_ms = self.specs.get(ask.subject).map_or(1, |spec| spec.window_ms);
        let owner = (process.number, ghost.life);
        let subject = ask.subject;
        let current = self.most(subject, owner, &ghost.current, ghost.sequence);
        let before = ghost.sequence.saturating_sub(1);
        let previous = self.most(subject, owner, &ghost.previous, before);
        let used = current + weigh(previous, window_ms, elapsed_ms) + earlier;
        if ask.limit > 0 && used + ask.cost <= ask.limit {
            let number = process.number;
            self.broken("false denial", || {
                format!("process {number} denies {ask:?}, and only {used} are used")
            });
        }
    }

    /// The overshoot accountant: after an admission, the truth is at most the limit and what the
    /// others admitted that this process was not told.
    fn account(&mut self, process: &mut Process, ask: Ask, reading: Reading) {
        let Some(ghost) = process.ghosts.get_mut(&ask.subject) else { return };
        let elapsed_ms = ghost.place(reading, &mut Vec::new());
        let window_ms = self.specs.get(ask.subject).map_or(1, |spec| spec.window_ms);
        let name = (ask.subject, ghost.sequence);
        let before = (ask.subject, ghost.sequence.saturating_sub(1));
        let (total, previous) = (self.truth.total(name), self.truth.total(before));
        let known = ghost.current.mine + ghost.current.known;
        let known_before = ghost.previous.mine + ghost.previous.known;
        let untold = total.saturating_sub(known)
            + weigh(previous.saturating_sub(known_before), window_ms, elapsed_ms)
            + 1;
        let used = total + weigh(previous, window_ms, elapsed_ms);
        if used > ask.limit + untold {
            self.broken("overshoot", || format!("{used} of {ask:?}, {untold} not told"));
        }
        let share = total.saturating_mul(1_000) / ask.limit.max(1);
        self.report.worst_permille = self.report.worst_permille.max(share);
    }

    /// Makes a ghost for a subject that was taken in, and moves those that are there.
    fn seat(&mut self, process: &mut Process, subject: usize, reading: Reading) {
        let Some(spec) = self.specs.get(subject) else { return };
        let (number, window_ms) = (process.number, spec.window_ms);
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
            self.leave(subject, owner, (sequence, side));
        }
        if turned && planted::is(Planted::RolloverReset) {
            self.reset_early(process, subject, sequence);
        }
    }

    /// A cell has left the sliding window.
    fn leave(&mut self, subject: usize, owner: (u32, u64), (sequence, side): Gone) {
        let _ = side;
        self.truth.end((subject, sequence), owner, End::Left);
    }

    /// A clock jumped: what was admitted under the old names counts under the new ones.
    fn rename(&mut self, process: &Process, subject: usize) {
        let Some(ghost) = process.ghosts.get(&subject) else { return };
        let owner = (process.number, ghost.life);
        let before = ghost.sequence.saturating_sub(1);
        let sides = [(ghost.sequence, &ghost.current), (before, &ghost.previous)];
        for (_, side) in sides {
            for name in &side.former {
                self.truth.end((subject, *name), owner, End::Renamed);
            }
        }
        for (sequence, side) in sides {
            self.truth.carry((subject, sequence), owner, side.mine);
        }
    }
}

/// What earlier items of a batch take from the same subject. One that was refused for want of
/// memory takes nothing.
fn earlier(caller: &Caller, c: &Concluded, at: usize) -> u64 {
    let subject = caller.asks.get(at).map(|ask| ask.subject);
    let before = caller.asks.iter().zip(&c.answers).take(at);
    let same = before.filter(|(ask, answer)| {
        Some(ask.subject) == subject && answer.denial() != Some(Denial::Memory)
    });
    same.map(|(ask, _)| ask.cost).sum()
}
