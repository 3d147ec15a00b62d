//! What the reference implementation's own tests ask of one process (SW, BA, MX and JA lines),
//! on the table.

use crate::support::{START_MS, now, request, subject, table};
use tidegate_limiter::{
    BATCH_MAX, Batch, COST_MAX, Cost, Denial, LIMIT_MAX, Limit, Now, Part, Request, RequestError,
    WINDOW_MS_MAX, WINDOW_MS_MIN, Window,
};

/// SW1..SW4 and SW7, end to end; negative values cannot be represented.
#[test]
fn sliding_window_on_one_cell() {
    let table = table();
    for remaining in (0..10).rev() {
        let answer = table.decide(&request("a", 10, 60_000, 1), now(0));
        assert!(answer.admitted());
        assert_eq!((answer.remaining(), answer.limit()), (remaining, 10));
        assert_eq!(answer.reset_unix_ms(), START_MS + 60_000);
    }
    let at_the_limit = table.decide(&request("a", 10, 60_000, 0), now(0));
    assert!(at_the_limit.admitted(), "cost 0 at the limit passes");
    assert_eq!(at_the_limit.remaining(), 0);
    let denied = table.decide(&request("a", 10, 60_000, 1), now(0));
    assert_eq!((denied.denial(), denied.remaining()), (Some(Denial::Limit), 0));
    assert_eq!(denied.reset_unix_ms(), START_MS + 60_000);
    let oversized = table.decide(&request("b", 10, 60_000, 100), now(0));
    assert!(!oversized.admitted());
    assert_eq!(oversized.retry_after_ms(), None, "never fits");
    let after = table.decide(&request("b", 10, 60_000, 0), now(0));
    assert_eq!(after.remaining(), 10, "a denial consumes nothing");
}

/// SW5 and SW6, end to end.
#[test]
fn sliding_window_over_two_cells() {
    let table = table();
    assert!(table.decide(&request("a", 10, 60_000, 10), now(0)).admitted());
    assert!(table.decide(&request("a", 20, 60_000, 5), now(60_000)).admitted());
    assert!(!table.decide(&request("a", 10, 60_000, 1), now(90_000)).admitted(), "5 + 5 + 1");
    let late = table.decide(&request("a", 10, 60_000, 1), now(60_000 + 59_400));
    assert_eq!((late.admitted(), late.remaining()), (true, 4));
}

/// BA1: one item fits, the other does not: nothing is spent, both are reported.
#[test]
fn a_denied_batch_spends_nothing() {
    let table = table();
    assert!(table.decide(&request("b", 10, 60_000, 9), now(0)).admitted());
    let items = [request("a", 10, 60_000, 1), request("b", 10, 60_000, 5)];
    let answer = table.decide_all(&Batch::new(&items).unwrap(), now(0));
    assert!(!answer.admitted());
    let verdicts: Vec<_> = answer.items().iter().map(|item| item.admitted()).collect();
    assert_eq!(verdicts, [true, false]);
    assert_eq!(answer.items()[0].remaining(), 10, "as if it never happened");
    assert_eq!(answer.items()[1].remaining(), 0);
    assert_eq!(table.decide(&request("a", 10, 60_000, 0), now(0)).remaining(), 10);
    assert_eq!(table.decide(&request("b", 10, 60_000, 0), now(0)).remaining(), 1);
}

/// BA2: requests are taken by shared reference and plain data; they cannot be changed. What is
/// left to show is that the same batch can be sent again.
#[test]
fn an_admitted_batch_spends_every_item() {
    let table = table();
    let items = [request("a", 10, 60_000, 1), request("b", 5, 60_000, 2)];
    let batch = Batch::new(&items).unwrap();
    for (first, second) in [(9, 3), (8, 1)] {
        let answer = table.decide_all(&batch, now(0));
        assert!(answer.admitted());
        let remaining: Vec<_> = answer.items().iter().map(|item| item.remaining()).collect();
        assert_eq!(remaining, [first, second]);
    }
    assert!(!table.decide_all(&batch, now(0)).admitted());
    assert_eq!(table.decide(&request("a", 10, 60_000, 0), now(0)).remaining(), 8);
}

