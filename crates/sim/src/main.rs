//! The simulator on the command line; `cargo xtask sim` builds and starts it.
#![expect(
    clippy::disallowed_methods,
    reason = "how long to go on, how many seeds a second, and with which seed a night begins: no \
              run depends on any of it"
)]

mod cli;

use std::process::ExitCode;

use cli::{Command, Plan};

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
        Command::Seed(seed) => cli::one(&plan, seed),
        Command::Seeds => cli::many::seeds(&plan),
        Command::Minutes(minutes) => cli::many::minutes(&plan, minutes),
        Command::Corpus => cli::many::past(&plan),
        Command::Canaries => cli::canaries::canaries(&plan),
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
