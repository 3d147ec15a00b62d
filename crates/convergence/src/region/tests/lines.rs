//! Lines that move, ends that are told, and failures that are remembered.

use tidegate_limiter::Consistency;

use super::ask::{acquainted, bounded};
use super::*;

const SHORT_MS: u64 = 1_000;

fn short(identifier: &str, cost: u64) -> Request<'_> {
    let part = |text| Part::new(text).unwrap();
    let window = Window::from_millis(SHORT_MS).unwrap();
    let subject = Subject::new(part("w"), part("n"), part(identifier), window);
    let request = Request::new(subject, Limit::new(10), Cost::new(cost).unwrap());
    request.with_consistency(Consistency::Bounded)
}

fn ask_all(process: &mut Process, items: &[Request<'_>], now: Now) -> Waiter {
    let batch = Batch::new(items).unwrap();
    let BatchDecision::Ask(asking) = process.table.decide_all_or_refresh(&batch, now) else {
        panic!("something is cold");
    };
    match process.region.ask(&process.table, asking, now) {
        Asked::Wait(waiter) => waiter,
        other => panic!("{other:?}"),
    }
}

/// The call fails after the last caller gave up: the next one does not wait for the same.
#[test]
fn a_failure_is_remembered_although_nobody_waits() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let one = bounded("i", 10, 1);
    let waiter = a.ask(&one, world.now);
    world.pass_ms(20);
    assert!(a.region.give_up(&a.table, waiter, world.now));
    world.fail_all(&mut a);
    match a.table.decide_or_refresh(&one, world.now) {
        Decision::Answered(answer) => assert!(answer.admitted() && answer.degraded()),
        other => panic!("asked again at once: {other:?}"),
    }
}

/// Batches that share one subject go together, but never more than a store takes.
#[test]
fn an_ask_is_no_larger_than_a_store_takes() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let names: Vec<String> = (0..400).map(|n| format!("u{n}")).collect();
    let shared = bounded("shared", 100_000, 1);
    for some in names.chunks(4) {
        let mut items = vec![shared];
        items.extend(some.iter().map(|name| bounded(name, 10, 1)));
        ask_all(&mut a, &items, world.now);
    }
    let mut sizes = Vec::new();
    for _ in 0..20 {
        a.take_effects();
        for (id, call) in a.take_calls() {
            let ask = call.ask.as_ref().unwrap();
            assert!(ask.is_sound());
            sizes.push(ask.cells.len());
            let reply = world.store.call(&call, world.now.monotonic_ms());
            a.region.replied(&a.table, id, Ok(reply), world.now);
        }
    }
    assert_eq!(a.grants().len(), 100, "everybody was answered, in {sizes:?}");
    assert!(sizes.iter().all(|size| *size <= 132), "{sizes:?}");
}

/// A batch over `b` and a short window that ends while it stands in line; behind it another batch
/// over `a` and `b`, and somebody who would fit but for it. Then the ask that it waited for lands.
fn over() -> (World, Process, [Waiter; 3]) {
    let mut world = World::new();
    let mut process = acquainted(&mut world, 1);
    world.pass_ms(SHORT_MS - 5);
    process.ask(&short("c", 1), world.now);
    process.take_effects();
    let flying = process.take_calls();
    let b = bounded("b", 10, 6);
    let first = ask_all(&mut process, &[b, short("c", 1)], world.now);
    let items = [bounded("a", 10, 1), bounded("b", 10, 1)];
    let behind = ask_all(&mut process, &items, world.now);
    let Decision::Refresh(need) = process.table.decide_or_refresh(&b, world.now) else {
        panic!("it would fit but for the batches");
    };
    let Refresh::Wait(later) = process.region.refresh(&process.table, &[need], world.now) else {
        panic!("someone waits");
    };
    world.pass_ms(10);
    // Somebody turns the short one.
    let _ = process.table.decide(&short("c", 0), world.now);
    let (id, call) = &flying[0];
    let reply = world.store.call(call, world.now.monotonic_ms());
    process.region.replied(&process.table, *id, Ok(reply), world.now);
    (world, process, [first, behind, later])
}

#[test]
fn who_stands_behind_one_whose_window_ends_goes() {
    let (_, mut process, _) = over();
    process.take_effects();
    let calls = process.take_calls();
    assert_eq!(calls.iter().filter(|(_, call)| call.ask.is_some()).count(), 1);
}

#[test]
fn who_waits_for_one_whose_window_ends_is_told() {
    let (_, mut process, [first, behind, later]) = over();
    let woken: Vec<Waiter> = process.take_wakes().into_iter().map(|(waiter, _)| waiter).collect();
    assert!(woken.contains(&first) && woken.contains(&later) && !woken.contains(&behind));
}

#[test]
fn a_window_that_ended_in_line_leaves_nothing_behind() {
    let (mut world, mut process, [_, _, later]) = over();
    process.region.leave(&process.table, later, world.now);
    world.answer_all(&mut process);
    process.region.drain(world.now);
    world.run_ms(&mut process, 10_000);
    assert!(process.region.is_clean(), "{:?}", process.region.counts(&process.table));
}

/// Readers share what is asked for: it tells as much.
#[test]
fn a_read_joins_an_ask() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    a.ask(&bounded("i", 10, 1), world.now);
    let Decision::Refresh(need) = a.table.decide_or_refresh(&request("i", 10, 1), world.now) else {
        panic!("it is cold");
    };
    let Refresh::Wait(reader) = a.region.refresh(&a.table, &[need], world.now) else {
        panic!("it waits");
    };
    world.answer_all(&mut a);
    let woken = a.take_wakes().into_iter().find(|(waiter, _)| *waiter == reader);
    assert!(woken.is_some_and(|(_, heard)| !heard.look_again && heard.unheard.is_empty()));
    assert_eq!(a.reads(), 0);
}

/// While something is claimed, what the own region has published proves less.
#[test]
fn what_is_published_is_told_again_when_an_ask_has_ended() {
    let mut world = World::new();
    let mut a = super::ask::acquainted(&mut world, 1);
    let one = super::ask::bounded("i", 7, 1);
    a.region.watch_growth();
    let untold = |process: &mut Process| {
        let mut touched = Vec::new();
        process.region.take_touched(&mut touched);
        touched.iter().filter(|touched| touched.is_untold).count()
    };
    for asked in 1..=2 {
        a.ask(&one, world.now);
        world.answer_all(&mut a);
        assert_eq!((untold(&mut a), untold(&mut a)), (1, 0), "after ask {asked}");
    }
    // What is only recorded changes nothing of it.
    assert!(world.check(&mut a, &request("i", 1_000, 1)).admitted());
    world.run_ms(&mut a, 3_000);
    assert_eq!(untold(&mut a), 0);
}
