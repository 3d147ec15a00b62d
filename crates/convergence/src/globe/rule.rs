//! What is worth publishing, and how long it may wait.
//!
//! Both cells of a subject count together, the previous one by its share of the sliding window. To
//! stay in integers everything is multiplied by the length of the window: see [`Share`].

use crate::tuning::{GlobeTuning, Rule};

/// An amount of both cells, times the length of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Share(u128);

/// How a sliding window weighs its cells at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Weights {
    pub(super) window_ms: u64,
    /// What is left of the window, at most all of it.
    pub(super) rest_ms: u64,
}

impl Weights {
    pub(super) fn share(self, current: u64, previous: u64) -> Share {
        let whole = u128::from(current) * u128::from(self.window_ms);
        Share(whole + u128::from(previous) * u128::from(self.rest_ms))
    }

    pub(super) fn whole(self, amount: u64) -> Share {
        self.share(amount, 0)
    }
}

/// What is known of a subject whose publishing is considered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Standing {
    pub(super) weights: Weights,
    pub(super) limit: u64,
    /// What the sliding window holds, of all regions.
    pub(super) used: u64,
    /// What the region has recorded of the current and of the previous cell...
    pub(super) confirmed: [u64; 2],
    /// ...and what of it is published, or about to be.
    pub(super) published: [u64; 2],
    /// How many other regions use it.
    pub(super) others: u64,
}

impl Standing {
    /// What the others do not know.
    fn hidden(&self) -> Share {
        let [current, previous] = [0, 1].map(|at| {
            let get = |all: &[u64; 2]| all.get(at).copied().unwrap_or(0);
            get(&self.confirmed).saturating_sub(get(&self.published))
        });
        self.weights.share(current, previous)
    }

    /// How much has to be hidden for it to be worth saying; `None` if it is not.
    pub(super) fn due(&self, rule: Rule, regions_max: u64) -> Option<u64> {
        let step = match rule {
            Rule::Floor { part, .. } => return self.due_by_floor(part),
            Rule::Budget { quiet_part, limit_part, room_part, .. } => {
                let quiet = quiet(self.limit, quiet_part, regions_max);
                self.budget(quiet, (limit_part, room_part))
            }
        };
        let hidden = self.hidden();
        (hidden > Share(0) && hidden >= self.weights.whole(step)).then_some(step)
    }

    fn budget(&self, quiet: u64, (limit_part, room_part): (u64, u64)) -> u64 {
        let [current, previous] = self.published;
        let silent = current == 0 && previous == 0;
        let room = self.limit.saturating_sub(self.used);
        if self.others == 0 {
            // Alone: nobody needs the details before somebody else comes. But whoever comes must
            // find a region that is at its limit.
            if silent || room < quiet {
                return quiet;
            }
            let Share(published) = self.weights.share(current, previous);
            let doubled = published.div_ceil(u128::from(self.weights.window_ms.max(1)));
            return quiet.max(u64::try_from(doubled).unwrap_or(u64::MAX));
        }
        let regions = self.others.saturating_add(1);
        let of_limit = self.limit / limit_part.max(1) / regions;
        let of_room = room / room_part.max(1) / regions;
        let step = of_limit.max(of_room).max(1);
        // A region that nobody has heard of never hides more than it may alone.
        if silent { step.min(quiet) } else { step }
    }

    fn due_by_floor(&self, part: u64) -> Option<u64> {
        let floor = self.limit.div_ceil(part.max(1)).max(1);
        // A previous cell that weighs nothing is of no use any more.
        let weighed = if self.weights.rest_ms > 0 { 2 } else { 1 };
        let mut cells = self.confirmed.iter().zip(&self.published).take(weighed);
        let due = cells.any(|(sum, out)| *sum >= floor && sum > out);
        due.then_some(0)
    }

    /// How long it may wait, if the region uses `grown` in `over_ms`.
    pub(super) fn wait_ms(
        &self,
        tuning: &GlobeTuning,
        regions_max: u64,
        (grown, over_ms): (u64, u64),
    ) -> u64 {
        let Rule::Budget { quiet_part, wait_part, .. } = tuning.rule else { return 0 };
        let quiet = quiet(self.limit, quiet_part, regions_max);
        let longest_ms = self.weights.window_ms / tuning.publish_window_part.max(1);
        let longest_ms = longest_ms.min(tuning.publish_max_ms).max(tuning.publish_min_ms);
        let budget = u128::from(quiet) * u128::from(over_ms);
        let wait_ms = budget / (u128::from(wait_part.max(1)) * u128::from(grown)).max(1);
        u64::try_from(wait_ms).unwrap_or(u64::MAX).clamp(tuning.publish_min_ms, longest_ms)
    }

