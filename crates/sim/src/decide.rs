//! How requests are decided.

use tidegate_limiter::{
    Answer, AskedFor, Asking, Batch, BatchDecision, Decision, Denial, Need, Now, Request, Ticket,
};

use crate::ghost::Reading;
use crate::node::{Ask, Caller, Process};
use crate::world::{Spec, World};

/// How far a caller is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// It just came.
    First,
    /// It waited, and has to be looked at again.
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
    /// The subjects that it did not hear of.
    pub(crate) missed: Vec<usize>,
    /// It is decided on what is known, whatever that is.
    pub(crate) last: bool,
    /// It had claimed its costs, and this came of it.
    pub(crate) granted: Option<AskedFor>,
}

/// What a caller waits for.
enum Undecided {
    Read(Vec<Need>),
    Ask(Asking),
}

impl World {
    /// Decides a request or a batch, or lets it wait for the region.
    pub(crate) fn decide(&mut self, process: &mut Process, caller: Caller, stage: Stage) {
        let fresh = self.reading(process);
        let reading = if self.options.late_readings { caller.came } else { fresh };
        self.give_back(process, &caller);
        self.move_there(process, &caller.asks, reading);
        let specs = std::sync::Arc::clone(&self.specs);
        let requests = requests_of(&specs, &caller.asks);
        let Some(first) = requests.first() else { return };
        if let Stage::Last(unheard) = &stage {
            let unheard = unheard.as_deref();
            return self.decide_last(process, &caller, &requests, (reading, unheard));
        }
        let now = Now::from(reading);
        let answered = if caller.batch {
            let Ok(batch) = Batch::new(&requests) else { return };
            match process.table.decide_all_or_refresh(&batch, now) {
                BatchDecision::Answered(answer) => Ok((answer.admitted(), answer.items().to_vec())),
                BatchDecision::Refresh(needs) => Err(Undecided::Read(needs)),
                BatchDecision::Ask(asking) => Err(Undecided::Ask(asking)),
            }
        } else {
            match process.table.decide_or_refresh(first, now) {
                Decision::Answered(answer) => Ok((answer.admitted(), vec![answer])),
                Decision::Refresh(need) => Err(Undecided::Read(vec![need])),
                Decision::Ask(asking) => Err(Undecided::Ask(asking)),
            }
        };
        let fits = match &answered {
            Ok((admitted, _)) => *admitted,
            Err(Undecided::Ask(_)) => true,
            Err(Undecided::Read(_)) => false,
        };
        self.check_refused_twice(process, &caller, fits);
        let asked = matches!(stage, Stage::Again);
        let undecided = match answered {
            Ok((admitted, answers)) => {
                let (in_vain, last, granted, missed) = (false, false, None, Vec::new());
                let c =
                    Concluded { admitted, answers, reading, asked, in_vain, missed, last, granted };
                return self.conclude(process, &caller, &c);
            }
            Err(undecided) => undecided,
        };
        for ask in &caller.asks {
            self.verify(process, ask.subject);
            self.seat(process, ask.subject, reading);
        }
        match undecided {
            Undecided::Read(needs) => self.wait(process, caller, &needs, (&requests, reading)),
            Undecided::Ask(asking) => self.ask_for(process, caller, asking, (&requests, reading)),
        }
    }

    /// Those that are there move with the decision; those that are not are founded by it.
    fn move_there(&mut self, process: &mut Process, asks: &[Ask], reading: Reading) {
        for ask in asks {
            self.verify(process, ask.subject);
        }
        for ask in asks {
            if process.ghosts.contains_key(&ask.subject) {
                self.seat(process, ask.subject, reading);
            }
        }
    }

