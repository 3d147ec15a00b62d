//! Which program this is.

use std::sync::LazyLock;

use crate::metrics::{COMMIT, FEATURES};

/// What `--version` says; `-V` says the number alone.
pub(super) static LONG: LazyLock<String> = LazyLock::new(|| {
    format!("{}\ncommit: {COMMIT}\nfeatures: {FEATURES}", env!("CARGO_PKG_VERSION"))
});
