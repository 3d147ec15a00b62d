//! Other people's programs: the published clients, schemathesis, and what drives a browser.
//!
//! Promises: the versions of the committed lock files, installed under `target/` once; what is
//! already there in these versions is not installed again.
//! Refuses: to go on with what it could not install. A test that did not run proves nothing.
//! Fails: with what the installer said last, when a registry cannot be reached.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use crate::child;
use crate::failure::{Context, Failure, Result};
use crate::repo::Repo;

/// What the tests of one step need.
pub(crate) struct Set {
    /// How the tests are told where things were installed.
    pub(crate) variable: &'static str,
    /// Where the lock files are.
    locks: &'static str,
    /// Its directory under `target/`.
    place: &'static str,
    kinds: &'static [Kind],
}

/// The published clients, and schemathesis.
pub(crate) const SDK: Set = Set {
    variable: "TIDEGATE_SDK",
    locks: "crates/server/tests/sdk",
    place: "sdk",
    kinds: &[NPM, PIP],
};
/// What drives a browser. The browser itself comes from the system.
pub(crate) const BROWSER: Set = Set {
    variable: "TIDEGATE_BROWSER",
    locks: "crates/server/tests/browser",
    place: "browser",
    kinds: &[NPM],
};

/// Seconds are usual. Past this, a registry does not answer and will not.
const PATIENCE: Duration = Duration::from_secs(300);
/// How much of what an installer said is repeated: the end says why.
const LINES_MAX: usize = 15;

/// One kind of package.
struct Kind {
    /// Its directory in that of its set.
    name: &'static str,
    /// The files that say which versions.
    locks: &'static [&'static str],
    /// Installs in that directory.
    install: fn(&Path) -> Result<()>,
    /// Says which interpreter: packages of another do not fit.
    version: [&'static str; 2],
}

const NPM: Kind = Kind {
    name: "npm",
    locks: &["package.json", "package-lock.json"],
    install: npm,
    version: ["node", "--version"],
};
const PIP: Kind = Kind {
    name: "pip",
    locks: &["requirements.txt"],
    install: pip,
    version: ["python3", "--version"],
};

/// Makes sure that everything is installed, and says where.
pub(crate) fn install(repo: &Repo, set: &Set) -> Result<PathBuf> {
    let (place, locks) = (repo.target.join(set.place), repo.root.join(set.locks));
    for kind in set.kinds {
        let directory = place.join(kind.name);
        let wanted = wanted(&locks, kind)?;
        let stamp = directory.join("installed.txt");
        if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
            println!("{}: the packages are there", kind.name);
            continue;
        }
        let start = Instant::now();
        // Half an installation is worth nothing.
        let _ = fs::remove_dir_all(&directory);
        fs::create_dir_all(&directory).context(directory.display())?;
        for lock in kind.locks {
            let from = locks.join(lock);
            fs::copy(&from, directory.join(lock)).context(from.display())?;
        }
        let files = kind.locks.join(", ");
        println!("{}: installing the packages of {}/{files}", kind.name, set.locks);
        (kind.install)(&directory)?;
        fs::write(&stamp, wanted).context(stamp.display())?;
        println!("{}: installed in {:.1} s", kind.name, start.elapsed().as_secs_f64());
    }
    Ok(place)
}

/// What an installation depends on, as one text.
fn wanted(locks: &Path, kind: &Kind) -> Result<String> {
    let [program, flag] = kind.version;
    let mut command = Command::new(program);
    command.arg(flag);
    let mut text = child::output(command)?;
    for lock in kind.locks {
        let path = locks.join(lock);
        text.push_str(&fs::read_to_string(&path).context(path.display())?);
    }
    Ok(text)
}

/// Exactly what the lock file says, without running what packages would like to run.
fn npm(directory: &Path) -> Result<()> {
    let mut command = Command::new("npm");
    command.current_dir(directory);
    command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]);
    quiet(command)
}

/// Into an environment of its own: the packages of the system are not touched.
fn pip(directory: &Path) -> Result<()> {
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "venv"]).current_dir(directory);
    quiet(make)?;
    let mut command = Command::new(directory.join("venv/bin/python"));
    command.current_dir(directory);
    command.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
    // The list is whole; what it does not name is not wanted.
    command.args(["--no-deps", "--requirement", "requirements.txt"]);
    quiet(command)
}

/// Runs an installer and keeps what it says to itself, unless it fails.
fn quiet(command: Command) -> Result<()> {
    let line = child::line(&command);
    let mut said = Vec::new();
    let ended = child::watch(command, Some(PATIENCE), |text| said.push(text.to_owned()))?;
    if ended.is_success() {
        return Ok(());
    }
    let last = said.len().saturating_sub(LINES_MAX);
    let said = said.split_off(last).join("\n");
    Err(Failure::check(format!(
        "`{line}` failed ({}); can the registry be reached?\n{said}",
        ended.describe()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_installation_says_what_the_installer_said() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no route to the registry >&2; exit 1"]);
        let why = quiet(command).unwrap_err().to_string();
        assert!(why.contains("no route to the registry"), "{why}");
    }

    #[test]
    fn no_lock_file_names_a_registry() {
        let repo = Repo::find().unwrap();
        for set in [SDK, BROWSER] {
            for lock in set.kinds.iter().flat_map(|kind| kind.locks) {
                let text = fs::read_to_string(repo.root.join(set.locks).join(lock)).unwrap();
                assert!(!text.contains("\"resolved\"") && !text.contains("index-url"), "{lock}");
            }
        }
    }

    #[test]
    fn every_python_package_has_one_version() {
        let path = Repo::find().unwrap().root.join(SDK.locks).join("requirements.txt");
        let text = fs::read_to_string(path).unwrap();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            assert_eq!(line.split("==").count(), 2, "{line}");
        }
    }
}
