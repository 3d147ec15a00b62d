//! How old the oldest cost is that the region has not recorded.

use super::*;

#[test]
fn what_is_not_recorded_grows_older_until_it_is() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    assert_eq!(a.region.unrecorded_age_ms(world.now), 0, "there is nothing");
    assert!(world.check(&mut a, &request("i", 1_000, 1)).admitted());
    a.region.tick(&a.table, world.now);
    for seconds in 1..10 {
        world.pass_ms(1_000);
        a.region.tick(&a.table, world.now);
        world.fail_all(&mut a);
        let age_ms = a.region.unrecorded_age_ms(world.now);
        assert_eq!(age_ms, seconds * 1_000, "no answer makes it younger");
    }
    world.run_ms(&mut a, 10_000);
    assert!(a.region.is_clean());
    assert_eq!(a.region.unrecorded_age_ms(world.now), 0);
}

#[test]
fn a_subject_that_never_rests_is_no_older_than_what_was_sent_last() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let mut worst_ms = 0;
    for _ in 0..2_000 {
        assert!(world.check(&mut a, &request("i", 1_000_000, 1)).admitted());
        world.run_ms(&mut a, 10);
        worst_ms = worst_ms.max(a.region.unrecorded_age_ms(world.now));
    }
    let most_ms = Tuning::default().replay_max_ms;
    assert!((100..=most_ms).contains(&worst_ms), "{worst_ms} ms of 20,000");
}

#[test]
fn what_a_shard_has_lost_is_not_recorded() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    assert!(world.check(&mut a, &request("i", 1_000, 500)).admitted());
    world.run_ms(&mut a, 5_000);
    assert_eq!(a.region.unrecorded_age_ms(world.now), 0);
    world.store = MemoryRegion::new(1);
    let mut noticed = false;
    for _ in 0..300 {
        a.region.tick(&a.table, world.now);
        noticed |= a.region.unrecorded_age_ms(world.now) > 0;
        world.pass_ms(10);
        noticed |= a.region.unrecorded_age_ms(world.now) > 0;
        world.answer_all(&mut a);
    }
    assert!(noticed && a.region.counts(&a.table).losses == 1);
    assert_eq!(a.region.unrecorded_age_ms(world.now), 0, "it was sent again");
}
