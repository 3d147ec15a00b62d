//! How much more than its limit a cell admits when nothing is broken: the production code beside
//! the reference's rule, on the same requests and the same network.

mod arrivals;
mod grid;
mod ours;
mod reference;

use std::fmt::Write as _;

use tidegate_limiter::Consistency;

pub(crate) use grid::RULES;
pub use grid::overshoot_grid;

use arrivals::{Arrival, arrivals};

/// The window of every cell of the table.
const WINDOW_MS: u64 = 60_000;
/// One way through the network of the table, in microseconds: at least and at most.
const LATENCY_US: (u64, u64) = (200, 3_000);
/// Subjects that are simulated together.
const GROUP: u64 = 50;
/// How long a burst of the table lasts.
const BURST_US: u64 = 50_000;

/// How requests come to a subject in each of its windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Traffic {
    /// One after the other, spread over the window.
    Sequential,
    /// At all nodes within a moment, when the window begins.
    Boundary,
    /// The same, somewhere in the window.
    Phase,
}

impl Traffic {
    const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Boundary => "burst at the boundary",
            Self::Phase => "burst at a random phase",
        }
    }
}

/// One comparison.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) nodes: usize,
    pub(crate) limit: u64,
    pub(crate) traffic: Traffic,
    /// Requests of a window by the limit, in hundredths.
    pub(crate) load_percent: u64,
    pub(crate) window_ms: u64,
    /// Windows of a subject, one after the other.
    pub(crate) windows: u64,
    /// How long a burst lasts.
    pub(crate) burst_us: u64,
    /// One way through the network: at least and at most.
    pub(crate) latency_us: (u64, u64),
}

/// What was admitted to each cell, and how often the store was asked.
#[derive(Clone, Debug, Default)]
struct Admitted {
    cells: Vec<u64>,
    operations: u64,
    requests: u64,
}

impl Admitted {
    fn of(setting: Setting, arrivals: &[Arrival]) -> Self {
        let subjects = subjects(arrivals) as u64;
        let cells = usize::try_from(subjects * setting.windows).unwrap_or(0);
        Self { cells: vec![0; cells], operations: 0, requests: arrivals.len() as u64 }
    }

    /// One more in a window of a subject.
    fn count(&mut self, setting: Setting, subject: usize, sequence: u64) {
        let window = sequence.checked_sub(setting.first_sequence());
        let Some(window) = window.filter(|window| *window < setting.windows) else { return };
        let place = subject as u64 * setting.windows + window;
        let cell = usize::try_from(place).ok().and_then(|place| self.cells.get_mut(place));
        if let Some(cell) = cell {
            *cell += 1;
        }
    }

    fn add(&mut self, other: Self) {
        self.cells.extend(other.cells);
        self.operations += other.operations;
        self.requests += other.requests;
    }

    /// The share of the limit in thousandths of each cell, the least first.
    fn shares(&self, limit: u64) -> Vec<u64> {
        let mut shares: Vec<u64> = self.cells.iter().map(|cell| cell * 1_000 / limit).collect();
        shares.sort_unstable();
        shares
    }

    #[expect(clippy::cast_precision_loss, reason = "for a human")]
    fn operations_each(&self) -> f64 {
        self.operations as f64 / self.requests.max(1) as f64
    }
}

/// How many subjects the requests are for.
fn subjects(arrivals: &[Arrival]) -> usize {
    arrivals.iter().map(|arrival| arrival.subject + 1).max().unwrap_or(0)
}

/// At the middle, at 99 of 100, and the worst.
pub(crate) fn spread(sorted: &[u64]) -> [u64; 3] {
    let last = sorted.len().saturating_sub(1);
    let at = |place: usize| sorted.get(place).copied().unwrap_or(0);
    [at(last / 2), at((sorted.len() * 99).div_ceil(100).saturating_sub(1)), at(last)]
}

/// Thousandths as a number.
pub(crate) fn part(permille: u64) -> String {
    format!("{}.{:03}", permille / 1_000, permille % 1_000)
}

/// What the three rules admit under the same requests: bounded, fast, and the reference's.
fn contest(setting: Setting, group: u64, subjects: u64) -> [Admitted; 3] {
    let arrivals = arrivals(setting, group, subjects);
    [
        ours::run(setting, Consistency::Bounded, group, &arrivals),
        ours::run(setting, Consistency::Fast, group, &arrivals),
        reference::run(setting, group, &arrivals),
    ]
}

/// Measures the rules over so many cells each. Returns a table, and whether the fast rule is no
/// worse than the reference for sequential traffic.
#[must_use]
pub fn overshoot(cells: u64) -> (String, bool) {
    let mut text = format!(
        "admitted / limit over {cells} cells: p50, p99, worst (store operations per request)\n\
         {:>6} {:>6}  {:<24} {:<28} {:<28} {:<28}\n",
        "nodes", "limit", "load", "bounded", "fast", "reference"
    );
    let mut held = true;
    for (traffic, load_percent) in [(Traffic::Sequential, 200), (Traffic::Phase, 400)] {
        for nodes in [1, 3, 5, 9] {
            for limit in [10, 100, 1_000] {
                let (window_ms, windows, latency_us) = (WINDOW_MS, 1, LATENCY_US);
                let setting = Setting {
                    nodes,
                    limit,
                    traffic,
                    load_percent,
                    window_ms,
                    windows,
                    burst_us: BURST_US,
                    latency_us,
                };
                let [_, ours, reference] = compare(setting, cells, &mut text);
                let ([_, p99, worst], [_, reference_p99, reference_worst]) = (ours, reference);
                let worse = p99 > reference_p99 || worst > reference_worst;
                if traffic == Traffic::Sequential && worse {
                    held = false;
                    text.push_str("       worse than the reference\n");
                }
            }
        }
    }
    (text, held)
}

/// The spread of each rule over so many cells, and its store operations for a request.
pub(crate) fn measure(setting: Setting, cells: u64) -> [([u64; 3], f64); 3] {
    run(setting, cells)
        .map(|admitted| (spread(&admitted.shares(setting.limit)), admitted.operations_each()))
}

fn run(setting: Setting, cells: u64) -> [Admitted; 3] {
    let mut all = [const { Admitted { cells: Vec::new(), operations: 0, requests: 0 } }; 3];
    for group in 0..cells.div_ceil(GROUP) {
        let subjects = GROUP.min(cells - group * GROUP);
        for (all, one) in all.iter_mut().zip(contest(setting, group, subjects)) {
            all.add(one);
        }
    }
    all
}

fn compare(setting: Setting, cells: u64, text: &mut String) -> [[u64; 3]; 3] {
    let all = run(setting, cells);
    let Setting { nodes, limit, traffic, .. } = setting;
    let spreads = all.each_ref().map(|admitted| spread(&admitted.shares(limit)));
    let _ = write!(text, "{nodes:>6} {limit:>6}  {:<24}", traffic.name());
    for ([p50, p99, worst], admitted) in spreads.iter().zip(&all) {
        let row = format!(
            "{} {} {} ({:.2})",
            part(*p50),
            part(*p99),
            part(*worst),
            admitted.operations_each()
        );
        let _ = write!(text, " {row:<28}");
    }
    text.push('\n');
    spreads
}
