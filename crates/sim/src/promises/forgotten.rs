//! Who is refused and who is forgotten when memory is short, and how much that lets somebody use.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use tidegate_limiter::{Answer, Cost, Decision, Denial, Limit, Now};
use tidegate_limiter::{Options, Part, Request, Seed, Subject, Table, Window};

use super::{Block, Promises, percent};
use crate::chance::Chance;
use crate::node::START_MS;
use crate::overshoot::part;

/// Small enough to be filled many times over.
const BUDGET_BYTES: usize = 1 << 20;
/// Calls for each subject that there is room for, within a minute and a half: enough for everybody
/// to be forgotten and to come back.
const TIMES: u64 = 32;
const LASTS_MS: u64 = 90_000;
const WINDOW_MS: u64 = 60_000;
/// A small limit, that is used up by few calls.
const LIMIT: u64 = 4;
/// How long a view is fresh that the region was asked for.
const FRESH_MS: u64 = 5_000;

/// What is behind a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Store {
    /// Nothing: one process by itself.
    Nothing,
    /// A Redis that records everything at once, and is asked about who comes back.
    Records,
    /// A Redis that is away: nothing is recorded.
    Away,
}

impl Store {
    const ALL: [Self; 3] = [Self::Nothing, Self::Records, Self::Away];

    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "none",
            Self::Records => "answers",
            Self::Away => "is away",
        }
    }
}

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Crowd {
    /// Half as many as there is room for.
    Fits,
    /// More than there is room for.
    Crowded,
    /// As many as there is room for, who use up all their limits, and another workspace whose
    /// callers are new.
    Loud,
}

impl Crowd {
    const ALL: [Self; 3] = [Self::Fits, Self::Crowded, Self::Loud];

    const fn name(self) -> &'static str {
        match self {
            Self::Fits => "half as many as there is room for, again and again",
            Self::Crowded => "four times as many as there is room for, again and again",
            Self::Loud => "as many as there is room for, and a workspace of newcomers",
        }
    }

    /// The workspace and the name of the next.
    fn caller(self, number: u64, room: u64, chance: &mut Chance) -> (&'static str, u64) {
        match self {
            Self::Fits => ("loud", chance.below((room / 2).max(1))),
            Self::Crowded => ("loud", chance.below(room * 4)),
            // The newcomers come when the others have used their limits for a while.
            Self::Loud if number > room * TIMES / 4 && number.is_multiple_of(8) => {
                ("quiet", number)
            }
            Self::Loud => ("loud", chance.below(room)),
        }
    }
}

/// What was admitted to each cell: the workspace, the caller and the number of the window.
type Admitted = BTreeMap<(&'static str, u64, u64), u64>;

#[derive(Debug, Default)]
struct Seen {
    calls: u64,
    refused: u64,
    forgotten: u64,
    /// The most that was admitted to a cell, in thousandths of the limit.
    most_permille: u64,
}

/// A table.
pub(super) fn add(all: &mut Promises) {
    let mut text = String::from(
        "| Redis | callers | calls | refused for want of memory | subjects forgotten that counted \
         | most admitted to a cell |\n|---|---|---|---|---|---|\n",
    );
    for store in Store::ALL {
        for crowd in Crowd::ALL {
            let Some(seen) = measure(store, crowd) else {
                all.broken.push(format!("memory: {} cannot be asked for", crowd.name()));
                continue;
            };
            let Seen { calls, refused, forgotten, most_permille } = seen;
            // P-1: what is forgotten is in Redis, if there is one.
            let exact = store != Store::Nothing || forgotten == 0;
            if exact && most_permille > 1_000 {
                all.broken.push(format!("memory: {store:?}, {crowd:?}: {most_permille} permille"));
            }
            let (refused, most) = (percent(refused, calls), part(most_permille));
            let _ = writeln!(
                text,
                "| {} | {} | {calls} | {refused} | {forgotten} | {most} L |",
                store.name(),
                crowd.name()
            );
        }
    }
    all.blocks.push(Block { name: "forgotten", text });
}

fn measure(store: Store, crowd: Crowd) -> Option<Seen> {
    let options = Options::default().with_budget_bytes(BUDGET_BYTES);
    let options = if store == Store::Nothing { options } else { options.with_region() };
    let room = options.subjects_max() as u64;
    let table = Table::new(options, Seed::from_bytes([3; 32]));
    let mut chance = Chance::new(room, crowd.name());
    let (mut seen, mut admitted) = (Seen::default(), Admitted::new());
    for number in 0..room * TIMES {
        let (workspace, caller) = crowd.caller(number, room, &mut chance);
        let name = format!("i{caller}");
        let (owner, id) = (Part::new(workspace).ok()?, Part::new(&name).ok()?);
        let subject = Subject::new(owner, owner, id, Window::from_millis(WINDOW_MS).ok()?);
        let at_ms = number * LASTS_MS / (room * TIMES);
        let now = Now::new(START_MS + at_ms, 1_000_000 + at_ms);
        let request = Request::new(subject, Limit::new(LIMIT), Cost::ONE);
        let cell = |back: u64| (workspace, caller, now.unix_ms() / WINDOW_MS - back);
        let held = [cell(0), cell(1)].map(|cell| admitted.get(&cell).copied().unwrap_or(0));
        let answer = match store {
            Store::Records => decide_recorded(&table, &request, held, now)?,
            Store::Nothing | Store::Away => table.decide(&request, now),
        };
        seen.calls += 1;
        seen.refused += u64::from(answer.denial() == Some(Denial::Memory));
        if answer.admitted() {
            let total = admitted.entry(cell(0)).or_default();
            *total += 1;
            seen.most_permille = seen.most_permille.max(*total * 1_000 / LIMIT);
        }
    }
    seen.forgotten = table.counts().subjects_evicted;
    Some(seen)
}

/// Decides with a region that holds this much of both cells, and records what is admitted.
fn decide_recorded(
    table: &Table,
    request: &Request<'_>,
    held: [u64; 2],
    now: Now,
) -> Option<Answer> {
    let answer = match table.decide_or_refresh(request, now) {
        Decision::Answered(answer) => answer,
        Decision::Refresh(need) => {
            let cells = table.cells(need.subject)?;
            for (cell, sum) in [cells.current, cells.previous].into_iter().zip(held) {
                cell.observe_region(sum, cell.acked());
                cell.mark_fresh_until_ms(now.monotonic_ms() + FRESH_MS);
            }
            table.decide_refreshed(request, true, now)
        }
        // Only the bounded rule asks.
        Decision::Ask(_) => return None,
    };
    let mut noted = Vec::new();
    table.take_noted(&mut noted);
    for cells in noted.into_iter().filter_map(|subject| table.cells(subject)) {
        let all = [cells.current, cells.previous];
        all.iter().for_each(|cell| {
            cell.acknowledge(cell.mine());
        });
    }
    Some(answer)
}
