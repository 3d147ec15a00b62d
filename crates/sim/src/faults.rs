//! What goes wrong, and when.

use tidegate_convergence::{CellName, Shard};

use crate::coverage::{Moment, Moments};
use crate::fault::Fault;
use crate::node::Process;
use crate::struck::under_way;
use crate::truth::End;
use crate::world::{Event, Home, World};

/// Something goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Cut {
        node: usize,
        for_us: u64,
    },
    Crash {
        node: usize,
    },
    Drain {
        node: usize,
    },
    Restart {
        node: usize,
    },
    /// A process that was asked to stop has had enough time.
    Kill {
        node: usize,
        number: u32,
    },
    Pause {
        node: usize,
        for_us: u64,
    },
    Step {
        node: usize,
        by_ms: i64,
    },
    Flush {
        home: usize,
        shard: Shard,
    },
    Snapshot {
        home: usize,
        shard: Shard,
    },
    Failover {
        home: usize,
        shard: Shard,
    },
    Evict {
        home: usize,
    },
    Refuse {
        home: usize,
        calls: u32,
    },
    Slow {
        home: usize,
        for_us: u64,
        by_ms: u64,
    },
    Away {
        home: usize,
        for_us: u64,
        answers: bool,
    },
    /// The global store is away.
    Outage {
        for_us: u64,
        answers: bool,
    },
    /// A replica of the global store stands still from now on.
    Standby,
    /// It takes over.
    Rewind,
    /// Imports read it.
    Lag {
        for_us: u64,
    },
    Sever {
        node: usize,
        for_us: u64,
    },
    /// The leader of a region stands still, or is killed.
    Behead {
        home: usize,
        paused_us: Option<u64>,
    },
}

impl Trouble {
    /// For how long.
    const fn lasts_us(self) -> u64 {
        match self {
            Self::Cut { for_us, .. }
            | Self::Pause { for_us, .. }
            | Self::Slow { for_us, .. }
            | Self::Away { for_us, .. }
            | Self::Outage { for_us, .. }
            | Self::Lag { for_us }
            | Self::Sever { for_us, .. }
            | Self::Behead { paused_us: Some(for_us), .. } => for_us,
            _ => 0,
        }
    }
}

/// How long a process that is asked to stop may take.
const DRAIN_US: u64 = 6_000_000;

impl World {
    /// Draws when what goes wrong. Each kind draws from a stream of its own, so that leaving one
    /// out does not move the others.
    pub(crate) fn schedule_troubles(&mut self) {
        let seed = self.options.seed;
        for fault in self.options.faults.iter() {
            self.faults = crate::Chance::new(seed, &fault.name());
            if fault == Fault::Skew {
                self.skew();
                continue;
            }
            // Long runs have more of everything.
            let each_ms = if self.homes.len() > 1 { 20_000 } else { 6_000 };
            let most = 1 + self.options.safety_ms / each_ms;
            for _ in 0..self.faults.between(1, most.max(2)) {
                self.schedule_trouble(fault);
            }
        }
    }

    fn skew(&mut self) {
        for node in &mut self.nodes {
            let skew_ms = self.faults.skewed(1, 400).cast_signed();
            node.offset_ms = if self.faults.percent(50) { skew_ms } else { -skew_ms };
        }
        self.struck(Fault::Skew, Moments::default());
    }

    fn schedule_trouble(&mut self, fault: Fault) {
        let at_us = self.faults.below(self.options.safety_ms * 1_000);
        let node = self.faults.index(self.nodes.len());
        let Some((trouble, behind_us)) = self.trouble_of(fault, node) else { return };
        // What takes over has fallen behind before.
        let before = match trouble {
            Trouble::Failover { home, shard } => Some(Trouble::Snapshot { home, shard }),
            Trouble::Rewind | Trouble::Lag { .. } => Some(Trouble::Standby),
            _ => None,
        };
        if let Some(before) = before {
            self.queue.push(at_us.saturating_sub(behind_us), Event::Trouble(before));
        }
        self.queue.push(at_us, Event::Trouble(trouble));
    }

