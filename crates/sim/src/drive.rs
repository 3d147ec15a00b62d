//! What a process does between its table and the network: the driver of the state machine.

use tidegate_convergence::{CallId, Effect, Record, ShardCall, ShardReply, StoreError};

use crate::coverage::Moment;
use crate::fault::Fault;
use crate::grants::owner_of;
use crate::node::{Call, Process};
use crate::truth::{Name, Part};
use crate::world::{Answer, Event, Home, World};

/// Which call of which process.
pub(crate) type Which = (usize, u32, CallId);

impl World {
    /// Does what the state machine asks for, until it asks for nothing.
    pub(crate) fn pump(&mut self, process: &mut Process) {
        loop {
            self.flush(process);
            if process.effects.is_empty() {
                break;
            }
            for effect in std::mem::take(&mut process.effects) {
                match effect {
                    Effect::Wake { waiter, outcome } => self.tell(process, waiter, outcome),
                    Effect::Reincarnate => self.reincarnate(process),
                    Effect::Call { .. } => {}
                }
            }
        }
        self.pump_abroad(process);
        let (node, number) = (process.node, process.number);
        if process.take_woken() {
            let at_us = self.now_us + self.scheduling.below(500);
            self.queue.push(at_us, Event::Tick { node, number, timer: false });
        }
        let next_us = process.region.next_tick_ms().map(|next_ms| process.moment_us(next_ms));
        if let Some(next_us) = next_us.map(|next_us| next_us.max(self.now_us + 1))
            && process.timer_us.is_none_or(|timer_us| timer_us > next_us)
        {
            process.timer_us = Some(next_us);
            self.queue.push(next_us, Event::Tick { node, number, timer: true });
        }
    }

    /// Sends the calls that are to be made; the rest is left for later. At once, because they say
    /// how things stand now; and in order, because who is told that it stood in line in vain may
    /// have made room for the next.
    pub(crate) fn flush(&mut self, process: &mut Process) -> Vec<CallId> {
        let (mut effects, mut sent) = (Vec::new(), Vec::new());
        process.region.take_effects(&mut effects);
        for effect in effects {
            match effect {
                Effect::Call { id, call, timeout_ms } => {
                    self.send(process, id, call, timeout_ms);
                    sent.push(id);
                }
                Effect::Wake { waiter, outcome } => {
                    if let Some(how) = outcome.granted {
                        self.heed(process, waiter, how);
                    }
                    process.effects.push(Effect::Wake { waiter, outcome });
                }
                Effect::Reincarnate => process.effects.push(effect),
            }
        }
        self.touch(process);
        sent
    }

    /// Nobody else has this process's identity. A clock that steps back leads it to cells that it
    /// has been in before, and it must not take its own old totals for another's.
    /// Unless a store that forgot granted what had been refused: it then holds more of this process
    /// than was admitted, and no more than that ask carried.
    fn reincarnate(&mut self, process: &Process) {
        let number = process.number;
        let truth = &self.homes.at(process.home).truth;
        let own = truth.cells.iter().flat_map(|(name, cell)| {
            let parts = cell.parts.iter().filter(|part| part.owner.0 == number);
            parts.map(|part| (*name, *part))
        });
        let own: Vec<(Name, Part)> = own.filter(|(_, part)| part.regranted > 0).collect();
        self.given_up = own.into_iter().any(|(name, part)| {
            let more = self.held(process.home, name, &part).saturating_sub(part.amount);
            (1..=part.regranted).contains(&more)
        });
        self.broken("identity", || format!("process {number} met itself"));
    }

