//! How two configurations differ.

use std::fmt;

use serde::Serialize;

use super::Value;
use super::knobs::{Knob, Reload};

/// What stands for a value that nobody said.
pub(super) const NOT_SET: &str = "(not set)";
/// What stands for one that is not shown.
pub(super) const SET: &str = "(set)";

/// One value that is another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Change {
    pub(crate) section: &'static str,
    pub(crate) key: &'static str,
    was: String,
    is: String,
    /// Whether it waits for a restart.
    pub(crate) restart: bool,
}

/// What is another one in `new`, in the order of the table.
pub(crate) fn between(old: &[Value], new: &[Value]) -> Vec<Change> {
    let pairs = old.iter().zip(new).filter(|(old, new)| old.text != new.text);
    let change = |(old, new): (&Value, &Value)| {
        let Knob { section, key, reload, .. } = *new.knob;
        let restart = match reload {
            Reload::Live => false,
            Reload::WhileSet => old.text.is_none() || new.text.is_none(),
            Reload::Restart => true,
        };
        Change { section, key, was: shown(old).to_owned(), is: shown(new).to_owned(), restart }
    };
    pairs.map(change).collect()
}

/// A value as it can be shown.
pub(super) fn shown(value: &Value) -> &str {
    match &value.text {
        None => NOT_SET,
        Some(_) if value.knob.secret => SET,
        Some(text) => text,
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { section, key, was, is, .. } = self;
        // Two secrets look alike.
        match was == is {
            true => write!(f, "{section}.{key}: another one"),
            false => write!(f, "{section}.{key}: {was} -> {is}"),
        }
    }
}

/// Several, on one line.
pub(super) fn listed<'a>(changes: impl IntoIterator<Item = &'a Change>) -> String {
    changes.into_iter().map(Change::to_string).collect::<Vec<_>>().join("; ")
}
