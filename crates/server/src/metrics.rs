//! What happened and how things stand, as Prometheus reads it.
//!
//! Promises: every count of the limiter, of the conversation with the region and of that with other
//! regions; the same series from the first scrape to the last. A scrape asks no store and waits for
//! nobody.
//! Refuses: labels that are not written in this program. They are `&'static str`, so a name that a
//! caller chose cannot become one, and callers cannot make series.
//! `docs/metrics.md` lists them all; a test keeps it so.

mod gather;
mod process;
#[cfg(test)]
mod tests;
mod text;

use std::sync::Arc;

use tidegate::{Clock, Counts, GlobeCounts, RegionCounts};

use crate::accept::Watch;
use crate::door::Door;
use crate::idempotency::IdempotencyCounts;
use crate::log::watch::Sight;
use crate::log::{Log, panics};

pub(crate) use process::{COMMIT, FEATURES};
pub(crate) use text::TEXT_FORMAT;
use text::render;

/// What the metrics are read from.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) door: Arc<Door>,
    pub(crate) watch: Watch,
    pub(crate) budget_bytes: usize,
    pub(crate) started_unix_ms: u64,
    pub(crate) log: Log,
}

impl Metrics {
    pub(crate) fn new(door: Arc<Door>, watch: Watch, budget: usize, clock: &dyn Clock) -> Self {
        let started_unix_ms = clock.now().unix_ms();
        Self { door, watch, budget_bytes: budget, started_unix_ms, log: Log::off() }
    }

    /// Where the server says what happens.
    pub(crate) fn telling(self, log: Log) -> Self {
        Self { log, ..self }
    }

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
            refused: self.door.refused(),
            settings,
            idempotency: self.door.idempotency_counts(),
            started_unix_ms: self.started_unix_ms,
            log_dropped: self.log.dropped(),
            panics: panics::count(),
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
    refused: u64,
    settings: Settings,
    idempotency: IdempotencyCounts,
    started_unix_ms: u64,
    log_dropped: u64,
    panics: u64,
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
}

/// Names and values of labels: only what is written in this program.
type Labels = &'static [(&'static str, &'static str)];

#[derive(Debug)]
struct Series {
    labels: Labels,
    value: Value,
}

/// A value, in base units.
#[derive(Clone, Copy, Debug)]
enum Value {
    Whole(u64),
    /// Milliseconds, which are written as seconds.
    Millis(u64),
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

    fn at(mut self, labels: Labels, value: u64) -> Self {
        self.series.push(Series { labels, value: Value::Whole(value) });
        self
    }

    fn is(self, value: u64) -> Self {
        self.at(&[], value)
    }

    fn millis(mut self, ms: u64) -> Self {
        self.series.push(Series { labels: &[], value: Value::Millis(ms) });
        self
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

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
