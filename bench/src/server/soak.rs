//! A long load: ten minutes at four fifths of what the server holds, with subjects that come and
//! go. Its memory stays where it is, nothing fails, and answers do not take longer as time passes.
//!
//! What it holds is not what it answers at full load. There, 64 callers wait all the time, so that
//! much is done at once, and what is told to stores waits for a while and goes together. Who comes
//! when it likes finds less of both. So the rate is the highest at which a minute of an open loop
//! is answered in time.

use std::path::PathBuf;
use std::process::ExitCode;

use super::contestants::{Place, Running, Who};
use super::cores::{Apart, Elsewhere};
use super::load::{Loop, Offer, Taken};
use super::packed::{Churn, Packed};
use super::wire::Protocol;
use super::{CONNECTIONS, Kind, Scene};
use crate::Failure;
use crate::figures::{Figures, quantile, ratio};
use crate::machine::Usage;

/// How much of what it holds it is asked to do.
const LOAD: f64 = 0.8;
/// What is tried, of the rate at full load, until one is held. Above the first the processor time
/// of an open loop is more than there is.
const TRIED: [f64; 6] = [0.8, 0.75, 0.7, 0.65, 0.6, 0.5];
/// How much of that is to be held: what is asked for in the end must not become little because
/// little is held.
const HELD: f64 = 0.7;
/// How many parts a run has.
const PARTS: u32 = 10;
/// How long it takes until as many subjects go as come: one that is not asked about any more is
/// kept for three windows of a minute. What a part has in memory says nothing before.
const FILLS_MINUTES: f64 = 3.0;
/// How many subjects there are at a time, unless it is said. Each is asked about every second or
/// two, and a view is fresh for five. Of several times as many each would be asked about once in
/// that time: whoever comes late then has to ask the region, which costs twice as much and
/// makes the next ones late, so that a lower rate may not be held where a higher one is.
const SUBJECTS: usize = 30_000;
/// Of so many requests one is about a subject that was never heard of, at full load as in every
/// part: a subject is asked about fifty times, which takes about a minute, and then no more.
const NEW_EVERY: usize = 50;
/// How many there are in all before one comes back, at the least: those of ten minutes at the rates
/// that are held here, so that nobody remembers it by then.
const EVERYBODY: usize = 450_000;
/// The same in a run of a moment, which has a hundredth of the subjects.
const SMOKE: usize = 100;
/// How much more memory one part may have than another, of those that begin when it has filled.
const MEMORY: f64 = 1.05;
/// How much of what is offered is answered in every part, at least: it is less than it can do. What
/// is left is what the last replies of a part take.
const ANSWERED: f64 = 0.99;
/// How long it is asked for all it can do before that is measured: until as many subjects go as
/// come, here and in its stores.
const FILL_S: f64 = 60.0 * FILLS_MINUTES;
/// How long it is measured what it can do, and each rate that is tried: a whole window, so that the
/// beginning of one is in it.
const MEASURED_S: f64 = 60.0;
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
#[command(after_help = "Takes 10 minutes, or as many as are said, and 5 to 10 more to begin.")]
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
    /// How many subjects are asked about at a time.
    #[arg(long, default_value_t = SUBJECTS, value_parser = at_a_time)]
    subjects: usize,
}

/// So many that who comes and goes adds up, and not more than the load has memory for.
fn at_a_time(text: &str) -> Result<usize, String> {
    let most = 1_000_000;
    let subjects: usize = text.parse().map_err(|_| "not a number".to_owned())?;
    let is_good = subjects.is_multiple_of(NEW_EVERY) && (NEW_EVERY..=most).contains(&subjects);
    is_good.then_some(subjects).ok_or_else(|| format!("a multiple of {NEW_EVERY}, up to {most}"))
}

/// What was seen of all of it.
struct Soaked {
    /// How many subjects there were at a time.
    subjects: usize,
    /// What it answers at full load, in a second, and what that costs.
    full: (f64, Cost),
    /// What it holds, in a second, and what that costs.
    held: (f64, Cost),
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
    cost: Cost,
    resident_mib: f64,
}

