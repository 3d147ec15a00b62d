//! `cargo xtask chaos`: real servers that are broken on purpose, and what callers were told.

use std::process::Command;

use crate::child;
use crate::failure::{Failure, Result};
use crate::repo::Repo;
use crate::setup;
use crate::tally::Tally;

/// How long the step of `cargo xtask test` has load and faults: every fault comes at least once,
/// and with the start and the end of everything it takes two minutes.
const STEP_MINUTES: &str = "1.8";
/// How long it takes to find a planted mistake: a calm run is enough.
const PLANTED_MINUTES: &str = "0.25";
/// Another seed each time would fail on another day than the change that broke it.
const STEP_SEED: &str = "1";

/// `cargo xtask chaos [args]`. What the arguments mean, the program says itself.
pub(crate) fn command(repo: &Repo, args: &[String]) -> Result<()> {
    setup::ensure(&[&setup::REDIS, &setup::MARIADB, &setup::FAKETIME])?;
    build(repo)?;
    let mut command = program(repo);
    command.args(args);
    // Not through a pipe: a long run shows how far it is.
    match command.status() {
        Ok(status) => match status.code() {
            Some(0) => Ok(()),
            Some(1) => Err(Failure::check(format!("a promise was broken ({status})"))),
            _ => Err(Failure::usage(format!("the run did not come to a verdict ({status})"))),
        },
        Err(error) => Err(Failure::machine(format!("chaos: {error}"))),
    }
}

/// Mistakes that must be found, each with the oracle that is there for it.
const PLANTED: [(&str, &str); 4] = [
    ("free", "conservation "),
    ("half", "atomic "),
    ("twice", "conservation "),
    ("error", "answers "),
];

/// The step: a run that must hold, and those with a mistake that must be found.
pub(crate) fn step(repo: &Repo) -> Result<Tally> {
    build(repo)?;
    let mut run = program(repo);
    run.args(["--minutes", STEP_MINUTES, "--seed", STEP_SEED]);
    run.arg("--keep").arg(repo.target.join("chaos/run"));
    let mut tally = Tally::of_check(child::show(run, |_| {})?.is_success());
    for (mistake, oracle) in PLANTED {
        tally.add(Tally::of_check(finds(repo, mistake, oracle)?));
    }
    Ok(tally)
}

/// Whether a planted mistake is found by the oracle that is there for it, not by any.
fn finds(repo: &Repo, mistake: &str, oracle: &str) -> Result<bool> {
    let mut planted = program(repo);
    planted.args(["--minutes", PLANTED_MINUTES, "--only", "none", "--planted", mistake]);
    // It never agrees: nobody waits for that.
    planted.args(["--settle", "2", "--keep"]).arg(repo.target.join("chaos/planted"));
    let mut found = false;
    let ended = child::show(planted, |line| {
        found |= line.starts_with(oracle) && line.contains("BROKEN");
    })?;
    found &= ended.status.and_then(|status| status.code()) == Some(1);
    println!("the planted mistake ({mistake}) was {}", if found { "found" } else { "NOT found" });
    Ok(found)
}

/// Builds the server with the checks that tests have, and the program.
fn build(repo: &Repo) -> Result<()> {
    let mut command = repo.cargo();
    // As the drills of the fleet and the tests do, so that nothing is built twice.
    command.args(["build", "--workspace", "--all-features"]);
    command.args(["--bin", "tidegate", "--bin", "tidegate-chaos"]);
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::check(format!("it does not build ({status})"))),
        Err(error) => Err(Failure::machine(format!("cargo: {error}"))),
    }
}

/// The program, told where the server is.
fn program(repo: &Repo) -> Command {
    let built = repo.target.join("debug");
    let mut command = Command::new(built.join("tidegate-chaos"));
    command.current_dir(&repo.root).arg("--server").arg(built.join("tidegate"));
    command
}
