//! How much more than its limit a cell admits when nothing is broken: the production code beside
//! the reference's rule, on the same requests and the same network.

mod ours;
mod reference;

use std::fmt::Write as _;

use tidegate_limiter::Consistency;

use crate::chance::Chance;

/// The window of every cell.
const WINDOW_MS: u64 = 60_000;
/// One way through the network, in microseconds: at least and at most.
const LATENCY_US: (u64, u64) = (200, 3_000);
/// Cells that are simulated together.
const GROUP: u64 = 50;
/// How long a burst lasts.
const BURST_US: u64 = 50_000;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Load {
    /// Twice the limit, spread over the window.
    Steady,
    /// Four times the limit, at all nodes within a moment.
    Burst,
}

/// A request of cost 1: when, at which node, to which cell.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    at_us: u64,
    node: usize,
    cell: usize,
}

/// One comparison.
#[derive(Clone, Copy, Debug)]
struct Setting {
    nodes: usize,
    limit: u64,
    load: Load,
    consistency: Consistency,
}

/// What was admitted to each cell, and how often the store was asked.
#[derive(Clone, Debug, Default)]
struct Admitted {
    cells: Vec<u64>,
    operations: u64,
    requests: u64,
}

impl Admitted {
    fn add(&mut self, other: Self) {
        self.cells.extend(other.cells);
        self.operations += other.operations;
        self.requests += other.requests;
    }

    /// The share of the limit in thousandths, at the middle, at 99 of 100, and at the worst cell.
    fn shares(&mut self, limit: u64) -> [u64; 3] {
        self.cells.sort_unstable();
        let last = self.cells.len().saturating_sub(1);
        let at = |place: usize| self.cells.get(place).map_or(0, |cell| cell * 1_000 / limit);
        [at(last / 2), at(last * 99 / 100), at(last)]
    }

    #[expect(clippy::cast_precision_loss, reason = "for a human")]
    fn operations_each(&self) -> f64 {
        self.operations as f64 / self.requests.max(1) as f64
    }
}

/// Measures both rules over so many cells each. Returns a table, and whether ours is no worse for
/// steady traffic.
#[must_use]
pub fn overshoot(cells: u64) -> (String, bool) {
    let mut text = format!(
        "admitted / limit over {cells} cells: p50, p99, worst (store operations per request)\n\
         {:>6} {:>6}  {:<7} {:<28} {:<28} {:<28}\n",
        "nodes", "limit", "load", "bounded", "fast", "reference"
    );
    let mut held = true;
    for load in [Load::Steady, Load::Burst] {
        for nodes in [1, 3, 5, 9] {
            for limit in [10, 100, 1_000] {
                let consistency = Consistency::Fast;
                let setting = Setting { nodes, limit, load, consistency };
                let (ours, reference) = compare(setting, cells, &mut text);
                let [_, p99, worst] = ours;
                let [_, reference_p99, reference_worst] = reference;
                if load == Load::Steady && (p99 > reference_p99 || worst > reference_worst) {
                    held = false;
                    text.push_str("       worse than the reference\n");
                }
            }
        }
    }
    (text, held)
}

fn compare(setting: Setting, cells: u64, text: &mut String) -> ([u64; 3], [u64; 3]) {
    let (mut ours, mut reference) = (Admitted::default(), Admitted::default());
    let mut bounded = Admitted::default();
    let sure = Setting { consistency: Consistency::Bounded, ..setting };
    for group in 0..cells.div_ceil(GROUP) {
        let size = GROUP.min(cells - group * GROUP);
        let arrivals = arrivals(setting, group, size);
        ours.add(ours::run(setting, group, &arrivals));
        bounded.add(ours::run(sure, group, &arrivals));
        reference.add(reference::run(setting, group, &arrivals));
    }
    let Setting { nodes, limit, load, .. } = setting;
    let sure = bounded.shares(limit);
    let shares = (ours.shares(limit), reference.shares(limit));
    let row = |[p50, p99, worst]: [u64; 3], operations: f64| {
        let part = |permille: u64| format!("{}.{:03}", permille / 1_000, permille % 1_000);
        format!("{} {} {} ({operations:.2})", part(p50), part(p99), part(worst))
    };
    let _ = writeln!(
        text,
        "{nodes:>6} {limit:>6}  {:<7} {:<28} {:<28} {:<28}",
        format!("{load:?}").to_lowercase(),
        row(sure, bounded.operations_each()),
        row(shares.0, ours.operations_each()),
        row(shares.1, reference.operations_each()),
    );
    shares
}

/// The same requests for both rules, in the order in which they come.
fn arrivals(setting: Setting, group: u64, cells: u64) -> Vec<Arrival> {
    let mut chance = Chance::new(group ^ (setting.limit << 20), "arrivals");
    let mut all = Vec::new();
    for cell in 0..usize::try_from(cells).unwrap_or(0) {
        let (from_us, for_us, requests) = match setting.load {
            Load::Steady => (1_000_000, (WINDOW_MS - 2_000) * 1_000, 2 * setting.limit),
            Load::Burst => (chance.between(1_000_000, 50_000_000), BURST_US, 4 * setting.limit),
        };
        for _ in 0..requests {
            let at_us = from_us + chance.below(for_us);
            all.push(Arrival { at_us, node: chance.index(setting.nodes), cell });
        }
    }
    all.sort_by_key(|arrival| arrival.at_us);
    all
}
