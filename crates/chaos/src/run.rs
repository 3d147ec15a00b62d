//! One run, from the first process to the verdict.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::interval;

use crate::clock::Clock;
use crate::fault::{self, Fault, Kind, Struck};
use crate::history::{Answer, End, History};
use crate::judge;
use crate::load::{LIMIT, Load, Rate, body, read};
use crate::node;
use crate::options::Options;
use crate::probe;
use crate::report::Report;
use crate::shape::{FAST, Subject, subjects};
use crate::strike::{seconds, strike};
use crate::world::World;

/// How often a run says how far it is.
const SAY: Duration = Duration::from_secs(10);
/// How often every server is asked about every namespace before it begins, until it knows them.
const TRIES_MAX: usize = 100;

/// Runs, and says whether every promise was kept.
pub(crate) fn run(mut options: Options) -> Result<bool, String> {
    if node::faketime().is_none() && options.kinds.contains(&Kind::Clock) {
        eprintln!("libfaketime is not there: no clock is wrong (cargo xtask setup brings it)");
        options.kinds.retain(|kind| *kind != Kind::Clock);
    }
    let home = home(&options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|why| why.to_string())?;
    let clock = Clock::start();
    let program = fs::canonicalize(&options.server)
        .map_err(|why| format!("{}: {why}", options.server.display()))?;
    let world = Arc::new(World::start(&program, &home, &clock)?);
    let history = runtime.block_on(story(&options, &world, clock)).inspect_err(|_| {
        eprintln!("logs: {}", home.display());
    })?;
    let verdicts = judge::all(&history);
    let report = Report { options: &options, history: &history, verdicts: &verdicts };
    if !options.json {
        report.print();
    }
    let (passed, failed) = report.counts();
    if failed > 0 || options.keep.is_some() {
        report.keep(&home).map_err(|why| format!("{}: {why}", home.display()))?;
        eprintln!("history and logs: {}", home.display());
    }
    if failed > 0 {
        eprintln!("again: {}", again(&options));
    }
    drop(world);
    if failed == 0 && options.keep.is_none() {
        let _ = fs::remove_dir_all(&home);
    }
    if options.json {
        report.print_json();
    } else {
        println!("{passed} passed, {failed} failed");
    }
    Ok(failed == 0)
}

/// Where logs and data are.
fn home(options: &Options) -> Result<PathBuf, String> {
    let name = format!("tidegate-chaos-{}-{}", options.seed, std::process::id());
    let home = options.keep.clone().unwrap_or_else(|| std::env::temp_dir().join(name));
    fs::create_dir_all(&home).map_err(|why| format!("{}: {why}", home.display()))?;
    Ok(home)
}

/// The command that does the same.
fn again(options: &Options) -> String {
    let words: Vec<&str> = options.kinds.iter().map(|kind| kind.word()).collect();
    let only = if words.len() == Kind::ALL.len() {
        String::new()
    } else {
        format!(" --only {}", if words.is_empty() { "none".to_owned() } else { words.join(",") })
    };
    let planted = options.planted.map(|one| format!(" --planted {one:?}").to_lowercase());
    format!(
        "cargo xtask chaos --minutes {:.2} --seed {} --rate {}{only}{}",
        seconds(options.length_ms) / 60.0,
        options.seed,
        options.per_second,
        planted.unwrap_or_default()
    )
}

/// Load and faults, then quiet, then the last look.
async fn story(options: &Options, world: &Arc<World>, clock: Clock) -> Result<History, String> {
    stop_on_signal(&clock);
    let subjects = subjects(options.length_ms / 1_000);
    greet(world, &subjects, false).await?;
    world.make_fast(FAST)?;
    let fast: Vec<_> = subjects.iter().filter(|subject| subject.fast).cloned().collect();
    greet(world, &fast, true).await?;
    let begin_ms = clock.now_ms();
    let end_ms = begin_ms.saturating_add(options.length_ms);
    eprintln!("{:>7.1} s  everything answers; seed {}", seconds(begin_ms), options.seed);
    let load = Load::new(world, &clock, options.planted);
    let plan = fault::plan(options.seed, &options.kinds, options.length_ms);
    let strikes = tokio::spawn(strikes(Arc::clone(world), clock.clone(), (plan, begin_ms)));
    let progress = tokio::spawn(progress(Arc::clone(&load), clock.clone(), end_ms));
    let rate = Rate { seed: options.seed, per_second: options.per_second, end_ms };
    let ((), mut history) =
        tokio::join!(load.run(&subjects, &rate), probe::watch(world, &clock, &subjects, end_ms));
    let faults = strikes.await.map_err(|why| why.to_string())?;
    progress.abort();
    history.faults = faults?;
    if clock.is_stopped() {
        return Err("stopped by a signal; nothing was judged".to_owned());
    }
    (history.calls, history.skipped) = load.take();
    history.lives = world.nodes.iter().flat_map(|node| node.lives()).collect();
    eprintln!("{:>7.1} s  load and faults are over", seconds(clock.now_ms()));
    probe::settle(world, &clock, &mut history, (&subjects, options.settle_ms)).await;
    Ok(history)
}

