//! The fleet at work: what the database does for it, and what it gets for that.

use tidegate_convergence::GlobeCounts;

use super::Contestant;
use super::arrivals::{self, run as run_until};
use super::database::{Database, Work};
use super::feed::Feed;
use super::fleet::{Fleet, Mix};
use super::ours::{Ours, Publisher};
use super::rfc::{Rfc, Table};
use super::world::{Scheme, Seen, World};
use crate::figures::{Figures, quantile, ratio, three_digits};
use crate::{Failure, machine};

/// The beginning of an hour, in 2023.
const HOUR_UNIX_MS: u64 = 1_699_999_200_000;
/// Subjects begin to ask within this, with what they would have used of their windows by then.
const BEGIN_MS: u64 = 15_000;
/// Windows that came to less than this part of their limit say nothing of overshoot.
const CONTENDED: f64 = 0.95;

/// A fleet to measure.
#[derive(Clone, Copy)]
pub(crate) struct Load<'a> {
    pub(crate) name: &'static str,
    pub(crate) mix: Mix,
    pub(crate) active: usize,
    pub(crate) smoke: bool,
    pub(crate) whom: &'a [Contestant],
}

/// When in the hour it begins, when it is measured from, and until when, in seconds of the hour.
/// All windows end at the full hour, which lies between. The mix whose overshoot is looked at most
/// is measured for longest: of a few windows the 99th percentile is the largest.
fn times_s(load: Load<'_>) -> [u64; 3] {
    match load {
        Load { smoke: true, .. } => [3_560, 3_580, 3_665],
        Load { name: "mix-a", .. } => [3_470, 3_505, 4_105],
        _ => [3_470, 3_505, 3_705],
    }
}

/// What was measured of one scheme.
struct Column {
    seen: Seen,
    work: Work,
    /// Virtual seconds.
    seconds: f64,
    /// Totals or rows, written and in the worst second, and read.
    written: f64,
    peak: f64,
    read: f64,
    /// Ours only.
    counts: Vec<GlobeCounts>,
    /// Which part of the time in which our thread could run it ran.
    ran: f64,
    /// By the clock: others may have had the core meanwhile.
    spent_ns: Vec<u64>,
}

/// Measures the schemes that are asked for.
pub(crate) fn run(load: Load<'_>, figures: &mut Figures) -> Result<(), Failure> {
    let (mut ours, mut rfc) = (None, None);
    for whom in load.whom {
        let column = match whom {
            Contestant::Rfc => measure_rfc(load)?,
            Contestant::Tidegate => measure_ours(load, Publisher::Leader)?,
            Contestant::Each => measure_ours(load, Publisher::Each)?,
        };
        print_column(figures, (load.name, whom.name()), &column);
        if *whom != Contestant::Rfc {
            print_ours(figures, (load.name, whom.name()), &column);
        }
        match whom {
            Contestant::Rfc => rfc = Some(column),
            Contestant::Tidegate => ours = Some(column),
            Contestant::Each => {}
        }
    }
    if let Some(ours) = &ours {
        set_own_targets(figures, load, ours);
        if let Some(rfc) = &rfc {
            set_ratios(figures, load, (ours, rfc));
        }
    }
    Ok(())
}

fn world(load: Load<'_>) -> Result<World, Failure> {
    let [start, from, until] = times_s(load);
    let active = if load.smoke { load.active / 100 } else { load.active };
    let fleet = Fleet::rfc(active, load.mix, 7)?;
    let mut world = World::new(fleet, 11, HOUR_UNIX_MS + start * 1_000, (until - start) * 1_000);
    world.burst = load.mix.burst;
    world.from_ms = (from - start) * 1_000;
    arrivals::begin(&mut world, BEGIN_MS);
    Ok(world)
}

/// Runs a scheme to the end; says what it held when the measuring began, and what it held then.
fn watch<S: Scheme, R>(
    world: &mut World,
    scheme: &mut S,
    look: impl Fn(&S, &World) -> Result<R, Failure>,
) -> Result<[R; 2], Failure> {
    scheme.begin(world)?;
    run_until(world, scheme, world.from_ms)?;
    let before = look(scheme, world)?;
    run_until(world, scheme, u64::MAX)?;
    Ok([before, look(scheme, world)?])
}

