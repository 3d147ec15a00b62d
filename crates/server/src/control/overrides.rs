//! Which override applies to an identifier.
//!
//! Promises: the same answer for the same overrides, in whatever order they came: an override
//! whose pattern is the identifier itself; else, of the patterns that match, the one with the
//! longest literal text before its first `*`; of those the longest; of those the oldest. The cost
//! of a search does not grow with the number of overrides, but for patterns with text between two
//! `*`, of which there are few: [`GLOBS_MAX`].
//!
//! A pattern is literal text, and `*` for any run of characters, also none. Nothing else is
//! special, and nothing backtracks: each piece of literal text is looked for once, in order.

mod nested;

use std::borrow::Borrow;
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use foldhash::fast::RandomState;
use nested::Nested;
use tidegate::{Limit, Window};

#[cfg(test)]
mod tests;

/// Most patterns with text between two `*` in one namespace. Each is tried in turn, which takes up
/// to a microsecond for the longest identifiers: a batch of a hundred should not take more than
/// some milliseconds.
pub(crate) const GLOBS_MAX: usize = 64;

/// Most pieces of text between the `*` of a pattern. Each is looked for, so this bounds what a
/// pattern costs those whom it does not match.
pub(crate) const PIECES_MAX: usize = 4;

/// Other numbers for those whom a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Override {
    pub(crate) id: String,
    pub(crate) pattern: String,
    pub(crate) limit: Limit,
    pub(crate) window: Window,
    pub(crate) created_ms: u64,
}

impl Override {
    /// The better of two that match comes first, the literal text before the first `*` being the
    /// same.
    fn rank(&self) -> (Reverse<usize>, u64, &str) {
        (Reverse(self.pattern.len()), self.created_ms, &self.id)
    }
}

/// An override that is found by its pattern.
#[derive(Debug)]
struct ByPattern(Arc<Override>);

impl Borrow<str> for ByPattern {
    fn borrow(&self) -> &str {
        &self.0.pattern
    }
}

impl Hash for ByPattern {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.pattern.hash(state);
    }
}

impl PartialEq for ByPattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.pattern == other.0.pattern
    }
}

impl Eq for ByPattern {}

/// Whether a pattern has text between two `*`.
pub(crate) fn is_glob(pattern: &str) -> bool {
    !Shape::of(pattern).between.is_empty()
}

/// Whether a pattern has too many pieces of text between its `*`.
pub(crate) fn has_too_many_pieces(pattern: &str) -> bool {
    Shape::of(pattern).between.split('*').count() > PIECES_MAX
}

/// The overrides of one namespace, ready to be searched.
#[derive(Debug, Default)]
pub(crate) struct Overrides {
    by_id: Vec<Arc<Override>>,
    by_pattern: HashSet<ByPattern, RandomState>,
    prefixes: Nested<Group>,
    globs: usize,
}

/// The patterns that begin with the same literal text.
#[derive(Debug, Default)]
struct Group {
    /// By the literal text after the last `*`, reversed: those with nothing between.
    suffixes: Nested<Arc<Override>>,
    /// The others, best first.
    globs: Vec<Arc<Override>>,
}

impl Overrides {
    /// Makes them ready.
    pub(crate) fn new(overrides: impl IntoIterator<Item = Arc<Override>>) -> Self {
        let mut by_id: Vec<_> = overrides.into_iter().collect();
        by_id.sort_by(|a, b| a.id.cmp(&b.id));
        let by_pattern = by_id.iter().map(|one| ByPattern(Arc::clone(one))).collect();
        let mut groups: HashMap<&str, Vec<&Arc<Override>>> = HashMap::new();
        for one in by_id.iter().filter(|one| one.pattern.contains('*')) {
            groups.entry(Shape::of(&one.pattern).prefix).or_default().push(one);
        }
        let globs = by_id.iter().filter(|one| is_glob(&one.pattern)).count();
        let prefixes = groups
            .into_iter()
            .map(|(prefix, patterns)| (prefix.bytes().collect(), Group::new(patterns)));
        Self { prefixes: Nested::new(prefixes), by_id, by_pattern, globs }
    }

    /// The one that applies.
    pub(crate) fn find(&self, identifier: &str) -> Option<&Arc<Override>> {
        if let Some(found) = self.get(identifier) {
            return Some(found);
        }
        let mut groups = self.prefixes.of(identifier.bytes());
        groups.find_map(|(prefix, group)| group.find(identifier.get(prefix.len()..)?))
    }

    /// The one with exactly this pattern.
    pub(crate) fn get(&self, pattern: &str) -> Option<&Arc<Override>> {
        self.by_pattern.get(pattern).map(|ByPattern(one)| one)
    }

    /// All of them, by id.
    pub(crate) fn all(&self) -> &[Arc<Override>] {
        &self.by_id
    }

    /// How many have text between two `*`.
    pub(crate) const fn globs(&self) -> usize {
        self.globs
    }
}

impl Group {
    fn new(patterns: Vec<&Arc<Override>>) -> Self {
        let mut suffixes: HashMap<&str, &Arc<Override>> = HashMap::new();
        let mut globs = Vec::new();
        for one in patterns {
            if is_glob(&one.pattern) {
                globs.push(Arc::clone(one));
                continue;
            }
            // Those that differ in the number of `*` in a row match the same.
            let best = suffixes.entry(Shape::of(&one.pattern).suffix).or_insert(one);
            if one.rank() < best.rank() {
                *best = one;
            }
        }
        globs.sort_by(|a, b| a.rank().cmp(&b.rank()));
        let reversed = suffixes
            .into_iter()
            .map(|(suffix, one)| (suffix.bytes().rev().collect(), Arc::clone(one)));
        Self { suffixes: Nested::new(reversed), globs }
    }

    /// The best of the group for what follows its literal text.
    fn find(&self, rest: &str) -> Option<&Arc<Override>> {
        // The longest literal text is not always in the longest pattern: `**` is longer than `*`.
        let plain = self.suffixes.of(rest.bytes().rev()).map(|(_, one)| one);
        let plain = plain.min_by(|a, b| a.rank().cmp(&b.rank()));
        let better = |one: &&Arc<Override>| plain.is_none_or(|plain| one.rank() < plain.rank());
        let mut globs = self.globs.iter().take_while(better);
        globs.find(|one| Shape::of(&one.pattern).fits(rest)).or(plain)
    }
}

/// A pattern, taken apart at its `*`. One without any is all prefix.
struct Shape<'a> {
    prefix: &'a str,
    /// With its `*`, trimmed of those at both ends.
    between: &'a str,
    suffix: &'a str,
}

impl<'a> Shape<'a> {
    fn of(pattern: &'a str) -> Self {
        let (prefix, rest) = pattern.split_once('*').unwrap_or((pattern, ""));
        let (between, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
        Self { prefix, between: between.trim_matches('*'), suffix }
    }

    /// Whether it matches a text of which the prefix is taken away. Each piece is taken where it
    /// is found first: that leaves most room for the next ones.
    fn fits(&self, rest: &str) -> bool {
        let Some(mut rest) = rest.strip_suffix(self.suffix) else { return false };
        for piece in self.between.split('*') {
            match rest.split_once(piece) {
                Some((_, after)) => rest = after,
                None => return false,
            }
        }
        true
    }
}
