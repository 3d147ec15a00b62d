//! What a seed expands into: the fleet, its traffic, and what goes wrong.

use std::fmt;

use tidegate_convergence::{GlobeTuning, Tuning};

use crate::chance::Chance;

/// A kind of fault. Each is switched on by half of the seeds, so that runs with one of them and
/// runs with many both occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Messages are lost.
    Loss,
    /// Messages arrive twice.
    Duplicate,
    /// Messages overtake each other.
    Reorder,
    /// Some messages take seconds.
    Delay,
    /// A node is cut off.
    Partition,
    /// A process is killed and another starts in its place.
    Crash,
    /// A process is asked to stop, and does so when everything is recorded.
    Drain,
    /// A node stands still for a while.
    Pause,
    /// Wall clocks disagree a little.
    Skew,
    /// A wall clock jumps.
    Step,
    /// A shard of the store loses everything.
    Flush,
    /// A replica that lags takes over.
    Failover,
    /// A store evicts single cells.
    Evict,
    /// The store answers with an error, once each time: a lost script, a store that loads.
    Refuse,
    /// The store takes its time.
    Slow,
    /// The store is away.
    Away,
    /// Identifiers come in floods, to tables with little memory.
    Flood,
    /// Callers go away while they wait.
    Leave,
    /// The global store is away.
    Outage,
    /// The global store fails over, and its last rows are lost.
    Rewind,
    /// Imports read a replica that lags.
    Lag,
    /// Rows become visible late, or never.
    Late,
    /// The global store answers with an error, once each time: a deadlock, a lock.
    Busy,
    /// The global store refuses rows that hold a certain subject.
    Poison,
    /// Calls to the global store are lost, before or after they are done.
    Vanish,
    /// A node is cut off from the global store.
    Sever,
    /// The process that leads its region is killed, or stands still.
    Behead,
    /// A region has the name of another.
    Namesake,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 28] = [
        Self::Loss,
        Self::Duplicate,
        Self::Reorder,
        Self::Delay,
        Self::Partition,
        Self::Crash,
        Self::Drain,
        Self::Pause,
        Self::Skew,
        Self::Step,
        Self::Flush,
        Self::Failover,
        Self::Evict,
        Self::Refuse,
        Self::Slow,
        Self::Away,
        Self::Flood,
        Self::Leave,
        Self::Outage,
        Self::Rewind,
        Self::Lag,
        Self::Late,
        Self::Busy,
        Self::Poison,
        Self::Vanish,
        Self::Sever,
        Self::Behead,
        Self::Namesake,
    ];

    /// Those that befall one region as well as several.
    const REGIONAL: usize = 18;

    /// Those that can strike.
    fn all(global: bool) -> &'static [Self] {
        let (regional, _) = Self::ALL.split_at(Self::REGIONAL);
        if global { &Self::ALL } else { regional }
    }

    /// Its name on a command line.
    #[must_use]
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    const fn bit(self) -> u32 {
        1 << (self as u32)
    }
}

/// Which kinds of fault are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults(u32);

impl Faults {
    /// Whether a kind is on.
    #[must_use]
    pub const fn has(self, fault: Fault) -> bool {
        self.0 & fault.bit() != 0
    }

    /// The same with one kind off.
    #[must_use]
    pub const fn without(self, fault: Fault) -> Self {
        Self(self.0 & !fault.bit())
    }

    /// The same with one kind on.
    #[must_use]
    pub const fn with(self, fault: Fault) -> Self {
        Self(self.0 | fault.bit())
    }

    /// The kinds that are on.
    pub fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(move |fault| self.has(*fault))
    }

    /// Reads a list as [`Display`](fmt::Display) writes it.
    #[must_use]
    pub fn parse(list: &str) -> Option<Self> {
        let mut faults = Self::default();
        for name in list.split(',').filter(|name| !name.is_empty() && *name != "none") {
            faults = faults.with(Fault::ALL.into_iter().find(|fault| fault.name() == name)?);
        }
        Some(faults)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.iter().map(Fault::name).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(","))
    }
}

