//! Callers that are denied when the region does not answer: what of theirs is charged.

use tidegate_limiter::{Asking, Outage};

use super::ask::{acquainted, bounded};
use super::*;

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
    assert!(!a.table.answer_asked(&two, AskedFor::Unheard, world.now).admitted());
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
