//! The steps of `cargo xtask test`, in the order in which they run: quick ones first.

use std::ffi::OsStr;
use std::process::Command;

use crate::bench;
use crate::chaos;
use crate::checkers::{self, Home};
use crate::child;
use crate::failure::{Failure, Result};
use crate::fleet;
use crate::fuzz;
use crate::packages;
use crate::promises;
use crate::repo::Repo;
use crate::setup::{self, Need};
use crate::tally::Tally;
use crate::tidy;

/// How long the `fuzz` step runs each target; the command `fuzz` runs longer.
const FUZZ_SECONDS: u64 = 10;

/// One step.
pub(crate) struct Step {
    /// The word for `--only`.
    pub(crate) name: &'static str,
    /// What it does, for the person who waits.
    pub(crate) about: &'static str,
    /// Programs that must be there before anything is built.
    pub(crate) needs: &'static [&'static Need],
    /// The work. An error is a failure of the step, not of the run.
    pub(crate) run: fn(&Repo) -> Result<Tally>,
}

/// Every step.
pub(crate) const STEPS: [Step; 15] = [
    Step { name: "fmt", about: "the format is rustfmt's", needs: &[], run: fmt },
    Step { name: "tidy", about: "the habits a machine can check", needs: &[], run: tidy },
    Step { name: "clippy", about: "lints on every target, no warnings", needs: &[], run: clippy },
    Step { name: "doc", about: "the documentation builds, no warnings", needs: &[], run: doc },
    Step {
        name: "unit",
        about: "unit, property, allocation and integration tests",
        needs: &[&setup::REDIS, &setup::MARIADB, &setup::PROMETHEUS],
        run: unit,
    },
    Step {
        name: "sdk",
        about: "published clients, unmodified, and random requests from the OpenAPI document",
        needs: &[&setup::NODE, &setup::NPM, &setup::PYTHON, &setup::REDIS],
        run: sdk,
    },
    Step {
        name: "browser",
        about: "the page of `tidegate simulate --report`, in a real browser",
        needs: &[&setup::NODE, &setup::NPM, &setup::CHROMIUM],
        run: browser,
    },
    Step {
        name: "doctest",
        about: "the examples in the docs run",
        needs: &[&setup::REDIS, &setup::MARIADB],
        run: doctest,
    },
    Step {
        name: "fleet",
        about: "two regions behind load balancers are upgraded, restarted, killed and cut off",
        needs: &[&setup::REDIS, &setup::MARIADB, &setup::HAPROXY],
        run: fleet::run,
    },
    Step {
        name: "sim",
        about: "1000 seeds of worlds that break, the mistakes they must find, and PROMISES.md",
        needs: &[],
        run: sim,
    },
    Step {
        name: "chaos",
        about: "two minutes of real servers that break, and mistakes that must be found",
        needs: &[&setup::REDIS, &setup::MARIADB, &setup::FAKETIME],
        run: chaos::step,
    },
    Step {
        name: "loom",
        about: "interleavings of few threads, as far as loom tells them apart",
        needs: &[],
        run: loom,
    },
    Step { name: "shuttle", about: "random schedules of many threads", needs: &[], run: shuttle },
    Step {
        name: "fuzz",
        about: "ten seconds of fuzzing for each decoder",
        needs: &[&setup::CXX],
        run: fuzz,
    },
    Step {
        name: "bench-smoke",
        about: "the benchmarks build, speak valid JSON, and hold to their own tests",
        needs: &[],
        run: bench_smoke,
    },
];

/// Runs commands that are one check together: all must succeed.
fn check(commands: Vec<Command>) -> Result<Tally> {
    let mut held = true;
    for command in commands {
        held &= child::show(command, |_| {})?.is_success();
    }
    Ok(Tally::of_check(held))
}

/// Runs `cargo test` and counts.
fn tests(mut command: Command, args: &[impl AsRef<OsStr>]) -> Result<Tally> {
    command.arg("test").args(args);
    let mut tally = Tally::default();
    let ended = child::show(command, |line| tally.read(line))?;
    tally.close(ended.is_success());
    Ok(tally)
}

/// The workspace and the two workspaces beside it.
fn fmt(repo: &Repo) -> Result<Tally> {
    let mut all = repo.cargo();
    all.args(["fmt", "--all", "--check"]);
    let mut commands = vec![all];
    for manifest in ["bench/Cargo.toml", "fuzz/Cargo.toml"] {
        if repo.has(manifest) {
            let mut apart = repo.cargo();
            apart.args(["fmt", "--manifest-path", manifest, "--check"]);
            commands.push(apart);
        }
    }
    check(commands)
}