    /// A call goes out. What it says must be what the process admitted.
    fn send(&mut self, process: &mut Process, id: CallId, call: ShardCall, timeout_ms: u64) {
        let awaited = timeout_ms == self.tuning.deadline_ms && !call.records.is_empty();
        let sent_ms = self.reading(process).monotonic_ms;
        let (mut about, mut acked) = (Vec::new(), Vec::new());
        let asked = call.ask.iter().flat_map(|ask| &ask.cells);
        let asked = asked.map(|cell| (&cell.record, Some(cell)));
        for (record, cell) in call.records.iter().map(|record| (record, None)).chain(asked) {
            let subject = self.digests.get(&record.subject).copied().unwrap_or(usize::MAX);
            match cell {
                Some(cell) => self.check_ask_cell(process, subject, cell),
                None => self.check_record(process, subject, record),
            }
            let ghost = process.ghosts.get(&subject);
            let era = ghost.map_or(0, |ghost| ghost.era);
            let place = ghost.map_or((0, 0), |ghost| (ghost.turn, ghost.sequence));
            about.push((subject, era, place));
            acked.push(ghost.map_or((0, 0), |g| (g.current.acked, g.previous.acked)));
            if awaited && !process.reads.insert((subject, era)) {
                self.broken("one read", || format!("subject {subject} is read twice at once"));
            }
        }
        let (node, number) = (process.node, process.number);
        let together = match &call.ask {
            Some(ask) => self.take_claims(process, id, ask),
            None => Vec::new(),
        };
        self.note(&[4, number.into(), about.len() as u64], || {
            let totals: Vec<_> = call.records.iter().map(|r| (r.total, r.previous_total)).collect();
            let ask = call.ask.as_ref();
            format!("process {number} calls {id:?} awaited {awaited}: {about:?} {totals:?} {ask:?}")
        });
        let call = Call { call, sent_ms, awaited, about, acked, together };
        process.calls.insert(id, call.clone());
        self.aim(node, call.moment());
        self.check_calls(process);
        let timeout = Event::Timeout { node, number, id };
        self.queue.push(self.now_us + timeout_ms * 1_000, timeout);
        self.travel(node, number, id, call);
    }

    /// A call crosses the network, once, twice or not at all.
    fn travel(&mut self, node: usize, number: u32, id: CallId, call: Call) {
        let what = call.moment();
        let twice = self.strikes((Fault::Duplicate, what), self.duplicate_permille);
        for copy in 0..1 + u32::from(twice) {
            if let Some(mut at_us) = self.arrival((node, what), 0) {
                if copy > 0 {
                    at_us += self.after_us(&call);
                }
                let call = Box::new(call.clone());
                self.queue.push(at_us, Event::ToStore { node, number, id, call, delayed: false });
            }
        }
    }

    /// How much later the second copy of a message comes. That of an ask often comes when much has
    /// happened since.
    fn after_us(&mut self, call: &Call) -> u64 {
        let late = call.call.ask.is_some() && self.consistency.percent(50);
        if late { self.consistency.skewed(5_000, 5_000_000) } else { 0 }
    }

    /// Whether something befalls a message.
    pub(crate) fn strikes(&mut self, (fault, what): (Fault, Moment), permille: u64) -> bool {
        let strikes = permille > 0 && !self.healed && self.network.below(1_000) < permille;
        if strikes {
            self.struck(fault, what);
        }
        strikes
    }

    /// When a message arrives, if it does.
    pub(crate) fn arrival(&mut self, (node, what): (usize, Moment), way: usize) -> Option<u64> {
        let (low, high) = self.options.latency_us;
        let mut takes_us = self.network.between(low, high);
        if self.strikes((Fault::Delay, what), self.delay_permille) {
            takes_us += self.network.skewed(5_000, 5_000_000);
        }
        let lost = self.strikes((Fault::Loss, what), self.loss_permille);
        let reorder = self.options.faults.has(Fault::Reorder) && !self.healed;
        let now_us = self.now_us;
        if reorder {
            self.struck(Fault::Reorder, what);
        }
        let link = self.nodes.get_mut(node)?;
        let mut at_us = now_us + takes_us;
        if let Some(last_us) = link.arrivals_us.get_mut(way)
            && !reorder
        {
            // A connection keeps the order.
            at_us = at_us.max(*last_us + 1);
            *last_us = at_us;
        }
        (!lost && link.cut_until_us <= now_us).then_some(at_us)
    }

    pub(crate) fn is_cut(&self, node: usize) -> bool {
        self.nodes.get(node).is_none_or(|node| node.cut_until_us > self.now_us)
    }

    /// Whether the store that a call is on its way to has ended, with the process that made it.
    pub(crate) fn is_orphaned(&self, node: usize, number: u32) -> bool {
        let process = self.nodes.get(node).and_then(|node| node.process.as_ref());
        self.options.is_private() && process.is_none_or(|process| process.number != number)
    }

