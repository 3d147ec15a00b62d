//! Memory of what has expired is given back while the server runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::door::Door;

/// How often memory of expired subjects is given back.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);
/// In how many bounded steps at most. Together some forty thousand subjects a second are looked at,
/// for a few thousandths of one core.
const SWEEP_STEPS_MAX: usize = 16;
/// One step for so many subjects, so that those of a small table are looked at once in a few
/// seconds. To do so all the time would be a hundredth of a core, and take from the caches what
/// decisions have there.
const SWEEP_SUBJECTS: usize = 5_000;

/// Gives memory back, a little at a time.
pub(super) async fn sweep(door: Arc<Door>) {
    let mut ticks = interval(SWEEP_INTERVAL);
    // After a pause the steps that were missed are not made up for: that would be a long step.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        for _ in 0..steps_for(door.limiter().subjects_ever()) {
            door.limiter().sweep();
        }
        door.sweep();
    }
}

/// How many steps are taken at a time in a table that had so many subjects at the most.
fn steps_for(subjects: usize) -> usize {
    (subjects / SWEEP_SUBJECTS).clamp(1, SWEEP_STEPS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_table_is_swept_slowly_and_a_large_one_no_faster_than_it_may_be() {
        let steps = [0, 1, 9_999, 10_000, 80_000, 10_000_000].map(steps_for);
        assert_eq!(steps, [1, 1, 1, 2, 16, 16]);
    }
}
