//! A trial: a trace through one policy or two, with the referee beside.
//!
//! Promises: every call is decided by whoever [decides](Decide), at its own time, in the order of
//! the trace; beside it a log of all admissions says what an exact limiter would have done. Memory
//! grows with the identifiers and with what is in their windows, not with the length of the trace.
//! Fails: as the trace does, and if a limit finds its field nowhere.

mod log;
mod names;
mod one;
mod slices;
mod tally;
#[cfg(test)]
pub(crate) mod tests;
mod trial;
mod waits;
mod warnings;

use std::collections::VecDeque;

use arrayvec::ArrayVec;

use names::half_of;
pub(crate) use names::{Names, hash_of};
pub use one::OneProcess;
use slices::Slices;
use tally::{Tally, Terms, Waiting};
pub use trial::{Plan, Trial};
use waits::WaitCounts;
use warnings::warnings;

use crate::call::{Call, Check, Decide, Verdict};
use crate::compare::distinct;
use crate::findings::{PolicyFindings, Totals};
use crate::policy::{By, LIMITS_MAX, Limit, Policy, Rules};
use crate::trace::{Fields, Record};

/// Requests that are read before the first of them is decided: enough to wait for memory together,
/// and so few that nothing of them is gone from the cache when they are decided.
pub(crate) const BLOCK: usize = 32;

/// One policy on its way through the trace.
pub(crate) struct Run {
    policy: Policy,
    pub(crate) rules: Rules,
    decide: Box<dyn Decide>,
    tallies: Vec<Tally>,
    pending: Pending,
    verdicts: Vec<Verdict>,
    counts: Counts,
    /// What became of each call, in their order; taken by who compares.
    outcomes: Option<VecDeque<bool>>,
}

/// Counts of all limits together.
#[derive(Debug, Default)]
struct Counts {
    totals: Totals,
    unlimited: u64,
    slices: Slices,
    waits: WaitCounts,
}

/// Calls whose verdicts are not known, or wait for an earlier one: the referee takes them in their
/// order.
#[derive(Debug, Default)]
struct Pending {
    /// The number of the first.
    first: u64,
    calls: VecDeque<(u64, usize, Option<Verdict>)>,
    checks: VecDeque<Waiting>,
}

impl Run {
    pub(crate) fn new(
        policy: Policy,
        decide: Box<dyn Decide>,
        fields: &mut Fields,
        compared: bool,
    ) -> Self {
        let rules = Rules::new(&policy, fields);
        let tallies = policy.limits.iter().map(Tally::new).collect();
        Self {
            policy,
            rules,
            decide,
            tallies,
            pending: Pending::default(),
            verdicts: Vec::new(),
            counts: Counts::default(),
            outcomes: compared.then(VecDeque::new),
        }
    }

    /// Whether anybody asks where a call came from.
    pub(crate) fn asks_origin(&self) -> bool {
        self.decide.asks_origin()
    }

    /// These requests come soon. Memory brings what is kept of them while others are waited for,
    /// and not one after the other when they are decided.
    pub(crate) fn warm(&self, records: &[Record]) {
        for (at, (limit, tally)) in self.limits().enumerate() {
            let Some(field) = self.rules.plain(at) else { continue };
            let names = records.iter().filter_map(|record| record.get(field));
            let halves: ArrayVec<u32, BLOCK> = names.clone().map(half_of).collect();
            let numbers: ArrayVec<Option<u32>, BLOCK> =
                halves.iter().map(|half| tally.names.guess(*half)).collect();
            let checks: ArrayVec<Check<'_>, BLOCK> = names
                .zip(numbers)
                .filter_map(|(name, number)| {
                    let identifier = number?;
                    let Terms { window_ms, allowed } = tally.warm(identifier)?;
                    let namespace = &limit.name;
                    Some(Check {
                        limit: at,
                        namespace,
                        identifier,
                        name,
                        window_ms,
                        allowed,
                        cost: 1,
                    })
                })
                .collect();
            self.decide.warm(&checks);
        }
    }

    /// A request of the trace comes.
    pub(crate) fn offer(&mut self, record: &Record, number: u64, origin: Option<u64>) {
        self.rules.look(record);
        let at_unix_ms = record.at_unix_ms();
        if number == 0 {
            self.decide.begin(at_unix_ms);
        }
        let mut waiting: ArrayVec<Waiting, LIMITS_MAX> = ArrayVec::new();
        let mut checks: ArrayVec<Check<'_>, LIMITS_MAX> = ArrayVec::new();
        for found in self.rules.found() {
            let name = self.rules.name(record, found);
            let limit = found.limit;
            let (Some(of), Some(tally)) =
                (self.policy.limits.get(limit), self.tallies.get_mut(limit))
            else {
                continue;
            };
            let (identifier, terms) = tally.identify(name, of);
            waiting.push(Waiting { limit, identifier, cost: found.cost });
            checks.push(Check {
                limit,
                namespace: &of.name,
                identifier,
                name,
                window_ms: terms.window_ms,
                allowed: terms.allowed,
                cost: found.cost,
            });
        }
        if checks.is_empty() {
            self.counts.unlimited = self.counts.unlimited.saturating_add(1);
        } else {
            let call = Call { number, at_unix_ms, origin, checks: &checks };
            self.decide.offer(&call, &mut self.verdicts);
        }
        drop(checks);
        self.take(number, at_unix_ms, &waiting);
    }

