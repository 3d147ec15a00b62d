//! What is lost when things break, and how long it takes until everything is right again: many
//! seeds with all faults, judged by all oracles.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tidegate_convergence::{GlobeTuning, Tuning};

use super::settled::{Losses, settle_max_ms};
use super::{Block, Promises, percent};
use crate::fault::Faults;
use crate::options::Options;
use crate::overshoot::{part, spread};
use crate::report::{Agreed, Report};
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

/// P-11: the stores of regions hold everything again within this time after everything is mended.
/// How long regions take after that is [`settle_max_ms`], which the oracles hold every seed to.
const WHOLE_MAX_MS: u64 = 10_000;

/// What a kind of runs came to.
#[derive(Debug, Default)]
struct Kind {
    answers: u64,
    /// Of each reason of [`REASONS`], all of them, and in each run as thousandths of its answers.
    denied: [(u64, Vec<u64>); 3],
}

/// Why somebody is denied whom the limit had room for.
const REASONS: [&str; 3] = [
    "others wait for the room that is left (`reserved`)",
    "Redis does not answer, and the rule is `deny` (`outage`)",
    "no memory for a new subject (`memory`)",
];

/// Why something is counted that nobody was admitted for.
const UNUSED: [&str; 3] = [
    "granted to a process that was killed before it could answer",
    "granted twice: an ask was doubled, and the store lost its answer in between",
    "denied by the rule `deny` after the ask was sent: the store may have granted it",
];

impl Kind {
    fn add(&mut self, report: &Report) {
        let Report { admitted, denied, refused, outages, reserved, .. } = report;
        let answers = admitted + denied + refused + outages;
        self.answers += answers;
        for ((all, shares), count) in self.denied.iter_mut().zip([reserved, outages, refused]) {
            *all += count;
            shares.push(count * 100_000 / answers.max(1));
        }
    }
}

/// What many runs came to.
#[derive(Debug, Default)]
struct Seen {
    seeds: u64,
    admitted: u64,
    degraded: u64,
    lost: BTreeMap<Cause, u64>,
    /// Cells and views that were compared with the truth, and what was counted for nothing.
    compared: [u64; 2],
    unused: [Vec<u64>; 3],
    calm: Kind,
    struck: Kind,
    whole_ms: Vec<u64>,
    agreed: Vec<Agreed>,
    /// Runs that an oracle found something in.
    failed: u64,
}

impl Seen {
    fn add(&mut self, report: &Report, calm: bool) {
        self.seeds += 1;
        self.admitted += report.admitted;
        self.degraded += report.degraded;
        for (cause, cost) in &report.lost {
            *self.lost.entry(*cause).or_default() += cost;
        }
        let [cells, views] = self.compared;
        self.compared = [cells + report.audited, views + report.compared];
        let Report { unanswered, regranted, charged, .. } = report;
        for (all, cost) in self.unused.iter_mut().zip([unanswered, regranted, charged]) {
            all.push(*cost);
        }
        let kind = if calm { &mut self.calm } else { &mut self.struck };
        kind.add(report);
        self.whole_ms.push(report.whole_ms);
        self.agreed.extend(report.agreed);
        self.failed += u64::from(report.broken.is_some());
    }

    fn sort(&mut self) {
        let kinds = [&mut self.calm, &mut self.struck];
        let shares = kinds.into_iter().flat_map(|kind| &mut kind.denied).map(|(_, each)| each);
        let all = shares.chain([&mut self.whole_ms]).chain(&mut self.unused);
        all.for_each(|each| each.sort_unstable());
    }
}

