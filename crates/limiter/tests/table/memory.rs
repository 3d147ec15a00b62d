//! A hard budget (INV-32), shared fairly between workspaces (INV-35).

use tidegate_limiter::{Cost, Denial, Limit, Now, Options, Request, Seed, Table};

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
            assert!(table.accounted_bytes() <= BUDGET || *n % 64 != 0, "INV-32");
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
        assert!(table.accounted_bytes() <= budget.max(2 << 10), "{budget}");
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
    let before = table.subjects();
    // All of the first have expired; the second flood needs no live victim.
    assert_eq!(flood(&table, "b", before, (1, 1), now(300_000)), 0);
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
    let many = 5_000;
    let refused = flood(&table, "a", many, (1, 1), now(0));
    assert_eq!(refused, many - table.subjects(), "each is above half of its limit of 1");
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
    // Even if nothing of the flood can be evicted, the quiet workspace gets its share.
    flood(&table, "noisy", 20_000, (1, 1), now(0));
    spend(7);
}

#[test]
fn a_small_workspace_gets_room_from_those_above_their_share() {
    let table = small_table();
    flood(&table, "large", 5_000, (1_000, 1), now(0));
    let full = table.subjects();
    assert_eq!(flood(&table, "small", full / 4, (1, 1), now(0)), 0, "none is refused");
    assert_eq!(table.subjects(), full);
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
    // One is clean now, and only one more comes in.
    assert_eq!(flood(&table, "b", 5_000, (1_000, 1), now(0)), 4_999);
    let cell = table.cell(ask("a", "flood-0", 1, 1).subject(), sequence);
    assert!(cell.is_none(), "the clean one made room");
    let names: Vec<_> = (0..5_000).map(|n| format!("flood-{n}")).collect();
    let mut seated =
        names.iter().filter_map(|name| table.cell(ask("b", name, 1, 1).subject(), sequence));
    assert!(seated.next().unwrap().life() > life, "whoever comes later is a new component");
}
