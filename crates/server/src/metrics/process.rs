//! Which program this is.

use super::Label;

/// The commit it was built from: what whoever built it said in `TIDEGATE_COMMIT`, else what git
/// says (`build.rs`).
pub(crate) const COMMIT: &str = commit(option_env!("TIDEGATE_COMMIT"));

/// A build that knows no commit often passes an empty one on.
const fn commit(said: Option<&'static str>) -> &'static str {
    match said {
        Some(commit) if !commit.is_empty() => commit,
        _ => "unknown",
    }
}

const _: () = assert!(is_plain(COMMIT.as_bytes()), "TIDEGATE_COMMIT is letters, digits, `-`, `.`");

/// Whether it can stand in a label as it is.
const fn is_plain(mut bytes: &[u8]) -> bool {
    while let [first, rest @ ..] = bytes {
        if !first.is_ascii_alphanumeric() && *first != b'-' && *first != b'.' {
            return false;
        }
        bytes = rest;
    }
    true
}

/// What it was built with.
pub(crate) const FEATURES: &str = if cfg!(feature = "tls") { "tls" } else { "none" };

/// Version, commit and features.
pub(super) const BUILD: &[Label] =
    &[("version", env!("CARGO_PKG_VERSION")), ("commit", COMMIT), ("features", FEATURES)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_build_that_knows_no_commit_says_unknown() {
        assert_eq!(commit(None), "unknown");
        assert_eq!(commit(Some("")), "unknown");
        assert_eq!(commit(Some("284f2ae")), "284f2ae");
        assert!(is_plain(COMMIT.as_bytes()) && !is_plain(b"a\"b") && !is_plain(b"a b"));
    }
}
