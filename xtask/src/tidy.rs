//! `cargo xtask tidy`: the few habits worth checking mechanically.
//!
//! Promises: each rule is a small function over the text of one file, or over all texts, and has a
//! test that shows it can fail. The whole repository is checked by a test of this crate as well.
//! Refuses: anything that clippy or rustfmt already says.

mod dependencies;
mod invariants;
mod leftovers;
mod markdown;
mod modules;
mod names;
mod paths;
mod security;
mod size;

use std::collections::BTreeMap;
use std::fmt;
use std::fs;

use crate::failure::{Context, Failure, Result};
use crate::mutants;
use crate::repo::Repo;

/// Something that should not be so.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    /// The file.
    path: String,
    /// The line, counted from 1.
    line: usize,
    /// What is wrong and what to do instead.
    message: String,
}

impl Finding {
    /// A finding at the line with the given index, counted from 0.
    pub(crate) fn at(path: &str, index: usize, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line: index.saturating_add(1), message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// The texts of the repository by path.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// Every file that is text.
    texts: BTreeMap<String, String>,
}

impl Tree {
    /// Reads every source file. Files that are not UTF-8 are data, and no rule speaks of them.
    fn read(repo: &Repo) -> Result<Self> {
        let mut texts = BTreeMap::new();
        for path in repo.files()? {
            let bytes = fs::read(repo.root.join(&path)).context(&path)?;
            let text = String::from_utf8(bytes).unwrap_or_default();
            texts.insert(path, text);
        }
        Ok(Self { texts })
    }

    /// A tree made up for a test.
    #[cfg(test)]
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let own = |(path, text): &(&str, &str)| ((*path).to_owned(), (*text).to_owned());
        Self { texts: files.iter().map(own).collect() }
    }

    /// The text of one file.
    pub(crate) fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Every path with its text.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Whether a file or a directory of that name exists.
    fn exists(&self, path: &str) -> bool {
        let inside = format!("{path}/");
        path.is_empty()
            || self.texts.contains_key(path)
            || self.texts.keys().any(|file| file.starts_with(&inside))
    }
}

/// A rule about the text of one file.
type FileRule = fn(&str, &str) -> Vec<Finding>;
/// A rule about several files.
type TreeRule = fn(&Tree) -> Vec<Finding>;

/// Rules that need one file.
const FILE_RULES: [FileRule; 10] = [
    size::file_length,
    size::line_width,
    leftovers::unfinished,
    leftovers::sleeps,
    names::declared,
    paths::machine,
    markdown::one_title,
    dependencies::arrows,
    security::secrets_compared,
    security::statements_made,
];

/// Rules that need several.
const TREE_RULES: [TreeRule; 6] = [
    modules::inbound,
    markdown::links,
    invariants::mentions,
    invariants::tests_exist,
    mutants::that_do_not_apply,
    security::lines,
];

/// `cargo xtask tidy`.
pub(crate) fn command(repo: &Repo, args: &[String]) -> Result<()> {
    if let Some(unknown) = args.first() {
        return Err(Failure::usage(format!("`tidy` takes no argument `{unknown}`")));
    }
    let tree = Tree::read(repo)?;
    let findings = findings(&tree);
    findings.iter().for_each(|finding| println!("{finding}"));
    let rules = FILE_RULES.len().saturating_add(TREE_RULES.len());
    println!("{} files, {rules} rules, {} findings", tree.texts.len(), findings.len());
    if findings.is_empty() { Ok(()) } else { Err(Failure::check("the repository is not tidy")) }
}

/// What all rules find.
fn findings(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree.iter() {
        for rule in FILE_RULES {
            found.extend(rule(path, text));
        }
    }
    for rule in TREE_RULES {
        found.extend(rule(tree));
    }
    found.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
    found
}

/// Whether a file is Rust.
fn is_rust(path: &str) -> bool {
    path.ends_with(".rs")
}

/// Whether a file holds only tests.
fn is_test_file(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs") || path.ends_with("_tests.rs")
}

/// The index of the line where the tests inside a source file begin, or the number of its lines.
fn source_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |pair: &[&str]| match pair {
        [attribute, module] => {
            *attribute == "#[cfg(test)]" && module.starts_with("mod ") && module.ends_with('{')
        }
        _ => false,
    };
    lines.windows(2).position(begins).unwrap_or(lines.len())
}

/// The identifiers of a line, in order.
fn identifiers(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_')).filter(|word| !word.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repository_is_tidy() {
        let tree = Tree::read(&Repo::find().unwrap()).unwrap();
        let found: Vec<String> = findings(&tree).iter().map(Finding::to_string).collect();
        assert!(found.is_empty(), "\n{}", found.join("\n"));
    }

    #[test]
    fn findings_are_shown_with_their_place() {
        let finding = Finding::at("a.rs", 0, "too long");
        assert_eq!(finding.to_string(), "a.rs:1: too long");
    }

    #[test]
    fn source_ends_where_inline_tests_begin() {
        assert_eq!(source_lines("fn a() {}\n#[cfg(test)]\nmod tests {\n}\n"), 1);
        assert_eq!(source_lines("#[cfg(test)]\nmod tests;\nfn a() {}\n"), 3);
    }
}
