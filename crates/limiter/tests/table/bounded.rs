//! What is admitted here on credit, and what has to be asked for.

use tidegate_limiter::{
    AskedFor, Asking, Batch, BatchDecision, Consistency, Decision, Denial, Need, Options, Reason,
    Request, Seed, Source, Table, Wanted,
};

use crate::support::{START_MS, now, request};

const WINDOW_MS: u64 = 60_000;

fn table() -> Table {
    let options = Options::default().with_budget_bytes(8 << 20).with_region();
    Table::new(options, Seed::from_bytes([42; 32]))
}

fn bounded(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    request(identifier, limit, WINDOW_MS, cost).with_consistency(Consistency::Bounded)
}

/// What the region would say: so many processes use it, and so much is recorded of this one.
fn hear(table: &Table, request: &Request<'_>, (processes, acked): (u64, u64)) {
    let sequence = START_MS / WINDOW_MS;
    let cell = table.cell(request.subject(), sequence).unwrap();
    cell.observe_region(acked, acked);
    cell.acknowledge(acked);
    cell.mark_fresh_until_ms(now(5_000).monotonic_ms());
    let Decision::Answered(_) = table.decide_or_refresh(&zero(request), now(0)) else {
        panic!("it is fresh");
    };
    let mut noted = Vec::new();
    table.take_noted(&mut noted);
    let subject = noted.into_iter().next();
    if let Some(cells) = subject.and_then(|subject| table.cells(subject)) {
        cells.set_company(processes);
    }
}

fn zero<'a>(of: &Request<'a>) -> Request<'a> {
    let none = tidegate_limiter::Cost::new(0).unwrap();
    Request::new(*of.subject(), of.limit(), none)
}

fn asking(decision: Decision) -> Asking {
    match decision {
        Decision::Ask(asking) => asking,
        other => panic!("{other:?}"),
    }
}

fn wanted(asking: &Asking) -> Vec<(u64, u64)> {
    let pair = |wanted: Wanted| (wanted.cost.get(), wanted.limit.get());
    asking.wanted().map(pair).collect()
}

/// Decides, and lets the region grant what is asked for.
fn granted(table: &Table, request: &Request<'_>) -> u64 {
    match table.decide_or_refresh(request, now(0)) {
        Decision::Answered(answer) => answer.remaining(),
        Decision::Ask(asking) => {
            let claimed = asking.claimed().next();
            table.commit(asking);
            table.answer_asked(request, (AskedFor::Granted, claimed), now(0)).remaining()
        }
        Decision::Refresh(need) => panic!("{need:?}"),
    }
}

#[test]
fn a_cold_subject_is_asked_for() {
    let table = table();
    let one = bounded("i", 10, 1);
    let waits = asking(table.decide_or_refresh(&one, now(0)));
    assert_eq!(wanted(&waits), [(1, 10)]);
    let cell = table.cell(one.subject(), START_MS / WINDOW_MS).unwrap();
    assert_eq!((cell.claimed(), cell.mine()), (1, 0), "held, and not admitted yet");
    let claimed = waits.claimed().next();
    table.commit(waits);
    assert_eq!((cell.claimed(), cell.mine()), (1, 1));
    let answer = table.answer_asked(&one, (AskedFor::Granted, claimed), now(0));
    assert_eq!((answer.remaining(), answer.source()), (9, Source::Region));
    assert_eq!((answer.consistency(), answer.degraded()), (Consistency::Bounded, false));
    let unheard = table.answer_asked(&one, (AskedFor::Unheard, claimed), now(0));
    assert_eq!((unheard.consistency(), unheard.degraded()), (Consistency::Fast, true));
    assert_eq!((table.counts().admitted_granted, table.counts().admitted_local), (1, 1));
}

#[test]
fn what_is_refused_is_free_again() {
    let table = table();
    let ten = bounded("i", 10, 10);
    let waits = asking(table.decide_or_refresh(&ten, now(0)));
    table.release(waits);
    let cell = table.cell(ten.subject(), START_MS / WINDOW_MS).unwrap();
    assert_eq!((cell.claimed(), cell.mine()), (0, 0));
    table.commit(asking(table.decide_or_refresh(&ten, now(0))));
    assert_eq!(cell.mine(), 10);
}

