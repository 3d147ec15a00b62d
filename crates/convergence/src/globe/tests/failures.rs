//! What happens when something fails.

use super::*;
use crate::breaker::BreakerState;
use crate::global::NAME_LAPSE_MS;
use crate::store::Shard;

#[test]
fn an_outage_loses_nothing() {
    let mut world = World::new(&[2, 2]);
    world.refuses = Some(|_| Some(GlobalError::Unreachable("gone".to_owned())));
    world.spend(0, 100, 60);
    world.run_ms(60_000);
    assert_eq!(world.written(), []);
    world.spend(0, 100, 1);
    world.refuses = None;
    world.run_ms(20_000);
    let told = world.written().iter().map(|(_, count)| *count).max();
    assert!(told.is_some(), "it was published by itself");
    for at in 0..4 {
        let counts = world.counts(at);
        assert_eq!((counts.unpublished, counts.breakers_open), (0, 0), "{at}");
    }
}

#[test]
fn a_leader_that_dies_with_what_it_took_is_replaced() {
    let mut world = World::new(&[2, 1]);
    let leader = world.leader(0);
    world.processes[leader].cut_off = true;
    let other = 1 - leader;
    world.spend(other, 10, 6);
    world.run_ms(1_500);
    assert_eq!(world.written(), [], "it was taken and could not be published");
    world.processes[leader].dead = true;
    world.run_ms(15_000);
    assert_eq!(world.written(), [(1, 6)]);
    assert_eq!(world.leader(0), other);
    assert!(world.counts(other).reposted > 0);
}

/// A leader that cannot publish does not keep the others from it.
#[test]
fn a_leader_without_a_database_resigns() {
    let mut world = World::new(&[2, 1]);
    let leader = world.leader(0);
    world.processes[leader].cut_off = true;
    world.spend(1 - leader, 10, 6);
    world.run_ms(15_000);
    assert_eq!(world.leader(0), 1 - leader);
    assert_eq!(world.written(), [(1, 6)]);
}

/// It has nothing to publish any more, and hears by its imports that it could.
#[test]
fn the_breaker_of_who_lost_the_lead_closes() {
    let mut world = World::new(&[2, 1]);
    let leader = world.leader(0);
    world.processes[leader].cut_off = true;
    world.spend(1 - leader, 10, 6);
    // What it had to publish is over by then.
    world.run_ms(5 * WINDOW_MS);
    assert_eq!(world.leader(0), 1 - leader);
    assert_ne!(world.counts(leader).publish_breaker, BreakerState::Closed);
    world.processes[leader].cut_off = false;
    world.run_ms(15_000);
    assert_eq!(world.leader(0), 1 - leader);
    assert_eq!(world.counts(leader).publish_breaker, BreakerState::Closed);
}

/// A row that the store refuses holds up no other.
#[test]
fn a_bad_total_is_isolated() {
    let mut world = World::new(&[1, 1]);
    world.refuses = Some(|call| {
        let GlobalCall::Publish(batch) = call else { return None };
        let bad = unpack(&batch.payload).unwrap().iter().any(|counter| counter.count == 7);
        bad.then(|| GlobalError::Refused("7".to_owned()))
    });
    for (name, cost) in [("a", 5), ("b", 6), ("c", 7), ("d", 8), ("e", 9)] {
        assert!(world.check(0, &request(name, 10, cost)).admitted());
    }
    world.run_ms(3_000);
    let mut counts: Vec<u64> = world.written().iter().map(|(_, count)| *count).collect();
    counts.sort_unstable();
    assert_eq!(counts, [5, 6, 8, 9]);
    assert_eq!((world.counts(0).refused, world.counts(0).unpublished), (1, 0));
    assert_eq!(world.counts(0).breakers_open, 0, "the store answers");
}

/// A call that comes to nothing is found out late, when more of the cell was published and read.
#[test]
fn what_was_outdone_is_not_tried_again() {
    let mut world = World::new(&[1, 1]);
    world.held = Some(Vec::new());
    world.spend(0, 10, 4);
    world.run_ms(1_500);
    let [(at, id, _)] = &world.held.take().unwrap()[..] else { panic!("one publish") };
    world.spend(0, 10, 4);
    world.run_ms(1_500);
    let Process { table, globe, .. } = &mut world.processes[*at];
    globe.global_replied(table, *id, Err(GlobalError::Timeout), world.now);
    world.run_ms(5_000);
    assert_eq!(world.written(), [(1, 4), (1, 8)]);
}

