//! Shared by the tests of the table.

use tidegate_limiter::{Cost, Limit, Now, Options, Part, Request, Seed, Subject, Table, Window};

/// A moment at the start of a 60 s and of a 1 s window.
pub(crate) const START_MS: u64 = 1_700_000_040_000;

pub(crate) fn now(after_ms: u64) -> Now {
    Now::new(START_MS + after_ms, 1_000_000 + after_ms)
}

pub(crate) fn table() -> Table {
    Table::new(Options::default().with_budget_bytes(8 << 20), Seed::from_bytes([42; 32]))
}

pub(crate) fn subject<'a>(workspace: &'a str, identifier: &'a str, window_ms: u64) -> Subject<'a> {
    Subject::new(
        Part::new(workspace).unwrap(),
        Part::new("namespace").unwrap(),
        Part::new(identifier).unwrap(),
        Window::from_millis(window_ms).unwrap(),
    )
}

pub(crate) fn request(identifier: &str, limit: u64, window_ms: u64, cost: u64) -> Request<'_> {
    request_of(subject("workspace", identifier, window_ms), limit, cost)
}

pub(crate) fn request_of(subject: Subject<'_>, limit: u64, cost: u64) -> Request<'_> {
    Request::new(subject, Limit::new(limit), Cost::new(cost).unwrap())
}
