//! What sharing limits through a Redis costs, and how exact it is, beside the reference's rule on
//! the same Redis.

mod boundary;
mod exhausted;
mod hot;
mod lab;
pub(crate) mod ours;
mod overshoot;
pub(crate) mod reference;
pub(crate) mod time;
mod uniform;
mod warm;

use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;

use crate::Failure;
use crate::args::Head;
use crate::figures::Figures;
pub(crate) use lab::{Lab, Work};
pub(crate) use reference::Wire;

/// Threads that speak with the region; what is offered comes from a third.
const WORKERS: usize = 2;

/// Arguments of `region`.
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
    /// One key at full speed.
    Hot,
    /// 100,000 keys, one request for each and second.
    #[value(name = "uniform-1")]
    Uniform1,
    /// The same with ten.
    #[value(name = "uniform-10")]
    Uniform10,
    /// A subject at its limit.
    Exhausted,
    /// 100,000 keys with large limits cross a boundary.
    #[value(name = "boundary-1000")]
    Boundary1000,
    /// The same with small ones.
    #[value(name = "boundary-10")]
    Boundary10,
    /// The time of a decision that asks nobody.
    Warm,
    /// How much more than the limit several processes admit.
    Overshoot,
}

/// What all cases need.
pub(crate) struct Scene {
    /// Starts servers.
    pub(crate) lab: Lab,
    /// Everything is tiny.
    pub(crate) smoke: bool,
}

impl Scene {
    /// So many, or few.
    pub(crate) fn many(&self, count: usize) -> usize {
        if self.smoke { (count / 200).max(1) } else { count }
    }

    /// So long, or a moment.
    pub(crate) fn lasting(&self, seconds: f64) -> Duration {
        Duration::from_secs_f64(if self.smoke { seconds / 25.0 } else { seconds })
    }
}

/// Runs the bench.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    let scene = Scene { lab: Lab::new(args.redis_server.clone()), smoke: args.head.smoke };
    let head = &args.head;
    head.run("region", head.cases(), |case, figures| run(*case, &scene, figures))
}

/// One case, on a runtime of its own: whatever it started ends with it.
fn run(case: Case, scene: &Scene, figures: &mut Figures) -> Result<(), Failure> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(WORKERS).enable_all().build()?;
    runtime.block_on(async {
        match case {
            Case::Hot => hot::run(scene, figures).await,
            Case::Uniform1 => uniform::run(scene, figures, 1).await,
            Case::Uniform10 => uniform::run(scene, figures, 10).await,
            Case::Exhausted => exhausted::run(scene, figures).await,
            Case::Boundary1000 => boundary::run(scene, figures, 1_000).await,
            Case::Boundary10 => boundary::run(scene, figures, 10).await,
            Case::Warm => warm::run(scene, figures).await,
            Case::Overshoot => overshoot::run(scene, figures).await,
        }
    })
}
