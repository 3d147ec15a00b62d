//! Real threads on a real table.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate_limiter::{Batch, Denial, Options, Seed, Table};

use crate::support::{START_MS, now, request, table};

const THREADS: u32 = 4;

/// Runs `work` on several threads that start together, and adds up what they return.
fn together(work: impl Fn(u32) -> u64 + Sync) -> u64 {
    let barrier = Barrier::new(THREADS as usize);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (work, barrier) = (&work, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    work(thread)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// INV-4: exactly the limit is admitted, and contention alone denies nobody.
#[test]
fn one_hot_subject_admits_exactly_its_limit() {
    let table = table();
    let ask = request("hot", 50_000, 60_000, 1);
    let work = |_| (0..25_000).filter(|_| table.decide(&ask, now(0)).admitted()).count() as u64;
    assert_eq!(together(work), 50_000);
    let counts = table.counts();
    assert_eq!((counts.admitted_local, counts.denied_local), (50_000, 50_000));
    assert_eq!((counts.subjects_created, counts.cells_begun, counts.denied_reserved), (1, 1, 0));
}

#[test]
fn rollovers_under_load_lose_nothing_and_admit_no_more() {
    let table = table();
    let work = |thread: u32| {
        let mut admitted = 0;
        for window in 0..200 {
            // At the end of each window nothing is left of the one before: the limit is whole.
            let now = now(window * 1_000 + 999 - u64::from(thread % 2));
            let ask = request("a", 40, 1_000, 1);
            admitted += (0..20).filter(|_| table.decide(&ask, now).admitted()).count() as u64;
        }
        admitted
    };
    let admitted = together(work);
    assert!(admitted <= 200 * 40, "{admitted} in 200 windows of 40");
    assert!(admitted >= 100 * 40, "{admitted}: the windows were used");
}

/// INV-9, INV-10: batches over the same subjects in different orders, and singles between them.
#[test]
fn batches_and_singles_share_subjects_exactly() {
    let table = table();
    let work = |thread: u32| {
        let (a, b) = (request("a", 9_000, 60_000, 1), request("b", 6_000, 60_000, 1));
        let items = if thread.is_multiple_of(2) { [a, b] } else { [b, a] };
        let mut admitted = 0;
        for round in 0..4_000 {
            if round % 8 == 7 {
                admitted += u64::from(table.decide(&a, now(0)).admitted());
            } else if table.decide_all(&Batch::new(&items).unwrap(), now(0)).admitted() {
                admitted += 1 << 32;
            }
        }
        admitted
    };
    let admitted = together(work);
    let (batches, singles) = (admitted >> 32, admitted & 0xffff_ffff);
    assert_eq!(batches, 6_000, "until the second subject is exhausted");
    assert_eq!(singles, 2_000, "the first has room for all");
    assert_eq!(table.decide(&request("a", 9_000, 60_000, 0), now(0)).remaining(), 1_000);
    let exhausted = table.decide(&request("b", 6_000, 60_000, 1), now(0));
    assert_eq!(exhausted.denial(), Some(Denial::Limit), "nothing stays reserved");
}

/// A look-up finds who is there, also while a flood moves everything in the index.
#[test]
fn a_cell_is_found_while_others_come_and_go() {
    let options = Options::default().with_budget_bytes(64 << 10);
    let table = Table::new(options, Seed::from_bytes([4; 32]));
    let hot: Vec<_> = (0..40).map(|n| format!("hot-{n}")).collect();
    for name in &hot {
        assert!(table.decide(&request(name, 10, 60_000, 9), now(0)).admitted());
    }
    let stop = AtomicBool::new(false);
    let flood = || {
        for name in (0_u64..).map(|n| format!("flood-{n}")) {
            let _ = table.decide(&request(&name, 1_000, 60_000, 1), now(0));
            if stop.load(Ordering::Relaxed) {
                break;
            }
        }
    };
    let sequence = START_MS / 60_000;
    let find = |name| table.cell(request(name, 1, 60_000, 1).subject(), sequence).is_some();
    let found = std::thread::scope(|scope| {
        scope.spawn(flood);
        let found = (0..10_000).all(|_| hot.iter().all(|name| find(name)));
        stop.store(true, Ordering::Relaxed);
        found
    });
    assert!(found, "none of them ever left");
}