    /// How long the room lasts if all regions use it as this one does: a fraction of it.
    pub(super) fn room_lasts_ms(&self, (grown, over_ms): (u64, u64)) -> u64 {
        let room = self.limit.saturating_sub(self.used);
        if grown == 0 || room == 0 {
            return u64::MAX;
        }
        let rate = u128::from(grown) * u128::from(self.others.saturating_add(1)) * 4;
        u64::try_from(u128::from(room) * u128::from(over_ms) / rate).unwrap_or(u64::MAX)
    }
}

/// What one of so many regions may keep to itself.
pub(super) fn quiet(limit: u64, part: u64, regions_max: u64) -> u64 {
    (limit / part.saturating_mul(regions_max).max(1)).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule::Budget { quiet_part: 4, limit_part: 20, room_part: 2, wait_part: 4 };

    fn standing(confirmed: [u64; 2], published: [u64; 2], others: u64) -> Standing {
        let weights = Weights { window_ms: 60_000, rest_ms: 30_000 };
        let used = confirmed[0] + confirmed[1] / 2;
        Standing { weights, limit: 1_000, used, confirmed, published, others }
    }

    fn due(confirmed: [u64; 2], published: [u64; 2], others: u64) -> bool {
        standing(confirmed, published, others).due(RULE, 10).is_some()
    }

    #[test]
    fn a_silent_region_speaks_at_its_share_of_a_quarter() {
        assert!(!due([24, 0], [0, 0], 0) && due([25, 0], [0, 0], 0));
        assert!(!due([0, 49], [0, 0], 0) && due([0, 50], [0, 0], 0), "half of it counts");
        assert!(!due([20, 8], [0, 0], 0) && due([20, 10], [0, 0], 0), "both together");
    }

    #[test]
    fn alone_it_speaks_at_each_doubling() {
        assert!(!due([199, 0], [100, 0], 0) && due([200, 0], [100, 0], 0));
        assert!(!due([99, 200], [0, 200], 0) && due([100, 200], [0, 200], 0), "100 are known");
        assert!(!due([980, 0], [960, 0], 0), "less than a share");
        assert!(due([985, 0], [960, 0], 0), "at the limit every share counts");
    }

    #[test]
    fn in_company_it_speaks_by_the_room_that_is_left() {
        // One other: 5 % of the limit / 2, or half of the room / 2.
        assert!(!due([500, 0], [380, 0], 1), "room for 500: a quarter of it is 125");
        assert!(due([505, 0], [380, 0], 1));
        assert!(due([1_000, 0], [975, 0], 1) && !due([1_000, 0], [976, 0], 1));
        assert!(due([25, 0], [0, 0], 1), "at the latest when it would speak alone");
    }

    #[test]
    fn nothing_new_is_never_worth_saying() {
        assert!(!due([500, 500], [500, 500], 3) && !due([0, 0], [0, 0], 0));
        assert!(!due([3, 3], [5, 5], 3), "others of the region knew more");
    }

    #[test]
    fn the_rfc_speaks_at_half() {
        let floor = Rule::Floor { every_ms: 10_000, part: 2 };
        let due = |confirmed, published| standing(confirmed, published, 0).due(floor, 10).is_some();
        assert!(!due([499, 499], [0, 0]) && due([500, 0], [0, 0]) && due([0, 500], [0, 0]));
        assert!(!due([500, 0], [500, 0]) && due([501, 0], [500, 0]));
    }

    #[test]
    fn small_limits_round_up_to_one() {
        let one = Standing { limit: 10, used: 1, ..standing([1, 0], [0, 0], 0) };
        assert_eq!(one.due(RULE, 10), Some(1));
    }

    #[test]
    fn fast_growth_waits_less() {
        let (tuning, standing) = (GlobeTuning::default(), standing([25, 0], [0, 0], 0));
        let wait_ms = |grown, over_ms| standing.wait_ms(&tuning, 10, (grown, over_ms));
        assert_eq!(
            [wait_ms(1_000, 1_000), wait_ms(25, 1_000), wait_ms(1, 1_000)],
            [100, 250, 1_000]
        );
        assert_eq!(wait_ms(0, 0), 100, "nothing is known of its rate");
        assert_eq!(standing.room_lasts_ms((100, 1_000)), 975 * 10 / 4);
    }

    /// However two regions interleave, what stays hidden is below the budget of the rule.
    #[test]
    fn hidden_cost_stays_within_the_budget() {
        for others in 0..10 {
            for limit in [10_u64, 100, 1_000, 100_000] {
                let mut published = [0, 0];
                for used in 1..=limit.min(5_000) {
                    let confirmed = [used, 0];
                    let weights = Weights { window_ms: 60_000, rest_ms: 60_000 };
                    let now = Standing { weights, limit, used, confirmed, published, others };
                    if now.due(RULE, 10).is_some() {
                        published = confirmed;
                    }
                    let hidden = used - published[0];
                    let quiet = (limit / 40).max(1);
                    let bound = if others == 0 { published[0].max(quiet) } else { limit / 2 };
                    assert!(hidden <= bound, "{limit} {others} {used}: {hidden}");
                }
            }
        }
    }
}
