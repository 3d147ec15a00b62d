//! Instructions per request of a whole server, counted by callgrind: the real program, one
//! connection, and the difference between a run of many requests and one of few, so that starting
//! and ending do not count. What a server does beside requests goes by the clock, and under
//! valgrind everything takes long: a run that waits says how much that is, and it is taken off.
//! What the kernel does is not counted. The blocks of memory that a request takes are counted the
//! same way, by dhat.

use std::collections::BTreeMap;
use std::fs;
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
const COUNTED: [(Case, Who, &str); 7] = [
    (Case::Limit, Who::Ours(Place::Memory), "limit"),
    (Case::Denied, Who::Ours(Place::Memory), "denied"),
    (Case::MultiLimit, Who::Ours(Place::Memory), "multiLimit of 5"),
    (Case::LimitHttp2, Who::Ours(Place::Memory), "limit over HTTP/2"),
    (Case::Limit, Who::Trivial, "trivial"),
    (Case::LimitHttp2, Who::Trivial, "trivial over HTTP/2"),
    (Case::MultiLimit, Who::Trivial, "trivial multiLimit of 5"),
];
/// The cases of ours whose allocations are counted.
const ALLOCATED: [(Case, &str); 3] = [
    (Case::Limit, "allocations of limit"),
    (Case::LimitHttp2, "allocations of limit over HTTP/2"),
    (Case::MultiLimit, "allocations of multiLimit of 5"),
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
    let scene = Scene::new(tidegate, None, options.smoke);
    let ours = Who::Ours(Place::Memory);
    let allocated = ALLOCATED.map(|(case, name)| (Tool::Dhat, case, ours, name));
    let counted = COUNTED.map(|(case, who, name)| (Tool::Callgrind, case, who, name));
    let mut counts = BTreeMap::new();
    for (tool, case, who, name) in counted.into_iter().chain(allocated) {
        eprintln!("callgrind: {name}");
        counts.insert(name.to_owned(), tenth(per_request(&scene, tool, (case, who))?));
    }
    Baseline { bench: "server", file: BASELINE, unit }.compare(&counts, options)
}

fn unit(name: &str) -> &'static str {
    let is_allocated = ALLOCATED.iter().any(|(_, allocated)| *allocated == name);
    if is_allocated { "allocations/request" } else { "instructions/request" }
}

/// What is counted of one request: what many take more than few, without what goes by the clock.
fn per_request(scene: &Scene, tool: Tool, whom: (Case, Who)) -> Result<f64, Failure> {
    let (few, many) = if scene.smoke { (20, 60) } else { (FEW, MANY) };
    let count = |run| super::run(count(scene, tool, whom, run));
    let short = count((few, Duration::ZERO))?;
    let long = count((many, Duration::ZERO))?;
    let idle = count((few, if scene.smoke { Duration::ZERO } else { IDLE }))?;
    let beside = ratio(idle.count - short.count, idle.seconds - short.seconds);
    let own = long.count - short.count - beside.max(0.0) * (long.seconds - short.seconds);
    Ok(own / (many - few) as f64)
}

/// What counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tool {
    /// Instructions.
    Callgrind,
    /// Blocks of memory that were taken.
    Dhat,
}

impl Tool {
    /// Valgrind that leaves what it counted in this file.
    fn command(self, out: &Path) -> Command {
        let mut command = Command::new("valgrind");
        let out = out.display();
        match self {
            Self::Callgrind => {
                command.arg("--tool=callgrind").arg(format!("--callgrind-out-file={out}"))
            }
            Self::Dhat => {
                command.args(["--tool=dhat", "--dhat-out-file=/dev/null"]);
                command.arg(format!("--log-file={out}"))
            }
        };
        command
    }

    /// What it counted in all.
    fn read(self, out: &Path) -> Result<f64, Failure> {
        match self {
            Self::Callgrind => Ok(read_total(out)? as f64),
            Self::Dhat => {
                let blocks = blocks(&fs::read_to_string(out)?);
                Ok(blocks.ok_or("dhat's output has no total")?)
            }
        }
    }
}

/// The blocks of a line such as `==7== Total:     1,234 bytes in 56 blocks`.
fn blocks(text: &str) -> Option<f64> {
    let total = text.lines().find_map(|line| line.split_once(" Total:"))?.1;
    let blocks = total.split_once(" in ")?.1.split_whitespace().next()?;
    blocks.replace(',', "").parse().ok()
}

/// One run.
struct Counted {
    count: f64,
    /// From its first answer to its end.
    seconds: f64,
}

/// A run with so many requests, and a wait.
async fn count(
    scene: &Scene,
    tool: Tool,
    (case, who): (Case, Who),
    (requests, wait): (u64, Duration),
) -> Result<Counted, Failure> {
    let home = Home::new()?;
    let out = home.path().join("out");
    let (http1, http2) = (free_address()?, free_address()?);
    let mut command = tool.command(&out);
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
    Ok(Counted { count: tool.read(&out)?, seconds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_read_from_what_dhat_says() {
        let said = "==7== DHAT\n==7== Total:     9,876,543 bytes in 12,345 blocks\n==7== At end\n";
        assert_eq!(blocks(said), Some(12_345.0));
        assert_eq!(blocks("==7== killed\n"), None);
    }
}
