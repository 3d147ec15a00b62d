//! How much processes of one region admit together, while nothing is broken.

use std::fmt::Write as _;

use super::plot::{Line, Plot};
use super::{Block, Picture, Promises};
use crate::overshoot::{RULES, Setting, Traffic, measure, part};

/// How many processes.
const NODES: [usize; 6] = [1, 2, 3, 5, 9, 16];
/// The limits of the table; the plots are of the middle one.
const LIMITS: [u64; 3] = [10, 100, 1_000];
const PLOTTED: u64 = 100;
/// One way through the network, at least and at most, for the plot over lag: a store in the same
/// rack, in the same data centre, in the next one, in the next country.
const LAGS_US: [(u64, u64); 5] =
    [(50, 150), (400, 600), (1_000, 3_000), (4_000, 6_000), (8_000, 12_000)];

/// What the bounded rule promises, in thousandths of the limit. At each admission no more than an
/// eighth of what is free is lent to all together.
const BOUNDED_PERMILLE: u64 = 1_125;

fn setting(nodes: usize, limit: u64, latency_us: (u64, u64)) -> Setting {
    Setting {
        nodes,
        limit,
        traffic: Traffic::Phase,
        load_percent: 400,
        window_ms: 60_000,
        windows: 1,
        burst_us: 50_000,
        latency_us,
    }
}

/// A table over processes and limits, and two plots.
pub(super) fn add(all: &mut Promises, cells: u64) {
    let mut text = String::from(
        "| processes | limit | bounded p50 | p99 | worst | fast p50 | p99 | worst | \
         store operations/request bounded | fast |\n|---|---|---|---|---|---|---|---|---|---|\n",
    );
    let mut lines = empty_lines();
    for nodes in NODES {
        for limit in LIMITS {
            let rules = measure(setting(nodes, limit, (200, 3_000)), cells);
            check(all, &rules.map(|rule| rule.0), nodes, limit);
            let [(bounded, asked), (fast, told), _] = rules;
            let shares = |[p50, p99, worst]: [u64; 3]| {
                format!("{} | {} | {}", part(p50), part(p99), part(worst))
            };
            let (bounded, fast) = (shares(bounded), shares(fast));
            let _ = writeln!(
                text,
                "| {nodes} | {limit} | {bounded} | {fast} | {asked:.2} | {told:.2} |"
            );
            if limit == PLOTTED {
                push(&mut lines, &rules.map(|rule| rule.0));
            }
        }
    }
    all.blocks.push(Block { name: "region", text });
    let places = NODES.map(|nodes| nodes.to_string()).to_vec();
    let title = "Worst cell in a burst, by processes";
    let across = "processes of a region (limit 100, four limits asked for within 50 ms)";
    picture(
        all,
        "overshoot-processes",
        Plot { title, across, up: "limits admitted", places, lines },
    );
    add_lag(all, cells);
}

fn add_lag(all: &mut Promises, cells: u64) {
    let mut lines = empty_lines();
    for latency_us in LAGS_US {
        let rules = measure(setting(5, PLOTTED, latency_us), cells).map(|rule| rule.0);
        check(all, &rules, 5, PLOTTED);
        push(&mut lines, &rules);
    }
    let places = LAGS_US.map(|(low, high)| format!("{} ms", to_ms(low + high))).to_vec();
    let title = "Worst cell in a burst, by the way to Redis";
    let across = "round trip (5 processes, limit 100, four limits asked for within 50 ms)";
    picture(all, "overshoot-lag", Plot { title, across, up: "limits admitted", places, lines });
}

fn picture(all: &mut Promises, name: &'static str, plot: Plot) {
    all.pictures.push(Picture { name, svg: plot.svg() });
}

fn empty_lines() -> Vec<Line> {
    RULES.iter().map(|name| Line { name: (*name).to_owned(), values: Vec::new() }).collect()
}

fn push(lines: &mut [Line], rules: &[[u64; 3]; 3]) {
    for (line, [_, _, worst]) in lines.iter_mut().zip(rules) {
        line.values.push(to_ms(*worst));
    }
}

/// Thousandths.
#[expect(clippy::cast_precision_loss, reason = "for a plot")]
fn to_ms(thousandths: u64) -> f64 {
    thousandths as f64 / 1_000.0
}

/// Alone everybody is exact; together they keep to the bound, or to a limit each.
fn check(all: &mut Promises, rules: &[[u64; 3]; 3], nodes: usize, limit: u64) {
    let [[_, _, bounded], [_, _, fast], _] = *rules;
    // A limit of ten cannot be exceeded by less than one.
    let most = BOUNDED_PERMILLE.max(1_000 + 1_000 / limit);
    let alone = nodes > 1 || (bounded <= 1_000 && fast <= 1_000);
    let each = 1_000 * u64::try_from(nodes).unwrap_or(u64::MAX);
    if bounded > most || fast > each || !alone {
        let what = format!("{nodes} processes, limit {limit}: bounded {bounded}, fast {fast}");
        all.broken.push(what);
    }
}