fn measure_rfc(load: Load<'_>) -> Result<Column, Failure> {
    let (database, mut world) = (Database::start(load.smoke)?, world(load)?);
    let mut rfc = Rfc::new(&world, Table::real(&database)?);
    let [before, _] = watch(&mut world, &mut rfc, |_, _| database.status())?;
    let work = database.since(&before)?;
    let seconds = (world.ms - world.from_ms) as f64 / 1_000.0;
    Ok(Column {
        seen: world.seen,
        work,
        seconds,
        written: rfc.counts.rows_written as f64,
        peak: rfc.counts.peak as f64,
        read: rfc.counts.rows_returned as f64,
        counts: Vec::new(),
        ran: 1.0,
        spent_ns: Vec::new(),
    })
}

fn measure_ours(load: Load<'_>, publisher: Publisher) -> Result<Column, Failure> {
    let (database, mut world) = (Database::start(load.smoke)?, world(load)?);
    let mut ours = Ours::new(&mut world, Feed::real(&database)?, publisher)?;
    let look = |ours: &Ours<'_>, world: &World| {
        let clock = (machine::ran_ns(), machine::waited_ns());
        Ok((database.status()?, ours.counts(world), ours.spent_ns(), clock))
    };
    let [(before, counts, spent_ns, clock), (_, counts_after, spent_after, clock_after)] =
        watch(&mut world, &mut ours, look)?;
    let work = database.since(&before)?;
    let seconds = (world.ms - world.from_ms) as f64 / 1_000.0;
    let counts: Vec<_> =
        counts.iter().zip(&counts_after).map(|(before, after)| grown(before, after)).collect();
    let sum = |get: fn(&GlobeCounts) -> u64| counts.iter().map(get).sum::<u64>() as f64;
    Ok(Column {
        work,
        seconds,
        written: sum(|counts| counts.published + counts.repeated),
        peak: ours.peak as f64,
        read: sum(|counts| counts.imported),
        seen: world.seen,
        counts,
        ran: part_ran(clock, clock_after),
        spent_ns: spent_after.iter().zip(&spent_ns).map(|(after, before)| after - before).collect(),
    })
}

/// What happened between two countings; what merely stands is as it stands.
fn grown(before: &GlobeCounts, after: &GlobeCounts) -> GlobeCounts {
    let mut grown = *after;
    grown.posted -= before.posted;
    grown.reposted -= before.reposted;
    grown.skipped -= before.skipped;
    grown.published -= before.published;
    grown.published_rows -= before.published_rows;
    grown.repeated -= before.repeated;
    grown.trimmed_rows -= before.trimmed_rows;
    grown.imports -= before.imports;
    grown.imported_rows -= before.imported_rows;
    grown.imported -= before.imported;
    grown.late_rows -= before.late_rows;
    grown.gaps_given_up -= before.gaps_given_up;
    grown.feed_losses -= before.feed_losses;
    grown
}

fn print_column(figures: &mut Figures, (case, contestant): (&str, &str), column: &Column) {
    let per_s = |value: f64| ratio(value, column.seconds);
    let Work { statements, bytes, rows_read, rows_sent, rows_written, .. } = column.work;
    let mut add = |value, unit| figures.add(case, contestant, value, unit);
    add(per_s(column.written), "counters written/s");
    add(column.peak, "counters written in the worst second");
    add(per_s(column.read), "counters read/s");
    add(per_s(rows_written), "rows written or deleted/s (database)");
    add(per_s(rows_read), "rows examined/s (database)");
    add(per_s(rows_sent), "rows returned/s (database)");
    add(per_s(statements), "statements/s");
    add(per_s(bytes) / 1_000.0, "kB/s");
    add(cpu_percent(column), "% of a core (database)");
    add(denied_percent(column), "% denied");
    let latency_ms = sorted(&column.seen.latency_ms);
    add(quantile(&latency_ms, 0.5) / 1_000.0, "s to another region p50");
    add(quantile(&latency_ms, 0.99) / 1_000.0, "s to another region p99");
    figures.spread(case, contestant, &contended(column));
}