/// The store acknowledged a row, and lost it before anybody read it.
#[test]
fn what_does_not_come_back_is_published_again() {
    let mut world = World::new(&[1, 1]);
    let before = world.globe.clone();
    world.processes[1].dead = true;
    // Nothing of it is imported.
    world.refuses =
        Some(|call| matches!(call, GlobalCall::Import(_)).then_some(GlobalError::Timeout));
    world.spend(0, 10, 6);
    world.run_ms(1_000);
    assert_eq!(world.written(), [(1, 6)]);
    world.globe = before;
    world.refuses = None;
    world.run_ms(10_000);
    assert_eq!(world.written(), [(1, 6)]);
}

/// The store fails over to a state in which rows are missing that everybody has read.
#[test]
fn a_feed_that_lost_rows_gets_them_again() {
    let mut world = World::new(&[2, 2]);
    assert!(world.check(2, &request("other", 1_000, 100)).admitted());
    world.run_ms(3_000);
    let before = world.globe.clone();
    world.spend(0, 10, 6);
    world.run_ms(3_000);
    assert_eq!(world.check(2, &request("user", 10, 0)).remaining(), 4);
    world.globe = before;
    // Other rows get the ids of those that are lost.
    assert!(world.check(3, &request("other", 1_000, 400)).admitted());
    world.run_ms(10_000);
    assert!(world.written().contains(&(1, 6)), "{:?}", world.written());
    assert!((0..4).all(|at| world.counts(at).feed_losses >= 1));
    // Whoever starts now finds it too.
    let late = world.add(1, "region-1", GlobeTuning::default());
    world.run_ms(3_000);
    assert_eq!(world.check(late, &request("user", 10, 0)).remaining(), 4);
}

#[test]
fn a_region_whose_name_is_taken_says_and_hears_nothing() {
    let mut world = World::new(&[1, 1]);
    world.stores.push(MemoryRegion::new(1));
    let clone = world.add(2, "region-0", GlobeTuning::default());
    world.run_ms(NAME_LAPSE_MS / 2);
    world.spend(clone, 10, 6);
    world.run_ms(20_000);
    let counts = world.counts(clone);
    assert!(counts.name_clashes > 0 && counts.registered == 0 && counts.imports == 0, "{counts:?}");
    assert_eq!((world.written(), world.counts(0).registered), (vec![], 1));
    // When the other is gone for long enough, the name is free.
    world.processes[0].dead = true;
    world.run_ms(NAME_LAPSE_MS + 10_000);
    assert_eq!(world.counts(clone).registered, 1);
}

/// A regional store that lost everything does not change who the region is.
#[test]
fn a_flushed_region_stays_who_it_is() {
    let mut world = World::new(&[1, 1]);
    world.stores[0].flush(Shard(0));
    // A process that starts first proposes another identity, until the others say better.
    let fresh = world.add(0, "region-0", GlobeTuning::default());
    world.settle_one(fresh);
    world.run_ms(15_000);
    assert_eq!([world.counts(0), world.counts(fresh)].map(|counts| counts.registered), [1, 1]);
    let identity = |at: usize| world.processes[at].globe.name.identity();
    assert_eq!(identity(0), identity(fresh));
}

/// The same if it ends before it has its name.
#[test]
fn a_private_region_ends_in_order_from_the_start() {
    let mut world = World::new(&[1]);
    world.stores.push(MemoryRegion::new(1));
    let private = world.add(1, "private", GlobeTuning::default());
    world.processes[private].globe.options.private = true;
    world.processes[private].cut_off = true;
    world.spend(private, 10, 4);
    let (now, process) = (world.now, &mut world.processes[private]);
    process.globe.drain(&process.table, now);
    world.run_ms(200);
    assert!(!world.processes[private].globe.is_clean(), "its board is not told to anybody");
    world.processes[private].cut_off = false;
    for _ in 0..100 {
        world.run_ms(20);
        if world.processes[private].globe.is_clean() {
            break;
        }
    }
    assert_eq!(world.written(), [(2, 4)]);
}

