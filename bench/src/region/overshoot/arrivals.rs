//! When which process is asked for what: drawn before the clock starts, the same for both rules.

use std::time::Duration;

use super::{LIMITS, Pattern};
use crate::decide::keys::Random;
use crate::region::Scene;

/// Requests of a window, as a multiple of the limit, when they arrive evenly.
const STEADY_LOAD: u64 = 2;
/// Requests of a burst, as a multiple of the limit.
const BURST_LOAD: u64 = 6;
/// The time within which a burst arrives.
const BURST_US: u64 = 5_000;
/// The time from one burst to the next, by limit: the reference has to write the one before.
const BURST_EVERY_US: [u64; 3] = [10_000, 50_000, 400_000];

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) at: Duration,
    pub(super) subject: usize,
    pub(super) node: usize,
}

/// All requests in order, and the limit of each subject.
pub(super) struct Plan {
    pub(super) arrivals: Vec<Arrival>,
    pub(super) subjects: Vec<u64>,
}

/// Draws the arrivals of a pattern.
pub(super) fn plan(scene: &Scene, pattern: Pattern, nodes: usize) -> Plan {
    let mut random = Random::new(3);
    let (mut arrivals, mut subjects) = (Vec::new(), Vec::new());
    let (mut begin_us, windows) = (0, pattern.windows() as u64);
    let counts = pattern.subjects().map(|count| scene.many(count));
    for ((limit, count), every_us) in LIMITS.into_iter().zip(counts).zip(BURST_EVERY_US) {
        for _ in 0..count {
            let (requests, span_us) = match pattern {
                Pattern::Steady => {
                    let span_us = windows * pattern.window_ms() * 1_000;
                    (STEADY_LOAD * windows * limit, span_us)
                }
                Pattern::Burst => (BURST_LOAD * limit, BURST_US),
            };
            // A smoke run ends after the first requests.
            let most = if scene.smoke { 20 } else { requests };
            let phase_us = random.below(span(span_us / requests)) as u64;
            for turn in 0..requests.min(most) {
                let at_us = begin_us + phase_us + turn * span_us / requests;
                let (subject, node) = (subjects.len(), random.below(nodes));
                arrivals.push(Arrival { at: Duration::from_micros(at_us), subject, node });
            }
            subjects.push(limit);
            if pattern == Pattern::Burst {
                begin_us += every_us;
            }
        }
    }
    if scene.smoke {
        arrivals.retain(|arrival| arrival.at < Duration::from_millis(500));
    }
    arrivals.sort_by_key(|arrival| arrival.at);
    Plan { arrivals, subjects }
}

fn span(us: u64) -> usize {
    usize::try_from(us.max(1)).unwrap_or(1)
}
