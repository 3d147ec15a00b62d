//! The lowest limit that hurts few.
//!
//! The peak of an identifier is the least limit under which it is never denied: the most that the
//! sliding window of production ever says when everything is admitted. A limit of `L` denies
//! exactly those whose peak is above `L`: the first call that does not fit comes after calls that
//! all did. So the peaks, in order, are the curve.

use tidegate_limiter::{LIMIT_MAX, Now, Options, Seed, Table};

use crate::call::Check;
use crate::findings::{CurvePoint, Suggestion};
use crate::policy::{Policy, Rules};
use crate::run::{Names, request, sweep};
use crate::trace::{Fields, Record};

/// Points of a curve, about.
const POINTS: u64 = 100;
/// Memory for subjects, taken as it is needed: nothing is evicted.
const BUDGET_BYTES: usize = 64 << 30;
/// All.
const MILLION: u64 = 1_000_000;

/// What limits are suggested for.
#[derive(Clone, Debug)]
pub struct SuggestOptions {
    /// Each of its limits says who is limited, for which calls and at what cost. Its numbers and
    /// its overrides do not matter.
    pub policy: Policy,
    /// Lengths of windows.
    pub windows_ms: Vec<u64>,
    /// The share of identifiers that may be limited, in millionths.
    pub max_affected_ppm: u64,
}

#[derive(Debug)]
pub(crate) struct Suggester {
    options: SuggestOptions,
    pub(crate) rules: Rules,
    table: Table,
    decisions: u64,
    /// Of each limit, the identifiers and, for each window, their peaks.
    seen: Vec<(Names, Vec<Vec<u64>>)>,
}

impl Suggester {
    pub(crate) fn new(options: SuggestOptions, fields: &mut Fields) -> Self {
        let rules = Rules::new(&options.policy, fields);
        let windows = options.windows_ms.len();
        let seen = options.policy.limits.iter();
        let seen = seen.map(|_| (Names::default(), vec![Vec::new(); windows])).collect();
        let table = Options::default().with_budget_bytes(BUDGET_BYTES);
        let table = Table::new(table, Seed::from_bytes([13; 32]));
        Self { options, rules, table, decisions: 0, seen }
    }

    pub(crate) const fn policy(&self) -> &Policy {
        &self.options.policy
    }

    /// A request of the trace comes.
    pub(crate) fn offer(&mut self, record: &Record) {
        self.rules.look(record);
        let now = Now::new(record.at_unix_ms(), record.at_unix_ms());
        for found in self.rules.found() {
            let name = self.rules.name(record, found);
            let limit = self.options.policy.limits.get(found.limit);
            let (Some(limit), Some((names, peaks))) = (limit, self.seen.get_mut(found.limit))
            else {
                continue;
            };
            let (identifier, is_new) = names.number(name);
            for (window_ms, peaks) in self.options.windows_ms.iter().zip(peaks) {
                if is_new {
                    peaks.push(0);
                }
                let check = Check {
                    limit: found.limit,
                    namespace: &limit.name,
                    identifier,
                    name,
                    window_ms: *window_ms,
                    allowed: LIMIT_MAX,
                    cost: found.cost,
                };
                let Some(request) = request(&check) else { continue };
                let used = LIMIT_MAX.saturating_sub(self.table.decide(&request, now).remaining());
                if let Some(peak) = peaks.get_mut(identifier as usize) {
                    *peak = used.max(*peak);
                }
                self.decisions = self.decisions.wrapping_add(1);
                sweep(&self.table, self.decisions, now);
            }
        }
    }

    pub(crate) fn suggestions(self) -> Vec<Suggestion> {
        let SuggestOptions { policy, windows_ms, max_affected_ppm } = self.options;
        let mut all = Vec::new();
        for (limit, (_, peaks)) in policy.limits.iter().zip(self.seen) {
            for (window_ms, mut peaks) in windows_ms.iter().zip(peaks) {
                peaks.sort_unstable();
                let lowest = lowest(&peaks, max_affected_ppm);
                all.push(Suggestion {
                    name: limit.name.clone(),
                    by: limit.by.words(),
                    window_ms: *window_ms,
                    limit: lowest,
                    affected: above(&peaks, lowest),
                    identifiers: peaks.len() as u64,
                    max_affected_ppm,
                    curve: curve(&peaks, lowest),
                });
            }
        }
        all
    }
}

/// The lowest limit that at most this share of the peaks is above, at least 1. The peaks rise.
fn lowest(peaks: &[u64], max_affected_ppm: u64) -> u64 {
    let share = u128::from(max_affected_ppm.min(MILLION));
    let may = (peaks.len() as u128).saturating_mul(share) / u128::from(MILLION);
    let may = usize::try_from(may).unwrap_or(usize::MAX);
    let place = peaks.len().checked_sub(may).and_then(|rest| rest.checked_sub(1));
    place.and_then(|place| peaks.get(place)).copied().unwrap_or(1).max(1)
}

/// How many peaks are above a limit. They rise.
fn above(peaks: &[u64], limit: u64) -> u64 {
    peaks.len().saturating_sub(peaks.partition_point(|peak| *peak <= limit)) as u64
}

/// Points at about the same distance on a logarithmic scale, and the suggested one.
fn curve(peaks: &[u64], suggested: u64) -> Vec<CurvePoint> {
    let (Some(first), Some(last)) = (peaks.first(), peaks.last()) else { return Vec::new() };
    let mut limits = vec![suggested, *last];
    let mut limit = (*first).max(1);
    // Each step adds at least one, and later a fixed share that crosses any span in so many steps.
    let steps = POINTS.max(1);
    let bits = u64::from((last / limit).max(1).ilog2()).saturating_add(1);
    while limit < *last {
        limits.push(limit);
        // 2^(bits / steps) as a factor, a little below: ln 2 is 0.69.
        let grown = u128::from(limit) * u128::from(bits) * 7 / u128::from(steps * 10);
        limit = limit.saturating_add(u64::try_from(grown).unwrap_or(u64::MAX).max(1));
    }
    limits.sort_unstable();
    limits.dedup();
    let point = |limit| CurvePoint { limit, affected: above(peaks, limit) };
    limits.into_iter().map(point).collect()
}

#[cfg(test)]
mod tests;
