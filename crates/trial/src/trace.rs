//! The trace: requests that were, one after the other.
//!
//! Promises: whatever a log holds, reading it takes bounded memory, and what cannot be read is
//! counted and shown, not fatal. Refuses: a trace in which nothing at all can be read, or that
//! lacks what a limit needs. Fails with an [error](TraceError) that shows a line and what was
//! expected instead.
//!
//! In the order of a line's life: `lines` (bytes to lines, unpacked), `begin` and `detect` (which
//! format, and from when on), `common`, `json` and `csv` (a line to a [`Record`]; `time` for its
//! time and `names` for what others call a field), `jumps` (times that cannot be), `reader` (all
//! of a log), `merged` (several side by side), `ordered` (by time).

mod begin;
mod common;
mod csv;
mod detect;
mod json;
mod jumps;
mod lines;
mod merged;
mod names;
mod ordered;
mod reader;
mod record;
#[cfg(test)]
mod tests;
mod time;

pub use detect::{Format, ReadOptions};
pub use lines::Input;
pub use ordered::Logs;
pub(crate) use ordered::disorder;
pub use record::{Fields, Record};

use crate::findings::TraceFacts;

/// How much of a line is shown: the width of a wide terminal.
const SHOWN_CHARS: usize = 160;

/// Where requests come from: a log that is read, or a generator. [`Logs`] has an example.
pub trait Source {
    /// Puts the next request into `record`, or answers `false` at the end. Times never fall.
    ///
    /// # Errors
    /// If there is no way to go on.
    fn next(&mut self, record: &mut Record) -> Result<bool, TraceError>;

    /// What was read until now.
    fn facts(&self) -> TraceFacts;

    /// A line that was read, to show in an error.
    fn sample(&self) -> Option<&str> {
        None
    }
}

/// Why a trace cannot be used, in words for whoever gave it.
#[derive(Debug)]
pub struct TraceError(pub String);

impl std::fmt::Display for TraceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TraceError {}

/// The beginning of a line, with what a terminal would obey written out.
pub(crate) fn shown(line: &str) -> String {
    let mut text = String::new();
    for char in line.chars().take(SHOWN_CHARS) {
        if crate::marks::hides(char) {
            text.extend(char.escape_unicode());
        } else {
            text.push(char);
        }
    }
    if line.chars().nth(SHOWN_CHARS).is_some() {
        text.push('…');
    }
    text
}
