//! Rollover and clocks that misbehave: a budget comes back with time that passed, and
//! with nothing else.

use crate::support::{START_MS, request, table};
use tidegate_limiter::{Now, Table};

const WINDOW_MS: u64 = 1_000;
const LIMIT: u64 = 10;

/// Wall and monotonic clock, each `ms` after the start.
fn clocks(wall_ms: i64, monotonic_ms: u64) -> Now {
    Now::new(START_MS.checked_add_signed(wall_ms).unwrap(), 10_000_000 + monotonic_ms)
}

fn admitted(table: &Table, now: Now, tries: u64) -> u64 {
    let admit = |_: &u64| table.decide(&request("a", LIMIT, WINDOW_MS, 1), now).admitted();
    (0..tries).filter(admit).count() as u64
}

fn exhausted_table() -> Table {
    let table = table();
    assert_eq!(admitted(&table, clocks(500, 500), 20), LIMIT);
    table
}

#[test]
fn a_clock_that_steps_back_regains_nothing() {
    for step_ms in [-1, -400, -1_000, -1_500, -2_000, -5_000, -60_000, -3_600_000, -86_400_000] {
        let table = exhausted_table();
        assert_eq!(admitted(&table, clocks(500 + step_ms, 501), 20), 0, "step {step_ms}");
        // Back again, no time has passed.
        assert_eq!(admitted(&table, clocks(500, 502), 20), 0, "back from {step_ms}");
    }
}

#[test]
fn a_clock_that_jumps_ahead_regains_nothing() {
    for step_ms in [2_000, 5_000, 3_600_000, 86_400_000] {
        let table = exhausted_table();
        assert_eq!(admitted(&table, clocks(500 + step_ms, 501), 20), 0, "step {step_ms}");
        assert_eq!(admitted(&table, clocks(500, 502), 20), 0, "back from {step_ms}");
    }
}

/// Wherever in a window it lands: what was spent just before does not fade by a jump.
#[test]
fn a_jump_that_lands_late_in_a_window_regains_nothing() {
    for step_ms in [-86_400_000, -5_000, 3_600_000, 86_400_000] {
        let table = table();
        assert_eq!(admitted(&table, clocks(900, 900), 20), LIMIT);
        assert_eq!(admitted(&table, clocks(1_000, 1_000), 20), 0);
        let late = clocks(1_000 + step_ms + 999, 1_001);
        assert_eq!(admitted(&table, late, 20), 0, "step {step_ms}");
    }
}

#[test]
fn a_clock_that_once_jumped_a_day_does_not_deny_for_a_day() {
    for step_ms in [86_400_000, -86_400_000] {
        let table = exhausted_table();
        assert_eq!(admitted(&table, clocks(500 + step_ms, 501), 1), 0);
        assert_eq!(admitted(&table, clocks(502, 502), 1), 0);
        // Three windows of real time later everything has expired.
        assert_eq!(admitted(&table, clocks(3_600, 3_600), 20), LIMIT);
    }
}

#[test]
fn a_late_request_is_decided_in_the_newest_cell() {
    let table = table();
    assert_eq!(admitted(&table, clocks(1_100, 1_100), 4), 4);
    // The readings are from before the boundary, the decisions come after it.
    assert_eq!(admitted(&table, clocks(900, 900), 20), LIMIT - 4);
    assert_eq!(admitted(&table, clocks(-1_500, 10), 20), 0, "two windows late");
    let answer = table.decide(&request("a", LIMIT, WINDOW_MS, 0), clocks(1_100, 1_100));
    assert_eq!(answer.remaining(), 0, "no increment is lost");
    assert_eq!(answer.reset_unix_ms(), START_MS + 2_000);
}

#[test]
fn an_idle_subject_starts_from_nothing() {
    for idle_ms in [2_000, 2_500, 10_000, 9_000_000] {
        let table = exhausted_table();
        assert_eq!(
            admitted(&table, clocks(500 + idle_ms, 500 + idle_ms.unsigned_abs()), 20),
            LIMIT
        );
    }
}

