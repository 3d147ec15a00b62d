//! What is asked for: granted, refused, unheard of, given up.

use tidegate_limiter::{Asking, Consistency};

use super::*;

pub(super) fn bounded(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    request(identifier, limit, cost).with_consistency(Consistency::Bounded)
}

impl Process {
    fn claim(&self, request: &Request<'_>, now: Now) -> Asking {
        match self.table.decide_or_refresh(request, now) {
            Decision::Ask(asking) => asking,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn ask(&mut self, request: &Request<'_>, now: Now) -> Waiter {
        let asking = self.claim(request, now);
        match self.region.ask(&self.table, asking, now) {
            Asked::Wait(waiter) => waiter,
            other => panic!("{other:?}"),
        }
    }

    fn mine(&self, request: &Request<'_>, now: Now) -> (u64, u64) {
        let cell = self.table.cell(request.subject(), now.unix_ms() / WINDOW_MS).unwrap();
        (cell.claimed(), cell.mine())
    }

    /// What each wait came to, in order.
    pub(super) fn grants(&mut self) -> Vec<Granted> {
        self.take_wakes().into_iter().filter_map(|(_, outcome)| outcome.granted).collect()
    }
}

/// A process that has met its shard.
pub(super) fn acquainted(world: &mut World, incarnation: u128) -> Process {
    let mut process = Process::new(incarnation);
    world.check(&mut process, &bounded("another", 10, 1));
    process
}

#[test]
fn who_has_not_met_its_shard_asks_twice() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let one = bounded("i", 7, 1);
    let answer = world.check(&mut a, &one);
    assert_eq!((answer.remaining(), answer.source()), (6, Source::Region));
    assert_eq!(answer.consistency(), Consistency::Bounded);
    let counts = a.region.counts(&a.table);
    assert_eq!((counts.asks, counts.asks_refused, counts.asks_unheard), (2, 0, 0));
    assert_eq!(counts.asks_estranged, 1);
    assert_eq!((world.sum(&a, &one), a.mine(&one, world.now)), (1, (1, 1)));
}

#[test]
fn two_processes_spend_a_limit_once() {
    let mut world = World::new();
    let (mut a, mut b) = (acquainted(&mut world, 1), acquainted(&mut world, 2));
    let one = bounded("i", 10, 1);
    let waits = (0..10).map(|_| (a.ask(&one, world.now), b.ask(&one, world.now)));
    assert_eq!(waits.count(), 10, "both see a limit that is free");
    let admitted = |process: &mut Process| {
        process.grants().into_iter().filter(|granted| *granted == Granted::Yes).count()
    };
    let mut both = 0;
    for _ in 0..2 {
        world.answer_all(&mut a);
        world.answer_all(&mut b);
        both += admitted(&mut a) + admitted(&mut b);
    }
    assert_eq!((both, world.sum(&a, &one)), (10, 10));
    for process in [&mut a, &mut b] {
        let answer = world.check(process, &one);
        assert!(!answer.admitted() && !answer.degraded());
        let (claimed, mine) = process.mine(&one, world.now);
        assert_eq!(claimed, mine, "nothing waits any more");
    }
}

#[test]
fn those_who_come_meanwhile_go_together() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let (one, two) = (bounded("i", 100, 1), bounded("i", 100, 2));
    for request in [&one, &one, &one, &two, &one] {
        a.ask(request, world.now);
    }
    a.take_effects();
    let calls = a.take_calls();
    assert_eq!(calls.len(), 1, "one ask of a subject is under way");
    for (id, call) in calls {
        let reply = world.store.call(&call, world.now.monotonic_ms());
        a.region.replied(&a.table, id, Ok(reply), world.now);
    }
    a.take_effects();
    let calls = a.take_calls();
    let units = calls[0].1.ask.as_ref().map(|ask| ask.units.clone()).unwrap();
    let sizes: Vec<_> = units.iter().map(|unit| (unit.wants[0].cost, unit.count)).collect();
    assert_eq!(sizes, [(1, 2), (2, 1), (1, 1)]);
}

