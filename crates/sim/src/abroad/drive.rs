//! What a process does between its globe and the network.

use tidegate_convergence::{
    Batch, GlobalCall, GlobalError, GlobalReply, GlobeEffect, GlobeId, RegionNumber, StoreError,
    unpack,
};

use super::{Abroad, Errand, Returned};
use crate::coverage::Moment;
use crate::fault::Fault;
use crate::ghost::Reading;
use crate::node::Process;
use crate::struck::moment_of;
use crate::world::{Event, World};

/// Which call of which process.
pub(crate) type Whose = (usize, u32, GlobeId);

/// Steps in which an import is taken in, at most: no world has as many totals. Who is not done by
/// then is found to spin by its next tick.
const IMPORT_STEPS_MAX: usize = 10_000;

impl World {
    /// Sends what the globe wants to be sent, and sees to it that it is woken in time.
    pub(crate) fn pump_abroad(&mut self, process: &mut Process) {
        let Some(abroad) = &mut process.abroad else { return };
        let mut effects = std::mem::take(&mut abroad.effects);
        abroad.globe.take_effects(&mut effects);
        let next_ms = abroad.globe.next_tick_ms();
        for effect in effects {
            let (id, errand, timeout_ms) = match effect {
                GlobeEffect::Board { id, call, timeout_ms } => {
                    (id, Errand::Board(call), timeout_ms)
                }
                GlobeEffect::Region { id, call, timeout_ms } => {
                    (id, Errand::Read(call), timeout_ms)
                }
                GlobeEffect::Global { id, call, timeout_ms } => {
                    (id, Errand::Global(call), timeout_ms)
                }
            };
            self.set_out(process, id, errand, timeout_ms);
        }
        if next_ms == u64::MAX {
            return;
        }
        let next_us = process.moment_us(next_ms).max(self.now_us + 1);
        let (node, number) = (process.node, process.number);
        let Some(abroad) = &mut process.abroad else { return };
        if abroad.timer_us.is_none_or(|timer_us| timer_us > next_us) {
            abroad.timer_us = Some(next_us);
            self.queue.push(next_us, Event::GlobeTick { node, number });
        }
    }

    /// A call goes out.
    fn set_out(&mut self, process: &mut Process, id: GlobeId, errand: Errand, timeout_ms: u64) {
        self.check_errand(process, &errand);
        let (node, number) = (process.node, process.number);
        self.note(&[20, number.into()], || format!("process {number} calls {id:?}: {errand:?}"));
        let sent_ms = self.reading(process).monotonic_ms;
        if let Some(abroad) = &mut process.abroad {
            abroad.calls.insert(id, (errand.clone(), sent_ms));
        }
        let (whose, what) = ((node, number, id), errand.moment());
        self.aim(node, what);
        self.queue.push(self.now_us + timeout_ms * 1_000, Event::GlobeTimeout { whose });
        let arrives_us = match errand {
            Errand::Global(_) => self.crossing((node, what)),
            Errand::Board(_) | Errand::Read(_) => self.arrival((node, what), 0),
        };
        if let Some(at_us) = arrives_us {
            self.queue.push(at_us, Event::ErrandArrives { whose, errand: Box::new(errand) });
        }
    }

    /// When a message to or from the global store arrives, if it does.
    fn crossing(&mut self, (node, what): (usize, Moment)) -> Option<u64> {
        let (vanish, most_us) =
            self.database.as_ref().map(|d| (d.vanish_permille, d.latency_us))?;
        let lost = self.strikes((Fault::Vanish, what), vanish);
        let mut takes_us = self.network.between(most_us / 4, most_us);
        if self.strikes((Fault::Delay, what), self.delay_permille) {
            takes_us += self.network.skewed(5_000, 8_000_000);
        }
        (!lost && !self.is_severed(node)).then_some(self.now_us + takes_us)
    }

    fn is_severed(&self, node: usize) -> bool {
        self.nodes.get(node).is_none_or(|node| node.severed_until_us > self.now_us)
    }

