//! A limit tried on traffic that was, before anybody is denied by it: `tidegate simulate`.
//!
//! 1. [`Record`], [`Fields`], [`Source`]: the trace, request by request; [`Generated`]: made up.
//! 2. [`Check`], [`Call`], [`Verdict`]: what a trace and a policy make of each other.
//! 3. [`Decide`]: who decides. One process, or a [`Fleet`] with its stores: see [`Topology`].
//! 4. [`Findings`]: what came of it, as it is written to JSON.

mod call;
mod findings;

pub use call::{Call, Check, Decide, StoreWork, Verdict};
pub use findings::{
    Affected, Changed, Comparison, CurvePoint, Facts, Findings, Fullness, LimitFindings, Malformed,
    PolicyFindings, Slice, Suggestion, TopologyFacts, Totals, TraceFacts, Waits,
};

mod trace;

pub use trace::{Fields, Record, Source, TraceError};

mod fleet;
mod generate;
mod topology;

pub use fleet::Fleet;
pub use generate::{GenerateOptions, Generated, LogFormat, Traffic, write_log};
pub use topology::{Entry, Publish, Topology, TopologyError};
