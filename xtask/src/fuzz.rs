//! `cargo xtask fuzz`: libFuzzer on the stable toolchain.
//!
//! Coverage comes from LLVM's own pass, so no nightly and no sanitizer is needed. What the fuzzer
//! learns stays in `target/fuzz/corpus`; the seeds in `fuzz/seeds/<target>` are only read.

use std::collections::VecDeque;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::child;
use crate::failure::{Context, Failure, Result};
use crate::repo::Repo;
use crate::setup;

/// How long each target runs when nobody says otherwise.
const SECONDS: u64 = 60;
/// How long past its time a fuzzer may live: it reads its corpus before its own clock starts.
const GRACE: Duration = Duration::from_secs(120);
/// Lines of the fuzzer's output that are shown when it finds something.
const TAIL: usize = 80;

/// Coverage counters, tables and compares for libFuzzer, and asserts that stay on.
const RUSTFLAGS: &str = "--cfg fuzzing \
    -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";

/// What to fuzz and for how long.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Seconds for each target.
    pub(crate) seconds: u64,
    /// The targets; all of them when empty.
    pub(crate) only: Vec<String>,
}

impl Plan {
    /// Reads the command line.
    fn parse(args: &[String]) -> Result<Self> {
        let mut plan = Self { seconds: SECONDS, only: Vec::new() };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            if arg == "--seconds" {
                let number = rest.next().and_then(|text| text.parse().ok());
                plan.seconds =
                    number.ok_or_else(|| Failure::usage("`--seconds` needs a whole number"))?;
            } else if arg.starts_with('-') {
                return Err(Failure::usage(format!("`fuzz` takes no argument `{arg}`")));
            } else {
                plan.only.push(arg.clone());
            }
        }
        Ok(plan)
    }
}

/// `cargo xtask fuzz`.
pub(crate) fn command(repo: &Repo, args: &[String]) -> Result<()> {
    let plan = Plan::parse(args)?;
    setup::ensure(&[&setup::CXX])?;
    run(repo, &plan)
}

/// Builds the targets and runs each.
pub(crate) fn run(repo: &Repo, plan: &Plan) -> Result<()> {
    let targets = choose(&targets(&repo.root)?, &plan.only)?;
    let triple = host()?;
    let mut build = repo.cargo_apart("fuzz");
    build.env("RUSTFLAGS", RUSTFLAGS).args(["build", "--release", "--target", &triple]);
    build.args(["--manifest-path", "fuzz/Cargo.toml"]);
    if !child::show(build, |_| {})?.is_success() {
        return Err(Failure::check("the fuzz targets do not build"));
    }
    let mut failed = Vec::new();
    for target in targets {
        if !run_target(repo, &triple, &target, plan.seconds)? {
            failed.push(target);
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::check(format!("the fuzzer stopped: {}", failed.join(", "))))
}

/// Every target, by the name of its file.
fn targets(root: &Path) -> Result<Vec<String>> {
    let directory = root.join("fuzz/fuzz_targets");
    let mut names = Vec::new();
    for entry in fs::read_dir(&directory).context(directory.display())? {
        let path = entry.context(directory.display())?.path();
        if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

/// The wanted targets.
fn choose(all: &[String], only: &[String]) -> Result<Vec<String>> {
    if let Some(unknown) = only.iter().find(|name| !all.contains(name)) {
        let known = all.join(", ");
        return Err(Failure::usage(format!("no fuzz target `{unknown}`; there are: {known}")));
    }
    if all.is_empty() {
        return Err(Failure::check("there are no fuzz targets in fuzz/fuzz_targets"));
    }
    Ok(if only.is_empty() { all.to_vec() } else { only.to_vec() })
}

/// The triple of this machine. Only when it is named are build scripts built without coverage.
fn host() -> Result<String> {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    command.arg("-vV");
    let text = child::output(command)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| Failure::machine("`rustc -vV` names no host"))
}

/// Runs one target; false when it found something.
fn run_target(repo: &Repo, triple: &str, target: &str, seconds: u64) -> Result<bool> {
    let base = repo.target.join("fuzz");
    let corpus = base.join("corpus").join(target);
    let artifacts = base.join("artifacts").join(target);
    for directory in [&corpus, &artifacts] {
        fs::create_dir_all(directory).context(directory.display())?;
    }
    let mut command = Command::new(base.join(triple).join("release").join(target));
    command.current_dir(&repo.root).arg(&corpus);
    let seeds = repo.root.join("fuzz/seeds").join(target);
    if seeds.is_dir() {
        command.arg(seeds);
    }
    command.arg(format!("-max_total_time={seconds}"));
    command.arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args(["-print_final_stats=1", "-timeout=10"]);
    println!("fuzzing {target} for {seconds} s");
    let mut tail: VecDeque<String> = VecDeque::new();
    let mut executions = None;
    let limit = Duration::from_secs(seconds).saturating_add(GRACE);
    let ended = child::watch(command, Some(limit), |line| {
        executions = executions.or(executed(line));
        if tail.len() == TAIL {
            tail.pop_front();
        }
        tail.push_back(line.to_owned());
    })?;
    let count = executions.map_or_else(|| "unknown".to_owned(), |count| count.to_string());
    let took = ended.took.as_secs_f64();
    println!("{target}: {count} executions in {took:.1} s, {}", ended.describe());
    // A fuzzer that executed nothing has a broken build, whatever its exit status says.
    let held = ended.is_success() && executions.is_some_and(|count| count > 0);
    if !held {
        tail.iter().for_each(|line| println!("    {line}"));
        println!("inputs that did this are in {}", artifacts.display());
    }
    Ok(held)
}

/// The number of executions, from libFuzzer's final statistics.
fn executed(line: &str) -> Option<u64> {
    line.strip_prefix("stat::number_of_executed_units:")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_command_line_names_seconds_and_targets() {
        let plan = Plan::parse(&words("--seconds 5 http_body")).unwrap();
        assert_eq!((plan.seconds, plan.only), (5, words("http_body")));
        assert_eq!(Plan::parse(&[]).unwrap().seconds, SECONDS);
        assert!(Plan::parse(&words("--seconds -1")).is_err());
        assert!(Plan::parse(&words("--minutes 1")).is_err());
    }

    #[test]
    fn unknown_targets_are_refused() {
        let all = words("http_body key_encoding");
        assert_eq!(choose(&all, &[]).unwrap(), all);
        assert_eq!(choose(&all, &words("key_encoding")).unwrap(), words("key_encoding"));
        assert_eq!(choose(&all, &words("key")).unwrap_err().code, 2);
        assert_eq!(choose(&[], &[]).unwrap_err().code, 1);
    }

    #[test]
    fn executions_are_read_from_the_statistics() {
        assert_eq!(executed("stat::number_of_executed_units: 123456"), Some(123_456));
        assert_eq!(executed("#2 INITED cov: 3"), None);
    }

    #[test]
    fn this_machine_has_a_triple() {
        assert!(host().unwrap().contains('-'));
    }
}