#[test]
fn a_long_line_goes_in_parts() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let costs: Vec<u64> = (0..1_200).map(|n| 1 + n % 2).collect();
    for cost in &costs {
        a.ask(&bounded("i", 10_000, *cost), world.now);
    }
    let mut asks = Vec::new();
    while asks.len() < 10 {
        a.take_effects();
        let calls = a.take_calls();
        if calls.is_empty() {
            break;
        }
        for (id, call) in calls {
            asks.push(call.ask.as_ref().map_or(0, |ask| ask.units.len()));
            let reply = world.store.call(&call, world.now.monotonic_ms());
            a.region.replied(&a.table, id, Ok(reply), world.now);
        }
    }
    assert_eq!(asks, [1, 512, 512, 175]);
    assert_eq!(a.grants(), vec![Granted::Yes; 1_200]);
    assert_eq!(world.sum(&a, &bounded("i", 10_000, 1)), 1_800);
}

/// Two batches over the same subjects, and singles around them: nobody waits for ever.
#[test]
fn batches_stand_in_all_their_lines() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let (x, y) = (bounded("x", 100, 1), bounded("y", 100, 1));
    let batch = |a: &mut Process, items: &[Request<'_>]| {
        let batch = Batch::new(items).unwrap();
        let BatchDecision::Ask(asking) = a.table.decide_all_or_refresh(&batch, world.now) else {
            panic!("all are cold");
        };
        assert!(matches!(a.region.ask(&a.table, asking, world.now), Asked::Wait(_)));
    };
    a.ask(&x, world.now);
    batch(&mut a, &[x, y]);
    a.ask(&y, world.now);
    batch(&mut a, &[y, x]);
    a.ask(&x, world.now);
    a.take_effects();
    let asked = a.take_calls();
    assert_eq!(asked.len(), 1, "y waits for the batch, which waits for x");
    let reply = world.store.call(&asked[0].1, world.now.monotonic_ms());
    a.region.replied(&a.table, asked[0].0, Ok(reply), world.now);
    world.answer_all(&mut a);
    assert_eq!(a.grants(), [Granted::Yes; 5]);
    assert_eq!((world.sum(&a, &x), world.sum(&a, &y)), (4, 3));
}

#[test]
fn no_answer_admits_and_is_never_counted_twice() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let three = bounded("i", 10, 3);
    a.ask(&three, world.now);
    a.take_effects();
    let late = a.take_calls();
    a.region.replied(&a.table, late[0].0, Err(StoreError::Timeout), world.now);
    assert_eq!(a.grants(), [Granted::Unheard]);
    assert_eq!(a.mine(&three, world.now), (3, 3));
    // Not asked again for a moment; then it tells, asks and is granted.
    let soon = world.check(&mut a, &three);
    assert!(soon.admitted() && soon.degraded());
    world.run_ms(&mut a, 300);
    assert_eq!(world.sum(&a, &three), 6);
    let answer = world.check(&mut a, &three);
    assert_eq!((answer.remaining(), answer.degraded()), (1, false));
    // The first one arrives after all.
    let asked = world.store.call(&late[0].1, world.now.monotonic_ms()).asked.unwrap();
    assert_eq!(asked.grants, [crate::ask::Grant::Conflict]);
    assert_eq!(world.sum(&a, &three), 9);
}

#[test]
fn a_late_ask_that_comes_before_the_next_tells_no_more_than_is_admitted() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let three = bounded("i", 10, 3);
    a.ask(&three, world.now);
    a.take_effects();
    let late = a.take_calls();
    a.region.replied(&a.table, late[0].0, Err(StoreError::Timeout), world.now);
    world.store.call(&late[0].1, world.now.monotonic_ms());
    assert_eq!(world.sum(&a, &three), 3);
    world.run_ms(&mut a, 300);
    assert_eq!((world.sum(&a, &three), a.mine(&three, world.now).1), (3, 3));
    assert_eq!(a.region.counts(&a.table).identity_clashes, 0);
}

