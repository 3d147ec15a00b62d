//! The processes: a table and a state machine each, and the boards of their regions.

use std::time::Instant;

use tidegate_convergence::{
    BoardCall, BoardReply, GlobalError, GlobalReply, Globe, GlobeCounts, GlobeEffect, GlobeId,
    GlobeOptions, GlobeTuning, MemoryRegion, RegionName, ShardReply, Touched,
};
use tidegate_limiter::{Now, Options, Seed, Table, Ticket};

use super::super::chance::Chance;
use super::super::dense::Dense;
use super::super::fleet::PROCESSES;
use super::super::time;
use super::Publisher;
use crate::Failure;

/// The names of the regions: as long as those of a cloud.
const REGIONS: [&str; 10] = [
    "us-east-1",
    "us-west-2",
    "eu-central-1",
    "eu-west-1",
    "ap-south-1",
    "ap-northeast-1",
    "ap-southeast-2",
    "sa-east-1",
    "ca-central-1",
    "af-south-1",
];
/// Memory for a subject: more than it takes.
const SUBJECT_BYTES: usize = 1_024;

/// See the module.
pub(super) struct Globes {
    processes: Dense<Process>,
    boards: Dense<MemoryRegion>,
    /// If each publishes: a board that nobody else looks at for every process.
    own_boards: Option<Dense<MemoryRegion>>,
}

struct Process {
    region: usize,
    rank: usize,
    table: Table,
    globe: Globe,
    /// When its next tick is, if one is planned.
    tick_ms: Option<u64>,
    /// What it spent in its state machine.
    spent_ns: u64,
}

impl Process {
    /// Does something with the state machine and keeps the time.
    fn spend<R>(&mut self, act: impl FnOnce(&mut Globe, &Table) -> R) -> R {
        let start: Instant = time::now();
        let result = act(&mut self.globe, &self.table);
        let spent = u64::try_from(start.elapsed().as_nanos()).unwrap_or(0);
        self.spent_ns += spent;
        result
    }
}

impl Globes {
    /// All processes, with tables for so many places altogether.
    pub(super) fn new(
        (tuning, publisher): (GlobeTuning, Publisher),
        subjects: usize,
        chance: &mut Chance,
    ) -> Result<Self, Failure> {
        let mut processes = Dense::default();
        for (region, (name, many)) in REGIONS.into_iter().zip(PROCESSES).enumerate() {
            for rank in 0..many {
                let options = Options::default().with_region();
                let budget = (subjects * SUBJECT_BYTES).max(4 << 20);
                let table =
                    Table::new(options.with_budget_bytes(budget), Seed::from_bytes([7; 32]));
                let incarnation = u128::from(chance.roll()) << 64 | u128::from(chance.roll());
                let name = RegionName::new(name)?;
                let options = GlobeOptions { name, regions_max: 10, private: false };
                let mut globe = Globe::new(tuning, options, incarnation, 1);
                globe.begin(&table);
                processes.add(Process { region, rank, table, globe, tick_ms: None, spent_ns: 0 });
            }
        }
        let boards = PROCESSES.iter().map(|_| MemoryRegion::new(1)).collect();
        let own = (publisher == Publisher::Each)
            .then(|| (0..processes.len()).map(|_| MemoryRegion::new(1)).collect());
        Ok(Self { processes, boards, own_boards: own })
    }

    pub(super) const fn len(&self) -> usize {
        self.processes.len()
    }

    pub(super) fn table(&self, process: usize) -> &Table {
        &self.processes.at(process).table
    }

    pub(super) fn region(&self, process: usize) -> usize {
        self.processes.at(process).region
    }

    /// The region of a process, and the how-manieth of it it is.
    pub(super) fn whereabouts(&self, process: usize) -> (usize, usize) {
        let process = self.processes.at(process);
        (process.region, process.rank)
    }

    /// What a process takes to be used of a subject.
    pub(super) fn used(&self, process: usize, subject: Ticket, now: Now) -> u64 {
        self.table(process).cells(subject).map_or(0, |cells| cells.used_of_limit(now).0)
    }

    pub(super) fn counts(&self, now: Now) -> Vec<GlobeCounts> {
        self.processes.iter().map(|process| process.globe.counts(now)).collect()
    }

    pub(super) fn spent_ns(&self) -> Vec<u64> {
        self.processes.iter().map(|process| process.spent_ns).collect()
    }

    pub(super) fn adopt(&mut self, process: usize, subject: Ticket, now: Now) {
        let process = self.processes.at_mut(process);
        process.spend(|globe, table| globe.adopt_all(table, std::iter::once(subject), now));
    }

    /// What the region holds of a subject grew. Says whether that was worth publishing.
    pub(super) fn touched(&mut self, process: usize, touched: Touched, now: Now) -> bool {
        let process = self.processes.at_mut(process);
        let before = process.globe.counts(now).posted;
        process.spend(|globe, table| globe.touched(table, &[touched], now));
        process.globe.counts(now).posted > before
    }

    /// Lets a process do what is due, if this is its moment.
    pub(super) fn tick(&mut self, process: usize, now: Now) -> bool {
        let process = self.processes.at_mut(process);
        if process.tick_ms.is_some_and(|tick_ms| tick_ms != now.monotonic_ms()) {
            return false;
        }
        process.tick_ms = None;
        process.spend(|globe, table| globe.tick(table, now));
        // What the table wants to have recorded is recorded at once.
        process.table.take_noted(&mut Vec::new());
        true
    }

    pub(super) fn take_effects(&mut self, process: usize) -> Vec<GlobeEffect> {
        let mut effects = Vec::new();
        self.processes.at_mut(process).globe.take_effects(&mut effects);
        effects
    }

    /// When the next tick has to be planned for, if it is not.
    pub(super) fn next_tick(&mut self, process: usize, now_ms: u64) -> Option<u64> {
        let process = self.processes.at_mut(process);
        let next_ms = process.globe.next_tick_ms().max(now_ms + 1);
        if process.tick_ms.is_some_and(|tick_ms| tick_ms <= next_ms) {
            return None;
        }
        process.tick_ms = Some(next_ms);
        Some(next_ms)
    }

    pub(super) fn board(&mut self, number: usize, (id, call): (GlobeId, &BoardCall), now: Now) {
        let process = self.processes.at_mut(number);
        let board = self.boards.at_mut(process.region);
        let reply = match &mut self.own_boards {
            None => board.board(call, now.monotonic_ms()),
            Some(own_boards) => {
                // Who the region is they still have to agree on.
                let who = BoardCall { posts: Vec::new(), take_max: 0, lease_ms: 0, ..call.clone() };
                let identity = board.board(&who, now.monotonic_ms()).identity;
                let reply = own_boards.at_mut(number).board(call, now.monotonic_ms());
                BoardReply { identity, ..reply }
            }
        };
        process.spend(|globe, table| globe.board_replied(table, id, Ok(reply), now));
    }

    pub(super) fn region_replied(
        &mut self,
        process: usize,
        (id, reply): (GlobeId, ShardReply),
        now: Now,
    ) {
        let process = self.processes.at_mut(process);
        process.spend(|globe, table| globe.region_replied(table, id, Ok(reply), now));
    }

    pub(super) fn global_replied(
        &mut self,
        process: usize,
        (id, answered): (GlobeId, Result<GlobalReply, GlobalError>),
        now: Now,
    ) {
        let process = self.processes.at_mut(process);
        process.spend(|globe, table| globe.global_replied(table, id, answered, now));
    }
}
