//! Stores that lose rows, lag or are cleaned up, and clocks that jump.

use super::feed::row;
use super::*;
use crate::global::Batch;
use crate::pack::{Counter, pack};
use crate::store::Shard;

/// A failover that loses what was acknowledged, however long it takes.
#[test]
fn a_loss_is_noticed_after_any_outage() {
    for outage_ms in [20_000, 70_000] {
        let mut world = World::new(&[1, 1]);
        assert!(world.check(1, &request_of("other", (1_000, 100), HOUR_MS)).admitted());
        world.run_ms(8_000);
        let before = world.globe.clone();
        world.processes[1].cut_off = true;
        assert!(world.check(0, &long(600)).admitted());
        world.run_ms(8_000);
        world.refuses = Some(|_| Some(GlobalError::Unreachable("gone".to_owned())));
        assert_eq!(world.processes[0].globe.values.own_cells(), 1, "seen by its own region");
        world.globe = before;
        world.run_ms(outage_ms);
        world.refuses = None;
        world.processes[1].cut_off = false;
        world.run_ms(120_000);
        assert_eq!(world.check(1, &long(0)).remaining(), 400, "after {outage_ms} ms");
    }
}

/// What was lost is published again, and that is lost too before anybody has read it.
#[test]
fn what_is_lost_twice_is_published_a_third_time() {
    let mut world = World::new(&[1, 1]);
    assert!(world.check(1, &request_of("other", (1_000, 100), HOUR_MS)).admitted());
    world.run_ms(8_000);
    let before = world.globe.clone();
    world.processes[1].cut_off = true;
    assert!(world.check(0, &long(600)).admitted());
    world.run_ms(8_000);
    assert_eq!(world.written().last(), Some(&(1, 600)));
    world.globe = before.clone();
    let (published, reads_again) = (world.counts(0).published, world.counts(0).imports + 2);
    while world.counts(0).published == published {
        world.run_ms(1);
    }
    assert!(world.counts(0).imports <= reads_again, "it has not read what it published again");
    world.globe = before;
    world.processes[1].cut_off = false;
    world.run_ms(20_000);
    assert_eq!(world.counts(0).published, published + 2);
    assert_eq!(world.check(1, &long(0)).remaining(), 400);
}

/// A leader publishes everything again no more often than it repeats, and may be killed before. Who
/// leads next has only reminded it, and takes what was lost as published.
#[test]
fn who_leads_next_publishes_what_was_lost() {
    let mut world = World::new(&[2, 1]);
    assert!(world.check(2, &request_of("other", (1_000, 100), HOUR_MS)).admitted());
    world.run_ms(8_000);
    let before = world.globe.clone();
    world.processes[2].cut_off = true;
    assert!(world.check(0, &long(600)).admitted());
    world.run_ms(8_000);
    world.globe = before.clone();
    world.run_ms(12_000);
    assert_eq!(world.written(), [(2, 100), (1, 600)], "published again");
    world.globe = before;
    world.run_ms(12_000);
    let leader = world.leader(0);
    assert_eq!(world.counts(leader).feed_losses, 2);
    assert_eq!(world.written(), [(2, 100)], "not so soon once more");
    world.processes[leader].dead = true;
    world.processes[2].cut_off = false;
    world.run_ms(20_000);
    assert_eq!(world.check(2, &long(0)).remaining(), 400);
}

/// The same, but who leads next started later, and has never read what was lost.
#[test]
fn who_leads_next_and_knows_nothing_is_reminded() {
    let mut world = World::new(&[2, 1]);
    assert!(world.check(2, &request_of("other", (1_000, 100), HOUR_MS)).admitted());
    world.run_ms(8_000);
    let before = world.globe.clone();
    world.processes[2].cut_off = true;
    assert!(world.check(0, &long(600)).admitted());
    world.run_ms(8_000);
    world.globe = before.clone();
    world.run_ms(12_000);
    assert_eq!(world.written(), [(2, 100), (1, 600)], "published again");
    world.globe = before;
    world.run_ms(17_000);
    let leader = world.leader(0);
    assert!(world.counts(leader).skipped > 0, "it was reminded, and took it as published");
    assert_eq!(world.written(), [(2, 100)], "not so soon once more");
    let (other, late) = (1 - leader, world.add(0, "region-0", GlobeTuning::default()));
    world.processes[leader].dead = true;
    // The other one sleeps until the new one leads.
    world.processes[other].dead = true;
    world.run_ms(5_000);
    assert_eq!(world.leader(0), late);
    world.processes[other].dead = false;
    world.processes[2].cut_off = false;
    world.run_ms(40_000);
    assert_eq!(world.leader(0), late);
    assert_eq!(world.check(2, &long(0)).remaining(), 400);
}