    /// Settles the call if it is decided and nothing waits before it; otherwise it waits.
    fn take(&mut self, number: u64, at_ms: u64, waiting: &[Waiting]) {
        let alone = self.pending.calls.is_empty();
        match (alone, self.verdicts.as_slice()) {
            (true, []) if waiting.is_empty() => self.settle_unlimited(),
            (true, [verdict]) if verdict.call == number && !waiting.is_empty() => {
                let verdict = *verdict;
                self.verdicts.clear();
                self.settle(at_ms, waiting, &verdict);
            }
            _ => {
                if alone {
                    self.pending.first = number;
                }
                self.pending.calls.push_back((at_ms, waiting.len(), None));
                self.pending.checks.extend(waiting);
                self.drain();
            }
        }
    }

    /// Settles what is known, in the order of the calls.
    fn drain(&mut self) {
        for verdict in self.verdicts.drain(..) {
            let at = verdict.call.checked_sub(self.pending.first);
            let at = at.and_then(|at| usize::try_from(at).ok());
            if let Some((_, _, known)) = at.and_then(|at| self.pending.calls.get_mut(at)) {
                *known = Some(verdict);
            }
        }
        loop {
            let (at_ms, count, verdict) = match self.pending.calls.front() {
                Some((at_ms, 0, _)) => (*at_ms, 0, None),
                Some((at_ms, count, Some(verdict))) => (*at_ms, *count, Some(*verdict)),
                _ => return,
            };
            self.pending.calls.pop_front();
            self.pending.first = self.pending.first.saturating_add(1);
            match verdict {
                None => self.settle_unlimited(),
                Some(verdict) => {
                    let waiting: ArrayVec<Waiting, LIMITS_MAX> =
                        self.pending.checks.drain(..count).collect();
                    self.settle(at_ms, &waiting, &verdict);
                }
            }
        }
    }

    fn settle_unlimited(&mut self) {
        if let Some(outcomes) = &mut self.outcomes {
            outcomes.push_back(true);
        }
    }

    /// The referee looks at a verdict.
    fn settle(&mut self, at_ms: u64, waiting: &[Waiting], verdict: &Verdict) {
        let mut had_room = true;
        for (bit, check) in waiting.iter().enumerate() {
            let full = verdict.full >> bit & 1 == 1;
            if let Some(tally) = self.tallies.get_mut(check.limit) {
                had_room &= tally.count(*check, at_ms, verdict, full);
            }
        }
        let Counts { totals, slices, waits, .. } = &mut self.counts;
        let admitted = verdict.admitted;
        let count = |it: &mut u64, so: bool| *it = it.saturating_add(so.into());
        count(&mut totals.admitted, admitted);
        count(&mut totals.denied, !admitted);
        count(&mut totals.falsely_admitted, admitted && !had_room);
        count(&mut totals.falsely_denied, !admitted && had_room);
        count(&mut totals.degraded, verdict.degraded);
        slices.count(at_ms, admitted);
        waits.count(verdict.waited_us);
        if let Some(outcomes) = &mut self.outcomes {
            outcomes.push_back(admitted);
        }
    }

    /// The trace has ended.
    pub(crate) fn finish(&mut self) {
        self.decide.finish(&mut self.verdicts);
        self.drain();
    }

    /// Calls that nobody decided. None, unless who decides forgets some.
    pub(crate) fn undecided(&self) -> usize {
        self.pending.calls.len()
    }

    pub(crate) fn findings(&self, top: usize) -> PolicyFindings {
        let Counts { totals, unlimited, slices, waits } = &self.counts;
        let stores = self.decide.store_work();
        let limits = self.limits().enumerate();
        let (identifiers, affected) = distinct(self);
        PolicyFindings {
            name: self.policy.name.clone(),
            unlimited: *unlimited,
            totals: *totals,
            identifiers,
            affected,
            slice_ms: slices.slice_ms,
            over_time: slices.all(),
            limits: limits
                .map(|(at, (limit, tally))| tally.findings(limit, self.rules.missing(at)))
                .collect(),
            most_affected: self.most_affected(top),
            waits: stores.map(|_| waits.findings()),
            stores,
        }
    }

    /// The limits, with what they did.
    pub(crate) fn limits(&self) -> impl Iterator<Item = (&Limit, &Tally)> {
        self.policy.limits.iter().zip(&self.tallies)
    }

    /// Those of the first `many` limits that have the same identifiers as `by`.
    pub(crate) fn alike<'a>(
        &'a self,
        by: &'a By,
        many: usize,
    ) -> impl Iterator<Item = (&'a Limit, &'a Tally)> {
        self.limits().take(many).filter(|(limit, _)| limit.by.is_like(by))
    }

    fn most_affected(&self, top: usize) -> Vec<crate::findings::Affected> {
        let mut all = Vec::new();
        for (at, (_, tally)) in self.limits().enumerate() {
            let denied = (0_u32..).zip(&tally.standings).filter(|(_, it)| it.denied > 0);
            all.extend(denied.map(|(number, it)| (std::cmp::Reverse(it.denied), at, number)));
        }
        all.sort_unstable();
        let shown = all.into_iter().take(top);
        let found = shown.filter_map(|(_, at, number)| {
            let (limit, tally) = self.limits().nth(at)?;
            Some(tally.affected(limit, number))
        });
        found.collect()
    }

    /// What became of the calls that are settled and not yet compared.
    pub(crate) const fn outcomes(&mut self) -> Option<&mut VecDeque<bool>> {
        self.outcomes.as_mut()
    }

    pub(crate) const fn policy(&self) -> &Policy {
        &self.policy
    }
}