    /// A call arrives at its store.
    pub(crate) fn errand_arrives(&mut self, whose: Whose, errand: Errand) {
        match errand {
            Errand::Global(call) => self.reach_database(whose, call),
            Errand::Board(_) | Errand::Read(_) => self.reach_board(whose, &errand),
        }
    }

    /// A call arrives at the regional store.
    fn reach_board(&mut self, whose: Whose, errand: &Errand) {
        let (node, number, id) = whose;
        if self.is_cut(node) || self.is_orphaned(node, number) {
            return;
        }
        let home = self.home_of(node);
        let (now_us, now_ms) = (self.now_us, self.now_ms());
        let store = &mut self.homes.at_mut(home).store;
        let error = if store.away_until_us > now_us {
            let answers = store.away_answers;
            self.struck(Fault::Away, errand.moment());
            if !answers {
                return;
            }
            Some(StoreError::Unreachable("away".to_owned()))
        } else if store.refusals > 0 {
            store.refusals -= 1;
            self.struck(Fault::Refuse, errand.moment());
            Some(StoreError::Refused("NOSCRIPT".to_owned()))
        } else {
            None
        };
        let store = &mut self.homes.at_mut(home).store;
        let returned = match (errand, error) {
            (Errand::Board(_), Some(error)) => Returned::Board(Err(error)),
            (_, Some(error)) => Returned::Read(Err(error)),
            (Errand::Board(call), None) => Returned::Board(Ok(store.memory.board(call, now_ms))),
            (Errand::Read(call), None) => Returned::Read(Ok(store.memory.call(call, now_ms))),
            (Errand::Global(_), None) => return,
        };
        self.note(&[21, number.into()], || format!("{id:?} of process {number}: {returned:?}"));
        if let Some(at_us) = self.arrival((node, errand.moment()), 1) {
            let returned = Box::new(returned);
            self.queue.push(at_us, Event::ErrandReturns { whose, returned });
        }
    }

    /// A call arrives at the global store.
    fn reach_database(&mut self, whose: Whose, call: GlobalCall) {
        if self.is_severed(whose.0) {
            return;
        }
        self.report.events += 1;
        let (now_us, now_ms, home) = (self.now_us, self.now_ms(), self.home_of(whose.0));
        let what = moment_of(&call);
        let Some(database) = &mut self.database else { return };
        let (late, busy) = (database.late_permille, database.busy_permille);
        if database.away_until_us > now_us {
            let answers = database.away_answers;
            self.struck(Fault::Outage, what);
            if answers {
                let error = GlobalError::Unreachable("away".to_owned());
                self.come_back((whose, what), Err(error));
            }
            return;
        }
        if let Some(error) = database.refuses(&call) {
            self.struck(Fault::Poison, what);
            return self.come_back((whose, what), Err(error));
        }
        if self.strikes((Fault::Busy, what), busy) {
            let error = GlobalError::Busy("deadlock".to_owned());
            return self.come_back((whose, what), Err(error));
        }
        if let GlobalCall::Publish(batch) = call {
            let late = self.strikes((Fault::Late, what), late);
            return self.begin_row(whose, batch, late);
        }
        self.check_deleted(&call, true);
        let Some(database) = &mut self.database else { return };
        let imports = matches!(call, GlobalCall::Import(_));
        let lags = imports && database.lags_until_us > now_us;
        if imports {
            database.read_by(whose.1, lags);
        }
        let replica = database.replica.as_mut().filter(|_| lags);
        let answered = replica.unwrap_or(&mut database.memory).call(&call, now_ms);
        if let GlobalCall::Trim { region, written_before_ms, .. } = &call {
            database.trimmed(*region, written_before_ms + self.options.globe.grace_ms);
        }
        if let GlobalCall::Release { name, identity } = &call {
            database.let_go(name, RegionNumber::of(*identity));
        }
        if let (GlobalCall::Register { name, identity }, Ok(GlobalReply::Registered { .. })) =
            (&call, &answered)
            && database.hold((name, home), RegionNumber::of(*identity), now_ms)
            && database.epoch == 0
        {
            self.broken("namesake", || format!("region {home} took a name from another"));
        }
        if matches!(answered, Err(GlobalError::NameTaken { .. })) {
            self.struck(Fault::Namesake, what);
        }
        self.check_deleted(&call, false);
        self.come_back((whose, what), answered);
    }

