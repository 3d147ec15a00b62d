//! Many keys, all as likely, at a rate that is kept: what an admission costs Redis.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{Consistency, RegionCounts};

use super::Scene;
use super::lab::Work;
use super::ours::{Desk, Offered, Terms, counts, end, limiter, offer, reads};
use super::reference::{Closed, run_closed};
use super::time::Shifted;
use crate::Failure;
use crate::decide::keys::{self, Script};
use crate::figures::{Figures, ratio};

/// Active keys.
const KEYS: usize = 100_000;
/// The window of all limits.
const WINDOW_MS: u64 = 60_000;
/// The limit of the target.
const LIMIT: u64 = 1_000;
/// Accesses in a script: more than the keys of a cache, so that it does not learn the order.
const ACCESSES: usize = 1 << 20;
/// A run that offered less than this part of the rate has not kept it.
const KEPT: f64 = 0.97;
/// Admissions in one round trip of the reference's rule if it were pipelined.
const DEPTH: usize = 64;

/// One run of ours.
struct Ran {
    offered: Offered,
    work: Work,
    /// Subjects read, subjects replayed, calls and failed calls in the time.
    reads: u64,
    replayed: u64,
    calls: u64,
    failed: u64,
    /// Cost that was admitted and not recorded when the time was over.
    unrecorded: u64,
}

pub(super) async fn run(scene: &Scene, figures: &mut Figures, per_key: u64) -> Result<(), Failure> {
    let case = format!("uniform-{per_key}");
    let mut keys = scene.many(KEYS);
    let terms = Terms { limit: LIMIT, window_ms: WINDOW_MS };
    let mut ran = ours(scene, keys, per_key, terms).await?;
    while !scene.smoke && ran.offered.rate() < KEPT * offered(keys, per_key) && keys > 1_000 {
        let rate = ran.offered.rate();
        eprintln!("{case}: only {rate:.0}/s could be offered, so fewer keys");
        figures.add(&case, "tidegate", rate, &format!("requests/s offered at most, {keys} keys"));
        keys /= 2;
        ran = ours(scene, keys, per_key, terms).await?;
    }
    let of_target = ratio(ran.work.cpu_us, ran.offered.admitted as f64);
    add_ours(figures, (&case, "tidegate"), keys, &ran);
    // The smallest limit that such a key does not reach, for comparison.
    let other = Terms { limit: per_key * 100, ..terms };
    if other.limit != terms.limit {
        let ran = ours(scene, keys, per_key, other).await?;
        add_ours(figures, (&case, &format!("tidegate/{}", other.limit)), keys, &ran);
    }
    let script = script(keys);
    let mut of_reference = f64::NAN;
    for (contestant, depth) in [("reference", 1), ("reference pipelined", DEPTH)] {
        let server = scene.lab.start()?;
        let closed = Closed { depth, duration: scene.lasting(2.5) };
        eprintln!("{case}: {contestant}");
        let (admitted, work) = run_closed(&server, &script, terms, closed).await?;
        let cpu = ratio(work.cpu_us, admitted as f64);
        let rate = admitted as f64 / closed.duration.as_secs_f64();
        figures.add(&case, contestant, rate, "admissions/s");
        figures.add(&case, contestant, cpu, "redis cpu us/admission");
        if depth == 1 {
            of_reference = cpu;
        }
    }
    let target = format!("<= reference {of_reference:.2} redis cpu us/admission");
    figures.target(&case, target, format!("{of_target:.2}"), of_target <= of_reference);
    Ok(())
}

fn offered(keys: usize, per_key: u64) -> f64 {
    keys as f64 * per_key as f64
}

fn script(keys: usize) -> Arc<Script> {
    Arc::new(Script::new(keys::uniform(keys, ACCESSES.min(keys * 16)).into_iter()))
}

async fn ours(scene: &Scene, keys: usize, per_key: u64, terms: Terms) -> Result<Ran, Failure> {
    let rate = u64::try_from(keys)? * per_key;
    eprintln!("uniform-{per_key}: {keys} keys with a limit of {}, {rate}/s", terms.limit);
    let server = scene.lab.start()?;
    // No boundary during the run: it has a case of its own.
    let limiter = limiter(&server, Shifted::at(Duration::from_secs(20)))?;
    let each = Arc::new(Script::each_once(keys));
    let consistency = Consistency::Fast;
    Desk { limiter: Arc::clone(&limiter), script: each, terms, consistency }.fill().await?;
    let desk = Desk { limiter, script: script(keys), terms, consistency };
    offer(&desk, rate, scene.lasting(2.5)).await;
    let (before, said) = (Work::of(&server)?, counts(&desk.limiter));
    let offered = offer(&desk, rate, scene.lasting(5.0)).await;
    let (work, now) = (Work::since(&server, &before)?, counts(&desk.limiter));
    end(desk.limiter).await;
    let since = |field: fn(&RegionCounts) -> u64| field(&now) - field(&said);
    Ok(Ran {
        offered,
        work,
        reads: since(reads),
        replayed: since(|counts| counts.replayed),
        calls: since(|counts| counts.calls),
        failed: since(|counts| counts.calls_failed),
        unrecorded: now.unreplayed_cost,
    })
}

fn add_ours(figures: &mut Figures, (case, contestant): (&str, &str), keys: usize, ran: &Ran) {
    let Ran { offered, work, .. } = ran;
    let (admitted, seconds) = (offered.admitted as f64, offered.took.as_secs_f64());
    // Several records go into one execution of the script: how many, the limiter knows.
    let ((_, us), records) = (work.command("evalsha"), (ran.reads + ran.replayed) as f64);
    let mut add = |value: f64, unit: &str| figures.add(case, contestant, value, unit);
    add(keys as f64, "keys");
    add(offered.rate(), "requests/s offered");
    add(offered.starved, "part of the time asking had no core");
    add(ratio(admitted, offered.asked as f64), "admitted/asked");
    add(ratio(offered.cpu_us, admitted), "own cpu us/admission");
    add(ratio(work.cpu_us, admitted), "redis cpu us/admission");
    add(ratio(records, admitted), "records/admission");
    add(records / seconds, "records/s");
    add(ratio(work.cpu_us, records), "redis cpu us/record");
    add(ratio(us, records), "script us/record");
    // One when every key is replayed every two seconds; more when replays do not keep up, and
    // then the figures above are of fewer of them.
    add(ratio(ran.unrecorded as f64, offered.rate()), "seconds of admissions not recorded");
    add(ran.calls as f64 / seconds, "calls/s");
    add(ratio(ran.replayed as f64, ran.calls as f64), "replays/call");
    add(ran.reads as f64 / seconds, "reads/s");
    add(ratio(offered.waited as f64, offered.asked as f64), "waited/asked");
    add(ran.failed as f64, "calls failed");
}
