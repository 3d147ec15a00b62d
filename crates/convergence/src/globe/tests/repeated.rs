//! Repetitions that a store acknowledges and loses.

use super::*;

/// Repeats as soon as something can be deleted.
fn tuning() -> GlobeTuning {
    GlobeTuning { repeat_counters_min: 1, repeat_times: 0, ..GlobeTuning::default() }
}

/// Two regions. The first has written what it repeats, and has not heard of it nor read it. Says
/// what a replica has that knows nothing of it.
fn repeat() -> (World, MemoryGlobe) {
    let mut world = World::tuned(&[1, 1], tuning());
    assert!(world.check(0, &long(600)).admitted());
    world.run_ms(90_000);
    assert!(world.check(1, &request_of("other", (1_000, 100), HOUR_MS)).admitted());
    world.run_ms(8_000);
    world.held = Some(Vec::new());
    let (written, read) = (world.counts(0).published, world.counts(0).imported_rows);
    let mut standby = world.globe.clone();
    for _ in 0..400_000 {
        if world.held.iter().flatten().any(|(at, ..)| *at == 0) {
            break;
        }
        standby = world.globe.clone();
        world.run_ms(1);
    }
    assert_eq!(world.globe.rows().len(), standby.rows().len() + 1);
    assert_eq!(world.counts(0).published, written, "it is a repetition");
    assert_eq!(world.counts(0).imported_rows, read, "it is not read");
    (world, standby)
}

/// The first region hears that it is written.
fn acknowledge(world: &mut World) {
    for (at, id, reply) in world.held.take().unwrap() {
        let (now, Process { table, globe, .. }) = (world.now, &mut world.processes[at]);
        globe.global_replied(table, id, Ok(reply), now);
    }
}

/// What one who starts in the second region finds left of the first one's limit.
fn left(world: &mut World) -> u64 {
    world.run_ms(20_000);
    let fresh = world.add(1, "region-1", tuning());
    world.run_ms(10_000);
    world.check(fresh, &long(0)).remaining()
}

#[test]
fn what_a_lost_repetition_said_is_not_deleted() {
    let (mut world, standby) = repeat();
    world.globe = standby;
    acknowledge(&mut world);
    assert_eq!(left(&mut world), 400);
}

/// What it repeated is deleted all the same, by a call that arrives after the failover.
#[test]
fn a_repetition_that_is_lost_after_it_was_read_is_missed() {
    let (mut world, mut standby) = repeat();
    acknowledge(&mut world);
    while world.counts(0).trimmed_rows == 0 {
        world.run_ms(1);
    }
    let trims = |call: &&GlobalCall| matches!(call, GlobalCall::Trim { .. });
    let trim = world.calls.iter().rfind(trims).unwrap();
    standby.call(trim, world.now.unix_ms()).unwrap();
    assert_eq!(standby.rows().len(), 1, "only the other region's");
    world.globe = standby;
    assert_eq!(left(&mut world), 400);
}

#[test]
fn after_a_lost_repetition_there_is_another() {
    let (mut world, standby) = repeat();
    world.globe = standby;
    acknowledge(&mut world);
    world.run_ms(20_000);
    let trimmed = world.counts(0).trimmed_rows;
    assert!(world.check(0, &request_of("more", (1_000, 100), HOUR_MS)).admitted());
    world.run_ms(400_000);
    assert!(world.counts(0).trimmed_rows > trimmed, "{:?}", world.counts(0));
}
