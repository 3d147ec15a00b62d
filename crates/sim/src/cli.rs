//! The command line.

use std::collections::BTreeMap;
use std::fmt;

use tidegate_sim::{Cause, Fault, Faults, Options, Report, Shape};

/// What is printed when asked for, or when the line is wrong.
pub(crate) const HELP: &str = "\
cargo xtask sim [--seeds N] [--from K]     run N seeds (1000), from K (0) on; one in 100 twice
cargo xtask sim --seed K [--trace]         run one seed, and print what it expands into
    [--shape A,B,..] [--regions N] [--nodes N] [--subjects N] [--requests N] [--ms N]
    [--batches PERCENT] [--bounded PERCENT] [--deny PERCENT] [--faults A,B|none]
                                           the same with a smaller fleet, as a failure prints it
    [--planted NAME]                       with a mistake
    [--outside]                            judged only by what can be seen from outside
    [--no-excuses]                         without the excuses for what is known to be wrong
cargo xtask sim --canaries [--within N]    look for every planted mistake
cargo xtask sim --overshoot [--seeds N]    how much is admitted, over N cells (1000)
cargo xtask sim --grid N                   the same over 432 configurations, N cells each
cargo xtask sim --promises N               the parts of PROMISES.md that are measured, N cells each

Exit code: 0 all is well, 1 a promise was broken, 2 the command line is not right.
";

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Command {
    Help,
    Seed(u64),
    Seeds,
    Canaries,
    Overshoot,
    Grid(u64),
    Promises(u64),
}

/// What the command line asks for.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) command: Command,
    pub(crate) seeds: u64,
    pub(crate) from: u64,
    pub(crate) within: u64,
    pub(crate) trace: bool,
    pub(crate) excuses: bool,
    pub(crate) inside: bool,
    #[cfg(feature = "planted")]
    pub(crate) planted: Option<tidegate_limiter::planted::Planted>,
    numbers: BTreeMap<&'static str, u64>,
    faults: Option<Faults>,
    shape: Option<Shape>,
}

/// Options that cut a run down.
const NUMBERS: [&str; 8] =
    ["regions", "nodes", "subjects", "requests", "ms", "batches", "bounded", "deny"];

impl Plan {
    pub(crate) fn parse(args: &[String]) -> Result<Self, String> {
        let mut plan = Self {
            command: Command::Seeds,
            seeds: 1_000,
            from: 0,
            within: 2_000,
            trace: false,
            excuses: true,
            inside: true,
            #[cfg(feature = "planted")]
            planted: None,
            numbers: BTreeMap::new(),
            faults: None,
            shape: None,
        };
        let mut rest = args.iter();
        while let Some(arg) = rest.next() {
            let name = arg.strip_prefix("--").ok_or_else(|| format!("what is `{arg}`?"))?;
            match name {
                "help" => plan.command = Command::Help,
                "trace" => plan.trace = true,
                "no-excuses" => plan.excuses = false,
                "outside" => plan.inside = false,
                "canaries" => plan.command = Command::Canaries,
                "overshoot" => plan.command = Command::Overshoot,
                _ => {
                    let value = rest.next().ok_or_else(|| format!("`{arg}` needs a value"))?;
                    plan.set(name, value)?;
                }
            }
        }
        Ok(plan)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let wrong = || format!("`--{name} {value}` is not right");
        if name == "faults" {
            self.faults = Some(Faults::parse(value).ok_or_else(wrong)?);
            return Ok(());
        }
        if name == "shape" {
            self.shape = Some(Shape::parse(value).ok_or_else(wrong)?);
            return Ok(());
        }
        #[cfg(feature = "planted")]
        if name == "planted" {
            self.planted = Some(tidegate_sim::canaries::by_name(value).ok_or_else(wrong)?);
            return Ok(());
        }
        let number: u64 = value.parse().map_err(|_| wrong())?;
        match name {
            "seed" => self.command = Command::Seed(number),
            "promises" => self.command = Command::Promises(number.max(1)),
            "grid" => self.command = Command::Grid(number.max(1)),
            "seeds" => self.seeds = number.max(1),
            "from" => self.from = number,
            "within" => self.within = number,
            _ => {
                let known = NUMBERS.iter().find(|known| **known == name).ok_or_else(wrong)?;
                self.numbers.insert(known, number);
            }
        }
        Ok(())
    }

    /// Whether the run is already cut down.
    pub(crate) fn is_cut(&self) -> bool {
        !self.numbers.is_empty() || self.shape.is_some()
    }

