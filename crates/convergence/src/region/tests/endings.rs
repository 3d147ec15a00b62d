//! What a process does at its end, and when it meets itself.

use super::*;

/// Many cells that clash are one clash.
#[test]
fn a_clash_is_answered_once() {
    let (mut world, mut a, mut b) = (World::new(), Process::new(1), Process::new(1));
    let names: Vec<String> = (0..100).map(|n| n.to_string()).collect();
    for process in [&mut a, &mut b] {
        for name in &names {
            // Too little to be told at once; the second tells less than the first.
            process.table.decide(&request(name, 1_000, 2), world.now);
        }
    }
    for name in &names {
        a.table.decide(&request(name, 1_000, 1), world.now);
    }
    world.run_ms(&mut a, 3_000);
    b.region.drain(world.now);
    world.run_ms(&mut b, 10);
    let again = b.effects.iter().filter(|effect| **effect == Effect::Reincarnate).count();
    assert_eq!((again, b.region.counts(&b.table).identity_clashes), (1, 100));
}

/// What was acknowledged and is lost is not clean, and counts.
#[test]
fn a_drain_asks_whether_all_is_still_there() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let seven = request("i", 1_000, 7);
    world.check(&mut a, &seven);
    world.run_ms(&mut a, 3_000);
    assert!(a.region.is_clean());
    world.store.flush(Shard(0));
    a.region.drain(world.now);
    assert!(!a.region.is_clean(), "nobody knows");
    a.region.tick(&a.table, world.now);
    world.answer_all(&mut a);
    a.region.tick(&a.table, world.now);
    let counts = a.region.counts(&a.table);
    assert_eq!((a.region.is_clean(), counts.unreplayed_cost), (false, 7), "it was lost");
    world.run_ms(&mut a, 100);
    assert_eq!((a.region.is_clean(), world.sum(&a, &seven)), (true, 7));
}

/// Nothing noted is left behind, however much there is.
#[test]
fn a_drain_looks_at_everything() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let names: Vec<String> = (0..2_000).map(|n| n.to_string()).collect();
    for name in &names {
        assert!(a.table.decide(&request(name, 1_000_000, 1), world.now).admitted());
    }
    a.region.drain(world.now);
    a.region.tick(&a.table, world.now);
    assert_eq!(a.region.counts(&a.table).unreplayed_cost, 2_000);
    world.run_ms(&mut a, 1_000);
    assert!(a.region.is_clean());
}

/// A glance at some of the subjects says about as much as a look at all of them.
#[test]
fn a_glance_reckons_what_is_not_recorded() {
    let (world, mut a) = (World::new(), Process::new(1));
    let names: Vec<String> = (0..20).map(|n| n.to_string()).collect();
    for name in &names {
        a.table.decide(&request(name, 1_000, 3), world.now);
    }
    a.region.tick(&a.table, world.now);
    let unrecorded = |most| a.region.count(&a.table, most).unreplayed_cost;
    assert_eq!([usize::MAX, 20, 5].map(unrecorded), [60; 3]);
    assert_eq!(a.region.glance(&a.table), a.region.counts(&a.table), "there are few");
}
