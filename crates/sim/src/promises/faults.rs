//! What is lost when things break, and how long it takes until everything is right again: many
//! seeds with all faults, judged by all oracles.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Block, Promises};
use crate::options::Options;
use crate::overshoot::{part, spread};
use crate::report::Report;
use crate::truth::Cause;
use crate::world::World;

/// What a cause is, for people.
const fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::Crashed => "a process was killed before the store had it",
        Cause::DeadAndLost => "the store lost it after its process had ended",
        Cause::EvictedAndLost => "the store lost it after it had left the memory of its process",
        Cause::Expired => "its window was over before the store had it",
        Cause::Renamed => "a clock jumped: it counts under another name",
        Cause::LostAlone => "the store lost this cell alone, and nobody has asked for it since",
    }
}

/// What many runs came to.
#[derive(Debug, Default)]
struct Seen {
    seeds: u64,
    admitted: u64,
    degraded: u64,
    lost: BTreeMap<Cause, u64>,
    healed_ms: Vec<u64>,
    settled_ms: Vec<u64>,
}

impl Seen {
    fn add(&mut self, report: &Report) {
        self.seeds += 1;
        self.admitted += report.admitted;
        self.degraded += report.degraded;
        for (cause, cost) in &report.lost {
            *self.lost.entry(*cause).or_default() += cost;
        }
        self.healed_ms.push(report.healed_ms);
        if report.global && report.settled_ms > 0 {
            self.settled_ms.push(report.settled_ms);
        }
    }
}

/// Two tables.
pub(super) fn add(all: &mut Promises, cells: u64) {
    let mut seen = Seen::default();
    for seed in 0..2 * cells {
        let report = World::new(Options::of(seed)).run();
        if let Some(broken) = &report.broken {
            all.broken.push(format!("seed {seed}: {broken}"));
        }
        seen.add(&report);
    }
    seen.healed_ms.sort_unstable();
    seen.settled_ms.sort_unstable();
    all.blocks.push(Block { name: "lost", text: lost(&seen) });
    all.blocks.push(Block { name: "healed", text: healed(&seen) });
}

fn lost(seen: &Seen) -> String {
    let Seen { seeds, admitted, degraded, .. } = seen;
    let mut text = format!(
        "{seeds} seeds: {admitted} requests admitted, {degraded} of all answered without a store \
         that should have been asked.\n\n| cost that the store does not hold at the end, because | \
         units |\n|---|---|\n"
    );
    for (cause, cost) in &seen.lost {
        let _ = writeln!(text, "| {} | {cost} |", words(*cause));
    }
    text.push_str("| any other reason | 0 |\n");
    text
}

fn healed(seen: &Seen) -> String {
    let mut text =
        String::from("| after everything was mended | p50 | p99 | worst |\n|---|---|---|---|\n");
    let whole = "the store of each region holds exactly what was admitted, but for the above";
    let settled = "regions know of each other what could matter";
    for (what, sorted) in [(whole, &seen.healed_ms), (settled, &seen.settled_ms)] {
        let [p50, p99, worst] = spread(sorted).map(part);
        let _ = writeln!(text, "| {what} | {p50} s | {p99} s | {worst} s |");
    }
    text
}