#[test]
fn duplicates_in_a_batch_count_in_order() {
    let table = table();
    let twice = [request("a", 1, 60_000, 1), request("a", 1, 60_000, 1)];
    let answer = table.decide_all(&Batch::new(&twice).unwrap(), now(0));
    let verdicts: Vec<_> = answer.items().iter().map(|item| item.admitted()).collect();
    assert_eq!((answer.admitted(), verdicts), (false, vec![true, false]));
    assert!(table.decide(&request("a", 1, 60_000, 1), now(0)).admitted(), "nothing was spent");

    // Each against its own limit: 2 are used, the first needs 3 of 4, the second 5 of 10.
    assert!(table.decide(&request("b", 10, 60_000, 2), now(0)).admitted());
    let mixed = [request("b", 4, 60_000, 1), request("b", 10, 60_000, 2)];
    let answer = table.decide_all(&Batch::new(&mixed).unwrap(), now(0));
    assert!(answer.admitted());
    let remaining: Vec<_> = answer.items().iter().map(|item| item.remaining()).collect();
    assert_eq!(remaining, [1, 5]);
    // The first look already counts them in order: no reservation was tried in vain.
    assert_eq!(table.counts().reservations_denied, 0);
}

#[test]
fn a_batch_of_one_is_a_single() {
    let (batched, single) = (table(), table());
    for cost in [1, 0, 4, 9, 1, 3] {
        let one = [request("a", 8, 60_000, cost)];
        let from_batch = batched.decide_all(&Batch::new(&one).unwrap(), now(0)).items()[0];
        assert_eq!(from_batch, single.decide(&one[0], now(0)));
    }
}

#[test]
fn a_full_batch_is_admitted() {
    let table = table();
    let names: Vec<_> = (0..BATCH_MAX).map(|n| format!("id-{n}")).collect();
    let items: Vec<_> = names.iter().map(|name| request(name, 1, 60_000, 1)).collect();
    assert!(table.decide_all(&Batch::new(&items).unwrap(), now(0)).admitted());
    assert!(!table.decide_all(&Batch::new(&items).unwrap(), now(0)).admitted());
}

#[test]
fn limit_zero_denies_everything() {
    let table = table();
    for cost in [0, 1] {
        let answer = table.decide(&request("a", 0, 60_000, cost), now(0));
        assert_eq!((answer.admitted(), answer.retry_after_ms()), (false, None));
    }
}

/// A limit is not part of the subject; a window is.
#[test]
fn a_changed_limit_applies_at_once() {
    let table = table();
    assert!(table.decide(&request("a", 10, 60_000, 8), now(0)).admitted());
    let lowered = table.decide(&request("a", 5, 60_000, 1), now(0));
    assert_eq!((lowered.admitted(), lowered.remaining()), (false, 0));
    assert_eq!(table.decide(&request("a", 20, 60_000, 1), now(0)).remaining(), 11);
    assert_eq!(table.decide(&request("a", 10, 30_000, 1), now(0)).remaining(), 9);
}

/// INV-7: the same within a cell whatever happens.
#[test]
fn reset_is_constant_within_a_cell() {
    let table = table();
    for after_ms in [0, 1, 500, 59_999] {
        let answer = table.decide(&request("a", 2, 60_000, 1), now(after_ms));
        assert_eq!(answer.reset_unix_ms(), START_MS + 60_000);
    }
    assert_eq!(
        table.decide(&request("a", 2, 60_000, 1), now(60_000)).reset_unix_ms(),
        START_MS + 120_000
    );
}

