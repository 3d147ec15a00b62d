//! A request of the trace, as a policy sees it, and who decides on it.

use serde::Serialize;

use crate::policy::LIMITS_MAX;

/// One limit that applies to a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check<'a> {
    /// Which limit of the policy.
    pub limit: usize,
    /// The name of that limit: the namespace of the decision.
    pub namespace: &'a str,
    /// Who is limited, by number: dense from 0 for each limit.
    pub identifier: u32,
    /// Who is limited, as the trace writes it.
    pub name: &'a str,
    /// The length of the window.
    pub window_ms: u64,
    /// How much is allowed within it. An override has already been looked up.
    pub allowed: u64,
    /// What the call costs.
    pub cost: u64,
}

/// A request of the trace. Its checks are decided as one: all have room, or nothing is spent.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Its number in the trace, from 0.
    pub number: u64,
    /// When it came. Never before the one before it.
    pub at_unix_ms: u64,
    /// Where it came from, if the trace says so: calls of one origin enter the same region.
    pub origin: Option<u64>,
    /// What applies to it. At least one.
    pub checks: &'a [Check<'a>],
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The number of the call.
    pub call: u64,
    /// Whether all of it was admitted.
    pub admitted: bool,
    /// The checks without room, a bit for each by their order. Zero if all of it was admitted.
    pub full: u128,
    /// How long the caller waited for a store.
    pub waited_us: u64,
    /// Decided without the region, which did not answer in time.
    pub degraded: bool,
}

impl Verdict {
    /// Of a call that no server takes: whoever sends it is told so, and nothing is spent.
    pub(crate) fn refused(call: &Call<'_>) -> Self {
        let full = call.checks.iter().take(LIMITS_MAX).fold(0, |full, _| full << 1 | 1);
        Self { call: call.number, admitted: false, full, waited_us: 0, degraded: false }
    }
}

/// What stores had to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoreWork {
    /// Calls to the stores of the regions.
    pub region_calls: u64,
    /// Cells that were recorded, read or asked for in them.
    pub region_operations: u64,
    /// Rows that were written to the global store.
    pub rows_written: u64,
    /// Rows that were read from it.
    pub rows_read: u64,
    /// Statements it was sent.
    pub statements: u64,
}

/// Who decides: one process, or a fleet.
pub trait Decide {
    /// Whether it asks where a call came from.
    fn asks_origin(&self) -> bool {
        false
    }

    /// The trace begins: when its first request came, whether a limit applies to it or not. What
    /// goes wrong at some time is told from here.
    fn begin(&mut self, _at_unix_ms: u64) {}

    /// These checks come soon: what is kept of them may be brought near.
    fn warm(&self, _checks: &[Check<'_>]) {}

    /// A call comes. Every verdict that is known by its time is added to `verdicts`, this one's
    /// perhaps later.
    fn offer(&mut self, call: &Call<'_>, verdicts: &mut Vec<Verdict>);

    /// The trace has ended: adds the verdicts that are still open.
    fn finish(&mut self, verdicts: &mut Vec<Verdict>);

    /// What stores had to do until now.
    fn store_work(&self) -> Option<StoreWork>;
}