#[test]
fn who_gives_up_is_admitted_once() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let one = bounded("i", 10, 1);
    let flying = a.ask(&one, world.now);
    let standing = a.ask(&one, world.now);
    for waiter in [flying, standing] {
        assert!(a.region.give_up(&a.table, waiter, world.now));
        assert!(!a.region.give_up(&a.table, waiter, world.now), "it has ended");
    }
    assert_eq!(a.mine(&one, world.now), (2, 2));
    world.answer_all(&mut a);
    assert_eq!((a.grants(), a.mine(&one, world.now)), (vec![], (2, 2)));
    world.run_ms(&mut a, 300);
    assert_eq!(world.sum(&a, &one), 2);
}

#[test]
fn who_leaves_is_charged_only_if_it_was_under_way() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let one = bounded("i", 10, 1);
    let flying = a.ask(&one, world.now);
    let standing = a.ask(&one, world.now);
    a.region.leave(&a.table, standing, world.now);
    assert_eq!(a.mine(&one, world.now), (1, 0));
    a.region.leave(&a.table, flying, world.now);
    assert_eq!(a.mine(&one, world.now), (1, 0), "the store may have granted it");
    world.answer_all(&mut a);
    assert_eq!((a.grants(), a.mine(&one, world.now)), (vec![], (1, 1)));
    assert_eq!(world.sum(&a, &one), 1);
}

#[test]
fn nothing_else_is_sent_of_what_is_asked_for() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let (one, fast) = (bounded("i", 10, 1), request("i", 10, 1));
    a.ask(&one, world.now);
    a.take_effects();
    let asked = a.take_calls();
    // An admission of the other kind is told when the ask has landed.
    a.table.decide(&fast, world.now);
    for _ in 0..3 {
        a.region.tick(&a.table, world.now);
        world.pass_ms(1);
    }
    a.take_effects();
    let cell = a.table.cell(one.subject(), world.now.unix_ms() / WINDOW_MS).unwrap();
    let digest = cell.digest();
    let others = a.take_calls();
    let told = others.iter().flat_map(|(_, call)| &call.records);
    assert!(told.into_iter().all(|record| record.subject != digest), "{others:?}");
    let reply = world.store.call(&asked[0].1, world.now.monotonic_ms());
    a.region.replied(&a.table, asked[0].0, Ok(reply), world.now);
    assert_eq!(a.grants(), [Granted::Yes]);
    world.run_ms(&mut a, 300);
    assert_eq!((world.sum(&a, &one), a.mine(&one, world.now)), (2, (2, 2)));
}

#[test]
fn who_waits_for_others_looks_again() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let six = bounded("i", 10, 6);
    a.ask(&six, world.now);
    let need = match a.table.decide_or_refresh(&six, world.now) {
        Decision::Refresh(need) => need,
        other => panic!("{other:?}"),
    };
    assert_eq!(need.reason, Reason::Reserved);
    let Refresh::Wait(later) = a.region.refresh(&a.table, &[need], world.now) else {
        panic!("someone waits");
    };
    world.answer_all(&mut a);
    let wakes = a.take_wakes();
    assert_eq!(wakes[0].1.granted, Some(Granted::Yes));
    assert_eq!((wakes[1].0, wakes[1].1.look_again), (later, true));
    assert!(!world.check(&mut a, &six).admitted());
    let again = a.region.refresh(&a.table, &[need], world.now);
    assert_eq!(again, Refresh::LookAgain, "nobody waits any more");
}

/// What a batch only holds, because it is on credit, is in the way of others as well.
#[test]
fn who_waits_for_what_a_batch_holds_looks_again() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let large = bounded("large", 80, 1);
    world.check(&mut a, &large);
    world.run_ms(&mut a, 300);
    let items = [bounded("large", 80, 5), bounded("small", 5, 1)];
    let batch = Batch::new(&items).unwrap();
    let BatchDecision::Ask(asking) = a.table.decide_all_or_refresh(&batch, world.now) else {
        panic!("one of them is cold");
    };
    assert_eq!(asking.wanted().count(), 1);
    assert!(matches!(a.region.ask(&a.table, asking, world.now), Asked::Wait(_)));
    let rest = bounded("large", 80, 76);
    let Decision::Refresh(need) = a.table.decide_or_refresh(&rest, world.now) else {
        panic!("75 are left while the batch waits");
    };
    let Refresh::Wait(later) = a.region.refresh(&a.table, &[need], world.now) else {
        panic!("someone waits");
    };
    world.answer_all(&mut a);
    let woken = a.take_wakes().into_iter().find(|(waiter, _)| *waiter == later);
    assert!(woken.is_some_and(|(_, outcome)| outcome.look_again));
}

