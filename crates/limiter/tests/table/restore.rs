//! What was saved comes back where it belongs.

use tidegate_limiter::{
    Batch, Digest, FleetSecret, Now, Options, SavedSubject, SavedSubjects, Seed, Table, Walk,
};

use crate::support::{START_MS, now, request, subject, table};

const SEQUENCE: u64 = START_MS / 60_000;
const HOUR_MS: u64 = 3_600_000;

fn digest(identifier: &str) -> Digest {
    Digest::of(&subject("workspace", identifier, 60_000), &FleetSecret::default())
}

fn saved(identifier: &str, current: u64, previous: u64) -> SavedSubject {
    let subject = digest(identifier);
    SavedSubject { subject, window_ms: 60_000, sequence: SEQUENCE, current, previous }
}

fn restored(budget_bytes: usize, all: Vec<SavedSubject>) -> Table {
    let options = Options::default().with_budget_bytes(budget_bytes);
    Table::new(options.with_saved(SavedSubjects::new(all)), Seed::from_bytes([1; 32]))
}

/// All that has to be saved, seated or not.
fn save(table: &Table, after_ms: u64) -> Vec<SavedSubject> {
    save_at(table, now(after_ms))
}

fn save_at(table: &Table, at: Now) -> Vec<SavedSubject> {
    let mut all = Vec::new();
    table.walk(&mut Walk::default(), usize::MAX, |ticket| all.extend(table.to_save(ticket, at)));
    let rest = table.all_restored(at);
    let rest = rest.iter().flat_map(|rest| rest.as_slice()).filter(|saved| saved.is_live(at));
    all.extend(rest);
    SavedSubjects::new(all).as_slice().to_vec()
}

#[test]
fn a_subject_begins_with_what_was_saved_of_it() {
    let table = restored(1 << 20, vec![saved("a", 4, 6)]);
    let seen = table.inspect(&subject("workspace", "a", 60_000), now(30_000));
    assert_eq!((seen.known, seen.current.restored, seen.previous.restored), (false, 4, 6));
    // 4 + 6/2 are used.
    let answer = table.decide(&request("a", 10, 60_000, 1), now(30_000));
    assert_eq!((answer.admitted(), answer.remaining()), (true, 2));
    let cell = table.cell(&subject("workspace", "a", 60_000), SEQUENCE).unwrap();
    assert_eq!((cell.mine(), cell.peers(), cell.confirmed()), (1, 4, 0), "nothing is sent twice");
    assert_eq!(table.decide(&request("b", 10, 60_000, 1), now(30_000)).remaining(), 9);
}

#[test]
fn a_window_later_it_is_the_previous_one() {
    let table = restored(1 << 20, vec![saved("a", 8, 6)]);
    let answer = table.decide(&request("a", 10, 60_000, 1), now(60_000 + 45_000));
    assert_eq!(answer.remaining(), 10 - 2 - 1, "a quarter of 8");
    let late = restored(1 << 20, vec![saved("a", 8, 6)]);
    assert_eq!(late.decide(&request("a", 10, 60_000, 1), now(120_000)).remaining(), 9);
}

#[test]
fn a_clock_that_is_ahead_for_a_while_takes_nothing_away() {
    let table = restored(1 << 20, vec![saved("a", 8, 6)]);
    let over_ms = 120_000 + HOUR_MS;
    table.sweep(now(over_ms - 1));
    assert_eq!(save(&table, over_ms - 1), [saved("a", 8, 6)]);
    assert_eq!(table.decide(&request("a", 100, 60_000, 1), now(0)).remaining(), 100 - 8 - 6 - 1);
}

#[test]
fn an_hour_after_all_has_expired_the_memory_is_given_back() {
    let table = restored(1 << 20, vec![saved("a", 8, 6)]);
    let over_ms = 120_000 + HOUR_MS;
    assert!(table.all_restored(now(over_ms - 1)).is_some());
    table.sweep(now(over_ms));
    assert!(table.all_restored(now(0)).is_none());
}

