//! Oracles that no planted mistake ends in, because another one sees it first: each is shown what
//! it must not let pass.

use tidegate_convergence::{Batch, Counter, GlobalCall, RegionNumber, Tuning, pack};
use tidegate_limiter::Decision;

use crate::abroad::Errand;
use crate::fault::Faults;
use crate::ghost::Ghost;
use crate::node::{Ask, Caller, Process, START_MS};
use crate::options::{Kind, Options};
use crate::shape::Shape;
use crate::world::World;

const LIMIT: u64 = 100;
const WINDOW_MS: u64 = 60_000;
const OWN: RegionNumber = RegionNumber(7);

/// Two regions of one node each, in which nothing has happened yet.
fn world() -> (World, Process) {
    let options = Options {
        shape: Shape::dealt(2, 2),
        private: false,
        shards: 1,
        kinds: vec![Kind { window_ms: WINDOW_MS, limit: LIMIT, bounded_percent: 0 }],
        table_bytes: 1 << 18,
        tuning: Tuning::default(),
        late_readings: true,
        faults: Faults::default(),
        ..Options::of(0)
    };
    let mut process = Process::new(&options, 0, (0, 0), options.tuning);
    let mut world = World::new(options);
    world.named(&mut process, OWN);
    world.database.as_mut().unwrap().holders.insert(OWN, 0);
    (world, process)
}

/// A world with a subject that the process serves.
fn served() -> (World, Process, u64) {
    let (world, mut process) = world();
    let ghost = Ghost::new(1, WINDOW_MS, world.reading(&process));
    let sequence = ghost.sequence;
    process.ghosts.insert(0, ghost);
    (world, process, sequence)
}

fn ask() -> Ask {
    Ask { limit: LIMIT, cost: 1, ..Ask::look(0) }
}

fn seen(world: &World) -> Option<&'static str> {
    world.report.broken.as_ref().map(|broken| broken.oracle)
}

/// What an oracle says to a row.
fn published(counters: Vec<Counter>, region: RegionNumber) -> Option<&'static str> {
    let (mut world, process) = world();
    let (payload, expires_ms) = pack(counters).pop().unwrap_or_default();
    let (repeats, nonce, written_ms) = (false, 1, START_MS);
    let batch = Batch { region, repeats, nonce, written_ms, expires_ms, payload };
    world.check_errand(&process, &Errand::Global(GlobalCall::Publish(batch)));
    seen(&world)
}

#[test]
fn overshoot_in_a_cell_is_seen() {
    let (mut world, _) = world();
    world.homes.at_mut(0).truth.charge((0, 1), (0, 0), LIMIT + 1, LIMIT);
    world.explain_home(0);
    assert_eq!(seen(&world), Some("overshoot"));
}

#[test]
fn overshoot_of_one_who_knows_better_is_seen() {
    let (mut world, mut process, sequence) = served();
    world.homes.at_mut(0).truth.charge((0, sequence), (0, 0), LIMIT + 5, LIMIT);
    process.ghosts.get_mut(&0).unwrap().current.mine = LIMIT + 5;
    let reading = world.reading(&process);
    world.account(&mut process, ask(), reading);
    assert_eq!(seen(&world), Some("overshoot"));
}

#[test]
fn what_was_told_and_not_heard_is_seen() {
    let (mut world, mut process, sequence) = served();
    process.ghosts.get_mut(&0).unwrap().adopted = true;
    let reading = world.reading(&process);
    world.account(&mut process, ask(), reading);
    assert_eq!(seen(&world), None, "nothing was told");
    let other = RegionNumber(8);
    process.abroad.as_mut().unwrap().raise((0, sequence), other, 3);
    world.account(&mut process, ask(), reading);
    assert_eq!(seen(&world), Some("unheeded"));
}

#[test]
fn rows_in_a_quiet_time_are_seen() {
    let (mut world, _) = world();
    let before = world.rows_and_names();
    world.check_silent(before);
    assert_eq!(seen(&world), None);
    world.database.as_mut().unwrap().rows += 1;
    world.database.as_mut().unwrap().namings += 1;
    world.check_silent(before);
    assert_eq!(seen(&world), None, "who has just been named speaks for the first time");
    world.database.as_mut().unwrap().namings -= 1;
    world.check_silent(before);
    assert_eq!(seen(&world), Some("feedback"));
}

#[test]
fn a_refusal_without_need_is_seen() {
    let (mut world, process) = world();
    world.check_refused(&process);
    assert_eq!(seen(&world), Some("refused"));
}

#[test]
fn a_change_of_mind_after_a_refusal_is_seen() {
    let (mut world, process, _) = served();
    let mut caller = Caller::new(vec![ask()], false, world.reading(&process), 0);
    world.check_refused_twice(&process, &caller, true);
    assert_eq!(seen(&world), None, "nobody refused it");
    caller.refused = process.ghosts.get(&0).map(|ghost| ghost.turn);
    world.check_refused_twice(&process, &caller, true);
    assert_eq!(seen(&world), Some("refusal"));
}

#[test]
fn who_has_no_name_and_speaks_is_seen() {
    let (mut world, process) = world();
    world.database.as_mut().unwrap().holders.clear();
    let (up_to, written_before_ms, rows_max) = (1, 1, 1);
    let trim = GlobalCall::Trim { region: OWN, up_to, written_before_ms, rows_max };
    world.check_errand(&process, &Errand::Global(trim));
    assert_eq!(seen(&world), Some("namesake"));
}

/// A claim that nobody ends, and no ghost knows of.
#[test]
fn what_stays_claimed_is_seen() {
    let (mut world, mut process) = world();
    let reading = world.reading(&process);
    let specs = std::sync::Arc::clone(&world.specs);
    let request = specs.first().unwrap().request(Ask { bounded: true, ..ask() }).unwrap();
    let decision = process.table.decide_or_refresh(&request, reading.into());
    let Decision::Ask(asking) = decision else { panic!("{decision:?}") };
    world.seat(&mut process, 0, reading);
    assert!(process.ghosts.contains_key(&0));
    process.table.release(asking);
    world.check_unclaimed(&mut process);
    assert_eq!(seen(&world), None, "it was given back");
    let decision = process.table.decide_or_refresh(&request, reading.into());
    let Decision::Ask(asking) = decision else { panic!("{decision:?}") };
    world.check_unclaimed(&mut process);
    assert_eq!(seen(&world), Some("claims"));
    process.table.release(asking);
}

#[test]
fn rows_that_say_nothing_or_nothing_of_use_are_seen() {
    let (world, _) = world();
    let subject = world.specs.first().unwrap().digest;
    let (window_ms, sequence) = (WINDOW_MS, START_MS / WINDOW_MS);
    let counter = Counter { window_ms, sequence, subject, count: 1 };
    assert_eq!(published(Vec::new(), OWN), Some("payload"));
    assert_eq!(published(vec![counter], RegionNumber(8)), Some("own rows"));
    let over = Counter { sequence: sequence - 3, ..counter };
    assert_eq!(published(vec![over], OWN), Some("useless"));
}

#[test]
fn rows_that_are_deleted_too_soon_are_seen() {
    let (mut world, _) = world();
    let subject = world.specs.first().unwrap().digest;
    let cell = (subject, WINDOW_MS, START_MS / WINDOW_MS + 10, OWN);
    world.feed_before.insert(cell, 3);
    let (up_to, written_before_ms, rows_max) = (1, 1, 1);
    let trim = GlobalCall::Trim { region: OWN, up_to, written_before_ms, rows_max };
    world.check_deleted(&trim, false);
    assert_eq!(seen(&world), Some("trimmed"));
}