    /// A call arrives at the store.
    pub(crate) fn reach_store(&mut self, which: Which, call: Box<Call>, delayed: bool) {
        let (node, number, id) = which;
        if self.is_cut(node) || self.is_orphaned(node, number) {
            return;
        }
        self.report.events += 1;
        let (home, what) = (self.home_of(node), call.moment());
        if self.homes.at(home).store.away_until_us > self.now_us {
            self.struck(Fault::Away, what);
            if self.homes.at(home).store.away_answers {
                let said = Err(StoreError::Unreachable("away".to_owned()));
                self.answer((which, what), Answer { said, honest: None });
            }
            return;
        }
        if self.homes.at(home).store.slow_until_us > self.now_us && !delayed {
            self.struck(Fault::Slow, what);
            let most_us = self.homes.at(home).store.slow_ms * 1_000;
            let at_us = self.now_us + self.network.between(1, most_us);
            self.queue.push(at_us, Event::ToStore { node, number, id, call, delayed: true });
            return;
        }
        let mut refused = None;
        if self.homes.at(home).store.refusals > 0 {
            self.homes.at_mut(home).store.refusals -= 1;
            self.struck(Fault::Refuse, what);
            // All of it, or one record.
            if call.call.records.len() < 2 || self.network.percent(50) {
                let said = Err(StoreError::Refused("NOSCRIPT".to_owned()));
                self.answer((which, what), Answer { said, honest: None });
                return;
            }
            refused = Some(self.network.index(call.call.records.len()));
        }
        self.report.calls += 1;
        self.meet((home, number), call.call.shard);
        let now_ms = self.now_ms();
        let asked = call.call.ask.iter().flat_map(|ask| &ask.cells).map(|cell| &cell.record);
        for (at, record) in call.call.records.iter().chain(asked).enumerate() {
            if refused != Some(at) {
                self.apply(home, record, now_ms);
            }
        }
        let said = self.homes.at_mut(home).store.call(&call, refused, now_ms);
        self.check_store(which, &call.call, &said.honest);
        self.note(&[5, number.into(), call.about.len() as u64], || {
            let ShardReply { replies, asked, .. } = &said.reply;
            format!("the store answers {id:?} of process {number}: {replies:?} {asked:?}")
        });
        self.answer((which, what), Answer { said: Ok(said.reply), honest: Some(said.honest) });
        if let Some(ask) = &call.call.ask {
            self.strike_asked((node, number), (home, call.call.shard), ask);
        }
    }

    /// Notes what the store is about to record.
    fn apply(&mut self, home: usize, record: &Record, now_ms: u64) {
        let Some(subject) = self.digests.get(&record.subject).copied() else { return };
        let (owner, times) = (owner_of(record), (now_ms, self.life_ms(record)));
        let Home { truth, answered, .. } = self.homes.at_mut(home);
        let (current, previous) = (record.sequence, record.sequence.saturating_sub(1));
        for (sequence, total) in [(current, record.total), (previous, record.previous_total)] {
            let name = (subject, sequence);
            if truth.cells.get(&name).is_some_and(|cell| cell.is_over(now_ms)) {
                answered.drop_cell(name);
            }
            truth.apply(name, owner, total, times);
        }
    }

    /// How long a store keeps a cell. Reckoned apart: three windows, and up to an eighth of one by
    /// the subject.
    pub(crate) fn life_ms(&self, record: &Record) -> u64 {
        let subject = self.digests.get(&record.subject);
        let spec = subject.and_then(|subject| self.specs.get(*subject));
        let window_ms = spec.map_or(0, |spec| spec.window_ms);
        let [.., last] = *record.subject.as_bytes();
        3 * window_ms + window_ms * u64::from(last) / 2_048
    }

    fn answer(&mut self, ((node, number, id), what): (Which, Moment), answer: Answer) {
        if self.is_cut(node) {
            return;
        }
        if let Some(at_us) = self.arrival((node, what), 1) {
            let answer = Box::new(answer);
            self.queue.push(at_us, Event::ToNode { node, number, id, answer });
        }
    }

