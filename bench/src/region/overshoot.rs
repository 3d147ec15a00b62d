//! How much more than the limit several processes admit, beside the reference's rule under the
//! same arrivals.

mod arrivals;
mod fleet;

use std::time::Duration;

use super::Scene;
use super::lab::Work;
use super::time::Shifted;
use crate::Failure;
use crate::figures::{Figures, quantile, ratio, three_digits};
use arrivals::{Plan, plan};
use fleet::{Fleet, Rule};

/// Processes that share the limits.
const NODES: [usize; 4] = [1, 3, 5, 9];
/// The limits; the subjects of all three are asked for in the same run.
const LIMITS: [u64; 3] = [10, 100, 1_000];

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// Evenly, each at a random process: twice the limit in every window, two windows.
    Steady,
    /// Six times the limit within five milliseconds, spread over all processes.
    Burst,
}

impl Pattern {
    const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Burst => "burst",
        }
    }

    const fn window_ms(self) -> u64 {
        match self {
            Self::Steady => 5_000,
            Self::Burst => 60_000,
        }
    }

    /// Whole windows of a run. Steady arrivals have one that begins cold, and one with a full one
    /// before it.
    const fn windows(self) -> usize {
        match self {
            Self::Steady => 2,
            Self::Burst => 1,
        }
    }

    /// Subjects with a limit of 10, of 100 and of 1,000: a cell of a large limit takes many
    /// requests, and the reference an operation for each.
    const fn subjects(self) -> [usize; 3] {
        match self {
            Self::Steady => [500, 100, 10],
            Self::Burst => [900, 100, 10],
        }
    }
}

/// What the cells of one limit came to: admitted by limit, sorted.
struct Spread {
    limit: u64,
    cells: Vec<f64>,
}

impl Spread {
    fn p99(&self) -> f64 {
        three_digits(quantile(&self.cells, 0.99))
    }

    fn worst(&self) -> f64 {
        three_digits(quantile(&self.cells, 1.0))
    }
}

pub(super) async fn run(scene: &Scene, figures: &mut Figures) -> Result<(), Failure> {
    for pattern in [Pattern::Steady, Pattern::Burst] {
        for nodes in NODES {
            let ours = one(scene, figures, (pattern, nodes, Rule::Tidegate)).await?;
            let theirs = one(scene, figures, (pattern, nodes, Rule::Reference)).await?;
            if pattern == Pattern::Burst {
                continue;
            }
            for (ours, theirs) in ours.iter().zip(&theirs) {
                let case = case(pattern, nodes, ours.limit);
                let (p99, worst) = (theirs.p99(), theirs.worst());
                let target = format!("p99 <= {p99}, worst <= {worst} of the reference");
                let measured = format!("p99 {}, worst {}", ours.p99(), ours.worst());
                let met = ours.p99() <= p99 && ours.worst() <= worst;
                figures.target(&case, target, measured, met);
            }
        }
    }
    Ok(())
}

fn case(pattern: Pattern, nodes: usize, limit: u64) -> String {
    format!("overshoot/{}/{nodes}n/{limit}", pattern.name())
}

async fn one(
    scene: &Scene,
    figures: &mut Figures,
    (pattern, nodes, rule): (Pattern, usize, Rule),
) -> Result<Vec<Spread>, Failure> {
    eprintln!("overshoot: {}, {nodes} nodes, {}", pattern.name(), rule.name());
    let server = scene.lab.start()?;
    let Plan { arrivals, subjects } = plan(scene, pattern, nodes);
    // At a boundary for steady arrivals, so that each window is whole; in the middle of one for
    // bursts.
    let offset = if pattern == Pattern::Steady { 0 } else { 20 };
    let clock = Shifted::at(Duration::from_secs(offset));
    let fleet = Fleet::start(&server, clock, (rule, nodes)).await?;
    let before = Work::of(&server)?;
    let ran = fleet.run(&arrivals, &subjects, pattern).await?;
    let work = Work::since(&server, &before)?;
    fleet.end().await;
    let asked = arrivals.len() as f64;
    let whole = format!("overshoot/{}/{nodes}n", pattern.name());
    figures.add(&whole, rule.name(), ratio(work.cpu_us, asked), "redis cpu us/request");
    figures.add(&whole, rule.name(), ran.late_ms, "arrivals late ms p99");
    let mut spreads = Vec::new();
    for limit in LIMITS {
        let of_limit = ran.cells.iter().filter(|(of, _)| *of == limit);
        let mut cells: Vec<f64> =
            of_limit.map(|(_, admitted)| *admitted as f64 / limit as f64).collect();
        cells.sort_by(f64::total_cmp);
        figures.spread(&case(pattern, nodes, limit), rule.name(), &cells);
        spreads.push(Spread { limit, cells });
    }
    Ok(spreads)
}
