//! The local decision of Tidegate: may this subject spend this cost now?
//!
//! A [`Table`] keeps, for every subject, two fixed windows (cells) and decides on the sliding
//! window over them: exact in integers, searched for races by two model checkers, bounded in
//! memory. It does no I/O, reads no clock, awaits nothing and logs nothing; a decision on a
//! subject that is already known allocates nothing.
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
pub use asking::{Asking, Wanted};
pub use cells::{CellHandle, CellTicket, Cells, Ticket};
pub use counters::Counts;
pub use key::{Digest, ENCODING_VERSION, FleetSecret, Seed, encode};
pub use ledger::{Freshness, Reason};
pub use request::{
    BATCH_MAX, Batch, COST_MAX, Consistency, Cost, LIMIT_MAX, Limit, PART_BYTES_MAX,
    PART_CHARS_MAX, Part, Request, RequestError, Subject, WINDOW_MS_MAX, WINDOW_MS_MIN, Window,
};
pub use saved::{SAVED_WINDOW_MS_MIN, SavedSubject, SavedSubjects};
pub use table::{
    AskedFor, BatchDecision, CellCounts, Decision, Explanation, Need, Options, Strict, SubjectView,
    Table, Wake, Walk,
};
pub use time::Now;

/// How many cases a property test tries. Failures are repeated by their printed input, not by a
/// file of seeds.
#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
fn cases(cases: u32) -> proptest::test_runner::Config {
    let default = proptest::test_runner::Config::default();
    proptest::test_runner::Config { cases, failure_persistence: None, ..default }
}