/// Turn numbers come again after 8,184 turns; nothing old may be met then.
#[test]
fn turns_come_round_without_leftovers() {
    let table = table();
    for sequence in 0..20_000 {
        let now = clocks(sequence * 1_000 + 990, sequence.unsigned_abs() * 1_000 + 990);
        let ask = request("a", LIMIT, WINDOW_MS, 5);
        let answer = table.decide(&ask, now);
        assert!(answer.admitted(), "in window {sequence}");
        // All but nothing of the previous 5 has faded: floor(5 · 10 / 1000) is 0.
        assert_eq!(answer.remaining(), 5, "in window {sequence}");
        if sequence % 3 == 0 {
            let cell = table.cell(ask.subject(), now.unix_ms() / WINDOW_MS).unwrap();
            assert!(cell.observe_region(7, 5) && cell.acknowledge(5) && cell.observe_foreign(2));
            assert_eq!((cell.peers(), cell.foreign(), cell.acked()), (2, 2, 5));
        }
    }
}

#[test]
fn verbs_that_come_too_late_change_nothing() {
    let table = table();
    let ask = request("a", LIMIT, WINDOW_MS, 1);
    assert!(table.decide(&ask, clocks(0, 0)).admitted());
    let sequence = START_MS / WINDOW_MS;
    let cell = table.cell(ask.subject(), sequence).unwrap();
    assert!(table.decide(&ask, clocks(1_000, 1_000)).admitted());
    assert!(cell.observe_foreign(3), "the previous cell is still merged");
    assert_eq!(cell.foreign(), 3);
    assert!(table.decide(&ask, clocks(2_000, 2_000)).admitted());
    assert!(!cell.observe_foreign(9) && !cell.acknowledge(1) && !cell.observe_region(9, 1));
    assert!(table.cell(ask.subject(), sequence).is_none());
    let answer = table.decide(&ask, clocks(2_999, 2_999));
    assert_eq!(answer.remaining(), LIMIT - 2);
}

/// A ledger that goes from subject to subject meets its turn numbers again within milliseconds.
#[test]
fn a_handle_kept_across_reuses_changes_nobody_else() {
    let options = tidegate_limiter::Options::default().with_budget_bytes(1);
    let table = Table::new(options, tidegate_limiter::Seed::from_bytes([4; 32]));
    let victim = request("victim", 1_000, WINDOW_MS, 1);
    assert!(table.decide(&victim, clocks(0, 0)).admitted());
    let handle = table.cell(victim.subject(), START_MS / WINDOW_MS).unwrap();
    let names: Vec<_> = (0..4_100).map(|n| format!("newcomer-{n}")).collect();
    for (number, name) in names.iter().enumerate() {
        assert!(table.decide(&request(name, 1_000, WINDOW_MS, 1), clocks(0, 0)).admitted());
        // A newcomer is two turns on, and there are somewhat fewer than 8,200: the turn of the
        // handle comes again here.
        if number < 4_050 {
            continue;
        }
        assert!(!handle.observe_region(900, 0));
        assert_eq!(handle.mine(), 0, "what is read of a cell that is gone");
        let again = request(name, 1_000, WINDOW_MS, 0);
        assert_eq!(table.decide(&again, clocks(0, 0)).remaining(), 999);
    }
}

/// Jumps of one window each, without any time: the first is believed, the others are not.
#[test]
fn small_jumps_one_after_another_make_room_once() {
    let table = exhausted_table();
    assert_eq!(admitted(&table, clocks(1_500, 500), 20), LIMIT / 2, "half of ten has faded");
    let more = (2..=9).map(|n| admitted(&table, clocks(500 + n * 1_000, 500), 20)).sum::<u64>();
    assert_eq!(more, 0, "no time has passed");
}

/// A clock one window behind is decided where the subject stands, and that cell's time begins when
/// its window can have begun: a jump ahead of more afterwards makes no room.
#[test]
fn a_jump_ahead_after_a_step_back_regains_nothing() {
    let table = table();
    assert_eq!(admitted(&table, clocks(0, 0), 1), 1);
    assert_eq!(admitted(&table, clocks(940, 940), 20), LIMIT - 1);
    assert_eq!(admitted(&table, clocks(-59, 941), 20), 0, "a step back of one window");
    assert_eq!(admitted(&table, clocks(2_941, 942), 20), 0, "three windows ahead, 1 ms later");
}

