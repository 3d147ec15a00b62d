//! How much all regions admit together, while nothing is broken: the whole world of the simulator,
//! judged by all its oracles.

use std::fmt::Write as _;

use tidegate_convergence::{GlobeTuning, Rule, Tuning};

use super::plot::{Cloud, Line, Plot};
use super::{Block, Picture, Promises};
use crate::fault::Faults;
use crate::options::{Kind, Options, Traffic};
use crate::overshoot::{part, spread};
use crate::shape::Shape;
use crate::world::World;

/// How many regions.
const REGIONS: [usize; 5] = [1, 2, 3, 5, 10];
/// The window of all limits, how long a run lasts, and how many subjects it has.
pub(super) const WINDOW_MS: u64 = 60_000;
const LASTS_MS: u64 = 200_000;
const SUBJECTS: u64 = 4;
/// Cells of one run that count: whole windows, after the first.
const CELLS: u64 = 2 * SUBJECTS;
/// A cell that was not used this far, in thousandths, says nothing about exceeding it.
const CONTENDED_PERMILLE: u64 = 950;

/// P-5, in thousandths of the limit: a quarter of it may be hidden while nobody has heard of a
/// subject, and a twentieth where several regions are...
const WORST_PERMILLE: u64 = 1_300;

/// ...and one request of each region, because it cannot tell of a part of one.
pub(super) const fn worst_permille(regions: u64, limit: u64) -> u64 {
    let limit = if limit == 0 { 1 } else { limit };
    WORST_PERMILLE + (regions * 1_000).div_ceil(limit)
}

/// What is measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) regions: usize,
    /// Processes of each.
    pub(super) nodes: usize,
    pub(super) limit: u64,
    /// Requests of a window by the limit, in hundredths.
    pub(super) load_percent: u64,
    pub(super) traffic: Traffic,
    pub(super) bounded: bool,
    pub(super) tuning: Tuning,
    pub(super) globe: GlobeTuning,
}

impl Setting {
    /// Three regions of two processes each and twice the limit, by what is shipped.
    pub(super) fn usual() -> Self {
        Self {
            regions: 3,
            nodes: 2,
            limit: 100,
            load_percent: 200,
            traffic: Traffic::Steady,
            bounded: true,
            tuning: Tuning::default(),
            globe: GlobeTuning::default(),
        }
    }
}

/// What it came to.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// Thousandths of the limit, of cells that were used up; the least first.
    pub(super) shares: Vec<u64>,
    rows: u64,
    runs: u64,
    pub(super) broken: Option<String>,
}

impl Seen {
    /// Rows written in a minute, for each subject, in thousandths.
    pub(super) fn rows_permille(&self) -> u64 {
        let minutes_permille = self.runs * SUBJECTS * LASTS_MS / 60;
        (self.rows * 1_000_000).checked_div(minutes_permille).unwrap_or(0)
    }
}

fn options(setting: Setting, seed: u64) -> Options {
    let Setting { regions, nodes, limit, load_percent, traffic, bounded, tuning, globe } = setting;
    let bounded_percent = if bounded { 100 } else { 0 };
    let kind = Kind { window_ms: WINDOW_MS, limit, bounded_percent };
    let requests = limit * load_percent * SUBJECTS * LASTS_MS / WINDOW_MS / 100;
    Options {
        shape: Shape::dealt(regions, regions * nodes),
        regions_max: u16::try_from(regions.max(2)).unwrap_or(2),
        private: false,
        globe,
        shards: 1,
        kinds: vec![kind; usize::try_from(SUBJECTS).unwrap_or(1)],
        requests,
        safety_ms: LASTS_MS,
        traffic,
        batch_percent: 0,
        second_limit_percent: 0,
        bounded_percent,
        latency_us: (200, 3_000),
        table_bytes: 1 << 18,
        tuning,
        late_readings: false,
        plain: true,
        faults: Faults::default(),
        ..Options::of(seed)
    }
}

