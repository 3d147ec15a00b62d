//! Memory of what has expired is given back while the server runs.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

use crate::door::Door;

/// How often memory of expired subjects is given back, and in how many bounded steps. Together
/// some forty thousand subjects a second are looked at, for a few thousandths of one core.
const SWEEP_INTERVAL: Duration = Duration::from_millis(100);
const SWEEP_STEPS: usize = 16;

/// Gives memory back, a little at a time.
pub(super) async fn sweep(door: Arc<Door>) {
    let mut ticks = interval(SWEEP_INTERVAL);
    // After a pause the steps that were missed are not made up for: that would be a long step.
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        ticks.tick().await;
        for _ in 0..SWEEP_STEPS {
            door.limiter().sweep();
        }
        door.sweep();
    }
}
