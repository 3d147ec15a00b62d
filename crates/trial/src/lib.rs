//! A limit tried on traffic that was, before anybody is denied by it: `tidegate simulate`.
//!
//! 1. [`Check`], [`Call`], [`Verdict`]: what a trace and a policy make of each other.
//! 2. [`Decide`]: who decides. One process, or a fleet with its stores.
//! 3. [`Findings`]: what came of it, as it is written to JSON, and [`page`], to look at it.

mod call;
mod findings;

mod report;

pub use call::{Call, Check, Decide, StoreWork, Verdict};
pub use findings::{
    Affected, Changed, Comparison, CurvePoint, Facts, Findings, Fullness, LimitFindings, Malformed,
    PolicyFindings, Slice, Suggestion, TopologyFacts, Totals, TraceFacts, Waits,
};

pub use report::page;