/// A region that is one process and ends leaves nothing unsaid, and gives its name back.
#[test]
fn a_private_region_ends_in_order() {
    let mut world = World::new(&[1]);
    world.stores.push(MemoryRegion::new(1));
    let private = world.add(1, "private", GlobeTuning::default());
    world.processes[private].globe.options.private = true;
    world.run_ms(3_000);
    world.spend(private, 1_000, 3);
    world.run_ms(5_000);
    assert_eq!(world.written(), [], "too little to be worth it");
    let (now, process) = (world.now, &mut world.processes[private]);
    process.globe.drain(&process.table, now);
    assert!(!process.globe.is_clean());
    world.run_ms(500);
    assert_eq!(world.written(), [(2, 3)]);
    assert!(world.processes[private].globe.is_clean());
    world.processes[private].globe.release(now);
    world.settle_one(private);
    world.processes[private].dead = true;
    // The next one need not wait for the name.
    world.stores.push(MemoryRegion::new(1));
    let next = world.add(2, "private", GlobeTuning::default());
    world.run_ms(3_000);
    assert_eq!(world.counts(next).registered, 1);
}

/// Nor what weighs little by now: half a request of a window that is nearly over is the last that
/// anybody will ever say of it.
#[test]
fn a_private_region_that_ends_says_what_hardly_counts_any_more() {
    let mut world = World::new(&[1]);
    world.stores.push(MemoryRegion::new(1));
    let private = world.add(1, "private", GlobeTuning::default());
    world.processes[private].globe.options.private = true;
    world.run_ms(3_000);
    world.spend(private, 1_000, 1);
    world.run_ms(WINDOW_MS + WINDOW_MS * 3 / 4);
    let (now, process) = (world.now, &mut world.processes[private]);
    process.globe.drain(&process.table, now);
    world.run_ms(500);
    assert!(world.processes[private].globe.is_clean());
    assert_eq!(world.written(), [(2, 1)]);
}

/// Nor what it admits after it was told to end, while callers still come.
#[test]
fn a_private_region_that_ends_says_what_it_admits_meanwhile() {
    let mut world = World::new(&[1]);
    world.stores.push(MemoryRegion::new(1));
    let private = world.add(1, "private", GlobeTuning::default());
    world.processes[private].globe.options.private = true;
    world.run_ms(3_000);
    let (now, process) = (world.now, &mut world.processes[private]);
    process.globe.drain(&process.table, now);
    world.spend(private, 1_000, 2);
    world.run_ms(5_000);
    assert!(world.processes[private].globe.is_clean());
    assert_eq!(world.written(), [(2, 2)]);
}

/// A region that is one process, was refused its name and gets it while it ends, tells what it
/// would have told to nobody.
#[test]
fn a_private_region_that_gets_its_name_while_it_ends_leaves_nothing_unsaid() {
    let mut world = World::new(&[1]);
    let name = RegionName::new("private").unwrap();
    let other = GlobalCall::Register { name: name.clone(), identity: 7 };
    world.globe.call(&other, world.now.unix_ms()).unwrap();
    world.stores.push(MemoryRegion::new(1));
    let private = world.add(1, "private", GlobeTuning::default());
    world.processes[private].globe.options.private = true;
    world.run_ms(3_000);
    world.spend(private, 1_000, 3);
    let (now, process) = (world.now, &mut world.processes[private]);
    process.globe.drain(&process.table, now);
    world.run_ms(1_000);
    assert!(world.processes[private].globe.is_clean(), "nobody would hear it");
    assert_eq!(world.written(), []);
    world.globe.call(&GlobalCall::Release { name, identity: 7 }, 0).unwrap();
    for _ in 0..10_000 {
        world.run_ms(1);
        if world.counts(private).registered == 1 {
            break;
        }
    }
    // It may end as soon as it is clean.
    assert!(!world.processes[private].globe.is_clean() || world.written() == [(2, 3)]);
    world.run_ms(1_000);
    assert!(world.processes[private].globe.is_clean());
    assert_eq!(world.written(), [(2, 3)]);
}

/// A name that is being renewed would be taken again after it was given back.
#[test]
fn a_name_under_way_is_waited_for_before_it_is_given_back() {
    let mut world = World::new(&[1]);
    world.stores.push(MemoryRegion::new(1));
    let private = world.add(1, "private", GlobeTuning::default());
    world.processes[private].globe.options.private = true;
    world.run_ms(3_000);
    let globe = &mut world.processes[private].globe;
    assert!(globe.is_clean() && globe.is_settled());
    let _ = globe.call(Call::Register { identity: 7 });
    assert!(globe.is_clean() && !globe.is_settled());
    globe.options.private = false;
    assert!(globe.is_settled(), "the name is that of others too, and stays");
}
