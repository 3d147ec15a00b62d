//! Forged histories: each oracle finds what it is there for, and nothing in a good one.

use std::sync::Arc;

use super::*;
use crate::fault::{Fault, Kind, Struck};
use crate::history::{Answer, Call, End, Item, Life, Look, Ready, Seen};
use crate::http::Trouble;
use crate::shape::{Class, NODES, ONCE_COST, Subject, once as call_once, subjects};

fn subject(class: Class) -> Arc<Subject> {
    let is = |subject: &Arc<Subject>| subject.class == class && !subject.fast;
    subjects(60).into_iter().find(is).unwrap()
}

fn answer() -> Answer {
    Answer {
        admitted: true,
        remaining: 1,
        reset_ms: 10_000,
        degraded: false,
        fast: false,
        in_region: true,
        replayed: false,
    }
}

fn call(subject: &Arc<Subject>, node: usize, cost: u64, end: End) -> Call {
    let (subject, item, life) = (Arc::clone(subject), None, 0);
    Call { subject, item, node, life, cost, sent_ms: 5_000, ended_ms: 5_001, took_us: 900, end }
}

fn admitted(subject: &Arc<Subject>, node: usize, cost: u64) -> Call {
    call(subject, node, cost, End::Answered(answer()))
}

fn fault(kind: Kind, node: usize, (from_ms, to_ms): (u64, u64)) -> Struck {
    let fault = Fault { kind, node, at_ms: from_ms, lasts_ms: to_ms - from_ms, dice: 0 };
    Struck { fault, from_ms, to_ms }
}

/// Four servers that live, and one long subject of which everybody knows: 7 here and 5 there.
fn good() -> (History, Arc<Subject>) {
    let mut history = History { healed_ms: vec![Some(1); NODES], ..History::default() };
    let long = subject(Class::Long);
    for node in 0..NODES {
        history.lives.push(Life { node, life: 0, ended: None, gone_ms: None });
        let (region, foreign) = if node < 2 { (7, 5) } else { (5, 7) };
        let subject = Arc::clone(&long);
        let (sum, knows_itself) = (Some(region), true);
        history.seen.push(Seen { subject, node, sum, region, foreign, knows_itself });
        let ready = Ready { node, from_ms: 1, to_ms: 2, status: Some(200) };
        history.ready.push(ready);
    }
    history.calls = vec![admitted(&long, 0, 4), admitted(&long, 1, 3), admitted(&long, 2, 5)];
    (history, long)
}

/// The oracles that find something.
fn finders(history: &History) -> Vec<&'static str> {
    let found = all(history);
    found.iter().filter(|one| !one.broken.is_empty()).map(|one| one.name).collect()
}

#[test]
fn nothing_is_found_where_nothing_is_wrong() {
    assert_eq!(finders(&good().0), Vec::<&str>::new());
}

#[test]
fn an_oracle_that_saw_nothing_holds_nothing() {
    let found = finders(&History::default());
    assert_eq!(found, ["answers", "exact", "overshoot", "conservation", "ready"]);
    let idle: Vec<_> = all(&good().0).into_iter().filter(|one| !one.held()).collect();
    let names: Vec<&str> = idle.iter().map(|one| one.name).collect();
    assert_eq!(names, ["atomic", "monotone", "once"], "neither broken nor held");
}

#[test]
fn an_error_is_found_and_a_call_of_an_ended_server_is_none() {
    let (mut history, long) = good();
    history.calls.push(call(&long, 0, 1, End::Status(500)));
    assert_eq!(finders(&history), ["answers"]);
    history.calls.pop();
    let lost = call(&long, 3, 1, End::Nothing(Trouble::Lost));
    history.calls.push(lost.clone());
    assert_eq!(finders(&history), ["answers"], "a living server has to answer");
    history.lives[3].ended = Some((5_000, true));
    assert_eq!(finders(&history), Vec::<&str>::new());
    history.lives[3].ended = Some((5_000, false));
    assert_eq!(finders(&history), ["answers"], "who is asked to end answers what it has");
    history.calls.pop();
    history.calls.push(call(&long, 3, 1, End::Nothing(Trouble::Late)));
    assert_eq!(finders(&history), ["answers"]);
    history.calls.pop();
    history.calls.push(call(&long, 3, 1, End::Nothing(Trouble::Refused)));
    assert_eq!(finders(&history), Vec::<&str>::new(), "and refuses who comes after that");
    history.calls.pop();
    history.calls.push(lost.clone());
    history.lives[3].ended = None;
    history.faults = vec![fault(Kind::StopServer, 3, (4_000, 5_500))];
    assert_eq!(finders(&history), Vec::<&str>::new());
    let refused = Call { end: End::Status(409), ..lost };
    history.calls.push(refused);
    assert_eq!(finders(&history), ["answers"], "a call without a key is never in progress");
}

