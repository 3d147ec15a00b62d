//! The step `fleet`: `examples/fleet/fleet drill`, with this program and with the previous one.
//!
//! Promises: what the example checks is what is counted; the previous program is built from the
//! commit that `examples/fleet/previous` names, once.
//! Refuses: to count a drill that was not run as one that passed; to keep half a program, or one
//! that is not what its name says.
//! Fails: without the history of the repository there is no previous program; the drill says that
//! it is skipped, and so does the last line of the run.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::child;
use crate::failure::{Context, Failure, Result};
use crate::repo::Repo;
use crate::tally::{Tally, number_before};

/// Where the example is.
const HOME: &str = "examples/fleet";
/// How the drills say what they cannot do.
const SKIPPED: &str = "SKIPPED: ";

/// Runs all drills.
pub(crate) fn run(repo: &Repo) -> Result<Tally> {
    let place = repo.target.join("fleet");
    fs::create_dir_all(&place).context(place.display())?;
    // First: both programs have the same name in the build directory.
    let previous = previous(repo, &place)?;
    let program = place.join("tidegate");
    keep(&build(repo.cargo(), repo)?, &program)?;
    let mut drills = Command::new(repo.root.join(HOME).join("fleet"));
    drills.arg("drill").arg("--bin").arg(&program);
    match &previous {
        Some(previous) => _ = drills.arg("--previous").arg(previous),
        None => println!("{SKIPPED}this clone has not the commit of {HOME}/previous"),
    }
    let mut last = String::new();
    let ended = child::show(drills, |line| line.clone_into(&mut last))?;
    Ok(tally(&last, ended.is_success()))
}

/// What the last line of the drills says. Drills that were stopped are one failure.
fn tally(last: &str, success: bool) -> Tally {
    let mut tally = Tally::default();
    tally.passed = number_before(last, " passed");
    tally.failed = number_before(last, " failed");
    tally.skipped = number_before(last, " skipped");
    tally.close(success);
    tally
}

/// Builds the program as the other steps do, so that nothing is built twice, and says where it is.
fn build(mut cargo: Command, repo: &Repo) -> Result<PathBuf> {
    cargo.args(["build", "--workspace", "--all-features", "--bin", "tidegate"]);
    cargo.env("CARGO_TARGET_DIR", &repo.target);
    if !child::show(cargo, |_| {})?.is_success() {
        return Err(Failure::check("`tidegate` does not build"));
    }
    Ok(repo.target.join("debug/tidegate"))
}

/// Keeps a copy of a program. It has its name when it is whole: who is stopped meanwhile leaves
/// nothing that looks like it. And a copy that runs cannot be written to, only replaced.
fn keep(from: &Path, to: &Path) -> Result<()> {
    let unfinished = to.with_extension("tmp");
    fs::copy(from, &unfinished).context(from.display())?;
    fs::rename(&unfinished, to).context(to.display())
}

/// The previous program, if the commit is here.
fn previous(repo: &Repo, place: &Path) -> Result<Option<PathBuf>> {
    let name = repo.root.join(HOME).join("previous");
    let commit = fs::read_to_string(&name).context(name.display())?.trim().to_owned();
    let program = place.join(format!("tidegate-{commit}"));
    if program.is_file() {
        println!("the program of {commit} is there");
        return Ok(Some(program));
    }
    let source = place.join("previous");
    let _ = fs::remove_dir_all(&source);
    fs::create_dir_all(&source).context(source.display())?;
    if !unpack(repo, &commit, &source) {
        return Ok(None);
    }
    mark(&source.join("Cargo.toml"), &commit)?;
    let mut cargo = repo.cargo();
    cargo.current_dir(&source);
    let built = build(cargo, repo)?;
    let mut ask = Command::new(&built);
    ask.arg("--version");
    if !child::output(ask)?.contains(&mark_of(&commit)) {
        return Err(Failure::check("what was built is not the previous program"));
    }
    keep(&built, &program)?;
    Ok(Some(program))
}

/// What the version of the previous program ends with.
fn mark_of(commit: &str) -> String {
    format!("-previous-{}", commit.get(..7).unwrap_or(commit))
}

/// Gives the previous sources a version of their own. To cargo, two checkouts with equal names and
/// versions are the same packages if they share a build directory: it would take what it built of
/// one for the other.
fn mark(manifest: &Path, commit: &str) -> Result<()> {
    let text = fs::read_to_string(manifest).context(manifest.display())?;
    let marked = marked(&text, &mark_of(commit));
    let marked = marked.ok_or_else(|| Failure::check("the previous sources have no version"))?;
    fs::write(manifest, marked).context(manifest.display())
}

/// The manifest of a workspace, with something behind its version.
fn marked(manifest: &str, mark: &str) -> Option<String> {
    let (before, rest) = manifest.split_once("\nversion = \"")?;
    let (version, after) = rest.split_once('"')?;
    Some(format!("{before}\nversion = \"{version}{mark}\"{after}"))
}

