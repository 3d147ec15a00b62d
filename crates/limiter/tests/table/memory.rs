//! A hard budget (INV-32), shared fairly between workspaces (INV-35).

use tidegate_limiter::{Batch, Cost, Denial, Limit, Now, Options, Request, Seed, Table};

use crate::support::{now, subject};

const BUDGET: usize = 256 << 10;

fn small_table() -> Table {
    Table::new(Options::default().with_budget_bytes(BUDGET), Seed::from_bytes([9; 32]))
}

fn ask<'a>(workspace: &'a str, identifier: &'a str, limit: u64, cost: u64) -> Request<'a> {
    let subject = subject(workspace, identifier, 60_000);
    Request::new(subject, Limit::new(limit), Cost::new(cost).unwrap())
}

/// One request for each of many identifiers; returns how many were denied for memory.
fn flood(
    table: &Table,
    workspace: &str,
    many: usize,
    (limit, cost): (u64, u64),
    now: Now,
) -> usize {
    (0..many)
        .filter(|n| {
            let name = format!("flood-{n}");
            let answer = table.decide(&ask(workspace, &name, limit, cost), now);
            assert!(table.accounted_bytes() <= BUDGET, "INV-32");
            answer.denial() == Some(Denial::Memory)
        })
        .count()
}

#[test]
fn the_budget_is_hard() {
    for budget in [1, 4 << 10, 64 << 10, 1 << 20, 10 << 20] {
        let options = Options::default().with_budget_bytes(budget);
        let subjects_max = options.subjects_max();
        let table = Table::new(options, Seed::from_bytes([1; 32]));
        for n in 0..2 * subjects_max.min(20_000) {
            let name = format!("id-{n}");
            let _ = table.decide(&ask("w", &name, 1_000, 1), now(0));
        }
        assert!(table.subjects() <= subjects_max && subjects_max >= 1);
        // A budget too small for one subject holds one all the same.
        assert!(table.accounted_bytes() <= budget.max(size_of::<Table>() + (2 << 10)), "{budget}");
    }
}

#[test]
fn every_workspace_of_its_own_still_fits() {
    let table = small_table();
    for n in 0..2_000 {
        let name = format!("workspace-{n}");
        let _ = table.decide(&ask(&name, "id", 1_000, 1), now(0));
        assert!(table.accounted_bytes() <= BUDGET, "INV-32");
    }
}

#[test]
fn expired_subjects_make_room_first() {
    let table = small_table();
    flood(&table, "a", 5_000, (1, 1), now(0));
    let half = table.subjects() / 2;
    // All of the first have expired; the second flood needs no live victim.
    assert_eq!(flood(&table, "b", half, (1, 1), now(300_000)), 0);
    let counts = table.counts();
    assert_eq!(counts.subjects_evicted, 0);
    assert!(counts.subjects_expired > 0);
}

#[test]
fn a_flood_cannot_push_out_a_subject_above_half_of_its_limit() {
    let table = small_table();
    let hot = ask("a", "hot", 10, 1);
    (0..6).for_each(|_| assert!(table.decide(&hot, now(0)).admitted()));
    flood(&table, "a", 20_000, (1_000, 1), now(1));
    assert!(table.counts().subjects_evicted > 10_000, "the flood did push others out");
    assert_eq!(table.decide(&hot, now(1)).remaining(), 3, "what it had spent is still known");
}

/// Closing the gaps that evictions leave in the index loses nobody.
#[test]
fn whoever_stays_is_still_found() {
    let table = small_table();
    // Full before they come, so that they probe past others who leave later.
    flood(&table, "a", 5_000, (1_000, 1), now(0));
    let names: Vec<_> = (0..200).map(|n| format!("exhausted-{n}")).collect();
    let spend = |name: &String| table.decide(&ask("a", name, 1, 1), now(0)).denial();
    assert!(names.iter().all(|name| spend(name).is_none()));
    flood(&table, "a", 5_000, (1_000, 1), now(0));
    assert!(names.iter().all(|name| spend(name) == Some(Denial::Limit)));
    let counts = table.counts();
    let gone = counts.subjects_evicted + counts.subjects_expired;
    assert_eq!(counts.subjects_created - gone, table.subjects() as u64);
}

