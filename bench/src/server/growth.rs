//! How what a server costs grows: with subjects, with connections, with cores, with namespaces and
//! overrides, with regions; what is felt when windows end and when memory is full; and what it
//! costs to share.
//! Drawn as plots, too.

mod overrides;
mod pauses;
mod shared;
mod watch;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::ValueEnum;
use rustix::process::{Resource, getrlimit, setrlimit};

use super::bars::Bars;
use super::contestants::{KEY, Place, Running, Who, item, ours, subject};
use super::cores::{Apart, Elsewhere};
use super::load::{Loop, Offer, Taken};
use super::packed::Packed;
use super::plot::{Line, Plot};
use super::process::Process;
use super::wire::{Post, Protocol};
use super::{Kind, LIMIT, Scene};
use crate::Failure;
use crate::args::Head;
use crate::decide::keys::Random;
use crate::figures::{Figures, quantile, ratio};

/// How many of each there are.
const SUBJECTS: [usize; 5] = [1_000, 10_000, 100_000, 1_000_000, 10_000_000];
const OPEN: [usize; 5] = [1, 10, 100, 1_000, 10_000];
/// Threads that answer. No more are tried than there are cores.
const WORKERS: [usize; 7] = [1, 2, 4, 8, 16, 32, 64];
/// Requests that are written while something is measured, about subjects that are drawn from all
/// there are: at least as many, and at most so many (hundreds of megabytes). None comes twice
/// before a round is over, so that nobody is in a cache because it was just asked about.
const ASKED: usize = 100_000;
const ASKED_MAX: usize = 1_000_000;
/// Subjects that one request makes known: as many as fit.
const BATCH_MAX: usize = 100;
/// Requests that are written at a time to make subjects known: tens of megabytes.
const CHUNK: usize = 5_000;
/// How long something is measured at full load, in two rounds of which the cheaper counts, and
/// then at half of it.
const MEASURED_S: f64 = 4.0;
const ROUNDS: u32 = 2;
/// How much more a request may cost with most subjects, or over most connections, than with the
/// fewest (over the hundred of a usual load). More of them are less often in the caches; nothing
/// looks at all of them.
const MORE: f64 = 1.5;

/// Arguments of `growth`.
#[derive(clap::Args)]
#[command(after_help = "All cases take some 9 minutes: one for each of those with pauses and\n\
                  for regions, two for shared, and most of the rest for ten million subjects.")]
pub(crate) struct GrowthArgs {
    #[command(flatten)]
    head: Head<Case>,
    /// The program `tidegate`.
    #[arg(long)]
    tidegate: PathBuf,
    /// A directory to draw plots into.
    #[arg(long)]
    plots: Option<PathBuf>,
}

/// What grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Case {
    /// From a thousand to ten million.
    Subjects,
    /// From one to ten thousand.
    Connections,
    /// From one thread to as many as there are cores.
    Cores,
    /// From one to 64 namespaces, with 10,000 overrides each.
    Namespaces,
    /// A few overrides of one kind beside many of it.
    Overrides,
    /// Windows of a second, which all end at once.
    Rollover,
    /// A memory that holds 6 % of all subjects.
    Eviction,
    /// From one region to ten, on one database.
    Regions,
    /// Alone, with replays, and with publishing and importing as well.
    Shared,
}

/// What one size came to.
struct Size {
    name: String,
    per_second: f64,
    cpu_us: f64,
    p999_us: f64,
    /// The longest of all, where pauses are looked for.
    max_us: Option<f64>,
    resident_mib: f64,
}

