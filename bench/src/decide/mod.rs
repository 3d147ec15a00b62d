//! What one local decision costs, beside the limiters others would use.

pub(crate) mod callgrind;
mod contestant;
#[cfg(feature = "controls")]
mod digest;
mod field;
pub(crate) mod keys;
pub(crate) mod memory;
mod ours;
#[cfg(feature = "controls")]
mod peers;
mod region;
mod rounds;
mod targets;
mod workload;

use std::process::ExitCode;

use crate::Failure;
use crate::machine::{self, Usage};
use crate::report::{Line, Table, tenth};
use memory::Filled;
use rounds::{Measured, Plan};

/// Arguments of `decide`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One JSON object per line instead of tables.
    #[arg(long)]
    json: bool,
    /// Tiny counts and one round: shows that everything runs; the figures mean nothing.
    #[arg(long)]
    smoke: bool,
    /// How many rounds.
    #[arg(long, default_value_t = 7)]
    rounds: usize,
    /// Questions per round and thread; without it, each workload's own number.
    #[arg(long)]
    decisions: Option<u64>,
    /// Keys instead of each workload's own number (hot and denied keep their one): shows how the
    /// cost grows with the memory that is touched. The targets are not meant for it.
    #[arg(long)]
    keys: Option<usize>,
    /// Only these workloads: hot, uniform, zipf, denied, uniform+prev, batch5, region,
    /// region-batch5, memory.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these contestants.
    #[arg(long, value_delimiter = ',')]
    contestants: Vec<String>,
    /// Count instructions with callgrind instead of nanoseconds.
    #[arg(long)]
    callgrind: bool,
    /// With `--callgrind`: make what was counted the baseline.
    #[arg(long, requires = "callgrind")]
    update: bool,
}

/// Runs the bench.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    if args.callgrind {
        let Args { json, smoke, update, .. } = *args;
        return callgrind::main(&callgrind::Options { json, smoke, update });
    }
    check_names(args)?;
    let usage = Usage::read();
    let filled = fill_all(args)?;
    let measured = measure_all(args)?;
    let others = usage.and_then(Usage::others_since);
    let mut targets = targets::of_speed(&measured);
    let case = memory_case(args);
    let ours = filled.iter().find(|(name, _)| *name == "tidegate");
    targets.extend(ours.and_then(|(_, filled)| targets::of_memory(&case, filled)));
    if args.json {
        return print_lines(&measured, &filled, &case, &targets);
    }
    print_speed(&measured);
    print_memory(&filled, &case);
    print_targets(&targets);
    println!("\n{}", machine::describe());
    if let Some(others) = others {
        println!("others used {others:.0} % of it during the run");
    }
    if args.smoke {
        println!("smoke: the figures above mean nothing");
    }
    Ok(ExitCode::SUCCESS)
}

fn check_names(args: &Args) -> Result<(), Failure> {
    let workloads = workload::all().map(|one| one.name);
    let unknown = args.only.iter().find(|name| {
        let name = name.as_str();
        name != "memory" && !workloads.contains(&name)
    });
    if let Some(name) = unknown {
        return Err(
            format!("no workload {name}; there are memory, {}", workloads.join(", ")).into()
        );
    }
    let unknown = args.contestants.iter().find(|name| !field::NAMES.contains(&name.as_str()));
    if let Some(name) = unknown {
        return Err(format!("no contestant {name}; there are {}", field::NAMES.join(", ")).into());
    }
    if args.rounds == 0 || args.decisions == Some(0) || args.keys == Some(0) {
        return Err("at least one round of one decision on one key".into());
    }
    Ok(())
}

fn wanted(list: &[String], name: &str) -> bool {
    list.is_empty() || list.iter().any(|one| one == name)
}

fn subjects(args: &Args) -> usize {
    if args.smoke { memory::SUBJECTS / 100 } else { memory::SUBJECTS }
}

fn memory_case(args: &Args) -> String {
    format!("memory/{}k", subjects(args) / 1_000)
}

fn fill_all(args: &Args) -> Result<Vec<(&'static str, Filled)>, Failure> {
    let mut all = Vec::new();
    if wanted(&args.only, "memory") {
        for name in field::NAMES.into_iter().filter(|name| wanted(&args.contestants, name)) {
            all.extend(memory::measure(name, subjects(args))?.map(|filled| (name, filled)));
        }
    }
    Ok(all)
}

fn measure_all(args: &Args) -> Result<Vec<Measured>, Failure> {
    let rounds = if args.smoke { 1 } else { args.rounds };
    let plan = Plan { rounds, contestants: &args.contestants };
    let mut all = Vec::new();
    for workload in workload::all().into_iter().filter(|one| wanted(&args.only, one.name)) {
        let mut workload = if args.smoke { workload.tiny() } else { workload };
        workload.questions = args.decisions.unwrap_or(workload.questions);
        if let Some(keys) = args.keys.filter(|_| workload.setup.keys > 1) {
            workload.setup.keys = keys;
        }
        all.extend(rounds::measure(&workload, plan)?);
    }
    Ok(all)
}

fn print_lines(
    measured: &[Measured],
    filled: &[(&'static str, Filled)],
    memory_case: &str,
    targets: &[Line],
) -> Result<ExitCode, Failure> {
    let print = |case: &str, contestant: &str, value: f64, unit: String| {
        let (case, contestant) = (case.to_owned(), contestant.to_owned());
        Line::Measurement { bench: "decide", case, contestant, value: tenth(value), unit }.print()
    };
    for one in measured {
        print(&one.case, one.contestant, one.min(), format!("{} min", one.unit))?;
        print(&one.case, one.contestant, one.median(), format!("{} median", one.unit))?;
    }
    for (name, filled) in filled {
        print(memory_case, name, filled.resident(), "resident bytes/subject".to_owned())?;
        if let Some(accounted) = filled.accounted() {
            print(memory_case, name, accounted, "accounted bytes/subject".to_owned())?;
        }
    }
    for target in targets {
        target.print()?;
    }
    Ok(ExitCode::SUCCESS)
}

fn print_speed(measured: &[Measured]) {
    let mut table =
        Table::new(&["case", "contestant", "unit", "min", "median", "x governor-string"]);
    for one in measured {
        let governor = measured
            .iter()
            .find(|other| other.case == one.case && other.contestant == "governor-string");
        table.row(vec![
            one.case.clone(),
            one.contestant.to_owned(),
            one.unit.to_owned(),
            format!("{:.1}", one.min()),
            format!("{:.1}", one.median()),
            governor.map_or_else(String::new, |other| format!("{:.2}", one.min() / other.min())),
        ]);
    }
    table.print(3);
}

fn print_memory(filled: &[(&'static str, Filled)], case: &str) {
    if filled.is_empty() {
        return;
    }
    println!();
    let headings = ["case", "contestant", "resident bytes/subject", "accounted bytes/subject"];
    let mut table = Table::new(&headings);
    for (name, filled) in filled {
        table.row(vec![
            case.to_owned(),
            (*name).to_owned(),
            format!("{:.0}", filled.resident()),
            filled.accounted().map_or_else(String::new, |bytes| format!("{bytes:.1}")),
        ]);
    }
    table.print(2);
}

fn print_targets(targets: &[Line]) {
    if targets.is_empty() {
        return;
    }
    println!();
    let mut table = Table::new(&["case", "target", "measured", ""]);
    for line in targets {
        if let Line::Target { case, target, measured, met, .. } = line {
            let met = if *met { "met" } else { "NOT MET" };
            table.row(vec![case.clone(), target.clone(), measured.clone(), met.to_owned()]);
        }
    }
    table.print(2);
}
