//! `docs/invariants.md`, `PROMISES.md` and the code speak of the same invariants and tests.
//!
//! A line of the list: ``- **INV-4** sentence. Test: `path/of/file.rs` `name_of_test` ``, with as
//! many files and names as needed; each name must be a function of the file named before it.

use std::collections::BTreeMap;

use super::{Finding, Tree, identifiers, is_rust};

/// Where the invariants are listed.
const LIST: &str = "docs/invariants.md";
/// What is promised because of them.
const PROMISES: &str = "PROMISES.md";

/// Every invariant that the code or a promise mentions is listed.
pub(super) fn mentions(tree: &Tree) -> Vec<Finding> {
    let (listed, _) = listed(tree);
    let mut found = Vec::new();
    let is_code = |path: &str| is_rust(path) && path.starts_with("crates/");
    let both = tree.iter().filter(|(path, _)| is_code(path) || *path == PROMISES);
    for (path, text) in both {
        for (index, line) in text.lines().enumerate() {
            for number in numbers(line) {
                if !listed.contains_key(&number) {
                    let message = format!("INV-{number} is not listed in {LIST}");
                    found.push(Finding::at(path, index, message));
                }
            }
        }
    }
    found
}

/// Every test that the list or a promise names exists, and no invariant is listed twice.
pub(super) fn tests_exist(tree: &Tree) -> Vec<Finding> {
    let (listed, mut found) = listed(tree);
    for (number, (index, entry)) in listed {
        let Some((_, tests)) = entry.split_once("Test:").or(entry.split_once("Tests:")) else {
            continue;
        };
        let missing = missing_tests(tree, tests).into_iter();
        found.extend(missing.map(|what| Finding::at(LIST, index, format!("INV-{number}: {what}"))));
    }
    for (index, line) in tree.text(PROMISES).unwrap_or_default().lines().enumerate() {
        let missing = missing_of_promise(tree, line).into_iter();
        found.extend(missing.map(|what| Finding::at(PROMISES, index, what)));
    }
    found
}

/// Which files and names are not there, of those that a line of the promises has between back
/// quotes. A name after that of a file is one of its functions; before any, it is in the code.
fn missing_of_promise(tree: &Tree, line: &str) -> Vec<String> {
    let quoted: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
    let is_name = |name: &str| {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        name.contains('_') && name.chars().all(plain)
    };
    let (free, tests) = quoted
        .split_at(quoted.iter().position(|name| name.ends_with(".rs")).unwrap_or(quoted.len()));
    let tests = tests.iter().filter(|name| name.ends_with(".rs") || is_name(name));
    let tests: Vec<String> = tests.map(|name| format!("`{name}`")).collect();
    let mut missing = missing_tests(tree, &tests.join(" "));
    let is_known = |name: &str| {
        let mut code = tree.iter().filter(|(path, _)| is_rust(path));
        code.any(|(_, text)| text.lines().any(|line| identifiers(line).any(|word| word == name)))
    };
    let unknown = free.iter().filter(|name| is_name(name) && !is_known(name));
    missing.extend(unknown.map(|name| format!("the code has no `{name}`")));
    missing
}

/// Which files and tests are not there, of those that a text names between back quotes.
pub(super) fn missing_tests(tree: &Tree, tests: &str) -> Vec<String> {
    let (mut missing, mut file) = (Vec::new(), None);
    for name in tests.split('`').skip(1).step_by(2) {
        if name.ends_with(".rs") {
            file = tree.text(name).map(|text| (name, text));
            if file.is_none() {
                missing.push(format!("there is no file `{name}`"));
                break;
            }
        } else if !file.is_some_and(|(_, text)| has_function(text, name)) {
            let place = file.map_or("the file that should stand before it", |(path, _)| path);
            missing.push(format!("there is no test `{name}` in {place}"));
        }
    }
    missing
}

