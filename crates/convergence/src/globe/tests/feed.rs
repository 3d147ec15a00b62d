//! Reading the feed: what comes late, what is missing, what was deleted.

use super::*;
use crate::global::{Batch, RegionNumber};
use crate::globe::values::OwnWalk;
use crate::pack::{Counter, pack};

/// A row of another region that uses `count` of a subject.
pub(super) fn row(world: &World, subject: u8, count: u64) -> Batch {
    let sequence = world.now.unix_ms() / WINDOW_MS;
    let subject = tidegate_limiter::Digest::from_bytes([subject; 16]);
    let counter = Counter { window_ms: WINDOW_MS, sequence, subject, count };
    let (payload, expires_ms) = pack(vec![counter]).pop().unwrap();
    let (region, nonce) = (RegionNumber(9), count);
    Batch { region, repeats: false, nonce, written_ms: world.now.unix_ms(), expires_ms, payload }
}

#[test]
fn a_row_that_becomes_visible_late_is_read() {
    let mut world = World::new(&[1]);
    let late = world.globe.begin();
    let second = world.globe.begin();
    world.globe.commit(second, row(&world, 2, 5));
    world.run_ms(2_000);
    let counts = world.counts(0);
    assert_eq!((counts.values, counts.gaps, counts.late_rows), (1, 1, 0));
    world.globe.commit(late, row(&world, 1, 5));
    world.run_ms(2_000);
    let counts = world.counts(0);
    assert_eq!((counts.values, counts.gaps, counts.late_rows), (2, 0, 1));
}

/// It became visible while nobody could ask for it.
#[test]
fn who_was_cut_off_asks_for_a_late_row_once_more() {
    let mut world = World::new(&[1]);
    let late = world.globe.begin();
    let second = world.globe.begin();
    world.globe.commit(second, row(&world, 2, 5));
    world.run_ms(2_000);
    world.processes[0].cut_off = true;
    world.globe.commit(late, row(&world, 1, 5));
    world.run_ms(GlobeTuning::default().gap_ms + 5_000);
    assert_eq!(world.counts(0).gaps, 1);
    world.processes[0].cut_off = false;
    world.run_ms(15_000);
    let counts = world.counts(0);
    assert_eq!((counts.values, counts.gaps, counts.gaps_given_up), (2, 0, 0));
    assert_eq!(counts.late_rows, 1);
}

#[test]
fn a_row_that_never_comes_is_given_up() {
    let mut world = World::new(&[1]);
    for _ in 0..40 {
        world.globe.begin();
    }
    let last = world.globe.begin();
    world.globe.commit(last, row(&world, 2, 5));
    world.run_ms(10_000);
    assert_eq!(world.counts(0).gaps, 40);
    let asked: Vec<usize> = world
        .calls
        .iter()
        .filter_map(|call| match call {
            GlobalCall::Import(import) => Some(import.gaps.len()),
            _ => None,
        })
        .collect();
    assert!(asked.iter().all(|gaps| *gaps <= crate::global::GAPS_MAX), "{asked:?}");
    world.run_ms(30_000);
    assert_eq!((world.counts(0).gaps, world.counts(0).gaps_given_up), (0, 40));
}

