use proptest::prelude::*;
use tidegate_limiter::{Digest, FleetSecret, Part, Subject, Window};

use super::*;

mod ask;

const WINDOW_MS: u64 = 1_000;

fn subject() -> Digest {
    let part = |text| Part::new(text).unwrap();
    let window = Window::from_millis(WINDOW_MS).unwrap();
    Digest::of(&Subject::new(part("w"), part("n"), part("i"), window), &FleetSecret::default())
}

fn cell(sequence: u64) -> CellName {
    CellName { subject: subject(), sequence }
}

fn record(sequence: u64, name: (u8, u8), totals: (u64, u64)) -> Record {
    let component = Component { incarnation: name.0.into(), life: name.1.into() };
    let (subject, (total, previous_total)) = (subject(), totals);
    Record { subject, window_ms: WINDOW_MS, sequence, component, total, previous_total }
}

fn call(records: Vec<Record>, proposal: u128) -> ShardCall {
    ShardCall { identify: true, ..ShardCall::of(Shard(0), Token(proposal), records) }
}

fn send(region: &mut MemoryRegion, record: Record, now_ms: u64) -> Reply {
    region.call(&call(vec![record], 1), now_ms).replies[0].unwrap()
}

#[test]
fn a_cell_expires_and_reading_creates_none() {
    let mut region = MemoryRegion::new(1);
    let reply = send(&mut region, record(1, (0, 0), (0, 0)), 0);
    assert_eq!((reply, region.cells()), (Reply { ..reply }, 0), "nothing to record");
    let life_ms = record(1, (0, 0), (5, 0)).life_ms();
    assert!((3 * WINDOW_MS..=3 * WINDOW_MS + WINDOW_MS / 8).contains(&life_ms));
    send(&mut region, record(1, (0, 0), (5, 0)), 0);
    assert_eq!(send(&mut region, record(1, (0, 0), (6, 0)), life_ms - 1).current.had, 5);
    assert_eq!(send(&mut region, record(1, (0, 0), (6, 0)), life_ms).current.had, 0);
    region.expire(2 * life_ms);
    assert_eq!(region.cells(), 0);
}

#[test]
fn both_cells_are_recorded_and_answered() {
    let mut region = MemoryRegion::new(1);
    send(&mut region, record(1, (1, 0), (7, 0)), 0);
    let reply = send(&mut region, record(2, (2, 0), (3, 4)), 0);
    let expected = |sum, recorded, components| CellReply { sum, recorded, had: 0, components };
    assert_eq!(reply.current, expected(3, 3, 1));
    assert_eq!(reply.previous, expected(11, 4, 2));
}

#[test]
fn losses_show() {
    let mut region = MemoryRegion::new(1);
    let ask = |region: &mut MemoryRegion, proposal| region.call(&call(vec![], proposal), 0);
    assert_eq!(ask(&mut region, 1).token, Token(1));
    assert_eq!(ask(&mut region, 2).token, Token(1), "a token stays");
    let replica = region.clone();
    send(&mut region, record(1, (0, 0), (5, 0)), 0);
    let server = ask(&mut region, 3).server;
    region.fail_over(Shard(0), &replica);
    assert_ne!(ask(&mut region, 4).server, server, "another server answers");
    assert_eq!(send(&mut region, record(1, (0, 0), (5, 0)), 0).current.had, 0);
    region.evict(cell(1));
    assert_eq!(send(&mut region, record(1, (0, 0), (5, 0)), 0).current.had, 0);
    region.flush(Shard(0));
    assert_eq!((ask(&mut region, 5).token, region.cells()), (Token(5), 0));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// INV-12: whatever the order and repetition, the sum is that of the largest totals.
    #[test]
    fn any_delivery_comes_to_the_same(
        sent in proptest::collection::vec(((0..3_u8, 0..2_u8), 0..100_u64), 1..30),
        again in proptest::collection::vec(0..30_usize, 0..30),
    ) {
        let mut largest = BTreeMap::new();
        for (name, total) in &sent {
            let held = largest.entry(*name).or_insert(0);
            *held = *total.max(held);
        }
        let mut region = MemoryRegion::new(1);
        let repeated = again.iter().filter_map(|at| sent.get(*at));
        for (name, total) in sent.iter().rev().chain(repeated).chain(&sent) {
            let answer = send(&mut region, record(1, *name, (*total, 0)), 0).current;
            prop_assert!(answer.recorded >= *total && answer.sum >= answer.recorded);
        }
        prop_assert_eq!(region.sum(cell(1), 0), largest.values().sum::<u64>());
        let answer = send(&mut region, record(1, (0, 0), (0, 0)), 0).current;
        prop_assert_eq!(answer.recorded, largest.get(&(0, 0)).copied().unwrap_or(0));
    }
}
