//! `cargo xtask bench`: runs the measurements of `bench/`, a workspace of its own.

mod json;
mod programs;

use crate::child;
use crate::failure::{Failure, Result};
use crate::repo::Repo;
use crate::setup;

/// The benchmarks of `bench/`, by name.
const NAMES: [&str; 9] =
    ["decide", "region", "bounded", "globe", "capacity", "simulate", "server", "soak", "growth"];

/// `cargo xtask bench <name> [args]`.
pub(crate) fn command(repo: &Repo, args: &[String]) -> Result<()> {
    // Looked at here, because the benchmark itself could say it only after minutes of building.
    match args.first() {
        None => {
            return Err(Failure::usage("which benchmark? For example: cargo xtask bench decide"));
        }
        Some(name) if !NAMES.contains(&name.as_str()) => {
            let names = NAMES.join(", ");
            return Err(Failure::usage(format!("no benchmark `{name}`; there is: {names}")));
        }
        Some(_) => {}
    }
    setup::ensure(&needs(args))?;
    let mut command = repo.cargo_apart("bench");
    command.args(["run", "--release", "--manifest-path", "bench/Cargo.toml", "--"]).args(args);
    let is_about_help = args.iter().any(|arg| arg == "--help" || arg == "-h");
    if args.first().is_some_and(|name| programs::are_needed(name)) && !is_about_help {
        command.args(programs::built(repo, programs::Build::Shipped)?);
        if args.first().is_some_and(|name| name == "server") && !counts(args) {
            command.args(programs::peers(repo));
        }
    }
    // The output belongs to the benchmark alone: `--json` may be read by another program.
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        // It has said itself what it does not understand.
        Ok(status) if status.code() == Some(2) => {
            Err(Failure::usage("see `cargo xtask bench <name> --help`"))
        }
        Ok(status) => Err(Failure::check(format!("the benchmark failed ({status})"))),
        Err(error) => Err(Failure::machine(format!("cargo: {error}"))),
    }
}

/// Whether instructions are counted: of ours alone, and without a store.
fn counts(args: &[String]) -> bool {
    args.iter().any(|arg| arg == "--callgrind")
}

/// The programs that a benchmark starts.
fn needs(args: &[String]) -> Vec<&'static setup::Need> {
    if counts(args) {
        return vec![&setup::VALGRIND];
    }
    let mut needs = Vec::new();
    let is_one_of = |names: &[&str]| args.first().is_some_and(|name| names.contains(&&**name));
    let other_redis = args.iter().any(|arg| arg.starts_with("--redis-server"));
    if !is_one_of(&["decide", "globe", "simulate"]) && !other_redis {
        needs.push(&setup::REDIS);
    }
    if !is_one_of(&["decide", "region", "bounded", "simulate"]) {
        needs.push(&setup::MARIADB);
    }
    needs
}

/// Builds the benchmarks without the peers, runs each case for a moment, and reads the lines.
pub(crate) fn smoke(repo: &Repo) -> Result<()> {
    setup::ensure(&[&setup::REDIS, &setup::MARIADB])?;
    NAMES.iter().try_for_each(|name| smoke_one(repo, name))
}

fn smoke_one(repo: &Repo, name: &str) -> Result<()> {
    let mut command = repo.cargo_apart("bench");
    command.args(["run", "--release", "--no-default-features"]);
    command.args(["--manifest-path", "bench/Cargo.toml", "--", name, "--smoke", "--json"]);
    if programs::are_needed(name) {
        command.args(programs::built(repo, programs::Build::Quick)?);
    }
    let mut good: u64 = 0;
    let mut bad = Vec::new();
    let ended = child::show(command, |line| {
        if line.starts_with('{') {
            match json::check(line) {
                Ok(()) => good = good.saturating_add(1),
                Err(reason) => bad.push(format!("{reason}: {line}")),
            }
        }
    })?;
    if !ended.is_success() {
        return Err(Failure::check(format!("bench {name} failed ({})", ended.describe())));
    }
    if let Some(first) = bad.first() {
        let bad = bad.len();
        return Err(Failure::check(format!("bench {name}: {bad} bad JSON lines, first: {first}")));
    }
    if good == 0 {
        return Err(Failure::check(format!("bench {name} printed no JSON line")));
    }
    println!("{name}: {good} JSON lines, all in the shared shape");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counting_needs_no_store() {
        let needed = |line: &str| {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            format!("{:?}", needs(&args))
        };
        let of = |needs: &[&setup::Need]| format!("{needs:?}");
        assert_eq!(needed("server --callgrind"), of(&[&setup::VALGRIND]));
        assert_eq!(needed("decide --callgrind"), of(&[&setup::VALGRIND]));
        assert_eq!(needed("server --smoke"), of(&[&setup::REDIS, &setup::MARIADB]));
        assert_eq!(needed("region --redis-server /a"), of(&[]));
        assert_eq!(needed("decide"), of(&[]));
    }
}
