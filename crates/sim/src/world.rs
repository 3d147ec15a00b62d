//! A region of a few processes that share subjects through a store, over a bad network.

use tidegate_convergence::{CellName, Component, MemoryRegion, Recorded};
use tidegate_limiter::{Cost, Limit, Now, Options, Part, Request, Seed, Subject, Table, Window};

use crate::chance::{Chance, mix};

const WINDOW_MS: u64 = 1_000;
const LIMIT: u64 = 20;
const IDENTIFIERS: [&str; 3] = ["a", "b", "c"];
const START_MS: u64 = 1_700_000_000_000;

/// A mistake planted on purpose, to show that the oracles can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No mistake.
    None,
    /// A reply carries the total that was sent instead of the one that is recorded.
    EchoTotal,
    /// The store adds totals up as if they were increments.
    Increments,
}

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Requests admitted.
    pub admitted: u64,
    /// Requests denied.
    pub denied: u64,
    /// Messages that were lost, repeated or overtaken.
    pub network_faults: u64,
    /// The first broken promise, if any.
    pub broken: Option<String>,
    /// A hash of everything that happened, in order.
    pub trace: u64,
}

/// A total on its way to the store, or the reply on its way back.
#[derive(Clone, Copy, Debug)]
enum Message {
    Record { process: usize, subject: usize, cell: CellName, component: Component, total: u64 },
    Reply { process: usize, subject: usize, sequence: u64, reply: Recorded },
}

/// One run.
///
/// ```
/// use tidegate_sim::{Fault, World};
///
/// let report = World::new(1, Fault::None).run();
/// assert_eq!(report.broken, None);
/// assert_eq!(report, World::new(1, Fault::None).run(), "the same seed, the same trace");
/// ```
#[derive(Debug)]
pub struct World {
    processes: Vec<Table>,
    store: MemoryRegion,
    network: Vec<Message>,
    truth: std::collections::BTreeMap<(usize, u64), u64>,
    workload: Chance,
    faults: Chance,
    planted: Fault,
    now_ms: u64,
    report: Report,
}

impl World {
    /// The world of a seed.
    #[must_use]
    pub fn new(seed: u64, planted: Fault) -> Self {
        let mut options = Chance::new(seed, "options");
        let processes = 1 + options.below(4);
        let table = |n: u64| {
            let seed = Seed::from_bytes([u8::try_from(n).unwrap_or(0); 32]);
            Table::new(Options::default().with_budget_bytes(64 << 10).with_region(), seed)
        };
        let report =
            Report { admitted: 0, denied: 0, network_faults: 0, broken: None, trace: seed };
        Self {
            processes: (0..processes).map(table).collect(),
            store: MemoryRegion::default(),
            network: Vec::new(),
            truth: std::collections::BTreeMap::new(),
            workload: Chance::new(seed, "workload"),
            faults: Chance::new(seed, "faults"),
            planted,
            now_ms: options.below(WINDOW_MS),
            report,
        }
    }

    /// Runs to the end: traffic over a bad network, then a quiet time in which everything that
    /// was admitted must have reached the store.
    #[must_use]
    pub fn run(mut self) -> Report {
        for _ in 0..400 {
            self.now_ms += self.workload.below(25);
            match self.workload.below(10) {
                0..6 => self.request(),
                6..8 => self.replay_one(),
                _ => self.deliver(true),
            }
            self.check_views();
        }
        self.heal();
        self.report
    }

    fn now(&self) -> Now {
        Now::new(START_MS + self.now_ms, self.now_ms)
    }

    fn sequence(&self) -> u64 {
        self.now().unix_ms() / WINDOW_MS
    }

    fn request(&mut self) {
        let (process, subject) = (self.any_process(), self.any_subject());
        let Some(ask) = ask(subject, 1 + self.workload.below(3)) else { return };
        let now = self.now();
        let Some(table) = self.processes.get(process) else { return };
        let admitted = table.decide(&ask, now).admitted();
        if admitted {
            *self.truth.entry((subject, self.sequence())).or_insert(0) += ask.cost().get();
            self.report.admitted += 1;
        } else {
            self.report.denied += 1;
        }
        self.note(&[1, process as u64, subject as u64, u64::from(admitted)]);
    }

    /// A process sends what it has admitted to a cell.
    fn replay_one(&mut self) {
        let (process, subject) = (self.any_process(), self.any_subject());
        let sequence = self.sequence() - self.workload.below(2);
        self.replay(process, subject, sequence);
    }

    fn replay(&mut self, process: usize, subject: usize, sequence: u64) {
        let Some(ask) = ask(subject, 1) else { return };
        let Some(table) = self.processes.get(process) else { return };
        let Some(cell) = table.cell(ask.subject(), sequence) else { return };
        let component = Component { incarnation: process as u128, life: cell.life() };
        let name = CellName { subject: cell.digest(), sequence };
        let total = cell.mine();
        self.network.push(Message::Record { process, subject, cell: name, component, total });
    }