/// How requests are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// One after the other.
    Steady,
    /// All nodes at once, then nothing.
    Burst,
    /// As many as possible just before and after the end of a window.
    Boundary,
}

/// A subject of the workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kind {
    /// The length of its windows.
    pub window_ms: u64,
    /// Its usual limit.
    pub limit: u64,
    /// How many of its requests in a hundred are of bounded consistency.
    pub bounded_percent: u64,
}

/// What a seed expands into.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The seed of all chance in the run.
    pub seed: u64,
    /// Regions. Where there are several, there is a global store.
    pub regions: usize,
    /// How many a region thinks there may be.
    pub regions_max: u16,
    /// Each region is one node, whose store ends with its process.
    pub private: bool,
    /// How regions speak with each other.
    pub globe: GlobeTuning,
    /// Nodes of all regions together, dealt to them in turn.
    pub nodes: usize,
    /// Shards of the store.
    pub shards: u16,
    /// The subjects.
    pub kinds: Vec<Kind>,
    /// Most requests.
    pub requests: u64,
    /// How long the traffic and the faults last.
    pub safety_ms: u64,
    /// How requests are spread.
    pub traffic: Traffic,
    /// How many requests in a hundred are batches.
    pub batch_percent: u64,
    /// How many requests in a hundred have a second limit, twice the usual.
    pub second_limit_percent: u64,
    /// How many requests of a subject in a hundred may be of bounded consistency at most.
    pub bounded_percent: u64,
    /// How many requests in a hundred are to be denied when the region cannot be asked.
    pub deny_percent: u64,
    /// One way through the network, in microseconds: at least and at most.
    pub latency_us: (u64, u64),
    /// The memory of a table, in subjects, about.
    pub table_bytes: usize,
    /// How processes speak with the region: what they are shipped with, or less.
    pub tuning: Tuning,
    /// A request that waited is decided with the clock reading it came with, not with a new one.
    pub late_readings: bool,
    /// Every request is for 1 of the usual limit, of any subject, at any node.
    pub plain: bool,
    /// What goes wrong.
    pub faults: Faults,
    /// What is known to be wrong, and where it is excused, is not looked at: see `excuses` in the
    /// oracles.
    pub excuses: bool,
    /// Registers and messages are compared one by one. Without it, only what a caller or an
    /// operator could see is judged.
    pub inside: bool,
}

