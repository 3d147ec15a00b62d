//! When made-up calls come.
//!
//! Time is cut into stretches, each with a weight and a crowd. The calls are spread over the
//! weight: the n-th of N somewhere in the n-th part of it, so that they come in order.

use tidegate_sim::Chance;

use super::{GenerateOptions, Traffic};

/// How busy each hour of a day is.
const HOURS: [u64; 24] =
    [4, 3, 2, 2, 2, 3, 5, 8, 12, 15, 17, 18, 18, 18, 18, 17, 16, 16, 17, 18, 17, 14, 10, 6];
const HOUR_MS: u64 = 3_600_000;
/// How many bursts a trace has.
const BURSTS: u64 = 20;
/// How long each lasts at most.
const BURST_MS: u64 = 2_000;
/// A window is hugged in one part in this many at its begin, and as much at its end.
const HUG_PART: u64 = 50;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crowd {
    /// Everybody.
    All,
    /// Mostly one: who it is goes by this number.
    One(u64),
    /// A few, of whom nobody else is one.
    Few,
    /// Two thirds are an attack.
    Attack,
}

/// A part of the time in which calls come evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    length_ms: u64,
    weight: u64,
    crowd: Crowd,
}

/// The stretches of a trace, and how far it is.
#[derive(Debug)]
pub(super) struct Shape {
    options: GenerateOptions,
    /// The weight of all time.
    total: u128,
    count: u64,
    /// The stretch it is in, when that began and how much weight was before it.
    index: u64,
    begun_ms: u64,
    before: u128,
}

impl Shape {
    pub(super) fn new(options: &GenerateOptions) -> Self {
        let options = *options;
        let mut shape = Self { options, total: 0, count: 0, index: 0, begun_ms: 0, before: 0 };
        let mut left_ms = options.duration_ms;
        for index in 0.. {
            let stretch = shape.stretch(index, left_ms);
            shape.total += u128::from(stretch.length_ms) * u128::from(stretch.weight);
            left_ms = left_ms.saturating_sub(stretch.length_ms);
            if left_ms == 0 {
                break;
            }
        }
        shape
    }

    /// When the next call comes, after the begin, and whose it is.
    pub(super) fn next(&mut self, chance: &mut Chance) -> Option<(u64, Crowd)> {
        let part = self.total / u128::from(self.options.requests.max(1));
        let within = u128::from(chance.below(u64::try_from(part).unwrap_or(u64::MAX)));
        let first = self.total * u128::from(self.count) / u128::from(self.options.requests.max(1));
        self.count += 1;
        let weight = (first + within).min(self.total.saturating_sub(1));
        loop {
            let left_ms = self.options.duration_ms.checked_sub(self.begun_ms)?;
            let stretch = self.stretch(self.index, left_ms);
            let here = u128::from(stretch.length_ms) * u128::from(stretch.weight);
            if weight < self.before + here {
                let after = (weight - self.before) / u128::from(stretch.weight.max(1));
                let at_ms = self.begun_ms + u64::try_from(after).unwrap_or(0);
                return Some((at_ms, stretch.crowd));
            }
            if left_ms == 0 {
                return None;
            }
            self.before += here;
            self.begun_ms += stretch.length_ms;
            self.index += 1;
        }
    }

    /// The stretch of a number, not longer than what is left. It has a millisecond at least.
    fn stretch(&self, index: u64, left_ms: u64) -> Stretch {
        let stretch = match self.options.traffic {
            Traffic::Steady | Traffic::RegionHopping => {
                Stretch { length_ms: left_ms, weight: 1, crowd: Crowd::All }
            }
            Traffic::Diurnal => {
                let hour = usize::try_from(index % 24).unwrap_or(0);
                let weight = HOURS.get(hour).copied().unwrap_or(1);
                Stretch { length_ms: HOUR_MS, weight, crowd: Crowd::All }
            }
            Traffic::Burst => self.burst(index),
            Traffic::BoundaryHugging => self.hug(index),
            Traffic::CredentialStuffing => {
                let quarter_ms = self.options.duration_ms / 4;
                match index {
                    0 => Stretch { length_ms: quarter_ms, weight: 1, crowd: Crowd::All },
                    1 => Stretch { length_ms: 2 * quarter_ms, weight: 3, crowd: Crowd::Attack },
                    _ => Stretch { length_ms: left_ms, weight: 1, crowd: Crowd::All },
                }
            }
        };
        Stretch { length_ms: stretch.length_ms.clamp(1, left_ms.max(1)), ..stretch }
    }

    /// Quiet, a burst, quiet again. In the bursts are two fifths of all calls.
    fn burst(&self, index: u64) -> Stretch {
        let each_ms = (self.options.duration_ms / BURSTS).max(3);
        let burst_ms = BURST_MS.min(each_ms / 3);
        let quiet_ms = each_ms - burst_ms;
        let (number, phase) = (index / 3, index % 3);
        let begins_ms = Chance::new(self.options.seed ^ (number << 20), "bursts").below(quiet_ms);
        match phase {
            0 => Stretch { length_ms: begins_ms, weight: 1, crowd: Crowd::All },
            1 => {
                let weight = (quiet_ms * 2 / 3 / burst_ms).max(1);
                Stretch { length_ms: burst_ms, weight, crowd: Crowd::One(number) }
            }
            _ => Stretch { length_ms: quiet_ms - begins_ms, weight: 1, crowd: Crowd::All },
        }
    }

    /// The begin of a window, its middle, and its end. Four fifths of all calls hug.
    fn hug(&self, index: u64) -> Stretch {
        let window_ms = self.options.window_ms;
        let hug_ms = (window_ms / HUG_PART).max(1);
        let middle_ms = window_ms.saturating_sub(2 * hug_ms).max(1);
        match index % 3 {
            1 => Stretch { length_ms: middle_ms, weight: 1, crowd: Crowd::All },
            _ => {
                let weight = (2 * middle_ms / hug_ms).max(1);
                Stretch { length_ms: hug_ms, weight, crowd: Crowd::Few }
            }
        }
    }
}