/// Waiting as long as the answer says admits; one millisecond less denies, end to end.
#[test]
fn retry_after_is_exact_on_the_table() {
    for (spent, cost, after_ms) in [(10, 1, 0), (10, 3, 17), (10, 10, 30_001), (7, 5, 59_999)] {
        let table = table();
        let ask = request("a", 10, 60_000, cost);
        assert!(table.decide(&request("a", 10, 60_000, spent), now(after_ms)).admitted());
        let wait_ms = table.decide(&ask, now(after_ms)).retry_after_ms().unwrap();
        assert!(wait_ms > 0);
        assert!(!table.decide(&ask, now(after_ms + wait_ms - 1)).admitted());
        assert!(table.decide(&ask, now(after_ms + wait_ms)).admitted());
    }
}

/// A batch that waits for the last of its items is admitted then and not before, duplicates
/// included; one that can never fit is not told to come back.
#[test]
fn retry_after_is_exact_for_batches() {
    let duplicates = [request("a", 10, 10_000, 3), request("a", 10, 10_000, 3)];
    let apart = [request("a", 10, 10_000, 3), request("b", 10, 10_000, 3)];
    for items in [duplicates, apart] {
        let table = table();
        assert!(table.decide(&request("a", 10, 10_000, 9), now(0)).admitted());
        let batch = Batch::new(&items).unwrap();
        let denied = table.decide_all(&batch, now(0));
        assert!(!denied.admitted());
        let waits = denied.items().iter().map(|item| item.retry_after_ms().unwrap());
        let wait_ms = waits.max().unwrap();
        assert!(!table.decide_all(&batch, now(wait_ms - 1)).admitted());
        assert!(table.decide_all(&batch, now(wait_ms)).admitted());
    }
    let never = [request("c", 1, 1_000, 1), request("c", 1, 1_000, 1)];
    let denied = table().decide_all(&Batch::new(&never).unwrap(), now(0));
    let waits: Vec<_> = denied.items().iter().map(|item| item.retry_after_ms()).collect();
    assert_eq!(waits, [Some(0), None], "the first fits, both never do");
}

/// JA1: a subject whose cells have expired is dropped, the current one is kept.
#[test]
fn sweep_drops_what_expired() {
    let table = table();
    assert!(table.decide(&request("old", 10, 60_000, 1), now(0)).admitted());
    assert!(table.decide(&request("new", 10, 60_000, 1), now(600_000)).admitted());
    let dropped: usize = (0..8).map(|_| table.sweep(now(600_000))).sum();
    assert_eq!((dropped, table.subjects()), (1, 1));
    assert_eq!(table.decide(&request("new", 10, 60_000, 0), now(600_000)).remaining(), 9);
    assert_eq!((table.counts().subjects_expired, table.counts().subjects_evicted), (1, 0));
}

/// JA2: a subject with a strict deadline ahead is kept; later it goes with its deadline. ST1: the
/// deadline is the request's time plus the window.
#[test]
fn a_strict_deadline_keeps_its_subject() {
    let table = table();
    let ask = request("a", 1, 60_000, 1);
    assert!(table.decide(&ask, now(0)).admitted());
    assert!(!table.decide(&ask, now(60_000)).admitted());
    let cell = table.cell(ask.subject(), START_MS / 60_000 + 1).unwrap();
    assert_eq!(cell.strict(), (now(120_000).monotonic_ms(), 1));
    (0..8).for_each(|_| assert_eq!(table.sweep(now(119_999)), 0));
    assert_eq!(table.subjects(), 1);
    assert_eq!((0..8).map(|_| table.sweep(now(400_000))).sum::<usize>(), 1);
}

#[test]
fn one_oversized_request_does_not_arm_strict_mode() {
    let table = table();
    assert!(table.decide(&request("a", 10, 60_000, 1), now(0)).admitted());
    for cost in [10, 11] {
        assert!(!table.decide(&request("a", 10, 60_000, cost), now(0)).admitted());
    }
    assert_eq!(table.counts().strict_armed, 0);
    assert!(table.decide(&request("a", 10, 60_000, 9), now(0)).admitted());
    assert!(!table.decide(&request("a", 10, 60_000, 1), now(0)).admitted());
    assert_eq!(table.counts().strict_armed, 1);
}

