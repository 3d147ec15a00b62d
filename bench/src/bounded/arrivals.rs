//! When which process is asked for what: drawn before the clock starts, the same for all rules.

use std::time::Duration;

use crate::decide::keys::Random;
use crate::region::Scene;
use crate::region::time::START_UNIX_MS;

/// The limits; the subjects of all three are asked for in the same run.
pub(super) const LIMITS: [u64; 3] = [10, 100, 1_000];
/// When the first requests are due, after a boundary of all windows in use: processes say every
/// second that they are there, and those of a fleet have long known of each other.
pub(super) const BEGIN_MS: u64 = 2_000;
/// Requests of a window by the limit, when they come one after the other.
const SEQUENTIAL_LOAD: u64 = 2;
/// The window of those.
const SEQUENTIAL_MS: u64 = 2_000;
/// How many windows there are then: one that begins cold, and one with a full one before it.
const WINDOWS: usize = 2;
/// Requests of a burst by the limit.
pub(super) const BURST_LOAD: u64 = 6;
/// The time within which a burst arrives, by limit: the largest takes the thread that asks longer
/// than the others.
const BURST_US: [u64; 3] = [5_000, 5_000, 20_000];
/// The time from one burst to the next, by limit: the reference has to write the one before.
const BURST_EVERY_MS: [u64; 3] = [12, 40, 400];
/// Windows of bursts, so that a boundary is near whenever one is wanted.
const WINDOWS_MS: (u64, u64) = (1_000, 2_000);
/// How long before a burst every process asks whether there is room, and spends nothing. Every
/// second subject is known to all processes in this way, which is when there is the most credit.
const KNOWN_MS: u64 = 60;
/// How long before a burst in the middle of a window some requests come.
const BACKGROUND_MS: u64 = 120;
/// How many: one in this many of the limit.
const BACKGROUND_PART: u64 = 20;
/// How far a burst in the middle of a window is from both its ends.
const MARGIN_MS: u64 = 200;

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Evenly, each at a random process.
    Sequential,
    /// Within milliseconds of the beginning of a window, spread over all processes.
    Boundary,
    /// Within milliseconds somewhere in a window that is in use.
    Phase,
}

impl Pattern {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sequential => "sequential",
            Self::Boundary => "boundary",
            Self::Phase => "phase",
        }
    }

    /// Subjects by limit: a cell of a large limit takes many requests, and the reference an
    /// operation for each.
    const fn subjects(self) -> [usize; 3] {
        match self {
            Self::Sequential => [200, 30, 3],
            Self::Boundary | Self::Phase => [150, 50, 7],
        }
    }
}

/// Who is limited.
#[derive(Clone, Debug)]
pub(super) struct Subject {
    pub(super) name: String,
    pub(super) limit: u64,
    pub(super) window_ms: u64,
    /// The first window of it that is looked at.
    pub(super) first: u64,
    /// How many.
    pub(super) cells: usize,
    /// When its first requests come that spend.
    pub(super) at: Duration,
}

/// One request, so long after the boundary from which a run counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) at: Duration,
    pub(super) subject: usize,
    pub(super) node: usize,
    /// 1, or 0 to ask whether there is room.
    pub(super) cost: u64,
}

/// All requests in order, and the subjects.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) arrivals: Vec<Arrival>,
    pub(super) subjects: Vec<Subject>,
}

/// Draws the arrivals of a pattern.
pub(super) fn plan(scene: &Scene, pattern: Pattern, nodes: usize) -> Plan {
    let mut draft = Draft::new(nodes);
    let counts = pattern.subjects().map(|count| if scene.smoke { 1 } else { count });
    for (at, (limit, count)) in LIMITS.into_iter().zip(counts).enumerate() {
        for _ in 0..count {
            if pattern == Pattern::Sequential {
                draft.sequential(limit, if scene.smoke { 1 } else { WINDOWS });
                continue;
            }
            let (every_ms, span_us) = (BURST_EVERY_MS.get(at), BURST_US.get(at));
            draft.burst(pattern, limit, span_us.copied().unwrap_or(0));
            draft.next_ms += every_ms.copied().unwrap_or(0);
        }
    }
    draft.done()
}

/// Bursts of one limit every so many milliseconds, for so long.
pub(super) fn bursts(nodes: usize, limit: u64, (every_ms, lasting_ms): (u64, u64)) -> Plan {
    let mut draft = Draft::new(nodes);
    while draft.next_ms < BEGIN_MS + lasting_ms {
        draft.burst(Pattern::Phase, limit, 5_000);
        draft.next_ms += every_ms;
    }
    draft.done()
}

