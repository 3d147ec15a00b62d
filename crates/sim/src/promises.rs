//! The figures of PROMISES.md, and its plots: a function of nothing but the code.

mod alone;
mod faults;
mod forgotten;
mod memory;
mod pace;
mod plot;
mod region;
pub(crate) mod settled;
mod unknown;
mod waiting;
mod whole;
mod window;
mod world;

use std::fmt::Write as _;

use crate::overshoot::part;

/// A part of the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// What the markers around it say.
    pub name: &'static str,
    /// A table in Markdown.
    pub text: String,
}

/// A picture beside the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// Its file, without `.svg`.
    pub name: &'static str,
    /// The picture.
    pub svg: String,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Promises {
    /// The tables.
    pub blocks: Vec<Block>,
    /// The plots.
    pub pictures: Vec<Picture>,
    /// What does not hold that should; empty if all is well.
    pub broken: Vec<String>,
}

/// Measures everything, over so many cells each.
#[must_use]
pub fn promises(cells: u64) -> Promises {
    let mut all = Promises::default();
    region::add(&mut all, cells);
    world::add(&mut all, cells);
    add_window(&mut all, cells);
    faults::add(&mut all, cells);
    unknown::add(&mut all, cells);
    waiting::add(&mut all, cells);
    memory::add(&mut all);
    forgotten::add(&mut all);
    all
}

/// A share, in hundredths.
fn percent(count: u64, of: u64) -> String {
    let permille = count * 100_000 / of.max(1);
    format!("{}.{:02} %", permille / 1_000, permille % 1_000 / 10)
}

/// How far the two cells are from a log.
fn add_window(all: &mut Promises, cells: u64) {
    let runs = (cells / 12).max(1);
    let mut text = String::from(
        "| traffic | limit | denied | denied, a log would admit | admitted, a log would deny | \
         fullest span p50 | p99 | worst |\n|---|---|---|---|---|---|---|---|\n",
    );
    for traffic in window::Traffic::ALL {
        for limit in [10, 100, 1_000] {
            let seen = window::measure(traffic, limit, runs);
            let [p50, p99, worst] = crate::overshoot::spread(&seen.fullest);
            if worst > window::WORST_PERMILLE {
                all.broken.push(format!("a span holds {worst} permille: {}", traffic.name()));
            }
            let share = |count: u64| format!("{} %", part(count * 100_000 / seen.asked.max(1)));
            let _ = writeln!(
                text,
                "| {} | {limit} | {} | {} | {} | {} | {} | {} |",
                traffic.name(),
                share(seen.denied),
                share(seen.falsely_denied),
                share(seen.falsely_admitted),
                part(p50),
                part(p99),
                part(worst)
            );
        }
    }
    all.blocks.push(Block { name: "window", text });
}