#[test]
fn credit_is_a_share_of_the_room() {
    let table = table();
    let one = bounded("i", 800, 1);
    assert_eq!(granted(&table, &one), 799);
    hear(&table, &one, (2, 1));
    // A sixteenth of what is left each time: 49 beside 1, then the room has shrunk.
    let mut on_credit = 0;
    while let Decision::Answered(answer) = table.decide_or_refresh(&one, now(1)) {
        assert!(answer.admitted() && answer.consistency() == Consistency::Bounded);
        assert_eq!(answer.source(), Source::Local);
        on_credit += 1;
        assert!(on_credit < 800, "there is no end to it");
    }
    assert_eq!(on_credit, 47, "47 * 16 <= 799 - 46, and 48 * 16 > 799 - 47");
}

#[test]
fn nothing_is_lent_before_the_fleet_is_known() {
    let table = table();
    let one = bounded("i", 800, 1);
    table.commit(asking(table.decide_or_refresh(&one, now(0))));
    let cell = table.cell(one.subject(), START_MS / WINDOW_MS).unwrap();
    cell.acknowledge(1);
    cell.mark_fresh_until_ms(now(5_000).monotonic_ms());
    table.release(asking(table.decide_or_refresh(&one, now(0))));
}

#[test]
fn duplicates_in_a_batch_share_a_credit() {
    let table = table();
    let one = bounded("i", 81, 1);
    granted(&table, &one);
    hear(&table, &one, (1, 1));
    // An eighth of 80 is 10; once 8 are taken, an eighth of 72 is 9.
    let items = [bounded("i", 81, 8), bounded("i", 81, 2)];
    match table.decide_all_or_refresh(&Batch::new(&items).unwrap(), now(0)) {
        BatchDecision::Ask(waits) => {
            assert_eq!(wanted(&waits), [(2, 81)], "the first is on credit");
            table.release(waits);
        }
        other => panic!("{other:?}"),
    }
    let items = [bounded("i", 81, 7), bounded("i", 81, 1)];
    let BatchDecision::Answered(answer) =
        table.decide_all_or_refresh(&Batch::new(&items).unwrap(), now(0))
    else {
        panic!("7 of 80, and 8 of 73");
    };
    assert!(answer.admitted());
}

/// Who is known and far from its limit is decided at once, but not on what was heard long ago, and
/// no more of it than is lent.
#[test]
fn a_batch_of_known_subjects_hears_of_what_is_stale_and_asks_for_what_is_not_lent() {
    let table = table();
    let known = [bounded("i", 1_000, 1), bounded("j", 1_000, 1)];
    for one in &known {
        granted(&table, one);
        hear(&table, one, (1, 1));
    }
    let decide = |costs: [u64; 2], after_ms| {
        let [i, j] = costs;
        let items = [bounded("i", 1_000, i), bounded("j", 1_000, j)];
        match table.decide_all_or_refresh(&Batch::new(&items).unwrap(), now(after_ms)) {
            BatchDecision::Answered(answer) => Ok(answer),
            BatchDecision::Ask(waits) => {
                let asked = wanted(&waits);
                table.release(waits);
                Err(asked)
            }
            BatchDecision::Refresh(needs) => panic!("{needs:?}"),
        }
    };
    let cells = known.map(|one| table.cell(one.subject(), START_MS / WINDOW_MS).unwrap());
    let spent = || cells.map(|cell| (cell.claimed(), cell.mine()));
    let answer = decide([1, 2], 0).unwrap();
    let left: Vec<u64> = answer.items().iter().map(|item| item.remaining()).collect();
    assert_eq!((answer.admitted(), left), (true, vec![998, 997]));
    assert_eq!(spent(), [(2, 2), (3, 3)]);
    // An eighth of what is left is lent.
    assert_eq!(decide([1, 200], 0).unwrap_err(), [(200, 1_000)]);
    assert_eq!(decide([1, 1], 5_001).unwrap_err(), [(1, 1_000), (1, 1_000)], "stale");
    assert_eq!(spent(), [(2, 2), (3, 3)]);
}

