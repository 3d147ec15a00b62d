//! One process of a fleet: the order of steps is that of the library.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_convergence::{
    Answered, Asked, CallId, Effect, Globe, GlobeOptions, Granted, Outcome, Refresh, Region,
    RegionName, Waiter,
};
use tidegate_limiter::{
    AskedFor, Asking, Batch, BatchDecision, Consistency, Decision, Need, Now, Options, Reason,
    Request, Seed, Table, Ticket, Wake,
};

use super::FleetOptions;
use super::caller::{Caller, FleetCheck, Given, requests};
use super::net::{Event, Net, Whose};
use crate::chance::mix;

/// Times a caller looks again, as in the library.
const LOOKS_MAX: u32 = 64;
/// How often memory of expired subjects is given back, and in how many steps: a tenth of what a
/// server does. It takes longer until memory is given back, and decides nothing.
const SWEEP_US: u64 = 1_000_000;
const SWEEP_STEPS: usize = 16;

/// What a caller needs before it is answered.
enum Undecided {
    Read(Vec<Need>),
    Ask(Asking),
}

/// One life of a limiter.
pub(super) struct Process {
    pub(super) number: u64,
    pub(super) whose: Whose,
    pub(super) table: Table,
    pub(super) region: Region,
    pub(super) globe: Option<Globe>,
    pub(super) callers: BTreeMap<Waiter, Caller>,
    deadline_ms: u64,
    timer_us: Option<u64>,
    woken: Arc<AtomicBool>,
    seed: u64,
}

