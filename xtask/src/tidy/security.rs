//! `docs/security.md` has every line of the list, and the tests it names exist; and two habits that
//! it relies on.
//!
//! A line of the list: ``- **S4** sentence. Test: `path/of/file.rs` `name_of_test` ``, or with
//! `Not done:` or `Does not apply:` and the reason.

use super::invariants::missing_tests;
use super::{Finding, Tree, identifiers, is_rust, is_test_file, source_lines};

/// Where the list is.
const LIST: &str = "docs/security.md";
/// How many lines it has.
const LINES: usize = 25;

/// Words of which two are not compared byte by byte: how long that takes says how much is right.
const SECRETS: [&str; 5] = ["digest", "root_key", "fleet_secret", "password", "secret"];
/// What compares in constant time, or compares what no caller sent: the environment at the start.
const COMPARED_WELL: [&str; 2] = ["blake3::Hash", "KEY_VARIABLE"];

/// Every line is there and names tests that exist, or a reason.
pub(super) fn lines(tree: &Tree) -> Vec<Finding> {
    let Some(text) = tree.text(LIST) else { return Vec::new() };
    let (mut found, mut number) = (Vec::new(), 0_usize);
    for (index, line) in text.lines().enumerate().filter(|(_, line)| line.starts_with("- **S")) {
        number = number.saturating_add(1);
        let mut say = |message: String| found.push(Finding::at(LIST, index, message));
        if !line.starts_with(&format!("- **S{number}** ")) {
            say(format!("this should be S{number}"));
        }
        let tests = line.split_once("Test:").or(line.split_once("Tests:"));
        let reason = line.contains("Not done:") || line.contains("Does not apply:");
        match tests {
            Some((_, tests)) => {
                missing_tests(tree, tests).into_iter().for_each(say);
            }
            None if reason => {}
            None => say("neither a test nor a reason".to_owned()),
        }
    }
    if number != LINES {
        found.push(Finding::at(LIST, 0, format!("{number} lines, not {LINES}")));
    }
    found
}

/// No secret is compared with `==` in what serves.
pub(super) fn secrets_compared(path: &str, text: &str) -> Vec<Finding> {
    if !path.starts_with("crates/server/src/") || !is_rust(path) || is_test_file(path) {
        return Vec::new();
    }
    // Of one subject, which is no secret to whoever may look.
    let exempt = path == "crates/server/src/globe/tools/look.rs";
    let compares = |line: &str| line.contains(" == ") || line.contains(" != ");
    let secret = |line: &str| identifiers(line).any(|word| SECRETS.contains(&word));
    let well = |line: &str| COMPARED_WELL.iter().any(|way| line.contains(way));
    let is_bad = |line: &str| {
        compares(line) && secret(line) && !well(line) && !line.trim_start().starts_with("//")
    };
    let bad = text.lines().take(source_lines(text)).enumerate().filter(|(_, line)| is_bad(line));
    let message = "a secret is compared byte by byte: compare `blake3::Hash`es instead";
    bad.filter(|_| !exempt).map(|(index, _)| Finding::at(path, index, message)).collect()
}

/// SQL and Lua are constants: the driver takes nothing else unless it is told that it is safe.
pub(super) fn statements_made(path: &str, text: &str) -> Vec<Finding> {
    if !path.starts_with("crates/stores/src/") || !is_rust(path) || is_test_file(path) {
        return Vec::new();
    }
    let made = ["AssertSqlSafe", "cmd(\"EVAL\")"];
    let is_bad = |line: &str| made.iter().any(|way| line.contains(way));
    let bad = text.lines().take(source_lines(text)).enumerate().filter(|(_, line)| is_bad(line));
    let message = "a statement is made while the program runs: bind parameters of a constant";
    bad.map(|(index, _)| Finding::at(path, index, message)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(last: &str) -> String {
        let fine = "Test: `crates/a/tests/b.rs` `a_lock_holds`";
        let lines: Vec<String> = (1..LINES).map(|n| format!("- **S{n}** it. {fine}\n")).collect();
        format!("{}{last}\n", lines.concat())
    }

    fn found(last: &str) -> usize {
        let code = ("crates/a/tests/b.rs", "fn a_lock_holds() {}\n");
        lines(&Tree::of(&[(LIST, &list(last)), code])).len()
    }

    #[test]
    fn each_line_has_a_test_that_exists_or_a_reason() {
        assert_eq!(found("- **S25** it. Test: `crates/a/tests/b.rs` `a_lock_holds`"), 0);
        assert_eq!(found("- **S25** it. Not done: there is no time."), 0);
        assert_eq!(found("- **S25** it."), 1);
        assert_eq!(found("- **S25** it. Test: `crates/a/tests/b.rs` `a_lock_breaks`"), 1);
        assert_eq!(found("- **S26** it. Does not apply: it does not."), 1);
        assert_eq!(found(""), 1);
    }

    #[test]
    fn secrets_that_are_compared_are_found() {
        let path = "crates/server/src/auth.rs";
        assert_eq!(secrets_compared(path, "if sent.digest == key.digest {\n").len(), 1);
        assert_eq!(secrets_compared(path, "if root_key != sent {\n").len(), 1);
        let well = "blake3::Hash::from_bytes(digest) == blake3::Hash::from_bytes(key.digest)\n";
        assert_eq!(secrets_compared(path, well), []);
        assert_eq!(secrets_compared(path, "let a = digest(key);\n"), []);
    }

    #[test]
    fn statements_that_are_made_are_found() {
        let path = "crates/stores/src/global/mysql.rs";
        assert_eq!(statements_made(path, "query(AssertSqlSafe(format!(\"x\")))\n").len(), 1);
        assert_eq!(statements_made(path, "sqlx::query(sql)\n"), []);
    }
}
