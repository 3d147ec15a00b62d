//! The time of an admission: on credit beside the fast rule, asked for beside the bare round trip,
//! and in line behind others.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Consistency, Limiter, RegionalStore, Request};
use tokio::task::JoinSet;

use super::node::{Counting, limiter, request};
use crate::Failure;
use crate::figures::{Figures, quantile};
use crate::region::ours::end;
use crate::region::time::{Shifted, now};
use crate::region::{Scene, Wire};

/// Rounds of decisions on credit; both rules take turns in each.
const ROUNDS: usize = 201;
/// Decisions of a rule in a round: two milliseconds, so that some rounds are not disturbed.
const DECISIONS: usize = 20_000;
/// Admissions that are asked for, and round trips beside them.
const ASKS: usize = 3_000;
/// Times that several ask at once.
const QUEUES: usize = 1_500;
/// How many ask at once: one goes, the others stand in line.
const CALLERS: usize = 5;
/// A limit that is never reached.
const LARGE: u64 = 1_000_000_000;
/// A limit of which nothing is ever on credit: an eighth of it is less than 1.
const SMALL: u64 = 7;
/// Admissions of each subject with that limit.
const EACH: usize = 5;
/// The window.
const WINDOW_MS: u64 = 60_000;
/// How much longer an admission on credit may take than one of the fast rule...
const CREDIT_TARGET: f64 = 1.2;
/// ...one that is asked for than the bare round trip...
const ASK_TARGET: f64 = 2.0;
/// ...and one that stands in line: what is under way lands, and then the next.
const QUEUE_TARGET: f64 = 3.0;

pub(super) async fn run(scene: &Scene, figures: &mut Figures) -> Result<(), Failure> {
    eprintln!("latency");
    let server = scene.lab.start()?;
    let clock = Shifted::at(Duration::from_secs(5));
    let (limiter, store) = limiter(&server, clock)?;
    let smoke = scene.smoke;
    credit(figures, &limiter, smoke).await?;
    let wires = (store, Wire::connect(server.port()).await?);
    // On a thread that drives the connections, as the handlers of a server are.
    let asks = tokio::spawn(asks(Arc::clone(&limiter), wires, if smoke { 20 } else { ASKS }));
    let Asks { asked, bare, pings } = asks.await??;
    let raw = quantile(&bare, 0.99);
    add(figures, "ask", "PING on a socket", &pings);
    add(figures, "ask", "the same ask, bare", &bare);
    add(figures, "ask", "bounded", &asked);
    judge(figures, "ask", (quantile(&asked, 0.99), raw), ASK_TARGET);
    let queues = tokio::spawn(queues(Arc::clone(&limiter), if smoke { 5 } else { QUEUES }));
    let (first, queued) = queues.await??;
    add(figures, "queue", "bounded, the first", &first);
    add(figures, "queue", "bounded, in line", &queued);
    judge(figures, "queue", (quantile(&queued, 0.99), raw), QUEUE_TARGET);
    end(limiter).await;
    Ok(())
}

/// Milliseconds at the middle and at 99 of 100.
fn add(figures: &mut Figures, case: &str, contestant: &str, sorted_ms: &[f64]) {
    figures.add(case, contestant, quantile(sorted_ms, 0.5), "ms p50");
    figures.add(case, contestant, quantile(sorted_ms, 0.99), "ms p99");
}

fn judge(figures: &mut Figures, case: &str, (p99, raw): (f64, f64), most: f64) {
    let target = format!("p99 <= {most}x the p99 {raw:.3} ms of a bare ask");
    let measured = format!("{p99:.3} ms, {:.2}x", p99 / raw);
    figures.target(case, target, measured, p99 <= most * raw);
}

fn sorted(mut samples: Vec<f64>) -> Vec<f64> {
    samples.sort_by(f64::total_cmp);
    samples
}

