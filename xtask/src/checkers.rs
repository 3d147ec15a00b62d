//! The model checkers: loom and shuttle replace the limiter's atomics through a `--cfg` flag.
//!
//! Tests that need to see inside the crate live in `src/<kind>_tests.rs`, tests of what it shows in
//! `tests/<kind>.rs`. Under the flag no other test may run: it would use the replaced atomics
//! outside the checker.

use std::path::Path;
use std::process::Command;

use crate::repo::Repo;

/// Where the tests of one checker are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// A module of the library.
    Inside,
    /// A file of its own.
    Outside,
}

impl Home {
    /// The places where the crate in `directory` has tests of this kind.
    pub(crate) fn find(directory: &Path, kind: &str) -> Vec<Self> {
        let inside = directory.join(format!("src/{kind}_tests.rs")).is_file();
        let outside = directory.join(format!("tests/{kind}.rs")).is_file();
        let inside = inside.then_some(Self::Inside);
        inside.into_iter().chain(outside.then_some(Self::Outside)).collect()
    }

    /// What cargo must be told to build them.
    pub(crate) fn target(self, kind: &str) -> Vec<String> {
        match self {
            Self::Inside => vec!["--lib".to_owned()],
            Self::Outside => vec!["--test".to_owned(), kind.to_owned()],
        }
    }

    /// What the test program must be told to run them and no other.
    pub(crate) fn filters(self, kind: &str, filters: &[String]) -> Vec<String> {
        let module = format!("{kind}_tests::");
        match self {
            Self::Outside => filters.to_vec(),
            Self::Inside if filters.is_empty() => vec![module],
            Self::Inside => filters.iter().map(|filter| format!("{module}{filter}")).collect(),
        }
    }
}

/// Cargo with the flag of a checker, in a build directory of its own.
pub(crate) fn cargo(repo: &Repo, kind: &str) -> Command {
    let mut command = repo.cargo_apart(kind);
    command.env("RUSTFLAGS", format!("--cfg {kind}"));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_tests_of_the_checker_run() {
        let filter = ["batch".to_owned()];
        assert_eq!(Home::Inside.filters("loom", &[]), ["loom_tests::"]);
        assert_eq!(Home::Inside.filters("loom", &filter), ["loom_tests::batch"]);
        assert_eq!(Home::Outside.filters("loom", &filter), filter);
        assert_eq!(Home::Outside.target("loom"), ["--test", "loom"]);
    }
}
