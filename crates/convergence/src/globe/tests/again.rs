//! What a second reader asked.

use super::feed::row;
use super::*;

/// Who starts at the end of a long feed waits for the rows that are late now, not for those that
/// were deleted long ago.
#[test]
fn who_starts_in_a_long_feed_waits_for_late_rows() {
    let mut world = World::new(&[1]);
    for _ in 0..2_000 {
        world.globe.begin();
    }
    let id = world.globe.begin();
    world.globe.commit(id, row(&world, 1, 5));
    world.run_ms(35_000);
    let late = world.globe.begin();
    let next = world.globe.begin();
    world.globe.commit(next, row(&world, 2, 6));
    let batch = row(&world, 3, 7);
    let fresh = world.add(0, "region-0", GlobeTuning::default());
    world.run_ms(1_000);
    world.globe.commit(late, batch);
    world.run_ms(45_000);
    assert_eq!([0, fresh].map(|at| world.counts(at).late_rows), [1, 1]);
}

/// Rows that come late have room beside the last one, however small the page.
#[test]
fn late_rows_fit_on_a_small_page() {
    let mut world = World::new(&[1]);
    let id = world.globe.begin();
    world.globe.commit(id, row(&world, 1, 5));
    world.run_ms(2_000);
    let late: Vec<u64> = (0..16).map(|_| world.globe.begin()).collect();
    let id = world.globe.begin();
    world.globe.commit(id, row(&world, 2, 5));
    world.run_ms(1_500);
    world.refuses =
        Some(|call| matches!(call, GlobalCall::Import(_)).then_some(GlobalError::Timeout));
    world.run_ms(14_000);
    for (n, id) in late.into_iter().enumerate() {
        world.globe.commit(id, row(&world, 3, 5 + n as u64));
    }
    world.refuses = None;
    world.run_ms(10_000);
    assert_eq!(world.counts(0).discarded, 0);
}

/// A second loss soon after the first is one too.
#[test]
fn a_second_loss_is_noticed() {
    let mut world = World::new(&[1, 1]);
    assert!(world.check(1, &request_of("other", (1_000, 100), HOUR_MS)).admitted());
    assert!(world.check(0, &long(100)).admitted());
    world.run_ms(8_000);
    let before = world.globe.clone();
    assert!(world.check(0, &request_of("x", (1_000, 100), HOUR_MS)).admitted());
    world.run_ms(8_000);
    // The first failover loses the last row.
    world.globe = before;
    world.run_ms(1_200);
    assert_eq!(world.counts(0).feed_losses, 1);
    world.processes[1].cut_off = true;
    let before = world.globe.clone();
    assert!(world.check(0, &long(500)).admitted());
    world.run_ms(6_800);
    assert_eq!(world.counts(0).pending, 0, "published, and seen to be");
    // The second one, six seconds later; others write on.
    world.globe = before;
    for n in 0..3 {
        let id = world.globe.begin();
        let batch = row(&world, 77, 1_000 + n);
        world.globe.commit(id, batch);
    }
    world.run_ms(20_000);
    world.processes[1].cut_off = false;
    world.run_ms(120_000);
    assert_eq!(world.check(1, &long(0)).remaining(), 400);
}

/// A process that slept while its region became another one finds that out.
#[test]
fn who_slept_learns_that_its_region_is_another() {
    let mut world = World::new(&[2]);
    let leader = world.leader(0);
    let follower = 1 - leader;
    world.processes[leader].dead = true;
    world.processes[follower].dead = true;
    world.stores[0] = MemoryRegion::new(1);
    world.run_ms(25_000);
    let fresh = world.add(0, "region-0", GlobeTuning::default());
    world.run_ms(40_000);
    assert_eq!((world.counts(fresh).registered, world.counts(fresh).leads), (1, 1));
    world.processes[follower].dead = false;
    world.run_ms(60_000);
    for _ in 0..300 {
        assert!(world.check(follower, &long(1)).admitted());
        world.run_ms(10);
    }
    world.run_ms(15_000);
    assert_eq!(world.check(fresh, &long(0)).remaining(), 700, "fresh");
    assert_eq!(world.check(follower, &long(0)).remaining(), 700, "follower");
}

/// A start makes nobody look at every shared cell.
#[test]
fn a_start_is_no_news() {
    let mut world = World::new(&[1, 1]);
    for n in 0..500 {
        let name = format!("user-{n}");
        for at in 0..2 {
            assert!(world.check(at, &request_of(&name, (1_000, 100), HOUR_MS)).admitted());
        }
    }
    world.run_ms(20_000);
    let (taken, skipped) = (world.counts(0).taken, world.counts(0).skipped);
    world.add(0, "region-0", GlobeTuning::default());
    world.run_ms(10_000);
    let after = world.counts(0);
    assert_eq!((after.taken - taken, after.skipped - skipped), (0, 0));
}