    /// A row is begun: it is visible at once, later, or never.
    fn begin_row(&mut self, whose: Whose, batch: Batch, late: bool) {
        let Some(database) = &mut self.database else { return };
        let (id, epoch) = (database.memory.begin(), database.epoch);
        if !late {
            return self.commit_row(whose, (id, epoch), batch);
        }
        if self.network.percent(25) {
            return;
        }
        let at_us = self.now_us + self.network.skewed(10_000, 8_000_000);
        let batch = Box::new(batch);
        self.queue.push(at_us, Event::Commit { whose, id: (id, epoch), batch });
    }

    /// A row becomes visible, unless another server has taken over meanwhile.
    pub(crate) fn commit_row(&mut self, whose: Whose, (id, epoch): (u64, u64), batch: Batch) {
        let Some(database) = &mut self.database else { return };
        if database.epoch != epoch {
            return;
        }
        if !batch.repeats {
            self.report.published += 1;
        }
        database.commit(whose.1, id, batch);
        self.note(&[22, id], || format!("row {id} is visible"));
        self.come_back((whose, Moment::Publish), Ok(GlobalReply::Published { id }));
    }

    /// The global store answers.
    fn come_back(
        &mut self,
        (whose, what): (Whose, Moment),
        answered: Result<GlobalReply, GlobalError>,
    ) {
        if let Some(at_us) = self.crossing((whose.0, what)) {
            let returned = Box::new(Returned::Global(answered));
            self.queue.push(at_us, Event::ErrandReturns { whose, returned });
        }
    }

    /// An answer arrives at a node.
    pub(crate) fn errand_returns(&mut self, whose: Whose, returned: Returned) {
        let (node, number, id) = whose;
        let cut = match returned {
            Returned::Global(_) => self.is_severed(node),
            Returned::Board(_) | Returned::Read(_) => self.is_cut(node),
        };
        if !cut {
            self.with_process(node, number, |world, process| {
                world.report.events += 1;
                world.land(process, id, returned);
            });
            self.tick_if_draining(node, number);
        }
    }

    /// A call has taken too long.
    pub(crate) fn errand_fails(&mut self, (node, number, id): Whose) {
        self.with_process(node, number, |world, process| {
            let abroad = process.abroad.as_ref();
            let Some((errand, _)) = abroad.and_then(|abroad| abroad.calls.get(&id)) else { return };
            let returned = match errand {
                Errand::Board(_) => Returned::Board(Err(StoreError::Timeout)),
                Errand::Read(_) => Returned::Read(Err(StoreError::Timeout)),
                Errand::Global(_) => Returned::Global(Err(GlobalError::Timeout)),
            };
            world.report.events += 1;
            world.land(process, id, returned);
        });
    }