    /// An answer arrives at a node.
    pub(crate) fn reach_node(&mut self, (node, number, id): Which, answer: Answer) {
        if self.is_cut(node) {
            return;
        }
        self.with_process(node, number, |world, process| {
            // One that comes too late, or twice, finds nobody.
            let Some(call) = process.calls.remove(&id) else { return };
            world.report.events += 1;
            world.note(&[6, number.into()], || format!("process {number} hears of {id:?}"));
            world.forget_reads(process, &call);
            let now_ms = world.reading(process).monotonic_ms;
            let judged = (&world.tuning.breaker, now_ms);
            process.doubts.end(&call, answer.said.as_ref().ok(), judged);
            world.land_ask(process, &call, answer.honest.as_ref());
            if let Some(honest) = &answer.honest {
                world.hear(process, &call, honest);
            }
            let now = world.reading(process).into();
            process.region.replied(&process.table, id, answer.said, now);
            world.flush(process);
            for (subject, ..) in &call.about {
                world.check_registers(process, *subject);
            }
            world.pump(process);
            if process.draining {
                world.queue.push(world.now_us, Event::Tick { node, number, timer: false });
            }
        });
    }

    pub(crate) fn forget_reads(&mut self, process: &mut Process, call: &Call) {
        if call.awaited {
            for (subject, era, _) in &call.about {
                process.reads.remove(&(*subject, *era));
            }
        }
    }

    /// A call has taken too long.
    pub(crate) fn time_out(&mut self, (node, number, id): Which) {
        self.with_process(node, number, |world, process| {
            let Some(call) = process.calls.remove(&id) else { return };
            world.report.events += 1;
            world.note(&[7, number.into()], || format!("process {number} gives {id:?} up"));
            world.forget_reads(process, &call);
            let now_ms = world.reading(process).monotonic_ms;
            process.doubts.end(&call, None, (&world.tuning.breaker, now_ms));
            world.land_ask(process, &call, None);
            let now = world.reading(process).into();
            process.region.replied(&process.table, id, Err(StoreError::Timeout), now);
            world.pump(process);
        });
    }

    /// A process does what is due.
    pub(crate) fn tick(&mut self, node: usize, number: u32, timer: bool) {
        self.with_process(node, number, |world, process| {
            if timer {
                if process.timer_us != Some(world.now_us) && process.timer_us > Some(world.now_us) {
                    return;
                }
                process.timer_us = None;
            }
            world.report.events += 1;
            let now = world.reading(process).into();
            process.region.tick(&process.table, now);
            world.pump(process);
        });
        self.end_drain_if_clean(node, number);
    }

    /// The globe has got further. Before a process that was asked to stop looks whether that was
    /// all, it does what is due: a caller may have been admitted since the last tick.
    pub(crate) fn tick_if_draining(&mut self, node: usize, number: u32) {
        let process = self.nodes.get(node).and_then(|node| node.process.as_ref());
        if process.is_some_and(|process| process.number == number && process.draining) {
            self.tick(node, number, false);
        }
    }

    /// A process that was asked to stop ends when it is clean: after a tick, because what was
    /// admitted since the last one is not known to be dirty yet.
    fn end_drain_if_clean(&mut self, node: usize, number: u32) {
        self.with_process(node, number, |world, process| world.drain_abroad(process));
        let slot = self.nodes.get_mut(node);
        let drained = slot.and_then(|node| {
            node.process.take_if(|process| {
                let here = process.number == number && process.draining;
                let silent = process
                    .abroad
                    .as_ref()
                    .is_none_or(|abroad| abroad.draining && abroad.globe.is_clean());
                here && process.callers.is_empty() && process.region.is_clean() && silent
            })
        });
        if let Some(mut process) = drained {
            self.end_drain(&mut process);
        }
    }

    /// What is recorded is said to the other regions next.
    fn drain_abroad(&mut self, process: &mut Process) {
        let ready = process.draining && process.callers.is_empty() && process.region.is_clean();
        let now = self.reading(process).into();
        if let Some(abroad) = process.abroad.as_mut().filter(|abroad| ready && !abroad.draining) {
            abroad.draining = true;
            abroad.globe.drain(&process.table, now);
            self.pump_abroad(process);
        }
    }
}