    /// What a fault of this kind is on a node, and how far behind a replica is that takes over.
    pub(crate) fn trouble_of(&mut self, fault: Fault, node: usize) -> Option<(Trouble, u64)> {
        let home = self.home_of(node);
        let shard =
            Shard(u16::try_from(self.faults.below(self.options.shards.into())).unwrap_or(0));
        let (chance, mut behind_us) = (&mut self.faults, 0);
        let trouble = match fault {
            Fault::Partition => Trouble::Cut { node, for_us: chance.skewed(10_000, 8_000_000) },
            Fault::Crash => Trouble::Crash { node },
            Fault::Drain => Trouble::Drain { node },
            Fault::Pause => Trouble::Pause { node, for_us: chance.skewed(5_000, 5_000_000) },
            Fault::Step => {
                let by_ms = chance.skewed(10, 200_000).cast_signed();
                Trouble::Step { node, by_ms: if chance.percent(50) { by_ms } else { -by_ms } }
            }
            Fault::Flush => Trouble::Flush { home, shard },
            Fault::Failover => {
                behind_us = chance.skewed(1_000, 2_000_000);
                Trouble::Failover { home, shard }
            }
            Fault::Evict => Trouble::Evict { home },
            Fault::Refuse => {
                Trouble::Refuse { home, calls: u32::try_from(chance.skewed(1, 8)).unwrap_or(1) }
            }
            Fault::Slow => {
                let (for_us, by_ms) = (chance.skewed(50_000, 5_000_000), chance.skewed(2, 3_000));
                Trouble::Slow { home, for_us, by_ms }
            }
            Fault::Away => {
                let for_us = chance.skewed(50_000, 8_000_000);
                Trouble::Away { home, for_us, answers: chance.percent(50) }
            }
            Fault::Outage => {
                let for_us = chance.skewed(100_000, 20_000_000);
                Trouble::Outage { for_us, answers: chance.percent(50) }
            }
            Fault::Rewind | Fault::Lag => {
                behind_us = chance.skewed(20_000, 10_000_000);
                let for_us = chance.skewed(100_000, 15_000_000);
                if fault == Fault::Lag { Trouble::Lag { for_us } } else { Trouble::Rewind }
            }
            Fault::Sever => Trouble::Sever { node, for_us: chance.skewed(50_000, 30_000_000) },
            Fault::Behead => {
                let for_us = chance.skewed(50_000, 8_000_000);
                let paused_us = chance.percent(50).then_some(for_us);
                Trouble::Behead { home, paused_us }
            }
            // These happen to single messages, requests or clocks.
            _ => return None,
        };
        Some((trouble, behind_us))
    }

    /// Something goes wrong now. After everything was mended nothing does, but what was stopped
    /// starts again.
    pub(crate) fn trouble(&mut self, trouble: Trouble) {
        let starts = matches!(trouble, Trouble::Restart { .. } | Trouble::Kill { .. });
        if self.healed && !starts {
            return;
        }
        self.report.events += 1;
        self.note(&[2], || format!("{trouble:?}"));
        let now_us = self.now_us;
        self.troubled_us = self.troubled_us.max(now_us + trouble.lasts_us());
        match trouble {
            Trouble::Cut { node, for_us } => {
                self.struck_node(Fault::Partition, node);
                if let Some(node) = self.nodes.get_mut(node) {
                    node.cut_until_us = node.cut_until_us.max(now_us + for_us);
                }
            }
            Trouble::Pause { node, for_us } => {
                self.struck_node(Fault::Pause, node);
                if let Some(node) = self.nodes.get_mut(node) {
                    node.stand_still(now_us + for_us);
                }
            }
            Trouble::Step { node, by_ms } => {
                self.struck_node(Fault::Step, node);
                if let Some(node) = self.nodes.get_mut(node) {
                    (node.offset_ms, node.stepped) = (node.offset_ms.saturating_add(by_ms), true);
                }
            }
            Trouble::Sever { node, for_us } => {
                self.struck_node(Fault::Sever, node);
                if let Some(node) = self.nodes.get_mut(node) {
                    node.severed_until_us = node.severed_until_us.max(now_us + for_us);
                }
            }
            Trouble::Outage { .. } | Trouble::Standby | Trouble::Rewind | Trouble::Lag { .. } => {
                self.trouble_abroad(trouble);
            }
            Trouble::Behead { home, paused_us } => self.behead(home, paused_us),
            Trouble::Crash { node } => self.crash(node),
            Trouble::Kill { node, number } => self.kill(node, number),
            Trouble::Drain { node } => self.begin_drain(node),
            Trouble::Restart { node } => self.start(node),
            Trouble::Flush { .. } | Trouble::Snapshot { .. } | Trouble::Failover { .. } => {
                self.lose(trouble);
            }
            Trouble::Evict { home } => self.evict(home),
            Trouble::Refuse { home, calls } => self.homes.at_mut(home).store.refusals += calls,
            Trouble::Slow { home, for_us, by_ms } => {
                let store = &mut self.homes.at_mut(home).store;
                (store.slow_until_us, store.slow_ms) = (now_us + for_us, by_ms);
            }
            Trouble::Away { home, for_us, answers } => {
                let store = &mut self.homes.at_mut(home).store;
                (store.away_until_us, store.away_answers) = (now_us + for_us, answers);
            }
        }
    }

