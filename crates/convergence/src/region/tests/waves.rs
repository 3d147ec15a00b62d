//! When subjects are told that began together.

use super::*;

#[test]
fn what_began_together_is_not_told_together() {
    const SUBJECTS: u64 = 400;
    let (mut world, mut process) = (World::new(), Process::new(1));
    let names: Vec<String> = (0..SUBJECTS).map(|at| format!("i{at}")).collect();
    for name in &names {
        assert!(world.check(&mut process, &request(name, 1_000_000, 1)).admitted());
    }
    // A tenth of a second each, up to the most that any of them may wait.
    let told: Vec<u64> = (0..20)
        .map(|_| {
            let before = process.region.counts(&process.table).replayed;
            world.run_ms(&mut process, 100);
            process.region.counts(&process.table).replayed - before
        })
        .collect();
    assert_eq!(told.iter().sum::<u64>(), SUBJECTS, "each of them once");
    // What waits for a multiple of five goes up to that much earlier.
    let (first, second) = told.split_at(14);
    assert_eq!(first.iter().sum::<u64>(), 0, "nobody has much to tell");
    assert!(second.iter().all(|told| *told <= 110), "80 would be even: {second:?}");
}

/// Subjects that are asked about in turn, and were left alone earlier in the window: by their rate
/// of the window so far nobody is told by the clock, and all would have enough to tell in the same
/// turn, of every turn that follows.
#[test]
fn what_takes_turns_is_not_told_together() {
    const SUBJECTS: u64 = 400;
    /// Of a second: in each, every second subject is asked about.
    const BINS: u64 = 30;
    let (mut world, mut process) = (World::new(), Process::new(1));
    world.pass_ms(WINDOW_MS / 3);
    let names: Vec<String> = (0..SUBJECTS).map(|at| format!("i{at}")).collect();
    let mut bin = |at: u64| {
        let before = process.region.counts(&process.table).replayed;
        for name in names.iter().skip(usize::try_from(at % 2).unwrap()).step_by(2) {
            assert!(world.check(&mut process, &request(name, 1_000, 1)).admitted());
        }
        world.run_ms(&mut process, 1_000 / BINS);
        process.region.counts(&process.table).replayed - before
    };
    // After a few turns, because the first is one in which it may happen by chance.
    for second in 0..8 {
        let told: Vec<u64> = (0..BINS).map(&mut bin).collect();
        let most = told.iter().max().copied();
        let even = told.iter().sum::<u64>() / BINS;
        assert!(second < 2 || most <= Some(3 * even), "second {second}: {told:?}");
    }
}

/// A process that is asked all it can answer comes to its region seldom. What it has to tell would
/// become more and more otherwise, and so what is lost with it.
#[test]
fn who_comes_to_it_seldom_does_not_fall_behind() {
    const SUBJECTS: u64 = 10_000;
    /// What it takes at four full calls in a round, and half as many again.
    const ROUNDS: usize = 30;
    let (mut world, mut process) = (World::new(), Process::new(1));
    let options = Options::default().with_budget_bytes(32 << 20).with_region();
    process.table = Table::new(options, Seed::from_bytes([7; 32]));
    let names: Vec<String> = (0..SUBJECTS).map(|at| format!("i{at}")).collect();
    for name in &names {
        assert!(world.check(&mut process, &request(name, 1_000_000, 1)).admitted());
    }
    while process.region.next_tick_ms() == Some(0) {
        process.region.tick(&process.table, world.now);
    }
    world.pass_ms(Tuning::default().replay_max_ms);
    let mut rounds = 0;
    while process.region.counts(&process.table).dirty > 0 && rounds < 200 {
        rounds += 1;
        // One step, and then one round trip for all that is under way.
        process.region.tick(&process.table, world.now);
        process.take_effects();
        world.pass_ms(5);
        for (id, call) in process.take_calls() {
            let reply = world.store.call(&call, world.now.monotonic_ms());
            process.region.replied(&process.table, id, Ok(reply), world.now);
        }
    }
    assert!(rounds <= ROUNDS, "{rounds} rounds");
}

/// When a subject is due is kept with it: where it stood before, it is passed over.
#[test]
fn who_is_due_earlier_is_told_once() {
    let (mut world, mut process) = (World::new(), Process::new(1));
    // By its rate in this window so far, it may wait for as long as anybody.
    world.pass_ms(WINDOW_MS / 2);
    let replayed = |process: &Process| process.region.counts(&process.table).replayed;
    assert!(world.check(&mut process, &request("i", 1_000, 1)).admitted());
    world.run_ms(&mut process, 100);
    assert_eq!(replayed(&process), 0, "it is in no hurry");
    // So much that the others have to know at once.
    assert!(world.check(&mut process, &request("i", 1_000, 15)).admitted());
    world.run_ms(&mut process, 10);
    assert_eq!(replayed(&process), 1);
    // It is noted anew before the time at which it was due first, 1.5 to 2 s from its beginning,
    // and waits as long from now on.
    world.run_ms(&mut process, 600);
    assert!(world.check(&mut process, &request("i", 1_000, 1)).admitted());
    world.run_ms(&mut process, 1_340);
    assert_eq!(replayed(&process), 1, "not when it was due first");
    world.run_ms(&mut process, 900);
    assert_eq!(replayed(&process), 2);
    assert!(process.region.is_clean());
    assert_eq!(process.region.due.first_ms(), None, "nothing is left of it");
}

/// What is told at once, and how much of it, is for the others; where there are none, nobody is in
/// a hurry before what is lent becomes scarce.
#[test]
fn who_is_alone_tells_a_larger_part_at_once() {
    let told_at = |others: u128| {
        let (mut world, mut process) = (World::new(), Process::new(1));
        world.pass_ms(WINDOW_MS / 2);
        for other in 0..others {
            let mut other = Process::new(2 + other);
            let asked = request("other", 1_600, 1).with_consistency(Consistency::Bounded);
            assert!(world.check(&mut other, &asked).admitted());
            world.run_ms(&mut other, 1_100);
        }
        let bounded = request("i", 1_600, 1).with_consistency(Consistency::Bounded);
        // How many there are is heard within a second.
        assert!(world.check(&mut process, &bounded).admitted());
        world.run_ms(&mut process, 2_100);
        assert!(world.check(&mut process, &bounded).admitted());
        world.run_ms(&mut process, 2_100);
        assert!(process.region.is_clean());
        let before = process.region.counts(&process.table).replayed;
        (1..200_u64).find(|_| {
            assert!(world.check(&mut process, &bounded).admitted());
            world.run_ms(&mut process, 1);
            process.region.counts(&process.table).replayed > before
        })
    };
    assert_eq!(told_at(1), Some(25), "one part in 64 of the limit");
    assert_eq!(told_at(0), Some(99), "one part in 16 of the room");
}

#[test]
fn who_is_alone_tells_before_it_has_to_ask() {
    let tuning = Tuning::default();
    assert!(tuning.replay_alone_part >= 2 * tuning.freshness.credit_part);
    assert!(tuning.replay_alone_part <= tuning.replay_part, "it is never less than in company");
}
