//! Names: one word per idea. Only the names that a file declares are judged, never its prose.

use super::{Finding, identifiers, is_rust};

/// Words that either have a better one in the glossary or say nothing.
const BANNED: [(&str, &str); 9] = [
    ("bucket", "say `cell`"),
    ("upstream", "say `region` or `peers`"),
    ("hydrate", "say `refresh`"),
    ("util", "name what it does"),
    ("utils", "name what it does"),
    ("helper", "name what it does"),
    ("helpers", "name what it does"),
    ("manager", "name what it does"),
    ("impl", "name what is special about it"),
];
/// What declares a name.
const KEYWORDS: [&str; 7] = ["fn", "struct", "enum", "trait", "mod", "type", "const"];
/// Where the glossary is law.
const PLACES: [&str; 2] = ["crates/limiter/", "crates/convergence/"];

/// No declared name uses a banned word.
pub(super) fn declared(path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    if !is_rust(path) || !PLACES.iter().any(|place| path.starts_with(place)) {
        return found;
    }
    for (index, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        for name in declarations(code) {
            let words = words(name);
            for (word, advice) in BANNED {
                if words.iter().any(|other| other == word) {
                    let message = format!("`{name}` uses the word `{word}`: {advice}");
                    found.push(Finding::at(path, index, message));
                }
            }
        }
    }
    found
}

/// The names that a line declares.
fn declarations(code: &str) -> Vec<&str> {
    let mut previous = "";
    let mut names = Vec::new();
    for word in identifiers(code) {
        if KEYWORDS.contains(&previous) && !KEYWORDS.contains(&word) {
            names.push(word);
        }
        previous = word;
    }
    names
}

/// The words of `snake_case`, `CamelCase` or `SCREAMING_CASE`, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && after_lower) {
            words.push(String::new());
        }
        after_lower = c.is_lowercase() || c.is_ascii_digit();
        if let Some(word) = words.last_mut().filter(|_| c != '_') {
            word.extend(c.to_lowercase());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn banned_words_are_found_in_declared_names() {
        for line in [
            "pub(crate) struct TokenBucket {",
            "pub const BUCKET_MAX: u64 = 1;",
            "pub const fn bucket_of(key: Key) -> u64 {",
            "mod utils;",
            "fn apply_impl() {}",
            "enum ShardManager {}",
        ] {
            assert_eq!(declared("crates/limiter/src/a.rs", line).len(), 1, "{line}");
            assert!(declared("crates/server/src/a.rs", line).is_empty());
        }
    }

    #[test]
    fn prose_and_parts_of_words_are_not() {
        for line in ["// fn bucket", "fn utility() {}", "impl Trait for Cell {}", "let bucket = 1;"]
        {
            assert!(declared("crates/limiter/src/a.rs", line).is_empty(), "{line}");
        }
    }
}
