//! Leftovers: what was meant to be finished, and tests that wait for time to pass.

use super::{Finding, identifiers, is_rust, is_test_file, source_lines};

/// Text that says "not finished", taken apart so that this file does not find itself.
const UNFINISHED: [&str; 7] = [
    concat!("#[ig", "nore"),
    concat!("```ig", "nore"),
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("d", "bg!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
/// Words among them that count only when they stand alone.
const ALONE: [&str; 2] = [concat!("FIX", "ME"), concat!("XX", "X")];
/// Allowed with an owner and an issue: `(name, #12)` must follow.
const LATER: &str = concat!("TO", "DO");

/// Nothing is ignored, left out or put off without an owner and an issue.
pub(super) fn unfinished(path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    if !is_rust(path) {
        return found;
    }
    for (index, line) in text.lines().enumerate() {
        for word in UNFINISHED {
            let alone = !ALONE.contains(&word) || identifiers(line).any(|other| other == word);
            if line.contains(word) && alone {
                found.push(Finding::at(path, index, format!("`{word}`: finish it or remove it")));
            }
        }
        if identifiers(line).any(|word| word == LATER) && !has_owner(line) {
            let message = format!("`{LATER}` without an owner and an issue: `(name, #12)`");
            found.push(Finding::at(path, index, message));
        }
    }
    found
}

/// Whether the note on this line is followed by an owner and the number of an issue.
fn has_owner(line: &str) -> bool {
    let after = line.split_once(LATER).map_or("", |(_, after)| after);
    let inside = after.strip_prefix('(').and_then(|rest| rest.split_once(')'));
    inside.is_some_and(|(inside, _)| inside.contains(", #"))
}

/// No test sleeps, except inside the one function that waits for a condition: `eventually`.
pub(super) fn sleeps(path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    if !is_rust(path) {
        return found;
    }
    let first = if is_test_file(path) { 0 } else { source_lines(text) };
    let mut function = "";
    for (index, line) in text.lines().enumerate() {
        if let Some(name) = declared_function(line) {
            function = name;
        }
        let sleeps = line.contains("thread::sleep") || line.contains("time::sleep");
        if index >= first && sleeps && function != "eventually" {
            let message = "a test that sleeps: wait for a condition with `eventually`";
            found.push(Finding::at(path, index, message));
        }
    }
    found
}

/// The name of the function that a line declares.
fn declared_function(line: &str) -> Option<&str> {
    let mut words = identifiers(line.split("//").next().unwrap_or_default());
    words.find(|word| *word == "fn")?;
    words.next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_leftover_is_found() {
        for word in UNFINISHED {
            let line = format!("    {word} ] )\n");
            assert_eq!(unfinished("a.rs", &line).len(), 1, "{word}");
            assert!(unfinished("a.md", &line).is_empty());
        }
        assert!(unfinished("a.rs", &format!("let {}Y = 1;", ALONE[1])).is_empty());
    }

    #[test]
    fn what_is_put_off_has_an_owner_and_an_issue() {
        assert_eq!(unfinished("a.rs", &format!("// {LATER}: later")).len(), 1);
        assert_eq!(unfinished("a.rs", &format!("// {LATER}(ada): later")).len(), 1);
        assert!(unfinished("a.rs", &format!("// {LATER}(ada, #12): later")).is_empty());
    }

    #[test]
    fn sleeping_tests_are_found() {
        let body =
            format!("fn NAME() {{\n    std::{}(pause);\n}}\n", ["thread", "sleep"].join("::"));
        let (bad, good) = (body.replace("NAME", "a_test"), body.replace("NAME", "eventually"));
        assert_eq!(sleeps("crates/a/tests/b.rs", &bad).len(), 1);
        assert!(sleeps("crates/a/tests/b.rs", &good).is_empty());
        assert!(sleeps("crates/a/src/b.rs", &bad).is_empty());
        let inline = format!("#[cfg(test)]\nmod tests {{\n{bad}}}\n");
        assert_eq!(sleeps("crates/a/src/b.rs", &inline).len(), 1);
    }
}
