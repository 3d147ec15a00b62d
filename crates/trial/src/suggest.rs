//! The lowest limit that hurts few.
//!
//! The peak of an identifier is the least limit under which it is never denied: the most that the
//! sliding window of production ever says when everything is admitted. A limit of `L` denies
//! exactly those whose peak is above `L`: the first call that does not fit comes after calls that
//! all did. So the peaks, in order, are the curve.

use tidegate_limiter::{LIMIT_MAX, Window, sliding_use};

use crate::findings::{CurvePoint, Suggestion};
use crate::policy::{Policy, Rules};
use crate::run::Names;
use crate::trace::{Fields, Record};

/// Points of a curve, about.
const POINTS: u64 = 100;
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
    windows: Vec<Window>,
    /// Of each limit, the identifiers, and how full their windows are: one after the other for
    /// each identifier.
    seen: Vec<(Names, Vec<Filling>)>,
}

/// How full one window of an identifier is. A table would say the same (the tests ask it) and take
/// ten times the memory, most of it for what fleets need.
#[derive(Clone, Copy, Debug, Default)]
struct Filling {
    /// Which cell is the current one.
    sequence: u64,
    current: u64,
    previous: u64,
    peak: u64,
}

impl Filling {
    /// Spends a cost, if it fits below the largest limit there is.
    fn spend(&mut self, window: Window, cost: u64, now_ms: u64) {
        let window_ms = window.as_millis();
        let (sequence, elapsed_ms) = (now_ms / window_ms, now_ms % window_ms);
        if sequence != self.sequence {
            let follows = self.sequence.checked_add(1) == Some(sequence);
            self.previous = if follows { self.current } else { 0 };
            (self.sequence, self.current) = (sequence, 0);
        }
        let used = sliding_use(self.current, self.previous, window, elapsed_ms);
        let used = used.saturating_add(cost);
        self.peak = self.peak.max(used.min(LIMIT_MAX));
        if used <= LIMIT_MAX {
            self.current = self.current.saturating_add(cost);
        }
    }
}

impl Suggester {
    pub(crate) fn new(options: SuggestOptions, fields: &mut Fields) -> Self {
        let rules = Rules::new(&options.policy, fields);
        let seen = options.policy.limits.iter().map(|_| Default::default()).collect();
        // Policies and windows were checked: all of them are windows.
        let windows = options.windows_ms.iter().filter_map(|ms| Window::from_millis(*ms).ok());
        let windows = windows.collect();
        Self { options, rules, windows, seen }
    }

    pub(crate) const fn policy(&self) -> &Policy {
        &self.options.policy
    }

    /// A request of the trace comes.
    pub(crate) fn offer(&mut self, record: &Record) {
        self.rules.look(record);
        let windows = self.windows.len();
        for found in self.rules.found() {
            let Some((names, fillings)) = self.seen.get_mut(found.limit) else { continue };
            let (identifier, is_new) = names.number(self.rules.name(record, found));
            if is_new {
                fillings.extend(std::iter::repeat_n(Filling::default(), windows));
            }
            let first = (identifier as usize).saturating_mul(windows);
            let own = fillings.get_mut(first..).unwrap_or_default();
            for (window, filling) in self.windows.iter().zip(own) {
                filling.spend(*window, found.cost, record.at_unix_ms());
            }
        }
    }

    pub(crate) fn suggestions(self) -> Vec<Suggestion> {
        let SuggestOptions { policy, max_affected_ppm, .. } = self.options;
        let mut all = Vec::new();
        for (limit, (_, fillings)) in policy.limits.iter().zip(self.seen) {
            for (at, window) in self.windows.iter().enumerate() {
                let own = fillings.iter().skip(at).step_by(self.windows.len());
                let mut peaks: Vec<u64> = own.map(|filling| filling.peak).collect();
                peaks.sort_unstable();
                let lowest = lowest(&peaks, max_affected_ppm);
                all.push(Suggestion {
                    name: limit.name.clone(),
                    by: limit.by.words(),
                    window_ms: window.as_millis(),
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
    // A limit of 0 denies everybody, also who never spent anything.
    let mut limits = vec![suggested, (*last).max(1)];
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