#[test]
fn a_small_limit_always_asks() {
    let table = table();
    let one = bounded("i", 10, 1);
    granted(&table, &one);
    hear(&table, &one, (2, 1));
    table.release(asking(table.decide_or_refresh(&one, now(0))));
}

#[test]
fn who_is_in_the_way_of_a_wait_waits_too() {
    let table = table();
    let six = bounded("i", 10, 6);
    let waits = asking(table.decide_or_refresh(&six, now(0)));
    match table.decide_or_refresh(&six, now(0)) {
        Decision::Refresh(Need { reason, .. }) => assert_eq!(reason, Reason::Reserved),
        other => panic!("{other:?}"),
    }
    let eleven = bounded("i", 10, 11);
    let Decision::Answered(never) = table.decide_or_refresh(&eleven, now(0)) else {
        panic!("that fits never");
    };
    assert_eq!(never.denial(), Some(Denial::Limit));
    table.commit(waits);
    let Decision::Answered(denied) = table.decide_or_refresh(&six, now(0)) else {
        panic!("nobody waits any more");
    };
    assert_eq!(denied.denial(), Some(Denial::Limit));
    assert_eq!(denied.consistency(), Consistency::Bounded, "a denial holds");
}

#[test]
fn who_is_in_the_way_of_a_wait_waits_too_where_the_region_was_heard() {
    let table = table();
    granted(&table, &bounded("i", 10, 1));
    hear(&table, &bounded("i", 10, 1), (1, 1));
    let five = bounded("i", 10, 5);
    let waits = asking(table.decide_or_refresh(&five, now(0)));
    match table.decide_or_refresh(&five, now(0)) {
        Decision::Refresh(Need { reason, .. }) => assert_eq!(reason, Reason::Reserved),
        other => panic!("{other:?}"),
    }
    table.release(waits);
    table.commit(asking(table.decide_or_refresh(&five, now(0))));
    let Decision::Answered(denied) = table.decide_or_refresh(&five, now(0)) else {
        panic!("nobody waits any more");
    };
    assert_eq!(denied.denial(), Some(Denial::Limit));
}

#[test]
fn a_region_that_did_not_answer_is_not_asked_at_once() {
    let table = table();
    let one = bounded("i", 10, 1);
    let waits = asking(table.decide_or_refresh(&one, now(0)));
    let subject = waits.wanted().next().unwrap().cell.subject;
    table.commit(waits);
    table.cells(subject).unwrap().retry_no_sooner(now(50).monotonic_ms());
    let Decision::Answered(answer) = table.decide_or_refresh(&one, now(49)) else {
        panic!("not yet");
    };
    assert!(answer.admitted() && answer.degraded());
    assert_eq!(answer.consistency(), Consistency::Fast);
    table.release(asking(table.decide_or_refresh(&one, now(50))));
}

#[test]
fn who_is_alone_never_asks() {
    let alone = Options::default().with_region().with_nobody_else();
    let seed = || Seed::from_bytes([42; 32]);
    for table in [Table::new(alone, seed()), Table::new(Options::default(), seed())] {
        let one = bounded("i", 2, 1);
        for remaining in [1, 0] {
            let answer = match table.decide_or_refresh(&one, now(0)) {
                Decision::Answered(answer) => answer,
                Decision::Refresh(_) => table.decide_refreshed(&one, true, now(0)),
                Decision::Ask(asking) => panic!("{asking:?}"),
            };
            assert_eq!(answer.remaining(), remaining);
            assert_eq!((answer.consistency(), answer.degraded()), (Consistency::Bounded, false));
        }
    }
}

