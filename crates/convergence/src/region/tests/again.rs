//! Requests that look again.

use super::*;

/// Those who look again together share one read: none of them waits for the read after it.
#[test]
fn strict_requests_that_look_again_share_a_read() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let need = need(&a, &request("i", 1_000, 1), world.now).unwrap();
    let strict = [Need { reason: Reason::Strict, ..need }];
    assert!(matches!(a.region.refresh(&a.table, &strict, world.now), Refresh::Wait(_)));
    let came: Vec<Waiter> = (0..8)
        .map(|_| match a.region.refresh(&a.table, &strict, world.now) {
            Refresh::Wait(waiter) => waiter,
            other => panic!("{other:?}"),
        })
        .collect();
    world.answer_all(&mut a);
    assert_eq!(a.take_wakes().iter().filter(|(_, outcome)| outcome.look_again).count(), 8);
    for since in came {
        let refresh = a.region.refresh_again(&a.table, &strict, since, world.now);
        assert!(matches!(refresh, Refresh::Wait(_)));
    }
    // One who comes only now has to wait for the next.
    assert!(matches!(a.region.refresh(&a.table, &strict, world.now), Refresh::Wait(_)));
    world.answer_all(&mut a);
    let again: Vec<bool> = a.take_wakes().iter().map(|(_, outcome)| outcome.look_again).collect();
    assert_eq!(again, [[false; 8].as_slice(), &[true]].concat());
    assert_eq!(a.reads(), 2);
}

/// One that looks again before anything has landed is not content with what was sent before it.
#[test]
fn a_strict_request_that_looks_again_early_is_told_nothing_old() {
    let (mut world, mut a) = (World::new(), Process::new(1));
    let need = need(&a, &request("i", 1_000, 1), world.now).unwrap();
    let strict = [Need { reason: Reason::Strict, ..need }];
    assert!(matches!(a.region.refresh(&a.table, &strict, world.now), Refresh::Wait(_)));
    let Refresh::Wait(since) = a.region.refresh(&a.table, &strict, world.now) else {
        panic!("it waits");
    };
    let Refresh::Wait(again) = a.region.refresh_again(&a.table, &strict, since, world.now) else {
        panic!("it waits once more");
    };
    world.answer_all(&mut a);
    let woken = a.take_wakes().into_iter().find(|(waiter, _)| *waiter == again);
    assert!(woken.is_some_and(|(_, outcome)| outcome.look_again));
}
