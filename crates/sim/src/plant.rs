//! Mistakes that belong to whoever drives the production code, not into it.
//!
//! Without the feature `planted` there are none.

use crate::node::{Caller, Process};
use crate::world::World;

#[cfg(not(feature = "planted"))]
impl World {
    pub(crate) const fn take_early(&self, _: &Process, _: &mut Caller) {}
    pub(crate) const fn give_back(&self, _: &Process, caller: &Caller) {
        debug_assert!(!caller.taken);
    }
    pub(crate) const fn reset_early(&self, _: &Process, _: usize, _: u64) {}
}

#[cfg(feature = "planted")]
mod planted_here {
    use tidegate_limiter::planted::{self, Planted};

    use super::{Caller, Process, World};
    use crate::node::Ask;

    impl World {
        /// A batch that waits has already taken what it asks for, from what is published.
        pub(crate) fn take_early(&self, process: &Process, caller: &mut Caller) {
            if planted::is(Planted::SubtractRollback) && caller.batch {
                caller.taken = true;
                self.shift(process, caller, |mine, cost| mine + cost);
            }
        }

        /// It gives it back before it is decided.
        pub(crate) fn give_back(&self, process: &Process, caller: &Caller) {
            if caller.taken {
                self.shift(process, caller, u64::saturating_sub);
            }
        }

        fn shift(&self, process: &Process, caller: &Caller, change: fn(u64, u64) -> u64) {
            for ask in &caller.asks {
                let sequence = process.ghosts.get(&ask.subject).map(|ghost| ghost.sequence);
                self.change(process, (ask.subject, sequence), |mine| change(mine, ask.cost));
            }
        }

        /// A window has ended, and what was not replayed is reset.
        pub(crate) fn reset_early(&self, process: &Process, subject: usize, sequence: u64) {
            let Some(ghost) = process.ghosts.get(&subject) else { return };
            let acked = ghost.previous.acked;
            self.change(process, (subject, sequence.checked_sub(1)), |mine| mine.min(acked));
        }

        fn change(
            &self,
            process: &Process,
            (subject, sequence): (usize, Option<u64>),
            change: impl Fn(u64) -> u64,
        ) {
            let (Some(spec), Some(sequence)) = (self.specs.get(subject), sequence) else { return };
            let Ok(request) = spec.request(Ask::look(subject)) else { return };
            if let Some(cell) = process.table.cell(request.subject(), sequence) {
                cell.change_mine(change);
            }
        }
    }
}
