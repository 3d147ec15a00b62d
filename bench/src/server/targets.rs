//! What was measured of whom, and what we set out to reach.

use super::Case;
use super::contestants::{Place, Who};
use crate::figures::{Figures, quantile, ratio};

/// With keys and overrides, beside the least server of the same stack.
const ABOVE_TRIVIAL: f64 = 1.15;
/// With Redis and a database, beside ours in memory.
const ABOVE_MEMORY: f64 = 1.1;
/// Checks of `multiLimit` beside those of `limit`.
const BATCH_GAIN: f64 = 3.0;
/// Latency at half load, beside the least server.
const LATENCY: f64 = 2.0;
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
    /// The median, and those that one in a hundred and one in a thousand exceed.
    pub(super) latency_us: [f64; 3],
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
            latency_us: [0.0; 3],
            resident_mib: 0.0,
            started_ms: 0.0,
        }
    }

    /// Requests in a second: the median of the rounds.
    pub(super) fn rate(&self) -> f64 {
        let mut sorted = self.per_second.clone();
        sorted.sort_by(f64::total_cmp);
        quantile(&sorted, 0.5)
    }

    /// Processor time of a request in the server alone: of the quietest round.
    fn own(&self) -> f64 {
        least(&self.own_us)
    }

    /// The same with what it stands on.
    fn whole(&self) -> f64 {
        let both: Vec<f64> =
            self.own_us.iter().zip(&self.stores_us).map(|(own, stores)| own + stores).collect();
        least(&both)
    }

    pub(super) fn add(&self, figures: &mut Figures) {
        let (case, who) = (self.case.name(), self.who.name());
        let mut add = |value: f64, unit: &str| figures.add(&case, who, value, unit);
        add(self.rate(), "requests/s");
        add(self.own(), "server CPU us/request");
        add(self.whole(), "with stores");
        let [median, hundredth, thousandth] = self.latency_us;
        add(median, "p50 us at half");
        add(hundredth, "p99 us at half");
        add(thousandth, "p99.9 us at half");
        add(self.resident_mib, "RSS MiB");
        add(self.started_ms, "start ms");
    }
}

fn least(values: &[f64]) -> f64 {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 0.0 }
}

/// Adds all targets whose contestants were measured.
pub(super) fn add(measured: &[Measured], figures: &mut Figures) {
    let of = |case: Case, who: Who| measured.iter().find(|it| it.case == case && it.who == who);
    let memory = Who::Ours(Place::Memory);
    let mut at_most = |case: Case, what: &str, most: f64, reached: f64| {
        let target = format!("{what} <= {most}x");
        figures.target(&case.name(), target, format!("{reached:.2}x"), reached <= most);
    };
    for case in [Case::Limit, Case::LimitHttp2] {
        let (Some(ours), Some(trivial)) = (of(case, memory), of(case, Who::Trivial)) else {
            continue;
        };
        at_most(case, "CPU, of trivial", ABOVE_TRIVIAL, ratio(ours.own(), trivial.own()));
        let [_, ours, _] = ours.latency_us;
        let [_, theirs, _] = trivial.latency_us;
        at_most(case, "p99 at half load, of trivial", LATENCY, ratio(ours, theirs));
    }
    for case in [Case::Limit, Case::LimitHttp2, Case::MultiLimit, Case::Denied] {
        if let (Some(shared), Some(ours)) = (of(case, Who::Ours(Place::Globe)), of(case, memory)) {
            let what = "CPU with Redis and MariaDB, of memory";
            at_most(case, what, ABOVE_MEMORY, ratio(shared.own(), ours.own()));
        }
    }
    if let (Some(many), Some(one)) = (of(Case::MultiLimit, memory), of(Case::Limit, memory)) {
        let gain = ratio(many.rate() * super::BATCH as f64, one.rate());
        let (target, case) = (format!("checks/s, of limit >= {BATCH_GAIN}x"), Case::MultiLimit);
        figures.target(&case.name(), target, format!("{gain:.2}x"), gain >= BATCH_GAIN);
    }
    add_field(measured, figures);
    if let Some(ours) = measured.iter().find(|it| it.who == memory) {
        let reached = format!("{:.0} ms", ours.started_ms);
        let target = format!("start to first answer < {START_MS} ms");
        figures.target("start", target, reached, ours.started_ms < START_MS);
    }
}

/// Ahead of every other limiter over the same protocol.
fn add_field(measured: &[Measured], figures: &mut Figures) {
    let ours = measured.iter().filter(|it| it.who == Who::Ours(Place::Memory));
    for ours in ours {
        let is_rival =
            |it: &&Measured| it.case == ours.case && it.who.is_limiter() && !it.who.is_ours();
        for rival in measured.iter().filter(is_rival) {
            let (case, name) = (ours.case.name(), rival.who.name());
            let gain = ratio(ours.rate(), rival.rate());
            let target = format!("requests/s, of {name} > 1x");
            figures.target(&case, target, format!("{gain:.2}x"), gain > 1.0);
            let cost = ratio(ours.whole(), rival.whole());
            let target = format!("CPU with stores, of {name} < 1x");
            figures.target(&case, target, format!("{cost:.2}x"), cost < 1.0);
        }
    }
}