    /// Something befalls the global store.
    fn trouble_abroad(&mut self, trouble: Trouble) {
        let now_us = self.now_us;
        let Some(database) = &mut self.database else { return };
        match trouble {
            Trouble::Outage { for_us, answers } => {
                (database.away_until_us, database.away_answers) = (now_us + for_us, answers);
            }
            Trouble::Standby => {
                database.standby = Some(database.memory.replica());
            }
            Trouble::Rewind => {
                if let Some(memory) = database.standby.take() {
                    database.fail_over(memory);
                    self.struck_world(Fault::Rewind);
                }
            }
            Trouble::Lag { for_us } => {
                if let Some(memory) = database.standby.take() {
                    database.replica = Some(memory);
                    database.lags_until_us = now_us + for_us;
                    self.struck_world(Fault::Lag);
                }
            }
            _ => {}
        }
    }

    /// The process that leads a region stands still, or is killed.
    fn behead(&mut self, home: usize, paused_us: Option<u64>) {
        let leader = (0..self.nodes.len()).filter(|node| self.home_of(*node) == home).find(|at| {
            let process = self.nodes.get(*at).and_then(|node| node.process.as_ref());
            process.is_some_and(|process| {
                let now = self.reading(process).into();
                process.abroad.as_ref().is_some_and(|abroad| abroad.globe.counts(now).leads > 0)
            })
        });
        let Some(leader) = leader else { return };
        self.struck_node(Fault::Behead, leader);
        let now_us = self.now_us;
        match (paused_us, self.nodes.get_mut(leader)) {
            (Some(for_us), Some(node)) => {
                node.stand_still(now_us + for_us);
            }
            _ => self.crash(leader),
        }
    }

    /// A process is killed, and what the store does not have of it is gone.
    pub(crate) fn crash(&mut self, node: usize) {
        let process = self.nodes.get_mut(node).and_then(|node| node.process.take());
        let Some(mut process) = process else { return };
        self.verify_all(&mut process);
        self.check_prompt(&mut process);
        self.struck(Fault::Crash, under_way(&process));
        self.bury(&process, End::Crashed);
        self.restart_later(node);
    }

    /// A process that was asked to stop did not manage to.
    fn kill(&mut self, node: usize, number: u32) {
        let slot = self.nodes.get_mut(node);
        let process =
            slot.and_then(|node| node.process.take_if(|process| process.number == number));
        let Some(mut process) = process else { return };
        self.verify_all(&mut process);
        self.check_prompt(&mut process);
        self.bury(&process, End::Crashed);
        self.restart_later(node);
    }

    fn restart_later(&mut self, node: usize) {
        self.aim(node, Moment::Down);
        let after_us = self.faults.skewed(1_000, 3_000_000);
        self.queue.push(self.now_us + after_us, Event::Trouble(Trouble::Restart { node }));
    }

    fn bury(&mut self, process: &Process, end: End) {
        let truth = &mut self.homes.at_mut(process.home).truth;
        for (subject, ghost) in &process.ghosts {
            let owner = (process.number, ghost.life);
            truth.end((*subject, ghost.sequence), owner, end);
            truth.end((*subject, ghost.sequence.saturating_sub(1)), owner, end);
        }
    }

    fn begin_drain(&mut self, node: usize) {
        let running = self.nodes.get(node).and_then(|node| node.process.as_ref());
        let Some(number) = running.filter(|p| !p.draining).map(|p| p.number) else { return };
        self.struck_node(Fault::Drain, node);
        self.aim(node, Moment::Drain);
        self.with_process(node, number, |world, process| {
            process.draining = true;
            process.region.drain(world.reading(process).into());
        });
        self.queue.push(self.now_us, Event::Tick { node, number, timer: false });
        let kill = Trouble::Kill { node, number };
        self.queue.push(self.now_us + DRAIN_US, Event::Trouble(kill));
    }

