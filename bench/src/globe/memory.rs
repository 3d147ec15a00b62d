//! What a process remembers of cells that it does not serve.

use std::process::Command;

use tidegate_convergence::{
    Batch, BoardReply, Counter, GlobalCall, GlobalReply, Globe, GlobeEffect, GlobeOptions,
    GlobeTuning, RegionName, RegionNumber, Row, pack,
};
use tidegate_limiter::{Digest, Now, Options, Seed, Table};

use super::chance::Chance;
use crate::Failure;
use crate::figures::{Figures, ratio, three_digits};
use crate::machine::resident_bytes;

/// Cells that are heard of.
const CELLS: usize = 200_000;
/// As many as our leaders put into a row when they have much to say.
const CELLS_PER_ROW: usize = 500;
/// Of every twenty cells one is used in two regions.
const SHARED_EVERY: usize = 20;
const START_UNIX_MS: u64 = 1_700_000_040_000;
/// A day: no window ends meanwhile.
const WINDOW_MS: u64 = 86_400_000;

/// Arguments of the probe.
#[derive(clap::Args)]
pub(crate) struct ProbeArgs {
    /// Cells.
    #[arg(long)]
    cells: usize,
}

/// Starts a fresh process that hears of many cells, and reads what it says.
pub(crate) fn run(smoke: bool, figures: &mut Figures) -> Result<(), Failure> {
    let cells = if smoke { CELLS / 100 } else { CELLS };
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["globe-memory-probe", "--cells", &cells.to_string()]);
    let output = command.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let bytes: f64 = text.trim().parse().map_err(|_| format!("the probe said {text:?}"))?;
    let each = ratio(bytes, cells as f64);
    figures.add("memory", "tidegate", each, "bytes/cell that is not served");
    let measured = format!("{} bytes", three_digits(each));
    figures.target("memory", "<= 64 bytes".to_owned(), measured, each <= 64.0);
    Ok(())
}

/// The fresh process: prints how much larger it became.
pub(crate) fn probe(args: &ProbeArgs) -> Result<std::process::ExitCode, Failure> {
    let (mut globe, table) = registered()?;
    // What it takes to take in the first rows is not what a cell takes.
    hear(&mut globe, &table, 0..CELLS_PER_ROW)?;
    let before = resident_bytes().ok_or("no /proc")?;
    hear(&mut globe, &table, CELLS_PER_ROW..CELLS_PER_ROW + args.cells)?;
    let after = resident_bytes().ok_or("no /proc")?;
    let known = globe.counts(now(0)).values;
    if known != (CELLS_PER_ROW + args.cells) as u64 {
        return Err(format!("it knows of {known} cells").into());
    }
    println!("{}", after.saturating_sub(before));
    Ok(std::process::ExitCode::SUCCESS)
}

const fn now(after_ms: u64) -> Now {
    Now::new(START_UNIX_MS + after_ms, after_ms)
}

/// A process whose region has its name.
fn registered() -> Result<(Globe, Table), Failure> {
    let options = Options::default().with_budget_bytes(1 << 20).with_region();
    let table = Table::new(options, Seed::from_bytes([7; 32]));
    let options = GlobeOptions { name: RegionName::new("eu")?, regions_max: 10, private: false };
    let mut globe = Globe::new(GlobeTuning::default(), options, 7, 1);
    globe.tick(&table, now(0));
    let mut effects = Vec::new();
    globe.take_effects(&mut effects);
    for effect in std::mem::take(&mut effects) {
        if let GlobeEffect::Board { id, call, .. } = effect {
            let reply = BoardReply {
                identity: call.identity,
                leads: false,
                taken: Vec::new(),
                due_in_ms: None,
            };
            globe.board_replied(&table, id, Ok(reply), now(0));
        }
    }
    globe.tick(&table, now(1));
    globe.take_effects(&mut effects);
    for effect in effects {
        if let GlobeEffect::Global { id, call: GlobalCall::Register { .. }, .. } = effect {
            let reply = GlobalReply::Registered { regions: 10 };
            globe.global_replied(&table, id, Ok(reply), now(1));
        }
    }
    Ok((globe, table))
}

/// Lets it import these cells, each published by another region, some by two.
fn hear(globe: &mut Globe, table: &Table, cells: std::ops::Range<usize>) -> Result<(), Failure> {
    let mut numbers = cells.clone();
    let mut id = cells.start as u64;
    let mut after_ms = 10_000 + id;
    while !numbers.is_empty() {
        let some: Vec<usize> = numbers.by_ref().take(CELLS_PER_ROW).collect();
        let shared: Vec<usize> = some.iter().copied().filter(|at| at % SHARED_EVERY == 0).collect();
        let mut rows = Vec::new();
        for (region, cells) in [(2, some), (3, shared)] {
            id += 1;
            rows.push(row(id, RegionNumber(region), &cells)?);
        }
        answer(globe, table, (rows, &mut after_ms))?;
    }
    // What was read is taken in in steps.
    for _ in 0..CELLS_PER_ROW {
        globe.tick(table, now(after_ms));
    }
    Ok(())
}

fn answer(
    globe: &mut Globe,
    table: &Table,
    (rows, after_ms): (Vec<Row>, &mut u64),
) -> Result<(), Failure> {
    for _ in 0..10_000 {
        globe.tick(table, now(*after_ms));
        let mut effects = Vec::new();
        globe.take_effects(&mut effects);
        for effect in effects {
            match effect {
                GlobeEffect::Global { id, call: GlobalCall::Import(import), .. } => {
                    let mut all = vec![Row { id: import.from, ..anchor(&rows)? }];
                    all.extend(rows);
                    globe.global_replied(table, id, Ok(GlobalReply::Imported(all)), now(*after_ms));
                    return Ok(());
                }
                GlobeEffect::Board { id, call, .. } => {
                    let identity = call.identity;
                    let (leads, taken, due_in_ms) = (false, Vec::new(), None);
                    let reply = BoardReply { identity, leads, taken, due_in_ms };
                    globe.board_replied(table, id, Ok(reply), now(*after_ms));
                }
                _ => {}
            }
        }
        *after_ms += 5;
    }
    Err("it does not import".into())
}

/// The row that was read last: all rows here have the same nonce.
fn anchor(rows: &[Row]) -> Result<Row, Failure> {
    let first = rows.first().ok_or("no rows")?;
    let batch = Batch { payload: Vec::new(), ..first.batch.clone() };
    Ok(Row { id: first.id, batch })
}

fn row(id: u64, region: RegionNumber, cells: &[usize]) -> Result<Row, Failure> {
    let sequence = START_UNIX_MS / WINDOW_MS;
    let counters = cells.iter().map(|cell| {
        let mut chance = Chance::new(*cell as u64);
        let word = u128::from(chance.roll()) << 64 | u128::from(chance.roll());
        let subject = Digest::from_bytes(word.to_be_bytes());
        Counter { window_ms: WINDOW_MS, sequence, subject, count: 25 }
    });
    let (payload, expires_ms) = pack(counters.collect()).pop().ok_or("no cells")?;
    let written_ms = START_UNIX_MS;
    let batch = Batch { region, repeats: false, nonce: 1, written_ms, expires_ms, payload };
    Ok(Row { id, batch })
}
