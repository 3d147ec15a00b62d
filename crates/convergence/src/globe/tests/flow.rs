//! How usage gets from region to region.

use super::*;
use crate::tuning::Rule;

/// [GL1] A uses 6 of 10; B hears of it, admits 1 and denies 4.
#[test]
fn what_one_region_used_counts_in_another() {
    let mut world = World::new(&[1, 1]);
    world.spend(0, 10, 6);
    world.run_ms(3_000);
    let way_ms = world.counts(0).round_trip_ms;
    assert!((1..3_000).contains(&way_ms), "it was published and came back: {way_ms} ms");
    assert_eq!(world.check(1, &request("user", 10, 1)).remaining(), 3);
    assert!(!world.check(1, &request("user", 10, 4)).admitted(), "11 of 10");
}

/// [GL5, GL6] One part in 40 of a limit is published, and less is not.
#[test]
fn little_is_kept_in_the_region() {
    let mut world = World::new(&[1, 1]);
    world.spend(0, 400, 9);
    world.run_ms(10_000);
    assert_eq!(world.written(), []);
    world.spend(0, 400, 1);
    world.run_ms(3_000);
    assert_eq!(world.written(), [(1, 10)]);
}

/// [GL8] What a batch has reserved is not published: only what the region recorded is.
#[test]
fn nothing_unrecorded_is_published() {
    let mut world = World::new(&[1, 1]);
    let subject = request("user", 10, 6);
    assert!(world.check(0, &subject).admitted());
    // Nothing was recorded yet: the process has not been given the time.
    assert_eq!(world.written(), []);
    world.run_ms(3_000);
    assert_eq!(world.written(), [(1, 6)]);
}

/// [GL9] What others published is not published by who only heard of it; and once it uses the
/// subject too, it says so early.
#[test]
fn foreign_usage_is_never_published_again() {
    let mut world = World::new(&[1, 1]);
    world.spend(0, 1_000, 900);
    world.run_ms(3_000);
    let before = world.written();
    world.run_ms(20_000);
    assert_eq!(world.written(), before, "nobody has anything new to say");
    world.spend(1, 1_000, 25);
    world.run_ms(3_000);
    let of_b: Vec<_> = world.written().into_iter().filter(|(region, _)| *region == 2).collect();
    assert_eq!(of_b, [(2, 25)]);
}

/// [GL10, GL11] What the own region published counts at a process that has not heard of it from
/// the region, is not foreign, and makes nothing fresh.
#[test]
fn the_own_region_is_a_lower_bound() {
    let mut world = World::new(&[2, 1]);
    world.spend(0, 10, 6);
    world.run_ms(3_000);
    let wanted = request("user", 10, 5);
    let now = world.now;
    let Process { table, globe, .. } = &mut world.processes[1];
    let Decision::Refresh(need) = table.decide_or_refresh(&wanted, now) else {
        panic!("nothing is known of it here: the region has to be asked")
    };
    globe.adopt_all(table, std::iter::once(need.subject), now);
    let cell = table.cells(need.subject).unwrap().current;
    assert_eq!((cell.peers(), cell.foreign(), cell.fresh_until_ms()), (6, 0, 0));
    assert!(!table.decide_refreshed(&wanted, false, now).admitted(), "6 + 5 of 10");
}

/// [GL13] Without traffic nothing is written.
#[test]
fn quiet_regions_write_nothing() {
    let mut world = World::new(&[2, 2]);
    world.spend(0, 100, 50);
    world.spend(2, 100, 20);
    world.run_ms(10_000);
    let (rows, before) = (world.globe.rows().len(), world.written());
    world.run_ms(30_000);
    assert_eq!((world.globe.rows().len(), world.written()), (rows, before));
}

/// [GL14] A single request that is larger than its limit costs the subject nothing anywhere.
#[test]
fn an_oversized_request_costs_nothing_elsewhere() {
    let mut world = World::new(&[1, 1]);
    assert!(!world.check(0, &request("user", 10, 11)).admitted());
    world.run_ms(10_000);
    assert_eq!(world.written(), []);
    assert_eq!(world.check(1, &request("user", 10, 1)).remaining(), 9);
}

/// A denial that only the previous window caused costs nothing in the new one elsewhere.
#[test]
fn a_denial_by_the_previous_window_is_no_usage() {
    let mut world = World::new(&[1, 1]);
    world.spend(0, 10, 8);
    let to_end_ms = WINDOW_MS - world.now.unix_ms() % WINDOW_MS;
    world.run_ms(to_end_ms + 1);
    assert!(!world.check(0, &request("user", 10, 4)).admitted(), "7 of the last window count");
    world.run_ms(3_000);
    let before = world.now.unix_ms() / WINDOW_MS - 1;
    for batch in world.globe.rows().values() {
        let counters = unpack(&batch.payload).unwrap();
        assert!(counters.iter().all(|counter| counter.sequence == before), "{counters:?}");
    }
    // All that counts in the other region is the same previous window.
    let here = world.check(0, &request("user", 10, 0)).remaining();
    assert_eq!(world.check(1, &request("user", 10, 0)).remaining(), here);
}

