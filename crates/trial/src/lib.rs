//! A limit tried on traffic that was, before anybody is denied by it: `tidegate simulate`.
//!
//! 1. [`Record`], [`Fields`], [`Source`]: the trace, request by request. [`Logs`] reads it,
//!    [`Generated`] makes it up.
//! 2. [`Policy`]: the limits that are tried.
//! 3. [`Check`], [`Call`], [`Verdict`]: what a trace and a policy make of each other.
//! 4. [`Decide`]: who decides. [`OneProcess`], or the [`Fleet`] of a [`Topology`].
//! 5. [`Trial`]: all of it, with a log of all admissions as the referee.
//! 6. [`Findings`]: what came of it, as it is written to JSON, and [`page`], to look at it.
//!
//! It opens no files and reads no clock: who calls it does.

mod call;
mod findings;

mod marks;
mod report;
mod share;

pub use call::{Call, Check, Decide, StoreWork, Verdict};
pub use findings::{
    Affected, Changed, Comparison, CurvePoint, Facts, Findings, Fullness, LimitFindings, Malformed,
    PolicyFindings, Slice, Suggestion, TopologyFacts, Totals, TraceFacts, Waits,
};

pub use marks::{Visible, visible};
pub use report::page;
pub use share::share_of;

mod compare;
mod policy;
mod run;
mod suggest;
mod trace;

pub use policy::{
    By, Cost, GLOBS_MAX, LIMITS_MAX, Limit, Override, Overrides, PIECES_MAX, Policy, PolicyError,
    duration_ms,
};
pub use run::{OneProcess, Plan, Trial};
pub use suggest::SuggestOptions;
pub use trace::{Fields, Format, Input, Logs, ReadOptions, Record, Source, TraceError};

mod fleet;
mod generate;
#[cfg(test)]
mod model_tests;
mod topology;

pub use fleet::Fleet;
pub use generate::{GenerateOptions, Generated, LogFormat, Traffic, write_log};
pub use topology::{Entry, Publish, Topology, TopologyError};
