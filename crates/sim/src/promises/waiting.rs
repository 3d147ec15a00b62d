//! How long callers wait, and what a process takes with it when it is killed: the fleet of the
//! simulator, in virtual time.

use std::fmt::Write as _;

use tidegate_convergence::Tuning;
use tidegate_limiter::Consistency;

use super::{Block, Promises, percent};
use crate::chance::Chance;
use crate::fleet::{Fleet, FleetCheck, FleetOptions, Settled, Trouble, TroubleKind};
use crate::overshoot::spread;

/// An hour begins, so that nothing expires before it is looked at.
const START_MS: u64 = 1_700_002_800_000;
/// How long callers come, and how many in a second.
const LASTS_MS: u64 = 60_000;
const RATE: u64 = 200;
/// Subjects: twice the limit of each is asked for in a minute.
const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
const LIMIT: u64 = 500;
/// P-8: nobody waits longer.
const WAIT_MAX_US: u64 = 20_000;
/// Calls a second to who is killed, and how often it is.
const KILL_RATES: [u64; 3] = [10, 100, 1_000];
/// What is on its way to the store when a process is killed was admitted this much earlier.
const WAY_MS: u64 = 10;
/// After the last call: everything that lives has recorded what it knows.
const REST_MS: u64 = 8_000;

/// What is wrong while callers come.
fn settings() -> [(&'static str, FleetOptions); 6] {
    let whole = |kind| Trouble { kind, from_us: 0, for_us: LASTS_MS * 1_000 };
    let (region, near) = (0, FleetOptions { nodes: 3, ..FleetOptions::default() });
    let with = |kind| FleetOptions { troubles: vec![whole(kind)], ..near.clone() };
    let far = FleetOptions { store_latency_us: (4_000, 6_000), ..near.clone() };
    let world = FleetOptions { regions: 3, nodes: 2, ..near.clone() };
    let alone = FleetOptions { troubles: vec![whole(TroubleKind::GlobalAway)], ..world.clone() };
    [
        ("nothing; Redis is 0.2 to 3 ms away", near.clone()),
        ("nothing; Redis is 4 to 6 ms away", far),
        (
            "Redis keeps calls for up to 50 ms",
            with(TroubleKind::StoreSlow { region, by_us: 50_000 }),
        ),
        ("Redis is away", with(TroubleKind::StoreAway { region })),
        ("nothing; three regions", world),
        ("the database is away; three regions", alone),
    ]
}

/// A table of waits, and one of kills.
pub(super) fn add(all: &mut Promises, cells: u64) {
    let mut text = String::from(
        "| wrong | rule | callers | answered at once | waits p50 | p99 | worst |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for (wrong, options) in settings() {
        for consistency in [Consistency::Bounded, Consistency::Fast] {
            let waits = waits(FleetOptions { consistency, ..options.clone() });
            let at_once = waits.iter().filter(|waited_us| **waited_us == 0).count() as u64;
            let [p50, p99, worst] = spread(&waits);
            if worst > WAIT_MAX_US || waits.len() as u64 != RATE * LASTS_MS / 1_000 {
                all.broken.push(format!("{wrong}: a caller waits for {worst} us"));
            }
            let _ = writeln!(
                text,
                "| {wrong} | {} | {} | {} | {} | {} | {} |",
                rule(consistency),
                waits.len(),
                percent(at_once, waits.len() as u64),
                ms(p50),
                ms(p99),
                ms(worst)
            );
        }
    }
    all.blocks.push(Block { name: "waits", text });
    add_kills(all, (cells / 5).max(1));
}

const fn rule(consistency: Consistency) -> &'static str {
    match consistency {
        Consistency::Bounded => "bounded",
        _ => "fast",
    }
}

fn ms(us: u64) -> String {
    format!("{}.{} ms", us / 1_000, us % 1_000 / 100)
}

fn check(name: &str, (window_ms, limit, cost): (u64, u64, u64)) -> FleetCheck<'_> {
    FleetCheck { namespace: "n", name, window_ms, limit, cost }
}

/// How long each caller waited, the shortest first.
fn waits(options: FleetOptions) -> Vec<u64> {
    let mut fleet = Fleet::new(FleetOptions { start_unix_ms: START_MS, ..options });
    let mut chance = Chance::new(RATE, "waits");
    for number in 0..RATE * LASTS_MS / 1_000 {
        let name = chance.of(&NAMES).unwrap_or("a");
        let at_ms = START_MS + number * 1_000 / RATE;
        let _ = fleet.call(number, (at_ms, None), &[check(name, (60_000, LIMIT, 1))]);
    }
    let settled = settled(&mut fleet);
    let mut waits: Vec<u64> = settled.iter().map(|one| one.waited_us).collect();
    waits.sort_unstable();
    waits
}

fn settled(fleet: &mut Fleet) -> Vec<Settled> {
    fleet.finish();
    let mut settled = Vec::new();
    fleet.take_settled(&mut settled);
    settled
}

/// P-7: what a killed process takes with it is at most what it admitted while a replay waits, and
/// while one is on its way.
fn add_kills(all: &mut Promises, kills: u64) {
    let mut text = String::from(
        "| processes | rule | requests/s | kills | lost p50 | p99 | worst | at most |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let reach_ms = Tuning::default().replay_max_ms + WAY_MS;
    // One that is alone and says so, one that nobody knows of, and one in company.
    let rules = [(1, Consistency::Bounded), (1, Consistency::Fast), (2, Consistency::Bounded)];
    for (nodes, consistency) in rules {
        for rate in KILL_RATES {
            let most = (rate * reach_ms).div_ceil(1_000);
            let options = FleetOptions { nodes, consistency, ..FleetOptions::default() };
            let mut lost: Vec<u64> = (0..kills)
                .map(|seed| kill(FleetOptions { seed, ..options.clone() }, rate))
                .collect();
            lost.sort_unstable();
            let [p50, p99, worst] = spread(&lost);
            if worst > most {
                all.broken.push(format!("a kill at {rate} requests/s loses {worst} of {most}"));
            }
            let name = rule(consistency);
            let _ = writeln!(
                text,
                "| {nodes} | {name} | {rate} | {kills} | {p50} units | {p99} units | \
                 {worst} units | {most} units |"
            );
        }
    }
    all.blocks.push(Block { name: "killed", text });
}

/// What is lost when one process is killed at a time that the seed gives.
fn kill(options: FleetOptions, rate: u64) -> u64 {
    let mut chance = Chance::new(options.seed, "kill");
    // Between two calls, and back before the next.
    let from_us = chance.between(3_000, 9_000) * 1_000 + 300;
    let kind = TroubleKind::Kill { region: 0, node: 0 };
    let troubles = vec![Trouble { kind, from_us, for_us: 200 }];
    let mut fleet = Fleet::new(FleetOptions { start_unix_ms: START_MS, troubles, ..options });
    let (window_ms, limit, calls) = (3_600_000, 1_000_000, rate * 12);
    for number in 0..calls {
        let at_ms = START_MS + number * 1_000 / rate;
        let _ = fleet.call(number, (at_ms, None), &[check("a", (window_ms, limit, 1))]);
    }
    // One that takes nothing: time passes until it comes.
    let last_ms = START_MS + 12_000 + REST_MS;
    let _ = fleet.call(calls, (last_ms, None), &[check("a", (window_ms, limit, 0))]);
    let settled = settled(&mut fleet);
    let admitted = settled.iter().filter(|one| one.admitted && one.number < calls).count() as u64;
    admitted.saturating_sub(fleet.recorded().iter().sum())
}