/// [GL15] A region without traffic keeps what it hears, and counts it apart.
#[test]
fn usage_of_a_subject_that_is_not_served_is_kept() {
    let mut world = World::new(&[1, 1]);
    world.spend(0, 10, 6);
    world.run_ms(3_000);
    let counts = world.counts(1);
    assert_eq!((counts.cells_created, counts.values, counts.imported), (1, 1, counts.applied));
    assert_eq!(world.processes[1].table.subjects(), 0, "it takes no place in the table");
    // Much later it is still known: it was delivered once.
    world.run_ms(20_000);
    assert_eq!(world.check(1, &request("user", 10, 4)).remaining(), 0);
}

/// A cell that others used before this process had any request in the new window.
#[test]
fn a_new_window_begins_with_what_others_used() {
    let mut world = World::new(&[1, 1]);
    world.spend(0, 1_000, 1);
    world.spend(1, 1_000, 1);
    let to_end_ms = WINDOW_MS - world.now.unix_ms() % WINDOW_MS;
    world.run_ms(to_end_ms + 10);
    world.spend(0, 1_000, 900);
    world.run_ms(3_000);
    // The first admission of the new window here is decided on a warm view, and heard of at once.
    world.spend(1, 1_000, 1);
    let remaining = world.check(1, &request("user", 1_000, 0)).remaining();
    assert!(remaining <= 99, "{remaining}");
}

/// As many come as go: who has gone is not kept until everybody is looked through.
#[test]
fn whoever_has_gone_is_forgotten_while_others_come() {
    let mut world = World::new(&[1]);
    for minute in 0..20 {
        for number in 0..200 {
            let name = format!("user_{minute}_{number}");
            assert!(world.check(0, &request(&name, 1_000, 1)).admitted());
        }
        world.run_ms(WINDOW_MS);
        let Process { table, globe, .. } = &world.processes[0];
        let left: usize = (0..100).map(|_| table.sweep(world.now)).sum();
        let (kept, there) = (globe.served.len(), table.subjects());
        // Those who have left at this moment are looked at as the next come.
        assert!(there <= 1_000 && kept <= (there + left) * 4 / 3, "{kept} of {there} + {left}");
    }
}

#[test]
fn short_windows_stay_in_their_region() {
    let mut world = World::new(&[1, 1]);
    let short = request_of("user", (10, 9), 59_000);
    assert!(world.check(0, &short).admitted());
    world.run_ms(10_000);
    assert_eq!((world.written(), world.counts(0).posted), (vec![], 0));
}

#[test]
fn a_leader_publishes_what_it_does_not_serve() {
    let mut world = World::new(&[3, 1]);
    let follower = (0..3).find(|at| *at != world.leader(0)).unwrap();
    world.spend(follower, 10, 6);
    world.run_ms(3_000);
    assert_eq!(world.written(), [(1, 6)]);
    assert_eq!(world.counts(follower).published, 0);
}

/// Alone a region says little; when another comes, it says what it kept.
#[test]
fn company_makes_a_region_say_more() {
    let mut world = World::new(&[1, 1]);
    world.spend(0, 1_000, 300);
    world.run_ms(3_000);
    world.spend(0, 1_000, 100);
    world.run_ms(3_000);
    let alone = world.processes[1].globe.values.own_cells();
    assert_eq!(alone, 0);
    let published = |world: &World| world.written().iter().map(|(_, count)| *count).max().unwrap();
    let before = published(&world);
    assert!(before < 400, "{before}");
    world.spend(1, 1_000, 500);
    world.run_ms(3_000);
    let of_a = |(region, count): &(usize, u64)| (*region == 1).then_some(*count);
    let told = world.written().iter().filter_map(of_a).max().unwrap();
    assert!(told > before, "{told} of 400, before {before}");
    assert!(!world.check(1, &request("user", 1_000, 150)).admitted());
}

/// The age of an answer is that of what is known of other regions.
#[test]
fn an_absent_globe_only_ages() {
    let mut world = World::new(&[1]);
    world.spend(0, 10, 1);
    world.run_ms(500);
    let fresh = world.check(0, &request("user", 10, 1));
    assert!(fresh.age_ms() <= 1_600, "{}", fresh.age_ms());
    world.refuses = Some(|_| Some(GlobalError::Timeout));
    world.run_ms(20_000);
    let old = world.check(0, &request("user", 10, 1));
    assert!(old.admitted() && !old.degraded());
    assert!(old.age_ms() >= 20_000, "{}", old.age_ms());
    let short = request_of("user", (10, 1), 30_000);
    assert!(world.check(0, &short).age_ms() < 40_000, "it has nothing to do with other regions");
}

#[test]
fn the_rule_of_the_rfc_runs_in_the_same_code() {
    let tuning = GlobeTuning::rfc();
    assert_eq!(tuning.rule, Rule::Floor { every_ms: 10_000, part: 2 });
    let mut world = World::tuned(&[1, 1], tuning);
    world.spend(0, 10, 4);
    world.run_ms(15_000);
    assert_eq!(world.written(), []);
    world.spend(0, 10, 1);
    world.run_ms(1_000);
    assert_eq!(world.written(), [], "not before its time");
    world.run_ms(12_000);
    assert_eq!(world.written(), [(1, 5)]);
    world.run_ms(12_000);
    assert_eq!(world.check(1, &request("user", 10, 0)).remaining(), 5);
}
