//! `tidegate-bench`: what things cost, measured beside the peers in the same run.
//!
//! Every bench is a subcommand; all print a table, or with `--json` one object per line in the
//! shape of [`report::Line`].

mod args;
mod bounded;
mod capacity;
mod decide;
mod figures;
mod globe;
mod machine;
mod region;
mod report;
mod server;
mod simulate;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a bench may fail with.
type Failure = Box<dyn Error + Send + Sync>;

#[derive(Parser)]
#[command(name = "tidegate-bench", about = "What Tidegate costs, beside its peers")]
struct Cli {
    #[command(subcommand)]
    bench: Bench,
}

#[derive(Subcommand)]
enum Bench {
    /// The local decision: ns per decision, memory per subject, instructions.
    Decide(decide::Args),
    /// The region: what Redis does for an admission, decision time, overshoot.
    Region(region::Args),
    /// A limit that holds in a burst: overshoot, what it costs, and a Redis that does not answer.
    Bounded(bounded::Args),
    /// The globe: what a database does for ten regions, how late news come, overshoot.
    Globe(globe::Args),
    /// What a fleet of two regions asks of its Redis, its database, its network and its memory.
    Capacity(capacity::Args),
    /// A trial of ten million lines: reading, deciding, memory.
    Simulate(simulate::Args),
    /// The whole server: requests/s, processor time per request, latency, instructions.
    Server(server::Args),
    /// The whole server for ten minutes: memory, refusals, latency.
    Soak(server::soak::SoakArgs),
    /// How the cost of a server grows, with plots.
    Growth(server::growth::GrowthArgs),
    /// Fills one contestant in a fresh process and says what that took; `decide` starts it.
    #[command(hide = true)]
    MemoryProbe(decide::memory::ProbeArgs),
    /// Lets one process hear of many cells it does not serve; `globe` starts it.
    #[command(hide = true)]
    GlobeMemoryProbe(globe::memory::ProbeArgs),
    /// Warm decisions for callgrind to count; `decide --callgrind` starts it.
    #[command(hide = true)]
    CallgrindRun(decide::callgrind::RunArgs),
    /// Answers without limiting anybody; `server` starts it.
    #[command(hide = true)]
    TrivialServer(server::trivial::TrivialArgs),
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().bench {
        Bench::Decide(args) => decide::main(&args),
        Bench::Region(args) => region::main(&args),
        Bench::Bounded(args) => bounded::main(&args),
        Bench::Globe(args) => globe::main(&args),
        Bench::Capacity(args) => capacity::main(&args),
        Bench::Simulate(args) => simulate::main(&args),
        Bench::Server(args) => server::main(&args),
        Bench::Soak(args) => server::soak::main(&args),
        Bench::Growth(args) => server::growth::main(&args),
        Bench::TrivialServer(args) => server::trivial::main(&args),
        Bench::GlobeMemoryProbe(args) => globe::memory::probe(&args),
        Bench::MemoryProbe(args) => decide::memory::probe(&args),
        Bench::CallgrindRun(args) => decide::callgrind::run(&args),
    };
    outcome.unwrap_or_else(|failure| {
        eprintln!("error: {failure}");
        ExitCode::FAILURE
    })
}
