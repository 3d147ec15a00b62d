//! The programs that some benchmarks start: our server, and another limiter's.

use std::ffi::OsString;
use std::process::{Command, Stdio};

use crate::failure::{Failure, Result};
use crate::repo::Repo;
use crate::setup;

/// The other limiter's server, and the version that is measured.
const PEER: [&str; 2] = ["throttlecrab-server", "0.4.40"];

/// How our server is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Build {
    /// As it is shipped: for figures.
    Shipped,
    /// As the tests build it: shows that everything runs.
    Quick,
}

/// Whether a benchmark starts our server.
pub(super) fn are_needed(name: &str) -> bool {
    ["server", "soak", "growth"].contains(&name)
}

/// Builds our server, and says where it is as an argument.
pub(super) fn built(repo: &Repo, build: Build) -> Result<[OsString; 2]> {
    let profile = match build {
        Build::Shipped => "dist",
        Build::Quick => "release",
    };
    let mut command = repo.cargo();
    command.args(["build", "-p", "tidegate-server", "--profile", profile]);
    command.env("CARGO_TARGET_DIR", &repo.target);
    if !succeeds(command) {
        return Err(Failure::check("the server does not build"));
    }
    Ok(["--tidegate".into(), repo.target.join(profile).join("tidegate").into_os_string()])
}

/// What cargo says stays off the standard output, which is the benchmark's.
fn succeeds(mut command: Command) -> bool {
    command.stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Installs the other limiter's server, once. Without it there is nothing to compare with, and the
/// rest is measured all the same.
pub(super) fn peers(repo: &Repo) -> [OsString; 2] {
    let place = repo.target.join("peers");
    let [name, version] = PEER;
    if !place.join("bin").join(name).exists() {
        // It reads descriptions of a protocol when it is built.
        let ready = setup::ensure(&[&setup::PROTOC]);
        let mut command = repo.cargo_apart("peers-build");
        command.args(["install", "--locked", "--version", version, "--root"]).arg(&place);
        command.arg(name);
        if ready.is_err() || !succeeds(command) {
            eprintln!("{name} {version} cannot be installed here; it is left out");
        }
    }
    ["--peers".into(), place.into_os_string()]
}