/// Writes the sources of a commit into a directory, and says whether it could.
fn unpack(repo: &Repo, commit: &str, into: &Path) -> bool {
    let archive = into.join("source.tar");
    let mut git = Command::new("git");
    git.current_dir(&repo.root).args(["archive", "--format=tar", "--output"]);
    git.arg(&archive).arg(commit);
    let mut tar = Command::new("tar");
    tar.arg("-xf").arg(&archive).arg("-C").arg(into);
    child::output(git).is_ok() && child::output(tar).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_what_counts() {
        let counted = |last: &str, success| {
            let tally = tally(last, success);
            (tally.passed, tally.failed, tally.skipped)
        };
        assert_eq!(counted("45 passed, 0 failed", true), (45, 0, 0));
        assert_eq!(counted("45 passed, 0 failed, 1 skipped", true), (45, 0, 1));
        assert_eq!(counted("45 passed, 4 failed", false), (45, 4, 0));
        assert_eq!(counted("logs are in /somewhere", false), (0, 1, 0));
        assert_eq!(counted("45 passed, 0 failed", false), (45, 1, 0), "it failed all the same");
        assert_eq!(counted("", true), (0, 1, 0), "nothing was drilled");
    }

    #[test]
    fn a_copy_has_its_name_when_it_is_whole() {
        let place = std::env::temp_dir().join(format!("tidegate-keep-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let (from, to) = (place.join("from"), place.join("tidegate-5b0241d"));
        fs::write(&from, "new").unwrap();
        fs::write(&to, "old").unwrap();
        let missing = keep(&place.join("nothing"), &to).is_err();
        let kept = fs::read_to_string(&to).unwrap();
        keep(&from, &to).unwrap();
        let replaced = fs::read_to_string(&to).unwrap();
        let names = fs::read_dir(&place).unwrap().count();
        fs::remove_dir_all(&place).unwrap();
        assert!(missing && kept == "old" && replaced == "new" && names == 2, "{names}");
    }

    /// The window that drills would choose at that time.
    fn window(unix_seconds: &str) -> String {
        let mut bash = Command::new("bash");
        bash.current_dir(Repo::find().unwrap().root).arg("-c");
        bash.arg(format!(". {HOME}/lib/checks.sh && window {unix_seconds} || echo none"));
        child::output(bash).unwrap().trim().to_owned()
    }

    #[test]
    fn a_window_of_the_drills_has_a_quarter_of_an_hour_left() {
        // 16 November 2026: at noon; then when windows of 24 hours and of 17 end together.
        assert_eq!(window("1794830400"), "24h");
        assert_eq!(window("1794872700"), "24h");
        assert_eq!(window("1794872701"), "23h");
        assert_eq!(window("1794873599"), "23h");
        assert_eq!(window("1794873600"), "24h");
        // All three end when a multiple of 24 * 17 * 23 hours has passed.
        assert_eq!(window("33782399"), "none");
    }

    #[test]
    fn the_previous_sources_are_packages_of_their_own() {
        let text = "[workspace.package]\nversion = \"0.1.0\"\nedition = \"2024\"\n";
        let marked = marked(text, &mark_of("5b0241d80a56")).unwrap();
        assert!(marked.contains("\nversion = \"0.1.0-previous-5b0241d\"\nedition"), "{marked}");
    }

    #[test]
    fn a_commit_that_is_not_here_is_no_previous_program() {
        let place = std::env::temp_dir().join(format!("tidegate-unpack-{}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        let unpacked = unpack(&Repo::find().unwrap(), &"0".repeat(40), &place);
        fs::remove_dir_all(&place).unwrap();
        assert!(!unpacked);
    }

    /// The fenced blocks of a text, as (language, lines).
    fn blocks(text: &str) -> Vec<(&str, Vec<&str>)> {
        let mut blocks = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(language) = line.trim_start().strip_prefix("```") {
                let body = lines.by_ref().map(str::trim).take_while(|it| *it != "```").collect();
                blocks.push((language, body));
            }
        }
        blocks
    }

    /// Everything the example consists of.
    fn example() -> String {
        let repo = Repo::find().unwrap();
        let files = repo.files().unwrap();
        let mine = files.iter().filter(|path| path.starts_with(HOME));
        mine.map(|path| fs::read_to_string(repo.root.join(path)).unwrap()).collect()
    }

    #[test]
    fn the_guides_say_what_the_example_does() {
        let (root, example) = (Repo::find().unwrap().root, example());
        for guide in ["docs/guide/fleet.md", "docs/guide/upgrading.md"] {
            let text = fs::read_to_string(root.join(guide)).unwrap();
            let mut seen = 0_u32;
            for (language, lines) in blocks(&text) {
                // What a command prints is not in the example, and is no command.
                let is_command = |line: &&str| language != "console" || line.starts_with("$ ");
                for line in lines.into_iter().filter(is_command) {
                    let line = line.trim_start_matches("$ ").trim();
                    assert!(example.contains(line), "{guide}: `{line}` is not in {HOME}");
                    seen += 1;
                }
            }
            assert!(seen > 3, "{guide} has {seen} lines of the example");
        }
    }

    #[test]
    fn rights_are_those_of_the_documents() {
        let root = Repo::find().unwrap().root;
        for (file, document) in [
            ("users.sql", "docs/globe.md"),
            ("rights.sql", "docs/globe.md"),
            ("users.acl", "docs/redis.md"),
        ] {
            let document = fs::read_to_string(root.join(document)).unwrap();
            let text = fs::read_to_string(root.join(HOME).join(file)).unwrap();
            for line in text.lines().filter(|line| line.contains("GRANT") || line.contains("~tg")) {
                let said = line.replace("<REDIS_PASSWORD>", "secret");
                assert!(document.contains(&said), "{file}: {line}");
            }
        }
    }
}