#[test]
fn duplicates_in_a_batch_do_not_arm_strict_mode() {
    let table = table();
    let items = [request("a", 10, 60_000, 10), request("a", 10, 60_000, 1)];
    assert!(!table.decide_all(&Batch::new(&items).unwrap(), now(0)).admitted());
    assert_eq!(table.counts().strict_armed, 0, "nothing was ever spent");
}

#[test]
fn strict_mode_remembers_the_largest_exhausted_limit() {
    let table = table();
    assert!(table.decide(&request("a", 10, 60_000, 10), now(0)).admitted());
    for limit in [5, 10, 3] {
        assert!(!table.decide(&request("a", limit, 60_000, 1), now(0)).admitted());
    }
    let cell = table.cell(request("a", 1, 60_000, 1).subject(), START_MS / 60_000).unwrap();
    assert_eq!(cell.strict().1, 10);
}

/// What cannot be held cannot be asked.
#[test]
fn absurd_values_are_refused_where_they_are_parsed() {
    assert_eq!(Part::new(""), Err(RequestError::Empty));
    assert!(Part::new(&"\u{1F30A}".repeat(512)).is_ok(), "512 characters of four bytes");
    assert_eq!(Part::new(&"x".repeat(513)), Err(RequestError::TooLong));
    assert_eq!(Cost::new(COST_MAX + 1), Err(RequestError::CostTooLarge));
    assert_eq!(Limit::new(u64::MAX), Limit::new(LIMIT_MAX), "clamped: it cannot be reached");
    assert_eq!(Window::from_millis(WINDOW_MS_MIN - 1), Err(RequestError::WindowTooShort));
    assert_eq!(Window::from_millis(WINDOW_MS_MAX + 1), Err(RequestError::WindowTooLong));
    assert_eq!(Batch::new(&[]).unwrap_err(), RequestError::BatchEmpty);
    let many = vec![request("a", 1, 1_000, 1); BATCH_MAX + 1];
    assert_eq!(Batch::new(&many).unwrap_err(), RequestError::BatchTooLarge);
    assert_eq!(RequestError::BatchTooLarge.code(), "batch_too_large");
    assert_eq!(RequestError::TooLong.to_string(), "must have at most 512 characters");
}

#[test]
fn the_largest_values_add_up_exactly() {
    let table = table();
    let ask = request("a", LIMIT_MAX, WINDOW_MS_MAX, COST_MAX);
    for admitted in 1..=LIMIT_MAX / COST_MAX {
        let answer = table.decide(&ask, now(0));
        assert_eq!(answer.remaining(), LIMIT_MAX - admitted * COST_MAX);
    }
    assert!(!table.decide(&ask, now(0)).admitted());
    let end_of_time = Now::new(u64::MAX, u64::MAX);
    assert!(table.decide(&ask, end_of_time).admitted());
}

/// Every part of a subject tells it apart, also when it is too long to be kept as text.
#[test]
fn subjects_do_not_share_counts() {
    let table = table();
    let long = "x".repeat(511);
    let (longer, other) = (format!("{long}y"), format!("{long}z"));
    let cost = Cost::ONE;
    let mut subjects = vec![];
    for workspace in ["w", "wn", &longer, &other] {
        for identifier in ["i", "ni", &longer, &other] {
            for window_ms in [1_000, 2_000] {
                subjects.push(subject(workspace, identifier, window_ms));
            }
        }
    }
    for round in [true, false] {
        for subject in &subjects {
            let answer = table.decide(&Request::new(*subject, Limit::new(1), cost), now(0));
            assert_eq!(answer.admitted(), round);
        }
    }
    assert_eq!(table.subjects(), subjects.len());
}