#[test]
fn who_does_without_redis_for_no_reason_is_found() {
    let (mut history, long) = good();
    let degraded = End::Answered(Answer { admitted: false, degraded: true, ..answer() });
    history.calls.extend((0..20).map(|_| call(&long, 0, 1, degraded)));
    assert_eq!(finders(&history), Vec::<&str>::new(), "a few say nothing");
    history.calls.push(call(&long, 0, 1, degraded));
    assert_eq!(finders(&history), ["answers"]);
    history.faults = vec![fault(Kind::StopRedis, 0, (1_000, 2_000))];
    assert_eq!(finders(&history), Vec::<&str>::new());
    history.faults = vec![fault(Kind::StopRedis, 2, (1_000, 2_000))];
    assert_eq!(finders(&history), ["answers"], "another region's Redis does not matter");
}

#[test]
fn a_process_that_admits_more_than_the_limit_is_found() {
    let (mut history, _) = good();
    let own = subject(Class::Own);
    history.calls.extend((0..own.limit).map(|_| admitted(&own, own.nodes[0], 1)));
    assert_eq!(finders(&history), Vec::<&str>::new());
    history.calls.push(admitted(&own, own.nodes[0], 1));
    assert_eq!(finders(&history), ["exact", "overshoot"]);
    // Another life knows what was recorded, if nothing was lost: an eighth more at most.
    history.calls.pop();
    let mut later = admitted(&own, own.nodes[0], 9);
    later.life = 1;
    history.calls.push(later);
    assert_eq!(finders(&history), ["overshoot"]);
    history.faults = vec![fault(Kind::Flush, own.nodes[0], (4_000, 5_000))];
    assert_eq!(finders(&history), Vec::<&str>::new(), "one limit for each life after a loss");
}

#[test]
fn an_overshoot_is_found_and_what_is_degraded_comes_on_top() {
    let (mut history, _) = good();
    let shared = subject(Class::Shared);
    let [one, other] = [shared.nodes[0], shared.nodes[1]];
    history.calls.extend([admitted(&shared, one, 25), admitted(&shared, other, 20)]);
    assert_eq!(finders(&history), Vec::<&str>::new(), "40 and an eighth");
    history.calls.push(admitted(&shared, one, 1));
    assert_eq!(finders(&history), ["overshoot"]);
    let degraded = End::Answered(Answer { degraded: true, ..answer() });
    *history.calls.last_mut().unwrap() = call(&shared, one, 10, degraded);
    assert_eq!(finders(&history), Vec::<&str>::new(), "the answer says so");
    history.calls.push(admitted(&shared, other, 1));
    assert_eq!(finders(&history), ["overshoot"]);
}

#[test]
fn regions_that_never_hear_of_each_other_are_found() {
    let (mut history, _) = good();
    let world = subject(Class::World);
    // Slowly: 16 seconds have a few calls only.
    for (node, turn) in [0, 2].into_iter().flat_map(|node| (0..75).map(move |turn| (node, turn))) {
        let mut call = admitted(&world, node, 2);
        call.sent_ms += turn * 1_000;
        history.calls.push(call);
    }
    assert_eq!(finders(&history), ["overshoot"], "300 of 150, 231 at most");
    history.faults = vec![fault(Kind::StopDatabase, 0, (4_000, 60_000))];
    assert_eq!(finders(&history), Vec::<&str>::new(), "the database was away");
}

#[test]
fn a_lost_admission_is_found_unless_its_process_was_killed_before_it_could_tell() {
    let (mut history, long) = good();
    history.calls.push(admitted(&long, 1, 2));
    assert_eq!(finders(&history), ["conservation"]);
    history.lives[1].ended = Some((20_000, true));
    assert_eq!(finders(&history), ["conservation"], "it had fifteen seconds");
    history.lives[1].ended = Some((6_000, true));
    assert_eq!(finders(&history), Vec::<&str>::new());
    history.lives[1].ended = Some((6_000, false));
    assert_eq!(finders(&history), ["conservation"], "who is asked to end tells all");
    history.faults = vec![fault(Kind::StopRedis, 0, (4_000, 9_000))];
    assert_eq!(finders(&history), Vec::<&str>::new(), "there was nobody to tell");
    history.faults = vec![fault(Kind::StopRedis, 2, (4_000, 9_000))];
    assert_eq!(finders(&history), ["conservation"], "another region's Redis does not matter");
    history.faults = vec![fault(Kind::Flush, 0, (30_000, 30_001))];
    assert_eq!(finders(&history), Vec::<&str>::new(), "only Redis knew of it");
    history.lives[1].ended = None;
    assert_eq!(finders(&history), ["conservation"], "who lives sends it again");
}

