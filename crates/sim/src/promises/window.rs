//! How far two cells are from a log of all admissions: what the window itself costs, whoever keeps
//! it.
//!
//! The rule weighs the previous window as if it had been used evenly. Where it was not, a span that
//! lies across a boundary holds more than the limit, or a request is denied that a log would admit.

use std::collections::VecDeque;

use tidegate_limiter::{
    Cost, Limit, Now, Options, Part, Request, Seed, Subject, Table, Window as Length,
};

use crate::chance::Chance;
use crate::node::START_MS;

/// The window of all runs.
const WINDOW_MS: u64 = 60_000;
/// Windows of one run. Every third is idle for who hugs the boundary.
const WINDOWS: u64 = 12;
/// The most that a span of one window's length can hold, in thousandths of the limit: a whole limit
/// at the end of one window, and as it fades another one in the next.
pub(super) const WORST_PERMILLE: u64 = 2_000;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Traffic {
    /// The worst there is: a limit in the last moment of a window, then whatever is let through.
    Hugging,
    /// So many hundredths of the limit in each window, evenly at random.
    Even(u64),
    /// The same in bursts of a twentieth of the limit.
    Bursts(u64),
}

impl Traffic {
    pub(super) const ALL: [Self; 7] = [
        Self::Even(80),
        Self::Even(100),
        Self::Even(200),
        Self::Bursts(80),
        Self::Bursts(100),
        Self::Bursts(200),
        Self::Hugging,
    ];

    pub(super) fn name(self) -> String {
        match self {
            Self::Hugging => "hugging the boundary".to_owned(),
            Self::Even(percent) => format!("even, {percent} % of the limit"),
            Self::Bursts(percent) => format!("bursts, {percent} % of the limit"),
        }
    }
}

/// What came of some runs.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) asked: u64,
    pub(super) denied: u64,
    /// Denied, and a log would have admitted it.
    pub(super) falsely_denied: u64,
    /// Admitted, and a log would have denied it.
    pub(super) falsely_admitted: u64,
    /// The fullest span of each run, in thousandths of the limit.
    pub(super) fullest: Vec<u64>,
}

/// So many runs.
pub(super) fn measure(traffic: Traffic, limit: u64, runs: u64) -> Seen {
    let mut seen = Seen::default();
    for run in 0..runs {
        let mut chance = Chance::new(run ^ (limit << 32), &traffic.name());
        let arrivals = arrivals(traffic, limit, &mut chance);
        Log::new(limit).run(&arrivals, &mut seen);
    }
    seen.fullest.sort_unstable();
    seen
}

/// When requests come, in milliseconds since the first window began.
fn arrivals(traffic: Traffic, limit: u64, chance: &mut Chance) -> Vec<u64> {
    let all = 0..WINDOWS;
    let mut times: Vec<u64> = match traffic {
        // More than are admitted in any millisecond of the window that follows.
        Traffic::Hugging => all
            .flat_map(|window| match window % 3 {
                0 => Vec::new(),
                1 => vec![(window + 1) * WINDOW_MS - 1; usize::try_from(limit).unwrap_or(0)],
                _ => (0..WINDOW_MS).map(|at_ms| window * WINDOW_MS + at_ms).collect(),
            })
            .collect(),
        Traffic::Even(percent) => {
            let each = limit * percent / 100;
            all.flat_map(|window| vec![window; usize::try_from(each).unwrap_or(0)])
                .map(|window| window * WINDOW_MS + chance.below(WINDOW_MS))
                .collect()
        }
        Traffic::Bursts(percent) => {
            let size = (limit / 20).max(1);
            let bursts = limit * percent / 100 / size * WINDOWS;
            (0..bursts)
                .map(|_| chance.below(WINDOWS * WINDOW_MS))
                .flat_map(|at_ms| vec![at_ms; usize::try_from(size).unwrap_or(0)])
                .collect()
        }
    };
    times.sort_unstable();
    times
}

/// All admissions of the last window's length, beside the table that decides.
struct Log {
    table: Table,
    limit: u64,
    admitted: VecDeque<u64>,
}

impl Log {
    fn new(limit: u64) -> Self {
        let table = Table::new(Options::default(), Seed::from_bytes([5; 32]));
        Self { table, limit, admitted: VecDeque::new() }
    }

    fn run(mut self, arrivals: &[u64], seen: &mut Seen) {
        let Some(request) = request(self.limit) else { return };
        let (start_ms, mut fullest) = (START_MS.next_multiple_of(WINDOW_MS), 0);
        for at_ms in arrivals {
            let now = Now::new(start_ms + at_ms, 1_000_000 + at_ms);
            let gone = |first: &u64| first + WINDOW_MS <= *at_ms;
            while self.admitted.front().is_some_and(gone) {
                self.admitted.pop_front();
            }
            let fits = (self.admitted.len() as u64) < self.limit;
            let admitted = self.table.decide(&request, now).admitted();
            seen.asked += 1;
            seen.denied += u64::from(!admitted);
            seen.falsely_denied += u64::from(!admitted && fits);
            seen.falsely_admitted += u64::from(admitted && !fits);
            if admitted {
                self.admitted.push_back(*at_ms);
                fullest = fullest.max(self.admitted.len() as u64);
            }
        }
        seen.fullest.push(fullest * 1_000 / self.limit);
    }
}

fn request(limit: u64) -> Option<Request<'static>> {
    let (workspace, namespace) = (Part::new("w").ok()?, Part::new("n").ok()?);
    let window = Length::from_millis(WINDOW_MS).ok()?;
    let subject = Subject::new(workspace, namespace, Part::new("i").ok()?, window);
    Some(Request::new(subject, Limit::new(limit), Cost::ONE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_span_holds_more_than_two_limits() {
        for traffic in Traffic::ALL {
            for limit in [10, 100, 1_000] {
                let seen = measure(traffic, limit, 3);
                let worst = seen.fullest.last().copied().unwrap_or(0);
                assert!(worst <= WORST_PERMILLE, "{traffic:?}, limit {limit}: {worst}");
            }
        }
    }

    #[test]
    fn who_hugs_the_boundary_gets_nearly_twice_the_limit() {
        let seen = measure(Traffic::Hugging, 100, 1);
        assert!(seen.fullest.last().is_some_and(|worst| *worst >= 1_900), "{seen:?}");
    }

    #[test]
    fn even_traffic_below_the_limit_is_hardly_touched() {
        let seen = measure(Traffic::Even(80), 1_000, 3);
        assert!(seen.falsely_denied * 1_000 <= seen.asked, "{seen:?}");
    }
}