    /// The globe hears what came of a call.
    fn land(&mut self, process: &mut Process, id: GlobeId, returned: Returned) {
        let reading = self.reading(process);
        let number = process.number;
        // What it says may turn subjects: those that were dropped before are not among them.
        if matches!(&returned, Returned::Global(Ok(GlobalReply::Imported(_)))) {
            self.verify_all(process);
        }
        let Some(abroad) = &mut process.abroad else { return };
        // One that comes too late, or twice, finds nobody.
        let Some((errand, sent_ms)) = abroad.calls.remove(&id) else { return };
        self.note(&[23, number.into()], || format!("process {number} hears {id:?}: {returned:?}"));
        let (table, now) = (&process.table, reading.into());
        match returned {
            Returned::Board(reply) => {
                if let (Some(own), Ok(reply)) = (abroad.own, &reply) {
                    self.database.iter_mut().for_each(|all| all.took(own, &reply.taken));
                }
                abroad.globe.board_replied(table, id, reply, now);
            }
            Returned::Read(reply) => {
                if let (Some(own), Ok(reply)) = (abroad.own, &reply) {
                    let who = (number, own);
                    self.database.iter_mut().for_each(|all| all.looked(who, &errand, reply));
                }
                abroad.globe.region_replied(table, id, reply, now);
            }
            Returned::Global(reply) => {
                let losses = abroad.globe.counts(now).discarded;
                abroad.globe.global_replied(table, id, reply.clone(), now);
                // What is left of a long import goes on at once, in steps; then it is judged.
                for _ in 0..IMPORT_STEPS_MAX {
                    if abroad.globe.next_tick_ms() > 0 {
                        break;
                    }
                    abroad.globe.tick(table, now);
                }
                let whole = losses == abroad.globe.counts(now).discarded;
                self.learn(process, &errand, (reply, sent_ms), whole);
            }
        }
        self.note_leader(process, reading);
        self.pump_abroad(process);
    }

    /// What the clock of a leader says decides what it publishes again.
    fn note_leader(&mut self, process: &Process, reading: Reading) {
        let (Some(abroad), Some(database)) = (&process.abroad, &mut self.database) else { return };
        let leads = |abroad: &Abroad| abroad.globe.counts(reading.into()).leads > 0;
        if let Some(number) = abroad.own.filter(|_| database.epoch > 0 && leads(abroad)) {
            database.led(number, reading.unix_ms);
        }
    }

    /// What the answer of the global store says, apart from what the globe makes of it.
    fn learn(
        &mut self,
        process: &mut Process,
        errand: &Errand,
        (reply, sent_ms): (Result<GlobalReply, GlobalError>, u64),
        whole: bool,
    ) {
        let Some(abroad) = &mut process.abroad else { return };
        match (errand, reply) {
            (
                Errand::Global(GlobalCall::Register { identity, .. }),
                Ok(GlobalReply::Registered { .. }),
            ) => self.named(process, RegionNumber::of(*identity)),
            (_, Err(GlobalError::NameTaken { .. })) => abroad.own = None,
            (Errand::Global(GlobalCall::Publish(batch)), Err(GlobalError::Refused(_)))
                if abroad.draining =>
            {
                if let [counter] = unpack(&batch.payload).unwrap_or_default().as_slice() {
                    let subject = self.digests.get(&counter.subject).copied();
                    abroad.refused.extend(subject.map(|subject| (subject, counter.sequence)));
                }
            }
            (Errand::Global(GlobalCall::Import(import)), Ok(GlobalReply::Imported(rows)))
                if whole =>
            {
                if rows.len() < import.rows_max {
                    abroad.heard_ms = abroad.heard_ms.max(sent_ms);
                }
                self.deliver(process, import.from, &rows);
                for subject in 0..self.options.kinds.len() {
                    self.check_registers(process, subject);
                }
            }
            _ => {}
        }
    }

    /// The globe of a process does what is due.
    pub(crate) fn globe_tick(&mut self, node: usize, number: u32) {
        self.with_process(node, number, |world, process| {
            let reading = world.reading(process);
            let Some(abroad) = &mut process.abroad else { return };
            if abroad.timer_us.is_some_and(|timer_us| timer_us > world.now_us) {
                return;
            }
            abroad.timer_us = None;
            world.report.events += 1;
            abroad.expire(|name| world.expires_ms(name) <= reading.unix_ms);
            abroad.globe.tick(&process.table, reading.into());
            let next_ms = abroad.globe.next_tick_ms();
            if next_ms <= reading.monotonic_ms {
                world.broken("spin", || format!("process {number} is to be woken at once, again"));
            }
            world.pump_abroad(process);
        });
        self.tick_if_draining(node, number);
    }
}