pub(super) fn measure(setting: Setting, cells: u64) -> Seen {
    let mut seen = Seen::default();
    for seed in 0..cells.div_ceil(CELLS) {
        let (report, cells) = World::new(options(setting, seed)).run_cells();
        let whole = cells.iter().map(|((_, sequence), _)| *sequence).min().unwrap_or(0) + 1;
        let shares = cells.iter().filter(|((_, at), _)| *at >= whole && *at < whole + 2);
        let shares = shares.map(|(_, total)| total * 1_000 / setting.limit);
        seen.shares.extend(shares.filter(|share| *share >= CONTENDED_PERMILLE));
        seen.rows += report.published;
        seen.runs += 1;
        seen.broken = seen.broken.or_else(|| report.broken.map(|broken| broken.to_string()));
    }
    seen.shares.sort_unstable();
    seen
}

/// How requests come, for the table.
const TRAFFIC: [(Traffic, &str); 4] = [
    (Traffic::Steady, "steady, twice the limit"),
    (Traffic::Burst, "bursts, twice the limit"),
    (Traffic::Resting, "resting, twice the limit"),
    (Traffic::Hopping, "hopping, twice the limit"),
];

/// The limits of the table: one that is small for many regions, and larger ones.
const LIMITS: [u64; 3] = [10, 100, 1_000];

