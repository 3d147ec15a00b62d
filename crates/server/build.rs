//! Finds out from which commit the server is built, for `tidegate --version` and the metrics.
//!
//! Promises: what is said in `TIDEGATE_COMMIT` holds; else git is asked, if these sources are its
//! own. It runs again when another commit is checked out or made, not at every build.
//! Refuses: the commit of a repository that only happens to lie around these sources.
//! Fails: never. Without git or a history the program says `unknown`.

use std::env;
use std::path::Path;
use std::process::Command;

/// Where this package is in its own repository.
const PREFIX: &str = "crates/server/";

fn main() {
    // One of these has to be there always: without any, every change to a source is a reason.
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=TIDEGATE_COMMIT");
    // Who said it is heard by the compiler itself.
    if env::var_os("TIDEGATE_COMMIT").is_some_and(|said| !said.is_empty()) {
        return;
    }
    if let Some(commit) = commit() {
        println!("cargo::rustc-env=TIDEGATE_COMMIT={commit}");
    }
}

/// The first digits of the commit, if git knows it.
fn commit() -> Option<String> {
    git(&["rev-parse", "--show-prefix"]).filter(|prefix| prefix == PREFIX)?;
    // In a worktree, HEAD lies in a directory of its own and branches in that of all.
    watch(&git(&["rev-parse", "--git-path", "HEAD"])?);
    if let Some(branch) = git(&["symbolic-ref", "--quiet", "HEAD"]) {
        watch(&git(&["rev-parse", "--git-path", &branch])?);
    }
    git(&["rev-parse", "--short=7", "HEAD"])
}

/// Runs again when this changes. A branch may have no file, because git has packed it: then its
/// directory changes when it gets one. A path that is not there would be a reason each time.
fn watch(path: &str) {
    let there = Path::new(path).ancestors().find(|path| path.exists());
    if let Some(path) = there {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// What git prints, here, and not where a hook of it would have us look.
fn git(args: &[&str]) -> Option<String> {
    let mut git = Command::new("git");
    git.args(args).env_remove("GIT_DIR").env_remove("GIT_WORK_TREE");
    let output = git.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