    /// A process that was asked to stop ends when nothing is left to tell.
    pub(crate) fn end_drain(&mut self, process: &mut Process) {
        self.verify_all(process);
        let (number, now) = (process.number, self.reading(process).into());
        if let Some(abroad) = &mut process.abroad {
            abroad.globe.release(now);
            self.pump_abroad(process);
            self.check_last_words(process);
        }
        self.note(&[3], || format!("process {number} is drained"));
        if !process.claims.is_empty() {
            let left = process.claims.len();
            self.broken("drain", || format!("process {number} ended, {left} have claims"));
        }
        for (subject, ghost) in &process.ghosts {
            let owner = (number, ghost.life);
            let sides = [(ghost.sequence, &ghost.current), (ghost.sequence - 1, &ghost.previous)];
            for (sequence, side) in sides {
                let cell = self.homes.at(process.home).truth.cells.get(&(*subject, sequence));
                let part = cell.and_then(|cell| cell.parts.iter().find(|part| part.owner == owner));
                let applied = part.map_or(0, |part| part.applied);
                if part.is_none_or(|part| !part.carried) && applied < side.mine {
                    let mine = side.mine;
                    self.broken("drain", || {
                        format!("process {number} ended clean, {applied} of {mine} recorded")
                    });
                }
            }
        }
        self.bury(process, End::Drained);
        self.restart_later(process.node);
    }

    /// The store loses a shard, or what a replica does not have of it.
    fn lose(&mut self, trouble: Trouble) {
        let specs = std::sync::Arc::clone(&self.specs);
        let shards = self.options.shards;
        let of = |shard| {
            let specs = std::sync::Arc::clone(&specs);
            move |(subject, _): (usize, u64)| {
                specs.get(subject).is_some_and(|spec| Shard::of(spec.digest, shards) == shard)
            }
        };
        match trouble {
            Trouble::Flush { home, shard } => {
                self.struck_home(Fault::Flush, home);
                let Home { store, truth, has_lost, .. } = self.homes.at_mut(home);
                *has_lost = true;
                store.memory.flush(shard);
                truth.lose(of(shard), false);
                self.allow_losses((home, shard), 1);
            }
            Trouble::Snapshot { home, shard } => {
                let Home { store, truth, .. } = self.homes.at_mut(home);
                let held = truth.cells.iter().map(|(name, cell)| (*name, cell.expires_ms));
                let copy = (store.memory.clone(), held.collect());
                store.replicas.insert(shard, copy);
            }
            Trouble::Failover { home, shard } => {
                if !self.homes.at(home).store.replicas.contains_key(&shard) {
                    return;
                }
                self.struck_home(Fault::Failover, home);
                let Home { store, truth, answered, has_lost } = self.homes.at_mut(home);
                *has_lost = true;
                let Some((replica, expiries)) = store.replicas.remove(&shard) else { return };
                store.memory.fail_over(shard, &replica);
                answered.fail_over();
                truth.lose(of(shard), false);
                for (name, expires_ms) in expiries.into_iter().filter(|(name, _)| of(shard)(*name))
                {
                    if let Some(cell) = truth.cells.get_mut(&name) {
                        cell.expires_ms = expires_ms;
                    }
                }
                // A replica from before the shard had its token shows it twice: once by another
                // token, once by another server.
                self.allow_losses((home, shard), 2);
            }
            _ => {}
        }
    }

    /// One loss, one resend: whoever notices more is mistaken. One that never heard of the shard,
    /// and then hears what was said before and after in the wrong order, sees the loss once more.
    fn allow_losses(&mut self, (home, shard): (usize, Shard), losses: u64) {
        let all = self.nodes.iter_mut().filter_map(|node| node.process.as_mut());
        for process in all.filter(|process| process.home == home) {
            let strange = !process.shards_met.contains(&shard);
            process.losses_max += losses + u64::from(strange);
        }
    }

    /// The store loses one cell.
    fn evict(&mut self, home: usize) {
        let names: Vec<_> = self.homes.at(home).store.memory.names().collect();
        if let Some(name) = self.faults.of(&names) {
            self.evict_cell(home, name);
        }
    }

    pub(crate) fn evict_cell(&mut self, home: usize, name: CellName) {
        self.struck_home(Fault::Evict, home);
        let Home { store, truth, answered, has_lost } = self.homes.at_mut(home);
        *has_lost = true;
        store.memory.evict(name);
        let Some(subject) = self.digests.get(&name.subject).copied() else { return };
        answered.drop_cell((subject, name.sequence));
        truth.lose(|lost| lost == (subject, name.sequence), true);
    }
}
