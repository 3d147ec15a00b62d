//! What is asked: which keys, how often, under which limit.

use super::contestant::{Setup, WINDOW_MS};
use super::keys::{self, Script};

/// Who takes part in a workload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field {
    /// Everybody.
    All,
    /// Only ours: nobody else has it.
    Ours,
}

/// A limit nobody reaches.
const PLENTY: u32 = 1_000_000_000;
/// A limit that is used up before the clock starts.
const LITTLE: u32 = 10;
/// Accesses in a script: more than the keys of a cache, so that it does not learn the order.
const ACCESSES: usize = 1 << 20;

/// Which keys are asked for.
#[derive(Clone, Copy)]
enum Order {
    Hot,
    Uniform,
    Zipf,
}

/// One workload.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    /// Its name in the reports.
    pub(crate) name: &'static str,
    /// Who takes part.
    pub(crate) field: Field,
    /// Questions in a round, for each thread.
    pub(crate) questions: u64,
    /// Whether the questions are to be denied.
    pub(crate) denied: bool,
    /// Whether the window before holds counts.
    pub(crate) previous: bool,
    /// What the contestants are built for.
    pub(crate) setup: Setup,
    order: Order,
}

impl Workload {
    const fn new(name: &'static str, order: Order, keys: usize) -> Self {
        Self {
            name,
            field: Field::All,
            questions: 1_000_000,
            denied: false,
            previous: false,
            setup: Setup { keys, limit: PLENTY, batch: false, region: false },
            order,
        }
    }

    /// The same, so small that it shows only that everything runs.
    pub(crate) fn tiny(mut self) -> Self {
        self.setup.keys = (self.setup.keys / 100).max(1);
        self.questions = 2_000;
        self
    }

    /// The accesses, in order.
    pub(crate) fn script(&self) -> Script {
        let Setup { keys, .. } = self.setup;
        let accesses = ACCESSES.min(keys * 16).max(1_000);
        let numbers = match self.order {
            Order::Hot => vec![0; accesses],
            Order::Uniform => keys::uniform(keys, accesses),
            Order::Zipf => keys::zipf(keys, accesses),
        };
        Script::new(numbers.into_iter())
    }

    /// What a question is called: a batch is one question about several keys.
    pub(crate) const fn unit(&self) -> &'static str {
        if self.setup.batch { "ns/batch" } else { "ns/decision" }
    }

    /// When the timed stretch starts. With counts in the window before, that is a third into the
    /// next one: their weight has to be computed.
    pub(crate) const fn begins_ms(&self) -> u64 {
        if self.previous { WINDOW_MS + WINDOW_MS / 3 } else { 1 }
    }

    /// How long the timed stretches may last in all without reaching the next window.
    pub(crate) const fn room_ms(&self) -> u64 {
        WINDOW_MS / 2
    }
}

/// All workloads, in the order of the report.
pub(crate) fn all() -> [Workload; 8] {
    let hot = Workload { questions: 2_000_000, ..Workload::new("hot", Order::Hot, 1) };
    let uniform = Workload::new("uniform", Order::Uniform, 100_000);
    let zipf = Workload::new("zipf", Order::Zipf, 1_000_000);
    let few = Setup { limit: LITTLE, ..hot.setup };
    let denied = Workload { name: "denied", denied: true, setup: few, ..hot };
    let previous = Workload { name: "uniform+prev", previous: true, field: Field::Ours, ..uniform };
    let five = Setup { batch: true, ..uniform.setup };
    let batch =
        Workload { name: "batch5", field: Field::Ours, questions: 200_000, setup: five, ..uniform };
    let in_region = |name, workload: Workload| Workload {
        name,
        field: Field::Ours,
        setup: Setup { region: true, ..workload.setup },
        ..workload
    };
    let (region, region_batch) = (in_region("region", uniform), in_region("region-batch5", batch));
    [hot, uniform, zipf, denied, previous, batch, region, region_batch]
}
