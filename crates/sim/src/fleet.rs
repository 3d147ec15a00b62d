//! A fleet that decides what somebody else brings: the production code, its stores and a network,
//! without oracles.
//!
//! Processes are as in [`World`](crate::World): [`tidegate_limiter::Table`] decides,
//! [`tidegate_convergence::Region`] and [`tidegate_convergence::Globe`] converse. The calls are the
//! caller's, with their times; so a fleet decides a trace that was, in as little time as it can.
//! The same calls, options and seed give the same answers.
//!
//! Nothing here reads a clock. A store that is away says nothing, a process that is killed forgets
//! everything, and whoever waited there asks another one.

mod abroad;
mod caller;
mod net;
mod process;
mod trouble;

use tidegate_convergence::{GlobeTuning, MemoryGlobe, MemoryRegion, Tuning};
use tidegate_limiter::{Consistency, RequestError};

pub use caller::{FleetCheck, Settled};
pub use net::FleetWork;
pub use trouble::{Trouble, TroubleKind};

use crate::chance::Chance;
use crate::queue::Queue;
use net::{Event, Net};
use process::Process;

/// How long a fleet runs before the first call comes: its regions have found each other by then,
/// as those of a fleet that is in use have.
const WARM_UP_US: u64 = 10_000_000;
/// How long after the last call everybody has an answer: many times what a caller waits at most.
const END_US: u64 = 1_000_000;
/// How long nobody comes, beside twice the longest window, until silence is left out: no count is
/// of any use then, and nothing that was sent is still on its way.
const SILENCE_US: u64 = 60_000_000;
/// Cells of a store before it is tidied for the first time.
const TIDY_MIN: usize = 4_096;

/// What a [`Fleet`] is made of, and where it begins. [`Fleet`] has an example.
#[derive(Clone, Debug)]
pub struct FleetOptions {
    /// Regions. With one, there is no global store.
    pub regions: usize,
    /// Processes of each region.
    pub nodes: usize,
    /// One way between a process and the store of its region: at least and at most.
    pub store_latency_us: (u64, u64),
    /// One way between a process and the global store.
    pub global_latency_us: (u64, u64),
    /// Under which rule all calls are decided.
    pub consistency: Consistency,
    /// How processes speak with their region.
    pub tuning: Tuning,
    /// How regions speak with each other.
    pub globe: GlobeTuning,
    /// The memory of each process for its subjects.
    pub table_bytes: usize,
    /// When the first call comes, by the wall clock.
    pub start_unix_ms: u64,
    /// What goes wrong, and when.
    pub troubles: Vec<Trouble>,
    /// Of everything that is left to chance.
    pub seed: u64,
}

impl Default for FleetOptions {
    /// Two processes in one region, all of it healthy.
    fn default() -> Self {
        Self {
            regions: 1,
            nodes: 2,
            store_latency_us: (200, 3_000),
            global_latency_us: (20_000, 80_000),
            consistency: Consistency::Bounded,
            tuning: Tuning::default(),
            globe: GlobeTuning::default(),
            table_bytes: 256 << 20,
            start_unix_ms: 0,
            troubles: Vec::new(),
            seed: 1,
        }
    }
}

/// The store of a region.
struct Home {
    store: MemoryRegion,
    /// With more cells than this it is time to forget those that have expired.
    tidy_at: usize,
}

/// A fleet under way.
///
/// ```
/// use tidegate_sim::{Fleet, FleetCheck, FleetOptions};
///
/// let options = FleetOptions { start_unix_ms: 1_700_000_040_000, ..FleetOptions::default() };
/// let mut fleet = Fleet::new(options);
/// let check =
///     FleetCheck { namespace: "login", name: "ann", window_ms: 60_000, limit: 2, cost: 1 };
/// for number in 0..3 {
///     // One each second, all in the first region.
///     fleet.call(number, (1_700_000_040_000 + 1_000 * number, Some(0)), &[check])?;
/// }
/// fleet.finish();
/// let mut settled = Vec::new();
/// fleet.take_settled(&mut settled);
/// assert_eq!(settled.iter().filter(|one| one.admitted).count(), 2);
/// assert!(fleet.work().region_calls > 0);
/// # Ok::<(), tidegate_limiter::RequestError>(())
/// ```
pub struct Fleet {
    options: FleetOptions,
    net: Net,
    /// Region by region. `None` where a process was killed.
    nodes: Vec<Option<Box<Process>>>,
    homes: Vec<Home>,
    globe: MemoryGlobe,
    /// Of which process a caller asks.
    choice: Chance,
    /// How many processes have been started.
    started: u64,
    /// Regions are taken in turn for who does not say where it is.
    turn: usize,
    begun: bool,
    /// The longest window that was asked for.
    window_ms: u64,
}

