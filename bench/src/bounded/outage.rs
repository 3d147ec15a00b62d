//! Bursts of bounded consistency while Redis does not answer, or has ended: answers keep coming,
//! in time, and afterwards the limit holds as before.

use std::time::Duration;

use tidegate_lab::RedisServer;

use super::arrivals::{BEGIN_MS, bursts};
use super::fleet::{Cell, Fleet, Ran};
use super::node::Rule;
use crate::Failure;
use crate::figures::{Figures, quantile, three_digits};
use crate::region::Scene;
use crate::region::time::Shifted;

/// Processes that share the limit.
const NODES: usize = 5;
/// The limit.
const LIMIT: u64 = 100;
/// From one burst to the next.
const EVERY_MS: u64 = 50;
/// After the first burst: when Redis is harmed, which is in the middle of one, and when it is back.
const HARM_MS: (u64, u64) = (2_002, 3_500);
/// How long bursts come.
const LASTING_MS: u64 = 8_000;
/// How long a caller waits at most, by default.
const DEADLINE_MS: f64 = 20.0;
/// What a machine with two cores adds to that while everything waits at once.
const SLACK_MS: f64 = 10.0;
/// What a cell comes to while Redis answers.
const WORST: f64 = 1.1;

/// Without a degraded answer for so long, Redis is asked as before.
const WELL: Duration = Duration::from_millis(1_500);

/// What happens to Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Harm {
    /// It is stopped in its tracks, and goes on.
    Paused,
    /// It ends, and starts empty.
    Killed,
}

impl Harm {
    const fn name(self) -> &'static str {
        match self {
            Self::Paused => "paused",
            Self::Killed => "killed",
        }
    }

    fn begin(self, server: &mut RedisServer) -> Result<(), Failure> {
        match self {
            Self::Paused => Ok(server.pause()?),
            Self::Killed => {
                server.kill_9();
                Ok(())
            }
        }
    }

    fn end(self, server: &mut RedisServer) -> Result<(), Failure> {
        match self {
            Self::Paused => Ok(server.resume()?),
            Self::Killed => Ok(server.restart()?),
        }
    }
}

pub(super) async fn run(scene: &Scene, figures: &mut Figures, harm: Harm) -> Result<(), Failure> {
    eprintln!("{}", harm.name());
    let server = scene.lab.start()?;
    let clock = Shifted::at(Duration::from_millis(BEGIN_MS - 1_200));
    let fleet = Fleet::start(&server, clock, (Rule::Bounded, NODES)).await?;
    let lasting_ms = if scene.smoke { 200 } else { LASTING_MS };
    let plan = bursts(NODES, LIMIT, (EVERY_MS, lasting_ms));
    let harmed =
        tokio::task::spawn_blocking(move || suffer(server, harm, clock, scene_ms(lasting_ms)));
    let ran = fleet.run(plan).await?;
    // The server lives until the fleet has ended.
    let server = harmed.await??;
    fleet.end().await;
    drop(server);
    tell(figures, harm, &ran, scene_ms(lasting_ms));
    Ok(())
}

/// When it is harmed and when it is back, since the boundary; sooner if all is over sooner.
fn scene_ms(lasting_ms: u64) -> (u64, u64) {
    let (begin, end) = HARM_MS;
    (BEGIN_MS + begin * lasting_ms / LASTING_MS, BEGIN_MS + end * lasting_ms / LASTING_MS)
}

fn suffer(
    mut server: RedisServer,
    harm: Harm,
    clock: Shifted,
    (begin_ms, end_ms): (u64, u64),
) -> Result<RedisServer, Failure> {
    clock.block_until(Duration::from_millis(begin_ms));
    harm.begin(&mut server)?;
    clock.block_until(Duration::from_millis(end_ms));
    harm.end(&mut server)?;
    Ok(server)
}

/// When the last answer was degraded before there were none for a while. Later ones are as rare as
/// before: a machine that was busy elsewhere.
fn recovered(cells: &[Cell], end: Duration) -> Duration {
    let mut last = end;
    for cell in cells.iter().filter(|cell| cell.degraded > 0 && cell.at > end) {
        if cell.at > last + WELL {
            break;
        }
        last = cell.at;
    }
    last
}

fn tell(figures: &mut Figures, harm: Harm, ran: &Ran, (begin_ms, end_ms): (u64, u64)) {
    let case = harm.name();
    let (begin, end) = (Duration::from_millis(begin_ms), Duration::from_millis(end_ms));
    let well = recovered(&ran.cells, end);
    let burst = Duration::from_millis(EVERY_MS);
    let mut add = |name: &str, counts: &dyn Fn(&Cell) -> bool| {
        let mut shares: Vec<f64> =
            ran.cells.iter().filter(|cell| counts(cell)).map(Cell::share).collect();
        shares.sort_by(f64::total_cmp);
        figures.spread(&format!("{case}/{name}"), "bounded", &shares);
        (shares.len(), quantile(&shares, 1.0))
    };
    let clean = |cell: &Cell| cell.degraded == 0;
    add("before", &|cell| cell.at + burst < begin && clean(cell));
    add("meanwhile", &|cell| cell.at + burst >= begin && cell.at <= well);
    let (cells, worst) = add("afterwards", &|cell| cell.at > well && clean(cell));
    let during = ran.waits.iter().filter(|(at, _)| *at + burst >= begin && *at <= well);
    let mut waits: Vec<f64> = during.map(|(_, ms)| *ms).collect();
    waits.sort_by(f64::total_cmp);
    figures.add(case, "bounded", ran.requests as f64, "requests, all answered");
    figures.add(case, "bounded", (well - end).as_secs_f64(), "s until Redis is asked as before");
    figures.add(case, "bounded", quantile(&waits, 0.5), "ms waited p50");
    figures.add(case, "bounded", quantile(&waits, 0.99), "ms waited p99");
    let longest = quantile(&waits, 1.0);
    let most = DEADLINE_MS + SLACK_MS;
    let target = format!("nobody waits longer than {DEADLINE_MS} + {SLACK_MS} ms");
    figures.target(case, target, format!("{longest:.1} ms"), longest <= most);
    let target = format!("worst of {cells} cells afterwards <= {WORST}");
    let met = cells > 0 && worst <= WORST;
    figures.target(case, target, three_digits(worst).to_string(), met);
}
