//! The time of a decision on a key that is known, with a Redis and without one.

use std::hint::black_box;
use std::time::Duration;

use tidegate::{Limiter, Request};

use super::Scene;
use super::ours::{Terms, end, limiter};
use super::time::{Shifted, now};
use crate::Failure;
use crate::decide::keys::Script;
use crate::figures::{Figures, quantile};

/// Rounds; the four contestants take turns in each.
const ROUNDS: usize = 11;
/// Decisions of a contestant in a round.
const DECISIONS: usize = 400_000;
/// A limit that is never reached.
const TERMS: Terms = Terms { limit: 1_000_000_000, window_ms: 60_000 };
/// How much longer a decision may take with a Redis.
const TARGET: f64 = 1.3;
/// The contestants: how they are asked, and whether there is a Redis.
const CONTESTANTS: [(&str, bool, bool); 4] = [
    ("check without", true, false),
    ("check with redis", true, true),
    ("check_now without", false, false),
    ("check_now with redis", false, true),
];

pub(super) async fn run(scene: &Scene, figures: &mut Figures) -> Result<(), Failure> {
    eprintln!("warm");
    let server = scene.lab.start()?;
    let clock = Shifted::at(Duration::from_secs(10));
    let with = limiter(&server, clock)?;
    let without = Limiter::builder().clock(clock).build()?;
    let script = Script::each_once(1);
    let Some(Ok(request)) = script.key(0).map(|key| TERMS.request(key)) else {
        return Err("warm: no key".into());
    };
    let (rounds, decisions) = if scene.smoke { (2, 2_000) } else { (ROUNDS, DECISIONS) };
    let mut samples = [const { Vec::new() }; 4];
    for round in 0..rounds {
        for turn in 0..CONTESTANTS.len() {
            let at = (turn + round) % CONTESTANTS.len();
            let (Some((_, awaited, redis)), Some(samples)) =
                (CONTESTANTS.get(at), samples.get_mut(at))
            else {
                continue;
            };
            let limiter = if *redis { &*with } else { &without };
            samples.push(time(limiter, &request, *awaited, decisions).await?);
        }
    }
    end(with).await;
    for samples in &mut samples {
        samples.sort_by(f64::total_cmp);
    }
    for ((name, ..), samples) in CONTESTANTS.iter().zip(&samples) {
        figures.add("warm", name, quantile(samples, 0.0), "ns/decision min");
        figures.add("warm", name, quantile(samples, 0.5), "ns/decision median");
    }
    let [check, check_redis, check_now, check_now_redis] = &samples;
    for (name, without, with) in
        [("check", check, check_redis), ("check_now", check_now, check_now_redis)]
    {
        let times = |part: f64| quantile(with, part) / quantile(without, part);
        let (min, median) = (times(0.0), times(0.5));
        let target = format!("{name}: <= {TARGET}x without redis");
        let measured = format!("min {min:.2}x, median {median:.2}x");
        figures.target("warm", target, measured, min <= TARGET && median <= TARGET);
    }
    Ok(())
}

/// Nanoseconds per decision; an error if one was denied or not decided at once.
async fn time(
    limiter: &Limiter,
    request: &Request<'_>,
    awaited: bool,
    decisions: usize,
) -> Result<f64, Failure> {
    // Whatever has to be asked is asked now.
    let _ = limiter.check(request).await;
    let mut admitted = 0;
    let begin = now();
    if awaited {
        for _ in 0..decisions {
            admitted += usize::from(black_box(limiter.check(request).await).admitted());
        }
    } else {
        for _ in 0..decisions {
            admitted += usize::from(black_box(limiter.check_now(request)).admitted());
        }
    }
    let elapsed = begin.elapsed().as_nanos() as f64;
    if admitted != decisions {
        return Err(format!("warm: {admitted} of {decisions} admitted, not all").into());
    }
    Ok(elapsed / decisions as f64)
}
