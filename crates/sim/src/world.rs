//! A region in one thread: everything that happens, in the order in which it does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidegate_convergence::{Batch, CallId, Outcome, ShardReply, StoreError, Tuning, Waiter};
use tidegate_limiter::{
    Consistency, Digest, FleetSecret, Outage, Part, Request, RequestError, Subject, Window,
};

use crate::abroad::{Database, Errand, Maxima, Returned, Whose};
use crate::aim::AIMS_MAX;
use crate::chance::Chance;
use crate::fault::Fault;
use crate::faults::Trouble;
use crate::grants::Answered;
use crate::node::{Ask, Call, Node, Process};
use crate::options::{Kind, Options};
use crate::queue::Queue;
use crate::report::{Report, Violation};
use crate::span::Spans;
use crate::store::Store;
use crate::truth::{Name, Truth};

/// Identifiers of a flood.
const FLOOD: usize = 200;
/// How often a process tidies its table.
const SWEEP_US: u64 = 700_000;

/// A subject.
#[derive(Debug)]
pub(crate) struct Spec {
    workspace: &'static str,
    name: String,
    window: Window,
    pub(crate) window_ms: u64,
    pub(crate) limit: u64,
    pub(crate) digest: Digest,
    pub(crate) bounded_percent: u64,
}

impl Spec {
    fn subject(&self) -> Result<Subject<'_>, RequestError> {
        let (workspace, namespace) = (Part::new(self.workspace)?, Part::new("n")?);
        Ok(Subject::new(workspace, namespace, Part::new(&self.name)?, self.window))
    }

    pub(crate) fn request(&self, ask: Ask) -> Result<Request<'_>, RequestError> {
        let cost = tidegate_limiter::Cost::new(ask.cost)?;
        let request = Request::new(self.subject()?, tidegate_limiter::Limit::new(ask.limit), cost);
        let rule = if ask.bounded { Consistency::Bounded } else { Consistency::Fast };
        let outage = if ask.deny { Outage::Deny } else { Outage::Local };
        Ok(request.with_consistency(rule).with_outage(outage))
    }
}

/// A region: its store, and what its processes really admitted.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) store: Store,
    pub(crate) truth: Truth,
    /// What was asked of the store.
    pub(crate) answered: Answered,
    /// The store has lost something, by whatever.
    pub(crate) has_lost: bool,
}

/// The regions.
#[derive(Debug)]
pub(crate) struct Homes(Vec<Home>);

impl Homes {
    fn new(regions: usize, shards: u16) -> Self {
        let home = |_| {
            let (store, truth) = (Store::new(shards), Truth::default());
            Home { store, truth, answered: Answered::default(), has_lost: false }
        };
        Self((0..regions.max(1)).map(home).collect())
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Home> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Home> {
        self.0.iter_mut()
    }

    #[expect(clippy::indexing_slicing, reason = "a region is told by the number of a node")]
    pub(crate) fn at(&self, home: usize) -> &Home {
        &self.0[home % self.0.len()]
    }

    #[expect(clippy::indexing_slicing, reason = "as above")]
    pub(crate) fn at_mut(&mut self, home: usize) -> &mut Home {
        let home = home % self.0.len();
        &mut self.0[home]
    }
}

/// What happens.
#[derive(Debug)]
pub(crate) enum Event {
    /// The next request comes.
    Arrive,
    /// A call arrives at the store.
    ToStore { node: usize, number: u32, id: CallId, call: Box<Call>, delayed: bool },
    /// An answer arrives at a node.
    ToNode { node: usize, number: u32, id: CallId, answer: Box<Answer> },
    /// A call has taken too long.
    Timeout { node: usize, number: u32, id: CallId },
    /// A process does what is due.
    Tick { node: usize, number: u32, timer: bool },
    /// The globe of a process does what is due.
    GlobeTick { node: usize, number: u32 },
    /// A call of a globe arrives at its store.
    ErrandArrives { whose: Whose, errand: Box<Errand> },
    /// An answer to one arrives at its node.
    ErrandReturns { whose: Whose, returned: Box<Returned> },
    /// One has taken too long.
    GlobeTimeout { whose: Whose },
    /// A row of the feed becomes visible.
    Commit { whose: Whose, id: (u64, u64), batch: Box<Batch> },
    /// A caller does not wait longer; or it goes away, and does not want an answer.
    Deadline { node: usize, number: u32, waiter: Waiter, leaves: bool },
    /// A caller hears how its wait ended.
    Wake { node: usize, number: u32, waiter: Waiter, outcome: Outcome },
    /// A process tidies its table.
    Sweep { node: usize, number: u32 },
    /// Something goes wrong.
    Trouble(Trouble),
}

/// What a store answered, and what an honest one would have.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) said: Result<ShardReply, StoreError>,
    pub(crate) honest: Option<ShardReply>,
}

