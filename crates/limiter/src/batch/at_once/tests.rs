use crate::answer::BatchAnswer;
use crate::key::Seed;
use crate::request::{Cost, Limit, Part, Request, Subject, Window};
use crate::table::{Options, Table};
use crate::time::Now;

use super::{ITEMS_MAX, admit};

const NOW: Now = Now::new(1_700_000_040_000, 10_000);

fn ask(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    let (part, window) = (Part::new("a").unwrap(), Window::from_millis(60_000).unwrap());
    let subject = Subject::new(part, part, Part::new(identifier).unwrap(), window);
    Request::new(subject, Limit::new(limit), Cost::new(cost).unwrap())
}

fn table_of(identifiers: &[String]) -> Table {
    let table = Table::new(Options::default(), Seed::from_bytes([7; 32]));
    for identifier in identifiers {
        assert!(table.decide(&ask(identifier, 10, 1), NOW).admitted());
    }
    table
}

/// Whether it is decided at once, and what is claimed and admitted of the first subject then.
fn at_once(table: &Table, items: &[Request<'_>]) -> (bool, [u64; 2]) {
    let mut answer = BatchAnswer::default();
    let done = admit(table, items, (NOW, false), &mut answer);
    assert_eq!(
        (answer.admitted(), answer.items().len()),
        (done, if done { items.len() } else { 0 })
    );
    let cell = table.cell(ask("0", 1, 1).subject(), NOW.unix_ms() / 60_000).unwrap();
    (done, [cell.claimed(), cell.mine()])
}

#[test]
fn only_what_is_ordinary_is_decided_at_once_and_nothing_else_is_touched() {
    let table = table_of(&["0", "1"].map(str::to_owned));
    let with = |other| at_once(&table, &[ask("0", 10, 1), other]);
    assert_eq!(with(ask("1", 10, 5)), (false, [1; 2]), "less than half of the other is left");
    assert_eq!(with(ask("1", 10, 11)), (false, [1; 2]), "the other does not fit");
    assert_eq!(with(ask("1", 0, 0)), (false, [1; 2]), "a limit of nothing fits nothing");
    assert_eq!(with(ask("0", 10, 1)), (false, [1; 2]), "the same subject twice");
    assert_eq!(with(ask("2", 10, 1)), (false, [1; 2]), "not there");
    assert_eq!(with(ask("1", 10, 4)), (true, [2; 2]), "half of it is left");
    assert_eq!(with(ask("1", 10, 0)), (true, [3; 2]), "costs nothing");
}

#[test]
fn many_items_take_their_time() {
    let names: Vec<String> = (0..=ITEMS_MAX).map(|number| number.to_string()).collect();
    let table = table_of(&names);
    let items: Vec<_> = names.iter().map(|name| ask(name, 10, 1)).collect();
    assert_eq!(at_once(&table, &items), (false, [1; 2]));
    assert_eq!(at_once(&table, &items[1..]), (true, [1; 2]));
}
