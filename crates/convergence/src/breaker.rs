//! Leaves a store alone that does not answer.

use tidegate_limiter::planted::{self, Planted};

use crate::tuning::BreakerTuning;

/// Opens when half of at least so many calls of a period failed; lets a few probes through after a
/// while; closes when they all succeed. A call that was given up by its caller is not a failure.
#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    tuning: BreakerTuning,
    state: State,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Closed {
        since_ms: u64,
        calls: u32,
        failures: u32,
    },
    Open {
        until_ms: u64,
    },
    /// `in_flight` probes have no answer yet, `succeeded` have a good one.
    HalfOpen {
        in_flight: u32,
        succeeded: u32,
    },
}

/// What a breaker does, for whoever watches.
///
/// ```
/// use tidegate_convergence::BreakerState;
///
/// // Of several, the one that stands worst is the largest.
/// let all = [BreakerState::Closed, BreakerState::Open, BreakerState::HalfOpen];
/// assert_eq!(all.into_iter().max(), Some(BreakerState::Open));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum BreakerState {
    /// Calls go through.
    #[default]
    Closed,
    /// A few calls go through to see whether the store is back.
    HalfOpen,
    /// No call goes through.
    Open,
}

impl Breaker {
    pub(crate) const fn new(tuning: BreakerTuning) -> Self {
        Self { tuning, state: State::Closed { since_ms: 0, calls: 0, failures: 0 } }
    }

    /// Whether a call may be made now. If so, it must be [reported](Self::report).
    pub(crate) fn admits(&mut self, now_ms: u64) -> bool {
        if let State::Open { until_ms } = self.state
            && now_ms >= until_ms
        {
            self.state = State::HalfOpen { in_flight: 0, succeeded: 0 };
        }
        match &mut self.state {
            State::Closed { .. } => true,
            State::Open { .. } => false,
            State::HalfOpen { in_flight, succeeded } => {
                let free = *in_flight + *succeeded < self.tuning.probes;
                *in_flight += u32::from(free);
                free
            }
        }
    }

    /// Whether a call would be admitted now.
    pub(crate) fn may_admit(&self, now_ms: u64) -> bool {
        self.next_ms().is_some_and(|next_ms| next_ms <= now_ms)
    }

    /// A call that was admitted has ended.
    pub(crate) fn report(&mut self, success: bool, now_ms: u64) {
        let BreakerTuning { period_ms, calls_min, open_ms, probes } = self.tuning;
        let open_ms = if planted::is(Planted::LongOpen) { 6 * open_ms } else { open_ms };
        match &mut self.state {
            State::Closed { since_ms, calls, failures } => {
                if now_ms.saturating_sub(*since_ms) >= period_ms {
                    (*since_ms, *calls, *failures) = (now_ms, 0, 0);
                }
                *calls += 1;
                *failures += u32::from(!success);
                if *calls >= calls_min && *failures * 2 >= *calls {
                    self.state = State::Open { until_ms: now_ms.saturating_add(open_ms) };
                }
            }
            // A call from before it opened.
            State::Open { .. } => {}
            State::HalfOpen { in_flight, succeeded } => {
                *in_flight = in_flight.saturating_sub(1);
                *succeeded += u32::from(success);
                if !success {
                    self.state = State::Open { until_ms: now_ms.saturating_add(open_ms) };
                } else if *succeeded >= probes {
                    self.state = State::Closed { since_ms: now_ms, calls: 0, failures: 0 };
                }
            }
        }
    }

    /// A call was answered that it did not have to admit: that is a probe, so that it closes also
    /// if nobody has anything to ask.
    pub(crate) fn heard(&mut self, now_ms: u64) {
        if self.state() != BreakerState::Closed && self.admits(now_ms) {
            self.report(true, now_ms);
        }
    }

    /// The earliest moment at which a call may be admitted, unless an answer has to come first.
    pub(crate) fn next_ms(&self) -> Option<u64> {
        match self.state {
            State::Open { until_ms } => Some(until_ms),
            State::Closed { .. } => Some(0),
            State::HalfOpen { in_flight, succeeded } => {
                (in_flight + succeeded < self.tuning.probes).then_some(0)
            }
        }
    }

    pub(crate) const fn state(&self) -> BreakerState {
        match self.state {
            State::Closed { .. } => BreakerState::Closed,
            State::HalfOpen { .. } => BreakerState::HalfOpen,
            State::Open { .. } => BreakerState::Open,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TUNING: BreakerTuning =
        BreakerTuning { period_ms: 100, calls_min: 4, open_ms: 50, probes: 2 };

    fn opened() -> Breaker {
        let mut breaker = Breaker::new(TUNING);
        for _ in 0..4 {
            assert!(breaker.admits(0));
            breaker.report(false, 0);
        }
        breaker
    }

    #[test]
    fn opens_by_rate_over_a_minimum_volume() {
        let mut breaker = Breaker::new(TUNING);
        for success in [false, false, false] {
            breaker.report(success, 0);
        }
        assert_eq!(breaker.state(), BreakerState::Closed, "three calls say nothing");
        breaker.report(true, 0);
        assert_eq!(breaker.state(), BreakerState::Open, "three of four failed");
    }

    #[test]
    fn a_few_errors_never_open_it() {
        let mut breaker = Breaker::new(TUNING);
        for call in 0..1_000_u64 {
            breaker.report(call % 100 != 0, call);
            assert_eq!(breaker.state(), BreakerState::Closed);
        }
    }

    #[test]
    fn old_failures_are_forgotten() {
        let mut breaker = Breaker::new(TUNING);
        for at in [0, 1, 2, 102, 103, 104] {
            breaker.report(false, at);
        }
        assert_eq!(breaker.state(), BreakerState::Closed, "three in each period");
    }

    #[test]
    fn half_open_counts_probes_in_flight() {
        let mut breaker = opened();
        assert!(!breaker.admits(49));
        assert!(breaker.admits(50) && breaker.admits(50));
        assert!(!breaker.admits(50), "two are under way");
        breaker.report(true, 60);
        assert!(!breaker.admits(60), "one has succeeded, one is under way");
        breaker.report(true, 61);
        assert_eq!(breaker.state(), BreakerState::Closed);
    }

    #[test]
    fn a_probe_that_fails_opens_it_again() {
        let mut breaker = opened();
        assert!(breaker.admits(50));
        breaker.report(false, 55);
        assert!(!breaker.admits(104) && breaker.admits(105));
    }

    #[test]
    fn late_answers_change_nothing() {
        let mut breaker = opened();
        breaker.report(true, 10);
        breaker.report(false, 10);
        assert!(!breaker.admits(49) && breaker.admits(50));
    }
}
