//! Which override applies to an identifier: the rules are those of the server.
//!
//! An override whose pattern is the identifier itself; else, of the patterns that match, the one
//! with the longest literal text before its first `*`; of those the longest; of those the first.
//! They are searched one by one, once for each identifier of a trace. The server keeps them for
//! quick look-ups; a test there holds both against each other. What a server refuses to set is
//! refused here too.

use tidegate_limiter::PART_CHARS_MAX;

/// Most overrides of one limit with text between two `*`. It is the bound of a server, which tries
/// them one by one.
pub const GLOBS_MAX: usize = 64;
/// Most pieces of text between the `*` of a pattern. It is the bound of a server, which looks for
/// each of them.
pub const PIECES_MAX: usize = 4;

/// Other numbers for those whom a pattern matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Literal text, and `*` for any run of characters, also none.
    pub pattern: String,
    /// How much is allowed.
    pub limit: u64,
    /// In which window, if it is another one.
    pub window_ms: Option<u64>,
}

/// The overrides of a limit.
///
/// ```
/// use tidegate_trial::{Override, Overrides};
///
/// let one = |pattern: &str| Override { pattern: pattern.to_owned(), limit: 9, window_ms: None };
/// let all = Overrides::new(["vip-*", "*", "vip-7"].map(one).to_vec());
/// assert_eq!([all.find("vip-7"), all.find("vip-8"), all.find("x")], [Some(2), Some(0), Some(1)]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Overrides(Vec<Override>);

impl Overrides {
    /// In the order of their age.
    #[must_use]
    pub const fn new(all: Vec<Override>) -> Self {
        Self(all)
    }

    /// The place of the one that applies. The [type](Self) has an example.
    #[must_use]
    pub fn find(&self, identifier: &str) -> Option<usize> {
        let exact = self.0.iter().position(|one| one.pattern == identifier);
        exact.or_else(|| {
            let matching =
                self.0.iter().enumerate().filter(|(_, one)| matches(&one.pattern, identifier));
            // Of equals the first is taken: the greatest of the reversed.
            let best = matching.rev().max_by_key(|(_, one)| {
                let literal = one.pattern.find('*').unwrap_or(one.pattern.len());
                (literal, one.pattern.len())
            });
            best.map(|(at, _)| at)
        })
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[Override] {
        &self.0
    }
}

/// Whether a server takes such a pattern.
pub(super) fn check(pattern: &str) -> Result<(), String> {
    if !(1..=PART_CHARS_MAX).contains(&pattern.chars().count()) {
        return Err(format!("an identifier has 1 to {PART_CHARS_MAX} characters"));
    }
    if between(pattern).split('*').count() > PIECES_MAX {
        return Err(format!("there are more than {PIECES_MAX} pieces of text between its `*`"));
    }
    Ok(())
}

/// Whether a pattern has text between two `*`.
pub(super) fn is_glob(pattern: &str) -> bool {
    !between(pattern).is_empty()
}

/// What is between the first `*` and the last, without those that stand beside them.
fn between(pattern: &str) -> &str {
    let rest = pattern.split_once('*').map_or("", |(_, rest)| rest);
    rest.rsplit_once('*').map_or("", |(between, _)| between.trim_matches('*'))
}

/// Each piece is taken where it is found first: that leaves most room for the next ones.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((prefix, rest)) = pattern.split_once('*') else { return pattern == text };
    let (between, suffix) = rest.rsplit_once('*').unwrap_or(("", rest));
    let Some(text) = text.strip_prefix(prefix) else { return false };
    let Some(mut text) = text.strip_suffix(suffix) else { return false };
    for piece in between.split('*') {
        match text.split_once(piece) {
            Some((_, after)) => text = after,
            None => return false,
        }
    }
    true
}