/// Nothing is repeated for nothing.
#[test]
fn a_new_leader_repeats_only_what_it_can_delete() {
    let never = GlobeTuning { repeat_counters_min: u64::MAX, ..GlobeTuning::default() };
    let mut world = World::tuned(&[1], never);
    let names: Vec<String> = (0..100).map(|n| format!("user-{n}")).collect();
    for cost in [10, 10, 20, 40, 80, 160] {
        for name in &names {
            let day = 24 * HOUR_MS;
            assert!(world.check(0, &request_of(name, (400, cost), day)).admitted());
        }
        world.run_ms(60_000);
    }
    world.processes[0].dead = true;
    let tuning = GlobeTuning { repeat_counters_min: 50, repeat_times: 4, ..GlobeTuning::default() };
    let fresh = world.add(0, "region-0", tuning);
    world.run_ms(1_200_000);
    let counts = world.counts(fresh);
    assert!(counts.repeated == 0 || counts.trimmed_rows > 0, "repeated for nothing");
}

/// What there is no room to remember is not published again and again.
#[test]
fn what_is_not_remembered_is_published_once() {
    let tuning = GlobeTuning { values_max: 10, ..GlobeTuning::default() };
    let mut world = World::tuned(&[1], tuning);
    for n in 0..50 {
        let name = format!("user-{n}");
        assert!(world.check(0, &request_of(&name, (10, 5), HOUR_MS)).admitted());
    }
    world.run_ms(20_000);
    let before = world.counts(0).published;
    world.run_ms(600_000);
    assert_eq!(world.counts(0).published - before, 0);
}

/// Many bad totals hold up no others either.
#[test]
fn many_bad_totals_are_isolated() {
    let mut world = World::new(&[1]);
    world.refuses = Some(|call| match call {
        GlobalCall::Publish(batch) => {
            let bad = |counter: &crate::pack::Counter| counter.subject.as_bytes()[5] < 24;
            let bad = unpack(&batch.payload).unwrap().iter().any(bad);
            bad.then(|| GlobalError::Refused("bad".to_owned()))
        }
        _ => None,
    });
    for n in 0..300 {
        let name = format!("user-{n}");
        assert!(world.check(0, &request_of(&name, (10, 5), HOUR_MS)).admitted());
    }
    world.run_ms(300_000);
    assert!(world.counts(0).published >= 250);
}

/// A loss is mended once.
#[test]
fn a_loss_is_mended_once() {
    let mut world = World::new(&[2]);
    let before = world.globe.clone();
    for n in 0..100 {
        let name = format!("user-{n}");
        assert!(world.check(0, &request_of(&name, (10, 5), HOUR_MS)).admitted());
    }
    world.run_ms(10_000);
    world.globe = before;
    world.globe.begin();
    world.run_ms(300_000);
    let leader = world.leader(0);
    let follower = 1 - leader;
    assert_eq!(world.counts(leader).published, 200, "once, and once more");
    world.processes[leader].dead = true;
    world.run_ms(60_000);
    assert_eq!(world.counts(follower).published, 0);
}

/// Two limits of one subject: the smaller one counts.
#[test]
fn a_large_limit_hides_no_small_one() {
    let mut world = World::new(&[1, 1]);
    assert!(world.check(0, &request_of("user", (1_000_000, 1), HOUR_MS)).admitted());
    for _ in 0..9 {
        assert!(world.check(0, &request_of("user", (10, 1), HOUR_MS)).admitted());
        world.run_ms(1_000);
    }
    world.run_ms(30_000);
    assert_eq!(
        world.check(1, &request_of("user", (10, 0), HOUR_MS)).remaining(),
        0,
        "limit first large"
    );
}

#[test]
fn limits_that_alternate_hide_nothing() {
    let mut world = World::new(&[1, 1]);
    for _ in 0..5 {
        assert!(world.check(0, &request_of("user", (10, 1), HOUR_MS)).admitted());
        assert!(world.check(0, &request_of("user", (1_000_000, 1), HOUR_MS)).admitted());
        world.run_ms(1_000);
    }
    world.run_ms(30_000);
    assert_eq!(world.check(1, &request_of("user", (10, 0), HOUR_MS)).remaining(), 0);
}

/// What a region published under a number that it lost is another region's to it, and no row says
/// so: those that hold it were read before.
#[test]
fn what_was_published_under_a_lost_number_counts() {
    let mut world = World::new(&[2]);
    let leader = world.leader(0);
    let follower = 1 - leader;
    assert!(world.check(leader, &long(300)).admitted());
    assert!(world.check(follower, &long(300)).admitted());
    world.run_ms(8_000);
    assert_eq!(world.written(), [(1, 600)]);
    world.processes[leader].dead = true;
    world.processes[follower].dead = true;
    world.stores[0] = MemoryRegion::new(1);
    world.run_ms(25_000);
    let fresh = world.add(0, "region-0", GlobeTuning::default());
    world.run_ms(40_000);
    world.processes[follower].dead = false;
    world.run_ms(60_000);
    let number = |at: usize| world.processes[at].globe.name.number();
    assert!(number(fresh).is_some() && number(fresh) == number(follower));
    let foreign = |at: usize| {
        let subject = long(0);
        let sequence = world.now.unix_ms() / HOUR_MS;
        world.processes[at].table.cell(subject.subject(), sequence).unwrap().foreign()
    };
    assert_eq!(foreign(follower), 600);
}