impl Options {
    /// What a seed expands into.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut chance = Chance::new(seed, "options");
        let global = chance.percent(50);
        let all = Fault::all(global);
        let faults = all.iter().fold(Faults::default(), |faults, fault| {
            if chance.percent(50) { faults.with(*fault) } else { faults }
        });
        // One run in eight is without any fault, one in eight has exactly one.
        let faults = match chance.below(8) {
            0 => Faults::default(),
            1 => chance.of(all).map_or(faults, |one| Faults::default().with(one)),
            _ => faults,
        };
        let subjects = if global { chance.between(2, 5) } else { chance.between(2, 8) };
        // A stream of its own: what else a seed expands into does not depend on it.
        let mut consistency = Chance::new(seed, "consistency");
        let bounded_percent = if consistency.percent(50) { 100 } else { 0 };
        let kinds = (0..subjects)
            .map(|n| kind(&mut chance, n == 0, global))
            .map(|kind| Kind { bounded_percent: share(&mut consistency), ..kind })
            .collect();
        let latency_us =
            chance.of(&[(100, 800), (200, 3_000), (1_000, 12_000)]).unwrap_or((200, 3_000));
        let traffic = chance.of(&[Traffic::Steady, Traffic::Burst, Traffic::Boundary]);
        let flood = faults.has(Fault::Flood);
        // A table without any subject takes half of the least.
        let table_bytes = usize::try_from(chance.skewed(12_000, 48_000)).unwrap_or(12_000) + 8_192;
        let regions = if global { chance.between(2, 4) } else { 1 };
        let most = if global { 3 * regions } else { 6 };
        let nodes = chance.between(regions, most);
        let private = global && chance.below(6) == 0;
        let nodes = if private { regions } else { nodes };
        let (requests, safety_ms) = if global {
            (chance.between(600, 1_600), chance.between(60_000, 150_000))
        } else {
            (chance.between(2_300, 3_800), chance.between(15_000, 45_000))
        };
        let regions_max = regions + chance.of(&[0, 2, 6]).unwrap_or(0);
        Self {
            seed,
            regions: usize::try_from(regions).unwrap_or(1),
            regions_max: u16::try_from(regions_max).unwrap_or(10),
            private,
            globe: globe_tuning(&mut chance),
            nodes: usize::try_from(nodes).unwrap_or(1),
            shards: u16::try_from(chance.between(1, 3)).unwrap_or(1),
            kinds,
            requests,
            safety_ms,
            traffic: traffic.unwrap_or(Traffic::Steady),
            batch_percent: chance.of(&[0, 5, 30]).unwrap_or(0),
            second_limit_percent: chance.of(&[0, 0, 20]).unwrap_or(0),
            bounded_percent,
            // A stream of its own, as above.
            deny_percent: Chance::new(seed, "outage").of(&[0, 0, 30, 100]).unwrap_or(0),
            latency_us,
            table_bytes: if flood { table_bytes } else { 1 << 18 },
            late_readings: chance.percent(50),
            tuning: tuning(&mut chance, &mut consistency),
            plain: false,
            faults,
            excuses: true,
            inside: true,
        }
    }

    /// Whether the store of each process is its own. A run that was cut down may have more nodes.
    #[must_use]
    pub const fn is_private(&self) -> bool {
        self.private && self.regions > 1 && self.nodes <= self.regions
    }

    /// The command that repeats the run.
    #[must_use]
    pub fn command(&self) -> String {
        let full = Self::of(self.seed);
        let mut line = format!("cargo xtask sim --seed {}", self.seed);
        let mut add = |differs: bool, name: &str, value: String| {
            if differs {
                line.push_str(&format!(" --{name} {value}"));
            }
        };
        add(self.regions != full.regions, "regions", self.regions.to_string());
        add(self.nodes != full.nodes, "nodes", self.nodes.to_string());
        add(self.kinds != full.kinds, "subjects", self.kinds.len().to_string());
        add(self.requests != full.requests, "requests", self.requests.to_string());
        add(self.safety_ms != full.safety_ms, "ms", self.safety_ms.to_string());
        add(self.batch_percent != full.batch_percent, "batches", self.batch_percent.to_string());
        let bounded = self.bounded_percent;
        add(bounded != full.bounded_percent, "bounded", bounded.to_string());
        add(self.faults != full.faults, "faults", self.faults.to_string());
        if !self.excuses {
            line.push_str(" --no-excuses");
        }
        if !self.inside {
            line.push_str(" --outside");
        }
        line
    }
}

/// In one run of three, queues and calls are so small that what rarely happens happens often.
fn tuning(chance: &mut Chance, consistency: &mut Chance) -> Tuning {
    let shipped = Tuning::default();
    let call_records_max = chance.of(&[1, 3, 256]).unwrap_or(256);
    let replays_in_flight_max = chance.of(&[1, 2, 8]).unwrap_or(8);
    if chance.below(3) > 0 {
        return shipped;
    }
    let refreshes_in_flight_max = chance.of(&[1, 4]).unwrap_or(4);
    let asks_in_flight_max = consistency.of(&[1, 4]).unwrap_or(4);
    let ask_wants_max = consistency.of(&[1, 3, 128]).unwrap_or(128);
    let less = Tuning { call_records_max, replays_in_flight_max, ..shipped };
    Tuning { refreshes_in_flight_max, asks_in_flight_max, ask_wants_max, ..less }
}

