//! Requests that are denied when the region should be asked and cannot be.

use tidegate_limiter::{
    Answer, AskedFor, Asking, Batch, BatchAnswer, BatchDecision, Consistency, Decision, Denial,
    Now, Options, Outage, Reason, Request, Seed, Source, Table, Ticket,
};

use crate::support::{START_MS, now, request};

const WINDOW_MS: u64 = 60_000;

fn table() -> Table {
    let options = Options::default().with_budget_bytes(8 << 20).with_region();
    Table::new(options, Seed::from_bytes([42; 32]))
}

fn denying(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    request(identifier, limit, WINDOW_MS, cost).with_outage(Outage::Deny)
}

fn bounded(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    denying(identifier, limit, cost).with_consistency(Consistency::Bounded)
}

fn answered(decision: Decision) -> Answer {
    match decision {
        Decision::Answered(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn all(decision: BatchDecision) -> BatchAnswer {
    match decision {
        BatchDecision::Answered(answer) => answer,
        other => panic!("{other:?}"),
    }
}

fn asking(decision: Decision) -> Asking {
    match decision {
        Decision::Ask(asking) => asking,
        other => panic!("{other:?}"),
    }
}

/// What the table wants to hear of.
fn needed(table: &Table, request: &Request<'_>, now: Now) -> Ticket {
    match table.decide_or_refresh(request, now) {
        Decision::Refresh(need) => need.subject,
        other => panic!("{other:?}"),
    }
}

/// The region did not answer, and is not asked for a while.
fn mute(table: &Table, request: &Request<'_>, now: Now) {
    let subject = needed(table, request, now);
    table.cells(subject).unwrap().retry_no_sooner(now.monotonic_ms() + 300);
}

/// What is counted: claimed and admitted.
fn counted(table: &Table, request: &Request<'_>) -> (u64, u64) {
    let cell = table.cell(request.subject(), START_MS / WINDOW_MS).unwrap();
    (cell.claimed(), cell.mine())
}

fn is_outage(answer: &Answer) -> bool {
    let said = (answer.denial(), answer.degraded(), answer.remaining());
    said == (Some(Denial::Outage), true, 0)
}

#[test]
fn who_was_not_heard_of_is_denied_and_nothing_is_counted() {
    let table = table();
    let one = denying("i", 10, 1);
    let _ = needed(&table, &one, now(0));
    let answer = table.decide_refreshed(&one, false, now(0));
    assert!(is_outage(&answer), "{answer:?}");
    assert_eq!(answer.retry_after_ms(), Some(50), "not sooner");
    assert_eq!(counted(&table, &one), (0, 0));
    assert_eq!((table.counts().denied_outage, table.counts().denied_local), (1, 0));
    let local = request("i", 10, WINDOW_MS, 1);
    assert!(table.decide_refreshed(&local, false, now(0)).admitted(), "another one is decided");
}

#[test]
fn who_comes_while_the_region_is_left_alone_is_told_for_how_long() {
    let table = table();
    let (one, asked) = (denying("i", 10, 1), bounded("i", 10, 1));
    mute(&table, &one, now(0));
    for request in [&one, &asked] {
        let why = table.explain(request, now(100));
        let answer = answered(table.decide_or_refresh(request, now(100)));
        assert!(is_outage(&answer), "{answer:?}");
        assert_eq!(answer.retry_after_ms(), Some(200));
        assert_eq!((why.answer, why.outage, why.asked_in_vain), (answer, Outage::Deny, true));
    }
    assert_eq!(counted(&table, &one), (0, 0));
    let _ = needed(&table, &one, now(300));
    table.release(asking(table.decide_or_refresh(&asked, now(300))));
}

#[test]
fn what_needs_no_region_is_decided_as_ever() {
    let table = table();
    let one = denying("i", 2, 1);
    mute(&table, &one, now(0));
    let cell = table.cell(one.subject(), START_MS / WINDOW_MS).unwrap();
    cell.mark_fresh_until_ms(now(5_000).monotonic_ms());
    // A fresh view admits, and denies.
    for remaining in [1, 0] {
        let answer = answered(table.decide_or_refresh(&one, now(1)));
        assert_eq!((answer.remaining(), answer.degraded()), (remaining, false));
    }
    let denied = answered(table.decide_or_refresh(&one, now(1)));
    assert_eq!((denied.denial(), denied.degraded()), (Some(Denial::Limit), false));
    // Stale, muted and strict: what is used up is used up.
    let denied = answered(table.decide_or_refresh(&one, now(5_001)));
    assert_eq!(denied.denial(), Some(Denial::Limit));
    assert!(denied.retry_after_ms() > Some(300), "when it fits, not when the region is asked");
}

#[test]
fn what_was_heard_of_is_admitted() {
    let table = table();
    let one = denying("i", 10, 1);
    let subject = needed(&table, &one, now(0));
    table.cells(subject).unwrap().current.mark_fresh_until_ms(now(5_000).monotonic_ms());
    let answer = table.decide_refreshed(&one, true, now(0));
    assert_eq!((answer.remaining(), answer.source()), (9, Source::Region));
}

#[test]
fn an_ask_that_is_not_answered_denies() {
    let table = table();
    let one = bounded("i", 10, 1);
    let waits = asking(table.decide_or_refresh(&one, now(0)));
    assert!(waits.denies());
    table.end_unsent(waits);
    assert!(is_outage(&table.answer_asked(&one, (AskedFor::Unheard, None), now(0))));
    assert_eq!(counted(&table, &one), (0, 0), "it was not sent");
    let local = one.with_outage(Outage::Local);
    let waits = asking(table.decide_or_refresh(&local, now(0)));
    assert!(!waits.denies());
    table.end_unsent(waits);
    assert!(table.answer_asked(&local, (AskedFor::Unheard, None), now(0)).admitted());
    assert_eq!(counted(&table, &one), (1, 1));
}

#[test]
fn one_item_that_cannot_be_asked_denies_the_batch() {
    let table = table();
    let items = [request("a", 10, WINDOW_MS, 1), denying("b", 10, 1)];
    let batch = Batch::new(&items).unwrap();
    let BatchDecision::Refresh(needs) = table.decide_all_or_refresh(&batch, now(0)) else {
        panic!("both are cold");
    };
    let unheard: Vec<Ticket> = needs.iter().map(|need| need.subject).collect();
    let hear = |answers: &BatchAnswer| {
        assert!(!answers.admitted());
        let [first, second] = answers.items() else { panic!("{answers:?}") };
        assert!(first.admitted() && first.remaining() == 10, "nothing is spent: {first:?}");
        assert!(is_outage(second), "{second:?}");
        assert_eq!((counted(&table, &items[0]), counted(&table, &items[1])), ((0, 0), (0, 0)));
    };
    hear(&table.decide_all_refreshed(&batch, &unheard, now(0)));
    // One of them was heard of, but not this one.
    hear(&table.decide_all_refreshed(&batch, &unheard[1..], now(0)));
    mute(&table, &items[1], now(0));
    hear(&all(table.decide_all_or_refresh(&batch, now(0))));
    let counts = table.counts();
    assert_eq!((counts.batches_denied, counts.denied_outage, counts.batch_items_undone), (3, 3, 3));
    // The other one alone does not mind.
    let cell = table.cell(items[1].subject(), START_MS / WINDOW_MS).unwrap();
    cell.mark_fresh_until_ms(now(5_000).monotonic_ms());
    let answers = table.decide_all_refreshed(&batch, &unheard[..1], now(0));
    assert!(answers.admitted() && answers.items()[0].degraded() && !answers.items()[1].degraded());
}

#[test]
fn a_batch_that_is_not_granted_is_denied_whole() {
    let table = table();
    let items = [bounded("a", 10, 2).with_outage(Outage::Local), bounded("b", 10, 3)];
    let batch = Batch::new(&items).unwrap();
    let BatchDecision::Ask(asking) = table.decide_all_or_refresh(&batch, now(0)) else {
        panic!("both are cold");
    };
    let claimed: Vec<_> = asking.claimed().collect();
    assert!(asking.denies());
    table.end_unsent(asking);
    let answers = table.answer_all_asked(&batch, (AskedFor::Unheard, &claimed), now(0));
    assert!(!answers.admitted() && is_outage(&answers.items()[1]), "{answers:?}");
    let first = &answers.items()[0];
    assert_eq!((first.admitted(), first.degraded(), first.remaining()), (true, true, 10));
    assert_eq!((counted(&table, &items[0]), counted(&table, &items[1])), ((0, 0), (0, 0)));
}

#[test]
fn who_has_nobody_to_ask_is_never_denied_for_it() {
    let alone = crate::support::table();
    let one = denying("i", 1, 1);
    assert!(answered(alone.decide_or_refresh(&one, now(0))).admitted());
    let denied = answered(alone.decide_or_refresh(&one, now(0)));
    assert_eq!(denied.denial(), Some(Denial::Limit));
    // Who does not want to ask has chosen so.
    assert!(table().decide(&one, now(0)).admitted());
}

/// It waited for what others had asked for, so nobody was asked about the rest.
#[test]
fn a_batch_that_waited_for_others_is_not_admitted_unasked() {
    let table = table();
    let (a, b) = (bounded("a", 10, 5), bounded("b", 10, 5).with_outage(Outage::Local));
    // Something is known of one, but it is stale by now.
    table.release(asking(table.decide_or_refresh(&a, now(0))));
    let cell = table.cell(a.subject(), START_MS / WINDOW_MS).unwrap();
    cell.mark_fresh_until_ms(now(1).monotonic_ms());
    // Another request waits for most of the other.
    let other = bounded("b", 10, 6).with_outage(Outage::Local);
    let waits = asking(table.decide_or_refresh(&other, now(5_000)));
    let items = [a, b];
    let batch = Batch::new(&items).unwrap();
    let BatchDecision::Refresh(needs) = table.decide_all_or_refresh(&batch, now(5_000)) else {
        panic!("it waits for the other");
    };
    assert!(needs.iter().all(|need| need.reason == Reason::Reserved));
    // The wait is over, and at this moment the region refuses the other.
    table.release(waits);
    let unheard: Vec<Ticket> = needs.iter().map(|need| need.subject).collect();
    let answers = table.decide_all_waited(&batch, &unheard, now(5_000));
    assert!(!answers.admitted() && is_outage(&answers.items()[0]), "{answers:?}");
    assert_eq!((counted(&table, &a), counted(&table, &b)), ((0, 0), (0, 0)));
    // Who needs nobody is admitted with it.
    let items = [a.with_outage(Outage::Local), b];
    let answers = table.decide_all_waited(&Batch::new(&items).unwrap(), &unheard, now(5_000));
    assert!(answers.admitted());
}
