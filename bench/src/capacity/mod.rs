//! What a fleet asks of everything around it: two regions of two processes, a Redis each and a
//! database for both, all real. For planning: what is printed is for 1,000 windows in use.

mod fleet;
mod load;
mod redis;

use std::process::ExitCode;

use clap::ValueEnum;
use tidegate::Consistency;

use crate::Failure;
use crate::args::Head;
use crate::decide::memory;
use crate::figures::Figures;
use crate::globe::database::Database;
use crate::region::{Lab, Scene};
use load::Load;

/// Threads that speak with the stores; what is offered comes from these, too.
const WORKERS: usize = 2;

/// Arguments of `capacity`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    head: Head<Case>,
    /// The program to start instead of `redis-server`.
    #[arg(long)]
    redis_server: Option<String>,
}

impl Args {
    /// All, unless it was said which. They differ in numbers only, so that two show that all run.
    fn wants(&self, case: Case) -> bool {
        let all =
            if self.head.smoke { &[Case::Calm, Case::Memory] } else { Case::value_variants() };
        let wanted = if self.head.only.is_empty() { all } else { self.head.only.as_slice() };
        wanted.contains(&case)
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// Nobody asks for anything: what is there anyway.
    Idle,
    /// A request in five seconds for each window, an eighth of the limit.
    Calm,
    /// Two in a second, half of the limit.
    Steady,
    /// Twenty in a second, half of the limit.
    Busy,
    /// Two in a second, twice the limit.
    Over,
    /// As `steady`, of `fast` consistency.
    SteadyFast,
    /// As `steady`, with ten times as many windows.
    SteadyTenfold,
    /// What a subject takes of a process.
    Memory,
}

impl Case {
    /// What it offers; `None` if that is not what it is about.
    fn load(self) -> Option<Load> {
        let load = |requests_per_minute, limit| Load {
            windows: 1_000,
            requests_per_minute,
            limit,
            consistency: Consistency::Bounded,
        };
        Some(match self {
            Self::Idle => load(0, 1),
            Self::Calm => load(12, 100),
            Self::Steady => load(120, 240),
            Self::Busy => load(1_200, 2_400),
            Self::Over => load(120, 60),
            Self::SteadyFast => Load { consistency: Consistency::Fast, ..load(120, 240) },
            Self::SteadyTenfold => Load { windows: 10_000, ..load(120, 240) },
            Self::Memory => return None,
        })
    }
}

/// Runs the bench.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    let scene = Scene { lab: Lab::new(args.redis_server.clone()), smoke: args.head.smoke };
    let cases = Case::value_variants().iter().filter(|case| args.wants(**case));
    args.head.run("capacity", cases, |case, figures| run(*case, &scene, figures))
}

/// One case, on servers and a runtime of its own: whatever it started ends with it.
fn run(case: Case, scene: &Scene, figures: &mut Figures) -> Result<(), Failure> {
    let Some(load) = case.load() else { return add_memory(scene, figures) };
    let value = case.to_possible_value();
    let name = value.as_ref().map_or("", clap::builder::PossibleValue::get_name);
    let database = Database::start(scene.smoke)?;
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(WORKERS).enable_all().build()?;
    runtime.block_on(load.run(scene, &database, (name, figures)))
}

/// What a million subjects take, for each.
fn add_memory(scene: &Scene, figures: &mut Figures) -> Result<(), Failure> {
    let subjects = scene.many(memory::SUBJECTS);
    let filled = memory::measure("tidegate", subjects)?.ok_or("tidegate is not built in")?;
    figures.add("memory", "process", filled.resident(), "bytes resident/subject");
    if let Some(accounted) = filled.accounted() {
        figures.add("memory", "process", accounted, "bytes of --memory/subject");
    }
    Ok(())
}