    /// Decides on what is known now.
    pub(crate) fn decide_last(
        &mut self,
        process: &mut Process,
        caller: &Caller,
        requests: &[Request<'_>],
        (reading, unheard): (Reading, Option<&[Ticket]>),
    ) {
        let now = Now::from(reading);
        let in_vain = unheard.is_none_or(|unheard| !unheard.is_empty());
        let missed = unheard.unwrap_or(&caller.needs).iter().filter_map(|subject| {
            let cells = process.table.cells(*subject)?;
            self.digests.get(&cells.current.digest()).copied()
        });
        let missed = missed.collect();
        let (admitted, answers) = match requests {
            [request] if !caller.batch => {
                let answer = process.table.decide_refreshed(request, !in_vain, now);
                (answer.admitted(), vec![answer])
            }
            requests => {
                let Ok(batch) = Batch::new(requests) else { return };
                let unheard = unheard.unwrap_or(&caller.needs);
                let answer = match caller.reserved {
                    true => process.table.decide_all_waited(&batch, unheard, now),
                    false => process.table.decide_all_refreshed(&batch, unheard, now),
                };
                (answer.admitted(), answer.items().to_vec())
            }
        };
        let (asked, last, granted) = (true, true, None);
        let concluded =
            Concluded { admitted, answers, reading, asked, in_vain, missed, last, granted };
        self.conclude(process, caller, &concluded);
    }

    /// Answers a caller whose claims have become admissions.
    pub(crate) fn answer_asked(&mut self, process: &mut Process, caller: &Caller, how: AskedFor) {
        let fresh = self.reading(process);
        let reading = if self.options.late_readings { caller.came } else { fresh };
        self.move_there(process, &caller.asks, reading);
        let specs = std::sync::Arc::clone(&self.specs);
        let requests = requests_of(&specs, &caller.asks);
        let now = Now::from(reading);
        let answers = match requests.as_slice() {
            [request] if !caller.batch => {
                let claimed = caller.claimed.first().copied();
                vec![process.table.answer_asked(request, (how, claimed), now)]
            }
            requests => {
                let Ok(batch) = Batch::new(requests) else { return };
                let answer = process.table.answer_all_asked(&batch, (how, &caller.claimed), now);
                answer.items().to_vec()
            }
        };
        let in_vain = how == AskedFor::Unheard;
        let (admitted, asked) = (!in_vain || !caller.is_denied_unheard(), true);
        let (last, granted, missed) = (false, Some(how), Vec::new());
        let concluded =
            Concluded { admitted, answers, reading, asked, in_vain, missed, last, granted };
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
        self.check_deadline(process, caller);
        if concluded.granted.is_some() {
            self.judge_asked(process, caller, concluded);
        } else if !moved {
            self.judge(process, caller, concluded);
        }
        for (ask, answer) in caller.asks.iter().zip(&concluded.answers) {
            self.check_excused(process, caller, (*ask, answer), concluded);
            self.settle(process, *ask, answer, concluded);
        }
        self.note_answer(caller, concluded.admitted);
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

    /// What callers are told, and when.
    fn note_answer(&mut self, caller: &Caller, admitted: bool) {
        if admitted {
            for ask in caller.asks.iter().filter(|ask| ask.cost > 0) {
                self.spans.note(ask.subject, self.now_us, ask.cost);
            }
        }
        let own = caller.asks.iter().all(|ask| ask.subject < self.options.kinds.len());
        if let Some(answers) = self.answers.as_mut().filter(|_| own) {
            answers.push((caller.number, admitted));
        }
    }

    /// Charges what was admitted; arms what was exhausted.
    fn settle(&mut self, process: &mut Process, ask: Ask, answer: &Answer, c: &Concluded) {
        self.report.degraded += u64::from(answer.degraded());
        match answer.denial() {
            Some(Denial::Memory) => self.report.refused += 1,
            Some(Denial::Outage) => self.report.outages += 1,
            Some(denial) => {
                self.report.denied += 1;
                self.report.reserved += u64::from(denial == Denial::Reserved);
            }
            None => self.report.admitted += u64::from(c.admitted),
        }
        let (number, home, subject) = (process.number, process.home, ask.subject);
        let Some(ghost) = process.ghosts.get_mut(&subject) else { return };
        if c.granted.is_some() {
            // Its claims were admitted before.
        } else if c.admitted && ask.cost > 0 {
            ghost.current.mine += ask.cost;
            let (owner, name) = ((number, ghost.life), (subject, ghost.sequence));
            let total = ghost.current.mine;
            if ghost.current.former.is_empty() {
                self.homes.at_mut(home).truth.charge(name, owner, total, ask.limit);
            } else {
                self.homes.at_mut(home).truth.carry(name, owner, total);
            }
            self.touch_cell(home, name);
            if !ask.bounded || answer.degraded() {
                self.homes.at_mut(home).truth.loosen(name, ask.cost);
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
}

/// The requests of a caller.
fn requests_of<'a>(specs: &'a [Spec], asks: &[Ask]) -> Vec<Request<'a>> {
    asks.iter().filter_map(|ask| specs.get(ask.subject)?.request(*ask).ok()).collect()
}