/// How many requests of a subject are bounded, where some are: all, none, or both kinds mixed.
fn share(consistency: &mut Chance) -> u64 {
    consistency.of(&[0, 50, 100, 100]).unwrap_or(100)
}

/// In one run of eight the RFC's rule; in one of three, everything that is kept short is.
fn globe_tuning(chance: &mut Chance) -> GlobeTuning {
    let rfc = chance.below(8) == 0;
    let shipped = if rfc { GlobeTuning::rfc() } else { GlobeTuning::default() };
    if chance.below(3) > 0 {
        return shipped;
    }
    GlobeTuning {
        repeat_counters_min: chance.between(1, 10),
        repeat_ms: 5_000,
        gap_ms: 20_000,
        grace_ms: 50_000,
        rows_max: usize::try_from(chance.between(3, 12)).unwrap_or(3),
        ..shipped
    }
}

fn kind(chance: &mut Chance, first: bool, global: bool) -> Kind {
    if global {
        // Short windows stay in their region.
        let all = [60_000, 60_000, 60_000, 120_000, 300_000, 10_000];
        let windows = if first { &[60_000, 60_000, 120_000][..] } else { &all[..] };
        let limit = chance.of(&[3, 10, 30, 100, 1_000]).unwrap_or(10);
        let window_ms = chance.of(windows).unwrap_or(60_000);
        return Kind { window_ms, limit, bounded_percent: 0 };
    }
    // The first subject has a long window, so that its cells still count in the audit, and a small
    // limit, so that something is denied.
    let (windows, limits): (&[u64], &[u64]) = if first {
        (&[30_000, 60_000], &[3, 10, 30, 100])
    } else {
        (&[1_000, 2_000, 5_000, 10_000, 30_000, 60_000], &[1, 3, 10, 30, 100, 1_000, 1_000_000])
    };
    let window_ms = chance.of(windows).unwrap_or(60_000);
    Kind { window_ms, limit: chance.of(limits).unwrap_or(10), bounded_percent: 0 }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        let Self { regions, regions_max, nodes, shards, traffic, .. } = self;
        writeln!(f, "regions {regions} of {regions_max}, nodes {nodes}, shards {shards}")?;
        writeln!(f, "{traffic:?} traffic, stores of their own: {}", self.private)?;
        for (at, kind) in self.kinds.iter().enumerate() {
            let bounded = kind.bounded_percent.min(self.bounded_percent);
            writeln!(
                f,
                "subject {at}: limit {} per {} ms, {bounded} % bounded",
                kind.limit, kind.window_ms
            )?;
        }
        writeln!(f, "requests {}, over {} ms", self.requests, self.safety_ms)?;
        writeln!(
            f,
            "batches {} %, second limit {} %",
            self.batch_percent, self.second_limit_percent
        )?;
        let (low, high) = self.latency_us;
        writeln!(f, "latency {low} to {high} us, table {} bytes", self.table_bytes)?;
        let Tuning { call_records_max, replays_in_flight_max, .. } = self.tuning;
        writeln!(
            f,
            "{call_records_max} records in a call, {replays_in_flight_max} replays at once"
        )?;
        let Tuning { ask_wants_max, asks_in_flight_max, .. } = self.tuning;
        writeln!(f, "{ask_wants_max} costs in an ask, {asks_in_flight_max} asks at once")?;
        let GlobeTuning { rule, repeat_counters_min, rows_max, .. } = self.globe;
        if *regions > 1 {
            writeln!(f, "{rule:?}, repeats from {repeat_counters_min}, {rows_max} rows at once")?;
        }
        writeln!(f, "late readings: {}", self.late_readings)?;
        write!(f, "faults: {}", self.faults)
    }
}