/// One run.
#[derive(Debug)]
pub struct World {
    pub(crate) options: Options,
    pub(crate) tuning: Tuning,
    pub(crate) now_us: u64,
    pub(crate) queue: Queue<Event>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) specs: Arc<Vec<Spec>>,
    pub(crate) digests: BTreeMap<Digest, usize>,
    pub(crate) homes: Homes,
    /// The global store, where there are several regions.
    pub(crate) database: Option<Database>,
    /// The feed before rows were deleted.
    pub(crate) feed_before: Maxima,
    pub(crate) workload: Chance,
    pub(crate) network: Chance,
    pub(crate) faults: Chance,
    /// Of what strikes at something, and how often it still may.
    pub(crate) aims: Chance,
    pub(crate) aims_left: u32,
    pub(crate) scheduling: Chance,
    /// Of everything that only bounded requests do.
    pub(crate) consistency: Chance,
    pub(crate) outage: Chance,
    pub(crate) eras: u64,
    pub(crate) processes: u32,
    pub(crate) requests_left: u64,
    pub(crate) burst_left: u64,
    /// Lost, duplicated, delayed messages in a thousand.
    pub(crate) loss_permille: u64,
    pub(crate) duplicate_permille: u64,
    pub(crate) delay_permille: u64,
    /// Until when something was wrong.
    pub(crate) troubled_us: u64,
    /// Everything is mended.
    pub(crate) healed: bool,
    /// A process goes on under another name, for a reason that is excused: nothing more is judged.
    pub(crate) given_up: bool,
    pub(crate) report: Report,
    /// What callers were told, for the oracle of spans.
    pub(crate) spans: Spans,
    /// How requests of the workload itself were answered, by their number, if someone asks.
    pub(crate) answers: Option<Vec<(u64, bool)>>,
    /// A flood is drawn, and does not come.
    pub(crate) muted: bool,
    pub(crate) tell: bool,
}

impl World {
    /// The world of a seed.
    #[must_use]
    pub fn new(options: Options) -> Self {
        let seed = options.seed;
        let mut faults = Chance::new(seed, "faults");
        let specs = specs(&options);
        let long: Vec<(usize, Digest)> = specs
            .iter()
            .enumerate()
            .filter(|(_, spec)| spec.window_ms >= crate::abroad::WINDOW_MIN_MS)
            .map(|(at, spec)| (at, spec.digest))
            .collect();
        let digests = specs.iter().enumerate().map(|(at, spec)| (spec.digest, at)).collect();
        let mut permille = |fault, low, high| {
            let drawn = faults.skewed(low, high);
            if options.faults.has(fault) { drawn } else { 0 }
        };
        let loss_permille = permille(Fault::Loss, 5, 250);
        let duplicate_permille = permille(Fault::Duplicate, 5, 250);
        let delay_permille = permille(Fault::Delay, 5, 120);
        Self {
            tuning: options.tuning,
            now_us: 0,
            queue: Queue::new(),
            nodes: options.shape.homes().into_iter().map(Node::of).collect(),
            specs: Arc::new(specs),
            digests,
            homes: Homes::new(options.shape.regions(), options.shards),
            database: Database::new(&options, &long),
            feed_before: Maxima::default(),
            workload: Chance::new(seed, "workload"),
            network: Chance::new(seed, "network"),
            faults,
            aims: Chance::new(seed, "aims"),
            aims_left: if options.aims { AIMS_MAX } else { 0 },
            scheduling: Chance::new(seed, "scheduling"),
            consistency: Chance::new(seed, "bounded"),
            outage: Chance::new(seed, "outages"),
            eras: 0,
            processes: 0,
            requests_left: options.requests,
            burst_left: 0,
            loss_permille,
            duplicate_permille,
            delay_permille,
            troubled_us: 0,
            healed: false,
            given_up: false,
            report: Report { global: options.is_global(), ..Report::default() },
            spans: Spans::default(),
            answers: None,
            muted: false,
            tell: false,
            options,
        }
    }