#[test]
fn a_flood_of_exhausted_subjects_is_refused_and_says_so() {
    let table = small_table();
    assert!(table.decide(&ask("b", "a neighbour", 10, 1), now(0)).admitted());
    let many = 5_000;
    let refused = flood(&table, "a", many, (1, 1), now(0));
    let admitted = table.subjects() - 1;
    assert_eq!(refused, many - admitted, "each is above half of its limit of 1");
    let answer = table.decide(&ask("a", "one more", 1, 1), now(0));
    assert_eq!(answer.denial(), Some(Denial::Memory));
    assert_eq!((answer.remaining(), answer.retry_after_ms()), (0, Some(60_000)));
    assert_eq!(table.counts().denied_memory, refused as u64 + 1);
    // Nothing of it was spent: known subjects go on as before.
    assert_eq!(table.decide(&ask("a", "flood-0", 2, 1), now(0)).remaining(), 0);
}

/// INV-35: what one workspace does to its memory, the others do not notice.
#[test]
fn a_flood_concerns_its_own_workspace_only() {
    let table = small_table();
    let names: Vec<_> = (0..100).map(|n| format!("user-{n}")).collect();
    let spend = |remaining| {
        for name in &names {
            let answer = table.decide(&ask("quiet", name, 10, 1), now(0));
            assert_eq!((answer.denial(), answer.remaining()), (None, remaining));
        }
    };
    spend(9);
    flood(&table, "noisy", 20_000, (1_000, 1), now(0));
    spend(8);
    flood(&table, "noisy", 20_000, (1, 1), now(0));
    spend(7);
}

/// Who exhausts every limit fills the memory with subjects that a flood must not push out. Others
/// are not part of the flood.
#[test]
fn a_quiet_workspace_is_not_refused_for_a_loud_one() {
    for exhausted in [1, 2] {
        let table = small_table();
        let max = Options::default().with_budget_bytes(BUDGET).subjects_max();
        for n in 0..2 * max {
            let (name, limit) = (format!("loud-{n}"), if n % exhausted == 0 { 1 } else { 1_000 });
            let _ = table.decide(&ask("loud", &name, limit, 1), now(0));
        }
        let names: Vec<_> = (0..max / 4).map(|n| format!("quiet-{n}")).collect();
        for name in &names {
            assert_eq!(table.decide(&ask("quiet", name, 10, 1), now(0)).denial(), None, "{name}");
        }
    }
}

/// The items of a batch do not push each other out.
#[test]
fn a_batch_of_newcomers_finds_room_for_all() {
    let sizes = (1..).map(|size| Options::default().with_budget_bytes(size << 9));
    let options = sizes.into_iter().find(|options| options.subjects_max() >= 30).unwrap();
    let full = options.subjects_max();
    let table = Table::new(options, Seed::from_bytes([4; 32]));
    for n in 0..full {
        let name = format!("first-{n}");
        assert!(table.decide(&ask("w", &name, 100, 10), now(0)).admitted());
    }
    let items = [ask("w", "x", 10, 1), ask("w", "y", 10, 1)];
    assert!(table.decide_all(&Batch::new(&items).unwrap(), now(0)).admitted());
}

/// The smaller of two limits protects for as long as what was spent under it weighs.
#[test]
fn a_larger_limit_does_not_end_the_protection_of_a_smaller_one() {
    let table = small_table();
    assert!(table.decide(&ask("a", "hot", 10, 10), now(0)).admitted());
    assert!(table.decide(&ask("a", "hot", 100_000, 1), now(60_000)).admitted());
    flood(&table, "a", 20_000, (1_000, 10), now(60_000));
    assert!(!table.decide(&ask("a", "hot", 10, 1), now(60_000)).admitted(), "all ten still weigh");
}

#[test]
fn a_small_workspace_gets_room_from_those_above_their_share() {
    let table = small_table();
    flood(&table, "large", 5_000, (1_000, 1), now(0));
    let full = table.subjects();
    assert_eq!(flood(&table, "small", full / 4, (1, 1), now(0)), 0, "none is refused");
    let max = Options::default().with_budget_bytes(BUDGET).subjects_max();
    assert!((full..=max).contains(&table.subjects()));
}

/// With a regional store, what it has not recorded yet is never evicted.
#[test]
fn a_dirty_subject_is_kept() {
    let options = Options::default().with_budget_bytes(BUDGET).with_region();
    let table = Table::new(options, Seed::from_bytes([9; 32]));
    let refused = flood(&table, "a", 5_000, (1_000, 1), now(0));
    assert_eq!(refused, 5_000 - table.subjects(), "all are dirty");
    let sequence = now(0).unix_ms() / 60_000;
    let cell = table.cell(ask("a", "flood-0", 1, 1).subject(), sequence).unwrap();
    let life = cell.life();
    assert!(cell.acknowledge(1));
    // The last sixteenth is for others. Beyond that, one is clean now: one more comes in.
    let last = Options::default().with_budget_bytes(BUDGET).subjects_max() / 16;
    assert_eq!(flood(&table, "b", 5_000, (1_000, 1), now(0)), 5_000 - last - 1);
    let cell = table.cell(ask("a", "flood-0", 1, 1).subject(), sequence);
    assert!(cell.is_none(), "the clean one made room");
    let names: Vec<_> = (0..5_000).map(|n| format!("flood-{n}")).collect();
    let seated =
        names.iter().filter_map(|name| table.cell(ask("b", name, 1, 1).subject(), sequence));
    assert!(seated.last().unwrap().life() > life, "whoever comes later is a new component");
}

