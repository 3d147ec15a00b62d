//! What was measured of whom, and what we set out to reach.

use clap::ValueEnum;

use super::Case;
use super::contestants::{Place, Who};
use crate::figures::{Figures, quantile};

/// With keys and overrides, beside the least server of the same stack.
const ABOVE_TRIVIAL: f64 = 1.15;
/// With Redis and a database, beside ours in memory.
const ABOVE_MEMORY: f64 = 1.1;
/// Checks of `multiLimit` beside those of `limit`.
const BATCH_GAIN: f64 = 3.0;
/// Latency at half load, beside the least server.
const LATENCY: f64 = 2.0;
/// Who used fewer cores than this while the load did all it could was not the one that the other
/// waited for. The load has one thread: of any two cores, one is the server's.
const LOAD_BOUND_CORES: f64 = 0.9;
/// From the start of the program to its first answer.
const START_MS: f64 = 100.0;

/// One contestant in one case.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) case: Case,
    pub(super) who: Who,
    /// Of each round.
    pub(super) per_second: Vec<f64>,
    pub(super) own_us: Vec<f64>,
    pub(super) stores_us: Vec<f64>,
    /// Of each round at half load: requests in a second that were offered.
    pub(super) offered: Vec<f64>,
    /// And the median, and those that one in a hundred and one in a thousand exceed.
    pub(super) latencies_us: Vec<[f64; 3]>,
    pub(super) resident_mib: f64,
    pub(super) started_ms: f64,
}

impl Measured {
    pub(super) const fn new(who: Who) -> Self {
        Self {
            case: Case::Limit,
            who,
            per_second: Vec::new(),
            own_us: Vec::new(),
            stores_us: Vec::new(),
            offered: Vec::new(),
            latencies_us: Vec::new(),
            resident_mib: 0.0,
            started_ms: 0.0,
        }
    }

    /// Requests in a second: the median of the rounds.
    pub(super) fn rate(&self) -> f64 {
        median(self.per_second.clone())
    }

    /// The median latency, and those that one in a hundred and one in a thousand exceed: of each
    /// the median of the rounds.
    fn latency_us(&self) -> [f64; 3] {
        [0, 1, 2].map(|at| {
            let rounds = self.latencies_us.iter();
            median(rounds.filter_map(|round| round.get(at).copied()).collect())
        })
    }

    /// What one in a hundred exceeds, beside another's of the same round.
    fn latency_of(&self, other: &Self) -> Option<Beside> {
        let of = |it: &Self| it.latencies_us.iter().map(|[_, p99, _]| *p99).collect();
        Beside::of(self, other, of)
    }

    /// Processor time of a request in the server alone, beside another's of the same round.
    fn own_of(&self, other: &Self) -> Option<Beside> {
        Beside::of(self, other, |it| it.own_us.clone())
    }

    /// The same with what they stand on.
    fn whole_of(&self, other: &Self) -> Option<Beside> {
        Beside::of(self, other, Self::whole_us)
    }

    /// Processor time of a request in the server alone: the median of the rounds.
    fn own(&self) -> f64 {
        median(self.own_us.clone())
    }

    /// The same with what it stands on.
    fn whole(&self) -> f64 {
        median(self.whole_us())
    }

    fn whole_us(&self) -> Vec<f64> {
        self.own_us.iter().zip(&self.stores_us).map(|(own, stores)| own + stores).collect()
    }

    /// Cores that it used with what it stands on, when it was asked as much as the load could ask.
    fn cores(&self) -> f64 {
        self.whole() * self.rate() / 1e6
    }

    /// Whether its rate is that of the load, and its own a higher one that is not known.
    fn is_load_bound(&self) -> bool {
        self.cores() < LOAD_BOUND_CORES
    }

    pub(super) fn add(&self, figures: &mut Figures) {
        let (case, who) = (self.case.name(), self.who.name());
        let mut add = |value: f64, unit: &str| figures.add(&case, who, value, unit);
        add(self.rate(), "requests/s");
        add(self.cores(), "cores used");
        // Redis is a store, and has no server before it.
        if self.who != Who::Redis {
            add(self.own(), "server CPU us/request");
        }
        add(self.whole(), "with stores");
        add(median(self.offered.clone()), "requests/s at half");
        let [half, hundredth, thousandth] = self.latency_us();
        add(half, "p50 us at half");
        add(hundredth, "p99 us at half");
        add(thousandth, "p99.9 us at half");
        add(self.resident_mib, "RSS MiB");
        if self.started_ms > 0.0 {
            add(self.started_ms, "start ms");
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    quantile(&values, 0.5)
}

/// What was measured of one beside what was measured of another in the same round. What else the
/// machine does comes and goes, for seconds, and those of one case follow on each other in a round.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Beside {
    /// The median of the rounds.
    usual: f64,
    /// And between which two they all were.
    least: f64,
    most: f64,
}

impl Beside {
    fn of(one: &Measured, other: &Measured, of: impl Fn(&Measured) -> Vec<f64>) -> Option<Self> {
        let each: Option<Vec<f64>> =
            of(one).into_iter().zip(of(other)).map(|(a, b)| compared(a, b)).collect();
        let mut each = each?;
        each.sort_by(f64::total_cmp);
        let (least, most) = (*each.first()?, *each.last()?);
        Some(Self { usual: quantile(&each, 0.5), least, most })
    }

    /// How often it comes to as much as the other, where each of these is so many.
    fn inverse(self, many: f64) -> Self {
        let of = |part: f64| many / part;
        Self { usual: of(self.usual), least: of(self.most), most: of(self.least) }
    }