#[test]
fn what_is_spent_one_window_behind_does_not_fade_by_a_jump() {
    let table = table();
    let ask = |cost| request("a", 1, 3_000, cost);
    assert!(table.decide(&ask(0), clocks(9_991, 991)).admitted());
    // Back by three windows; nothing is asked for five seconds.
    assert!(table.decide(&ask(1), clocks(6_000, 6_000)).admitted());
    assert!(!table.decide(&ask(1), clocks(15_000, 6_000)).admitted(), "spent a moment ago");
}

/// Three windows of real time are enough, however far the wall clock jumped meanwhile.
#[test]
fn what_expired_long_ago_does_not_count_after_a_jump() {
    for step_ms in [3_600_000, -3_600_000, 2_000, -2_000] {
        let table = exhausted_table();
        assert_eq!(admitted(&table, clocks(50_500 + step_ms, 50_500), 20), LIMIT, "{step_ms}");
    }
}

fn swept(table: &Table, now: Now) -> usize {
    (0..64).map(|_| table.sweep(now)).sum()
}

/// What the wall clock still counts is not expired, however long it has counted it.
#[test]
fn a_sweep_after_a_step_back_forgets_nothing() {
    let table = table();
    assert_eq!(admitted(&table, clocks(0, 0), 1), 1);
    // The clock steps back by two windows: the cell lasts for almost three.
    let behind = |ms: u64| clocks(ms.cast_signed() - 1_989, ms);
    assert_eq!(admitted(&table, behind(991), 20), LIMIT - 1);
    assert!(table.decide(&request("a", 20, WINDOW_MS, 10), behind(2_980)).admitted());
    assert_eq!(swept(&table, behind(3_000)), 0);
    let room = table.decide(&request("a", 20, WINDOW_MS, 0), behind(3_001)).remaining();
    assert!(room <= 1, "{room} of 20 are free 21 ms after ten were spent");
}

#[test]
fn a_sweep_forgets_nothing_that_was_just_spent() {
    let table = table();
    // The clock is three windows ahead, and put right. Three windows later it reads the same.
    assert_eq!(admitted(&table, clocks(3_000, 0), 1), 1);
    assert_eq!(admitted(&table, clocks(3_000, 3_000), 20), LIMIT - 1);
    assert_eq!(swept(&table, clocks(3_000, 3_000)), 0, "it is in use");
    assert_eq!(admitted(&table, clocks(3_000, 3_000), 20), 0, "spent a moment ago");
    assert_eq!(swept(&table, clocks(6_000, 6_000)), 1, "now it is not");
}

/// A cell that a jump gave another name has to be told to the region anew, and what the region said
/// of the old name is not about it.
#[test]
fn a_renamed_cell_is_told_anew() {
    let options = tidegate_limiter::Options::default().with_budget_bytes(8 << 20).with_region();
    let table = Table::new(options, tidegate_limiter::Seed::from_bytes([4; 32]));
    let ask = request("a", LIMIT, WINDOW_MS, 9);
    assert!(table.decide(&ask, clocks(500, 500)).admitted());
    let mut noted = vec![];
    table.take_noted(&mut noted);
    let old = table.cells(noted[0]).unwrap().current;
    let ticket = old.ticket(noted[0]);
    assert!(old.acknowledge(9) && old.observe_region(9, 9));
    assert!(old.mark_fresh_until_ms(u64::MAX >> 14) && old.mute_replay());
    // The wall clock steps back an hour.
    let now = clocks(500 - 3_600_000, 501);
    assert_eq!(admitted(&table, now, 20), 1);
    assert!(table.cell(ask.subject(), START_MS / WINDOW_MS).is_none(), "the old name is gone");
    let new = table.cell(ask.subject(), now.unix_ms() / WINDOW_MS + 1).unwrap();
    assert_eq!((new.mine(), new.claimed()), (10, 10));
    assert_eq!((new.acked(), new.confirmed()), (0, 0));
    assert_eq!(new.fresh_until_ms(), 0);
    // Replies to what was said of the old name arrive now.
    assert!(!old.observe_region(99, 9) && !old.acknowledge(9) && old.mine() == 0);
    assert!(table.cell_of(ticket).is_none());
    assert_eq!((new.acked(), new.confirmed(), new.peers()), (0, 0, 0));
    noted.clear();
    table.take_noted(&mut noted);
    assert_eq!(noted, [ticket.subject], "the admission asks for a replay");
}
