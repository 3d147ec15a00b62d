//! The one entry point of the repository: `cargo xtask <command>`.
//!
//! Promises: a machine with cargo and a C compiler reaches green with `cargo xtask test`, or is
//! told in one line what is missing before anything is built.
//! Refuses: dependencies. This crate builds in seconds, so that the answer comes early.
//! Fails: exit code 1 when a check failed, 2 when the command line or the machine is wrong.
#![expect(
    clippy::disallowed_methods,
    reason = "how long a step took is told to a human; no decision of the limiter depends on it"
)]

mod bench;
mod chaos;
mod checkers;
mod child;
mod failure;
mod fleet;
mod fuzz;
mod mutants;
mod openapi;
mod packages;
mod promises;
mod repo;
mod setup;
mod sim;
mod steps;
mod tally;
mod test;
mod tidy;

use std::process::ExitCode;

use failure::{Failure, Result};
use repo::Repo;

/// What `cargo xtask` and `cargo xtask --help` print.
const HELP: &str = "\
Tidegate's tasks: cargo xtask <command>

  test [--list] [--only STEP]...   Run every check, or only the named steps, and count what passed.
                                   --list shows the steps in the order in which they run.
  tidy                             Check the habits that a machine can check (seconds, no build).
  mutants [--list] [--only NAME]...
                                   Plant the deliberate mistakes of mutants/*.txt one at a time;
                                   each must be caught by the test it names.
  fuzz [--seconds N] [TARGET]...   Fuzz every target, or the named ones, for N seconds each (60).
  bench NAME [ARGS]...             Run a benchmark of bench/, for example: bench decide --json
  sim [--seeds N | --minutes N | --seed K | --corpus | --canaries | --overshoot]
                                   Simulate regions that break; --help says more.
  promises [--check]               Measure what PROMISES.md says and write it there, or compare it.
  chaos [--minutes N] [--seed K] [--only FAULT,...] [--keep DIR] [--json] [--planted NAME]
                                   Break real servers, stores and networks under load, and judge
                                   what callers were told; --help says more.
  openapi                          Write docs/openapi.json anew, from the tables of the server.
  setup                            Install the Debian packages the commands above need.
  help, --help                     Show this text.

Exit code: 0 all is well, 1 a check failed, 2 the command line or the machine is not right.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !failure.is_told() {
                eprintln!("xtask: {failure}");
            }
            ExitCode::from(failure.code)
        }
    }
}

/// Finds the command and hands it the rest of the line.
fn dispatch(args: &[String]) -> Result<()> {
    let Some((command, rest)) = args.split_first() else {
        print!("{HELP}");
        return Ok(());
    };
    let repo = Repo::find()?;
    match command.as_str() {
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        "test" => test::command(&repo, rest),
        "tidy" => tidy::command(&repo, rest),
        "mutants" => mutants::command(&repo, rest),
        "fuzz" => fuzz::command(&repo, rest),
        "bench" => bench::command(&repo, rest),
        "sim" => sim::command(&repo, rest),
        "promises" => promises::command(&repo, rest),
        "chaos" => chaos::command(&repo, rest),
        "openapi" => openapi::command(&repo, rest),
        "setup" => setup::command(rest),
        other => {
            Err(Failure::usage(format!("no command `{other}`; `cargo xtask --help` lists them")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn an_unknown_command_exits_with_2() {
        assert_eq!(dispatch(&words("tset")).unwrap_err().code, 2);
        for line in [
            "tidy --all",
            "test --only",
            "test --only nothing",
            "fuzz --seconds soon",
            "bench",
            "bench nope",
            "openapi --all",
        ] {
            assert_eq!(dispatch(&words(line)).unwrap_err().code, 2, "{line}");
        }
    }

    #[test]
    fn help_names_every_command() {
        for command in [
            "test", "tidy", "mutants", "fuzz", "bench", "sim", "promises", "chaos", "openapi",
            "setup",
        ] {
            assert!(HELP.contains(&format!("\n  {command} ")), "{command}");
        }
    }
}
