//! Which program this is.

use super::Labels;

/// The commit it was built from, if whoever built it said so in `TIDEGATE_COMMIT`.
pub(crate) const COMMIT: &str = match option_env!("TIDEGATE_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

const _: () = assert!(is_plain(COMMIT.as_bytes()), "TIDEGATE_COMMIT is letters, digits, `-`, `.`");

/// Whether it can stand in a label as it is.
const fn is_plain(mut bytes: &[u8]) -> bool {
    let is_empty = bytes.is_empty();
    while let [first, rest @ ..] = bytes {
        if !first.is_ascii_alphanumeric() && *first != b'-' && *first != b'.' {
            return false;
        }
        bytes = rest;
    }
    !is_empty
}

/// What it was built with.
pub(crate) const FEATURES: &str = if cfg!(feature = "tls") { "tls" } else { "none" };

/// Version, commit and features.
pub(super) const BUILD: Labels =
    &[("version", env!("CARGO_PKG_VERSION")), ("commit", COMMIT), ("features", FEATURES)];