    /// One message arrives: not always the oldest, sometimes twice, sometimes never.
    fn deliver(&mut self, faulty: bool) {
        if self.network.is_empty() {
            return;
        }
        let (mut at, len) = (0, self.network.len() as u64);
        if faulty && self.faults.percent(30) {
            at = usize::try_from(self.faults.below(len)).unwrap_or(0);
            self.report.network_faults += 1;
        }
        let message = self.network.remove(at);
        if faulty && self.faults.percent(15) {
            self.report.network_faults += 1;
            self.note(&[2]);
            return;
        }
        if faulty && self.faults.percent(15) {
            self.report.network_faults += 1;
            self.network.push(message);
        }
        self.arrive(message);
    }

    fn arrive(&mut self, message: Message) {
        match message {
            Message::Record { process, subject, cell, component, total } => {
                let mut reply = self.record(cell, component, total);
                if self.planted == Fault::EchoTotal {
                    reply.recorded = total;
                }
                self.note(&[3, cell.sequence, reply.sum, reply.recorded]);
                let sequence = cell.sequence;
                self.network.push(Message::Reply { process, subject, sequence, reply });
            }
            Message::Reply { process, subject, sequence, reply } => {
                self.note(&[4, sequence, reply.sum]);
                let Some(ask) = ask(subject, 1) else { return };
                let table = self.processes.get(process);
                if let Some(cell) = table.and_then(|table| table.cell(ask.subject(), sequence)) {
                    cell.acknowledge(reply.recorded);
                    cell.observe_region(reply.sum, reply.recorded);
                }
            }
        }
    }

    fn record(&mut self, cell: CellName, component: Component, total: u64) -> Recorded {
        let total = match self.planted {
            Fault::Increments => total + self.store.record(cell, component, 0).recorded,
            _ => total,
        };
        self.store.record(cell, component, total)
    }

    /// A view is a lower bound of the truth: nobody counts what did not happen.
    fn check_views(&mut self) {
        for process in 0..self.processes.len() {
            for subject in 0..IDENTIFIERS.len() {
                for sequence in [self.sequence() - 1, self.sequence()] {
                    self.check_view(process, subject, sequence);
                }
            }
        }
    }

    fn check_view(&mut self, process: usize, subject: usize, sequence: u64) {
        let truth = self.truth.get(&(subject, sequence)).copied().unwrap_or(0);
        let Some(ask) = ask(subject, 1) else { return };
        let table = self.processes.get(process);
        let Some(cell) = table.and_then(|table| table.cell(ask.subject(), sequence)) else {
            return;
        };
        let view = cell.claimed() + cell.peers();
        if view > truth || cell.confirmed() > truth {
            let what = format!("process {process} sees {view} of {truth} in cell {sequence}");
            self.report.broken.get_or_insert(what);
        }
    }

    /// Everything is sent again and arrives: the store must hold exactly what was admitted to the
    /// cells that still count.
    fn heal(&mut self) {
        for sequence in [self.sequence() - 1, self.sequence()] {
            for subject in 0..IDENTIFIERS.len() {
                for process in 0..self.processes.len() {
                    self.replay(process, subject, sequence);
                }
            }
        }
        while !self.network.is_empty() {
            self.deliver(false);
        }
        self.check_views();
        self.check_store();
    }

    fn check_store(&mut self) {
        let newest = self.sequence();
        for ((subject, sequence), truth) in &self.truth {
            let Some(ask) = ask(*subject, 1) else { continue };
            // A process that turned to a later cell has forgotten this one: it is past.
            let mut cells = self.processes.iter().filter_map(|t| t.cell(ask.subject(), *sequence));
            let Some(cell) = cells.next() else { continue };
            let sum = self.store.sum(CellName { subject: cell.digest(), sequence: *sequence });
            if *sequence == newest && sum != *truth {
                let what = format!("the store holds {sum} of {truth} in cell {sequence}");
                self.report.broken.get_or_insert(what);
            }
        }
    }

    fn any_process(&mut self) -> usize {
        usize::try_from(self.workload.below(self.processes.len() as u64)).unwrap_or(0)
    }

    fn any_subject(&mut self) -> usize {
        usize::try_from(self.workload.below(IDENTIFIERS.len() as u64)).unwrap_or(0)
    }

    fn note(&mut self, event: &[u64]) {
        for word in event {
            self.report.trace = mix(self.report.trace ^ word).rotate_left(7);
        }
    }
}

/// A request of one of the subjects.
fn ask(subject: usize, cost: u64) -> Option<Request<'static>> {
    let window = Window::from_millis(WINDOW_MS).ok()?;
    let part = |text| Part::new(text).ok();
    let identifier = part(IDENTIFIERS.get(subject)?)?;
    let subject = Subject::new(part("w")?, part("n")?, identifier, window);
    Some(Request::new(subject, Limit::new(LIMIT), Cost::new(cost).ok()?))
}
