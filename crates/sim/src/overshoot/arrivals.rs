//! Which requests come when: drawn before, the same for all rules.

use crate::chance::Chance;
use crate::node::START_MS;

use super::{Setting, Traffic};

/// Requests of a burst's window that come before or after it: one in this many of the limit, so
/// that a burst finds subjects that are known here and there.
const BACKGROUND_PART: u64 = 20;

/// A request of cost 1: when, at which node, for which subject.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) at_us: u64,
    pub(super) node: usize,
    pub(super) subject: usize,
}

impl Setting {
    /// When the first window begins that begins after the simulation.
    pub(super) const fn begin_us(&self) -> u64 {
        let window_ms = self.window_ms;
        (START_MS.next_multiple_of(window_ms) - START_MS) * 1_000
    }

    /// The sequence of that window.
    pub(super) const fn first_sequence(&self) -> u64 {
        START_MS.div_ceil(self.window_ms)
    }
}

/// All requests in the order in which they come.
pub(super) fn arrivals(setting: Setting, group: u64, subjects: u64) -> Vec<Arrival> {
    let mut chance = Chance::new(group ^ (setting.limit << 20), "arrivals");
    let (window_us, nodes) = (setting.window_ms * 1_000, setting.nodes);
    let requests = setting.limit * setting.load_percent / 100;
    let mut all = Vec::new();
    for subject in 0..usize::try_from(subjects).unwrap_or(0) {
        for window in 0..setting.windows {
            let begin_us = setting.begin_us() + window * window_us;
            let (from_us, for_us) = match setting.traffic {
                Traffic::Sequential => (begin_us, window_us),
                Traffic::Boundary => (begin_us, setting.burst_us),
                Traffic::Phase => {
                    (begin_us + chance.below(window_us - setting.burst_us), setting.burst_us)
                }
            };
            let mut add = |from_us: u64, for_us: u64| {
                let at_us = from_us + chance.below(for_us);
                all.push(Arrival { at_us, node: chance.index(nodes), subject });
            };
            (0..requests).for_each(|_| add(from_us, for_us));
            if setting.traffic != Traffic::Sequential {
                let background = (setting.limit / BACKGROUND_PART).max(1);
                (0..background).for_each(|_| add(begin_us, window_us));
            }
        }
    }
    all.sort_by_key(|arrival| arrival.at_us);
    all
}