#[test]
fn a_batch_is_asked_for_as_one() {
    let table = table();
    let warm = bounded("warm", 8_000, 1);
    granted(&table, &warm);
    hear(&table, &warm, (1, 1));
    let items = [bounded("a", 10, 2), warm, bounded("a", 10, 3), request("b", 9, WINDOW_MS, 4)];
    let batch = Batch::new(&items).unwrap();
    let BatchDecision::Ask(waits) = table.decide_all_or_refresh(&batch, now(0)) else {
        panic!("two of its subjects are cold");
    };
    assert_eq!(wanted(&waits), [(2, 10), (3, 10), (4, 9)], "in order; one is on credit");
    let cells = ["a", "b"].map(|name| {
        let subject = request(name, 1, WINDOW_MS, 1);
        table.cell(subject.subject(), START_MS / WINDOW_MS).unwrap()
    });
    assert_eq!(cells.map(|cell| (cell.claimed(), cell.mine())), [(5, 0), (4, 0)]);
    let claimed: Vec<_> = waits.claimed().collect();
    table.commit(waits);
    assert_eq!(cells.map(|cell| cell.mine()), [5, 4]);
    let answer = table.answer_all_asked(&batch, (AskedFor::Granted, &claimed), now(0));
    assert!(answer.admitted());
    let sources: Vec<Source> = answer.items().iter().map(|item| item.source()).collect();
    assert_eq!(sources, [Source::Region, Source::Local, Source::Region, Source::Region]);
    let remaining: Vec<u64> = answer.items().iter().map(|item| item.remaining()).collect();
    assert_eq!(remaining, [8, 7_998, 5, 5], "each with what came before it");
}

/// What is lent is held while a neighbour is heard of: or a burst of batches would take it again
/// and again.
#[test]
fn batches_with_others_keep_to_the_credit() {
    let table = table();
    let global = bounded("global", 200, 1);
    granted(&table, &global);
    hear(&table, &global, (1, 1));
    let names: Vec<String> = (0..100).map(|n| format!("user-{n}")).collect();
    let (mut waits, mut lent) = (Vec::new(), 0);
    for name in &names {
        let items = [request(name, 5, WINDOW_MS, 1), global];
        match table.decide_all_or_refresh(&Batch::new(&items).unwrap(), now(0)) {
            BatchDecision::Ask(asking) => {
                lent += usize::from(asking.claimed().map(|it| it.asks).eq([true, false]));
                waits.push(asking);
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(lent, 22, "an eighth of what is left, each time; the others ask for both");
    waits.into_iter().for_each(|asking| table.release(asking));
}

#[test]
fn who_asks_nobody_says_so() {
    let table = table();
    let one = bounded("i", 10, 1);
    let answer = table.decide(&one, now(0));
    assert_eq!((answer.consistency(), answer.degraded()), (Consistency::Fast, true));
    let items = [one, request("j", 10, WINDOW_MS, 1)];
    let answer = table.decide_all(&Batch::new(&items).unwrap(), now(0));
    let degraded: Vec<bool> = answer.items().iter().map(|item| item.degraded()).collect();
    assert_eq!(degraded, [true, false]);
    let gone = bounded("gone", 10, 1);
    let answer = table.decide_refreshed(&gone, true, now(0));
    assert!(answer.admitted() && answer.degraded(), "what was heard is gone");
}

#[test]
fn a_batch_that_is_refused_leaves_nothing() {
    let table = table();
    let items = [bounded("a", 10, 2), bounded("b", 10, 3)];
    let batch = Batch::new(&items).unwrap();
    let BatchDecision::Ask(waits) = table.decide_all_or_refresh(&batch, now(0)) else {
        panic!("both are cold");
    };
    // Another batch that would fit but for this one waits for it.
    let more = [bounded("b", 10, 8)];
    match table.decide_all_or_refresh(&Batch::new(&more).unwrap(), now(0)) {
        BatchDecision::Refresh(needs) => assert_eq!(needs[0].reason, Reason::Reserved),
        other => panic!("{other:?}"),
    }
    table.release(waits);
    for item in &items {
        let cell = table.cell(item.subject(), START_MS / WINDOW_MS).unwrap();
        assert_eq!((cell.claimed(), cell.mine()), (0, 0));
    }
}
