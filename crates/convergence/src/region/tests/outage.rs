//! Callers that are denied when the region does not answer: what of theirs is charged.

use tidegate_limiter::{Asking, Outage};

use super::ask::{acquainted, bounded};
use super::*;
use crate::breaker::BreakerState;

fn denying(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    bounded(identifier, limit, cost).with_outage(Outage::Deny)
}

impl Process {
    fn claims(&self, request: &Request<'_>, now: Now) -> Asking {
        match self.table.decide_or_refresh(request, now) {
            Decision::Ask(asking) => asking,
            other => panic!("{other:?}"),
        }
    }

    fn counted(&self, request: &Request<'_>, now: Now) -> (u64, u64) {
        let cell = self.table.cell(request.subject(), now.unix_ms() / WINDOW_MS).unwrap();
        (cell.claimed(), cell.mine())
    }
}

/// The store may have granted it before nobody answered: it holds no more than is known here.
#[test]
fn what_was_sent_in_vain_is_charged_and_never_counted_twice() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let two = denying("i", 10, 2);
    a.ask(&two, world.now);
    a.take_effects();
    let calls = a.take_calls();
    assert_eq!(calls.len(), 1);
    // It arrives, and the answer does not.
    let _ = world.store.call(&calls[0].1, world.now.monotonic_ms());
    a.region.replied(&a.table, calls[0].0, Err(StoreError::Timeout), world.now);
    assert_eq!(a.grants(), [Granted::Unheard]);
    assert_eq!(a.counted(&two, world.now), (2, 2));
    assert!(!a.table.answer_asked(&two, (AskedFor::Unheard, None), world.now).admitted());
    world.run_ms(&mut a, 1_000);
    assert_eq!(world.sum(&a, &two), 2);
    // It arrives again, late: it is out of date.
    let _ = world.store.call(&calls[0].1, world.now.monotonic_ms());
    assert_eq!(world.sum(&a, &two), 2);
    assert_eq!(a.region.counts(&a.table).identity_clashes, 0);
}

#[test]
fn what_was_not_sent_is_given_back() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let two = denying("i", 10, 2);
    let (first, second) = (a.ask(&two, world.now), a.ask(&two, world.now));
    assert_eq!(a.counted(&two, world.now), (4, 0));
    assert!(a.region.give_up(&a.table, second, world.now), "it stands in line");
    assert_eq!(a.counted(&two, world.now), (2, 0));
    assert!(a.region.give_up(&a.table, first, world.now), "it is under way");
    assert_eq!(a.counted(&two, world.now), (2, 2));
}

/// In an outage one ask is charged, not one each time.
#[test]
fn who_is_denied_reads_before_it_asks_a_shard_that_did_not_answer() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let (one, other) = (denying("i", 10, 1), denying("other", 10, 1));
    a.ask(&one, world.now);
    assert_eq!(world.fail_all(&mut a), 1);
    assert_eq!(a.counted(&one, world.now), (1, 1));
    world.pass_ms(60);
    for request in [&one, &other] {
        let asking = a.claims(request, world.now);
        let need = asking.wanted().map(Need::from).next().unwrap();
        assert_eq!(a.region.ask(&a.table, asking, world.now), Asked::ReadFirst);
        let (claimed, mine) = a.counted(request, world.now);
        assert_eq!(claimed, mine, "nothing waits");
        assert!(matches!(a.region.refresh(&a.table, &[need], world.now), Refresh::Wait(_)));
        assert_eq!(world.fail_all(&mut a), 1);
        assert!(!a.table.decide_refreshed(request, false, world.now).admitted());
    }
    assert_eq!((a.counted(&one, world.now).1, a.counted(&other, world.now).1), (1, 0));
    // Others ask, as ever.
    world.pass_ms(400);
    a.ask(&other.with_outage(Outage::Local), world.now);
    world.answer_all(&mut a);
    assert_eq!(a.grants(), [Granted::Yes]);
    // And a shard that answers is asked by all.
    a.ask(&denying("other", 10, 5), world.now);
    world.answer_all(&mut a);
    assert_eq!(a.grants(), [Granted::Yes]);
}

#[test]
fn a_breaker_that_is_open_charges_nobody() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let mut failed = 0;
    for n in 0..200 {
        let name = n.to_string();
        let request = request(&name, 10, 1);
        let Decision::Refresh(need) = a.table.decide_or_refresh(&request, world.now) else {
            panic!("it is cold");
        };
        if a.region.refresh(&a.table, &[need], world.now) == Refresh::Refused {
            break;
        }
        failed += world.fail_all(&mut a);
    }
    assert!(failed > 0 && failed < 200, "it opens: {failed}");
    let one = denying("i", 10, 1);
    let asking = a.claims(&one, world.now);
    let need = asking.wanted().map(Need::from).next().unwrap();
    assert_eq!(a.region.ask(&a.table, asking, world.now), Asked::ReadFirst);
    assert_eq!(a.region.refresh(&a.table, &[need], world.now), Refresh::Refused);
    assert_eq!(a.counted(&one, world.now), (0, 0));
    assert!(!a.table.decide_refreshed(&one, false, world.now).admitted());
}

