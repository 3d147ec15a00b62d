//! Everything is mended, time passes, and what is left is compared with what happened.

use tidegate_convergence::{Component, Record};

use crate::decide::Stage;
use crate::ghost::Side;
use crate::node::{Ask, Caller, Process, START_MS};
use crate::truth::{Cause, CellTruth, End, Name, Part};
use crate::world::{Home, World};

/// Within this time after everything is mended, everything admitted is recorded: a call that was
/// lost times out after two seconds, a breaker opens for one, a loss is noticed within one and
/// healed over another, a replay waits for two at most, and some of it comes one after the other.
const WHOLE_MS: u64 = 10_000;
/// What a probe may take: two round trips and what a breaker lets through.
const PROBE_MS: u64 = 3_000;
/// How often a process looks.
const PROBES: u64 = 6;
/// A probe's limit: above all others, so that a view that is full does not answer it unasked.
const PROBE_LIMIT: u64 = 1 << 49;

impl World {
    /// The liveness phase and the audit.
    pub(crate) fn heal_and_audit(&mut self) {
        self.healed = true;
        for home in self.homes.iter_mut() {
            let store = &mut home.store;
            (store.away_until_us, store.slow_until_us, store.refusals) = (0, 0, 0);
        }
        for node in &mut self.nodes {
            (node.offset_ms, node.cut_until_us, node.paused_until_us) = (0, 0, 0);
            node.severed_until_us = 0;
        }
        if let Some(database) = &mut self.database {
            database.mend();
        }
        let mended_us = self.now_us;
        self.note(&[9], || "everything is mended".to_owned());
        while self.is_judged() {
            self.run_until(self.now_us + 100_000);
            let took_ms = (self.now_us - mended_us) / 1_000;
            if self.is_clean() && took_ms >= 2_500 {
                self.report.healed_ms = took_ms;
                break;
            }
            if took_ms >= WHOLE_MS {
                self.broken("liveness", || format!("not whole after {took_ms} ms"));
            }
        }
        self.agree();
        self.audit(false);
        let rows = self.rows_and_names();
        let calls = self.quiet_calls();
        self.run_until(self.now_us + self.tuning.freshness.fresh_ms * 1_000 + 100_000);
        self.check_quiet(calls);
        self.check_silent(rows);
        // The first look brings back what the store lost alone, the second sees it.
        self.probe(PROBES);
        self.run_until(self.now_us + self.tuning.freshness.fresh_ms * 1_000);
        let second_us = self.now_us;
        // For as long as a cell can do without being asked about.
        self.probe(PROBES + self.tuning.freshness.fresh_ms / self.tuning.retry_ms);
        self.agree();
        self.audit(true);
        self.check_views(second_us);
        self.explain();
        self.check_spans();
        self.check_gaps();
    }

    /// Whether what happens still counts. A run that was given up has no more events, so nothing
    /// that is waited for comes.
    pub(crate) const fn is_judged(&self) -> bool {
        self.report.broken.is_none() && !self.given_up
    }

    fn is_clean(&self) -> bool {
        self.nodes.iter().all(|node| {
            node.process.as_ref().is_some_and(|process| {
                let waited = process.callers.is_empty() && process.claims.is_empty();
                !process.draining && process.region.is_clean() && waited
            })
        })
    }

    fn quiet_calls(&self) -> u64 {
        let all = self.nodes.iter().filter_map(|node| node.process.as_ref());
        all.map(|process| process.region.counts(&process.table).calls).sum()
    }

    /// With nothing to tell, a process asks each shard once a second who it is, and that is all.
    fn check_quiet(&mut self, before: u64) {
        let calls = self.quiet_calls() - before;
        let seconds = self.tuning.freshness.fresh_ms / 1_000 + 2;
        let most = seconds * 5 / 4 * u64::from(self.options.shards) * self.nodes.len() as u64;
        if calls > most && self.report.broken.is_none() {
            self.broken("quiet", || format!("{calls} calls with nothing to tell, at most {most}"));
        }
        for node in 0..self.nodes.len() {
            self.with_running(node, |world, process| world.check_bounds(process));
        }
    }