/// The row is read before its writer hears that it is written: then it is not looked for.
#[test]
fn what_was_read_before_it_was_acknowledged_is_published_once() {
    let mut world = World::new(&[1, 1]);
    world.held = Some(Vec::new());
    world.spend(0, 10, 6);
    world.run_ms(3_000);
    assert_eq!((world.written(), world.counts(0).pending), (vec![(1, 6)], 0), "it was read");
    for (at, id, reply) in world.held.take().unwrap() {
        let (now, Process { table, globe, .. }) = (world.now, &mut world.processes[at]);
        globe.global_replied(table, id, Ok(reply), now);
    }
    world.run_ms(20_000);
    assert_eq!((world.written(), world.counts(0).published), (vec![(1, 6)], 1));
}

/// A wall clock that jumps ahead and comes back deletes nothing that is live.
#[test]
fn a_clock_that_jumps_deletes_nothing() {
    let tuning = GlobeTuning { repeat_counters_min: 1, ..GlobeTuning::default() };
    let mut world = World::tuned(&[1, 1], tuning);
    assert!(world.check(0, &long(600)).admitted());
    world.run_ms(40_000);
    assert!(world.check(0, &request_of("x", (1_000, 600), HOUR_MS)).admitted());
    world.run_ms(8_000);
    let back = world.now;
    world.now = Now::new(back.unix_ms() + 3 * HOUR_MS, back.monotonic_ms());
    world.run_ms(2_000);
    world.now = Now::new(back.unix_ms() + 2_000, back.monotonic_ms() + 2_000);
    world.run_ms(60_000);
    let fresh = world.add(1, "region-1", tuning);
    world.run_ms(10_000);
    assert_eq!(world.check(fresh, &long(0)).remaining(), 400, "for a process that starts now");
}

/// A reader whose clock is wrong for a moment reads again what it forgot.
#[test]
fn a_reader_whose_clock_jumps_forgets_nothing_for_long() {
    let mut world = World::new(&[1, 1]);
    assert!(world.check(0, &long(600)).admitted());
    world.run_ms(8_000);
    let now = world.now;
    let Process { table, globe, .. } = &mut world.processes[1];
    assert_eq!(globe.values.cells(), 1);
    globe.tick(table, Now::new(now.unix_ms() + 3 * HOUR_MS, now.monotonic_ms()));
    world.run_ms(20_000);
    assert_eq!(world.check(1, &long(0)).remaining(), 400);
}

/// A machine that was suspended, whose monotonic clock stood still, reads the repetition.
#[test]
fn who_was_suspended_begins_anew() {
    let mut world = World::new(&[1]);
    let sequence = world.now.unix_ms() / HOUR_MS;
    let batch = |world: &World, subject: u8, repeats: bool| {
        let subject = tidegate_limiter::Digest::from_bytes([subject; 16]);
        let counter = Counter { window_ms: HOUR_MS, sequence, subject, count: 7 };
        let (payload, expires_ms) = pack(vec![counter]).pop().unwrap();
        Batch { repeats, payload, expires_ms, ..row(world, 1, 1) }
    };
    let id = world.globe.begin();
    world.globe.commit(id, batch(&world, 1, false));
    world.run_ms(2_000);
    assert_eq!(world.counts(0).values, 1);
    world.now = Now::new(world.now.unix_ms() + 300_000, world.now.monotonic_ms());
    // Written, repeated and deleted meanwhile.
    world.globe.begin();
    let id = world.globe.begin();
    world.globe.commit(id, batch(&world, 2, true));
    world.run_ms(20_000);
    assert_eq!(world.counts(0).values, 2);
}

/// Every other import is answered by a replica that lags: nobody publishes everything each time.
#[test]
fn a_replica_that_lags_makes_no_storm() {
    let mut world = World::new(&[1, 1]);
    for n in 0..300 {
        let name = format!("user-{n}");
        assert!(world.check(0, &request_of(&name, (10, 5), HOUR_MS)).admitted());
    }
    world.run_ms(8_000);
    world.replica = Some(world.globe.clone());
    assert!(world.check(0, &request_of("one", (10, 5), HOUR_MS)).admitted());
    world.run_ms(8_000);
    let before = world.counts(0).published;
    world.run_ms(60_000);
    let published = world.counts(0).published - before;
    assert!(published <= 2 * 301, "{published} totals in a minute without a request");
}

