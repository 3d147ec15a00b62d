//! What was claimed in a window and is answered after its end: the answer is about the cell that
//! holds the cost.

use tidegate_limiter::{
    Answer, AskedFor, Asking, Batch, BatchDecision, Claimed, Consistency, Decision, Options,
    Request, Seed, Table,
};

use crate::support::{START_MS, now, request};

const WINDOW_MS: u64 = 60_000;
/// Just before the window ends, and just after.
const BEFORE_MS: u64 = WINDOW_MS - 10;
const AFTER_MS: u64 = WINDOW_MS + 20;

fn table() -> Table {
    let options = Options::default().with_budget_bytes(8 << 20).with_region();
    Table::new(options, Seed::from_bytes([42; 32]))
}

fn bounded(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    request(identifier, limit, WINDOW_MS, cost).with_consistency(Consistency::Bounded)
}

fn asking(table: &Table, request: &Request<'_>, at_ms: u64) -> Asking {
    match table.decide_or_refresh(request, now(at_ms)) {
        Decision::Ask(asking) => asking,
        other => panic!("{other:?}"),
    }
}

/// When the cell ends, after the start, and what is left of it.
fn said(answer: &Answer) -> (u64, u64) {
    assert!(answer.admitted(), "{answer:?}");
    (answer.reset_unix_ms() - START_MS, answer.remaining())
}

/// INV-7: also of a call that waited, whatever reading of the clock it is answered with.
#[test]
fn an_admission_is_answered_by_the_cell_that_holds_it() {
    let table = table();
    let two = bounded("i", 10, 2);
    let waits = asking(&table, &two, BEFORE_MS);
    let claimed = waits.claimed().next();
    // The window ends, and somebody else uses the next one.
    let other = table.decide(&request("i", 10, WINDOW_MS, 3), now(AFTER_MS));
    assert_eq!(other.reset_unix_ms(), START_MS + 2 * WINDOW_MS);
    table.commit(waits);
    let cell = table.cell(two.subject(), START_MS / WINDOW_MS).unwrap();
    assert_eq!(cell.mine(), 2, "it is in the window that ended");
    for how in [AskedFor::Granted, AskedFor::Unheard] {
        for at_ms in [BEFORE_MS, AFTER_MS] {
            let answer = table.answer_asked(&two, (how, claimed), now(at_ms));
            assert_eq!(said(&answer), (WINDOW_MS, 8), "{how:?} at {at_ms}");
        }
    }
    // What the region said of others belongs to it, too.
    cell.observe_region(7, 2);
    let answer = table.answer_asked(&two, (AskedFor::Granted, claimed), now(BEFORE_MS));
    assert_eq!(said(&answer), (WINDOW_MS, 3));
}

/// INV-28: nor is it younger than what was heard of that cell.
#[test]
fn the_age_is_that_of_the_cell_that_ended() {
    let table = table();
    let one = bounded("i", 10, 1);
    let waits = asking(&table, &one, BEFORE_MS);
    let claimed = waits.claimed().next();
    let _ = table.decide(&request("i", 10, WINDOW_MS, 1), now(AFTER_MS));
    table.commit(waits);
    let answer = |at_ms| table.answer_asked(&one, (AskedFor::Unheard, claimed), now(at_ms));
    assert_eq!(answer(AFTER_MS).age_ms(), AFTER_MS + WINDOW_MS, "nobody was heard of");
    let cell = table.cell(one.subject(), START_MS / WINDOW_MS).unwrap();
    cell.mark_fresh_until_ms(now(BEFORE_MS + 5_000).monotonic_ms());
    assert_eq!(answer(AFTER_MS).age_ms(), AFTER_MS - BEFORE_MS);
}

#[test]
fn a_cell_that_is_gone_keeps_its_name() {
    let table = table();
    let (two, cold) = (bounded("i", 10, 2), bounded("j", 10, 2));
    let [waits, dropped] = [&two, &cold].map(|request| asking(&table, request, BEFORE_MS));
    let [first, second] = [&waits, &dropped].map(|waits| waits.claimed().next());
    table.commit(dropped);
    // Two windows on it counts for nothing, and neither does its claim.
    let later_ms = 3 * WINDOW_MS;
    let _ = table.decide(&request("i", 10, WINDOW_MS, 3), now(later_ms));
    table.commit(waits);
    for at_ms in [BEFORE_MS, later_ms] {
        let answer = table.answer_asked(&two, (AskedFor::Granted, first), now(at_ms));
        assert_eq!(said(&answer), (WINDOW_MS, 8), "{at_ms}");
        assert!(answer.age_ms() >= at_ms, "{answer:?}");
    }
    assert_eq!(table.forget_all(), 0);
    for used in [0, 5] {
        // Even if the subject is there again, and used.
        let _ = table.decide(&request("j", 10, WINDOW_MS, used), now(later_ms));
        let answer = table.answer_asked(&cold, (AskedFor::Granted, second), now(later_ms));
        assert_eq!(said(&answer), (WINDOW_MS, 8));
    }
}

#[test]
fn every_item_of_a_batch_is_answered_by_its_own_cell() {
    let table = table();
    let hour = request("long", 10, 3_600_000, 4).with_consistency(Consistency::Bounded);
    let items = [bounded("a", 10, 2), bounded("a", 10, 3), hour];
    let batch = Batch::new(&items).unwrap();
    let BatchDecision::Ask(waits) = table.decide_all_or_refresh(&batch, now(BEFORE_MS)) else {
        panic!("all are cold");
    };
    let claimed: Vec<Claimed> = waits.claimed().collect();
    let _ = table.decide(&request("a", 10, WINDOW_MS, 1), now(AFTER_MS));
    table.commit(waits);
    let end_ms = 3_600_000 - START_MS % 3_600_000;
    for how in [AskedFor::Granted, AskedFor::Unheard] {
        let answers = table.answer_all_asked(&batch, (how, &claimed), now(BEFORE_MS));
        let said: Vec<_> = answers.items().iter().map(said).collect();
        assert_eq!(said, [(WINDOW_MS, 8), (WINDOW_MS, 5), (end_ms, 6)], "{how:?}");
    }
}
