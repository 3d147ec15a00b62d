//! An oracle that was never seen to fail proves nothing.

use std::collections::BTreeSet;
use std::path::Path;

/// Shown what they must not let pass in `src/shown.rs` and `src/span.rs`.
const SHOWN: [&str; 12] = [
    "claims",
    "feedback",
    "namesake",
    "overshoot",
    "own rows",
    "payload",
    "refusal",
    "refused",
    "span",
    "trimmed",
    "unheeded",
    "useless",
];

/// The names that the sources give to what they see.
fn names() -> std::io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                names_in(&std::fs::read_to_string(&path)?, &mut names);
            }
        }
    }
    Ok(names)
}

fn names_in(text: &str, names: &mut BTreeSet<String>) {
    // At once, by a variable, or with what is wrong.
    for mark in [".broken(", "let oracle = ", ".or(Some(("] {
        for rest in text.split(mark).skip(1) {
            let statement = rest.split(';').next().unwrap_or_default();
            let named = mark == "let oracle = ";
            let quoted = statement.split('"').skip(1).step_by(2);
            if named || statement.trim_start().starts_with('"') {
                names.extend(quoted.take(if named { 2 } else { 1 }).map(str::to_owned));
            }
        }
    }
}

#[test]
fn oracles_are_found_in_the_sources() {
    let names = names().unwrap();
    for name in ["knowledge", "strict", "view above truth", "credit", "settled"] {
        assert!(names.contains(name), "{name}: {names:?}");
    }
}

/// By a planted mistake, or by a test.
#[cfg(feature = "planted")]
#[test]
fn every_oracle_was_seen_to_fail() {
    use tidegate_sim::Options;
    use tidegate_sim::canaries::{CANARIES, run_planted};

    let mut met: BTreeSet<String> = SHOWN.iter().map(|name| (*name).to_owned()).collect();
    for (mistake, seed) in CANARIES {
        let report = run_planted(Options::of(seed), Some(mistake));
        met.extend(report.broken.map(|broken| broken.oracle.to_owned()));
    }
    let unmet: BTreeSet<String> = names().unwrap().difference(&met).cloned().collect();
    assert_eq!(unmet, BTreeSet::new(), "never seen to fail");
}
