//! The local decision of Tidegate: may this subject spend this cost now?
//!
//! A [`Table`] keeps, for every subject, two fixed windows (cells) and decides on the sliding
//! window over them: exact in integers, searched for races by two model checkers, bounded in
//! memory. It does no I/O, reads no clock, awaits nothing and logs nothing; a decision on a
//! subject that is already known allocates nothing.
//!
//! ```
//! use tidegate_limiter::{
//!     Batch, Cost, Denial, Limit, Now, Options, Part, Request, RequestError, Seed, Source,
//!     Subject, Table, Window,
//! };
//!
//! // What may be asked is parsed once.
//! assert_eq!(Part::new("").map_err(RequestError::code), Err("empty"));
//! assert_eq!(Window::from_millis(999), Err(RequestError::WindowTooShort));
//! let (workspace, namespace, user) = (Part::new("acme")?, Part::new("email")?, Part::new("ann")?);
//! let subject = Subject::new(workspace, namespace, user, Window::from_millis(60_000)?);
//! let request = Request::new(subject, Limit::new(10), Cost::new(8)?);
//!
//! // The window began 20 seconds ago.
//! let table = Table::new(Options::default(), Seed::from_bytes([7; 32]));
//! let now = Now::new(1_700_000_060_000, 0);
//! let answer = table.decide(&request, now);
//! assert!(answer.admitted() && answer.denial().is_none());
//! assert_eq!((answer.limit(), answer.remaining()), (10, 2));
//! assert_eq!(answer.reset_unix_ms(), 1_700_000_100_000);
//! assert_eq!((answer.source(), answer.age_ms(), answer.degraded()), (Source::Local, 0, false));
//!
//! // All but 2 of the 8 have to leave the sliding window first.
//! let denied = table.decide(&request, now);
//! assert_eq!(denied.denial(), Some(Denial::Limit));
//! let wait_ms = denied.retry_after_ms().unwrap_or(u64::MAX);
//! assert!(table.explain(&request, now.after_ms(wait_ms)).answer.admitted());
//! assert!(!table.explain(&request, now.after_ms(wait_ms - 1)).answer.admitted());
//!
//! // Two of them at once never fit, so neither is spent.
//! let answer = table.decide_all(&Batch::new(&[request, request])?, now.after_ms(120_000));
//! assert!(!answer.admitted() && answer.items()[0].admitted() && !answer.items()[1].admitted());
//! # Ok::<(), RequestError>(())
//! ```
//!
//! The story, in the order of the files:
//!
//! 1. [`request`](Request): what may be asked, parsed once.
//! 2. `key`: who a subject is, here and outside.
//! 3. `window`: the arithmetic.
//! 4. `register`, `cell`, `ledger`: what is kept of a subject, and the compare-and-swap.
//! 5. `batch`: several requests as one.
//! 6. [`Table`]: finding ledgers, and making room for new ones.
//! 7. [`Answer`]: what the caller gets back; [`Explanation`]: why.
//! 8. [`SavedSubjects`]: what outlives the process.

mod answer;
mod asking;
mod batch;
mod cell;
mod cells;
mod counters;
mod key;
mod ledger;
#[doc(hidden)]
pub mod planted;
mod register;
mod request;
mod reserve;
mod saved;
mod sync;
mod table;
mod time;
mod window;

#[cfg(test)]
#[cfg(loom)]
mod loom_tests;
#[cfg(test)]
#[cfg(shuttle)]
mod shuttle_tests;

pub use answer::{Answer, BatchAnswer, Denial, Source};
pub use asking::{Asking, Claimed, Wanted};
pub use cells::{CellHandle, CellTicket, Cells, Ticket};
pub use counters::Counts;
pub use key::{Digest, ENCODING_VERSION, FleetSecret, Seed, encode};
pub use ledger::{Freshness, Reason};
pub use request::{
    BATCH_MAX, Batch, COST_MAX, Consistency, Cost, LIMIT_MAX, Limit, Outage, PART_BYTES_MAX,
    PART_CHARS_MAX, Part, Request, RequestError, Subject, WINDOW_MS_MAX, WINDOW_MS_MIN, Window,
};
pub use saved::{SAVED_WINDOW_MS_MIN, SavedSubject, SavedSubjects};
pub use table::{
    AskedFor, BatchDecision, CellCounts, Credit, Decision, Explanation, Need, Options, Strict,
    SubjectView, Table, Wake, Walk,
};
pub use time::Now;
pub use window::sliding_use;

/// How many cases a property test tries. Failures are repeated by their printed input, not by a
/// file of seeds.
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
fn cases(cases: u32) -> proptest::test_runner::Config {
    let default = proptest::test_runner::Config::default();
    proptest::test_runner::Config { cases, failure_persistence: None, ..default }
}
