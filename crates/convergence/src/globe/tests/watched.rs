//! Rows that a store loses although later ones are still there.

use super::feed::row;
use super::*;

/// The second region has published, the first is about to. Says what the feed is then.
fn begin(world: &mut World) -> MemoryGlobe {
    assert!(world.check(1, &request_of("other", (1_000, 100), HOUR_MS)).admitted());
    world.run_ms(8_000);
    world.processes[1].cut_off = true;
    assert!(world.check(0, &long(600)).admitted());
    world.globe.clone()
}

/// The first region publishes its total.
fn publish(world: &mut World) {
    let published = world.counts(0).published;
    for _ in 0..10_000 {
        if world.counts(0).published > published {
            return;
        }
        world.run_ms(1);
    }
    panic!("nothing was published: {:?}", world.counts(0));
}

/// So many rows of a third region are written.
fn others(world: &World, globe: &mut MemoryGlobe, rows: u64) {
    for n in 0..rows {
        let id = globe.begin();
        globe.commit(id, row(world, 9, 10 + n));
    }
}

/// Another primary takes over. Both regions must know everything afterwards.
fn fail_over(world: &mut World, standby: MemoryGlobe) {
    assert_eq!(world.processes[0].globe.values.own_cells(), 1, "it was read");
    world.globe = standby;
    world.processes[1].cut_off = false;
    world.run_ms(20_000);
    assert_eq!(world.check(1, &long(0)).remaining(), 400);
    assert_eq!(world.counts(0).feed_losses, 1);
}

/// How many rows each import asked for by their ids, of a process that is alone with the store.
fn asked(world: &World) -> Vec<usize> {
    let import = |call: &GlobalCall| match call {
        GlobalCall::Import(import) => Some(import.gaps.len()),
        _ => None,
    };
    world.calls.iter().filter_map(import).collect()
}

#[test]
fn a_late_row_that_is_lost_alone_is_published_again() {
    let mut world = World::new(&[1, 1]);
    let late = world.globe.begin();
    let standby = begin(&mut world);
    publish(&mut world);
    // It was begun before the other one.
    let (_, batch) = world.globe.rows().last_key_value().unwrap();
    let mut globe = standby.clone();
    globe.commit(late, batch.clone());
    world.globe = globe;
    world.run_ms(2_000);
    assert_eq!(world.counts(0).late_rows, 1);
    fail_over(&mut world, standby);
}

#[test]
fn a_row_that_was_read_beside_a_later_one_and_is_lost_alone_is_published_again() {
    let mut world = World::new(&[1, 1]);
    let mut standby = begin(&mut world);
    publish(&mut world);
    let mut globe = world.globe.clone();
    others(&world, &mut globe, 1);
    world.globe = globe;
    standby.begin();
    others(&world, &mut standby, 1);
    world.run_ms(2_000);
    fail_over(&mut world, standby);
}

/// What a second page brings may have been there before what the first one brought.
#[test]
fn a_later_page_does_not_show_that_a_row_was_there_before_it() {
    let mut world = World::tuned(&[1, 1], GlobeTuning { rows_max: 1, ..GlobeTuning::default() });
    let mut standby = begin(&mut world);
    publish(&mut world);
    let mut globe = world.globe.clone();
    others(&world, &mut globe, 30);
    world.globe = globe;
    standby.begin();
    others(&world, &mut standby, 30);
    world.run_ms(2_000);
    fail_over(&mut world, standby);
}

/// The row that was the last one of a page was not the last one that was there.
#[test]
fn a_row_at_the_end_of_a_page_is_looked_at_too() {
    let mut world = World::tuned(&[1, 1], GlobeTuning { rows_max: 1, ..GlobeTuning::default() });
    let before = begin(&mut world);
    publish(&mut world);
    let (_, batch) = world.globe.rows().last_key_value().unwrap();
    let (mut globe, mut standby) = (before.clone(), before);
    // A page of 18 rows: the last one that was read, and 17 more.
    for globe in [&mut globe, &mut standby] {
        others(&world, globe, 16);
        globe.begin();
    }
    let id = globe.rows().last_key_value().map(|(id, _)| id + 1).unwrap();
    globe.commit(id, batch.clone());
    for globe in [&mut globe, &mut standby] {
        others(&world, globe, 5);
    }
    world.globe = globe;
    world.run_ms(2_000);
    fail_over(&mut world, standby);
}

/// A row that came later is the last one now: what loses the others loses it too.
#[test]
fn a_row_is_looked_at_until_a_new_one_came() {
    let mut world = World::new(&[1, 1]);
    begin(&mut world);
    publish(&mut world);
    let mut globe = world.globe.clone();
    others(&world, &mut globe, 1);
    world.globe = globe;
    world.run_ms(2_000);
    world.calls.clear();
    world.run_ms(3_000);
    assert!(asked(&world).contains(&1), "{:?}", asked(&world));
    let mut globe = world.globe.clone();
    others(&world, &mut globe, 1);
    world.globe = globe;
    world.run_ms(2_000);
    world.calls.clear();
    world.run_ms(3_000);
    assert!(asked(&world).iter().all(|rows| *rows == 0), "{:?}", asked(&world));
    let counts = world.counts(0);
    assert_eq!((counts.feed_losses, counts.imported_rows), (0, 4), "each row counts once");
}

#[test]
fn a_quiet_feed_is_looked_at_for_a_while_only() {
    let mut world = World::new(&[1, 1]);
    begin(&mut world);
    publish(&mut world);
    let mut globe = world.globe.clone();
    others(&world, &mut globe, 1);
    world.globe = globe;
    world.run_ms(GlobeTuning::default().gap_ms + 5_000);
    assert!(asked(&world).contains(&1), "{:?}", asked(&world));
    world.calls.clear();
    world.run_ms(10_000);
    assert!(asked(&world).iter().all(|rows| *rows == 0), "{:?}", asked(&world));
}

/// However much a leader has written at once.
#[test]
fn few_rows_are_looked_at() {
    let mut world = World::new(&[1]);
    assert!(world.check(0, &long(600)).admitted());
    publish(&mut world);
    let own = world.globe.rows().last_key_value().map(|(_, batch)| batch.clone()).unwrap();
    for nonce in 0..100 {
        let id = world.globe.begin();
        world.globe.commit(id, crate::global::Batch { nonce, ..own.clone() });
    }
    world.calls.clear();
    world.run_ms(5_000);
    let most = asked(&world).into_iter().max();
    assert_eq!(most, Some(3), "of four, one is the last row");
}