/// What is live is repeated now and then, the rest is deleted, and a process that starts then has
/// little to read.
#[test]
fn the_feed_stays_short() {
    let tuning = GlobeTuning { repeat_counters_min: 50, repeat_times: 1, ..GlobeTuning::default() };
    let mut world = World::tuned(&[1, 1], tuning);
    let names: Vec<String> = (0..100).map(|n| format!("user-{n}")).collect();
    for name in &names {
        assert!(world.check(1, &request_of(name, (100_000, 2_500), 3_600_000)).admitted());
    }
    // In company it has much to say.
    for _ in 0..60 {
        for name in &names {
            assert!(world.check(0, &request_of(name, (100_000, 1_500), 3_600_000)).admitted());
        }
        world.run_ms(7_000);
    }
    let counts = world.counts(0);
    assert!(counts.repeated >= 100 && counts.trimmed_rows > 0, "{counts:?}");
    let own = |batch: &&Batch| batch.region != world.globe.rows()[&1].region;
    let oldest = world.globe.rows().values().filter(own).map(|batch| batch.written_ms).min();
    let age_ms = world.now.unix_ms() - oldest.unwrap();
    assert!(age_ms < 300_000, "{age_ms} ms of a feed of 420 s: {counts:?}");
    let late = world.add(1, "region-1", tuning);
    world.run_ms(3_000);
    let first = &world.processes[0].globe.values;
    assert_eq!(world.processes[late].globe.values.cells(), first.cells());
    let (own, _) = first.own(&mut OwnWalk::default(), usize::MAX);
    assert!(own.len() >= 100);
    for counter in own {
        let value = &world.processes[late].globe.values;
        let foreign = value.of(counter.window_ms, counter.sequence, counter.subject).foreign;
        assert_eq!(foreign, counter.count);
    }
}

/// Who was away while rows were repeated and deleted reads the repetition.
#[test]
fn who_was_away_for_long_begins_anew() {
    let mut world = World::new(&[1]);
    let old = world.globe.begin();
    world.globe.commit(old, row(&world, 1, 5));
    world.run_ms(2_000);
    world.refuses = Some(|_| Some(GlobalError::Timeout));
    let gone = row(&world, 2, 6);
    world.run_ms(61_000);
    // Written and deleted meanwhile; only the repetition is left.
    world.globe.begin();
    let repetition = world.globe.begin();
    world.globe.commit(repetition, Batch { repeats: true, ..gone });
    world.refuses = None;
    world.run_ms(10_000);
    assert!(world.counts(0).imported >= 2, "{:?}", world.counts(0));
}

#[test]
fn a_row_that_cannot_be_read_is_counted() {
    let mut world = World::new(&[1]);
    let id = world.globe.begin();
    world.globe.commit(id, Batch { payload: vec![99, 1, 2], ..row(&world, 1, 1) });
    let next = world.globe.begin();
    world.globe.commit(next, row(&world, 2, 5));
    world.run_ms(2_000);
    assert_eq!((world.counts(0).rows_unreadable, world.counts(0).values), (1, 1));
}

#[test]
fn what_has_expired_is_not_taken_in() {
    let mut world = World::new(&[1]);
    let batch = row(&world, 1, 5);
    world.run_ms(2 * WINDOW_MS);
    let id = world.globe.begin();
    world.globe.commit(id, batch);
    world.run_ms(2_000);
    assert_eq!((world.counts(0).imported, world.counts(0).values), (1, 0));
}

/// Imports hurry while a shared limit may be used up before the next one.
#[test]
fn imports_hurry_while_it_matters() {
    let mut world = World::new(&[1, 1]);
    let imports = |world: &World| world.counts(0).imports;
    let before = imports(&world);
    world.run_ms(10_000);
    let idle = imports(&world) - before;
    assert!((8..=13).contains(&idle), "{idle}");
    world.spend(1, 1_000, 100);
    world.spend(0, 1_000, 100);
    world.run_ms(3_000);
    let before = imports(&world);
    for _ in 0..20 {
        world.spend(0, 1_000, 20);
        world.run_ms(100);
    }
    let busy = imports(&world) - before;
    assert!(busy >= 5, "{busy} in two seconds");
}

/// Who comes late to every import reads as often as who does not.
#[test]
fn imports_do_not_drift() {
    let mut feed = crate::globe::feed::Feed::new(&GlobeTuning::default());
    let (mut now_ms, late_ms) = (0, 150);
    for _ in 0..100 {
        feed.ask(now_ms, 1_000);
        feed.answered(true, now_ms);
        now_ms = feed.next_ms().unwrap() + late_ms;
    }
    assert_eq!(now_ms, 100_000 + late_ms);
}
