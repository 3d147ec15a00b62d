//! What one limit did: to all, and to each identifier.

use super::log::{Log, Span};
use super::names::Names;
use crate::call::Verdict;
use crate::findings::{Affected, Fullness, LimitFindings, Totals};
use crate::policy::Limit;

/// Numbers of denials at which the next step of the histogram begins.
const STEPS: [u32; 5] = [1, 2, 10, 100, 1_000];

/// What became of one identifier: as large as a line of the cache.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
pub(crate) struct Standing {
    /// It and the next three count to four billion, and stay there.
    pub(crate) requests: u32,
    pub(crate) admitted: u32,
    pub(crate) denied: u32,
    falsely_denied: u32,
    /// Which numbers are its own: 0 for those of the limit, otherwise an override's.
    terms: u32,
    first_denied_ms: u64,
    fullest: u64,
    span: Span,
}

/// How much is allowed, and within how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) allowed: u64,
    pub(crate) window_ms: u64,
}

/// A check whose verdict is not known yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) limit: usize,
    pub(crate) identifier: u32,
    pub(crate) cost: u64,
}

#[derive(Debug)]
pub(crate) struct Tally {
    pub(crate) names: Names,
    pub(crate) standings: Vec<Standing>,
    log: Log,
    totals: Totals,
    /// Those of the limit, then those of its overrides.
    terms: Vec<Terms>,
}

impl Tally {
    pub(crate) fn new(limit: &Limit) -> Self {
        let own = Terms { allowed: limit.limit, window_ms: limit.window_ms };
        let others = limit.overrides.as_slice().iter().map(|one| Terms {
            allowed: one.limit,
            window_ms: one.window_ms.unwrap_or(limit.window_ms),
        });
        Self {
            names: Names::default(),
            standings: Vec::new(),
            log: Log::default(),
            totals: Totals::default(),
            terms: std::iter::once(own).chain(others).collect(),
        }
    }

    /// The number of an identifier, and what it is allowed.
    #[inline]
    pub(crate) fn identify(&mut self, name: &str, limit: &Limit) -> (u32, Terms) {
        let (number, is_new) = self.names.number(name);
        if is_new {
            let found = limit.overrides.find(name).and_then(|at| u32::try_from(at).ok());
            let terms = found.map_or(0, |at| at.saturating_add(1));
            self.standings.push(Standing { terms, ..Standing::default() });
        }
        // Written here, and not when it is decided: memory then has time to bring the rest.
        let standing = self.standings.get_mut(number as usize);
        let at = standing.map_or(0, |standing| {
            standing.requests = standing.requests.saturating_add(1);
            standing.terms
        });
        // Without overrides nobody waits for it.
        let terms = if let [own] = self.terms.as_slice() { *own } else { self.terms(at) };
        (number, terms)
    }

    /// Reads what is kept of an identifier, and says what it is allowed.
    #[inline]
    pub(crate) fn warm(&self, number: u32) -> Option<Terms> {
        let standing = self.standings.get(number as usize)?;
        self.log.warm(&standing.span);
        Some(self.terms(standing.terms))
    }

    #[inline]
    fn terms(&self, at: u32) -> Terms {
        let none = Terms { allowed: 0, window_ms: 0 };
        self.terms.get(at as usize).copied().unwrap_or(none)
    }

    /// Counts a check; `full` if it had no room. Answers whether the log had room for it.
    #[inline]
    pub(crate) fn count(
        &mut self,
        waiting: Waiting,
        at_ms: u64,
        verdict: &Verdict,
        full: bool,
    ) -> bool {
        if self.log.is_full() {
            self.clean(at_ms);
        }
        let Self { standings, log, totals, terms, .. } = self;
        let Some(standing) = standings.get_mut(waiting.identifier as usize) else { return true };
        let Some(Terms { allowed, window_ms }) = terms.get(standing.terms as usize).copied() else {
            return true;
        };
        log.expire(&mut standing.span, window_ms, at_ms);
        let sum = standing.span.sum.saturating_add(waiting.cost);
        let fits = allowed > 0 && sum <= allowed;
        totals.degraded = totals.degraded.saturating_add(verdict.degraded.into());
        if full {
            if standing.denied == 0 {
                standing.first_denied_ms = at_ms;
            }
            standing.denied = standing.denied.saturating_add(1);
            standing.falsely_denied = standing.falsely_denied.saturating_add(fits.into());
            totals.denied = totals.denied.saturating_add(1);
            totals.falsely_denied = totals.falsely_denied.saturating_add(fits.into());
        } else if verdict.admitted {
            standing.admitted = standing.admitted.saturating_add(1);
            standing.fullest = standing.fullest.max(sum);
            totals.admitted = totals.admitted.saturating_add(1);
            totals.falsely_admitted = totals.falsely_admitted.saturating_add((!fits).into());
            log.push(&mut standing.span, at_ms, waiting.cost);
        }
        fits
    }

