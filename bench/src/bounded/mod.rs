//! How well a limit of bounded consistency holds, and what that costs: beside the fast rule and
//! the reference's, on the same arrivals and on a Redis of its own each.

mod arrivals;
mod fleet;
mod latency;
mod node;
mod outage;
mod overshoot;

use std::process::ExitCode;

use clap::ValueEnum;

use crate::Failure;
use crate::args::Head;
use crate::figures::Figures;
use crate::region::{Lab, Scene};

/// Threads that speak with the region; what is offered comes from a third.
const WORKERS: usize = 2;

/// Arguments of `bounded`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    head: Head<Case>,
    /// The program to start instead of `redis-server`.
    #[arg(long)]
    redis_server: Option<String>,
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// The time of an admission: on credit, asked for, and in line.
    Latency,
    /// How much more than the limit is admitted, and how many operations that takes: requests one
    /// after the other.
    Sequential,
    /// The same for bursts that begin with a window.
    Boundary,
    /// The same for bursts somewhere in a window.
    Phase,
    /// Redis does not answer for a while.
    Paused,
    /// Redis ends, and comes back without what it knew.
    Killed,
}

/// Runs the bench.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    let scene = Scene { lab: Lab::new(args.redis_server.clone()), smoke: args.head.smoke };
    let head = &args.head;
    head.run("bounded", head.cases(), |case, figures| run(*case, &scene, figures))
}

/// One case, on a runtime of its own: whatever it started ends with it.
fn run(case: Case, scene: &Scene, figures: &mut Figures) -> Result<(), Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(WORKERS).enable_all().build()?;
    runtime.block_on(async {
        match case {
            Case::Latency => latency::run(scene, figures).await,
            Case::Sequential => overshoot::run(scene, figures, arrivals::Pattern::Sequential).await,
            Case::Boundary => overshoot::run(scene, figures, arrivals::Pattern::Boundary).await,
            Case::Phase => overshoot::run(scene, figures, arrivals::Pattern::Phase).await,
            Case::Paused => outage::run(scene, figures, outage::Harm::Paused).await,
            Case::Killed => outage::run(scene, figures, outage::Harm::Killed).await,
        }
    })
}
