//! A fleet decides: the production code of every process, their stores and a network, all
//! simulated in one thread.
//!
//! Every answer is the fleet's own: calls wait for stores, processes do not know at once what
//! others admitted, and what is away is away. The same trace, topology and seed give the same
//! answers.

use tidegate_sim::{FleetCheck, Settled};

use crate::call::{Call, Check, Decide, StoreWork, Verdict};
use crate::topology::{Entry, Topology};

/// Decides with the fleet of a topology.
///
/// ```
/// use tidegate_trial::{Call, Check, Decide, Fleet, Topology};
///
/// let mut fleet = Fleet::new(Topology::default());
/// let (mut verdicts, limit, identifier, name) = (Vec::new(), 0, 0, "203.0.113.7");
/// let (namespace, window_ms, allowed, cost) = ("per-ip", 60_000, 2, 1);
/// let checks = [Check { limit, namespace, identifier, name, window_ms, allowed, cost }];
/// for number in 0..4 {
///     let (at_unix_ms, origin) = (1_700_000_040_000 + 100 * number, None);
///     fleet.offer(&Call { number, at_unix_ms, origin, checks: &checks }, &mut verdicts);
/// }
/// fleet.finish(&mut verdicts);
/// assert_eq!(verdicts.iter().filter(|verdict| verdict.admitted).count(), 2);
/// assert!(fleet.store_work().is_some_and(|work| work.region_calls > 0));
/// ```
#[derive(Debug)]
pub struct Fleet {
    topology: Topology,
    /// When the trace begins, if that has been said: faults are told from there.
    begin_unix_ms: Option<u64>,
    /// Started by the first call.
    fleet: Option<tidegate_sim::Fleet>,
    settled: Vec<Settled>,
}

impl Fleet {
    /// A fleet that starts with the first call. The [type](Self) has an example.
    #[must_use]
    pub const fn new(topology: Topology) -> Self {
        Self { topology, begin_unix_ms: None, fleet: None, settled: Vec::new() }
    }

    fn region(&self, call: &Call<'_>) -> Option<usize> {
        let origin = call.origin.filter(|_| self.topology.entry == Entry::Origin)?;
        usize::try_from(origin % (self.topology.regions as u64).max(1)).ok()
    }

    fn collect(&mut self, verdicts: &mut Vec<Verdict>) {
        if let Some(fleet) = &mut self.fleet {
            fleet.take_settled(&mut self.settled);
        }
        verdicts.extend(self.settled.drain(..).map(|settled| {
            let Settled { number, admitted, full, waited_us, degraded } = settled;
            Verdict { call: number, admitted, full, waited_us, degraded }
        }));
    }
}

impl Decide for Fleet {
    fn asks_origin(&self) -> bool {
        self.topology.entry == Entry::Origin
    }

    fn begin(&mut self, at_unix_ms: u64) {
        self.begin_unix_ms = Some(at_unix_ms);
    }

    fn offer(&mut self, call: &Call<'_>, verdicts: &mut Vec<Verdict>) {
        let (region, topology) = (self.region(call), &self.topology);
        let begin_unix_ms = self.begin_unix_ms.unwrap_or(call.at_unix_ms);
        let begin = || tidegate_sim::Fleet::new(topology.options(begin_unix_ms));
        let fleet = self.fleet.get_or_insert_with(begin);
        let came = (call.at_unix_ms, region);
        let taken = match call.checks {
            [one] => fleet.call(call.number, came, &[check(one)]),
            all => {
                let checks: Vec<FleetCheck<'_>> = all.iter().map(check).collect();
                fleet.call(call.number, came, &checks)
            }
        };
        if taken.is_err() {
            verdicts.push(Verdict::refused(call));
        }
        self.collect(verdicts);
    }

    fn finish(&mut self, verdicts: &mut Vec<Verdict>) {
        if let Some(fleet) = &mut self.fleet {
            fleet.finish();
        }
        self.collect(verdicts);
    }

    fn store_work(&self) -> Option<StoreWork> {
        let work = self.fleet.as_ref()?.work();
        Some(StoreWork {
            region_calls: work.region_calls,
            region_operations: work.region_operations,
            rows_written: work.rows_written,
            rows_read: work.rows_read,
            statements: work.statements,
        })
    }
}

fn check<'a>(check: &Check<'a>) -> FleetCheck<'a> {
    let Check { namespace, name, window_ms, allowed, cost, .. } = *check;
    FleetCheck { namespace, name, window_ms, limit: allowed, cost }
}

#[cfg(test)]
mod tests;