/// Four tables.
pub(super) fn add(all: &mut Promises, cells: u64) {
    let mut seen = Seen::default();
    for seed in 0..2 * cells {
        let options = Options::of(seed);
        let calm = options.faults == Faults::default();
        let report = World::new(options).run();
        if let Some(broken) = &report.broken {
            all.broken.push(format!("seed {seed}: {broken}"));
        }
        let whole_ms = report.whole_ms;
        if whole_ms > WHOLE_MAX_MS {
            all.broken.push(format!("seed {seed}: whole after {whole_ms} ms"));
        }
        seen.add(&report, calm);
    }
    seen.sort();
    all.blocks.push(Block { name: "counted", text: counted(&seen) });
    all.blocks.push(Block { name: "denied", text: denied(&seen) });
    all.blocks.push(Block { name: "lost", text: lost(&seen) });
    let healed = healed(all, &seen);
    all.blocks.push(Block { name: "healed", text: healed });
}

fn counted(seen: &Seen) -> String {
    let (seeds, failed, [cells, views]) = (seen.seeds, seen.failed, seen.compared);
    let mut text = format!(
        "{seeds} seeds, {failed} of them failed: {cells} cells of stores and {views} views of \
         processes compared with what was admitted.\n\n| counted, and nobody was admitted for it | \
         units of all seeds | of one: p50 | p99 | worst |\n|---|---|---|---|---|\n"
    );
    for (why, each) in UNUSED.iter().zip(&seen.unused) {
        let ([p50, p99, worst], sum) = (spread(each), each.iter().sum::<u64>());
        let _ = writeln!(text, "| {why} | {sum} | {p50} units | {p99} units | {worst} units |");
    }
    text
}

fn denied(seen: &Seen) -> String {
    let mut text = String::from(
        "| worlds | denied, and the limit had room, because | answers | of them | \
         of a seed's: p50 | p99 | worst |\n|---|---|---|---|---|---|---|\n",
    );
    for (name, kind) in [("calm", &seen.calm), ("struck", &seen.struck)] {
        let answers = kind.answers;
        for (why, (all, shares)) in REASONS.iter().zip(&kind.denied) {
            let share = percent(*all, answers);
            let [p50, p99, worst] = spread(shares).map(|share| percent(share, 100_000));
            let _ = writeln!(
                text,
                "| {name} | {why} | {answers} | {share} | {p50} | {p99} | {worst} |"
            );
        }
    }
    text
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
    text
}

/// How long it took, beside what is promised. Which worlds are told apart is what the oracle does.
fn healed(all: &mut Promises, seen: &Seen) -> String {
    let mut text = String::from(
        "| what is right again | worlds | p50 | p99 | worst | at most |\n\
         |---|---|---|---|---|---|\n",
    );
    let mut row = |what: &str, mut times_ms: Vec<u64>, most_ms: u64| {
        times_ms.sort_unstable();
        let worlds = times_ms.len();
        let ([p50, p99, worst], most) = (spread(&times_ms).map(part), part(most_ms));
        let _ = writeln!(text, "| {what} | {worlds} | {p50} s | {p99} s | {worst} s | {most} s |");
        if times_ms.last().is_some_and(|worst_ms| *worst_ms > most_ms) {
            all.broken.push(format!("{what}: {worst} s"));
        }
    };
    let whole = "the store of each region holds what was admitted, but for the above";
    row(whole, seen.whole_ms.clone(), WHOLE_MAX_MS);
    let within = |losses| settle_max_ms(&Tuning::default(), &GlobeTuning::default(), losses);
    for (names, rows, what) in [
        (false, false, "then regions know of each other what could matter"),
        (false, true, "the same where the database lost rows or a replica lagged"),
        (true, false, "the same where a Redis may have lost its data, or a region its name"),
        (true, true, "the same where both may be"),
    ] {
        let same = |it: &&Agreed| (it.names, it.rows) == (names, rows);
        let times_ms = seen.agreed.iter().filter(same).map(|it| it.took_ms).collect();
        row(what, times_ms, within(Losses { names, rows }));
    }
    let lossy = seen.agreed.iter().filter(|it| it.lossy).map(|it| it.took_ms).collect();
    let what = "of all these: where a Redis had lost what still counted";
    row(what, lossy, within(Losses { names: true, rows: true }));
    text
}
