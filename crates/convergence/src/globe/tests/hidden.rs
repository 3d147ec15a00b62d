//! What must not stay hidden: usage that other regions have to hear of, and usage that is known
//! here and has to count.

use super::*;

/// The largest total that a region has published.
fn told(world: &World, region: usize) -> u64 {
    let of = world.written().into_iter().filter(|(of, _)| *of == region);
    of.map(|(_, count)| count).max().unwrap_or(0)
}

/// A client that goes to another region at the end of a window makes the first one speak.
#[test]
fn company_in_the_next_window_is_company() {
    let mut world = World::new(&[1, 1]);
    for _ in 0..31 {
        world.spend(0, 1_000, 30);
        world.run_ms(700);
    }
    assert!(told(&world, 1) < 930, "alone it keeps a part to itself");
    let to_end_ms = WINDOW_MS - world.now.unix_ms() % WINDOW_MS;
    world.run_ms(to_end_ms + 10);
    for _ in 0..20 {
        world.spend(1, 1_000, 4);
        world.run_ms(100);
    }
    assert_eq!(told(&world, 1), 930);
}

/// The first request of a window finds what is known of that window.
#[test]
fn a_new_window_is_known_before_its_first_request() {
    let mut world = World::new(&[1, 1]);
    world.spend(1, 1_000, 1);
    let to_end_ms = WINDOW_MS - world.now.unix_ms() % WINDOW_MS;
    world.run_ms(to_end_ms + 10);
    world.spend(0, 1_000, 990);
    world.run_ms(4_000);
    let one = request("user", 1_000, 1);
    let admitted = (0..1_000).filter(|_| world.check(1, &one).admitted()).count();
    assert!(admitted <= 10, "{admitted} admitted though 990 of 1000 are known to be used");
}

/// A leader that knows a little of a subject asks what the region knows of it.
#[test]
fn a_leader_answers_for_those_who_are_gone() {
    let mut world = World::new(&[2, 1]);
    let leader = world.leader(0);
    let follower = 1 - leader;
    world.spend(leader, 1_000, 1);
    for _ in 0..30 {
        world.spend(follower, 1_000, 25);
        world.run_ms(300);
    }
    assert!(told(&world, 1) < 750);
    world.processes[follower].dead = true;
    world.spend(2, 1_000, 100);
    world.run_ms(20_000);
    assert_eq!(told(&world, 1), 751);
}

/// Posted, then evicted; and the leader dies with the post.
#[test]
fn what_was_evicted_is_posted_again() {
    let mut world = World::new(&[2, 1]);
    let leader = world.leader(0);
    let other = 1 - leader;
    world.processes[leader].cut_off = true;
    assert!(world.check(other, &request("user", 1_000, 600)).admitted());
    world.run_ms(3_000);
    assert_eq!(world.written(), []);
    world.processes[other].table.forget_all();
    world.processes[leader].dead = true;
    world.run_ms(40_000);
    assert_eq!(world.written(), [(1, 600)]);
}

/// A private region that starts again is another component beside what it had published.
#[test]
fn a_private_region_that_restarts_hides_nothing() {
    let mut world = World::new(&[1]);
    world.stores.push(MemoryRegion::new(1));
    let private = world.add(1, "private", GlobeTuning::default());
    world.processes[private].globe.options.private = true;
    world.run_ms(3_000);
    assert!(world.check(private, &long(500)).admitted());
    world.run_ms(8_000);
    let now = world.now;
    let process = &mut world.processes[private];
    process.globe.drain(&process.table, now);
    world.run_ms(500);
    world.processes[private].globe.release(world.now);
    world.settle_one(private);
    world.processes[private].dead = true;
    world.stores.push(MemoryRegion::new(1));
    let next = world.add(2, "private", GlobeTuning::default());
    world.processes[next].globe.options.private = true;
    world.run_ms(3_000);
    assert!(world.check(next, &long(450)).admitted());
    world.run_ms(30_000);
    assert_eq!(world.check(next, &long(0)).remaining(), 50);
    assert_eq!(world.check(0, &long(0)).remaining(), 50, "950 of 1000 are used");
}

/// Tables that are made anew change nobody's number.
#[test]
fn a_region_keeps_its_number() {
    let mut world = World::new(&[2, 1]);
    let leader = world.leader(0);
    let identity = world.processes[2].globe.name.identity();
    world.globe = MemoryGlobe::default();
    let name = RegionName::new("region-1").unwrap();
    world.globe.call(&GlobalCall::Register { name, identity }, world.now.unix_ms()).unwrap();
    world.run_ms(15_000);
    world.spend(leader, 10, 4);
    world.run_ms(30_000);
    assert_eq!(world.check(1 - leader, &request("user", 10, 0)).remaining(), 6, "4 of 10");
}

/// A region whose own store is away keeps its name: another one of that name does not get it.
#[test]
fn a_name_is_renewed_without_the_regional_store() {
    let mut world = World::new(&[2, 1]);
    world.stores.push(MemoryRegion::new(1));
    let clone = world.add(2, "region-0", GlobeTuning::default());
    world.run_ms(20_000);
    assert_eq!((world.counts(0).registered, world.counts(clone).registered), (1, 0));
    world.away = Some(0);
    world.run_ms(45_000);
    world.away = None;
    world.run_ms(20_000);
    let registered = [0, 1, clone].map(|at| world.counts(at).registered);
    assert_eq!(registered, [1, 1, 0]);
}
