//! How much of its budget a table takes, whatever callers send.

use std::fmt::Write as _;

use tidegate_limiter::{Cost, Limit, Now, Options, Part, Request, Seed, Subject, Table, Window};

use super::{Block, Promises, percent};
use crate::chance::Chance;
use crate::node::START_MS;
use crate::overshoot::spread;

/// Budgets: the least that is of use, and more.
const BUDGETS: [usize; 3] = [64 << 10, 1 << 20, 8 << 20];
/// Callers for each subject that there is room for: a flood is many times what fits.
const TIMES: u64 = 4;
/// The memory is looked at after so many calls.
const LOOK_EACH: u64 = 64;

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crowd {
    /// As many as there is room for, again and again.
    Few,
    /// Everybody is new, and stays for a minute.
    Flood,
    /// The same with names as long as they may be.
    LongNames,
}

impl Crowd {
    const ALL: [Self; 3] = [Self::Few, Self::Flood, Self::LongNames];

    const fn name(self) -> &'static str {
        match self {
            Self::Few => "half as many as there is room for",
            Self::Flood => "a flood: everybody is new",
            Self::LongNames => "a flood of the longest names",
        }
    }

    fn caller(self, number: u64, room: u64, chance: &mut Chance) -> String {
        match self {
            Self::Few => format!("i{}", chance.below((room / 2).max(1))),
            Self::Flood => format!("i{number}"),
            Self::LongNames => format!("{number:0>200}"),
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    calls: u64,
    refused: u64,
    subjects: usize,
    /// Thousandths of the budget.
    shares: Vec<u64>,
}

/// A table.
pub(super) fn add(all: &mut Promises) {
    let mut text = String::from(
        "| budget | callers | calls | refused for want of memory | subjects at the end | \
         of the budget: p50 | p99 | worst |\n|---|---|---|---|---|---|---|---|\n",
    );
    for budget in BUDGETS {
        for crowd in Crowd::ALL {
            let Some(seen) = measure(budget, crowd) else {
                all.broken.push(format!("memory: {} cannot be asked for", crowd.name()));
                continue;
            };
            let [p50, p99, worst] = spread(&seen.shares);
            if worst > 1_000 {
                all.broken.push(format!("memory: {worst} permille of {budget} bytes"));
            }
            let Seen { calls, refused, subjects, .. } = seen;
            let refused = percent(refused, calls);
            let _ = writeln!(
                text,
                "| {} KiB | {} | {calls} | {refused} | {subjects} | {} | {} | {} |",
                budget >> 10,
                crowd.name(),
                percent(p50, 1_000),
                percent(p99, 1_000),
                percent(worst, 1_000)
            );
        }
    }
    all.blocks.push(Block { name: "memory", text });
}

fn measure(budget: usize, crowd: Crowd) -> Option<Seen> {
    let options = Options::default().with_budget_bytes(budget).with_region();
    let room = options.subjects_max() as u64;
    let table = Table::new(options, Seed::from_bytes([3; 32]));
    let (mut chance, mut seen) = (Chance::new(budget as u64, crowd.name()), Seen::default());
    let (workspace, namespace) = (Part::new("w").ok()?, Part::new("n").ok()?);
    let window = Window::from_millis(60_000).ok()?;
    for number in 0..room * TIMES {
        let name = crowd.caller(number, room, &mut chance);
        let subject = Subject::new(workspace, namespace, Part::new(&name).ok()?, window);
        let request = Request::new(subject, Limit::new(100), Cost::ONE);
        // All of it within a minute and a half.
        let at_ms = number * 90_000 / (room * TIMES);
        let now = Now::new(START_MS + at_ms, 1_000_000 + at_ms);
        let _ = table.decide(&request, now);
        seen.calls += 1;
        if number % LOOK_EACH == 0 {
            let _ = table.sweep(now);
            seen.shares.push((table.accounted_bytes() as u64 * 1_000).div_ceil(budget as u64));
        }
    }
    seen.refused = table.counts().denied_memory;
    seen.subjects = table.subjects();
    seen.shares.sort_unstable();
    Some(seen)
}