/// The clock is behind when the process starts, and is put right while it runs.
#[test]
fn what_is_from_the_future_comes_back_when_that_begins() {
    let all = vec![saved("a", 4, 6), saved("b", 7, 0), saved("c", 1, 0)];
    let table = restored(1 << 20, all.clone());
    let early = Now::new(START_MS - 100 * HOUR_MS, 0);
    for name in ["a", "b"] {
        assert_eq!(table.decide(&request(name, 100, 60_000, 3), early).remaining(), 97);
    }
    table.sweep(early);
    let kept = SavedSubjects::new(save_at(&table, early));
    for one in &all {
        assert_eq!(kept.count(one.subject, SEQUENCE), one.current, "it is saved again meanwhile");
    }
    assert_eq!(kept.count(digest("a"), (START_MS - 100 * HOUR_MS) / 60_000), 3);

    // One comes at once, one later.
    assert!(table.decide(&request("a", 100, 60_000, 1), now(0)).admitted());
    // Each step looks at one shard.
    for _ in 0..1_000 {
        table.sweep(now(0));
    }
    assert_eq!(table.decide(&request("a", 100, 60_000, 0), now(0)).remaining(), 100 - 4 - 6 - 1);
    assert_eq!(table.decide(&request("b", 100, 60_000, 0), now(0)).remaining(), 100 - 7);
    assert_eq!(table.decide(&request("c", 100, 60_000, 0), now(0)).remaining(), 100 - 1);
    let cell = table.cell(&subject("workspace", "a", 60_000), SEQUENCE).unwrap();
    assert_eq!((cell.mine(), cell.peers()), (1, 4), "however often the sweep came by");
}

#[test]
fn an_eviction_forgets_no_more_than_it_did() {
    // Room for a few subjects only.
    let table = restored(1, vec![saved("a", 4, 0)]);
    for round in 1..=3 {
        let answer = table.decide(&request("a", 1_000, 60_000, 5), now(round));
        assert_eq!(answer.remaining(), 1_000 - 4 - 5, "round {round}");
        let _ = table.forget_all();
    }
    assert_eq!(save(&table, 10), [saved("a", 4, 0)]);
}

#[test]
fn what_is_saved_is_what_was_admitted() {
    let table = table();
    let (long, short) = (request("a", 10, 60_000, 3), request("a", 10, 59_999, 3));
    assert!(table.decide(&long, now(0)).admitted() && table.decide(&short, now(0)).admitted());
    let cell = table.cell(long.subject(), SEQUENCE).unwrap();
    cell.observe_region(5, 3);
    cell.observe_foreign(100);
    assert_eq!(save(&table, 0), [saved("a", 5, 0)]);
    assert!(table.decide(&request("a", 500, 60_000, 1), now(60_000)).admitted());
    let next = SavedSubject { sequence: SEQUENCE + 1, ..saved("a", 1, 5) };
    assert_eq!(save(&table, 60_000), [next]);
    assert_eq!(save(&table, 180_000 + HOUR_MS), [], "it has expired");
}

#[test]
fn what_nobody_asked_for_is_saved_again() {
    let all = vec![saved("a", 4, 6), saved("b", 1, 0), saved("c", 2, 2)];
    let table = restored(1 << 20, all);
    assert!(table.decide(&request("b", 10, 60_000, 2), now(0)).admitted());
    let mut expected = vec![saved("a", 4, 6), saved("b", 3, 0), saved("c", 2, 2)];
    expected.sort_by_key(|saved| saved.subject);
    assert_eq!(save(&table, 0), expected);
}

#[test]
fn a_batch_finds_what_was_saved() {
    let table = restored(1 << 20, vec![saved("a", 4, 0), saved("b", 9, 0)]);
    let both = [request("a", 10, 60_000, 2), request("b", 10, 60_000, 2)];
    let answer = table.decide_all(&Batch::new(&both).unwrap(), now(0));
    assert!(!answer.admitted() && answer.items()[0].admitted());
    let both = [request("a", 10, 60_000, 6), request("b", 10, 60_000, 1)];
    assert!(table.decide_all(&Batch::new(&both).unwrap(), now(0)).admitted());
}
