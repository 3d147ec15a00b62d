//! Instructions per request of a whole server, counted by callgrind: the real program, one
//! connection, and the difference between a run of many requests and one of few, so that starting
//! and ending do not count. What a server does beside requests goes by the clock, and under
//! valgrind everything takes long: a run that waits says how much that is, and it is taken off.
//! What the kernel does is not counted.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Duration;

use super::contestants::{Place, Running, Who};
use super::load::{Loop, Offer};
use super::process::{Home, Process, free_address};
use super::wire::Protocol;
use super::{Case, Scene, contestants};
use crate::Failure;
use crate::decide::callgrind::{Baseline, Options, can_count, read_total};
use crate::figures::ratio;
use crate::region::time;
use crate::report::tenth;

/// The cases that are counted, and of whom.
const COUNTED: [(Case, Who, &str); 6] = [
    (Case::Limit, Who::Ours(Place::Memory), "limit"),
    (Case::Denied, Who::Ours(Place::Memory), "denied"),
    (Case::MultiLimit, Who::Ours(Place::Memory), "multiLimit of 5"),
    (Case::LimitHttp2, Who::Ours(Place::Memory), "limit over HTTP/2"),
    (Case::Limit, Who::Trivial, "trivial"),
    (Case::LimitHttp2, Who::Trivial, "trivial over HTTP/2"),
];
/// Requests of the two runs. The first warms up what the second has warm as well.
const FEW: u64 = 1_000;
const MANY: u64 = 5_000;
/// Subjects that are asked about: those that the first run makes known.
const SUBJECTS: usize = 1_000;
/// How long the run waits that shows what is done beside requests.
const IDLE: Duration = Duration::from_secs(8);
/// Where the figures of the last accepted run are.
const BASELINE: &str = "callgrind-server-baseline.json";

/// Counts all cases and compares them with the baseline.
pub(crate) fn main(tidegate: &Path, options: &Options) -> Result<ExitCode, Failure> {
    if !can_count() {
        return Ok(ExitCode::from(2));
    }
    let runtime = super::runtime()?;
    let scene = Scene::new(tidegate, None, options.smoke);
    let (few, many) = if options.smoke { (20, 60) } else { (FEW, MANY) };
    let mut counts = BTreeMap::new();
    for (case, who, name) in COUNTED {
        eprintln!("callgrind: {name}");
        let count = |run| runtime.block_on(count(&scene, (case, who), run));
        let short = count((few, Duration::ZERO))?;
        let long = count((many, Duration::ZERO))?;
        let idle = count((few, if options.smoke { Duration::ZERO } else { IDLE }))?;
        let beside = ratio(idle.instructions - short.instructions, idle.seconds - short.seconds);
        let instructions = long.instructions - short.instructions;
        let own = instructions - beside.max(0.0) * (long.seconds - short.seconds);
        counts.insert(name.to_owned(), tenth(own / (many - few) as f64));
    }
    let baseline = Baseline { bench: "server", file: BASELINE, unit: |_| "instructions/request" };
    baseline.compare(&counts, options)
}

/// One run.
struct Counted {
    instructions: f64,
    /// From its first answer to its end.
    seconds: f64,
}

/// A run with so many requests, and a wait.
async fn count(
    scene: &Scene,
    (case, who): (Case, Who),
    (requests, wait): (u64, Duration),
) -> Result<Counted, Failure> {
    let home = Home::new()?;
    let out = home.path().join("out");
    let (http1, http2) = (free_address()?, free_address()?);
    let mut command = Command::new("valgrind");
    command.arg("--tool=callgrind");
    command.arg(format!("--callgrind-out-file={}", out.display()));
    // One thread at work: which of two takes what would be another each time.
    command.env("TOKIO_WORKER_THREADS", "1");
    let (program, data) = contestants::program(who, &scene.tidegate, (http1, http2))?;
    command.arg(program.get_program()).args(program.get_args());
    let mut process = Process::start(&mut command, data)?;
    let running = Running::at(who, (http1, if who.is_ours() { http1 } else { http2 }));
    let (kind, protocol) = case.parts();
    let first = running.offer(super::Kind::Limit, Protocol::Http1, 1)?;
    process.answers(&first).await?;
    if who.is_ours() {
        // In every run, so that only what they cost a request is left of them.
        running.set_overrides(scene).await?;
    }
    let start = time::now();
    let offer = Offer { connections: 1, ..running.offer(kind, protocol, SUBJECTS)? };
    offer.run(Loop::Count(requests)).await?.all_good(who.name())?;
    time::sleep(wait).await;
    let seconds = start.elapsed().as_secs_f64();
    process.stop().await?;
    Ok(Counted { instructions: read_total(&out)? as f64, seconds })
}
