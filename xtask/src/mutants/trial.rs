//! A trial: the tests that a mutant must not get past, built first and then run under a time limit.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::checkers::{self, Home};
use crate::child;
use crate::failure::{Context, Failure, Result};
use crate::repo::Repo;

/// How the tests are built.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    /// The unit tests of the crate.
    Lib,
    /// One file of its `tests/`.
    Test(String),
    /// The tests of a model checker.
    Checked(&'static str),
}

/// Which tests to run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trial {
    kind: Kind,
    filters: Vec<String>,
}

/// How a run of tests ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// All passed; this many.
    Passed(u64),
    /// At least one did not; the words say which.
    Failed(String),
    /// They did not end in time.
    OutOfTime,
}

impl Trial {
    /// Reads the value of `caught by`.
    pub(super) fn parse(text: &str) -> std::result::Result<Self, String> {
        let mut words = text.split_whitespace().map(str::to_owned);
        let kind = match words.next().as_deref() {
            Some("--lib") => Kind::Lib,
            Some("--test") => Kind::Test(words.next().ok_or("`--test` needs a name")?),
            Some("loom") => Kind::Checked("loom"),
            Some("shuttle") => Kind::Checked("shuttle"),
            _ => return Err("`--lib`, `--test NAME`, `loom` or `shuttle` come first".to_owned()),
        };
        Ok(Self { kind, filters: words.collect() })
    }

    /// Builds the tests of the crate that holds `file`; the program to run.
    ///
    /// # Errors
    /// When the build fails, with what the compiler said.
    pub(super) fn build(&self, repo: &Repo, file: &str) -> Result<PathBuf> {
        let (directory, package) = package_of(&repo.root, file)?;
        let mut command = match &self.kind {
            Kind::Lib | Kind::Test(_) => repo.cargo_apart("plain"),
            Kind::Checked(kind) => checkers::cargo(repo, kind),
        };
        command.args(["test", "--no-run", "-p", &package]);
        match &self.kind {
            Kind::Lib => command.arg("--lib"),
            Kind::Test(name) => command.args(["--test", name]),
            Kind::Checked(kind) => {
                let home = Home::find(&repo.root.join(&directory), kind).first().copied();
                let none = || Failure::check(format!("{directory} has no tests for {kind}"));
                command.arg("--release").args(home.ok_or_else(none)?.target(kind))
            }
        };
        let output = child::output(command)?;
        let program = output.lines().find_map(executable).ok_or_else(|| {
            Failure::check(format!("cargo built no test program in {directory}:\n{output}"))
        })?;
        Ok(repo.root.join(program))
    }

    /// The names to run, as the test program wants them.
    fn filters(&self, directory: &Path) -> Vec<String> {
        match self.kind {
            Kind::Checked(kind) => Home::find(directory, kind)
                .first()
                .map_or_else(Vec::new, |home| home.filters(kind, &self.filters)),
            Kind::Lib | Kind::Test(_) => self.filters.clone(),
        }
    }

    /// Runs the tests.
    pub(super) fn run(&self, program: &Path, directory: &Path, limit: Duration) -> Result<Outcome> {
        let mut command = Command::new(program);
        command.args(self.filters(directory)).current_dir(directory);
        // A failing input of one mistake must not help to catch the next.
        command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1").env("RUST_BACKTRACE", "0");
        let mut failed: Vec<String> = Vec::new();
        let mut passed: u64 = 0;
        let ended = child::watch(command, Some(limit), |line| {
            match line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) {
                Some((_, "ok")) => passed = passed.saturating_add(1),
                Some((name, "FAILED")) => failed.push(name.to_owned()),
                _ => {}
            }
        })?;
        Ok(match ended.status {
            None => Outcome::OutOfTime,
            Some(status) if status.success() => Outcome::Passed(passed),
            Some(status) => Outcome::Failed(match failed.as_slice() {
                [] => status.to_string(),
                [one] => one.clone(),
                [first, rest @ ..] => format!("{first} and {} more", rest.len()),
            }),
        })
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Lib => f.write_str("--lib")?,
            Kind::Test(name) => write!(f, "--test {name}")?,
            Kind::Checked(flag) => f.write_str(flag)?,
        }
        self.filters.iter().try_for_each(|filter| write!(f, " {filter}"))
    }
}

/// The directory of the crate that holds a file: everything before `src/` or `tests/`.
pub(super) fn directory_of(file: &str) -> &str {
    let before = |part: &str| file.split_once(part).map(|(before, _)| before);
    before("/src/").or_else(|| before("/tests/")).unwrap_or(".")
}

/// The directory and the package name of the crate that holds a file.
fn package_of(root: &Path, file: &str) -> Result<(String, String)> {
    let directory = directory_of(file);
    let manifest = root.join(directory).join("Cargo.toml");
    let text = fs::read_to_string(&manifest).context(manifest.display())?;
    let name = text.lines().find_map(|line| line.strip_prefix("name = \""));
    let name = name.and_then(|rest| rest.split('"').next());
    let name = name.ok_or_else(|| Failure::check(format!("{}: no name", manifest.display())))?;
    Ok((directory.to_owned(), name.to_owned()))
}

/// The program in `Executable unittests src/lib.rs (target/debug/deps/limiter-0a1b)`.
fn executable(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("Executable ")?;
    rest.rsplit_once('(')?.1.strip_suffix(')')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trials_are_read_and_shown() {
        for text in ["--lib window:: key::", "--test model", "loom evict", "shuttle"] {
            assert_eq!(Trial::parse(text).unwrap().to_string(), text);
        }
        assert!(Trial::parse("--test").is_err());
        assert!(Trial::parse("").is_err());
    }

    #[test]
    fn the_program_is_found_in_what_cargo_prints() {
        let line = "  Executable unittests src/lib.rs (target/debug/deps/a-01)";
        assert_eq!(executable(line), Some("target/debug/deps/a-01"));
        assert_eq!(executable("    Finished `test` profile"), None);
    }

    #[test]
    fn the_crate_of_a_file_is_where_its_sources_begin() {
        assert_eq!(directory_of("crates/limiter/src/cell/tests.rs"), "crates/limiter");
        assert_eq!(directory_of("src/lib.rs"), ".");
    }
}