/// Only what was sent may be counted by the store.
#[test]
fn what_a_denied_batch_only_held_is_given_back() {
    for gives_up in [false, true] {
        let mut world = World::new();
        let mut a = acquainted(&mut world, 1);
        let items = [denying("asked", 10, 2), denying("held", 1_000, 1)];
        assert!(world.check(&mut a, &items[1]).admitted());
        let before = a.counted(&items[1], world.now);
        let batch = Batch::new(&items).unwrap();
        let BatchDecision::Ask(asking) = a.table.decide_all_or_refresh(&batch, world.now) else {
            panic!("one is cold");
        };
        assert!(asking.claimed().map(|it| it.asks).eq([true, false]), "the other is on credit");
        let Asked::Wait(waiter) = a.region.ask(&a.table, asking, world.now) else { panic!() };
        assert!(a.counted(&items[1], world.now) > before, "it is held");
        assert!(!gives_up || a.region.give_up(&a.table, waiter, world.now));
        assert_eq!(world.fail_all(&mut a), 1);
        assert_eq!(a.counted(&items[0], world.now), (2, 2));
        assert_eq!(a.counted(&items[1], world.now), before);
    }
}

#[test]
fn who_was_denied_while_its_ask_was_under_way_makes_the_next_one_read_first() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let (one, other) = (denying("i", 10, 1), denying("other", 10, 1));
    let waiter = a.ask(&one, world.now);
    assert!(a.region.give_up(&a.table, waiter, world.now));
    let asking = a.claims(&other, world.now);
    assert_eq!(a.region.ask(&a.table, asking, world.now), Asked::ReadFirst);
    // The answer comes, and came too late all the same.
    assert_eq!(world.answer_all(&mut a), 1);
    let asking = a.claims(&other, world.now);
    let need = asking.wanted().map(Need::from).next().unwrap();
    assert_eq!(a.region.ask(&a.table, asking, world.now), Asked::ReadFirst);
    assert!(matches!(a.region.refresh(&a.table, &[need], world.now), Refresh::Wait(_)));
    assert_eq!(world.answer_all(&mut a), 1);
    a.take_wakes();
    a.ask(&denying("other", 10, 5), world.now);
    world.answer_all(&mut a);
    assert_eq!(a.grants(), [Granted::Yes]);
}

#[test]
fn who_is_denied_does_not_ask_with_little_time_left() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    let two = denying("i", 100, 20);
    let asking = a.claims(&two, world.now);
    assert_eq!(a.region.ask_within(&a.table, asking, 9, world.now), Asked::Unheard);
    assert_eq!(a.counted(&two, world.now), (0, 0));
    // A line moves once in 12 ms: who has just come is sent, who has stood there is not.
    a.ask(&two, world.now);
    a.ask(&two, world.now);
    let local = a.claims(&two.with_outage(Outage::Local), world.now);
    assert!(matches!(a.region.ask_within(&a.table, local, 9, world.now), Asked::Wait(_)));
    world.pass_ms(6);
    a.ask(&two, world.now);
    world.pass_ms(6);
    // It takes 12 ms: the last has 14 left, and is likely to hear nothing.
    assert_eq!(world.answer_all(&mut a), 2);
    let grants = a.grants();
    assert_eq!(grants.iter().filter(|it| **it == Granted::Yes).count(), 2, "{grants:?}");
    assert_eq!(grants.iter().filter(|it| **it == Granted::Unheard).count(), 2, "{grants:?}");
    assert_eq!(a.counted(&two, world.now), (40, 40));
    // Who comes then has all its time.
    a.ask(&two, world.now);
    assert_eq!(world.answer_all(&mut a), 1);
    assert_eq!(a.grants(), [Granted::Yes]);
}

#[test]
fn a_breaker_closes_without_traffic() {
    let mut world = World::new();
    let mut a = acquainted(&mut world, 1);
    for n in 0..200 {
        let name = n.to_string();
        let Some(need) = need(&a, &request(&name, 10, 1), world.now) else { panic!("cold") };
        if a.region.refresh(&a.table, &[need], world.now) == Refresh::Refused {
            break;
        }
        world.fail_all(&mut a);
    }
    let state = |a: &Process| a.region.counts(&a.table).refresh_breaker;
    assert_eq!(state(&a), BreakerState::Open);
    // Nobody asks for anything, and the store does not answer.
    for _ in 0..50 {
        world.pass_ms(100);
        a.region.tick(&a.table, world.now);
        world.fail_all(&mut a);
    }
    assert_eq!(state(&a), BreakerState::Open);
    let reads = a.reads();
    world.run_ms(&mut a, 5_000);
    assert_eq!((state(&a), a.reads()), (BreakerState::Closed, reads));
}
