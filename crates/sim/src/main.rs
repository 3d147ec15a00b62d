//! The simulator on the command line; `cargo xtask sim` builds and starts it.
#![expect(
    clippy::disallowed_methods,
    reason = "how many seeds a second is told to a human; no run depends on it"
)]

mod cli;

use std::process::ExitCode;
use std::time::Instant;

use cli::{Command, Plan};
use tidegate_sim::{Options, Report, World, shrink};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let plan = match Plan::parse(&args) {
        Ok(plan) => plan,
        Err(message) => {
            eprintln!("{message}\n\n{}", cli::HELP);
            return ExitCode::from(2);
        }
    };
    let held = match plan.command {
        Command::Help => {
            print!("{}", cli::HELP);
            true
        }
        Command::Seed(seed) => one(&plan, seed),
        Command::Seeds => many(&plan),
        Command::Canaries => canaries(&plan),
        Command::Overshoot => tell(&tidegate_sim::overshoot(plan.seeds)),
        Command::Promises(cells) => promises(cells),
        Command::Grid(cells) => tell(&tidegate_sim::overshoot_grid(cells)),
    };
    if held { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn tell((text, held): &(String, bool)) -> bool {
    print!("{text}");
    *held
}

/// Prints the parts of the document one after the other, each behind a line that names it.
fn promises(cells: u64) -> bool {
    let all = tidegate_sim::promises(cells);
    all.blocks.iter().for_each(|block| print!("=== block {}\n{}", block.name, block.text));
    all.pictures.iter().for_each(|picture| print!("=== plot {}\n{}", picture.name, picture.svg));
    all.broken.iter().for_each(|what| eprintln!("broken: {what}"));
    all.broken.is_empty()
}

/// Runs with or without a planted mistake.
fn run(plan: &Plan, options: Options) -> Report {
    #[cfg(feature = "planted")]
    return tidegate_sim::canaries::run_planted(options, plan.planted);
    #[cfg(not(feature = "planted"))]
    {
        let _ = plan;
        World::new(options).run()
    }
}

/// One seed: what it expands into, and what came of it.
fn one(plan: &Plan, seed: u64) -> bool {
    let options = plan.options(seed);
    println!("{options}\n");
    if plan.trace {
        #[cfg(feature = "planted")]
        tidegate_limiter::planted::plant(plan.planted);
        let _ = World::new(options.clone()).told().run();
        #[cfg(feature = "planted")]
        tidegate_limiter::planted::plant(None);
    }
    let report = run(plan, options.clone());
    print!("{}", cli::describe(&report));
    if report.broken.is_some() && !plan.is_cut() {
        tell_smaller(plan, &options);
    }
    report.broken.is_none()
}

fn tell_smaller(plan: &Plan, options: &Options) {
    let (smaller, broken) = shrink(options, |options| run(plan, options));
    if let Some(broken) = broken {
        println!("smaller: {broken}");
        println!("repeat:  {}{}", smaller.command(), plan.planted_flag());
    }
}

/// Many seeds; one in a hundred twice.
fn many(plan: &Plan) -> bool {
    let (start, mut events) = (Instant::now(), Vec::new());
    let (mut failed, mut vacuous, mut worst) = (0_u64, 0_u64, 0);
    let mut total = cli::Total::default();
    for (done, seed) in (plan.from..plan.from + plan.seeds).enumerate() {
        let options = plan.options(seed);
        let report = run(plan, options.clone());
        if seed % 100 == 0 && report != run(plan, options.clone()) {
            println!("seed {seed}: [determinism] two runs differ");
            failed += 1;
        }
        if let Some(broken) = &report.broken {
            failed += 1;
            println!("seed {seed}: {broken}");
            if failed <= 3 {
                tell_smaller(plan, &options);
            }
        }
        vacuous += u64::from(report.is_vacuous());
        worst = worst.max(report.healed_ms);
        events.push(report.events);
        total.add(&report);
        if done % 1_000 == 999 {
            eprintln!("{} seeds, {failed} failed", done + 1);
        }
    }
    let took = start.elapsed().as_secs_f64().max(0.001);
    let all: u64 = events.iter().sum();
    events.sort_unstable();
    let median = events.get(events.len() / 2).copied().unwrap_or(0);
    #[expect(clippy::cast_precision_loss, reason = "for a human")]
    let (seeds_s, events_s) = (plan.seeds as f64 / took, all as f64 / took);
    println!("{} seeds in {took:.1} s: {seeds_s:.0} seeds/s, {events_s:.0} events/s", plan.seeds);
    println!("median {median} events a seed; whole again within {worst} ms after faults");
    print!("{total}");
    // Some runs deny nothing, or compare no view: they are not counted as evidence.
    println!("{vacuous} vacuous, {failed} failed");
    failed == 0 && vacuous * 10 <= plan.seeds
}

/// Looks for every planted mistake.
#[cfg(feature = "planted")]
fn canaries(plan: &Plan) -> bool {
    let within = plan.within;
    println!("{:<18} {:<18} {:>6}  within {within} seeds", "mistake", "oracle", "seeds");
    let mut held = true;
    for (mistake, _) in tidegate_sim::canaries::CANARIES {
        let found = tidegate_sim::canaries::find(mistake, within, plan.inside);
        let broken = found.as_ref().and_then(|(_, report)| report.broken.as_ref());
        let oracle = broken.map_or("NOT FOUND", |violation| violation.oracle);
        let seeds = found.as_ref().map_or(0, |(seed, _)| seed + 1);
        println!("{:<18} {oracle:<18} {seeds:>6}", format!("{mistake:?}"));
        held &= broken.is_some();
    }
    held
}

#[cfg(not(feature = "planted"))]
fn canaries(_: &Plan) -> bool {
    eprintln!("built without the feature `planted`");
    false
}
