//! Small worlds of two regions, step by step.

use tidegate_convergence::{RegionName, RegionNumber, unpack};

use super::database::Database;
use crate::decide::Stage;
use crate::fault::Faults;
use crate::node::{Ask, Caller};
use crate::options::{Kind, Options, Traffic};
use crate::shape::Shape;
use crate::world::World;

const LIMIT: u64 = 100;
const WINDOW_MS: u64 = 60_000;

/// Two regions of one node each, where nothing happens by itself.
fn world() -> World {
    world_of(WINDOW_MS)
}

fn world_of(window_ms: u64) -> World {
    let options = Options {
        shape: Shape::dealt(2, 2),
        regions_max: 2,
        private: false,
        shards: 1,
        kinds: vec![Kind { window_ms, limit: LIMIT, bounded_percent: 0 }],
        requests: 0,
        traffic: Traffic::Steady,
        latency_us: (200, 800),
        table_bytes: 1 << 18,
        tuning: tidegate_convergence::Tuning::default(),
        globe: tidegate_convergence::GlobeTuning::default(),
        late_readings: false,
        faults: Faults::default(),
        ..Options::of(0)
    };
    let mut world = World::new(options);
    for node in 0..2 {
        world.start(node);
    }
    world.run_until(3_000_000);
    world
}

/// Asks a node, and says whether it admits; within the deadline of a request.
fn ask(world: &mut World, node: usize, cost: u64) -> bool {
    let number = world.nodes[node].process.as_ref().unwrap().number;
    let (admitted, denied) = (world.report.admitted, world.report.denied);
    world.with_process(node, number, |world, process| {
        let deadline_us = world.now_us + world.tuning.deadline_ms * 1_000;
        let asks = vec![Ask { limit: LIMIT, cost, ..Ask::look(0) }];
        let caller = Caller::new(asks, false, world.reading(process), deadline_us);
        world.decide(process, caller, Stage::First);
        world.pump(process);
    });
    world.run_until(world.now_us + world.tuning.deadline_ms * 1_000 + 1_000);
    assert_eq!(world.report.broken, None);
    let answers = (world.report.admitted - admitted, world.report.denied - denied);
    assert!([(1, 0), (0, 1)].contains(&answers), "answered in time: {answers:?}");
    answers == (1, 0)
}

fn wait(world: &mut World, ms: u64) {
    world.run_until(world.now_us + ms * 1_000);
    assert_eq!(world.report.broken, None);
}

fn until(world: &mut World, ms: u64) {
    wait(world, ms - world.now_ms());
}

/// What is published of the window that begins at this moment of the run.
fn published(world: &World, begins_ms: u64) -> u64 {
    let sequence = (crate::node::START_MS + begins_ms) / WINDOW_MS;
    let rows = world.database.as_ref().unwrap().memory.rows().values();
    let counters = rows.flat_map(|row| unpack(&row.payload).unwrap());
    counters.filter(|c| c.sequence == sequence).map(|c| c.count).max().unwrap_or(0)
}

#[test]
fn what_one_region_uses_the_other_counts() {
    let mut world = world();
    assert!(ask(&mut world, 0, 80));
    wait(&mut world, 5_000);
    assert!(!ask(&mut world, 1, 30) && ask(&mut world, 1, 20));
}

/// The first of the RFC's ways to block a subject everywhere by being denied somewhere.
#[test]
fn an_oversized_request_costs_nothing_elsewhere() {
    let mut world = world();
    assert!(!ask(&mut world, 0, LIMIT + 1), "cold, and too much for any window");
    wait(&mut world, 10_000);
    assert_eq!(published(&world, 0), 0);
    assert!(ask(&mut world, 1, LIMIT), "all of it is there");
}

/// The second.
#[test]
fn a_denial_by_the_previous_window_costs_nothing_elsewhere() {
    let mut world = world();
    assert!(ask(&mut world, 0, LIMIT));
    let begins_ms = WINDOW_MS;
    let since_ms = world.now_ms();
    wait(&mut world, begins_ms + 6_000 - since_ms);
    assert_eq!(published(&world, 0), LIMIT);
    // A tenth of the window is over: of the last one 90 still count.
    assert!(!ask(&mut world, 0, 20));
    wait(&mut world, 5_000);
    assert_eq!(published(&world, begins_ms), 0, "what was denied is nowhere");
    assert!(ask(&mut world, 1, 10), "what the last window leaves is there");
}

#[test]
fn no_request_waits_for_the_global_store() {
    let mut world = world();
    world.database.as_mut().unwrap().away_until_us = u64::MAX;
    for _ in 0..10 {
        assert!(ask(&mut world, 0, 10) && ask(&mut world, 1, 10), "INV-23");
        wait(&mut world, 1_000);
    }
    assert!(!ask(&mut world, 0, 1), "its own region it knows");
}

#[test]
fn short_windows_stay_in_their_region() {
    let mut world = world_of(30_000);
    assert!(ask(&mut world, 0, LIMIT));
    wait(&mut world, 6_000);
    assert!(ask(&mut world, 1, LIMIT));
    assert!(world.database.as_ref().unwrap().memory.rows().is_empty());
}