#[test]
fn a_shard_that_forgot_is_asked_anew() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let four = bounded("i", 10, 4);
    world.check(&mut a, &four);
    world.store.flush(Shard(0));
    let answer = world.check(&mut a, &four);
    assert_eq!((answer.remaining(), answer.degraded()), (2, false));
    assert_eq!(a.region.counts(&a.table).losses, 1);
    assert!(!world.check(&mut a, &four).admitted());
    world.run_ms(&mut a, 3_000);
    assert_eq!(world.sum(&a, &four), 8);
}

#[test]
fn a_window_that_ends_in_line_is_asked_anew() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let one = bounded("i", 10, 1);
    world.pass_ms(WINDOW_MS - 10);
    a.ask(&one, world.now);
    a.ask(&one, world.now);
    world.pass_ms(15);
    // The subject turns, as the first request of the new window makes it.
    a.ask(&one, world.now);
    world.answer_all(&mut a);
    assert_eq!(a.grants(), [Granted::Yes, Granted::No, Granted::Yes]);
    let before = a.table.cell(one.subject(), world.now.unix_ms() / WINDOW_MS - 1).unwrap();
    assert_eq!((before.claimed(), before.mine()), (1, 1));
}

#[test]
fn a_batch_is_granted_whole_or_not_at_all() {
    let mut world = World::new();
    let (mut a, mut b) = (acquainted(&mut world, 1), acquainted(&mut world, 2));
    world.check(&mut b, &bounded("second", 10, 8));
    let items = [bounded("first", 10, 3), bounded("second", 10, 3)];
    let batch = Batch::new(&items).unwrap();
    let BatchDecision::Ask(asking) = a.table.decide_all_or_refresh(&batch, world.now) else {
        panic!("both are cold");
    };
    assert!(matches!(a.region.ask(&a.table, asking, world.now), Asked::Wait(_)));
    world.answer_all(&mut a);
    assert_eq!(a.grants(), [Granted::No]);
    assert_eq!((world.sum(&a, &items[0]), world.sum(&a, &items[1])), (0, 8));
    let BatchDecision::Answered(answer) = a.table.decide_all_or_refresh(&batch, world.now) else {
        panic!("what was heard denies it");
    };
    assert!(!answer.admitted() && answer.items()[0].admitted() && !answer.items()[1].admitted());
}

#[test]
fn shards_that_cannot_grant_together_are_not_asked() {
    let world = World::new();
    let mut a = Process::new(1);
    a.region = Region::new(Tuning::default(), 1, 64);
    let names: Vec<String> = (0..8).map(|n| n.to_string()).collect();
    let items: Vec<_> = names.iter().map(|name| bounded(name, 10, 1)).collect();
    let batch = Batch::new(&items).unwrap();
    let BatchDecision::Ask(asking) = a.table.decide_all_or_refresh(&batch, world.now) else {
        panic!("all are cold");
    };
    assert_eq!(a.region.ask(&a.table, asking, world.now), Asked::Apart);
    assert!(items.iter().all(|item| a.mine(item, world.now) == (0, 0)));
}

#[test]
fn a_process_under_a_new_name_keeps_no_claim() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let one = bounded("i", 10, 1);
    a.ask(&one, world.now);
    a.ask(&one, world.now);
    a.region.reincarnate(&a.table, 7, world.now);
    assert_eq!(a.grants(), [Granted::Unheard, Granted::No]);
    assert_eq!(a.table.subjects(), 0);
    assert_eq!(world.check(&mut a, &one).remaining(), 9);
}