/// What requests cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    /// Processor time of one in the server, and with what it stands on.
    own_us: f64,
    whole_us: f64,
    /// What the region granted of one: of those that could not be admitted on what is known.
    grants: f64,
}

impl Cost {
    fn add(self, figures: &mut Figures, case: &str, per_second: f64) {
        let mut add = |value: f64, unit: &str| figures.add(case, "tidegate", value, unit);
        add(self.cores(per_second), "cores used");
        add(self.own_us, "server CPU us/request");
        add(self.whole_us, "with stores");
        add(self.grants, "grants/request");
    }

    /// Cores that so many requests in a second take. They have one less than there are.
    fn cores(self, per_second: f64) -> f64 {
        self.whole_us * per_second / 1e6
    }
}

/// What was used and granted before.
struct Meter<'a> {
    running: &'a Running,
    own_us: f64,
    stores_us: f64,
    granted: f64,
}

impl<'a> Meter<'a> {
    fn begin(running: &'a Running) -> Self {
        let ((own_us, stores_us), granted) = (running.cpu_us(), running.grants());
        Self { running, own_us, stores_us, granted }
    }

    fn end(self, taken: &Taken) -> Cost {
        let now = Meter::begin(self.running);
        let answered = taken.answered as f64;
        let own_us = now.own_us - self.own_us;
        let whole_us = own_us + now.stores_us - self.stores_us;
        let [own_us, whole_us] = [own_us, whole_us].map(|us| ratio(us, answered));
        Cost { own_us, whole_us, grants: ratio(now.granted - self.granted, answered) }
    }
}

