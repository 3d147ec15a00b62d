//! A long load: ten minutes at most of what the server can do, with subjects that come and go. Its
//! memory stays where it is, nothing fails, and answers do not take longer as time passes.

use std::path::PathBuf;
use std::process::ExitCode;

use super::contestants::{Place, Running, Who};
use super::cores::Apart;
use super::load::{Loop, Offer};
use super::packed::{Churn, Packed};
use super::wire::Protocol;
use super::{CONNECTIONS, Kind, Scene};
use crate::Failure;
use crate::figures::{Figures, quantile, ratio};
use crate::machine::Usage;

/// How much of what it can do it is asked to do.
const LOAD: f64 = 0.8;
/// How many parts a run has.
const PARTS: u32 = 10;
/// How long it takes until as many subjects go as come: one that is not asked about any more is
/// kept for three windows of a minute. What a part has in memory says nothing before.
const FILLS_MINUTES: f64 = 3.0;
/// How many subjects there are at a time.
const SUBJECTS: usize = 100_000;
/// Of so many requests one is about a subject that was never heard of, at full load as in every
/// part: a subject is asked about fifty times, which takes some two minutes, and then no more.
const NEW_EVERY: usize = 50;
/// How many times as many there are before one comes back, after some ten minutes: nobody remembers
/// it by then.
const GENERATIONS: usize = 5;
/// How much more memory one part may have than another, of those that begin when it has filled.
const MEMORY: f64 = 1.05;
/// How much of what is offered is answered in every part, at least: it is less than it can do. What
/// is left is what the last replies of a part take.
const ANSWERED: f64 = 0.99;
/// How long it is asked for all it can do, before and while that is measured: by then what it
/// shares is on its way, all the time, as it will be throughout.
const WARM_S: f64 = 20.0;
const FULL_S: f64 = 40.0;
/// How much longer answers may take in the last half than in the first, at the median. Other work
/// of the machine comes and goes by as much.
const DRIFT: f64 = 1.25;
/// And what one in a hundred exceeds, which a short pause moves more.
const DRIFT_P99: f64 = 1.5;
/// What it may be in any part: nobody waits for a region for longer than that, so that whoever
/// waits longer waits for a server that has fallen behind.
const P99_US: f64 = 20_000.0;

/// Arguments of `soak`.
#[derive(clap::Args)]
#[command(after_help = "Takes 10 minutes, or as many as are said, and some 80 s to begin.")]
pub(crate) struct SoakArgs {
    /// One JSON object per line instead of tables.
    #[arg(long)]
    json: bool,
    /// A moment: shows that everything runs; the figures mean nothing.
    #[arg(long)]
    smoke: bool,
    /// The program `tidegate`.
    #[arg(long)]
    tidegate: PathBuf,
    /// How long.
    #[arg(long, default_value_t = 10.0)]
    minutes: f64,
}

/// What was seen of all of it.
struct Soaked {
    /// What it can do, with subjects that come and go, in a second.
    capacity: f64,
    /// How long a part lasts.
    part_minutes: f64,
    parts: Vec<Part>,
}

/// What was seen of one part.
struct Part {
    /// How many were answered in a second.
    per_second: f64,
    median_us: f64,
    p99_us: f64,
    worst_us: f64,
    bad: u64,
    resident_mib: f64,
}

/// Runs the bench.
pub(crate) fn main(args: &SoakArgs) -> Result<ExitCode, Failure> {
    let scene = Scene::new(&args.tidegate, None, args.smoke);
    let usage = Usage::read();
    let mut figures = Figures::wide("soak");
    let minutes = if args.smoke { 0.05 } else { args.minutes };
    let soaked = super::runtime()?.block_on(run(&scene, minutes * 60.0))?;
    figures.add("at full load", "tidegate", soaked.capacity, "requests/s");
    for (number, part) in soaked.parts.iter().enumerate() {
        let case = format!("part {}", number + 1);
        figures.add(&case, "tidegate", part.per_second, "requests/s");
        figures.add(&case, "tidegate", part.median_us, "p50 us");
        figures.add(&case, "tidegate", part.p99_us, "p99 us");
        figures.add(&case, "tidegate", part.worst_us, "p99.9 us");
        figures.add(&case, "tidegate", part.bad as f64, "refused");
        figures.add(&case, "tidegate", part.resident_mib, "RSS MiB");
    }
    add_targets(&soaked, &mut figures);
    figures.print(args.json, args.smoke, usage)?;
    Ok(ExitCode::SUCCESS)
}

async fn run(scene: &Scene, seconds: f64) -> Result<Soaked, Failure> {
    let running = Running::start(Who::Ours(Place::Globe), scene).await?;
    let running = running.ok_or("the server is not there")?;
    // Otherwise the load takes more of the processors by the clock than it does at full speed, and
    // four fifths of what is then measured would be all of them.
    let _apart = Apart::begin()?;
    let lasting = std::time::Duration::from_secs_f64(seconds / f64::from(PARTS));
    let offer = offered(&running, scene)?;
    let full = |seconds| {
        let whole = offer.run(Loop::Closed(scene.lasting(seconds)));
        async move { whole.await?.all_good("tidegate") }
    };
    full(WARM_S).await?;
    let capacity = full(FULL_S).await?.per_second();
    eprintln!("at full load: {capacity:.0} requests/s");
    let mut parts = Vec::new();
    for part in 1..=PARTS {
        let taken = offer.run(Loop::Open(capacity * LOAD, lasting)).await?;
        let sorted: Vec<f64> = taken.latencies_us.iter().map(|us| f64::from(*us)).collect();
        parts.push(Part {
            per_second: taken.per_second(),
            median_us: quantile(&sorted, 0.5),
            p99_us: quantile(&sorted, 0.99),
            worst_us: quantile(&sorted, 0.999),
            bad: taken.bad,
            resident_mib: running.resident_mib(),
        });
        eprintln!("part {part} of {PARTS}");
    }
    Ok(Soaked { capacity, part_minutes: lasting.as_secs_f64() / 60.0, parts })
}