#[test]
fn a_double_charge_is_found_unless_nobody_knows_of_the_call() {
    let (mut history, long) = good();
    let Some(call) = history.calls.first_mut() else { return };
    call.cost = 3;
    assert_eq!(finders(&history), ["conservation"], "7 recorded, 6 admitted");
    let mut left = admitted(&long, 1, 1);
    left.end = End::Nothing(Trouble::Left);
    history.calls.push(left);
    assert_eq!(finders(&history), Vec::<&str>::new());
}

#[test]
fn servers_and_regions_that_do_not_agree_are_found() {
    let (mut history, _) = good();
    history.seen[1].region = 8;
    assert_eq!(finders(&history), ["conservation"], "more than was admitted");
    let (mut history, long) = good();
    history.seen[2].foreign = 8;
    assert_eq!(finders(&history), ["conservation"], "more than the others admitted");
    // Half of the room may be hidden, and no more.
    let (mut history, _) = good();
    let much = long.limit * 3 / 4;
    history.calls.push(admitted(&long, 0, much));
    for seen in history.seen.iter_mut().take(2) {
        (seen.sum, seen.region) = (Some(much + 7), much + 7);
    }
    assert_eq!(finders(&history), ["conservation"]);
    history.seen.iter_mut().skip(2).for_each(|seen| seen.foreign = much + 7 - long.limit / 20);
    assert_eq!(finders(&history), Vec::<&str>::new());
}

#[test]
fn usage_that_falls_is_found_within_a_life() {
    let (mut history, long) = good();
    let look = |life, current| {
        let subject = Arc::clone(&long);
        Look { node: 0, life, subject, at_ms: 1, current }
    };
    history.looks = vec![look(0, 5), look(0, 5), look(0, 9), look(1, 3)];
    assert_eq!(finders(&history), Vec::<&str>::new());
    history.looks.push(look(1, 2));
    assert_eq!(finders(&history), ["monotone"]);
    let namesake = |subject: &Arc<Subject>| {
        subject.identifier == long.identifier && subject.namespace != long.namespace
    };
    let other = subjects(60).into_iter().find(namesake).unwrap();
    history.looks.pop();
    history.looks.push(Look { subject: other, ..look(1, 2) });
    assert_eq!(finders(&history), Vec::<&str>::new(), "another one of the same name");
}

#[test]
fn a_living_server_that_is_not_ready_or_stays_degraded_is_found() {
    let (mut history, _) = good();
    history.ready[2].status = Some(503);
    assert_eq!(finders(&history), ["ready"]);
    history.faults = vec![fault(Kind::StopDatabase, 0, (0, 10))];
    assert_eq!(finders(&history), ["ready"], "a store is no reason");
    history.lives[2].ended = Some((1, false));
    assert_eq!(finders(&history), Vec::<&str>::new());
    history.healed_ms[0] = None;
    assert_eq!(finders(&history), ["ready"]);
}

#[test]
fn a_call_with_a_key_that_is_charged_twice_is_found() {
    let (mut history, _) = good();
    let once = call_once(1, 0);
    let left = call(&once, 0, ONCE_COST, End::Nothing(Trouble::Left));
    history.calls.extend([left, admitted(&once, 1, ONCE_COST)]);
    let seen = |sum| {
        let subject = Arc::clone(&once);
        Seen { subject, node: 0, sum: Some(sum), region: sum, foreign: 0, knows_itself: true }
    };
    history.seen.push(seen(ONCE_COST));
    assert_eq!(finders(&history), Vec::<&str>::new());
    *history.seen.last_mut().unwrap() = seen(2 * ONCE_COST);
    assert_eq!(finders(&history), ["once"]);
    history.faults = vec![fault(Kind::KillServer, 0, (4_900, 5_100))];
    assert_eq!(finders(&history), Vec::<&str>::new(), "it was killed between decision and reply");
    *history.seen.last_mut().unwrap() = seen(3 * ONCE_COST);
    assert_eq!(finders(&history), ["once"], "two tries are charged twice at most");
    history.faults = vec![fault(Kind::KillServer, 2, (4_900, 5_100))];
    *history.seen.last_mut().unwrap() = seen(2 * ONCE_COST);
    assert_eq!(finders(&history), ["once"], "another region's server does not matter");
}

#[test]
fn a_rule_that_is_not_the_namespaces_own_is_found_unless_redis_was_away() {
    let (mut history, long) = good();
    let by_fast =
        |degraded| End::Answered(Answer { admitted: false, fast: true, degraded, ..answer() });
    history.calls.push(call(&long, 0, 1, by_fast(true)));
    assert_eq!(finders(&history), Vec::<&str>::new());
    history.calls.push(call(&long, 0, 1, by_fast(false)));
    assert_eq!(finders(&history), ["answers"]);
    history.calls.pop();
    history.calls.push(call(&fast(), 0, 1, by_fast(false)));
    assert_eq!(finders(&history), Vec::<&str>::new());
}

