//! The trace: requests that were, one after the other.
//!
//! Promises: whatever a log holds, reading it takes bounded memory, and what cannot be read is
//! counted and shown, not fatal. Refuses: a trace in which nothing at all can be read, or that
//! lacks what a limit needs. Fails with an [error](TraceError) that shows a line and what was
//! expected instead.

mod record;

pub use record::{Fields, Record};

use crate::findings::TraceFacts;

/// Where requests come from: a log that is read, or a generator.
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