    /// The names of all identifiers.
    pub(crate) fn all_names(&self) -> impl Iterator<Item = &str> {
        (0_u32..).zip(&self.standings).map(|(number, _)| self.names.get(number))
    }

    /// The names of those that were denied.
    pub(crate) fn denied_names(&self) -> impl Iterator<Item = &str> {
        let all = (0_u32..).zip(&self.standings);
        all.filter(|(_, it)| it.denied > 0).map(|(number, _)| self.names.get(number))
    }

    /// What became of an identifier, if it came.
    pub(crate) fn standing_of(&self, name: &str) -> Option<&Standing> {
        self.names.find(name).and_then(|number| self.standings.get(number as usize))
    }

    /// Whether an identifier was denied.
    pub(crate) fn denies(&self, name: &str) -> bool {
        self.standing_of(name).is_some_and(|standing| standing.denied > 0)
    }

    /// Takes out of the log what has left its windows, of all identifiers.
    #[cold]
    fn clean(&mut self, at_ms: u64) {
        for standing in &mut self.standings {
            let window_ms = self.terms.get(standing.terms as usize).map_or(0, |it| it.window_ms);
            self.log.expire(&mut standing.span, window_ms, at_ms);
        }
        self.log.make_room(self.standings.len());
    }

    pub(crate) fn findings(&self, limit: &Limit, missing: u64) -> LimitFindings {
        let mut denied_histogram = [0; STEPS.len() + 1];
        for standing in &self.standings {
            let step = STEPS.partition_point(|from| *from <= standing.denied);
            if let Some(count) = denied_histogram.get_mut(step) {
                *count = u64::saturating_add(*count, 1);
            }
        }
        LimitFindings {
            name: limit.name.clone(),
            by: limit.by.words(),
            limit: limit.limit,
            window_ms: limit.window_ms,
            totals: self.totals,
            identifiers: self.standings.len() as u64,
            affected: self.standings.iter().filter(|it| it.denied > 0).count() as u64,
            missing,
            denied_histogram,
            fullness: self.fullness(),
        }
    }

    fn fullness(&self) -> Fullness {
        let permille = |it: &Standing| permille(it.fullest, self.terms(it.terms).allowed);
        let mut all: Vec<u64> = self.standings.iter().map(permille).collect();
        all.sort_unstable();
        let at = |percent: usize| {
            let place = all.len().saturating_mul(percent).div_ceil(100).saturating_sub(1);
            all.get(place).copied().unwrap_or(0)
        };
        Fullness { p50: at(50), p99: at(99), worst: at(100) }
    }

    pub(crate) fn affected(&self, limit: &Limit, identifier: u32) -> Affected {
        let standing = self.standings.get(identifier as usize).copied().unwrap_or_default();
        let allowed = self.terms(standing.terms).allowed;
        Affected {
            limit: limit.name.clone(),
            identifier: self.names.get(identifier).to_owned(),
            allowed,
            requests: standing.requests.into(),
            admitted: standing.admitted.into(),
            denied: standing.denied.into(),
            falsely_denied: standing.falsely_denied.into(),
            first_denied_unix_ms: standing.first_denied_ms,
            fullest_permille: permille(standing.fullest, allowed),
        }
    }
}

/// In thousandths. Of nothing, nothing.
fn permille(part: u64, whole: u64) -> u64 {
    let thousands = u128::from(part).saturating_mul(1_000);
    let share = thousands.checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(share).unwrap_or(u64::MAX)
}

const _: () = assert!(size_of::<Standing>() <= 64, "a million of them are 64 MB");
