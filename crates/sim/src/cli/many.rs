//! Many seeds: so many, for so long, or those that once failed.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use tidegate_sim::{Options, Report, corpus, in_jobs};

use super::Plan;
use super::total::Total;

/// Without `--doublecheck`, one seed in so many runs twice.
const TWICE_EACH: u64 = 100;
/// A failing seed takes up to 400 runs to be made small: of a count of seeds only the first ones
/// are, of a night all.
const SMALLER_MAX: u64 = 3;
/// How far it is, is told this often: to a terminal by time, to a file by seeds.
const TOLD_EACH: (Duration, u64) = (Duration::from_secs(1), 1_000);
/// Seeds of nights begin here for each second of the clock: no machine runs more in one.
const SEEDS_A_SECOND: u64 = 1_000;

/// What came of one seed.
struct Ran {
    options: Options,
    report: Report,
    /// It ran twice, and not both times the same.
    differs: bool,
    /// What it was made into, if it failed.
    smaller: String,
}

/// Runs seeds, and sums up.
struct Crowd<'a> {
    plan: &'a Plan,
    start: Instant,
    until: Option<Instant>,
    most: Option<u64>,
    begun: AtomicU64,
    smaller_max: u64,
    made_small: AtomicU64,
}

impl<'a> Crowd<'a> {
    fn new(plan: &'a Plan) -> Self {
        let (begun, made_small) = (AtomicU64::new(0), AtomicU64::new(0));
        let (start, until, most) = (Instant::now(), None, None);
        Self { plan, start, until, most, begun, smaller_max: SMALLER_MAX, made_small }
    }

    /// The place of the next one, if there is time for it.
    fn next(&self) -> Option<u64> {
        let late = self.until.is_some_and(|until| Instant::now() >= until);
        let place = self.begun.fetch_add(1, Ordering::Relaxed);
        (!late && self.most.is_none_or(|most| place < most)).then_some(place)
    }

    fn run(&self, options: Options) -> Ran {
        let report = self.plan.run(options.clone());
        let twice = self.plan.doublecheck || options.seed.is_multiple_of(TWICE_EACH);
        let differs = twice && report != self.plan.run(options.clone());
        let failed = report.broken.is_some();
        let small = failed && self.made_small.fetch_add(1, Ordering::Relaxed) < self.smaller_max;
        let smaller = if small { self.plan.smaller(&options) } else { String::new() };
        Ran { options, report, differs, smaller }
    }

    /// Runs all of it, and says whether all is well.
    fn run_all(&self, options: impl Fn(u64) -> Options + Sync) -> bool {
        let mut total = Total::default();
        let mut told = self.start;
        let terminal = std::io::stderr().is_terminal();
        let work = |place| self.run(options(place));
        in_jobs(
            self.plan.jobs,
            || self.next(),
            work,
            |ran: Ran| {
                if ran.differs || ran.report.broken.is_some() {
                    clear(terminal);
                    tell(&ran);
                }
                total.add(&ran.options, &ran.report, ran.differs);
                let (each, each_seeds) = TOLD_EACH;
                if terminal && told.elapsed() >= each {
                    told = Instant::now();
                    let left = self.until.map(|until| until.saturating_duration_since(told));
                    clear(terminal);
                    eprint!("{}", total.progress(self.start.elapsed(), left));
                    let _ = std::io::stderr().flush();
                } else if !terminal && total.seeds().is_multiple_of(each_seeds) {
                    eprintln!("{}", total.progress(self.start.elapsed(), None));
                }
            },
        );
        clear(terminal);
        total.conclude(self.start.elapsed());
        if self.plan.coverage {
            print!("{}", total.coverage());
        }
        total.holds()
    }
}

/// Takes the line of progress away.
fn clear(terminal: bool) {
    if terminal {
        eprint!("\r\x1b[K");
    }
}

fn tell(ran: &Ran) {
    let seed = ran.options.seed;
    if ran.differs {
        println!("seed {seed}: [determinism] two runs differ");
    }
    if let Some(broken) = &ran.report.broken {
        println!("seed {seed}: {broken}\n{}", ran.smaller);
    }
}

/// So many seeds.
pub(crate) fn seeds(plan: &Plan) -> bool {
    let from = plan.from.unwrap_or(0);
    let crowd = Crowd { most: Some(plan.seeds), ..Crowd::new(plan) };
    crowd.run_all(|place| plan.cut.of(from.wrapping_add(place)))
}

/// Seeds for so long. Nobody has seen them before, unless it is said from which on.
pub(crate) fn minutes(plan: &Plan, minutes: u64) -> bool {
    let from = plan.from.unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        since.as_secs().saturating_mul(SEEDS_A_SECOND)
    });
    let crowd = Crowd::new(plan);
    let until = crowd.start.checked_add(Duration::from_secs(minutes.saturating_mul(60)));
    let crowd = Crowd { until, smaller_max: u64::MAX, ..crowd };
    println!("from seed {from} on, for {minutes} minutes, {} at once", plan.jobs);
    crowd.run_all(|place| plan.cut.of(from.wrapping_add(place)))
}

/// Those that once failed.
pub(crate) fn past(plan: &Plan) -> bool {
    let all = match corpus() {
        Ok(all) => all,
        Err(what) => {
            println!("{what}");
            return false;
        }
    };
    let (count, failed) = (all.len(), Mutex::new(Vec::new()));
    let left = Mutex::new(all.into_iter());
    let next = || left.lock().ok().and_then(|mut left| left.next());
    let work = |past: tidegate_sim::Past| (plan.run(past.options.clone()).broken, past);
    in_jobs(plan.jobs, next, work, |(broken, past)| {
        if let (Some(broken), Ok(mut failed)) = (broken, failed.lock()) {
            failed.push(format!("{}: {broken}\n    it once found: {}", past.line, past.found));
        }
    });
    let failed = failed.into_inner().unwrap_or_default();
    failed.iter().for_each(|what| println!("{what}"));
    println!("{count} seeds that once failed: {} fail", failed.len());
    failed.is_empty()
}
