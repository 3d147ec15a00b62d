//! Many active keys cross the boundary of a window together.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Consistency, RegionCounts};

use super::Scene;
use super::lab::Work;
use super::ours::{Desk, Terms, counts, end, limiter, offer, reads};
use super::time::Shifted;
use crate::Failure;
use crate::decide::keys::Script;
use crate::figures::{Figures, ratio};

/// Active keys; each is asked for ten times in a window, which is once in a second.
const KEYS: usize = 100_000;
/// The window.
const WINDOW: Duration = Duration::from_secs(10);
/// Where in the window before the run begins. What is left of it is not enough to use up the
/// smaller limit: a subject at its limit is another case.
const BEGIN: Duration = Duration::from_secs(1);
/// From here on the keys are known and the rate is kept: what is steady.
const STEADY: Duration = Duration::from_secs(7);
/// When it is over. Nothing of the new window is stale before that.
const END: Duration = Duration::from_secs(14);
/// Reads per second that are always allowed.
const FLOOR: f64 = 100.0;
/// The part of the keys of which the region may not have been heard.
const SLACK: f64 = 0.01;

/// What had been said at some moment.
#[derive(Clone, Copy)]
struct Sample {
    at: Duration,
    said: RegionCounts,
}

pub(super) async fn run(scene: &Scene, figures: &mut Figures, limit: u64) -> Result<(), Failure> {
    let case = format!("boundary-{limit}");
    let keys = scene.many(KEYS);
    eprintln!("{case}: {keys} keys");
    let server = scene.lab.start()?;
    let begin = if scene.smoke { STEADY } else { BEGIN };
    let clock = Shifted::at(begin);
    let limiter = limiter(&server, clock)?;
    let window_ms = u64::try_from(WINDOW.as_millis())?;
    let script = Arc::new(Script::each_once(keys));
    let terms = Terms { limit, window_ms };
    let desk =
        Desk { limiter: Arc::clone(&limiter), script, terms, consistency: Consistency::Fast };
    desk.fill().await?;
    let over = if scene.smoke { WINDOW + Duration::from_secs(1) } else { END };
    let sampler = tokio::spawn(sample(clock, Arc::clone(&limiter), over));
    let rate = u64::try_from(keys)? / WINDOW.as_secs() * 10;
    let left = over.saturating_sub(clock.since_boundary());
    let before = Work::of(&server)?;
    let offered = offer(&desk, rate, left).await;
    let work = Work::since(&server, &before)?;
    let samples = sampler.await?;
    drop(limiter);
    end(desk.limiter).await;
    let mut add = |value: f64, unit: &str| figures.add(&case, "tidegate", value, unit);
    add(keys as f64, "keys");
    add(offered.rate(), "requests/s offered");
    add(ratio(offered.admitted as f64, offered.asked as f64), "admitted/asked");
    add(ratio(work.cpu_us, offered.admitted as f64), "redis cpu us/admission");
    judge(figures, &case, &samples, keys);
    Ok(())
}

/// Looks at every whole second of the shifted clock.
async fn sample(clock: Shifted, limiter: Arc<tidegate::Limiter>, over: Duration) -> Vec<Sample> {
    let mut samples = Vec::new();
    let mut next = Duration::from_secs(clock.since_boundary().as_secs() + 1);
    while next <= over {
        clock.until(next).await;
        samples.push(Sample { at: clock.since_boundary(), said: counts(&limiter) });
        next += Duration::from_secs(1);
    }
    samples
}

fn judge(figures: &mut Figures, case: &str, samples: &[Sample], keys: usize) {
    let (mut steady, mut at_boundary, mut replays) = (0.0_f64, 0.0_f64, [0.0_f64; 2]);
    let mut last = [RegionCounts::default(); 2];
    for pair in samples.windows(2) {
        let [from, to] = pair else { continue };
        let seconds = (to.at - from.at).as_secs_f64();
        let rate = (reads(&to.said) - reads(&from.said)) as f64 / seconds;
        let replayed = (to.said.replayed - from.said.replayed) as f64 / seconds;
        let [before, after] = &mut replays;
        if to.at < WINDOW + Duration::from_millis(500) {
            if from.at >= STEADY {
                steady = steady.max(rate);
                *before = before.max(replayed);
            }
            last[0] = to.said;
        } else {
            at_boundary = at_boundary.max(rate);
            *after = after.max(replayed);
            last[1] = to.said;
        }
    }
    let [before, after] = last;
    let since =
        |field: fn(&RegionCounts) -> u64| field(&after).saturating_sub(field(&before)) as f64;
    let mut add = |value: f64, unit: &str| figures.add(case, "tidegate", value, unit);
    add(before.breakers_open as f64, "breakers open at the boundary");
    add(steady, "reads/s steady, most");
    add(at_boundary, "reads/s after the boundary, most");
    add(replays[0], "replays/s steady, most");
    add(replays[1], "replays/s after the boundary, most");
    add(since(|counts| counts.refreshed_significant), "significant reads after");
    add(since(|counts| counts.refreshed_cold), "cold reads after");
    add(since(|counts| counts.refreshed_stale), "stale reads after");
    add(since(|counts| counts.refreshed_strict), "strict reads after");
    add(since(|counts| counts.refreshes_failed), "failed reads after");
    add(since(|counts| counts.refreshes_refused), "refused reads after");
    if case == "boundary-1000" {
        let most = (1.2 * steady).max(FLOOR);
        let target = format!("<= {most:.0} reads/s after the boundary");
        figures.target(case, target, format!("{at_boundary:.0}"), at_boundary <= most);
    } else {
        let per_key = |count: f64| count / keys as f64;
        let read = per_key(since(reads));
        let not = |counts: &RegionCounts| counts.refreshes_refused + counts.refreshes_failed;
        let refused = per_key(since(not));
        let target = "one read for each key that is used".to_owned();
        let measured = format!("{read:.3} read, {refused:.3} refused or failed");
        // Not to ask is not a way to reach it.
        let met = read <= 1.0 && read + SLACK >= 1.0 && refused <= SLACK;
        figures.target(case, target, measured, met);
    }
}