    fn told(reached: Option<Self>, is_enough: impl FnOnce(f64) -> bool) -> (String, bool) {
        let Some(Self { usual, least, most }) = reached else { return not_measured() };
        (format!("{usual:.2}x ({least:.2} to {most:.2})"), is_enough(usual))
    }
}

/// `a / b`, unless one of them was not measured.
fn compared(a: f64, b: f64) -> Option<f64> {
    (a > 0.0 && b > 0.0).then(|| a / b)
}

/// What was not measured has reached nothing.
fn not_measured() -> (String, bool) {
    ("not measured".to_owned(), false)
}

/// A rate beside another's, which is to be so many times as high. One that is load-bound is at
/// least what was measured: of ours that is enough, of the other it is not.
fn rates(
    (ours, other): (&Measured, &Measured),
    checks: f64,
    is_enough: impl FnOnce(f64) -> bool,
) -> (String, bool) {
    let mut bound: Vec<&str> =
        [ours, other].iter().filter(|it| it.is_load_bound()).map(|it| it.who.name()).collect();
    bound.dedup();
    let Some(gain) = compared(ours.rate() * checks, other.rate()) else { return not_measured() };
    let said = match bound.as_slice() {
        [] => format!("{gain:.2}x"),
        names => format!("{gain:.2}x, load-bound: {}", names.join(", ")),
    };
    (said, is_enough(gain) && !other.is_load_bound())
}

/// Adds all targets whose contestants took part.
pub(super) fn add(measured: &[Measured], figures: &mut Figures) {
    add_trivial(measured, figures);
    let memory = Who::Ours(Place::Memory);
    for case in [Case::Limit, Case::LimitHttp2, Case::MultiLimit, Case::Denied] {
        let both = (find(measured, case, Who::Ours(Place::Globe)), find(measured, case, memory));
        if let (Some(shared), Some(ours)) = both {
            let cost = shared.own_of(ours);
            at_most(figures, case, "CPU with Redis and MariaDB, of memory", (cost, ABOVE_MEMORY));
        }
    }
    add_batch(measured, figures);
    add_field(measured, figures);
    add_start(measured, figures);
}

/// From the start of each of ours to its first answer.
fn add_start(measured: &[Measured], figures: &mut Figures) {
    for who in Who::ALL.into_iter().filter(|who| who.is_ours()) {
        let Some(ours) = measured.iter().find(|it| it.who == who) else { continue };
        let started = ours.started_ms;
        let target = format!("start of {} to first answer < {START_MS} ms", who.name());
        let met = started > 0.0 && started < START_MS;
        figures.target("start", target, format!("{started:.0} ms"), met);
    }
}

fn find(measured: &[Measured], case: Case, who: Who) -> Option<&Measured> {
    measured.iter().find(|it| it.case == case && it.who == who)
}

fn at_most(figures: &mut Figures, case: Case, what: &str, (reached, most): (Option<Beside>, f64)) {
    let (said, met) = Beside::told(reached, |reached| reached <= most);
    figures.target(&case.name(), format!("{what} <= {most}x"), said, met);
}

/// Beside the least server: what it costs in memory, and how long it takes with any store.
fn add_trivial(measured: &[Measured], figures: &mut Figures) {
    for case in Case::value_variants().iter().copied().filter(|case| case.is_felt()) {
        let Some(trivial) = find(measured, case, Who::Trivial) else { continue };
        if let Some(ours) = find(measured, case, Who::Ours(Place::Memory)) {
            let cost = ours.own_of(trivial);
            at_most(figures, case, "CPU, of trivial", (cost, ABOVE_TRIVIAL));
        }
        for ours in measured.iter().filter(|it| it.case == case && it.who.is_ours()) {
            let what = format!("p99 at half load of {}, of trivial", ours.who.name());
            at_most(figures, case, &what, (ours.latency_of(trivial), LATENCY));
        }
    }
}

/// Many checks in one request, beside as many requests.
fn add_batch(measured: &[Measured], figures: &mut Figures) {
    let memory = Who::Ours(Place::Memory);
    let both = (find(measured, Case::MultiLimit, memory), find(measured, Case::Limit, memory));
    let (Some(many), Some(one)) = both else { return };
    let (case, checks) = (Case::MultiLimit.name(), super::BATCH as f64);
    let is_enough = |gain: f64| gain >= BATCH_GAIN;
    let (said, met) = rates((many, one), checks, is_enough);
    figures.target(&case, format!("checks/s, of limit >= {BATCH_GAIN}x"), said, met);
    let gain = many.own_of(one).map(|cost| cost.inverse(checks));
    let (said, met) = Beside::told(gain, is_enough);
    figures.target(&case, format!("checks/CPU, of limit >= {BATCH_GAIN}x"), said, met);
}

/// Ahead of every other limiter over the same protocol, also of one that is not there: then nothing
/// is shown.
fn add_field(measured: &[Measured], figures: &mut Figures) {
    for ours in measured.iter().filter(|it| it.who == Who::Ours(Place::Memory)) {
        let (kind, protocol) = ours.case.parts();
        let is_rival = |who: &Who| who.is_limiter() && !who.is_ours() && who.speaks(kind, protocol);
        for who in Who::ALL.into_iter().filter(is_rival) {
            let (case, name) = (ours.case.name(), who.name());
            let rival = find(measured, ours.case, who).cloned();
            let rival = &rival.unwrap_or_else(|| Measured::new(who));
            let (said, met) = rates((ours, rival), 1.0, |gain| gain > 1.0);
            figures.target(&case, format!("requests/s, of {name} > 1x"), said, met);
            let (said, met) = Beside::told(ours.whole_of(rival), |cost| cost < 1.0);
            figures.target(&case, format!("CPU with stores, of {name} < 1x"), said, met);
        }
    }
}