/// Half of the limit in each cell is all of it in the sliding window.
#[test]
fn a_flood_cannot_push_out_who_is_above_half_in_both_cells_together() {
    let table = small_table();
    for after_ms in [0, 60_000] {
        assert!(table.decide(&ask("a", "hot", 20, 10), now(after_ms)).admitted());
    }
    flood(&table, "a", 20_000, (2, 1), now(60_000));
    assert!(table.counts().subjects_evicted > 10_000, "the flood did push others out");
    assert!(!table.decide(&ask("a", "hot", 20, 1), now(60_000)).admitted(), "20 of 20 are used");
}

/// A denial shows that a limit is exhausted, even one that nothing was admitted under.
#[test]
fn a_flood_cannot_push_out_who_was_just_denied() {
    let table = small_table();
    for (limit, cost) in [(1_000_000, 1), (10, 4), (1_000_000, 100)] {
        assert!(table.decide(&ask("a", "hot", limit, cost), now(0)).admitted());
    }
    assert!(!table.decide(&ask("a", "hot", 10, 1), now(0)).admitted(), "105 of 10");
    flood(&table, "a", 20_000, (1_000, 1), now(0));
    assert!(!table.decide(&ask("a", "hot", 10, 1), now(0)).admitted(), "105 of 10");
}

fn table_for(subjects: usize) -> (Table, usize) {
    let sizes = (1..).map(|size| Options::default().with_budget_bytes(size << 8));
    let options = sizes.into_iter().find(|options| options.subjects_max() >= subjects).unwrap();
    let max = options.subjects_max();
    (Table::new(options, Seed::from_bytes([4; 32])), max)
}

/// A newcomer does not push out a subject that comes later in the same batch.
#[test]
fn a_batch_pushes_out_none_of_its_items() {
    let (table, max) = table_for(2);
    assert_eq!(max, 2);
    for (name, cost) in [("x", 3), ("y", 4)] {
        assert!(table.decide(&ask("w", name, 10, cost), now(0)).admitted());
    }
    let items = [ask("w", "new", 10, 1), ask("w", "x", 10, 1)];
    let answer = table.decide_all(&Batch::new(&items).unwrap(), now(0));
    assert!(answer.admitted());
    assert_eq!(answer.items()[1].remaining(), 6, "three were spent before, one now");
}

/// There is memory for a subject, or there is none: a batch does not say both, wherever the search
/// for one that has expired goes on.
#[test]
fn a_batch_refuses_a_subject_as_a_whole() {
    let mut refused = 0;
    for expired in 0..100 {
        let (table, max) = table_for(100);
        for n in 0..max {
            let window_ms = if n == expired { 1_000 } else { 60_000 };
            let name = format!("s-{n}");
            let subject = subject("w", &name, window_ms);
            let _ = table.decide(&Request::new(subject, Limit::new(1), Cost::ONE), now(0));
        }
        let twice = [ask("w", "new", 9, 1), ask("w", "new", 9, 1)];
        let answer = table.decide_all(&Batch::new(&twice).unwrap(), now(10_000));
        let said: Vec<_> = answer.items().iter().map(|item| item.denial()).collect();
        assert_eq!(said[0], said[1], "{expired}");
        refused += u32::from(said[0] == Some(Denial::Memory));
    }
    assert!((10..90).contains(&refused), "{refused} show nothing");
}

/// What a million subjects cost: the tables of a fleet are sized by it.
#[test]
fn a_million_subjects_take_320_bytes_each() {
    let options = Options::default().with_budget_bytes(400 << 20);
    assert!(options.subjects_max() >= 1_000_000);
    let table = Table::new(options, Seed::from_bytes([1; 32]));
    for n in 0..1_000_000 {
        let name = format!("id-{n}");
        assert!(table.decide(&ask("w", &name, 1_000, 1), now(0)).admitted());
    }
    let bytes = table.accounted_bytes();
    assert!(bytes <= 320_000_000, "{bytes} for {} subjects", table.subjects());
}