/// What is asked, from the first request to the last: whoever is new comes at an even pace.
fn offered(running: &Running, scene: &Scene) -> Result<Offer, Failure> {
    let present = if scene.smoke { SUBJECTS / 100 } else { SUBJECTS };
    let everybody = 0..present * GENERATIONS;
    let script = everybody.map(|number| running.request(Kind::Limit, Protocol::Http1, number));
    let script = Packed::churning(script, Churn { present, every: NEW_EVERY })?;
    let known = running.offer(Kind::Limit, Protocol::Http1, 1)?;
    Ok(Offer { script, connections: CONNECTIONS, ..known })
}

fn add_targets(soaked: &Soaked, figures: &mut Figures) {
    let parts = &soaked.parts;
    let bad: u64 = parts.iter().map(|part| part.bad).sum();
    let (least, _) = ends(parts.iter(), |part| part.per_second);
    let met = bad == 0 && least > 0.0;
    figures.target("soak", "nothing refused".to_owned(), bad.to_string(), met);
    let answered = ratio(least, soaked.capacity * LOAD);
    let target = format!("answered of what was offered, in every part >= {ANSWERED}");
    figures.target("soak", target, format!("{answered:.3}"), answered >= ANSWERED);
    let filled = (1..=PARTS)
        .zip(parts)
        .filter(|(number, _)| f64::from(number - 1) * soaked.part_minutes >= FILLS_MINUTES);
    let (least, most) = ends(filled.map(|(_, part)| part), |part| part.resident_mib);
    let grown = ratio(most, least);
    let target = format!("largest RSS after {FILLS_MINUTES} minutes, of the smallest <= {MEMORY}x");
    figures.target("soak", target, format!("{grown:.2}x"), grown > 0.0 && grown <= MEMORY);
    let (_, p99_us) = ends(parts.iter(), |part| part.p99_us);
    let target = format!("p99 in every part <= {} ms", P99_US / 1e3);
    let met = p99_us > 0.0 && p99_us <= P99_US;
    figures.target("soak", target, format!("{:.1} ms", p99_us / 1e3), met);
    add_drift(parts, ("p50", DRIFT), |part| part.median_us, figures);
    add_drift(parts, ("p99", DRIFT_P99), |part| part.p99_us, figures);
}

/// The least and the most of these, or nothing.
fn ends<'a>(parts: impl Iterator<Item = &'a Part>, of: fn(&Part) -> f64) -> (f64, f64) {
    let mut all: Vec<f64> = parts.map(of).collect();
    all.sort_by(f64::total_cmp);
    (all.first().copied().unwrap_or(0.0), all.last().copied().unwrap_or(0.0))
}

/// The last half beside the first without its first part, in which everything is new.
fn add_drift(
    parts: &[Part],
    (what, most): (&str, f64),
    of: fn(&Part) -> f64,
    figures: &mut Figures,
) {
    let median = |parts: &[Part]| {
        let mut all: Vec<f64> = parts.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        quantile(&all, 0.5)
    };
    let (first, then) = parts.split_at(parts.len() / 2);
    let drift = ratio(median(then), median(first.get(1..).unwrap_or_default()));
    let target = format!("{what} of the last half, of the first <= {most}x");
    figures.target("soak", target, format!("{drift:.2}x"), drift > 0.0 && drift <= most);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_targets(capacity: f64, part_minutes: f64, of: impl Fn(u32) -> f64) -> Vec<bool> {
        let part = |at: u32| {
            let (us, resident_mib) = (of(at), of(at));
            let per_second = capacity * LOAD;
            Part { per_second, median_us: us, p99_us: us, worst_us: us, bad: 0, resident_mib }
        };
        let mut figures = Figures::wide("soak");
        let parts = (0..PARTS).map(part).collect();
        add_targets(&Soaked { capacity, part_minutes, parts }, &mut figures);
        figures.targets().into_iter().map(|(_, _, met)| met).collect()
    }

    #[test]
    fn nothing_measured_has_reached_nothing() {
        assert_eq!(all_targets(0.0, 1.0, |_| 0.0), [false; 6]);
        assert_eq!(all_targets(100.0, 1.0, |_| 10.0), [true; 6]);
        let grown = all_targets(100.0, 1.0, |at| f64::from(1 + at));
        assert_eq!(grown, [true, true, false, true, false, false]);
        let slow = all_targets(100.0, 1.0, |_| P99_US + 1.0);
        assert_eq!(slow, [true, true, true, false, true, true]);
    }

    #[test]
    fn memory_counts_when_it_has_filled() {
        let fills = |part_minutes, minutes: f64| {
            let of = |at| if f64::from(at) * part_minutes < minutes { 1.0 } else { 10.0 };
            all_targets(100.0, part_minutes, of).get(2).copied()
        };
        assert_eq!([fills(1.0, 2.5), fills(3.0, 2.5)], [Some(true); 2]);
        assert_eq!([fills(1.0, 3.5), fills(3.0, 3.5)], [Some(false); 2]);
        assert_eq!(fills(0.1, 0.5), Some(false), "a short run says nothing of it");
    }
}
