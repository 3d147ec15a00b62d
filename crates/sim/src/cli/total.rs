//! What happened over all runs.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use tidegate_sim::{Cause, Coverage, Fault, Faults, Options, Report};

/// What happened over all runs.
#[derive(Debug, Default)]
pub(crate) struct Total {
    /// How many events each run had.
    events: Vec<u64>,
    failed: u64,
    vacuous: u64,
    /// Runs in which a fault that was on never struck.
    idle: BTreeMap<Fault, u64>,
    whole_ms: u64,
    faults: Coverage,
    lost: BTreeMap<Cause, u64>,
    admitted: u64,
    denied: u64,
    degraded: u64,
    global: u64,
    published: u64,
    trims: u64,
    settled_ms: u64,
    unheeded: u64,
    /// Requests denied because the region could not be asked, and their cost that is charged.
    outages: (u64, u64),
    bounded: Bounded,
    /// The largest share of its limit that was admitted to a cell of each run, in thousandths:
    /// where nothing was wrong, and where faults were on.
    worst_permille: [Vec<u64>; 2],
    /// Cells of which the feed misses what nobody tells again, and the most of one in thousandths
    /// of its limit.
    excused: BTreeMap<String, (u64, u64)>,
}

/// What became of bounded requests.
#[derive(Debug, Default)]
struct Bounded {
    seeds: u64,
    asks: u64,
    declined: u64,
    unheard: u64,
    reserved: u64,
    unanswered: u64,
    regranted: u64,
    worst_permille: u64,
}

impl Bounded {
    fn add(&mut self, report: &Report) {
        self.seeds += u64::from(report.asks > 0);
        self.asks += report.asks;
        self.declined += report.declined;
        self.unheard += report.unheard;
        self.reserved += report.reserved;
        self.unanswered += report.unanswered;
        self.regranted += report.regranted;
        self.worst_permille = self.worst_permille.max(report.bounded_permille);
    }
}

impl Total {
    pub(crate) fn add(&mut self, options: &Options, report: &Report, differs: bool) {
        self.events.push(report.events);
        self.failed += u64::from(differs || report.broken.is_some());
        self.vacuous += u64::from(report.is_vacuous());
        for fault in options.faults.iter().filter(|fault| report.faults.struck(*fault) == 0) {
            *self.idle.entry(fault).or_default() += 1;
        }
        self.whole_ms = self.whole_ms.max(report.whole_ms);
        self.faults.add(&report.faults);
        for (cause, count) in &report.lost {
            *self.lost.entry(*cause).or_default() += count;
        }
        self.admitted += report.admitted;
        self.denied += report.denied;
        self.degraded += report.degraded;
        self.global += u64::from(report.global);
        self.published += report.published;
        self.trims += report.trims;
        self.unheeded += report.unheeded;
        self.outages.0 += report.outages;
        self.outages.1 += report.charged;
        self.bounded.add(report);
        let [calm, struck] = &mut self.worst_permille;
        let worst = if options.faults == Faults::default() { calm } else { struck };
        worst.push(report.worst_permille);
        for excused in &report.excused {
            let (cells, most) = self.excused.entry(format!("{:?}", excused.why)).or_default();
            (*cells, *most) = (*cells + 1, (*most).max(excused.permille));
        }
        self.settled_ms = self.settled_ms.max(report.settled_ms);
    }

    pub(crate) const fn seeds(&self) -> u64 {
        self.events.len() as u64
    }

    /// Nothing was broken, and most runs exercised something.
    pub(crate) const fn holds(&self) -> bool {
        self.failed == 0 && self.vacuous * 10 <= self.seeds()
    }

    pub(crate) const fn coverage(&self) -> &Coverage {
        &self.faults
    }

    /// How far it is.
    pub(crate) fn progress(&self, took: Duration, left: Option<Duration>) -> String {
        let (seeds, failed) = (self.seeds(), self.failed);
        let rest = left.map(|left| format!(", {} s left", left.as_secs())).unwrap_or_default();
        format!("{seeds} seeds, {failed} failed, {:.0} seeds/s{rest}", per_second(seeds, took))
    }

    /// Prints everything.
    pub(crate) fn conclude(&mut self, took: Duration) {
        let (seeds, all, seconds) = (self.seeds(), self.events.iter().sum(), took.as_secs_f64());
        let (seeds_s, events_s) = (per_second(seeds, took), per_second(all, took));
        println!("{seeds} seeds in {seconds:.1} s: {seeds_s:.0} seeds/s, {events_s:.0} events/s");
        self.events.sort_unstable();
        self.worst_permille.iter_mut().for_each(|each| each.sort_unstable());
        let median = self.events.get(self.events.len() / 2).copied().unwrap_or(0);
        let whole_ms = self.whole_ms;
        println!("median {median} events a seed; whole again within {whole_ms} ms after faults");
        print!("{self}");
        // Some runs deny nothing, or compare no view: they are not counted as evidence.
        println!("{} vacuous, {} failed", self.vacuous, self.failed);
    }
}

#[expect(clippy::cast_precision_loss, reason = "for a human")]
fn per_second(count: u64, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64().max(0.001)
}

/// At the middle, at 99 of 100, and the worst, of thousandths.
fn spread(sorted: &[u64]) -> String {
    let last = sorted.len().saturating_sub(1);
    let places = [last / 2, (sorted.len() * 99).div_ceil(100).saturating_sub(1), last];
    let [p50, p99, worst] = places.map(|place| {
        let permille = sorted.get(place).copied().unwrap_or(0);
        format!("{}.{:03}", permille / 1_000, permille % 1_000)
    });
    format!("p50 {p50}, p99 {p99}, worst {worst} over {} runs", sorted.len())
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { admitted, denied, degraded, .. } = self;
        writeln!(f, "{admitted} admitted, {denied} denied, {degraded} degraded")?;
        let (outages, charged) = self.outages;
        writeln!(f, "{outages} denied unasked, and {charged} charged for them")?;
        let Self { global, published, trims, settled_ms, .. } = self;
        writeln!(f, "{global} with several regions: {published} rows published, {trims} trims")?;
        writeln!(f, "{} admissions before a new window had heard of others", self.unheeded)?;
        writeln!(f, "regions knew of each other within {settled_ms} ms after faults")?;
        let Bounded { seeds, asks, declined, unheard, .. } = self.bounded;
        writeln!(f, "{seeds} with asks: {asks}, {declined} declined, {unheard} callers unheard")?;
        let Bounded { reserved, unanswered, regranted, worst_permille, .. } = self.bounded;
        writeln!(
            f,
            "{reserved} denied by reservations, worst bounded cell {worst_permille} permille"
        )?;
        writeln!(f, "granted to the dead: {unanswered}; by a store that forgot: {regranted}")?;
        let [calm, struck] = self.worst_permille.each_ref().map(|each| spread(each));
        writeln!(f, "limits admitted to the fullest cell without faults: {calm}")?;
        writeln!(f, "limits admitted to the fullest cell under faults: {struck}")?;
        writeln!(f, "cells that the feed misses, and thousandths of a limit: {:?}", self.excused)?;
        writeln!(f, "faults: {:?}", self.faults)?;
        writeln!(f, "runs in which a fault was on and never struck: {:?}", self.idle)?;
        writeln!(f, "cost lost, by cause: {:?}", self.lost)
    }
}