impl Process {
    pub(super) fn new(options: &FleetOptions, (node, home): (usize, usize), number: u64) -> Self {
        let woken = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&woken);
        let table = Options::default()
            .with_budget_bytes(options.table_bytes)
            .with_freshness(options.tuning.freshness)
            .with_wake(Wake::new(move || flag.store(true, Ordering::Relaxed)));
        let seed = mix(options.seed ^ (number << 40));
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let incarnation = u128::from(number) << 64 | u128::from(seed);
        let name = RegionName::new(&format!("region-{home}")).ok();
        let globe = name.filter(|_| options.regions > 1).map(|name| {
            let regions_max = u16::try_from(options.regions).unwrap_or(u16::MAX);
            let about = GlobeOptions { name, regions_max, private: false };
            Globe::new(options.globe, about, incarnation, 1)
        });
        Self {
            number,
            whose: Whose { node, home, number },
            table: Table::new(table, Seed::from_bytes(bytes)),
            region: Region::new(options.tuning, incarnation, 1),
            globe,
            callers: BTreeMap::new(),
            deadline_ms: options.tuning.deadline_ms,
            timer_us: None,
            woken,
            seed,
        }
    }

    /// Its first step.
    pub(super) fn begin(&mut self, net: &mut Net) {
        if let Some(globe) = &mut self.globe {
            self.region.watch_growth();
            globe.begin(&self.table);
        }
        self.step(net.now());
        net.queue.push(net.now_us + SWEEP_US, Event::Sweep { whose: self.whose });
    }

    /// A call comes.
    pub(super) fn arrive(
        &mut self,
        net: &mut Net,
        number: u64,
        checks: &[FleetCheck<'_>],
        consistency: Consistency,
    ) {
        let now = net.now();
        let looked = match checks {
            [one] => one.request(consistency).map(|request| self.look_at(&[request], now)),
            many => requests(many, consistency).map(|all| self.look_at(&all, now)),
        };
        let deadline_us = net.now_us.saturating_add(self.deadline_ms * 1_000);
        match looked {
            Ok(Ok(given)) => net.settled.push(super::Settled::of(number, given, 0)),
            Ok(Err(undecided)) => {
                let came = (now, net.now_us, deadline_us);
                let caller = Caller::new(number, checks, consistency, came);
                if let Some(caller) = self.hear(net, caller, undecided) {
                    self.look(net, caller);
                }
            }
            // It was found to be sound before.
            Err(_) => {}
        }
    }

    /// One that waited at a process that was killed begins anew here.
    pub(super) fn ask_again(&mut self, net: &mut Net, caller: Caller) {
        let deadline_us = net.now_us.saturating_add(self.deadline_ms * 1_000);
        let (came, came_us) = (net.now(), caller.came_us);
        let Caller { number, items, consistency, .. } = caller;
        let fresh = Caller::new(number, &[], consistency, (came, came_us, deadline_us));
        self.look(net, Caller { items, ..fresh });
    }

    /// Decides on what is known, if that is enough.
    fn look_at(&self, requests: &[Request<'_>], now: Now) -> Result<Given, Undecided> {
        match requests {
            [one] => match self.table.decide_or_refresh(one, now) {
                Decision::Answered(answer) => Ok(Given::from(&answer)),
                Decision::Refresh(need) => Err(Undecided::Read(vec![need])),
                Decision::Ask(asking) => Err(Undecided::Ask(asking)),
            },
            all => {
                let Ok(batch) = Batch::new(all) else { return Ok(Given::default()) };
                match self.table.decide_all_or_refresh(&batch, now) {
                    BatchDecision::Answered(answer) => Ok(Given::from(&answer)),
                    BatchDecision::Refresh(needs) => Err(Undecided::Read(needs)),
                    BatchDecision::Ask(asking) => Err(Undecided::Ask(asking)),
                }
            }
        }
    }

    /// Looks until the caller waits or has its answer.
    fn look(&mut self, net: &mut Net, mut caller: Caller) {
        loop {
            caller.looks += 1;
            let undecided = match self.look_at(&caller.requests(), caller.came) {
                Ok(given) => return net.settle(&caller, given),
                Err(undecided) => undecided,
            };
            if caller.looks > LOOKS_MAX {
                return self.decide_unheard(net, caller, undecided);
            }
            match self.hear(net, caller, undecided) {
                Some(again) => caller = again,
                None => return,
            }
        }
    }

    /// Hears of the region first, or lets it grant. Returns the caller if it has to look again.
    fn hear(&mut self, net: &mut Net, caller: Caller, undecided: Undecided) -> Option<Caller> {
        match undecided {
            Undecided::Read(needs) => self.wait(net, caller, &needs),
            Undecided::Ask(asking) => self.ask(net, caller, asking),
        }
    }

    fn wait(&mut self, net: &mut Net, mut caller: Caller, needs: &[Need]) -> Option<Caller> {
        caller.needs = needs.iter().map(|need| need.subject).collect();
        caller.reserved = needs.iter().any(|need| need.reason == Reason::Reserved);
        self.adopt(&caller.needs, net.now());
        let refresh = match caller.since {
            _ if net.now_us >= caller.deadline_us => Refresh::Refused,
            Some(since) => self.region.refresh_again(&self.table, needs, since, net.now()),
            None => self.region.refresh(&self.table, needs, net.now()),
        };
        match refresh {
            Refresh::Wait(waiter) => self.stand_by(net, waiter, caller),
            Refresh::Refused => {
                let unheard = std::mem::take(&mut caller.needs);
                self.decide_last(net, &caller, &unheard);
            }
            Refresh::LookAgain => {
                caller.reads_first = false;
                return Some(caller);
            }
        }
        None
    }

    fn ask(&mut self, net: &mut Net, mut caller: Caller, asking: Asking) -> Option<Caller> {
        let needs: Vec<Need> = asking.wanted().map(Need::from).collect();
        let subjects: Vec<Ticket> = needs.iter().map(|need| need.subject).collect();
        caller.claimed = asking.claimed().collect();
        self.adopt(&subjects, net.now());
        let left_ms = caller.deadline_us.saturating_sub(net.now_us).div_ceil(1_000);
        match self.region.ask_within(&self.table, asking, left_ms, net.now()) {
            Asked::Wait(waiter) => {
                caller.claims = true;
                self.stand_by(net, waiter, caller);
                None
            }
            Asked::Unheard => {
                self.answer_asked(net, &caller, AskedFor::Unheard);
                None
            }
            Asked::ReadFirst => {
                caller.reads_first = true;
                self.wait(net, caller, &needs)
            }
            // Nobody can grant all of it: it is decided on what is read.
            Asked::Apart if caller.items.len() > 1 => self.wait(net, caller, &needs),
            Asked::Apart | Asked::LookAgain => Some(caller),
        }
    }

    /// What other regions used counts from the first decision on.
    fn adopt(&mut self, subjects: &[Ticket], now: Now) {
        if let Some(globe) = &mut self.globe {
            globe.adopt_all(&self.table, subjects.iter().copied(), now);
        }
    }

    fn stand_by(&mut self, net: &mut Net, waiter: Waiter, mut caller: Caller) {
        caller.since.get_or_insert(waiter);
        let at_us = caller.deadline_us.max(net.now_us);
        net.queue.push(at_us, Event::Deadline { whose: self.whose, waiter });
        self.callers.insert(waiter, caller);
    }

    /// A caller does not wait longer.
    pub(super) fn deadline(&mut self, net: &mut Net, waiter: Waiter) {
        let Some(caller) = self.callers.remove(&waiter) else { return };
        if !caller.claims {
            self.region.leave(&self.table, waiter, net.now());
            let unheard = caller.needs.clone();
            return self.decide_last(net, &caller, &unheard);
        }
        if self.region.give_up(&self.table, waiter, net.now()) {
            self.answer_asked(net, &caller, AskedFor::Unheard);
        } else {
            // Its wait has just ended, and it is about to be told how.
            self.callers.insert(waiter, caller);
        }
    }

    /// A caller's wait is over.
    fn wake(&mut self, net: &mut Net, waiter: Waiter, outcome: &Outcome) {
        let Some(mut caller) = self.callers.remove(&waiter) else { return };
        caller.claims = false;
        let reads_first = std::mem::take(&mut caller.reads_first);
        match outcome.granted {
            Some(Granted::Yes) => self.answer_asked(net, &caller, AskedFor::Granted),
            Some(Granted::Unheard) => self.answer_asked(net, &caller, AskedFor::Unheard),
            Some(Granted::No) => self.look(net, caller),
            None if outcome.look_again || reads_first && outcome.unheard.is_empty() => {
                self.look(net, caller);
            }
            None => self.decide_last(net, &caller, &outcome.unheard),
        }
    }

    /// Decides on what is known now, whatever that is.
    fn decide_last(&self, net: &mut Net, caller: &Caller, unheard: &[Ticket]) {
        let (requests, now) = (caller.requests(), caller.came);
        let given = match requests.as_slice() {
            [one] => Given::from(&self.table.decide_refreshed(one, unheard.is_empty(), now)),
            all => {
                let Ok(batch) = Batch::new(all) else { return };
                Given::from(&match caller.reserved {
                    true => self.table.decide_all_waited(&batch, unheard, now),
                    false => self.table.decide_all_refreshed(&batch, unheard, now),
                })
            }
        };
        net.settle(caller, given);
    }

    /// Answers a caller whose claims have become admissions, or were given back.
    fn answer_asked(&self, net: &mut Net, caller: &Caller, how: AskedFor) {
        let (requests, now) = (caller.requests(), caller.came);
        let given = match requests.as_slice() {
            [one] => {
                let claimed = caller.claimed.first().copied();
                Given::from(&self.table.answer_asked(one, (how, claimed), now))
            }
            all => {
                let Ok(batch) = Batch::new(all) else { return };
                Given::from(&self.table.answer_all_asked(&batch, (how, &caller.claimed), now))
            }
        };
        net.settle(caller, given);
    }

    /// Looked so often that it is decided on what is known.
    fn decide_unheard(&mut self, net: &mut Net, mut caller: Caller, undecided: Undecided) {
        match undecided {
            Undecided::Read(needs) => {
                let unheard: Vec<Ticket> = needs.iter().map(|need| need.subject).collect();
                caller.reserved = needs.iter().any(|need| need.reason == Reason::Reserved);
                self.decide_last(net, &caller, &unheard);
            }
            Undecided::Ask(asking) => {
                caller.claimed = asking.claimed().collect();
                self.table.end_unsent(asking);
                self.answer_asked(net, &caller, AskedFor::Unheard);
            }
        }
    }

    /// The store of the region answered, or did not.
    pub(super) fn replied(&mut self, net: &mut Net, id: CallId, answered: Answered) {
        self.region.replied(&self.table, id, answered, net.now());
    }

    /// Does what is due.
    pub(super) fn tick(&mut self, net: &mut Net) {
        if self.timer_us.is_some_and(|timer_us| timer_us <= net.now_us) {
            self.timer_us = None;
            self.step(net.now());
        }
    }

    fn step(&mut self, now: Now) {
        self.region.tick(&self.table, now);
        self.tell_globe(now);
        if let Some(globe) = &mut self.globe {
            globe.tick(&self.table, now);
        }
    }

    /// What the region has recorded may be worth telling the others.
    fn tell_globe(&mut self, now: Now) {
        if let Some(globe) = &mut self.globe {
            let mut touched = Vec::new();
            self.region.take_touched(&mut touched);
            if !touched.is_empty() {
                globe.touched(&self.table, &touched, now);
            }
        }
    }

    /// Gives memory back.
    pub(super) fn sweep(&mut self, net: &mut Net) {
        for _ in 0..SWEEP_STEPS {
            let _ = self.table.sweep(net.now());
        }
        net.queue.push(net.now_us + SWEEP_US, Event::Sweep { whose: self.whose });
    }

    /// Does what the state machines ask for, until they ask for nothing. The table is looked at at
    /// once when it has something to tell.
    pub(super) fn pump(&mut self, net: &mut Net) {
        let mut effects = Vec::new();
        loop {
            if self.woken.swap(false, Ordering::Relaxed) {
                self.region.tick(&self.table, net.now());
            }
            self.tell_globe(net.now());
            self.region.take_effects(&mut effects);
            if effects.is_empty() {
                break;
            }
            for effect in std::mem::take(&mut effects) {
                self.perform(net, effect);
            }
        }
        self.pump_globe(net);
        self.set_timer(net);
    }

    fn perform(&mut self, net: &mut Net, effect: Effect) {
        let whose = self.whose;
        match effect {
            Effect::Call { id, call, timeout_ms } => {
                let late_us = net.now_us.saturating_add(timeout_ms * 1_000);
                net.queue.push(late_us, Event::Timeout { whose, id });
                if let Some(at_us) = net.store_arrival(whose, 0) {
                    let call = Box::new(call);
                    net.queue.push(at_us, Event::ToStore { whose, id, call, delayed: false });
                }
            }
            Effect::Wake { waiter, outcome } => self.wake(net, waiter, &outcome),
            Effect::Reincarnate => {
                self.seed = mix(self.seed);
                let incarnation = u128::from(self.number) << 64 | u128::from(self.seed);
                self.region.reincarnate(&self.table, incarnation, net.now());
            }
        }
    }

    fn set_timer(&mut self, net: &mut Net) {
        let globe_ms = self.globe.as_ref().map(Globe::next_tick_ms);
        let next_ms = self.region.next_tick_ms().into_iter().chain(globe_ms).min();
        let Some(next_ms) = next_ms.filter(|next_ms| *next_ms < u64::MAX) else { return };
        let next_us = net.moment_us(next_ms).max(net.now_us + 1);
        if self.timer_us.is_none_or(|timer_us| timer_us > next_us) {
            self.timer_us = Some(next_us);
            net.queue.push(next_us, Event::Tick { whose: self.whose });
        }
    }
}
