//! One key at full speed, whose limit is never reached.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::Consistency;

use super::Scene;
use super::lab::Work;
use super::ours::{Desk, Terms, end, limiter};
use super::reference::{Closed, run_closed};
use super::time::{Shifted, now};
use crate::Failure;
use crate::decide::keys::Script;
use crate::figures::{Figures, ratio};

/// Callers at the same time.
const CALLERS: usize = 4;
/// More than this machine can ask for in the time.
const TERMS: Terms = Terms { limit: 1_000_000_000, window_ms: 60_000 };
/// Redis operations for an admission, at most.
const TARGET: f64 = 0.01;

pub(super) async fn run(scene: &Scene, figures: &mut Figures) -> Result<(), Failure> {
    eprintln!("hot");
    let script = Arc::new(Script::each_once(1));
    let duration = scene.lasting(4.0);
    let server = scene.lab.start()?;
    let limiter = limiter(&server, Shifted::at(Duration::from_secs(10)))?;
    let desk = Desk {
        limiter: Arc::clone(&limiter),
        script: Arc::clone(&script),
        terms: TERMS,
        consistency: Consistency::Fast,
    };
    let before = Work::of(&server)?;
    let (asked, admitted) = full_speed(&desk, CALLERS, now() + duration).await?;
    end(desk.limiter).await;
    let work = Work::since(&server, &before)?;
    if admitted != asked {
        return Err(format!("hot: {admitted} of {asked} admitted, not all").into());
    }
    let operations = ratio(work.operations(), admitted as f64);
    figures.add("hot", "tidegate", admitted as f64 / duration.as_secs_f64(), "admissions/s");
    figures.add("hot", "tidegate", operations, "redis operations/admission");
    figures.add("hot", "tidegate", ratio(work.cpu_us, admitted as f64), "redis cpu us/admission");

    let server = scene.lab.start()?;
    let closed = Closed { depth: 1, duration: scene.lasting(2.0) };
    let (admitted, work) = run_closed(&server, &script, TERMS, closed).await?;
    let of_reference = ratio(work.operations(), admitted as f64);
    let cpu = ratio(work.cpu_us, admitted as f64);
    let rate = admitted as f64 / closed.duration.as_secs_f64();
    figures.add("hot", "reference", rate, "admissions/s");
    figures.add("hot", "reference", of_reference, "redis operations/admission");
    figures.add("hot", "reference", cpu, "redis cpu us/admission");
    let target = format!("<= {TARGET} redis operations/admission");
    figures.target("hot", target, format!("{operations:.6}"), operations <= TARGET);
    Ok(())
}

/// Several callers that ask again as soon as they have their answer. Says how often they asked
/// and were admitted.
pub(super) async fn full_speed(
    desk: &Desk,
    callers: usize,
    until: Instant,
) -> Result<(u64, u64), Failure> {
    let callers: Vec<_> = (0..callers)
        .map(|_| {
            let desk = desk.clone();
            tokio::spawn(async move {
                let (mut asked, mut admitted) = (0_u64, 0_u64);
                while asked % 16 > 0 || now() < until {
                    admitted += u64::from(desk.clone().ask(0).await);
                    asked += 1;
                    // As a server does that reads a socket: nobody keeps a thread for himself.
                    tokio::task::coop::consume_budget().await;
                }
                (asked, admitted)
            })
        })
        .collect();
    let (mut asked, mut admitted) = (0, 0);
    for caller in callers {
        let (more_asked, more_admitted) = caller.await?;
        asked += more_asked;
        admitted += more_admitted;
    }
    Ok((asked, admitted))
}
