//! What a seed expands into: the fleet, its traffic, and what goes wrong.

use std::fmt;

use tidegate_convergence::{GlobeTuning, Tuning};

use crate::chance::Chance;
use crate::fault::{Fault, Faults};
use crate::shape::Shape;

/// How requests are spread over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    /// One after the other.
    Steady,
    /// All nodes at once, then nothing.
    Burst,
    /// As many as possible just before and after the end of a window.
    Boundary,
    /// One after the other, in every second minute: each begins with nothing used. No seed expands
    /// into it, nor into the next.
    Resting,
    /// The same, all of a subject in one region, and from there in the next: once in each.
    Hopping,
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
    /// Regions, and the nodes of each. Where there are several, there is a global store.
    pub shape: Shape,
    /// How many a region thinks there may be.
    pub regions_max: u16,
    /// Each region is one node, whose store ends with its process.
    pub private: bool,
    /// How regions speak with each other.
    pub globe: GlobeTuning,
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
    /// Faults also strike at what has just begun.
    pub aims: bool,
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
        let (requests, safety_ms) = if global {
            (chance.between(600, 1_600), chance.between(60_000, 150_000))
        } else {
            (chance.between(2_300, 3_800), chance.between(15_000, 45_000))
        };
        let regions_more = chance.of(&[0, 2, 6]).unwrap_or(0);
        let size = |number| usize::try_from(number).unwrap_or(1);
        let dealt = Shape::dealt(size(regions), size(nodes));
        let (shape, safety_ms, aims) = shape(seed, (dealt, safety_ms), (global, private));
        Self {
            seed,
            regions_max: u16::try_from(shape.regions()).unwrap_or(10) + regions_more,
            shape,
            private,
            globe: globe_tuning(&mut chance),
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
            aims,
            faults,
            excuses: true,
            inside: true,
        }
    }

    /// Whether the store of each process is its own. A run that was cut down may have more nodes.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.private && self.is_global() && self.shape.nodes() <= self.shape.regions()
    }

    /// Whether there are several regions.
    #[must_use]
    pub const fn is_global(&self) -> bool {
        self.shape.regions() > 1
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
        add(self.shape != full.shape, "shape", self.shape.to_string());
        let regions_max = self.regions_max;
        add(regions_max != full.regions_max, "regions-max", regions_max.to_string());
        add(self.kinds != full.kinds, "subjects", self.kinds.len().to_string());
        add(self.requests != full.requests, "requests", self.requests.to_string());
        add(self.safety_ms != full.safety_ms, "ms", self.safety_ms.to_string());
        add(self.batch_percent != full.batch_percent, "batches", self.batch_percent.to_string());
        let bounded = self.bounded_percent;
        add(bounded != full.bounded_percent, "bounded", bounded.to_string());
        add(self.deny_percent != full.deny_percent, "deny", self.deny_percent.to_string());
        add(self.faults != full.faults, "faults", self.faults.to_string());
        if full.aims && !self.aims {
            line.push_str(" --no-aims");
        }
        if !self.excuses {
            line.push_str(" --no-excuses");
        }
        if !self.inside {
            line.push_str(" --outside");
        }
        line
    }
}

/// In one of four worlds of several regions, there are up to ten, and each has a size of its own.
/// Faults strike at what is under way there. From a stream of its own, so that the other seeds
/// expand into what they always did.
fn shape(
    seed: u64,
    (dealt, safety_ms): (Shape, u64),
    (global, private): (bool, bool),
) -> (Shape, u64, bool) {
    let mut chance = Chance::new(seed, "shape");
    let drawn = global && chance.below(4) == 0;
    let shape = if drawn { Shape::drawn(&mut chance) } else { dealt };
    // Where every store ends with its process, each region is one.
    let shape = if private { Shape::dealt(shape.regions(), shape.regions()) } else { shape };
    // Most of what a process does it does by the clock: the more there are, the shorter the run.
    let safety_ms = if drawn { safety_ms * 2 / 3 } else { safety_ms };
    (shape, safety_ms, drawn)
}

/// In one run of three, queues and calls are so small that what rarely happens happens often.
fn tuning(chance: &mut Chance, consistency: &mut Chance) -> Tuning {
    let shipped = Tuning::default();
    let records_max = chance.of(&[1, 3, 256]).unwrap_or(256);
    let replays_in_flight_max = chance.of(&[1, 2, 8]).unwrap_or(8);
    if chance.below(3) > 0 {
        return shipped;
    }
    let refreshes_in_flight_max = chance.of(&[1, 4]).unwrap_or(4);
    let asks_in_flight_max = consistency.of(&[1, 4]).unwrap_or(4);
    let ask_wants_max = consistency.of(&[1, 3, 128]).unwrap_or(128);
    let (call_records_max, replay_records) = (records_max, records_max);
    let less = Tuning { call_records_max, replay_records, replays_in_flight_max, ..shipped };
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
        let Self { shape, regions_max, shards, traffic, .. } = self;
        let (regions, nodes) = (shape.regions(), shape.nodes());
        writeln!(f, "regions {regions} of {regions_max}, nodes {nodes}: {shape}; shards {shards}")?;
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
        let Tuning { call_records_max, replay_records, replays_in_flight_max, .. } = self.tuning;
        write!(f, "{call_records_max} records in a call, {replay_records} in a replay, ")?;
        writeln!(f, "{replays_in_flight_max} replays at once")?;
        let Tuning { ask_wants_max, asks_in_flight_max, .. } = self.tuning;
        writeln!(f, "{ask_wants_max} costs in an ask, {asks_in_flight_max} asks at once")?;
        let GlobeTuning { rule, repeat_counters_min, rows_max, .. } = self.globe;
        if self.is_global() {
            writeln!(f, "{rule:?}, repeats from {repeat_counters_min}, {rows_max} rows at once")?;
        }
        writeln!(f, "late readings: {}, faults aim: {}", self.late_readings, self.aims)?;
        write!(f, "faults: {}", self.faults)
    }
}
