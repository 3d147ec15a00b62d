//! Size habits: files and lines that one can take in at a glance.

use super::{Finding, is_rust, is_test_file, source_lines};

/// More lines than this, tests aside, and the file does more than one thing.
const FILE_LINES_MAX: usize = 500;
/// Rustfmt keeps code within this width; strings and comments are left to us.
const LINE_CHARS_MAX: usize = 100;

/// No source file of ours is longer than 500 lines without its tests.
pub(super) fn file_length(path: &str, text: &str) -> Vec<Finding> {
    let ours = path.starts_with("crates/") || path.starts_with("xtask/");
    let generated = text.lines().next().is_some_and(|line| line.contains("@generated"));
    if !(ours && is_rust(path) && path.contains("/src/")) || is_test_file(path) || generated {
        return Vec::new();
    }
    let lines = source_lines(text);
    if lines <= FILE_LINES_MAX {
        return Vec::new();
    }
    let message = format!("{lines} source lines, at most {FILE_LINES_MAX}: split the file");
    vec![Finding::at(path, FILE_LINES_MAX, message)]
}

/// No line of Rust is wider than 100 characters, unless a link makes it so.
pub(super) fn line_width(path: &str, text: &str) -> Vec<Finding> {
    if !is_rust(path) {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let chars = line.chars().count();
        if chars > LINE_CHARS_MAX && !line.contains("://") {
            let message = format!("{chars} characters, at most {LINE_CHARS_MAX}");
            found.push(Finding::at(path, index, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_files_are_found_and_their_tests_do_not_count() {
        let long = "//! Line.\n".repeat(501);
        assert_eq!(file_length("crates/a/src/b.rs", &long).len(), 1);
        assert!(file_length("crates/a/src/b/tests.rs", &long).is_empty());
        assert!(file_length("crates/a/tests/b.rs", &long).is_empty());
        assert!(file_length("crates/a/src/b.rs", &format!("// @generated\n{long}")).is_empty());
        let tested = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{long}}}\n");
        assert!(file_length("crates/a/src/b.rs", &tested).is_empty());
    }

    #[test]
    fn wide_lines_are_found() {
        let wide = format!("// {}\n", "ä".repeat(98));
        assert_eq!(line_width("a.rs", &wide).len(), 1);
        assert!(line_width("a.rs", &format!("// {}\n", "ä".repeat(97))).is_empty());
        assert!(line_width("a.md", &wide).is_empty());
    }
}