fn print_ours(figures: &mut Figures, (case, contestant): (&str, &str), column: &Column) {
    let per_s = |get: fn(&GlobeCounts) -> u64| {
        ratio(column.counts.iter().map(get).sum::<u64>() as f64, column.seconds)
    };
    let mut add = |value, unit| figures.add(case, contestant, value, unit);
    add(per_s(|counts| counts.repeated), "of the counters written/s repeated");
    add(per_s(|counts| counts.published_rows), "batches published/s");
    add(per_s(|counts| counts.imports), "imports/s");
    add(per_s(|counts| counts.posted), "posts/s");
    add(per_s(|counts| counts.reposted), "posts repeated/s");
    add(per_s(|counts| counts.skipped), "posts of nothing new/s");
    add(per_s(|counts| counts.feed_losses), "feed losses/s");
    add(per_s(|counts| counts.gaps_given_up), "gaps given up/s");
    let most = column.counts.iter().map(|counts| counts.values).max().unwrap_or(0);
    add(most as f64, "cells known to a process");
    add(100.0 * column.ran, "% of the time that the thread could run it ran");
    let all = column.spent_ns.iter().sum::<u64>() as f64 / column.spent_ns.len().max(1) as f64;
    add(ratio(all * column.ran, column.seconds) / 10_000_000.0, "% of a core (mean process)");
    add(process_percent(column), "% of a core (busiest process)");
}

fn set_ratios(figures: &mut Figures, load: Load<'_>, (ours, rfc): (&Column, &Column)) {
    let times = match load.name {
        "mix-a" => 3.0,
        "mix-a-10x" => 8.0,
        "mix-l" | "mix-b" => 1.2,
        _ => 1.0,
    };
    let p50 = |column: &Column| quantile(&sorted(&column.seen.latency_ms), 0.5);
    let less = ratio(cpu_percent(rfc), cpu_percent(ours));
    let sooner = ratio(p50(rfc), p50(ours));
    let all = [
        (format!("database >= {times}x less than the RFC"), less, times),
        ("p50 to another region >= 5x sooner".to_owned(), sooner, 5.0),
    ];
    for (text, measured, least) in all {
        let shown = format!("{}x", three_digits(measured));
        figures.target(load.name, text, shown, measured >= least);
    }
}

fn set_own_targets(figures: &mut Figures, load: Load<'_>, ours: &Column) {
    let most = if load.name == "mix-a" { 700.0 } else { 1_000.0 };
    let (ten_times, written) = (load.active > 100_000, ratio(ours.written, ours.seconds));
    let counters = (format!("counters written/s <= {most}"), written, most);
    let process = ("busiest process % of a core <= 2".to_owned(), process_percent(ours), 2.0);
    // Where no window came to its limit, nothing shows how far they would have gone.
    let contended = contended(ours);
    let overshoot = if contended.is_empty() { f64::NAN } else { quantile(&contended, 0.99) };
    let all = [
        if ten_times { process } else { counters },
        ("overshoot p99 <= 1.1".to_owned(), overshoot, 1.1),
    ];
    for (text, measured, most) in all {
        let shown = if measured.is_nan() {
            "nothing measured".to_owned()
        } else {
            three_digits(measured).to_string()
        };
        figures.target(load.name, text, shown, measured <= most);
    }
    // What the fleet asks for has to be what the RFC's does, or the rest says nothing of it.
    let (least, most) = if load.name == "peak" { (20.0, 30.0) } else { (2.0, 4.0) };
    let denied = denied_percent(ours);
    let shown = format!("{} %", three_digits(denied));
    let met = (least..=most).contains(&denied);
    figures.target(load.name, format!("denied {least} to {most} %"), shown, met);
}

fn denied_percent(column: &Column) -> f64 {
    100.0 * ratio(column.seen.denied as f64, column.seen.asked as f64)
}

fn cpu_percent(column: &Column) -> f64 {
    ratio(column.work.cpu_us, column.seconds) / 10_000.0
}

fn part_ran((ran, waited): (u64, u64), (ran_after, waited_after): (u64, u64)) -> f64 {
    let (ran, waited) = ((ran_after - ran) as f64, (waited_after - waited) as f64);
    if ran > 0.0 { ran / (ran + waited) } else { 1.0 }
}

/// What the busiest process used, without the time in which others had the core.
fn process_percent(column: &Column) -> f64 {
    let most = column.spent_ns.iter().copied().max().unwrap_or(0);
    ratio(most as f64 * column.ran, column.seconds) / 10_000_000.0
}

fn contended(column: &Column) -> Vec<f64> {
    let worst = column.seen.worst.iter().copied().filter(|worst| *worst >= CONTENDED);
    sorted(&worst.collect::<Vec<_>>())
}

/// The same, in order.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values
}