    /// What a seed expands into, cut down.
    pub(crate) fn options(&self, seed: u64) -> Options {
        let mut options = Options::of(seed);
        let number = |name: &str| self.numbers.get(name).copied();
        let size = |name: &str| number(name).and_then(|number| usize::try_from(number).ok());
        if number("regions").or(number("nodes")).is_some() {
            let regions = size("regions").unwrap_or(options.shape.regions());
            let nodes = size("nodes").unwrap_or(options.shape.nodes());
            options.shape = Shape::dealt(regions, nodes);
        }
        options.shape = self.shape.clone().unwrap_or(options.shape);
        options.kinds.truncate(size("subjects").unwrap_or(options.kinds.len()).max(1));
        options.requests = number("requests").unwrap_or(options.requests);
        options.safety_ms = number("ms").unwrap_or(options.safety_ms).max(100);
        options.batch_percent = number("batches").unwrap_or(options.batch_percent);
        options.bounded_percent = number("bounded").unwrap_or(options.bounded_percent);
        options.deny_percent = number("deny").unwrap_or(options.deny_percent);
        options.faults = self.faults.unwrap_or(options.faults);
        options.excuses = self.excuses;
        options.inside = self.inside;
        options
    }

    /// The flag that plants the same mistake.
    pub(crate) fn planted_flag(&self) -> String {
        #[cfg(feature = "planted")]
        if let Some(mistake) = self.planted {
            return format!(" --planted {mistake:?}");
        }
        String::new()
    }
}

/// What happened over all runs.
#[derive(Debug, Default)]
pub(crate) struct Total {
    faults: BTreeMap<Fault, u64>,
    lost: BTreeMap<Cause, u64>,
    admitted: u64,
    denied: u64,
    degraded: u64,
    global: u64,
    published: u64,
    trims: u64,
    settled_ms: u64,
    unheeded: u64,
    /// Requests denied because the region could not be asked, and their cost that is charged.
    outages: (u64, u64),
    bounded: Bounded,
}

/// What became of bounded requests.
#[derive(Debug, Default)]
struct Bounded {
    seeds: u64,
    asks: u64,
    declined: u64,
    unheard: u64,
    reserved: u64,
    unanswered: u64,
    regranted: u64,
    worst_permille: u64,
}

impl Bounded {
    fn add(&mut self, report: &Report) {
        self.seeds += u64::from(report.asks > 0);
        self.asks += report.asks;
        self.declined += report.declined;
        self.unheard += report.unheard;
        self.reserved += report.reserved;
        self.unanswered += report.unanswered;
        self.regranted += report.regranted;
        self.worst_permille = self.worst_permille.max(report.bounded_permille);
    }
}

impl Total {
    pub(crate) fn add(&mut self, report: &Report) {
        for (fault, count) in &report.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        for (cause, count) in &report.lost {
            *self.lost.entry(*cause).or_default() += count;
        }
        self.admitted += report.admitted;
        self.denied += report.denied;
        self.degraded += report.degraded;
        self.global += u64::from(report.global);
        self.published += report.published;
        self.trims += report.trims;
        self.unheeded += report.unheeded;
        self.outages.0 += report.outages;
        self.outages.1 += report.charged;
        self.bounded.add(report);
        self.settled_ms = self.settled_ms.max(report.settled_ms);
    }
}

impl fmt::Display for Total {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { admitted, denied, degraded, .. } = self;
        writeln!(f, "{admitted} admitted, {denied} denied, {degraded} degraded")?;
        let (outages, charged) = self.outages;
        writeln!(f, "{outages} denied unasked, and {charged} charged for them")?;
        let Self { global, published, trims, settled_ms, .. } = self;
        writeln!(f, "{global} with several regions: {published} rows published, {trims} trims")?;
        writeln!(f, "{} admissions before a new window had heard of others", self.unheeded)?;
        writeln!(f, "regions knew of each other within {settled_ms} ms after faults")?;
        let Bounded { seeds, asks, declined, unheard, .. } = self.bounded;
        writeln!(f, "{seeds} with asks: {asks}, {declined} declined, {unheard} callers unheard")?;
        let Bounded { reserved, unanswered, regranted, worst_permille, .. } = self.bounded;
        writeln!(
            f,
            "{reserved} denied by reservations, worst bounded cell {worst_permille} permille"
        )?;
        writeln!(f, "granted to the dead: {unanswered}; by a store that forgot: {regranted}")?;
        writeln!(f, "faults: {:?}", self.faults)?;
        writeln!(f, "cost lost, by cause: {:?}", self.lost)
    }
}

/// One report, for a human.
pub(crate) fn describe(report: &Report) -> String {
    let mut text = format!("{report:#?}\n");
    match &report.broken {
        Some(broken) => text.push_str(&format!("BROKEN {broken}\n")),
        None => text.push_str("nothing was broken\n"),
    }
    text
}