/// One known subject with a large limit, by both rules in turns.
async fn credit(figures: &mut Figures, limiter: &Limiter, smoke: bool) -> Result<(), Failure> {
    let rules = [("bounded", Consistency::Bounded), ("fast", Consistency::Fast)];
    let (rounds, decisions) = if smoke { (2, 2_000) } else { (ROUNDS, DECISIONS) };
    let mut samples = [const { Vec::new() }; 2];
    let mut singles = [const { Vec::new() }; 2];
    for round in 0..rounds {
        for turn in 0..rules.len() {
            let at = (turn + round) % rules.len();
            let (Some((name, rule)), Some(samples), Some(singles)) =
                (rules.get(at), samples.get_mut(at), singles.get_mut(at))
            else {
                continue;
            };
            // A subject for each rule: they would share counts otherwise.
            let request = request((name, WINDOW_MS), (LARGE, 1), *rule)?;
            samples.push(many(limiter, &request, decisions).await?);
            for _ in 0..decisions / 10 {
                let begin = now();
                black_box(limiter.check(&request).await);
                singles.push(begin.elapsed().as_nanos() as f64);
            }
        }
    }
    let (samples, singles) = (samples.map(sorted), singles.map(sorted));
    for (((name, _), samples), singles) in rules.iter().zip(&samples).zip(&singles) {
        figures.add("credit", name, quantile(samples, 0.0), "ns/decision min");
        figures.add("credit", name, quantile(samples, 0.5), "ns/decision median");
        figures.add("credit", name, quantile(singles, 0.5), "ns p50, with reading a clock");
        figures.add("credit", name, quantile(singles, 0.99), "ns p99, with reading a clock");
    }
    let [bounded, fast] = &samples;
    let times = |part: f64| quantile(bounded, part) / quantile(fast, part);
    let (min, median) = (times(0.0), times(0.5));
    let target = format!("bounded: <= {CREDIT_TARGET}x fast");
    let measured = format!("min {min:.2}x, median {median:.2}x");
    let met = min <= CREDIT_TARGET && median <= CREDIT_TARGET;
    figures.target("credit", target, measured, met);
    Ok(())
}

/// Nanoseconds per decision; an error if one was denied.
async fn many(limiter: &Limiter, request: &Request<'_>, count: usize) -> Result<f64, Failure> {
    // Whatever has to be asked is asked now.
    let _ = limiter.check(request).await;
    let (mut admitted, begin) = (0, now());
    for _ in 0..count {
        admitted += usize::from(black_box(limiter.check(request).await).admitted());
    }
    let elapsed = begin.elapsed().as_nanos() as f64;
    if admitted != count {
        return Err(format!("credit: {admitted} of {count} admitted, not all").into());
    }
    Ok(elapsed / count as f64)
}

/// Milliseconds, sorted.
#[derive(Default)]
struct Asks {
    /// Of admissions that are asked for, one at a time.
    asked: Vec<f64>,
    /// Of the same script with the same words, on the same connection, without a limiter.
    bare: Vec<f64>,
    /// Of a command that does nothing, on a connection that nobody shares.
    pings: Vec<f64>,
}

async fn asks(
    limiter: Arc<Limiter>,
    (store, mut wire): (Arc<Counting>, Wire),
    count: usize,
) -> Result<Asks, Failure> {
    let (mut asks, skipped) = (Asks::default(), count / 10);
    // What is said at the beginning only is not measured.
    for at in 0..count + skipped {
        let name = format!("ask_{:08}", at / EACH);
        let request = request((&name, WINDOW_MS), (SMALL, 1), Consistency::Bounded)?;
        let begin = now();
        let answer = limiter.check(&request).await;
        asks.asked.push(begin.elapsed().as_secs_f64() * 1e3);
        if !answer.admitted() {
            return Err("ask: not all were admitted".into());
        }
        let again = store.first_ask().ok_or("ask: nothing was asked")?;
        let begin = now();
        store.call(again).await?;
        asks.bare.push(begin.elapsed().as_secs_f64() * 1e3);
        let begin = now();
        wire.ask(&["PING"]).await?;
        asks.pings.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    for samples in [&mut asks.asked, &mut asks.bare, &mut asks.pings] {
        *samples = sorted(samples.split_off(skipped));
    }
    Ok(asks)
}

/// Milliseconds of those who ask first, and of those who then stand in line.
async fn queues(limiter: Arc<Limiter>, count: usize) -> Result<(Vec<f64>, Vec<f64>), Failure> {
    let (mut first, mut queued) = (Vec::new(), Vec::new());
    for at in 0..count {
        let name: Arc<str> = format!("queue_{at:08}").into();
        let mut callers = JoinSet::new();
        for caller in 0..CALLERS {
            let (limiter, name) = (Arc::clone(&limiter), Arc::clone(&name));
            callers.spawn(async move {
                let terms = (LARGE / 2, LARGE / 2 / CALLERS as u64);
                let request = request((&name, WINDOW_MS), terms, Consistency::Bounded)?;
                let begin = now();
                limiter.check(&request).await;
                Ok::<_, Failure>((caller, begin.elapsed().as_secs_f64() * 1e3))
            });
        }
        let mut took = Vec::new();
        while let Some(caller) = callers.join_next().await {
            took.push(caller??.1);
        }
        let mut took = sorted(took);
        queued.extend(took.split_off(1));
        first.extend(took);
    }
    Ok((sorted(first), sorted(queued)))
}
