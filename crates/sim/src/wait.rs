//! Who waits for the region, and what ends the wait: as the library does it.

use tidegate_convergence::{Asked, Granted, Outcome, Refresh, Waiter};
use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{AskedFor, Asking, Need, Reason, Request, Ticket};

use crate::coverage::Moment;
use crate::decide::Stage;
use crate::fault::Fault;
use crate::ghost::Reading;
use crate::node::{Caller, Process};
use crate::struck::awaited_by;
use crate::world::{Event, World};

/// Times a caller looks again. In one thread nobody needs as many.
const LOOKS_MAX: u32 = 64;
/// How long after its deadline a caller is answered at most, if its wait ended at that moment.
pub(crate) const LATE_US: u64 = 3_000;

impl World {
    /// Hears of the region first, or decides at once if that is not possible.
    pub(crate) fn wait(
        &mut self,
        process: &mut Process,
        mut caller: Caller,
        needs: &[Need],
        (requests, reading): (&[Request<'_>], Reading),
    ) {
        caller.needs = needs.iter().map(|need| need.subject).collect();
        caller.reserved = needs.iter().any(|need| need.reason == Reason::Reserved);
        let needed = caller.needs.clone();
        self.adopt_all(process, &needed);
        let now = self.reading(process);
        let refresh = if self.now_us >= caller.deadline_us {
            Refresh::Refused
        } else if let Some(since) = caller.since {
            process.region.refresh_again(&process.table, needs, since, now.into())
        } else {
            process.region.refresh(&process.table, needs, now.into())
        };
        match refresh {
            Refresh::Wait(waiter) => {
                caller.leads = self.flush(process);
                self.take_early(process, &mut caller);
                self.stand_by(process, waiter, caller);
            }
            Refresh::Refused => self.decide_last(process, &caller, requests, (reading, None)),
            Refresh::LookAgain => self.look_again(process, caller),
        }
    }

    /// Lets the region grant what is claimed.
    pub(crate) fn ask_for(
        &mut self,
        process: &mut Process,
        mut caller: Caller,
        asking: Asking,
        (requests, reading): (&[Request<'_>], Reading),
    ) {
        let claims = self.claim(process, &caller, (&asking, reading));
        (caller.claimed, caller.cells) = (asking.claimed().collect(), claims.cells());
        let needs: Vec<Need> = asking.wanted().map(Need::from).collect();
        let subjects: Vec<Ticket> = needs.iter().map(|need| need.subject).collect();
        self.adopt_all(process, &subjects);
        let now = self.reading(process).into();
        let left_ms = caller.deadline_us.saturating_sub(self.now_us).div_ceil(1_000);
        match process.region.ask_within(&process.table, asking, left_ms, now) {
            Asked::Wait(waiter) => {
                caller.behind_batch |= process.claims.values().any(|it| it.delays(&claims));
                process.claims.insert(waiter, claims);
                self.flush(process);
                caller.claims = true;
                self.stand_by(process, waiter, caller);
            }
            Asked::Unheard => {
                self.settle_claims(process, &claims, Granted::Unheard);
                self.answer_asked(process, &caller, AskedFor::Unheard);
            }
            Asked::ReadFirst => {
                self.settle_claims(process, &claims, Granted::No);
                caller.reads_first = true;
                self.wait(process, caller, &needs, (requests, reading));
            }
            Asked::Apart if caller.batch => {
                // Nobody can grant all of it: it is decided on what is read.
                self.settle_claims(process, &claims, Granted::No);
                self.wait(process, caller, &needs, (requests, reading));
            }
            Asked::Apart | Asked::LookAgain => {
                self.settle_claims(process, &claims, Granted::No);
                self.look_again(process, caller);
            }
        }
    }

    /// Nothing was in its way any more when it wanted to wait.
    fn look_again(&mut self, process: &mut Process, mut caller: Caller) {
        caller.reads_first = false;
        caller.looks += 1;
        if caller.looks > LOOKS_MAX {
            let (number, asks) = (process.number, &caller.asks);
            self.broken("looks", || format!("process {number} looks for ever: {asks:?}"));
            return;
        }
        self.decide(process, caller, Stage::Again);
    }

    /// A caller waits, until it is woken, has waited for long enough, or goes away.
    fn stand_by(&mut self, process: &mut Process, waiter: Waiter, mut caller: Caller) {
        caller.since.get_or_insert(waiter);
        let (node, number) = (process.node, process.number);
        let deadline = Event::Deadline { node, number, waiter, leaves: false };
        let late_us = if planted::is(Planted::LateAnswer) { 3 * LATE_US } else { 0 };
        self.queue.push(caller.deadline_us.max(self.now_us) + late_us, deadline);
        if self.options.faults.has(Fault::Leave) && !self.healed && self.scheduling.percent(5) {
            let at_us = self.now_us + self.scheduling.below(5_000);
            self.queue.push(at_us, Event::Deadline { node, number, waiter, leaves: true });
        }
        if caller.batch {
            self.aim(node, Moment::Batch);
        }
        process.callers.insert(waiter, caller);
    }

    /// A caller does not wait longer.
    pub(crate) fn deadline(&mut self, node: usize, number: u32, waiter: Waiter, leaves: bool) {
        // Who was about to go away when everything was mended stays.
        if leaves && self.healed {
            return;
        }
        self.with_process(node, number, |world, process| {
            let Some(caller) = process.callers.remove(&waiter) else { return };
            world.report.events += 1;
            let now = world.reading(process).into();
            if leaves {
                world.leave_claims(process, waiter);
                process.region.leave(&process.table, waiter, now);
                world.cancel(process, &caller);
                world.struck(Fault::Leave, awaited_by(&caller));
                world.give_back(process, &caller);
            } else if caller.claims {
                world.give_up(process, waiter, caller);
            } else {
                process.region.leave(&process.table, waiter, now);
                world.cancel(process, &caller);
                world.decide(process, caller, Stage::Last(None));
            }
            world.pump(process);
        });
    }

    /// A caller that has claimed something wants its answer now. If its wait has just ended, it is
    /// about to be told how.
    fn give_up(&mut self, process: &mut Process, waiter: Waiter, caller: Caller) {
        let now = self.reading(process).into();
        let gave_up = process.region.give_up(&process.table, waiter, now);
        if gave_up != self.give_claims_up(process, waiter) {
            let number = process.number;
            self.broken("told", || format!("process {number} gives {waiter:?} up: {gave_up}"));
        }
        if gave_up {
            self.flush(process);
            self.answer_asked(process, &caller, AskedFor::Unheard);
        } else {
            process.callers.insert(waiter, caller);
        }
    }

    /// With a mistake planted, a caller takes with it what others wait for.
    fn cancel(&mut self, process: &mut Process, caller: &Caller) {
        if planted::is(Planted::CancelledFlight) {
            for id in &caller.leads {
                if let Some(call) = process.calls.remove(id) {
                    self.forget_reads(process, &call);
                }
            }
        }
    }

    /// A caller's wait is over. Between the end and its hearing of it some time may pass.
    pub(crate) fn tell(&mut self, process: &mut Process, waiter: Waiter, outcome: Outcome) {
        if outcome.granted.is_some() && self.consistency.percent(10) {
            let at_us = self.now_us + self.consistency.below(LATE_US);
            let (node, number) = (process.node, process.number);
            self.queue.push(at_us, Event::Wake { node, number, waiter, outcome });
        } else {
            self.wake(process, waiter, outcome);
        }
    }

    pub(crate) fn wake(&mut self, process: &mut Process, waiter: Waiter, outcome: Outcome) {
        let Some(mut caller) = process.callers.remove(&waiter) else { return };
        caller.claims = false;
        let reads_first = std::mem::take(&mut caller.reads_first);
        match outcome.granted {
            Some(Granted::Yes) => self.answer_asked(process, &caller, AskedFor::Granted),
            Some(Granted::Unheard) => self.answer_asked(process, &caller, AskedFor::Unheard),
            Some(Granted::No) => self.decide(process, caller, Stage::Again),
            None if outcome.look_again || reads_first && outcome.unheard.is_empty() => {
                self.decide(process, caller, Stage::Again)
            }
            None => self.decide(process, caller, Stage::Last(Some(outcome.unheard))),
        }
    }
}
