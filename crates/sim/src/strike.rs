//! What goes wrong just when a store has answered an ask, and its process does not know it yet.
//!
//! Faults that come at any time rarely meet that moment.

use tidegate_convergence::{Ask, Shard};

use crate::fault::Fault;
use crate::faults::Trouble;
use crate::world::World;

/// One ask in so many is the last thing its process does.
const CRASHES: u64 = 100;
/// After one in so many the shard forgets everything, or a cell of the ask.
const LOSSES: u64 = 200;
/// After one in so many a replica stops to follow...
const SNAPSHOTS: u64 = 20;
/// ...and takes over after one in so many that follow.
const FAILOVERS: u64 = 20;

impl World {
    /// A store has answered an ask.
    pub(crate) fn strike_asked(
        &mut self,
        (node, number): (usize, u32),
        (home, shard): (usize, Shard),
        ask: &Ask,
    ) {
        if self.options.is_private() || self.healed {
            return;
        }
        if self.befalls(Fault::Flush, LOSSES) {
            self.trouble(Trouble::Flush { home, shard });
        }
        if self.befalls(Fault::Evict, LOSSES)
            && let Some(cell) = ask.cells.first()
        {
            self.evict_cell(home, cell.record.cell());
        }
        let lags = self.homes.at(home).store.replicas.contains_key(&shard);
        if !lags && self.befalls(Fault::Failover, SNAPSHOTS) {
            self.trouble(Trouble::Snapshot { home, shard });
        } else if lags && self.befalls(Fault::Failover, FAILOVERS) {
            self.trouble(Trouble::Failover { home, shard });
        }
        let running = self.nodes.get(node).and_then(|node| node.process.as_ref());
        let same = running.is_some_and(|process| process.number == number);
        if same && self.befalls(Fault::Crash, CRASHES) {
            self.crash(node);
        }
    }

    fn befalls(&mut self, fault: Fault, one_in: u64) -> bool {
        self.options.faults.has(fault) && self.consistency.below(one_in) == 0
    }
}