    /// Prints what happens.
    #[must_use]
    pub fn told(mut self) -> Self {
        self.tell = true;
        self
    }

    /// Runs to the end: traffic and faults, then a quiet time in which everything that was admitted
    /// must have become known, then an audit.
    #[must_use]
    pub fn run(mut self) -> Report {
        self.run_through();
        self.report
    }

    /// The same, and what all regions together admitted to each cell.
    pub(crate) fn run_cells(mut self) -> (Report, Vec<(Name, u64)>) {
        self.run_through();
        let names: BTreeSet<Name> =
            self.homes.iter().flat_map(|home| home.truth.cells.keys().copied()).collect();
        let cells = names.into_iter().map(|name| (name, self.world_total(name))).collect();
        (self.report, cells)
    }

    fn run_through(&mut self) {
        self.run_until_healed();
        if !self.given_up {
            self.heal_and_audit();
        }
    }

    /// Traffic and faults, nothing more.
    pub(crate) fn run_until_healed(&mut self) {
        for node in 0..self.nodes.len() {
            self.start(node);
        }
        self.schedule_troubles();
        self.queue.push(1_000, Event::Arrive);
        self.run_until(self.options.safety_ms * 1_000);
    }

    /// Lets time pass.
    pub(crate) fn run_until(&mut self, end_us: u64) {
        while self.report.broken.is_none()
            && !self.given_up
            && let Some((at_us, event)) = self.queue.pop_before(end_us)
        {
            self.now_us = self.now_us.max(at_us);
            self.happen(event);
            self.watch_whole();
        }
        self.now_us = self.now_us.max(end_us);
    }

    fn happen(&mut self, event: Event) {
        if let Some(node) = node_of(&event)
            && let Some(paused_until_us) = self.paused(node)
        {
            self.queue.push(paused_until_us, event);
            return;
        }
        match event {
            Event::Arrive => self.arrive(),
            Event::ToStore { node, number, id, call, delayed } => {
                self.reach_store((node, number, id), call, delayed);
            }
            Event::ToNode { node, number, id, answer } => {
                self.reach_node((node, number, id), *answer)
            }
            Event::Timeout { node, number, id } => self.time_out((node, number, id)),
            Event::Tick { node, number, timer } => self.tick(node, number, timer),
            Event::Deadline { node, number, waiter, leaves } => {
                self.deadline(node, number, waiter, leaves);
            }
            Event::Wake { node, number, waiter, outcome } => {
                self.with_process(node, number, |world, process| {
                    world.wake(process, waiter, outcome);
                    world.pump(process);
                });
            }
            Event::GlobeTick { node, number } => self.globe_tick(node, number),
            Event::ErrandArrives { whose, errand } => self.errand_arrives(whose, *errand),
            Event::ErrandReturns { whose, returned } => self.errand_returns(whose, *returned),
            Event::GlobeTimeout { whose } => self.errand_fails(whose),
            Event::Commit { whose, id, batch } => self.commit_row(whose, id, *batch),
            Event::Sweep { node, number } => self.sweep(node, number),
            Event::Trouble(trouble) => self.trouble(trouble),
        }
    }

    fn paused(&self, node: usize) -> Option<u64> {
        let until_us = self.nodes.get(node)?.paused_until_us;
        (until_us > self.now_us).then_some(until_us)
    }

    /// Starts a process on a node.
    pub(crate) fn start(&mut self, node: usize) {
        let number = self.processes;
        self.processes += 1;
        self.troubled_us = self.troubled_us.max(self.now_us);
        let home = self.home_of(node);
        if self.options.is_private() {
            let shards = self.options.shards;
            let Home { store, truth, .. } = self.homes.at_mut(home);
            *store = Store::new(shards);
            truth.lose(|_| true, false);
        }
        let mut process = Box::new(Process::new(&self.options, number, (node, home), self.tuning));
        if let Some(abroad) = &mut process.abroad {
            process.region.watch_growth();
            abroad.globe.begin(&process.table);
        }
        self.pump_abroad(&mut process);
        if let Some(node) = self.nodes.get_mut(node) {
            node.process = Some(process);
        }
        self.note(&[1, node as u64], || format!("process {number} starts on node {node}"));
        self.queue.push(self.now_us + SWEEP_US, Event::Sweep { node, number });
    }