/// One that is shared by the servers of a region, by the rule `fast`.
fn fast() -> Arc<Subject> {
    let is_fast = |subject: &Arc<Subject>| subject.fast && subject.class == Class::Shared;
    subjects(60).into_iter().find(is_fast).unwrap()
}

#[test]
fn by_the_rule_fast_each_process_has_a_limit_and_no_more() {
    let (mut history, _) = good();
    let fast = fast();
    let [one, other] = [fast.nodes[0], fast.nodes[1]];
    history.calls.extend([admitted(&fast, one, fast.limit), admitted(&fast, other, fast.limit)]);
    assert_eq!(finders(&history), Vec::<&str>::new(), "two limits of two processes");
    history.calls.push(admitted(&fast, one, 1));
    assert_eq!(finders(&history), ["exact", "overshoot"]);
    history.faults = vec![fault(Kind::Flush, one, (4_000, 5_000))];
    assert_eq!(finders(&history), ["exact", "overshoot"], "whatever happens");
}

/// Both of a pair, and a good history in which a batch spent of them at the first server.
fn with_batch(end: End, sums: [u64; 2]) -> History {
    let (mut history, _) = good();
    let of_pair = |subject: &Arc<Subject>| subject.class == Class::Pair(0);
    let pair: Vec<_> = subjects(60).into_iter().filter(of_pair).collect();
    for (subject, sum) in pair.iter().zip(sums) {
        let item = Some(Item { batch: 1, fits: matches!(end, End::Answered(one) if one.admitted) });
        history.calls.push(Call { item, ..call(subject, 0, 3, end) });
        for node in 0..NODES {
            let (region, foreign) = if node < 2 { (sum, 0) } else { (0, sum) };
            let (subject, knows_itself) = (Arc::clone(subject), true);
            let sum = Some(region);
            history.seen.push(Seen { subject, node, sum, region, foreign, knows_itself });
        }
    }
    history
}

#[test]
fn a_batch_that_counts_by_half_is_found_though_nobody_heard_of_it() {
    let lost = End::Nothing(Trouble::Lost);
    let stopped = vec![fault(Kind::StopServer, 0, (4_000, 5_500))];
    let of = |sums| History { faults: stopped.clone(), ..with_batch(lost, sums) };
    assert_eq!(finders(&of([0, 0])), Vec::<&str>::new(), "not at all");
    assert_eq!(finders(&of([3, 3])), Vec::<&str>::new(), "as a whole");
    let mut half = of([3, 0]);
    assert_eq!(finders(&half), ["atomic"]);
    half.lives[0].ended = Some((6_000, true));
    assert_eq!(finders(&half), Vec::<&str>::new(), "killed before it could tell the rest");
    half.lives[0].ended = Some((20_000, true));
    assert_eq!(finders(&half), ["atomic"], "it had fifteen seconds");
    half.faults.push(fault(Kind::Flush, 0, (30_000, 30_001)));
    assert_eq!(finders(&half), ["atomic"], "what Redis loses later, it loses of both");
    half.faults.push(fault(Kind::Flush, 0, (19_000, 19_001)));
    assert_eq!(finders(&half), Vec::<&str>::new(), "it was telling everything again");
}

#[test]
fn a_batch_that_was_denied_and_charged_is_found() {
    let denied = End::Answered(Answer { admitted: false, ..answer() });
    assert_eq!(finders(&with_batch(denied, [0, 0])), Vec::<&str>::new());
    assert_eq!(finders(&with_batch(denied, [3, 3])), ["conservation"]);
    assert_eq!(finders(&with_batch(denied, [0, 3])), ["conservation", "atomic"]);
    let passed = End::Answered(answer());
    assert_eq!(finders(&with_batch(passed, [3, 3])), Vec::<&str>::new());
    assert_eq!(finders(&with_batch(passed, [3, 0])), ["conservation", "atomic"]);
}

#[test]
fn a_batch_that_says_other_than_its_items_is_found() {
    for (end, sums) in [(End::Answered(answer()), [3, 3]), (End::Status(200), [0, 0])] {
        let mut history = with_batch(end, sums);
        let Some(item) = history.calls.last_mut().and_then(|call| call.item.as_mut()) else {
            panic!("an item")
        };
        item.fits = !item.fits;
        let answered = matches!(end, End::Answered(_));
        let finder = if answered { "atomic" } else { "answers" };
        assert_eq!(finders(&history), [finder]);
    }
    let mut denied = with_batch(End::Answered(Answer { admitted: false, ..answer() }), [0, 0]);
    for call in &mut denied.calls {
        call.item.iter_mut().for_each(|item| item.fits = true);
    }
    assert_eq!(finders(&denied), ["atomic"], "denied for no reason");
}