/// Tables and plots.
pub(super) fn add(all: &mut Promises, cells: u64) {
    let mut text = String::from(
        "| regions | limit | traffic | p50 | p99 | worst | allowed | rows/subject and minute |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let mut lines: Vec<Line> = Vec::new();
    for (traffic, name) in TRAFFIC {
        let mut values = Vec::new();
        for regions in REGIONS {
            for limit in LIMITS {
                let setting = Setting { regions, limit, traffic, ..Setting::usual() };
                let seen = measure(setting, cells / 10);
                all.broken.extend(seen.broken.clone());
                let [p50, p99, worst] = spread(&seen.shares);
                let allowed = super::pace::most_permille(setting);
                // A burst of many limits is over before anybody can hear of it.
                let sudden = traffic == Traffic::Burst && super::pace::BURST_MAX > 2 * limit;
                let most = if sudden { allowed } else { worst_permille(regions as u64, limit) };
                if worst > most.min(allowed) {
                    all.broken.push(format!("{regions} regions, {limit}, {name}: {worst}"));
                }
                let rows = part(seen.rows_permille());
                let _ = writeln!(
                    text,
                    "| {regions} | {limit} | {name} | {} | {} | {} | {} | {rows} |",
                    part(p50),
                    part(p99),
                    part(worst),
                    part(allowed)
                );
                if limit == 100 {
                    values.push(to_whole(p99));
                }
            }
        }
        lines.push(Line { name: name.to_owned(), values });
    }
    all.blocks.push(Block { name: "world", text });
    let plot = Plot {
        title: "Admitted by all regions together, 99 of 100 cells",
        across: "regions of two processes (limit 100 a minute)",
        up: "limits admitted",
        places: REGIONS.map(|regions| regions.to_string()).to_vec(),
        lines,
    };
    all.pictures.push(Picture { name: "overshoot-regions", svg: plot.svg() });
    super::alone::add(all, cells);
    super::pace::add(all, cells);
    add_floor(all, cells);
}

/// A rule that was measured, for the table and the plots.
#[derive(Clone, Debug)]
struct Measured {
    rule: &'static str,
    above: String,
    every: String,
    spread: [u64; 3],
    rows_permille: u64,
}

impl Measured {
    fn of(all: &mut Promises, cells: u64, globe: GlobeTuning, names: [String; 2]) -> Self {
        let seen = measure(Setting { globe, ..Setting::usual() }, cells / 10);
        all.broken.extend(seen.broken.clone());
        let ([above, every], spread) = (names, spread(&seen.shares));
        let rule = if matches!(globe.rule, Rule::Floor { .. }) { "the RFC's" } else { "ours" };
        Self { rule, above, every, spread, rows_permille: seen.rows_permille() }
    }

    /// The rows that it costs, and the cell at 99 of 100.
    fn point(&self) -> (f64, f64) {
        (to_whole(self.rows_permille), to_whole(self.p99()))
    }

    const fn p99(&self) -> u64 {
        let [_, p99, _] = self.spread;
        p99
    }

    /// Whether another is no less accurate, and costs no more; and is better at one of the two.
    fn is_beaten_by(&self, other: &Self) -> bool {
        let (mine, its) = ((self.rows_permille, self.p99()), (other.rows_permille, other.p99()));
        its.0 <= mine.0 && its.1 <= mine.1 && its != mine
    }
}

/// The RFC asks which floor and which intervals are best: its own rule with each, beside ours.
fn add_floor(all: &mut Promises, cells: u64) {
    let ours = ["what could matter".to_owned(), "0.1 s to 1 s".to_owned()];
    let ours = Measured::of(all, cells, GlobeTuning::default(), ours);
    let mut floors = PARTS.map(|part| (format!("limit/{part}"), Vec::new()));
    let (mut rows, mut intervals) = (vec![ours.clone()], Vec::new());
    for seconds in EVERY_S {
        let mut values = Vec::new();
        for (part, (above, points)) in PARTS.into_iter().zip(&mut floors) {
            let rule = Rule::Floor { every_ms: seconds * 1_000, part };
            let (import_ms, rfc) = (seconds * 1_000, GlobeTuning::rfc());
            let globe = GlobeTuning { rule, import_ms, import_min_ms: import_ms, ..rfc };
            let names = [above.clone(), format!("{seconds} s")];
            let measured = Measured::of(all, cells, globe, names);
            points.push(measured.point());
            values.push(to_whole(measured.p99()));
            rows.push(measured);
        }
        intervals.push(Line { name: format!("every {seconds} s"), values });
    }
    all.blocks.push(Block { name: "floor", text: floor_table(&rows) });
    let plot = Plot {
        title: "The RFC's rule, by its floor and its interval: 99 of 100 cells",
        across: "published above this part of the limit (3 regions, limit 100, steady)",
        up: "limits admitted",
        places: PARTS.map(|part| format!("1/{part}")).to_vec(),
        lines: intervals,
    };
    all.pictures.push(Picture { name: "overshoot-floor", svg: plot.svg() });
    let floors = floors.into_iter().map(|(above, points)| (format!("above {above}"), points));
    let cloud = Cloud {
        title: "What accuracy costs: 99 of 100 cells, by rows written",
        across: "rows/subject and minute; from right to left told every 1, 2, 5, 10 and 20 s",
        up: "limits admitted",
        lines: floors.chain([("ours".to_owned(), vec![ours.point()])]).collect(),
    };
    all.pictures.push(Picture { name: "overshoot-load", svg: cloud.svg() });
}

fn floor_table(rows: &[Measured]) -> String {
    let mut text = String::from(
        "| rule | published above | every | p50 | p99 | worst | rows/subject and minute | \
         beaten by |\n|---|---|---|---|---|---|---|---|\n",
    );
    for row in rows {
        let better = rows.iter().filter(|other| row.is_beaten_by(other));
        let best = better.min_by_key(|other| (other.p99(), other.rows_permille));
        let best = best.map_or("nobody".to_owned(), |it| match it.rule {
            "ours" => "ours".to_owned(),
            _ => format!("{} every {}", it.above, it.every),
        });
        let Measured { rule, above, every, .. } = row;
        let ([p50, p99, worst], rows) = (row.spread.map(part), part(row.rows_permille));
        let _ = writeln!(
            text,
            "| {rule} | {above} | {every} | {p50} | {p99} | {worst} | {rows} | {best} |"
        );
    }
    text
}

/// Intervals, in seconds.
const EVERY_S: [u64; 5] = [1, 2, 5, 10, 20];
/// Floors: one part in this many of the limit.
const PARTS: [u64; 4] = [20, 5, 3, 2];

/// Thousandths.
#[expect(clippy::cast_precision_loss, reason = "for a plot")]
pub(super) fn to_whole(permille: u64) -> f64 {
    permille as f64 / 1_000.0
}
