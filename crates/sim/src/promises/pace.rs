//! How much all regions admit together, by how fast requests come and how often regions speak: what
//! is measured, beside what the formula of P-5 allows.

use std::fmt::Write as _;

use tidegate_convergence::{GlobeTuning, Tuning};

use super::plot::{Line, Plot};
use super::world::{Setting, WINDOW_MS, measure, to_whole, worst_permille};
use super::{Block, Picture, Promises};
use crate::options::Traffic;
use crate::overshoot::{part, spread};

/// Requests of a minute, in hundredths of the limit.
const LOADS: [u64; 5] = [100, 200, 500, 1_000, 2_000];
/// Beside what is shipped: what a region has to say is told this often, and read as often.
const TOLD_MS: [u64; 2] = [5_000, 10_000];
/// Beside what is shipped: a process records this often what it admitted.
const RECORDED_MS: [u64; 4] = [500, 2_000, 5_000, 10_000];
/// The ways that news take: to the region's store, to the database and from there, and back.
const WAYS_MS: u64 = 400;
/// Requests of one burst at most, within milliseconds.
pub(super) const BURST_MAX: u64 = 120;
/// What a region admits at most by the bounded rule, in thousandths of the limit; by the fast rule
/// each of its two processes admits a limit.
const REGION_PERMILLE: [u64; 2] = [2_000, 1_125];

/// Regions speak so often, neither earlier nor later.
fn told(every_ms: u64) -> GlobeTuning {
    GlobeTuning {
        publish_min_ms: every_ms,
        publish_max_ms: every_ms,
        publish_window_part: WINDOW_MS / every_ms,
        import_ms: every_ms,
        import_min_ms: every_ms,
        ..GlobeTuning::default()
    }
}

/// Processes record so often, however much it is.
fn recorded(every_ms: u64) -> Tuning {
    Tuning {
        replay_part: 1,
        replay_room_part: 1,
        replay_min_ms: every_ms,
        replay_max_ms: every_ms,
        ..Tuning::default()
    }
}

/// How long news take at most: until they are recorded, until they are published, until they are
/// read.
fn news_ms(Setting { tuning, globe, .. }: Setting) -> u64 {
    let publish_ms = globe.publish_max_ms.min(WINDOW_MS / globe.publish_window_part.max(1));
    tuning.replay_max_ms + publish_ms + globe.import_ms + WAYS_MS
}

/// The formula: what is hidden, and what comes while news are on their way, there and back; never
/// more than what each region admits alone.
pub(super) fn most_permille(setting: Setting) -> u64 {
    let Setting { limit, traffic, .. } = setting;
    let burst = if traffic == Traffic::Burst { BURST_MAX * 1_000 / limit } else { 0 };
    let arrives = burst + 2 * setting.load_percent * 10 * news_ms(setting) / WINDOW_MS;
    let [fast, bounded] = REGION_PERMILLE;
    // A limit cannot be exceeded by less than one.
    let bounded = bounded.max(1_000 + 1_000 / limit);
    let each = if setting.bounded { bounded } else { fast };
    let regions = setting.regions as u64;
    (worst_permille(regions, limit) + arrives).min(regions * each)
}

/// A table and a plot.
pub(super) fn add(all: &mut Promises, cells: u64) {
    let mut text = String::from(
        "| requests of a minute | rule | recorded every | told and read every | p50 | p99 | worst \
         | allowed |\n|---|---|---|---|---|---|---|---|\n",
    );
    let mut lines = Vec::new();
    let shipped = ("told as shipped".to_owned(), GlobeTuning::default());
    let others = TOLD_MS.map(|ms| (format!("told every {} s", ms / 1_000), told(ms)));
    for (name, globe) in [shipped].into_iter().chain(others) {
        let settings = LOADS.map(|load_percent| Setting { load_percent, globe, ..fresh() });
        let values = settings.iter().map(|it| row(all, &mut text, *it, cells)).collect();
        lines.push(Line { name, values });
    }
    let allowed = |load_percent| most_permille(Setting { load_percent, ..fresh() });
    let values = LOADS.map(|load| to_whole(allowed(load))).to_vec();
    lines.push(Line { name: "allowed, as shipped".to_owned(), values });
    let others = RECORDED_MS.map(recorded);
    for tuning in [Tuning::default()].into_iter().chain(others) {
        let setting = Setting { tuning, bounded: false, ..fresh() };
        let _ = row(all, &mut text, setting, cells);
    }
    all.blocks.push(Block { name: "pace", text });
    let plot = Plot {
        title: "Worst cell of all regions together, by how fast requests come",
        across: "requests of a minute, in limits (3 regions, limit 1,000)",
        up: "limits admitted",
        places: LOADS.map(|load| (load / 100).to_string()).to_vec(),
        lines,
    };
    all.pictures.push(Picture { name: "overshoot-rates", svg: plot.svg() });
}

/// A limit that is not told at the first requests, and cells that begin with nothing used.
fn fresh() -> Setting {
    Setting { limit: 1_000, traffic: Traffic::Resting, ..Setting::usual() }
}

fn span(least_ms: u64, most_ms: u64) -> String {
    let (least, most) = (to_whole(least_ms), to_whole(most_ms));
    if least_ms < most_ms { format!("{least} to {most} s") } else { format!("{most} s") }
}

/// Adds a row; the worst cell is what is plotted.
fn row(all: &mut Promises, text: &mut String, setting: Setting, cells: u64) -> f64 {
    let seen = measure(setting, cells / 10);
    all.broken.extend(seen.broken.clone());
    let ([p50, p99, worst], most) = (spread(&seen.shares), most_permille(setting));
    let Setting { load_percent, bounded, tuning, globe, .. } = setting;
    if worst > most {
        all.broken.push(format!("{load_percent} % of the limit: {worst} of {most} permille"));
    }
    let _ = writeln!(
        text,
        "| {} L | {} | {} | {} | {} | {} | {} | {} |",
        load_percent / 100,
        if bounded { "bounded" } else { "fast" },
        span(tuning.replay_min_ms, tuning.replay_max_ms),
        span(globe.import_min_ms, globe.import_ms),
        part(p50),
        part(p99),
        part(worst),
        part(most)
    );
    to_whole(worst)
}
