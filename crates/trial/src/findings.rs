//! What came of a trial, as it is written to JSON and drawn on the page.

use serde::Serialize;

use crate::call::StoreWork;

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Findings {
    /// The version of this document. It changes when a field goes or changes its meaning.
    pub version: u32,
    /// What was read.
    pub trace: TraceFacts,
    /// What should be known before the numbers are believed, in sentences.
    pub warnings: Vec<String>,
    /// Where it was decided.
    pub topology: TopologyFacts,
    /// The policies that were tried, at most two: the current one first, then the candidate.
    pub policies: Vec<PolicyFindings>,
    /// What the candidate changes. Only with two policies.
    pub comparison: Option<Comparison>,
    /// With `--suggest`: a limit for each window length.
    pub suggestions: Vec<Suggestion>,
}

/// What was read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TraceFacts {
    /// A file, `standard input`, or the name of a generator.
    pub source: String,
    /// `common`, `combined`, `json`, `csv`, or `generated`; of several files that differ, all of
    /// them with `and` between.
    pub format: String,
    /// Lines read, with those that are empty or malformed.
    pub lines: u64,
    /// Requests in them.
    pub requests: u64,
    /// The first and the last request.
    pub first_unix_ms: u64,
    /// The last request.
    pub last_unix_ms: u64,
    /// Requests that came before the one before them, and were decided at its time.
    pub out_of_order: u64,
    /// Lines that no request could be read from.
    pub malformed: u64,
    /// The first of them.
    pub malformed_first: Vec<Malformed>,
}

/// A line that no request could be read from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Malformed {
    /// Its number, from 1.
    pub line: u64,
    /// What was expected.
    pub reason: String,
    /// Its beginning.
    pub sample: String,
}

/// Where it was decided.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyFacts {
    /// In one sentence.
    pub summary: String,
    /// Regions.
    pub regions: u64,
    /// Processes of all regions together.
    pub nodes: u64,
    /// What was set otherwise than usual, and what went wrong: name and value.
    pub facts: Vec<Facts>,
}

/// A name and a value, for a table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Facts {
    /// The name.
    pub name: String,
    /// The value.
    pub value: String,
}

/// What a policy did to the trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyFindings {
    /// `current`, `candidate` or the policy's own name.
    pub name: String,
    /// Requests that no limit of the policy applies to.
    pub unlimited: u64,
    /// Calls, by what became of them.
    pub totals: Totals,
    /// Identifiers that its limits saw. One that several limits with the same `by` saw is one.
    pub identifiers: u64,
    /// Of them, those that were denied at least once, by whichever limit.
    pub affected: u64,
    /// Calls over time: slices of the same length.
    pub slice_ms: u64,
    /// The slices, with those in which nothing came.
    pub over_time: Vec<Slice>,
    /// Each limit.
    pub limits: Vec<LimitFindings>,
    /// The identifiers that were denied most often, of all limits, most first.
    pub most_affected: Vec<Affected>,
    /// What stores had to do. Only with a topology that has stores.
    pub stores: Option<StoreWork>,
    /// How long callers waited for stores. Only with a topology that has stores.
    pub waits: Option<Waits>,
}

/// How many, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Totals {
    /// Admitted.
    pub admitted: u64,
    /// Denied.
    pub denied: u64,
    /// Admitted, and a log of all admissions would have had no room.
    pub falsely_admitted: u64,
    /// Denied, and a log of all admissions would have had room.
    pub falsely_denied: u64,
    /// Decided without the region, which did not answer in time.
    pub degraded: u64,
}

/// A slice of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Slice {
    /// When it begins.
    pub from_unix_ms: u64,
    /// Calls admitted in it.
    pub admitted: u64,
    /// Calls denied in it.
    pub denied: u64,
}

/// What one limit of a policy did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LimitFindings {
    /// Its name.
    pub name: String,
    /// What it limits, in words: `by ip`, `by header x-api-key`.
    pub by: String,
    /// How much is allowed.
    pub limit: u64,
    /// Within how long.
    pub window_ms: u64,
    /// Checks of this limit, by what became of them: denied are those without room.
    pub totals: Totals,
    /// Identifiers seen.
    pub identifiers: u64,
    /// Identifiers denied at least once.
    pub affected: u64,
    /// Requests that it is for and that lack the field that says whom to limit.
    pub missing: u64,
    /// How many identifiers were denied how often: at 0, 1, 2-9, 10-99, 100-999, 1,000 and more.
    pub denied_histogram: [u64; 6],
    /// How full the fullest span of a window's length was, over identifiers, against what they
    /// are allowed.
    pub fullness: Fullness,
}

/// How full spans were, in thousandths of what is allowed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fullness {
    /// The median identifier.
    pub p50: u64,
    /// All but one in a hundred.
    pub p99: u64,
    /// The worst: above 1,000 is overshoot.
    pub worst: u64,
}

/// How long callers waited, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waits {
    /// Calls that waited at all.
    pub calls: u64,
    /// All but one in a hundred of all calls waited at most so long.
    pub p99_us: u64,
    /// The longest.
    pub longest_us: u64,
}

/// An identifier that was denied.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Affected {
    /// By which limit.
    pub limit: String,
    /// Who.
    pub identifier: String,
    /// What it is allowed: the limit, or an override.
    pub allowed: u64,
    /// Its calls.
    pub requests: u64,
    /// Those admitted.
    pub admitted: u64,
    /// Those denied.
    pub denied: u64,
    /// Those of them that a log would have admitted.
    pub falsely_denied: u64,
    /// When it was denied first.
    pub first_denied_unix_ms: u64,
    /// The fullest span, in thousandths of what it is allowed.
    pub fullest_permille: u64,
}

/// What the candidate changes. An identifier counts once, however many limits with the same `by`
/// deny it, and whatever they are called.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Identifiers that the candidate denies and the current policy does not.
    pub newly_limited: u64,
    /// Identifiers that it no longer denies.
    pub no_longer_limited: u64,
    /// Identifiers that both deny.
    pub limited_by_both: u64,
    /// Calls that only the candidate denies.
    pub newly_denied_calls: u64,
    /// Calls that only the current policy denies.
    pub newly_admitted_calls: u64,
    /// The first of the newly limited, most denied first.
    pub newly_limited_first: Vec<Changed>,
    /// The first of those no longer limited.
    pub no_longer_limited_first: Vec<Changed>,
}

/// An identifier for which something changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    /// By which limit: of several, the one that denies it most. The numbers are of this one.
    pub limit: String,
    /// Who.
    pub identifier: String,
    /// Its calls that the limit is for.
    pub requests: u64,
    /// Those the current policy denied.
    pub denied_before: u64,
    /// Those the candidate denied.
    pub denied_after: u64,
}

/// The lowest limit that hurts few, for one window length.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Suggestion {
    /// The name of the limit in the policy.
    pub name: String,
    /// What is limited, as in [`LimitFindings::by`].
    pub by: String,
    /// The window.
    pub window_ms: u64,
    /// The lowest limit that would have limited at most the share that was asked for.
    pub limit: u64,
    /// How many identifiers that is.
    pub affected: u64,
    /// Of how many.
    pub identifiers: u64,
    /// The share that was asked for, in millionths.
    pub max_affected_ppm: u64,
    /// Limits and how many identifiers they would have limited, rising limits.
    pub curve: Vec<CurvePoint>,
}

/// A point of the curve.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CurvePoint {
    /// A limit.
    pub limit: u64,
    /// How many identifiers it would have limited.
    pub affected: u64,
}
