//! What sharing limits between regions costs a database, how late news come, and how exact limits
//! are, beside the RFC's scheme on the same fleet, the same arrivals and the same database.

mod arrivals;
mod attack;
mod chance;
pub(crate) mod database;
mod dense;
mod feed;
mod fleet;
mod load;
pub(crate) mod memory;
mod ours;
mod rfc;
mod time;
mod world;

use std::process::ExitCode;

use clap::ValueEnum;

use crate::Failure;
use crate::args::Head;
use crate::figures::Figures;
use fleet::Mix;
use load::Load;

/// Arguments of `globe`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    head: Head<Case>,
    /// Only these, where the fleet is at work: `tidegate`, `rfc`, and if it is named `each`.
    #[arg(long, value_delimiter = ',')]
    contestants: Vec<Contestant>,
}

/// Whose scheme.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Contestant {
    /// Ours.
    Tidegate,
    /// The RFC's.
    Rfc,
    /// Ours, but every process publishes what it sees by itself: what a leader saves.
    Each,
}

impl Contestant {
    const fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::Rfc => "rfc",
            Self::Each => "each",
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Case {
    /// The fleet: most subjects quiet, a quarter at work.
    #[value(name = "mix-a")]
    MixA,
    /// Those at work ask for less.
    #[value(name = "mix-l")]
    MixL,
    /// All are at work, far below their limits.
    #[value(name = "mix-b")]
    MixB,
    /// More overlap, and a quarter of all requests denied.
    Peak,
    /// Ten times as many subjects.
    #[value(name = "mix-a-10x")]
    MixA10,
    /// Those who want more than their limit.
    Attack,
    /// Memory for what a process does not serve.
    Memory,
}

/// The RFC's fleet.
const ACTIVE: usize = 24_000;

/// Runs the bench.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    let head = &args.head;
    head.run("globe", head.cases(), |case, figures| run(*case, args, figures))
}

fn run(case: Case, args: &Args, figures: &mut Figures) -> Result<(), Failure> {
    let smoke = args.head.smoke;
    let both = vec![Contestant::Rfc, Contestant::Tidegate];
    let whom = if args.contestants.is_empty() { both } else { args.contestants.clone() };
    let load = |name, mix, active| Load { name, mix, active, smoke, whom: &whom };
    match case {
        Case::MixA => load::run(load("mix-a", Mix::A, ACTIVE), figures),
        Case::MixL => load::run(load("mix-l", Mix::L, ACTIVE), figures),
        Case::MixB => load::run(load("mix-b", Mix::B, ACTIVE), figures),
        Case::Peak => load::run(load("peak", Mix::PEAK, ACTIVE), figures),
        Case::MixA10 => load::run(load("mix-a-10x", Mix::A, 10 * ACTIVE), figures),
        Case::Attack => attack::run(smoke, figures),
        Case::Memory => memory::run(smoke, figures),
    }
}
