//! What happened and how things stand, as Prometheus reads it.
//!
//! Promises: every count of the limiter, of the conversation with the region and of that with other
//! regions; the same series from the first scrape to the last. A scrape asks no store and waits for
//! nobody.
//! Refuses: labels that are not written in this program. They are `&'static str`, so a name that a
//! caller chose cannot become one, and callers cannot make series. The exception are ids of
//! workspaces, if they are asked for, and then so many and no more.
//!
//! To add a metric: a count where it happens, a field in `Seen`, a family in `gather`, a row in
//! the page.
//! `docs/metrics.md` lists them all; a test keeps it so.

mod calls;
mod gather;
mod histogram;
mod process;
mod skew;
#[cfg(test)]
mod tests;
mod text;
mod workspaces;

use std::sync::Arc;

use tidegate::{Counts, GlobeCounts, RegionCounts};

use crate::accept::{TallySeen, Watch};
use crate::config::{ConfigSeen, Status};
use crate::door::{Class, Door};
use crate::globe::Globe;
use crate::idempotency::IdempotencyCounts;
use crate::log::watch::Sight;
use crate::log::{Log, panics};
use crate::region::Region;

use calls::{CallsSeen, Operation};
pub(crate) use calls::{StoreCalls, Watched};
use histogram::Spread;
pub(crate) use histogram::{Histogram, REQUEST_BOUNDS};
pub(crate) use process::{COMMIT, FEATURES};
pub(crate) use skew::Skew;
use skew::SkewSeen;
pub(crate) use text::TEXT_FORMAT;
use text::render;
use workspaces::WorkspaceSeen;
pub(crate) use workspaces::Workspaces;

/// What the metrics are read from.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) door: Arc<Door>,
    pub(crate) watch: Watch,
    pub(crate) budget_bytes: usize,
    pub(crate) started_unix_ms: u64,
    pub(crate) config: Arc<Status>,
    pub(crate) log: Log,
    pub(crate) region: Option<Region>,
    pub(crate) globe: Option<Globe>,
}

impl Metrics {
    /// Everything, as it is now.
    pub(crate) fn text(&self) -> String {
        render(&gather::all(&self.seen()))
    }

    /// What the log looks at.
    pub(crate) fn sight(&self) -> Sight {
        let limiter = self.door.limiter();
        Sight {
            counts: limiter.counts(),
            region: limiter.region_counts(),
            globe: limiter.globe_counts(),
            subjects: count(limiter.subjects()),
            connections: count(self.watch.open()),
            connections_max: u64::from(self.watch.limits().connections_max),
        }
    }

    fn stores(&self) -> Vec<StoreSeen> {
        let calls = |calls: &StoreCalls, operations: &[Operation]| {
            operations.iter().map(|operation| (*operation, calls.seen(*operation))).collect()
        };
        let region = self.region.as_ref().map(|region| StoreSeen {
            name: "region",
            calls: calls(region.calls(), &Operation::OF_REGION),
            skew: Some(region.skew().seen()),
        });
        let globe = self.globe.as_ref().map(|globe| StoreSeen {
            name: "globe",
            calls: calls(globe.calls(), &Operation::OF_GLOBE),
            skew: (!globe.database().is_file()).then(|| globe.skew().seen()),
        });
        region.into_iter().chain(globe).collect()
    }

    fn seen(&self) -> Seen {
        let (limiter, settings) = (self.door.limiter(), self.door.settings());
        Seen {
            counts: limiter.counts(),
            region: limiter.region_counts(),
            globe: limiter.globe_counts(),
            subjects: count(limiter.subjects()),
            subjects_max: count(limiter.subjects_max()),
            accounted_bytes: count(limiter.accounted_bytes()),
            budget_bytes: count(self.budget_bytes),
            connections: count(self.watch.open()),
            connections_max: u64::from(self.watch.limits().connections_max),
            per_address_max: u64::from(self.watch.limits().per_address_max),
            retiring: self.watch.is_retiring(),
            tally: self.watch.tally(),
            refused: self.door.noted().refused().collect(),
            requests: Class::ALL
                .map(|(class, word)| (word, self.door.noted().of(class).read()))
                .into(),
            workspaces: self.door.noted().workspaces().map(Workspaces::seen),
            stores: self.stores(),
            settings,
            idempotency: self.door.idempotency_counts(),
            started_unix_ms: self.started_unix_ms,
            log_dropped: self.log.dropped(),
            panics: panics::count(),
            config: self.config.seen(),
        }
    }
}