/// The same rules as `cargo xtask tidy`.
fn tidy(repo: &Repo) -> Result<Tally> {
    tidy::command(repo, &[])?;
    Ok(Tally::of_check(true))
}

/// The bans of `clippy.toml` and the lints of the workspace, in tests as well.
fn clippy(repo: &Repo) -> Result<Tally> {
    let mut command = repo.cargo();
    command.args(["clippy", "--workspace", "--all-targets", "--all-features"]);
    command.args(["--", "-D", "warnings"]);
    // The two targets that `--all-targets` leaves out, because `cargo test` should.
    let mut apart = repo.cargo();
    apart.args(["clippy", "--workspace", "--all-features", "--test", "sdk", "--test", "browser"]);
    apart.args(["--", "-D", "warnings"]);
    check(vec![command, apart])
}

/// Broken links in the documentation are warnings, and warnings are errors.
fn doc(repo: &Repo) -> Result<Tally> {
    let mut command = repo.cargo();
    command.env("RUSTDOCFLAGS", "-D warnings");
    command.args(["doc", "--workspace", "--all-features", "--no-deps"]);
    check(vec![command])
}

/// Every test that is not an example: `--all-targets` leaves those out.
fn unit(repo: &Repo) -> Result<Tally> {
    tests(repo.cargo(), &["--workspace", "--all-features", "--all-targets", "--no-fail-fast"])
}

/// What other people's programs make of the server. Not among the tests of `unit`: these need
/// packages from two registries.
fn sdk(repo: &Repo) -> Result<Tally> {
    with_packages(repo, &packages::SDK, "sdk")
}

/// What people see. Not among the tests of `unit` for the same reason.
fn browser(repo: &Repo) -> Result<Tally> {
    with_packages(repo, &packages::BROWSER, "browser")
}

/// Runs a target that needs packages.
fn with_packages(repo: &Repo, set: &packages::Set, target: &str) -> Result<Tally> {
    let installed = packages::install(repo, set)?;
    let mut cargo = repo.cargo();
    cargo.env(set.variable, installed);
    // Of the whole workspace, as `unit` builds it: so nothing is built twice.
    let args = ["--workspace", "--all-features", "--test", target, "--no-fail-fast", "--"];
    tests(cargo, &[&args[..], &["--show-output", "--test-threads=2"]].concat())
}

/// The examples.
fn doctest(repo: &Repo) -> Result<Tally> {
    tests(repo.cargo(), &["--workspace", "--all-features", "--doc", "--no-fail-fast"])
}

/// In release, where it runs all its seeds.
fn sim(repo: &Repo) -> Result<Tally> {
    let args = ["-p", "tidegate-sim", "--release", "--features", "planted", "--tests"];
    let mut tally = tests(repo.cargo(), &args)?;
    promises::command(repo, &["--check".to_owned()])?;
    tally.add(Tally::of_check(true));
    Ok(tally)
}

/// The limiter's tests for one model checker.
fn checked(repo: &Repo, kind: &str) -> Result<Tally> {
    let homes = Home::find(&repo.root.join("crates/limiter"), kind);
    if homes.is_empty() {
        return Err(Failure::check(format!("the limiter has no tests for {kind}")));
    }
    let mut tally = Tally::default();
    for home in homes {
        let mut args = vec!["-p".to_owned(), "tidegate-limiter".to_owned(), "--release".to_owned()];
        args.extend(home.target(kind));
        args.push("--".to_owned());
        args.extend(home.filters(kind, &[]));
        tally.add(tests(checkers::cargo(repo, kind), &args)?);
    }
    Ok(tally)
}

/// Exhaustive, with the orders in which memory may show itself.
fn loom(repo: &Repo) -> Result<Tally> {
    checked(repo, "loom")
}

/// Random, for mixes that are too large to exhaust.
fn shuttle(repo: &Repo) -> Result<Tally> {
    checked(repo, "shuttle")
}

/// Short; what it learns is kept for the next run.
fn fuzz(repo: &Repo) -> Result<Tally> {
    fuzz::run(repo, &fuzz::Plan { seconds: FUZZ_SECONDS, only: Vec::new() })?;
    Ok(Tally::of_check(true))
}

/// Without the peers, whose crates take minutes to build.
fn bench_smoke(repo: &Repo) -> Result<Tally> {
    bench::smoke(repo)?;
    // What the benchmarks stand on is built already; they themselves need not be quick here.
    let slow = "profile.release.package.tidegate-bench.opt-level=0";
    let args = ["--release", "--no-default-features", "--manifest-path", "bench/Cargo.toml"];
    tests(repo.cargo_apart("bench"), &[&args[..], &["--config", slow]].concat())
}