/// Runs the bench.
pub(crate) fn main(args: &GrowthArgs) -> Result<ExitCode, Failure> {
    let scene = Scene::new(&args.tidegate, None, args.head.smoke);
    args.head.run("growth", args.head.cases(), |case, figures| {
        let sizes = super::run(async {
            match case {
                Case::Subjects => subjects(&scene).await,
                Case::Connections => connections(&scene).await,
                Case::Cores => cores(&scene).await,
                Case::Namespaces => overrides::namespaces(&scene).await,
                Case::Overrides => overrides::kinds(&scene).await,
                Case::Rollover => pauses::rollover(&scene).await,
                Case::Eviction => pauses::eviction(&scene).await,
                Case::Regions => shared::regions(&scene).await,
                Case::Shared => shared::shared(&scene).await,
            }
        })?;
        add(*case, &sizes, figures);
        match (&args.plots, labels(*case)) {
            (Some(directory), Some(labels)) => draw(*case, labels, &sizes, directory),
            _ => Ok(()),
        }
    })
}

fn name(case: Case) -> String {
    case.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

fn add(case: Case, sizes: &[Size], figures: &mut Figures) {
    let name = name(case);
    for size in sizes {
        let case = format!("{name}/{}", size.name);
        figures.add(&case, "tidegate", size.per_second, "requests/s");
        figures.add(&case, "tidegate", size.cpu_us, "server CPU us/request");
        figures.add(&case, "tidegate", size.p999_us, "p99.9 us at half load");
        if let Some(max_us) = size.max_us {
            figures.add(&case, "tidegate", max_us, "max us");
        }
        figures.add(&case, "tidegate", size.resident_mib, "RSS MiB");
    }
    match case {
        Case::Rollover | Case::Eviction => pauses::add(&name, sizes, figures),
        Case::Shared => {
            pauses::add(&name, sizes, figures);
            shared::add_aim(&name, sizes, figures);
        }
        Case::Namespaces => overrides::add_namespaces(&name, sizes, figures),
        Case::Overrides => overrides::add_kinds(&name, sizes, figures),
        Case::Subjects => add_grown(&name, (sizes.first(), sizes.last()), figures),
        Case::Connections => add_grown(&name, (sizes.get(2), sizes.last()), figures),
        Case::Cores | Case::Regions => {}
    }
}

fn add_grown(name: &str, ends: (Option<&Size>, Option<&Size>), figures: &mut Figures) {
    let (Some(few), Some(many)) = ends else { return };
    let grown = ratio(many.cpu_us, few.cpu_us);
    let target = format!("CPU with {}, of {} <= {MORE}x", many.name, few.name);
    figures.target(name, target, format!("{grown:.2}x"), grown > 0.0 && grown <= MORE);
}

/// The title of a plot, and what goes across it; `None` where pauses are what counts.
const fn labels(case: Case) -> Option<(&'static str, &'static str)> {
    Some(match case {
        Case::Subjects => ("Cost of a request by subjects", "subjects"),
        Case::Connections => ("Cost of a request by connections", "connections"),
        Case::Cores => ("Cost of a request by threads", "threads"),
        Case::Overrides => ("Cost of a request by kinds of overrides", "overrides"),
        Case::Namespaces => {
            ("Cost of a request by namespaces, 10,000 overrides each", "namespaces")
        }
        Case::Regions => ("Cost of a request by regions", "regions"),
        Case::Shared => ("Cost of a request by who shares the limit", "shared"),
        Case::Rollover | Case::Eviction => return None,
    })
}

/// What it costs, and of subjects also the memory they take.
fn draw(
    case: Case,
    (title, across): (&'static str, &'static str),
    sizes: &[Size],
    directory: &Path,
) -> Result<(), Failure> {
    const UP: &str = "microseconds of a processor per request";
    fs::create_dir_all(directory)?;
    let write = |what: &str, svg: String| fs::write(directory.join(what), svg);
    let name = name(case);
    let line = |name: &str, of: fn(&Size) -> f64| {
        vec![Line { name: name.to_owned(), values: sizes.iter().map(of).collect() }]
    };
    let places: Vec<String> = sizes.iter().map(|size| size.name.clone()).collect();
    // Of what has an order, each more than the one before; kinds have none.
    let svg = if matches!(case, Case::Overrides | Case::Shared) {
        let bars = sizes.iter().map(|size| (size.name.clone(), size.cpu_us)).collect();
        Bars { title, along: UP, bars }.svg()
    } else {
        let lines = line("server CPU", |size| size.cpu_us);
        Plot { title, across, up: UP, places: places.clone(), lines }.svg()
    };
    write(&format!("growth-{name}.svg"), svg)?;
    if case == Case::Subjects {
        let (title, up) = ("Memory by subjects", "MiB resident");
        let lines = line("server", |size| size.resident_mib);
        let svg = Plot { title, across, up, places, lines }.svg();
        write(&format!("growth-{name}-memory.svg"), svg)?;
    }
    Ok(())
}

/// A server with more arguments.
async fn start(scene: &Scene, args: &[&str]) -> Result<(Process, Running), Failure> {
    start_with(scene, args, None).await
}

/// The same with so many threads, on all cores; otherwise with as many as it has cores for itself.
async fn start_with(
    scene: &Scene,
    args: &[&str],
    workers: Option<usize>,
) -> Result<(Process, Running), Failure> {
    let address = super::process::free_address()?;
    let (mut command, home) = ours(&scene.tidegate, address)?;
    command.args(args);
    command.envs(workers.map(|count| ("TOKIO_WORKER_THREADS", count.to_string())));
    let elsewhere = if workers.is_none() { Elsewhere::begin()? } else { None };
    let mut process = Process::start(&mut command, Some(home))?;
    drop(elsewhere);
    let running = Running::at(Who::Ours(Place::Memory), (address, address));
    process.answers(&running.offer(Kind::Limit, Protocol::Http1, 1)?).await?;
    Ok((process, running))
}

/// Full load for the cost, then half of it for the latency; the load has a core of its own.
async fn measure(
    scene: &Scene,
    process: &Process,
    offer: &Offer,
    name: String,
) -> Result<Size, Failure> {
    let _apart = Apart::begin()?;
    measure_in(scene, (process, offer), name, ROUNDS).await
}

/// The same on whichever cores there are, and in so many rounds.
async fn measure_in(
    scene: &Scene,
    (process, offer): (&Process, &Offer),
    name: String,
    rounds: u32,
) -> Result<Size, Failure> {
    let full = at_full(scene, &[(process, offer)], rounds).await?;
    let (per_second, cpu_us) = full.first().copied().unwrap_or_default();
    let how = Loop::Open(per_second / 2.0, scene.lasting(MEASURED_S));
    let half = offer.run(how).await?.all_good(&name)?;
    let resident_mib = super::process::resident_mib(process.pid());
    Ok(Size { name, per_second, cpu_us, p999_us: p999(&half), max_us: None, resident_mib })
}

/// Full load on each of these in turn: of all rounds the most requests in a second, and the least
/// processor time of one.
async fn at_full(
    scene: &Scene,
    all: &[(&Process, &Offer)],
    rounds: u32,
) -> Result<Vec<(f64, f64)>, Failure> {
    let mut best = vec![(0.0_f64, f64::INFINITY); all.len()];
    for _ in 0..rounds {
        for ((process, offer), (per_second, cpu_us)) in all.iter().zip(&mut best) {
            let lasting = scene.lasting(MEASURED_S / f64::from(rounds));
            let (rate, cost) = load(process, offer, lasting).await?;
            *per_second = per_second.max(rate);
            *cpu_us = cpu_us.min(cost);
        }
    }
    Ok(best)
}

/// Full load: requests in a second, and processor time of each.
async fn load(process: &Process, offer: &Offer, lasting: Duration) -> Result<(f64, f64), Failure> {
    // What it costs to accept ten thousand connections is no request's.
    let connected = offer.connect().await?;
    let before = super::process::cpu_us(process.pid());
    let taken = connected.run(Loop::Closed(lasting)).await?.all_good("growth")?;
    let spent = super::process::cpu_us(process.pid()) - before;
    Ok((taken.per_second(), ratio(spent, taken.answered as f64)))
}

fn p999(taken: &Taken) -> f64 {
    let sorted: Vec<f64> = taken.latencies_us.iter().map(|us| f64::from(*us)).collect();
    quantile(&sorted, 0.999)
}

/// Requests about subjects that are drawn from so many.
fn drawn(running: &Running, subjects: usize) -> Result<Offer, Failure> {
    let mut random = Random::new(7);
    let script = (0..subjects.clamp(ASKED, ASKED_MAX))
        .map(|_| running.request(Kind::Limit, Protocol::Http1, random.below(subjects)));
    Ok(Offer { script: Packed::of(script)?, ..running.offer(Kind::Limit, Protocol::Http1, 1)? })
}

/// Makes subjects known, a hundred with each request.
async fn fill(running: &Running, from: usize, to: usize) -> Result<(), Failure> {
    let first = running.offer(Kind::Limit, Protocol::Http1, 1)?;
    for start in (from..to).step_by(CHUNK * BATCH_MAX) {
        let end = (start + CHUNK * BATCH_MAX).min(to);
        let batch = |start: usize| {
            let all = start..(start + BATCH_MAX).min(end);
            let items: Vec<String> = all.map(|number| item(&subject(number), LIMIT)).collect();
            let body = format!("[{}]", items.join(","));
            Post { path: "/v2/ratelimit.multiLimit", key: KEY, body: &body }.write(Protocol::Http1)
        };
        let script = Packed::of((start..end).step_by(BATCH_MAX).map(batch))?;
        let count = u64::try_from(script.len())?;
        let offer = Offer { script, connections: 1, ..first.clone() };
        offer.run(Loop::Count(count)).await?.all_good("fill")?;
    }
    Ok(())
}

async fn subjects(scene: &Scene) -> Result<Vec<Size>, Failure> {
    // Room for all of them, twice as much as they take.
    let (process, running) = start(scene, &["--memory", "8GiB"]).await?;
    let (mut sizes, mut known) = (Vec::new(), 0);
    for count in SUBJECTS.map(|count| if scene.smoke { count / 1_000 } else { count }) {
        fill(&running, known, count).await?;
        known = count;
        let offer = drawn(&running, count.max(1))?;
        sizes.push(measure(scene, &process, &offer, count.to_string()).await?);
    }
    Ok(sizes)
}

async fn connections(scene: &Scene) -> Result<Vec<Size>, Failure> {
    let most = ["--connections-max", "20000", "--connections-per-address-max", "20000"];
    allow_files()?;
    let (process, running) = start(scene, &most).await?;
    let mut sizes = Vec::new();
    for connections in OPEN.map(|count| if scene.smoke { count.min(10) } else { count }) {
        let offer = Offer { connections, ..drawn(&running, ASKED)? };
        sizes.push(measure(scene, &process, &offer, connections.to_string()).await?);
    }
    Ok(sizes)
}

/// Lets this process have as many connections as it is allowed to.
fn allow_files() -> Result<(), Failure> {
    let mut limits = getrlimit(Resource::Nofile);
    limits.current = limits.maximum;
    Ok(setrlimit(Resource::Nofile, limits)?)
}

async fn cores(scene: &Scene) -> Result<Vec<Size>, Failure> {
    let most = std::thread::available_parallelism()?.get();
    let mut sizes = Vec::new();
    for workers in WORKERS.into_iter().filter(|workers| *workers <= most) {
        let (process, running) = start_with(scene, &[], Some(workers)).await?;
        let offer = drawn(&running, ASKED)?;
        let name = format!("{workers} of {most}");
        sizes.push(measure_in(scene, (&process, &offer), name, ROUNDS).await?);
    }
    Ok(sizes)
}

pub(super) fn migrate(scene: &Scene, url: &str) -> Result<(), Failure> {
    let done = Command::new(&scene.tidegate).args(["migrate", "--globe", url]).output()?;
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    if done.status.success() { Ok(()) } else { Err(said.into()) }
}