struct Draft {
    plan: Plan,
    random: Random,
    nodes: usize,
    /// When the next burst is due.
    next_ms: u64,
}

impl Draft {
    fn new(nodes: usize) -> Self {
        Self { plan: Plan::default(), random: Random::new(3), nodes, next_ms: BEGIN_MS }
    }

    fn done(mut self) -> Plan {
        self.plan.arrivals.sort_by_key(|arrival| arrival.at);
        self.plan
    }

    fn below(&mut self, bound: u64) -> u64 {
        let below = self.random.below(usize::try_from(bound.max(1)).unwrap_or(1));
        u64::try_from(below).unwrap_or(0)
    }

    /// A request at a random process.
    fn add(&mut self, at_us: u64) {
        let (subject, node) = (self.plan.subjects.len(), self.random.below(self.nodes));
        let at = Duration::from_micros(at_us);
        self.plan.arrivals.push(Arrival { at, subject, node, cost: 1 });
    }

    fn close(&mut self, (limit, window_ms): (u64, u64), at_ms: u64, cells: usize) {
        let name = format!("user_{:08}", self.plan.subjects.len());
        let (first, at) = ((START_UNIX_MS + at_ms) / window_ms, Duration::from_millis(at_ms));
        self.plan.subjects.push(Subject { name, limit, window_ms, first, cells, at });
    }

    fn sequential(&mut self, limit: u64, windows: usize) {
        let window_ms = SEQUENTIAL_MS;
        let requests = SEQUENTIAL_LOAD * limit * windows as u64;
        let span_us = window_ms * 1_000 * windows as u64;
        let phase_us = self.below(span_us / requests);
        for turn in 0..requests {
            self.add(BEGIN_MS * 1_000 + phase_us + turn * span_us / requests);
        }
        self.close((limit, window_ms), BEGIN_MS, windows);
    }

    /// A burst of a subject of its own, as soon as its window allows.
    fn burst(&mut self, pattern: Pattern, limit: u64, span_us: u64) {
        let (at_ms, window_ms) = match pattern {
            Pattern::Boundary => self.boundary(),
            _ => (self.next_ms, self.window_amid()),
        };
        if pattern == Pattern::Phase {
            for _ in 0..(limit / BACKGROUND_PART).max(1) {
                let early_ms = KNOWN_MS + 1 + self.below(BACKGROUND_MS - KNOWN_MS);
                self.add((at_ms - early_ms) * 1_000);
            }
        }
        if self.plan.subjects.len().is_multiple_of(2) {
            let (at, subject) = (Duration::from_millis(at_ms - KNOWN_MS), self.plan.subjects.len());
            let known = (0..self.nodes).map(|node| Arrival { at, subject, node, cost: 0 });
            self.plan.arrivals.extend(known);
        }
        let requests = BURST_LOAD * limit;
        for turn in 0..requests {
            self.add(at_ms * 1_000 + turn * span_us / requests);
        }
        self.close((limit, window_ms), at_ms, 1);
    }

    /// The next moment that is a boundary of some window, and that window.
    fn boundary(&self) -> (u64, u64) {
        let (low, high) = WINDOWS_MS;
        let next = |window_ms: u64| {
            let unix_ms = START_UNIX_MS + self.next_ms;
            (unix_ms.next_multiple_of(window_ms) - START_UNIX_MS, window_ms)
        };
        (low..=high).map(next).min().unwrap_or((self.next_ms, low))
    }

    /// A window in whose middle it is then.
    fn window_amid(&mut self) -> u64 {
        let (low, high) = WINDOWS_MS;
        loop {
            let window_ms = low + self.below(high - low);
            let elapsed_ms = (START_UNIX_MS + self.next_ms) % window_ms;
            if elapsed_ms > MARGIN_MS && elapsed_ms + MARGIN_MS < window_ms {
                return window_ms;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_lies_where_its_pattern_says() {
        let mut draft = Draft::new(3);
        for _ in 0..50 {
            let (at_ms, window_ms) = draft.boundary();
            assert_eq!((START_UNIX_MS + at_ms) % window_ms, 0);
            assert!(at_ms - draft.next_ms < 50, "there is one near");
            let window_ms = draft.window_amid();
            let elapsed_ms = (START_UNIX_MS + draft.next_ms) % window_ms;
            assert!(elapsed_ms > MARGIN_MS && window_ms - elapsed_ms > MARGIN_MS);
            draft.next_ms += 7;
        }
    }
}
