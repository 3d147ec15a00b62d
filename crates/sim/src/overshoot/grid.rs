//! The rules over all configurations by which their constants were chosen: three limits, four
//! sizes of a fleet, four loads, three windows and three kinds of traffic.

use std::fmt::Write as _;

use super::{Admitted, Setting, Traffic, contest, part, spread};

const LIMITS: [u64; 3] = [10, 100, 1_000];
const NODES: [usize; 4] = [1, 3, 5, 9];
const LOADS_PERCENT: [u64; 4] = [90, 100, 200, 600];
const WINDOWS_MS: [u64; 3] = [10_000, 60_000, 300_000];
/// Within the time of a few round trips, so that a burst is over before anybody has heard of it.
const BURST_US: u64 = 5_000;
/// A round trip takes a millisecond, more or less: a store in the same data centre.
const LATENCY_US: (u64, u64) = (400, 600);
/// Windows of a subject: consecutive ones, because a full window weighs on the next.
const WINDOWS: u64 = 20;
/// What the bounded rule promises, in thousandths of the limit: at 99 of 100 cells...
const P99_PERMILLE: u64 = 1_020;
/// ...and in the worst.
const WORST_PERMILLE: u64 = 1_100;

/// The rules in the order of [`contest`].
pub(crate) const RULES: [&str; 3] = ["bounded", "fast", "reference"];

/// What one rule came to.
#[derive(Debug, Default)]
struct Total {
    shares: Vec<u64>,
    operations: u64,
    requests: u64,
    /// The worst cell and its configuration.
    worst: (u64, String),
}

impl Total {
    fn add(&mut self, setting: Setting, admitted: &Admitted) {
        let shares = admitted.shares(setting.limit);
        let worst = shares.last().copied().unwrap_or(0);
        if worst > self.worst.0 {
            self.worst = (worst, name(setting));
        }
        self.shares.extend(shares);
        self.operations += admitted.operations;
        self.requests += admitted.requests;
    }

    fn describe(&mut self, text: &mut String, traffic: &str, rule: &str) -> [u64; 3] {
        self.shares.sort_unstable();
        let [p50, p99, worst] = spread(&self.shares);
        #[expect(clippy::cast_precision_loss, reason = "for a human")]
        let operations = self.operations as f64 / self.requests.max(1) as f64;
        let _ = writeln!(
            text,
            "{traffic:<24} {rule:<10} {:>7} {:>6} {:>6} {:>6} {operations:>10.3}  {}",
            self.shares.len(),
            part(p50),
            part(p99),
            part(worst),
            self.worst.1
        );
        [p50, p99, worst]
    }
}

fn name(setting: Setting) -> String {
    let Setting { nodes, limit, load_percent, window_ms, .. } = setting;
    let seconds = window_ms / 1_000;
    format!("{nodes} nodes, limit {limit}, load {load_percent} %, window {seconds} s")
}

/// Measures all configurations over about so many cells each. Returns a table, and whether the
/// bounded rule keeps its promise and takes no more operations than the reference.
#[must_use]
pub fn overshoot_grid(cells: u64) -> (String, bool) {
    let mut text = format!(
        "{:<24} {:<10} {:>7} {:>6} {:>6} {:>6} {:>10}  worst configuration\n",
        "traffic", "rule", "cells", "p50", "p99", "worst", "operations"
    );
    let (mut held, mut dearer) = (true, Vec::new());
    for traffic in [Traffic::Sequential, Traffic::Boundary, Traffic::Phase] {
        let mut totals: [Total; 3] = Default::default();
        for setting in settings(traffic) {
            let ran = run(setting, cells);
            let [bounded, _, reference] = &ran;
            if bounded.operations_each() > reference.operations_each() {
                let (ours, theirs) = (bounded.operations_each(), reference.operations_each());
                let line =
                    format!("{}: {}: {ours:.3} > {theirs:.3}", traffic.name(), name(setting));
                dearer.push(line);
            }
            totals.iter_mut().zip(&ran).for_each(|(total, ran)| total.add(setting, ran));
        }
        let mut spreads = [[0; 3]; 3];
        for ((total, rule), spread) in totals.iter_mut().zip(RULES).zip(&mut spreads) {
            *spread = total.describe(&mut text, traffic.name(), rule);
        }
        let ([[_, p99, worst], ..], [bounded, _, reference]) = (spreads, &totals);
        held &= p99 <= P99_PERMILLE && worst <= WORST_PERMILLE;
        held &= bounded.operations <= reference.operations;
    }
    let _ = writeln!(
        text,
        "bounded takes more operations than the reference in {} of {} configurations",
        dearer.len(),
        settings(Traffic::Phase).count() * 3
    );
    dearer.iter().for_each(|line| {
        let _ = writeln!(text, "  {line}");
    });
    (text, held)
}

fn settings(traffic: Traffic) -> impl Iterator<Item = Setting> {
    let loads = LOADS_PERCENT.into_iter();
    let all = loads.flat_map(|load| WINDOWS_MS.map(|window_ms| (load, window_ms)));
    let all = all.flat_map(|(load, window_ms)| NODES.map(|nodes| (load, window_ms, nodes)));
    all.flat_map(move |(load_percent, window_ms, nodes)| {
        LIMITS.map(|limit| Setting {
            nodes,
            limit,
            traffic,
            load_percent,
            window_ms,
            windows: WINDOWS,
            burst_us: BURST_US,
            latency_us: LATENCY_US,
        })
    })
}

/// A subject at a time: what one does, another does not feel.
fn run(setting: Setting, cells: u64) -> [Admitted; 3] {
    let mut all: [Admitted; 3] = Default::default();
    for group in 0..cells.div_ceil(WINDOWS) {
        for (all, one) in all.iter_mut().zip(contest(setting, group, 1)) {
            all.add(one);
        }
    }
    all
}