/// Every server knows every namespace, and by which rule it is decided, before the first call
/// counts.
async fn greet(world: &World, subjects: &[Arc<Subject>], fast: bool) -> Result<(), String> {
    let mut ticks = interval(Duration::from_millis(100));
    let mut namespaces: Vec<&Arc<Subject>> = subjects.iter().collect();
    let once = crate::shape::once(0, 0);
    namespaces.extend((!fast).then_some(&once));
    namespaces.sort_by_key(|subject| &subject.namespace);
    namespaces.dedup_by_key(|subject| &subject.namespace);
    for server in &world.nodes {
        for subject in &namespaces {
            let mut heard = false;
            for _ in 0..TRIES_MAX {
                let door = server.door().ok_or("a server ended by itself")?;
                let end = read(door.post(LIMIT, &body(subject, 0), None).await);
                let right = |answer: &Answer| !answer.degraded && answer.fast == fast;
                heard = matches!(&end, End::Answered(answer) if right(answer));
                if heard {
                    break;
                }
                ticks.tick().await;
            }
            if !heard {
                return Err(format!("{} is not as it should be at first", subject.namespace));
            }
        }
    }
    Ok(())
}

/// Each fault at its time; all of them mended in the end.
async fn strikes(
    world: Arc<World>,
    clock: Clock,
    (plan, begin_ms): (Vec<Fault>, u64),
) -> Result<Vec<Struck>, String> {
    let mut running = JoinSet::new();
    for fault in plan {
        let (world, clock) = (Arc::clone(&world), clock.clone());
        running.spawn_blocking(move || {
            clock.wait_until(begin_ms.saturating_add(fault.at_ms));
            if clock.is_stopped() {
                return Ok(None);
            }
            strike(&world, &clock, &fault).map(Some)
        });
    }
    let mut struck = Vec::new();
    while let Some(ended) = running.join_next().await {
        match ended {
            Ok(Ok(one)) => struck.extend(one),
            Ok(Err(why)) => {
                clock.stop();
                return Err(why);
            }
            Err(why) => return Err(why.to_string()),
        }
    }
    struck.sort_by_key(|one| one.from_ms);
    Ok(struck)
}

/// A line now and then.
async fn progress(load: Arc<Load>, clock: Clock, end_ms: u64) {
    let mut ticks = interval(SAY);
    while clock.now_ms() < end_ms {
        ticks.tick().await;
        eprintln!("{:>7.1} s  {} calls", seconds(clock.now_ms()), load.count());
    }
}

/// Ctrl-C and SIGTERM end every wait; what was started ends with its owners.
fn stop_on_signal(clock: &Clock) {
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        let Ok(mut signals) = signal(kind) else { continue };
        let clock = clock.clone();
        tokio::spawn(async move {
            signals.recv().await;
            clock.stop();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_is_shown_is_understood() {
        let said = "--minutes 1.5 --seed 3 --only flush --planted twice";
        let options = Options::read(said.split(' ').map(str::to_owned)).unwrap().unwrap();
        let line = again(&options);
        let words = line.strip_prefix("cargo xtask chaos ").unwrap();
        let read = Options::read(words.split(' ').map(str::to_owned)).unwrap().unwrap();
        assert_eq!((read.length_ms, read.seed), (90_000, 3));
        assert_eq!((read.kinds, read.planted), (options.kinds, options.planted));
    }
}