    fn with_running(&mut self, node: usize, work: impl FnOnce(&mut Self, &mut Process)) {
        let process = self.nodes.get(node).and_then(|node| node.process.as_ref());
        if let Some(number) = process.map(|process| process.number) {
            self.with_process(node, number, work);
        }
    }

    /// Every process looks at every subject once: views are only brought up to date by being used.
    fn probe(&mut self, times: u64) {
        // More than once, because an answer that takes longer than the deadline is none.
        for _ in 0..times {
            for node in 0..self.nodes.len() {
                for subject in 0..self.options.kinds.len() {
                    self.with_running(node, |world, process| {
                        let deadline_us = world.now_us + world.tuning.deadline_ms * 1_000;
                        let asks = vec![Ask { limit: PROBE_LIMIT, ..Ask::look(subject) }];
                        let came = world.reading(process);
                        let caller = Caller::new(asks, false, came, deadline_us);
                        world.decide(process, caller, Stage::First);
                        world.pump(process);
                    });
                }
            }
            self.run_until(self.now_us + self.tuning.retry_ms * 1_000 + 50_000);
        }
        self.run_until(self.now_us + PROBE_MS * 1_000);
        if !self.is_clean() {
            self.broken("liveness", || "not whole after the probes".to_owned());
        }
    }

    /// The sequences of a subject that still count: the current one and the one before.
    fn counting(&self, name: Name) -> bool {
        let (subject, sequence) = name;
        let window_ms = self.specs.get(subject).map_or(1, |spec| spec.window_ms);
        let now = (START_MS + self.now_ms()) / window_ms;
        sequence == now || sequence + 1 == now
    }

    /// The store holds all that it should of the cells that still count. A cell that it lost alone
    /// is noticed by whoever asks for it.
    fn audit(&mut self, probed: bool) {
        for node in 0..self.nodes.len() {
            self.with_running(node, |world, process| {
                world.verify_all(process);
                world.check_unclaimed(process);
            });
        }
        for home in 0..self.homes.len() {
            self.audit_home(home, probed);
        }
    }

    /// Nothing is claimed any more, neither by the registers nor by the ghosts, and every register
    /// holds what it should.
    pub(crate) fn check_unclaimed(&mut self, process: &mut Process) {
        let subjects: Vec<usize> = process.ghosts.keys().copied().collect();
        for subject in subjects {
            let left = self.claimed(process, subject);
            if left > 0 {
                let number = process.number;
                self.broken("claims", || format!("process {number} claims {left} of {subject}"));
            }
            self.check_registers(process, subject);
        }
    }

    /// What is claimed of a subject, and not admitted.
    fn claimed(&self, process: &Process, subject: usize) -> u64 {
        let Some(ghost) = process.ghosts.get(&subject) else { return 0 };
        let ask = Ask::look(subject);
        let request = self.specs.get(subject).and_then(|spec| spec.request(ask).ok());
        let cells = [ghost.sequence, ghost.sequence - 1].map(|sequence| {
            let cell = request.as_ref().and_then(|it| process.table.cell(it.subject(), sequence));
            cell.map_or(0, |cell| cell.claimed().saturating_sub(cell.mine()))
        });
        let ghosts = ghost.current.pending + ghost.previous.pending;
        ghosts.max(cells.iter().sum())
    }

    fn audit_home(&mut self, home: usize, probed: bool) {
        let cells: Vec<(Name, CellTruth)> = self
            .homes
            .at(home)
            .truth
            .cells
            .iter()
            .filter(|(name, cell)| {
                let looked = probed && self.is_looked_at(home, **name);
                self.counting(**name) && (looked || !cell.lost_alone)
            })
            .map(|(name, cell)| (*name, cell.clone()))
            .collect();
        let now_ms = self.now_ms();
        for (name, cell) in cells {
            self.report.audited += 1;
            for part in &cell.parts {
                let held = self.held(home, name, part);
                // Those who live can send it: they must have.
                let owed = part.end.is_none() && !part.carried && !cell.is_over(now_ms);
                if owed && held < part.amount || part.surplus(held) > part.regranted {
                    let part = *part;
                    self.broken("convergence", || {
                        format!("the store holds {held} of {name:?}, {part:?}, probed {probed}")
                    });
                }
            }
        }
    }

