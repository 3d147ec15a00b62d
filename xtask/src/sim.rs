//! `cargo xtask sim`: the simulator, built for speed and with the mistakes that it can plant.

use crate::failure::{Failure, Result};
use crate::repo::Repo;

/// `cargo xtask sim [args]`. What the arguments mean, the simulator says itself.
pub(crate) fn command(repo: &Repo, args: &[String]) -> Result<()> {
    let mut command = repo.cargo();
    command.args(["run", "--quiet", "--release", "-p", "tidegate-sim", "--features", "planted"]);
    command.arg("--").args(args);
    // Not through a pipe: a long run shows how far it is.
    match command.status() {
        Ok(status) => match status.code() {
            Some(0) => Ok(()),
            Some(2) => Err(Failure::usage("the simulator did not understand its arguments")),
            _ => Err(Failure::check(format!("the simulator found something ({status})"))),
        },
        Err(error) => Err(Failure::machine(format!("cargo: {error}"))),
    }
}