impl std::fmt::Debug for Fleet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Fleet").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Fleet {
    /// Starts all processes. The [type](Self) has an example.
    #[must_use]
    pub fn new(options: FleetOptions) -> Self {
        let (regions, nodes) = (options.regions.max(1), options.nodes.max(1));
        let options = FleetOptions { regions, nodes, ..options };
        let mut fleet = Self {
            net: Net::new(&options, WARM_UP_US),
            nodes: (0..regions * nodes).map(|_| None).collect(),
            homes: (0..regions).map(|_| new_home()).collect(),
            globe: MemoryGlobe::default(),
            choice: Chance::new(options.seed, "choice"),
            started: 0,
            turn: 0,
            begun: false,
            window_ms: 0,
            options,
        };
        for node in 0..fleet.nodes.len() {
            fleet.start(node);
        }
        fleet.schedule_kills(WARM_UP_US);
        fleet
    }

    /// A call comes: when, by the wall clock, and in which region; `None` takes them in turn. It
    /// is decided as one, at once or while time passes. The [type](Self) has an example.
    ///
    /// # Errors
    /// When a check is one that no server takes: nothing has happened then.
    pub fn call(
        &mut self,
        number: u64,
        (at_unix_ms, region): (u64, Option<usize>),
        checks: &[FleetCheck<'_>],
    ) -> Result<(), RequestError> {
        caller::check(checks)?;
        let since_ms = at_unix_ms.saturating_sub(self.options.start_unix_ms);
        let came_us = WARM_UP_US.saturating_add(since_ms.saturating_mul(1_000));
        self.skip_silence(came_us);
        self.pass_until(came_us);
        let longest_ms = checks.iter().map(|check| check.window_ms).max();
        self.window_ms = self.window_ms.max(longest_ms.unwrap_or(0));
        if !self.begun {
            self.begun = true;
            self.net.work = FleetWork::default();
        }
        let region = region.unwrap_or_else(|| {
            self.turn = self.turn.wrapping_add(1);
            self.turn
        });
        let Some(node) = self.pick(region % self.options.regions) else {
            self.net.settle_alone(number);
            return Ok(());
        };
        let consistency = self.options.consistency;
        self.with(node, |process, net| process.arrive(net, number, checks, consistency));
        Ok(())
    }

    /// No call comes any more: time passes until all are settled. The [type](Self) has an example.
    pub fn finish(&mut self) {
        self.pass_until(self.net.now_us.saturating_add(END_US));
    }

    /// Takes the answers that there are, in the order in which they were given. The [type](Self)
    /// has an example.
    pub fn take_settled(&mut self, into: &mut Vec<Settled>) {
        into.append(&mut self.net.settled);
    }

    /// What stores had to do since the first call. The [type](Self) has an example.
    #[must_use]
    pub const fn work(&self) -> FleetWork {
        self.net.work
    }

    /// What the store of each region holds, of all cells that have not expired: for those who look
    /// whether anything was lost.
    ///
    /// ```
    /// use tidegate_sim::{Fleet, FleetOptions};
    ///
    /// assert_eq!(Fleet::new(FleetOptions::default()).recorded(), [0]);
    /// ```
    #[must_use]
    pub fn recorded(&self) -> Vec<u64> {
        let now_ms = self.net.now_us / 1_000;
        let sum = |home: &Home| home.store.names().map(|cell| home.store.sum(cell, now_ms)).sum();
        self.homes.iter().map(sum).collect()
    }

    /// Starts a process.
    fn start(&mut self, node: usize) {
        self.started += 1;
        let home = self.home_of(node);
        let process = Process::new(&self.options, (node, home), self.started);
        if let Some(slot) = self.nodes.get_mut(node) {
            *slot = Some(Box::new(process));
        }
        self.with(node, |process, net| process.begin(net));
    }

    /// Ends one, with everything it knows. Whoever waits there asks another one.
    fn kill(&mut self, node: usize) {
        let Some(process) = self.nodes.get_mut(node).and_then(Option::take) else { return };
        let home = self.home_of(node);
        for caller in process.callers.into_values() {
            match self.pick(home) {
                Some(other) => self.with(other, |process, net| process.ask_again(net, caller)),
                None => self.net.settle_alone(caller.number),
            }
        }
    }

    fn home_of(&self, node: usize) -> usize {
        node / self.options.nodes
    }

    /// A process of a region; where none lives, of the next.
    fn pick(&mut self, region: usize) -> Option<usize> {
        let (regions, nodes) = (self.options.regions, self.options.nodes);
        let any = self.choice.index(nodes);
        let mut near = (0..regions).flat_map(|far| {
            let first = (region + far) % regions * nodes;
            (0..nodes).map(move |more| first + (any + more) % nodes)
        });
        near.find(|node| self.nodes.get(*node).is_some_and(Option::is_some))
    }

    /// Lends a process that lives, and does what it asks for.
    fn with(&mut self, node: usize, work: impl FnOnce(&mut Process, &mut Net)) {
        if let Some(Some(process)) = self.nodes.get_mut(node) {
            work(process, &mut self.net);
            process.pump(&mut self.net);
        }
    }

    /// The same for one that is meant: another may run in its place by now.
    fn with_this(&mut self, whose: net::Whose, work: impl FnOnce(&mut Process, &mut Net)) {
        let held = self.nodes.get(whose.node).and_then(Option::as_ref);
        if held.is_some_and(|process| process.number == whose.number) {
            self.with(whose.node, work);
        }
    }

    /// Leaves out a silence so long that nothing of what was before counts any more: a fleet that
    /// has just started decides the same. What its processes say to each other when nobody comes
    /// is left out with it, and is not counted.
    fn skip_silence(&mut self, came_us: u64) {
        let counts_us = self.window_ms.saturating_mul(2_000).saturating_add(SILENCE_US);
        let again_us = came_us.saturating_sub(WARM_UP_US);
        if again_us <= self.net.now_us.saturating_add(counts_us) {
            return;
        }
        // Whoever waits gets an answer first.
        self.finish();
        self.net.queue = Queue::new();
        self.net.now_us = again_us;
        self.homes.fill_with(new_home);
        self.globe = MemoryGlobe::default();
        self.nodes.fill_with(|| None);
        for node in 0..self.nodes.len() {
            if !self.is_killed(node, WARM_UP_US) {
                self.start(node);
            }
        }
        self.schedule_kills(WARM_UP_US);
    }

    fn pass_until(&mut self, end_us: u64) {
        while let Some((at_us, event)) = self.net.queue.pop_before(end_us) {
            self.net.now_us = self.net.now_us.max(at_us);
            self.happen(event);
        }
        self.net.now_us = self.net.now_us.max(end_us);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::ToStore { whose, id, call, delayed } => {
                self.reach_store(whose, (id, call, delayed));
            }
            Event::ToNode { whose, id, reply } => {
                self.with_this(whose, |process, net| process.replied(net, id, Ok(*reply)));
            }
            Event::Timeout { whose, id } => {
                let late = Err(tidegate_convergence::StoreError::Timeout);
                self.with_this(whose, |process, net| process.replied(net, id, late));
            }
            Event::Tick { whose } => self.with_this(whose, Process::tick),
            Event::Deadline { whose, waiter } => {
                self.with_this(whose, |process, net| process.deadline(net, waiter));
            }
            Event::Errand { whose, id, errand } => self.errand_arrives(whose, id, *errand),
            Event::Return { whose, id, returned } => {
                self.with_this(whose, |process, net| process.returned(net, id, *returned));
            }
            Event::GlobeTimeout { whose, id, kind } => {
                self.with_this(whose, |process, net| process.returned(net, id, kind.late()));
            }
            Event::Sweep { whose } => self.with_this(whose, Process::sweep),
            Event::Kill { node } => self.kill(node),
            Event::Start { node } => {
                // Of two troubles that overlap, the first to end is the last to be felt.
                if self.nodes.get(node).is_some_and(Option::is_none) {
                    self.start(node);
                }
            }
        }
    }

    /// A call arrives at the store of its region.
    fn reach_store(&mut self, whose: net::Whose, (id, call, delayed): net::Call) {
        if self.net.is_store_away(whose.home) {
            return;
        }
        if !delayed && let Some(at_us) = self.net.slowed(whose.home) {
            self.net.queue.push(at_us, Event::ToStore { whose, id, call, delayed: true });
            return;
        }
        let now_ms = self.net.now_us / 1_000;
        self.net.work.count_call(&call);
        let Some(home) = self.homes.get_mut(whose.home) else { return };
        let reply = Box::new(home.store.call(&call, now_ms));
        home.tidy(now_ms);
        if let Some(at_us) = self.net.store_arrival(whose, 1) {
            self.net.queue.push(at_us, Event::ToNode { whose, id, reply });
        }
    }
}

/// A store with nothing in it.
fn new_home() -> Home {
    Home { store: MemoryRegion::new(1), tidy_at: TIDY_MIN }
}

impl Home {
    /// Forgets what has expired, when there is twice as much as the last time.
    fn tidy(&mut self, now_ms: u64) {
        if self.store.cells() > self.tidy_at {
            self.store.expire(now_ms);
            self.tidy_at = (2 * self.store.cells()).max(TIDY_MIN);
        }
    }
}

#[cfg(test)]
mod tests;
