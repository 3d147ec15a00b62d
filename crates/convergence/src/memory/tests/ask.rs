//! What a store grants.

use super::*;
use crate::ask::{Ask, AskCell, AskReply, Grant, Unit, Want};

const TOKEN: Token = Token(1);

fn ask(operation: u64, record: Record, units: Vec<Unit>) -> ShardCall {
    let cell = AskCell {
        record,
        known: record.total,
        known_previous: record.previous_total,
        foreign_previous: 0,
        rest_ms: WINDOW_MS / 2,
    };
    let ask = Ask { operation, token: TOKEN, cells: vec![cell], units };
    ShardCall { ask: Some(ask), ..ShardCall::of(Shard(0), TOKEN, vec![]) }
}

fn unit(cost: u64, head: u64, count: u32) -> Unit {
    Unit { wants: vec![Want { cell: 0, cost, head }], count }
}

fn answer(region: &mut MemoryRegion, call: &ShardCall) -> AskReply {
    region.call(call, 0).asked.unwrap()
}

#[test]
fn what_fits_the_store_is_granted_once() {
    let mut region = MemoryRegion::new(1);
    send(&mut region, record(2, (9, 0), (4, 2)), 0);
    // 4 in this window, half of 2 in the one before: 5 of 10 are used, and one more is told.
    let call = ask(1, record(2, (1, 0), (1, 0)), vec![unit(3, 10, 1), unit(1, 10, 5)]);
    let first = answer(&mut region, &call);
    assert_eq!(first.grants, [Grant::Granted(1), Grant::Granted(1)], "3 and 1 beside 6");
    let current = first.cells[0].current;
    assert_eq!((current.sum, current.recorded, current.components), (9, 5, 2));
    let again = answer(&mut region, &call);
    assert_eq!(again.grants, first.grants, "the same operation, the same answer");
    assert_eq!(again.cells[0].current.sum, 9);
    let mut other = call;
    if let Some(ask) = &mut other.ask {
        ask.units = vec![unit(3, 10, 0), unit(1, 10, 5), unit(1, 10, 5)];
    }
    let other = answer(&mut region, &other).grants;
    assert_eq!(other, [Grant::Conflict, Grant::Granted(1), Grant::Conflict], "not what it wants");
}

#[test]
fn an_ask_that_is_out_of_date_grants_nothing() {
    let mut region = MemoryRegion::new(1);
    answer(&mut region, &ask(2, record(1, (1, 0), (5, 0)), vec![unit(1, 100, 1)]));
    let late = answer(&mut region, &ask(1, record(1, (1, 0), (3, 0)), vec![unit(2, 100, 1)]));
    assert_eq!(late.grants, [Grant::Conflict]);
    assert_eq!(late.cells[0].current.sum, 6);
    let newer = ask(3, record(1, (1, 0), (5, 0)), vec![unit(1, 100, 1)]);
    for _ in 0..2 {
        let newer = answer(&mut region, &newer);
        assert_eq!(newer.grants, [Grant::Conflict], "6 are recorded, and it says 5");
    }
}

#[test]
fn a_shard_that_forgot_grants_nothing_to_those_who_knew_it() {
    let mut region = MemoryRegion::new(1);
    let call = ask(1, record(1, (1, 0), (0, 0)), vec![unit(1, 10, 1)]);
    assert_eq!(answer(&mut region, &call).grants, [Grant::Granted(1)]);
    region.flush(Shard(0));
    region.call(&ShardCall::of(Shard(0), Token(2), vec![]), 0);
    assert_eq!(answer(&mut region, &call).grants, [Grant::Stranger]);
    assert_eq!(region.sum(cell(1), 0), 0);
}

#[test]
fn what_the_asker_knows_counts_too() {
    let mut region = MemoryRegion::new(1);
    let mut call = ask(1, record(2, (1, 0), (0, 0)), vec![unit(1, 10, 9)]);
    if let Some(cell) = call.ask.as_mut().and_then(|ask| ask.cells.first_mut()) {
        (cell.known, cell.known_previous, cell.foreign_previous) = (4, 3, 3);
    }
    // 4, and half of 6: 3 of 10 are left, although the store holds nothing.
    assert_eq!(answer(&mut region, &call).grants, [Grant::Granted(3)]);
}

#[test]
fn a_unit_is_granted_whole_or_not_at_all() {
    let mut region = MemoryRegion::new(1);
    let mut call = ask(1, record(1, (1, 0), (0, 0)), vec![]);
    if let Some(ask) = &mut call.ask {
        let mut other = ask.cells[0];
        other.record.sequence = 2;
        ask.cells.push(other);
        let both = |costs: [u64; 2]| {
            let want = |(cell, cost)| Want { cell, cost, head: 10 };
            Unit { wants: costs.into_iter().enumerate().map(want).collect(), count: 3 }
        };
        ask.units = vec![both([3, 5]), both([4, 1]), both([1, 0])];
    }
    let reply = answer(&mut region, &call);
    assert_eq!(reply.grants, [2, 0, 3].map(Grant::Granted));
    assert_eq!(reply.cells.iter().map(|cell| cell.current.sum).collect::<Vec<_>>(), [9, 10]);
    assert_eq!((region.sum(cell(1), 0), region.sum(cell(2), 0)), (9, 10));
}

#[test]
fn those_who_are_silent_are_not_present() {
    let mut region = MemoryRegion::new(1);
    let mut present = |incarnation, now_ms| {
        let call = ShardCall { present: Some(incarnation), ..call(vec![], 1) };
        region.call(&call, now_ms).present
    };
    assert_eq!(present(1, 0), Some(1));
    assert_eq!(present(2, 3_000), Some(2));
    assert_eq!(present(2, 5_000), Some(1));
}