/// Cleaning up never deletes the last row, by which readers see that nothing is lost.
#[test]
fn cleaning_up_is_not_taken_for_a_loss() {
    let mut world = World::new(&[1, 1]);
    assert!(world.check(1, &request_of("long", (1_000, 600), HOUR_MS)).admitted());
    world.run_ms(10_000);
    assert!(world.check(0, &request("user", 10, 5)).admitted());
    world.run_ms(200_000);
    let collect = GlobalCall::Collect { expired_before_ms: world.now.unix_ms(), rows_max: 100 };
    world.globe.call(&collect, world.now.unix_ms()).unwrap();
    let published = world.counts(1).published;
    world.run_ms(10_000);
    assert_eq!((world.counts(1).feed_losses, world.counts(1).published), (0, published));
}

/// A row that becomes visible long after later ones is read by who started meanwhile.
#[test]
fn who_starts_waits_for_late_rows_too() {
    let mut world = World::new(&[1]);
    let late = world.globe.begin();
    let first = row(&world, 1, 5);
    for n in 0..100 {
        let id = world.globe.begin();
        world.globe.commit(id, row(&world, 2, n + 10));
    }
    let fresh = world.add(0, "region-0", GlobeTuning::default());
    world.run_ms(1_500);
    world.globe.commit(late, first);
    world.run_ms(20_000);
    assert_eq!([0, fresh].map(|at| world.processes[at].globe.values.cells()), [2, 2]);
}

/// A region whose clock is far ahead fills nobody's memory.
#[test]
fn cells_of_the_far_future_are_not_kept() {
    let mut world = World::new(&[1]);
    let sequence = (world.now.unix_ms() + 24 * HOUR_MS) / WINDOW_MS;
    let subject = tidegate_limiter::Digest::from_bytes([1; 16]);
    let counter = Counter { window_ms: WINDOW_MS, sequence, subject, count: 5 };
    let (payload, expires_ms) = pack(vec![counter]).pop().unwrap();
    let id = world.globe.begin();
    world.globe.commit(id, Batch { payload, expires_ms, ..row(&world, 1, 1) });
    world.run_ms(20_000);
    assert_eq!((world.counts(0).values, world.counts(0).values_dropped), (0, 1));
}

/// A page of the feed that cannot be read in time is asked for in smaller parts.
#[test]
fn a_page_that_is_too_large_becomes_smaller() {
    let mut world = World::new(&[1]);
    world.refuses = Some(|call| {
        let large = matches!(call, GlobalCall::Import(import) if import.rows_max > 64);
        large.then_some(GlobalError::Timeout)
    });
    for n in 0..300 {
        let id = world.globe.begin();
        world.globe.commit(id, row(&world, 2, n + 10));
    }
    world.run_ms(100_000);
    assert_eq!(world.counts(0).imported, 300);
}

/// A failover and the store of a region lose the same total, and who leads then has not read it.
/// Who has leads later: what it repeats is news to all, not only to those who start.
#[test]
fn what_is_repeated_after_a_loss_is_news() {
    let tuning = GlobeTuning { repeat_counters_min: 1, repeat_times: 0, ..GlobeTuning::default() };
    let mut world = World::tuned(&[2, 1], tuning);
    assert!(world.check(2, &request_of("other", (1_000, 100), HOUR_MS)).admitted());
    world.run_ms(8_000);
    let before = world.globe.clone();
    let (leader, other) = (world.leader(0), 1 - world.leader(0));
    world.processes[2].cut_off = true;
    assert!(world.check(leader, &long(600)).admitted());
    world.run_ms(8_000);
    world.processes[leader].dead = true;
    world.globe = before;
    let late = world.add(0, "region-0", tuning);
    // The other one sleeps until the new one leads.
    world.processes[other].dead = true;
    world.run_ms(5_000);
    assert_eq!(world.leader(0), late);
    world.stores[0].flush(Shard(0));
    world.run_ms(2_000);
    world.processes[other].dead = false;
    world.processes[2].cut_off = false;
    world.run_ms(90_000);
    assert_eq!((world.leader(0), world.written()), (late, vec![(2, 100)]), "lost");
    world.processes[late].dead = true;
    world.run_ms(10_000);
    assert_eq!(world.leader(0), other);
    assert!(world.check(other, &request_of("more", (1_000, 100), HOUR_MS)).admitted());
    world.run_ms(200_000);
    assert!(world.counts(other).repeated > 0);
    let fresh = world.add(1, "region-1", tuning);
    world.run_ms(3_000);
    assert_eq!([2, fresh].map(|at| world.check(at, &long(0)).remaining()), [400, 400]);
}
