//! A subject at its limit, asked for at full speed by several callers at once.

use std::sync::Arc;
use std::time::Duration;

use tidegate::Consistency;

use super::Scene;
use super::hot::full_speed;
use super::lab::Work;
use super::ours::{Desk, Terms, counts, end, limiter, reads};
use super::time::{Shifted, now};
use crate::Failure;
use crate::decide::keys::Script;
use crate::figures::Figures;

/// Callers at the same time.
const CALLERS: usize = 8;
/// As the window slides, a hundred become free in a second.
const TERMS: Terms = Terms { limit: 1_000, window_ms: 10_000 };

pub(super) async fn run(scene: &Scene, figures: &mut Figures) -> Result<(), Failure> {
    eprintln!("exhausted");
    let server = scene.lab.start()?;
    // One second before a boundary: the limit is used up in this window, and the next one gives
    // back what the sliding of the window frees.
    let limiter = limiter(&server, Shifted::at(Duration::from_secs(9)))?;
    let script = Arc::new(Script::each_once(1));
    let desk = Desk {
        limiter: Arc::clone(&limiter),
        script,
        terms: TERMS,
        consistency: Consistency::Fast,
    };
    let duration = scene.lasting(9.0);
    let before = Work::of(&server)?;
    let (asked, admitted) = full_speed(&desk, CALLERS, now() + duration).await?;
    let (work, said) = (Work::since(&server, &before)?, counts(&limiter));
    drop(limiter);
    end(desk.limiter).await;
    let reads = reads(&said);
    let mut add = |value: f64, unit: &str| figures.add("exhausted", "tidegate", value, unit);
    add(asked as f64 / duration.as_secs_f64(), "requests/s");
    add(admitted as f64, "admissions");
    add(reads as f64, "reads");
    add(said.refreshes_joined as f64, "waits for another's read");
    add(said.refreshes_failed as f64, "reads failed");
    add(said.replayed as f64, "replays");
    add(work.calls("evalsha"), "scripts run in redis");
    let target = format!("reads <= admissions + 1 = {}", admitted + 1);
    figures.target("exhausted", target, reads.to_string(), reads <= admitted + 1);
    Ok(())
}