    /// Whether the probes were about it. After a jump of its clock a process does not ask for as
    /// long as it is behind.
    fn is_looked_at(&self, home: usize, (subject, _): Name) -> bool {
        subject < self.options.kinds.len() && !self.has_stepped(home)
    }

    /// What the store holds of a component.
    pub(crate) fn held(&mut self, home: usize, (subject, sequence): Name, part: &Part) -> u64 {
        let Some(spec) = self.specs.get(subject) else { return 0 };
        let (number, life) = part.owner;
        let chance = crate::chance::mix(self.options.seed ^ (u64::from(number) << 40));
        let incarnation = u128::from(number + 1) << 64 | u128::from(chance);
        let record = Record {
            subject: spec.digest,
            window_ms: spec.window_ms,
            sequence,
            component: Component { incarnation, life },
            total: 0,
            previous_total: 0,
        };
        let now_ms = self.now_ms();
        self.homes.at_mut(home).store.had(&record, now_ms).0
    }

    /// After the probes all views of a cell are what the store holds, and that is the truth unless
    /// something of it was lost.
    fn check_views(&mut self, since_us: u64) {
        for node in 0..self.nodes.len() {
            for subject in 0..self.options.kinds.len() {
                self.with_running(node, |world, process| {
                    world.check_view(process, subject, since_us);
                    world.check_foreign(process, subject);
                });
            }
        }
    }

    fn check_view(&mut self, process: &mut Process, subject: usize, since_us: u64) {
        self.check_registers(process, subject);
        let (Some(ghost), home) = (process.ghosts.get(&subject), process.home) else { return };
        let Home { store, truth, .. } = self.homes.at(home);
        // A new cell whose predecessor is known is not asked about for a while.
        let asked = |side: &Side| {
            side.asked_ms.is_some_and(|asked_ms| process.moment_us(asked_ms) >= since_us)
        };
        let both = asked(&ghost.current);
        let one = both || asked(&ghost.previous);
        let Some(spec) = self.specs.get(subject) else { return };
        let (digest, now_ms, number) = (spec.digest, self.now_ms(), process.number);
        let mut wrong = None;
        let sides = [(ghost.sequence, &ghost.current), (ghost.sequence - 1, &ghost.previous)];
        for (sequence, side) in sides {
            let name = (subject, sequence);
            let heard = if sequence == ghost.sequence { both } else { one };
            if !heard || !self.counting(name) || !side.former.is_empty() {
                continue;
            }
            self.report.compared += 1;
            // A clock that stepped back leads a process to cells it has been in before, and it does
            // not see what it admitted then.
            if truth.amount(name, (number, ghost.life)) > side.mine {
                continue;
            }
            let (view, held) = (side.mine + side.known, store.sum(digest, sequence, now_ms));
            let cell = truth.cells.get(&name);
            // Who carried something here by a jump of its clock tells of it when it pleases.
            if cell.is_some_and(|cell| cell.parts.iter().any(|part| part.carried)) {
                continue;
            }
            let lossy = cell.is_some_and(|cell| cell.lossy || cell.is_over(now_ms));
            // After the loss of a single cell, one that does not ask tells of it late.
            let late = cell.is_some_and(|cell| cell.lost_alone) && !self.is_looked_at(home, name);
            if view < held && !late || view != held && !lossy {
                let total = truth.total(name);
                wrong = Some(format!("{name:?}: view {view}, store {held}, truth {total}"));
            }
        }
        if let Some(what) = wrong {
            self.broken("convergence", || format!("process {number}, {what}"));
        }
    }