/// The entries of the list by number, with the index of their first line; and the doubled ones.
fn listed(tree: &Tree) -> (BTreeMap<u32, (usize, String)>, Vec<Finding>) {
    let mut entries: BTreeMap<u32, (usize, String)> = BTreeMap::new();
    let mut doubled = Vec::new();
    let mut open: Option<u32> = None;
    for (index, line) in tree.text(LIST).unwrap_or_default().lines().enumerate() {
        if let Some(entry) = line.strip_prefix("- **INV-") {
            open = numbers(&format!("INV-{entry}")).first().copied();
            let Some(number) = open else { continue };
            if entries.insert(number, (index, line.to_owned())).is_some() {
                let message = format!("INV-{number} is listed twice");
                doubled.push(Finding::at(LIST, index, message));
            }
        } else if line.starts_with("  ") {
            // An entry goes on while its lines are indented.
            if let Some((_, text)) = open.and_then(|number| entries.get_mut(&number)) {
                text.push(' ');
                text.push_str(line.trim());
            }
        } else {
            open = None;
        }
    }
    (entries, doubled)
}

/// The numbers of the invariants that a line mentions.
fn numbers(line: &str) -> Vec<u32> {
    line.split("INV-")
        .skip(1)
        .filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok())
        .collect()
}

/// Whether a text declares a function of that name (the last part of `module::name`).
fn has_function(text: &str, name: &str) -> bool {
    let name = name.rsplit("::").next().unwrap_or(name);
    text.lines().any(|line| {
        let mut words = identifiers(line);
        words.any(|word| word == "fn") && words.next() == Some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "// INV-1: equality passes.\nfn equality_passes() {}\n// INV-9\n";

    fn tree(list: &str) -> Tree {
        Tree::of(&[(LIST, list), ("crates/a/tests/b.rs", CODE)])
    }

    #[test]
    fn mentioned_but_not_listed_is_found() {
        let found = mentions(&tree("- **INV-1** equality passes.\n"));
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].line, 3);
        assert!(mentions(&tree("- **INV-1** a.\n- **INV-9** b.\n")).is_empty());
    }

    #[test]
    fn tests_that_do_not_exist_are_found() {
        let good = "- **INV-1** sentence.\n  Test: `crates/a/tests/b.rs` `equality_passes`\n";
        assert!(tests_exist(&tree(good)).is_empty());
        for bad in [
            "- **INV-1** sentence. Test: `crates/a/tests/b.rs` `equality_fails`\n",
            "- **INV-1** sentence. Test: `crates/a/tests/c.rs` `equality_passes`\n",
            "- **INV-1** sentence. Test: `equality_passes`\n",
            "- **INV-1** one.\n- **INV-1** two.\n",
        ] {
            assert_eq!(tests_exist(&tree(bad)).len(), 1, "{bad}");
        }
    }

    #[test]
    fn promises_name_what_exists() {
        let with = |promises: &str| {
            let tree = Tree::of(&[
                (LIST, "- **INV-1** a.\n- **INV-9** b.\n"),
                ("crates/a/tests/b.rs", CODE),
                (PROMISES, promises),
            ]);
            [mentions(&tree), tests_exist(&tree)].map(|found| found.len())
        };
        let good = "| P-1 | `L` | INV-1, `crates/a/tests/b.rs` `equality_passes`, `cargo xtask` |";
        assert_eq!(with(good), [0, 0]);
        assert_eq!(with("| P-1 | INV-9, `equality_passes` |\n"), [0, 0]);
        assert_eq!(with("| P-1 | INV-2 |\n"), [1, 0], "an invariant that is not listed");
        for bad in [
            "`crates/a/tests/b.rs` `equality_fails`",
            "`crates/a/tests/c.rs` `equality_passes`",
            "`equality_fails`",
        ] {
            assert_eq!(with(bad), [0, 1], "{bad}");
        }
    }

    #[test]
    fn an_invariant_without_a_test_yet_is_allowed() {
        assert!(tests_exist(&tree("- **INV-40** comes with the region.\n")).is_empty());
    }
}