/// One look at everything.
#[derive(Clone, Debug, Default)]
struct Seen {
    counts: Counts,
    /// Absent for a process on its own.
    region: Option<RegionCounts>,
    globe: Option<GlobeCounts>,
    subjects: u64,
    subjects_max: u64,
    accounted_bytes: u64,
    budget_bytes: u64,
    connections: u64,
    connections_max: u64,
    per_address_max: u64,
    retiring: bool,
    tally: TallySeen,
    /// By status.
    refused: Vec<(&'static str, u64)>,
    /// How long they took, by class.
    requests: Vec<(&'static str, Spread)>,
    /// Absent unless they are asked for.
    workspaces: Option<Vec<WorkspaceSeen>>,
    stores: Vec<StoreSeen>,
    panics: u64,
    settings: Settings,
    idempotency: IdempotencyCounts,
    started_unix_ms: u64,
    log_dropped: u64,
    config: ConfigSeen,
}

/// One look at a store.
#[derive(Clone, Debug)]
struct StoreSeen {
    name: &'static str,
    calls: Vec<(Operation, CallsSeen)>,
    /// Absent for a file, whose clock is ours.
    skew: Option<SkewSeen>,
}

/// What is known of keys, namespaces and overrides.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) workspaces: usize,
    pub(crate) keys: usize,
    pub(crate) namespaces: usize,
    pub(crate) overrides: usize,
    /// The last revision of which everything is known.
    pub(crate) revision: u64,
    /// How long ago the store was last read; absent if it never was.
    pub(crate) age_ms: Option<u64>,
}

/// A metric with all of its series.
#[derive(Debug)]
struct Family {
    name: &'static str,
    kind: Kind,
    /// One sentence.
    help: &'static str,
    /// What the reference calls it; empty if it has none.
    reference: &'static str,
    series: Vec<Series>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The name and the value of a label: only what is written in this program.
type Label = (&'static str, &'static str);

#[derive(Debug)]
struct Series {
    labels: Vec<Label>,
    /// Whose it is, if it is one workspace's.
    workspace: Option<String>,
    value: Value,
}

/// A value, in base units.
#[derive(Clone, Debug)]
enum Value {
    Whole(u64),
    /// Milliseconds, which are written as seconds.
    Millis(u64),
    /// Microseconds, which are written as seconds, and may be less than 0.
    Micros(i64),
    Spread(Spread),
}

impl Family {
    const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, kind, help, reference: "", series: Vec::new() }
    }

    /// What the reference calls it.
    const fn like(mut self, reference: &'static str) -> Self {
        self.reference = reference;
        self
    }

    fn with(mut self, labels: &[Label], value: Value) -> Self {
        self.series.push(Series { labels: labels.to_vec(), workspace: None, value });
        self
    }

    fn at(self, labels: &[Label], value: u64) -> Self {
        self.with(labels, Value::Whole(value))
    }

    /// The same, of one workspace.
    fn of(mut self, workspace: &str, labels: &[Label], value: u64) -> Self {
        let (labels, workspace) = (labels.to_vec(), Some(workspace.to_owned()));
        self.series.push(Series { labels, workspace, value: Value::Whole(value) });
        self
    }

    fn is(self, value: u64) -> Self {
        self.at(&[], value)
    }

    fn millis(self, ms: u64) -> Self {
        self.with(&[], Value::Millis(ms))
    }
}

/// Something that only grows.
const fn counter(name: &'static str, help: &'static str) -> Family {
    Family::new(name, Kind::Counter, help)
}

/// Something that rises and falls.
const fn gauge(name: &'static str, help: &'static str) -> Family {
    Family::new(name, Kind::Gauge, help)
}

/// How something is spread.
const fn histogram(name: &'static str, help: &'static str) -> Family {
    Family::new(name, Kind::Histogram, help)
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
