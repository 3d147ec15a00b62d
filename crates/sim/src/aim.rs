//! Faults that strike just when something rare is under way.
//!
//! Faults that come at any time rarely meet what lasts for a moment. In worlds that say so, some of
//! what begins is struck before it ends, by any of the faults that are on.

use crate::coverage::Moment;
use crate::fault::Fault;
use crate::faults::Trouble;
use crate::world::{Event, World};

/// So many in one run: more would leave nothing to judge.
pub(crate) const AIMS_MAX: u32 = 32;

/// Those that strike a node, a region or the world, and not single messages.
const AIMED: [Fault; 12] = [
    Fault::Partition,
    Fault::Crash,
    Fault::Drain,
    Fault::Pause,
    Fault::Step,
    Fault::Flush,
    Fault::Failover,
    Fault::Evict,
    Fault::Rewind,
    Fault::Lag,
    Fault::Sever,
    Fault::Behead,
];

/// One in so many is struck at: the rarer, the more of them.
const fn one_in(what: Moment) -> Option<u64> {
    match what {
        Moment::Ask => Some(6),
        Moment::Batch => Some(3),
        Moment::Refresh => Some(15),
        Moment::Publish => Some(40),
        Moment::Read => Some(5),
        Moment::Drain | Moment::Down => Some(2),
        _ => None,
    }
}

impl World {
    /// Something begins on a node: it may be struck at, before a message can have arrived.
    pub(crate) fn aim(&mut self, node: usize, what: Moment) {
        let Some(one_in) = one_in(what).filter(|_| self.aims_left > 0 && !self.healed) else {
            return;
        };
        if self.aims.below(one_in) > 0 {
            return;
        }
        let fault = self.aims.of(&AIMED).unwrap_or(Fault::Partition);
        let after_us = self.aims.below(self.options.latency_us.0);
        if !self.options.faults.has(fault) {
            return;
        }
        self.aims_left -= 1;
        // What else is to be drawn comes from this stream as well.
        std::mem::swap(&mut self.faults, &mut self.aims);
        let trouble = self.trouble_of(fault, node);
        std::mem::swap(&mut self.faults, &mut self.aims);
        if let Some(trouble) = trouble.map(|(trouble, _)| self.follow(trouble)) {
            self.queue.push(self.now_us + after_us, Event::Trouble(trouble));
        }
    }

    /// Before a replica can take over it has to fall behind: the first strike stops it, the next
    /// one puts it into the other's place.
    fn follow(&self, trouble: Trouble) -> Trouble {
        match trouble {
            Trouble::Failover { home, shard }
                if !self.homes.at(home).store.replicas.contains_key(&shard) =>
            {
                Trouble::Snapshot { home, shard }
            }
            Trouble::Rewind | Trouble::Lag { .. }
                if self.database.as_ref().is_some_and(|database| database.standby.is_none()) =>
            {
                Trouble::Standby
            }
            _ => trouble,
        }
    }
}