    /// Lends the process of a node, if it is the one that is meant, to `work`.
    pub(crate) fn with_process(
        &mut self,
        node: usize,
        number: u32,
        work: impl FnOnce(&mut Self, &mut Process),
    ) -> bool {
        let held = self.nodes.get_mut(node).and_then(|node| {
            let same = node.process.as_ref().is_some_and(|process| process.number == number);
            if same { node.process.take() } else { None }
        });
        let Some(mut process) = held else { return false };
        work(self, &mut process);
        if let Some(node) = self.nodes.get_mut(node) {
            node.process = Some(process);
        }
        true
    }

    fn sweep(&mut self, node: usize, number: u32) {
        let here = self.with_process(node, number, |world, process| {
            let reading = world.reading(process);
            let dropped = process.table.sweep(reading.into());
            world.report.evicted += dropped as u64;
            process.dropped = (dropped > 0).then_some(world.now_us).or(process.dropped);
            world.check_bounds(process);
        });
        if here {
            self.report.events += 1;
            self.queue.push(self.now_us + SWEEP_US, Event::Sweep { node, number });
        }
    }

    /// The clocks of a process's node.
    pub(crate) fn reading(&self, process: &Process) -> crate::ghost::Reading {
        let offset_ms = self.nodes.get(process.node).map_or(0, |node| node.offset_ms);
        process.reading(self.now_us, offset_ms)
    }

    /// The region of a node.
    pub(crate) fn home_of(&self, node: usize) -> usize {
        self.nodes.get(node).map_or(0, |node| node.home)
    }

    /// What all regions admitted to a cell.
    pub(crate) fn world_total(&self, name: crate::truth::Name) -> u64 {
        self.homes.iter().map(|home| home.truth.total(name)).sum()
    }

    pub(crate) const fn now_ms(&self) -> u64 {
        self.now_us / 1_000
    }

    /// Adds to the hash of the run, and tells it if someone listens.
    pub(crate) fn note(&mut self, words: &[u64], text: impl FnOnce() -> String) {
        self.report.note(&[self.now_us]);
        self.report.note(words);
        if self.tell {
            println!("{:>10} us  {}", self.now_us, text());
        }
    }

    /// A promise was broken. The first one counts.
    pub(crate) fn broken(&mut self, oracle: &'static str, what: impl FnOnce() -> String) {
        if self.report.broken.is_none() && !self.given_up {
            let violation = Violation { oracle, what: what(), at_us: self.now_us };
            if self.tell {
                println!("{:>10} us  BROKEN {violation}", self.now_us);
            }
            self.report.broken = Some(violation);
        }
    }
}

/// The node on which an event happens.
const fn node_of(event: &Event) -> Option<usize> {
    match event {
        Event::Arrive
        | Event::ToStore { .. }
        | Event::ErrandArrives { .. }
        | Event::Commit { .. }
        | Event::Trouble(_) => None,
        Event::ErrandReturns { whose: (node, ..), .. }
        | Event::GlobeTimeout { whose: (node, ..) }
        | Event::GlobeTick { node, .. } => Some(*node),
        Event::ToNode { node, .. }
        | Event::Timeout { node, .. }
        | Event::Tick { node, .. }
        | Event::Deadline { node, .. }
        | Event::Wake { node, .. }
        | Event::Sweep { node, .. } => Some(*node),
    }
}

/// The subjects of the workload, and those of a flood.
fn specs(options: &Options) -> Vec<Spec> {
    let flood = if options.faults.has(Fault::Flood) { FLOOD } else { 0 };
    // Half of the floods are of the same workspace, which then pushes out its own kind.
    let apart = if options.seed.is_multiple_of(2) { "f" } else { "w" };
    let own = options.kinds.iter().map(|kind| ("w", *kind));
    let other = Kind { window_ms: 10_000, limit: 10, bounded_percent: 50 };
    let all = own.chain((0..flood).map(|_| (apart, other)));
    let spec = |(at, (workspace, kind)): (usize, (&'static str, Kind))| {
        let Kind { window_ms, limit, bounded_percent } = kind;
        let window = Window::from_millis(window_ms).ok()?;
        let name = format!("i{at}");
        let (namespace, part) = (Part::new("n").ok()?, Part::new(&name).ok()?);
        let subject = Subject::new(Part::new(workspace).ok()?, namespace, part, window);
        let digest = Digest::of(&subject, &FleetSecret::default());
        Some(Spec { workspace, name, window, window_ms, limit, digest, bounded_percent })
    };
    all.enumerate().filter_map(spec).collect()
}
