//! When subjects are told that began together.

use super::super::replay::TOGETHER_MS;
use super::*;

#[test]
fn what_began_together_is_not_told_together() {
    const SUBJECTS: u64 = 400;
    let (mut world, mut process) = (World::new(), Process::new(1));
    let names: Vec<String> = (0..SUBJECTS).map(|at| format!("i{at}")).collect();
    for name in &names {
        assert!(world.check(&mut process, &request(name, 1_000_000, 1)).admitted());
    }
    // A tenth of a second each, up to the most that any of them may wait, and what the call takes
    // that is under way then.
    let told: Vec<u64> = std::iter::repeat_n(100, 20)
        .chain([10])
        .map(|ms| {
            let before = process.region.counts(&process.table).replayed;
            world.run_ms(&mut process, ms);
            process.region.counts(&process.table).replayed - before
        })
        .collect();
    assert_eq!(told.iter().sum::<u64>(), SUBJECTS, "each of them once");
    // What waits for a multiple of two goes up to that much earlier.
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
    // The first of a subject is admitted here, or granted; and so is the first after a pause in
    // which it became stale.
    for (consistency, pause_ms) in [
        (Consistency::Fast, 0),
        (Consistency::Fast, 6_000),
        (Consistency::Bounded, 0),
        (Consistency::Bounded, 6_000),
    ] {
        let (mut world, mut process) = (World::new(), Process::new(1));
        world.pass_ms(WINDOW_MS / 3);
        let names: Vec<String> = (0..SUBJECTS).map(|at| format!("i{at}")).collect();
        let mut bin = |at: u64, pause_ms: u64| {
            world.run_ms(&mut process, pause_ms);
            let before = process.region.counts(&process.table).replayed;
            for name in names.iter().skip(usize::try_from(at % 2).unwrap()).step_by(2) {
                let request = request(name, 1_000, 1).with_consistency(consistency);
                assert!(world.check(&mut process, &request).admitted());
            }
            world.run_ms(&mut process, 1_000 / BINS);
            process.region.counts(&process.table).replayed - before
        };
        for second in 0..12 {
            let pause_ms = if second == 4 { pause_ms } else { 0 };
            let told: Vec<u64> =
                (0..BINS).map(|at| bin(at, if at == 0 { pause_ms } else { 0 })).collect();
            let most = told.iter().max().copied().unwrap();
            // Three times what would be even if each was told once in a second. When they begin,
            // the first is granted or read in the turn in which it comes.
            let even = SUBJECTS / BINS;
            assert!(most <= 3 * even, "second {second}, {consistency:?}: {told:?}");
        }
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

/// Where thousands of subjects in a second have enough to tell at once, a call for each of them
/// would be most of what a region costs.
#[test]
fn what_is_told_at_once_one_after_the_other_goes_together() {
    const SUBJECTS: usize = 80;
    let (mut world, mut process) = (World::new(), Process::new(1));
    let names: Vec<String> = (0..SUBJECTS).map(|at| format!("i{at}")).collect();
    let spend = |world: &mut World, process: &mut Process, name: &str, cost| {
        assert!(world.check(process, &request(name, 1_000, cost)).admitted());
    };
    // All are known, and what is known of them is fresh.
    names.iter().for_each(|name| spend(&mut world, &mut process, name, 1));
    world.run_ms(&mut process, 3_000);
    let seen = |process: &Process| {
        let counts = process.region.counts(&process.table);
        (counts.replayed, counts.calls)
    };
    let (replayed, calls) = seen(&process);
    let (first, rest) = names.split_first().unwrap();
    for _ in 0..2 {
        spend(&mut world, &mut process, first, 15);
    }
    process.region.tick(&process.table, world.now);
    assert_eq!(seen(&process), (replayed + 1, calls + 1), "the first waits for nobody");
    for few in rest.chunks(4) {
        for name in few.iter().chain(few) {
            spend(&mut world, &mut process, name, 15);
        }
        world.run_ms(&mut process, 1);
    }
    world.run_ms(&mut process, TOGETHER_MS);
    let (told, called) = seen(&process);
    assert_eq!(told - replayed, SUBJECTS as u64, "each of them once");
    assert!(called - calls <= 12, "{} calls in 22 ms", called - calls);
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

/// How many admissions there are from one record to the next, at a thousand in a second.
fn told_every(world: &mut World, process: &mut Process) -> u64 {
    let bounded = request("i", 1_600, 1).with_consistency(Consistency::Bounded);
    let mut told = Vec::new();
    for number in 0..200_u64 {
        let before = process.region.counts(&process.table).replayed;
        assert!(world.check(process, &bounded).admitted());
        world.run_ms(process, 1);
        if process.region.counts(&process.table).replayed > before {
            told.push(number);
        }
        if let [.., before, last] = told.as_slice()
            && told.len() > 2
        {
            return last - before;
        }
    }
    panic!("{told:?}")
}

/// A process that others know of, because it has asked for something.
fn present(world: &mut World, incarnation: u128) -> Process {
    let mut process = Process::new(incarnation);
    let asked = request("other", 1_600, 1).with_consistency(Consistency::Bounded);
    assert!(world.check(&mut process, &asked).admitted());
    world.run_ms(&mut process, 1_200);
    process
}

/// What is told at once is for the others: where there are none, less is; until there are.
#[test]
fn who_is_alone_tells_less_at_once() {
    let (mut world, mut process) = (World::new(), Process::new(1));
    world.pass_ms(WINDOW_MS / 2);
    let asked = request("i", 1_600, 1).with_consistency(Consistency::Bounded);
    assert!(world.check(&mut process, &asked).admitted());
    world.run_ms(&mut process, 1_200);
    assert_eq!(told_every(&mut world, &mut process), 66, "one part in 24 of the limit");
    let mut other = present(&mut world, 2);
    world.run_ms(&mut process, 1_200);
    world.run_ms(&mut other, 0);
    assert_eq!(told_every(&mut world, &mut process), 25, "one part in 64");
}

#[test]
fn who_is_alone_tells_before_it_has_to_ask() {
    let tuning = Tuning::default();
    // Up to a quarter more than that part, when half of the limit is left.
    let [told, lent] = [tuning.replay_alone_part * 4 / 5, tuning.freshness.credit_part * 2];
    assert!(told > lent, "{told} {lent}");
    assert!(tuning.replay_alone_part <= tuning.replay_part, "it is never less than in company");
}