/// What a failover lost, and who may not tell it again: only one whose name another region has.
#[test]
fn a_region_that_has_its_name_tells_again_what_was_lost() {
    let mut world = world();
    assert!(ask(&mut world, 0, 40));
    wait(&mut world, 5_000);
    let standby = world.database.as_ref().unwrap().memory.replica();
    assert!(ask(&mut world, 0, 40));
    wait(&mut world, 5_000);
    // It does not hear of the failover, so it does not tell again.
    world.nodes[0].severed_until_us = u64::MAX;
    world.database.as_mut().unwrap().fail_over(standby);
    let missed = |world: &World| {
        let maxima = world.database.as_ref().unwrap().maxima();
        let process = world.nodes[1].process.as_ref().unwrap();
        world.missed(process.abroad.as_ref().unwrap(), &maxima)
    };
    let what = missed(&world).expect("told 80, in the feed 40");
    assert!(what.contains("told 80") && what.ends_with("in the feed 40"), "{what}");
    let number = world.nodes[0].process.as_ref().unwrap().abroad.as_ref().unwrap().own.unwrap();
    let (name, now_ms) = (RegionName::new("region-0").unwrap(), world.now_ms());
    let database = world.database.as_mut().unwrap();
    database.hold((&name, 1), RegionNumber(7), now_ms);
    assert_eq!(missed(&world), None, "another has its name");
    world.database.as_mut().unwrap().hold((&name, 0), number, now_ms);
    assert!(missed(&world).is_some(), "it has its name again");
}

/// A total that no failover lost is excused by nothing but a clock that is ahead.
#[test]
fn what_no_failover_lost_is_missed() {
    let mut world = world();
    let standby = world.database.as_ref().unwrap().memory.replica();
    assert!(ask(&mut world, 0, 80));
    wait(&mut world, 5_000);
    let (name, now_ms) = (RegionName::new("region-0").unwrap(), world.now_ms());
    let database = world.database.as_mut().unwrap();
    database.hold((&name, 1), RegionNumber(7), now_ms);
    // The rows are gone, as if somebody had deleted them.
    database.memory = standby;
    let maxima = database.maxima();
    let missed = |world: &World| {
        let abroad = world.nodes[1].process.as_ref().unwrap().abroad.as_ref().unwrap();
        world.missed(abroad, &maxima).is_some()
    };
    assert!(missed(&world));
    // Who deleted them may have taken the window, and the next one, as over.
    let number = world.nodes[0].process.as_ref().unwrap().abroad.as_ref().unwrap().own.unwrap();
    let ends_ms = (crate::node::START_MS / WINDOW_MS + 2) * WINDOW_MS;
    world.database.as_mut().unwrap().trimmed(number, ends_ms - 1);
    assert!(missed(&world));
    world.database.as_mut().unwrap().trimmed(number, ends_ms);
    assert!(!missed(&world));
}

/// What the store of a region holds again excuses only who looked when it did not, since the loss.
#[test]
fn who_has_not_looked_since_a_loss_has_found_nothing() {
    let mut world = world();
    let standby = world.database.as_ref().unwrap().memory.replica();
    assert!(ask(&mut world, 0, 80));
    wait(&mut world, 5_000);
    let who = world.nodes[0].process.as_ref().unwrap().number;
    let database = world.database.as_mut().unwrap();
    let cell = *database.published.keys().next().unwrap();
    assert!(!database.has_found_no_more(who, cell, 79), "it found and published 80");
    assert!(database.has_found_no_more(who, cell, 80));
    assert!(!database.has_found_no_more(who + 1, cell, 80), "the other has not looked");
    database.fail_over(standby);
    assert!(!database.has_found_no_more(who, cell, 80), "not since then");
}

/// What is written in place of a repetition is excused to who has missed rows, and once.
#[test]
fn what_was_in_the_feed_is_excused_once_after_a_loss() {
    let mut world = world();
    let standby = world.database.as_ref().unwrap().memory.replica();
    assert!(ask(&mut world, 0, 80));
    wait(&mut world, 5_000);
    let (reader, stranger) = (world.nodes[0].process.as_ref().unwrap().number, 9);
    let database = world.database.as_mut().unwrap();
    let said = database.memory.rows().values().next().unwrap().clone();
    let write = |database: &mut Database, writer: u32| {
        let (before, id) = (database.rows, database.memory.begin());
        database.commit(writer, id, said.clone());
        database.rows - before
    };
    assert_eq!(write(database, reader), 1, "nothing was lost");
    database.fail_over(standby);
    assert_eq!(write(database, stranger), 1, "it had read nothing");
    assert_eq!([write(database, reader), write(database, reader)], [0, 1]);
    database.read_by(reader, true);
    database.published.clear();
    assert_eq!(write(database, reader), 1, "it was never in the feed");
}

/// What became worth saying because a window turned is said by who looks next.
#[test]
fn what_only_a_turn_makes_due_is_not_hidden() {
    let mut world = world();
    assert!(ask(&mut world, 0, 60));
    until(&mut world, WINDOW_MS);
    assert!(ask(&mut world, 0, 20), "less than what it has said counts");
    until(&mut world, 2 * WINDOW_MS);
    assert!(ask(&mut world, 0, 0));
    wait(&mut world, 5_000);
    assert_eq!([0, WINDOW_MS].map(|begins_ms| published(&world, begins_ms)), [60, 0]);
    let hidden = |world: &World| {
        let process = world.nodes[0].process.as_ref().unwrap();
        let own = process.abroad.as_ref().unwrap().own.unwrap();
        world.all_hidden(process, own, &world.database.as_ref().unwrap().maxima()).len()
    };
    assert_eq!(hidden(&world), 0);
    let ever = std::mem::take(&mut world.database.as_mut().unwrap().published);
    assert_eq!(hidden(&world), 1, "it had said nothing, so it was due before");
    world.database.as_mut().unwrap().published = ever;
    let ghosts = &mut world.nodes[0].process.as_mut().unwrap().ghosts;
    ghosts.get_mut(&0).unwrap().current.confirmed = 1;
    assert_eq!(hidden(&world), 1, "it has looked");
}