    /// Every unit that the store never had, or lost, has a cause. And no cell holds more than its
    /// components could admit each for itself.
    fn explain(&mut self) {
        for home in 0..self.homes.len() {
            self.explain_home(home);
        }
    }

    pub(crate) fn explain_home(&mut self, home: usize) {
        let truth = &self.homes.at(home).truth;
        let cells: Vec<(Name, CellTruth)> =
            truth.cells.iter().map(|(name, cell)| (*name, cell.clone())).collect();
        for (name, cell) in cells {
            let parts = cell.parts.iter().filter(|part| part.amount > 0).count() as u64;
            let (total, most) = (cell.total(), parts.saturating_mul(cell.limit));
            if total > most {
                self.broken("overshoot", || format!("{name:?} has {total}, at most {most}"));
            }
            self.check_bounded(home, name, &cell);
            for part in &cell.parts {
                let counting = self.counting(name);
                let held = if counting { self.held(home, name, part) } else { part.applied };
                if held > part.amount {
                    self.explain_granted((name, held), part);
                }
                if held >= part.amount {
                    continue;
                }
                let lost = part.amount - held;
                let over = counting && cell.is_over(self.now_ms());
                let cause = match part.end {
                    _ if over => Some(Cause::Expired),
                    _ if part.carried => Some(Cause::Renamed),
                    Some(End::Crashed) if part.applied < part.amount => Some(Cause::Crashed),
                    Some(End::Crashed | End::Drained) if cell.lossy => Some(Cause::DeadAndLost),
                    Some(End::Evicted) if cell.lossy => Some(Cause::EvictedAndLost),
                    Some(End::Left) => Some(Cause::Expired),
                    Some(End::Renamed) => Some(Cause::Renamed),
                    None if cell.lost_alone && !self.is_looked_at(home, name) => {
                        Some(Cause::LostAlone)
                    }
                    _ => None,
                };
                let part = *part;
                match cause {
                    Some(cause) => *self.report.lost.entry(cause).or_default() += lost,
                    None => self.broken("conservation", || {
                        format!("{lost} of {name:?} are lost without a cause: {part:?}")
                    }),
                }
            }
        }
    }

    /// What the store granted and nobody admitted was granted to a process that was killed.
    fn explain_granted(&mut self, (name, held): (Name, u64), part: &Part) {
        let (part, more) = (*part, held - part.amount);
        // The cell may have left the window before.
        let mut running = self.nodes.iter().filter_map(|node| node.process.as_ref());
        let lives = running.any(|process| process.number == part.owner.0);
        if !lives && more <= part.asked {
            self.report.unanswered += more;
        } else if more > part.regranted {
            self.broken("inflation", || format!("{more} of {name:?} too much: {part:?}"));
        }
    }

    /// INV-16: where every call is answered, what the bounded rule admitted is at most the limit
    /// and what processes may admit unasked: an eighth of the room, divided by how many they are.
    /// When they have just come, the first knows of one, the next of two.
    fn check_bounded(&mut self, home: usize, name: Name, cell: &CellTruth) {
        let bounded = cell.total().saturating_sub(cell.loose);
        if !self.is_calm() || bounded == 0 || cell.limit == 0 || cell.limit == u64::MAX {
            return;
        }
        let nodes = (0..self.nodes.len()).filter(|node| self.home_of(*node) == home).count() as u64;
        let known = if cell.early { nodes } else { nodes.min(1) };
        let credit: u64 = (1..=known).map(|nth| cell.limit / (8 * nth)).sum();
        if bounded > cell.limit + credit {
            let (total, limit) = (cell.total(), cell.limit);
            self.broken("credit", || {
                format!("{name:?} has {bounded} of {total} by the bounded rule, limit {limit}")
            });
        }
        let share = bounded.saturating_mul(1_000) / cell.limit;
        self.report.bounded_permille = self.report.bounded_permille.max(share);
    }
}