/// Runs the bench.
pub(crate) fn main(args: &SoakArgs) -> Result<ExitCode, Failure> {
    let scene = Scene::new(&args.tidegate, None, args.smoke);
    let usage = Usage::read();
    let mut figures = Figures::wide("soak");
    let minutes = if args.smoke { 0.05 } else { args.minutes };
    let subjects = if args.smoke { SUBJECTS / SMOKE } else { args.subjects };
    let soaked = super::run(run(&scene, subjects, minutes * 60.0))?;
    for (case, (per_second, cost)) in
        [("at full load", soaked.full), ("held for a minute", soaked.held)]
    {
        figures.add(case, "tidegate", per_second, "requests/s");
        cost.add(&mut figures, case, per_second);
    }
    for (number, part) in soaked.parts.iter().enumerate() {
        let case = format!("part {}", number + 1);
        figures.add(&case, "tidegate", part.per_second, "requests/s");
        part.cost.add(&mut figures, &case, part.per_second);
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

async fn run(scene: &Scene, subjects: usize, seconds: f64) -> Result<Soaked, Failure> {
    let elsewhere = Elsewhere::begin()?;
    let running = Running::start(Who::Ours(Place::Globe), scene).await?;
    drop(elsewhere);
    let running = running.ok_or("the server is not there")?;
    // Otherwise the load takes more of the processors by the clock than it does at full speed, and
    // four fifths of what is then measured would be all of them.
    let _apart = Apart::begin()?;
    let lasting = std::time::Duration::from_secs_f64(seconds / f64::from(PARTS));
    let offer = offered(&running, subjects, scene.smoke)?;
    let full = |seconds| {
        let whole = offer.run(Loop::Closed(scene.lasting(seconds)));
        async move { whole.await?.all_good("tidegate") }
    };
    full(FILL_S).await?;
    let meter = Meter::begin(&running);
    let taken = full(MEASURED_S).await?;
    let (most, cost) = (taken.per_second(), meter.end(&taken));
    eprintln!("at full load: {most:.0} requests/s");
    let (held, held_cost) = hold(&running, &offer, (most, scene)).await?;
    let mut parts = Vec::new();
    for part in 1..=PARTS {
        let meter = Meter::begin(&running);
        let taken = offer.run(Loop::Open(held * LOAD, lasting)).await?;
        let cost = meter.end(&taken);
        let [median_us, p99_us, worst_us] = latencies(&taken);
        parts.push(Part {
            per_second: taken.per_second(),
            median_us,
            p99_us,
            worst_us,
            bad: taken.bad,
            cost,
            resident_mib: running.resident_mib(),
        });
        eprintln!("part {part} of {PARTS}: p50 {median_us:.0} us, p99 {p99_us:.0} us");
    }
    let part_minutes = lasting.as_secs_f64() / 60.0;
    Ok(Soaked { subjects, full: (most, cost), held: (held, held_cost), part_minutes, parts })
}

/// The highest of the rates that are tried that is answered in time, and what that costs.
async fn hold(
    running: &Running,
    offer: &Offer,
    (most, scene): (f64, &Scene),
) -> Result<(f64, Cost), Failure> {
    for part in TRIED {
        let (rate, meter) = (most * part, Meter::begin(running));
        let taken = offer.run(Loop::Open(rate, scene.lasting(MEASURED_S))).await?;
        let taken = taken.all_good("tidegate")?;
        let [_, p99_us, _] = latencies(&taken);
        let (cost, per_second) = (meter.end(&taken), taken.per_second());
        let (grants, cores) = (cost.grants, cost.cores(per_second));
        eprintln!(
            "at {part} of it: p99 {p99_us:.0} us, {cores:.2} cores, {grants:.2} grants/request"
        );
        if is_held(per_second, rate, p99_us) {
            return Ok((rate, cost));
        }
    }
    // A moment is not enough to hold anything, nor meant to be.
    let [.., least] = TRIED;
    if scene.smoke {
        Ok((most * least, Cost::default()))
    } else {
        Err("no rate that was tried is held".into())
    }
}

/// Whether a rate is answered, in time.
fn is_held(per_second: f64, rate: f64, p99_us: f64) -> bool {
    ratio(per_second, rate) >= ANSWERED && p99_us > 0.0 && p99_us <= P99_US
}

/// The median, and what one in a hundred and one in a thousand exceed.
fn latencies(taken: &Taken) -> [f64; 3] {
    let sorted: Vec<f64> = taken.latencies_us.iter().map(|us| f64::from(*us)).collect();
    [0.5, 0.99, 0.999].map(|part| quantile(&sorted, part))
}

/// What is asked, from the first request to the last: whoever is new comes at an even pace.
fn offered(running: &Running, present: usize, smoke: bool) -> Result<Offer, Failure> {
    let least = if smoke { EVERYBODY / SMOKE } else { EVERYBODY };
    let everybody = 0..present * least.div_ceil(present).max(2);
    let script = everybody.map(|number| running.request(Kind::Limit, Protocol::Http1, number));
    let script = Packed::churning(script, Churn { present, every: NEW_EVERY })?;
    let known = running.offer(Kind::Limit, Protocol::Http1, 1)?;
    Ok(Offer { script, connections: CONNECTIONS, ..known })
}

fn add_targets(soaked: &Soaked, figures: &mut Figures) {
    let (parts, case) = (&soaked.parts, &format!("{} subjects", soaked.subjects));
    let bad: u64 = parts.iter().map(|part| part.bad).sum();
    let (least, _) = ends(parts.iter(), |part| part.per_second);
    let met = bad == 0 && least > 0.0;
    figures.target(case, "nothing refused".to_owned(), bad.to_string(), met);
    let ((full, _), (rate, _)) = (soaked.full, soaked.held);
    let held = ratio(rate, full);
    let target = format!("held for a minute, of what is answered at full load >= {HELD}");
    figures.target(case, target, format!("{held:.2}"), held >= HELD);
    let answered = ratio(least, rate * LOAD);
    let target = format!("answered of what was offered, in every part >= {ANSWERED}");
    figures.target(case, target, format!("{answered:.3}"), answered >= ANSWERED);
    let filled = (1..=PARTS)
        .zip(parts)
        .filter(|(number, _)| f64::from(number - 1) * soaked.part_minutes >= FILLS_MINUTES);
    let (least, most) = ends(filled.map(|(_, part)| part), |part| part.resident_mib);
    let grown = ratio(most, least);
    let target = format!("largest RSS after {FILLS_MINUTES} minutes, of the smallest <= {MEMORY}x");
    figures.target(case, target, format!("{grown:.2}x"), grown > 0.0 && grown <= MEMORY);
    let (_, p99_us) = ends(parts.iter(), |part| part.p99_us);
    let target = format!("p99 in every part <= {} ms", P99_US / 1e3);
    let met = p99_us > 0.0 && p99_us <= P99_US;
    figures.target(case, target, format!("{:.1} ms", p99_us / 1e3), met);
    add_drift(parts, case, ("p50", DRIFT), |part| part.median_us, figures);
    add_drift(parts, case, ("p99", DRIFT_P99), |part| part.p99_us, figures);
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
    case: &str,
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
    figures.target(case, target, format!("{drift:.2}x"), drift > 0.0 && drift <= most);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_targets(held: f64, part_minutes: f64, of: impl Fn(u32) -> f64) -> Vec<bool> {
        let part = |at: u32| {
            let (us, resident_mib) = (of(at), of(at));
            let per_second = held * LOAD;
            let (median_us, p99_us, worst_us) = (us, us, us);
            let cost = Cost::default();
            Part { per_second, median_us, p99_us, worst_us, bad: 0, cost, resident_mib }
        };
        let mut figures = Figures::wide("soak");
        let parts = (0..PARTS).map(part).collect();
        let subjects = SUBJECTS;
        let held = (held, Cost::default());
        add_targets(&Soaked { subjects, full: held, held, part_minutes, parts }, &mut figures);
        figures.targets().into_iter().map(|(_, _, met)| met).collect()
    }

    #[test]
    fn nothing_measured_has_reached_nothing() {
        assert_eq!(all_targets(0.0, 1.0, |_| 0.0), [false; 7]);
        assert_eq!(all_targets(100.0, 1.0, |_| 10.0), [true; 7]);
        let grown = all_targets(100.0, 1.0, |at| f64::from(1 + at));
        assert_eq!(grown, [true, true, true, false, true, false, false]);
        let slow = all_targets(100.0, 1.0, |_| P99_US + 1.0);
        assert_eq!(slow, [true, true, true, true, false, true, true]);
    }

    #[test]
    fn as_many_are_there_as_come_and_go_in_turn() {
        assert_eq!(at_a_time(&SUBJECTS.to_string()), Ok(SUBJECTS));
        assert_eq!(at_a_time("100000"), Ok(100_000));
        for bad in ["", "many", "0", "30001", "1005000"] {
            assert!(at_a_time(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_rate_is_held_that_is_answered_in_time() {
        assert!(is_held(99.5, 100.0, 5_000.0));
        assert!(!is_held(98.0, 100.0, 5_000.0), "not all of it is answered");
        assert!(!is_held(100.0, 100.0, P99_US + 1.0), "late");
        assert!(!is_held(0.0, 0.0, 0.0), "nothing was asked");
    }

    #[test]
    fn memory_counts_when_it_has_filled() {
        let fills = |part_minutes, minutes: f64| {
            let of = |at| if f64::from(at) * part_minutes < minutes { 1.0 } else { 10.0 };
            all_targets(100.0, part_minutes, of).get(3).copied()
        };
        assert_eq!([fills(1.0, 2.5), fills(3.0, 2.5)], [Some(true); 2]);
        assert_eq!([fills(1.0, 3.5), fills(3.0, 3.5)], [Some(false); 2]);
        assert_eq!(fills(0.1, 0.5), Some(false), "a short run says nothing of it");
    }
}
