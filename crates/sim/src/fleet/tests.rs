use std::collections::BTreeMap;

use tidegate_limiter::{Now, Options, Seed, Table};

use super::*;

/// The start of a minute.
const START_MS: u64 = 1_700_000_040_000;
const NAMES: [&str; 4] = ["ann", "bob", "cid", "dee"];

/// A call: when, in which region, and what it asks.
type Coming = (u64, Option<usize>, Vec<FleetCheck<'static>>);

fn check(name: &'static str, limit: u64) -> FleetCheck<'static> {
    FleetCheck { namespace: "n", name, window_ms: 60_000, limit, cost: 1 }
}

fn options() -> FleetOptions {
    FleetOptions { start_unix_ms: START_MS, table_bytes: 1 << 22, ..FleetOptions::default() }
}

/// Calls for some subjects, singles and batches, so many milliseconds apart or a little more.
fn calls(seed: u64, count: u64, gap_ms: u64) -> Vec<Coming> {
    let mut chance = Chance::new(seed, "calls");
    let mut at_ms = START_MS;
    let one = |chance: &mut Chance| {
        let name = chance.of(&NAMES).unwrap();
        let cost = chance.between(1, 3);
        FleetCheck { cost, window_ms: 10_000, ..check(name, 20) }
    };
    let call = |_| {
        at_ms += gap_ms + chance.below(gap_ms);
        let items = if chance.percent(20) { chance.between(2, 3) } else { 1 };
        (at_ms, None, (0..items).map(|_| one(&mut chance)).collect())
    };
    (0..count).map(call).collect()
}

/// The answers, by the number of their call.
fn run(fleet: &mut Fleet, calls: &[Coming]) -> BTreeMap<u64, Settled> {
    for (number, (at_ms, region, checks)) in calls.iter().enumerate() {
        fleet.call(number as u64, (*at_ms, *region), checks).unwrap();
    }
    fleet.finish();
    let mut settled = Vec::new();
    fleet.take_settled(&mut settled);
    assert_eq!(settled.len(), calls.len(), "every call is answered, and once");
    settled.into_iter().map(|one| (one.number, one)).collect()
}

fn admitted(settled: &BTreeMap<u64, Settled>) -> u64 {
    settled.values().map(|one| u64::from(one.admitted)).sum()
}

#[test]
fn the_same_calls_are_answered_the_same_every_time() {
    let troubles = vec![
        Trouble {
            kind: TroubleKind::StoreAway { region: 1 },
            from_us: 5_000_000,
            for_us: 3_000_000,
        },
        Trouble {
            kind: TroubleKind::Kill { region: 0, node: 1 },
            from_us: 9_000_000,
            for_us: 2_000_000,
        },
    ];
    let options = FleetOptions { regions: 2, nodes: 3, troubles, ..options() };
    let calls = calls(3, 4_000, 4);
    let once = run(&mut Fleet::new(options.clone()), &calls);
    assert_eq!(once, run(&mut Fleet::new(options.clone()), &calls));
    assert_ne!(once, run(&mut Fleet::new(FleetOptions { seed: 2, ..options }), &calls));
}

#[test]
fn one_process_decides_as_a_table_does() {
    for consistency in [Consistency::Fast, Consistency::Bounded] {
        let calls = calls(4, 5_000, 10);
        let mut fleet = Fleet::new(FleetOptions { nodes: 1, consistency, ..options() });
        let settled = run(&mut fleet, &calls);
        let table = Table::new(Options::default(), Seed::from_bytes([1; 32]));
        for (number, (at_ms, _, checks)) in calls.iter().enumerate() {
            let requests = caller::requests(checks, Consistency::Fast).unwrap();
            let now = Now::new(*at_ms, at_ms - START_MS + 1_000_000);
            let given = match requests.as_slice() {
                [one] => caller::Given::from(&table.decide(one, now)),
                all => {
                    let batch = tidegate_limiter::Batch::new(all).unwrap();
                    caller::Given::from(&table.decide_all(&batch, now))
                }
            };
            let said = settled[&(number as u64)];
            assert_eq!((said.admitted, said.full), (given.admitted, given.full), "call {number}");
            assert!(!said.degraded);
        }
    }
}

/// So many calls in a moment, a second into the window.
fn burst(count: u64, limit: u64, regions: usize) -> Vec<Coming> {
    let call = |number: u64| {
        let region = usize::try_from(number).unwrap() % regions;
        (START_MS + 1_000 + number / 8, Some(region), vec![check("ann", limit)])
    };
    (0..count).map(call).collect()
}

#[test]
fn a_burst_stays_within_an_eighth_if_it_is_bounded_and_goes_over_if_it_is_fast() {
    let admitted_by = |consistency| {
        let worst = (1..=20).map(|seed| {
            let mut fleet = Fleet::new(FleetOptions { nodes: 5, consistency, seed, ..options() });
            admitted(&run(&mut fleet, &burst(400, 100, 1)))
        });
        worst.max().unwrap()
    };
    let (bounded, fast) = (admitted_by(Consistency::Bounded), admitted_by(Consistency::Fast));
    assert!((100..=112).contains(&bounded), "{bounded}");
    assert!((bounded..=400).contains(&fast), "{fast}");
}

#[test]
fn a_store_that_is_away_degrades_and_loses_nothing() {
    let kind = TroubleKind::StoreAway { region: 0 };
    let trouble = Trouble { kind, from_us: 2_000_000, for_us: 5_000_000 };
    let mut fleet = Fleet::new(FleetOptions { troubles: vec![trouble], ..options() });
    let calls: Vec<Coming> = (0..1_000)
        .map(|number| (START_MS + number * 10, None, vec![check("ann", 5_000)]))
        .collect();
    let settled = run(&mut fleet, &calls);
    let (away, there): (Vec<&Settled>, Vec<&Settled>) =
        settled.values().partition(|one| (200..700).contains(&one.number));
    assert!(away.iter().any(|one| one.degraded && one.admitted));
    assert!(there.iter().filter(|one| one.number < 200).all(|one| !one.degraded));
    assert!(settled.values().all(|one| one.waited_us <= 20_000), "nobody waits for longer");
    fleet.pass_until(fleet.net.now_us + 5_000_000);
    assert_eq!(fleet.recorded(), [admitted(&settled)], "all of it is recorded in the end");
}

#[test]
fn a_slow_store_is_waited_for_and_a_dead_fleet_denies_nobody() {
    let slow = TroubleKind::StoreSlow { region: 0, by_us: 15_000 };
    let kill = |node| TroubleKind::Kill { region: 0, node };
    let troubles = vec![
        Trouble { kind: slow, from_us: 0, for_us: 4_000_000 },
        Trouble { kind: kill(0), from_us: 5_000_000, for_us: 2_000_000 },
        Trouble { kind: kill(1), from_us: 5_000_000, for_us: 2_000_000 },
    ];
    let mut fleet = Fleet::new(FleetOptions { troubles, ..options() });
    let calls: Vec<Coming> =
        (0..900).map(|number| (START_MS + number * 10, None, vec![check("ann", 50)])).collect();
    let settled = run(&mut fleet, &calls);
    let longest_us = settled.values().map(|one| one.waited_us).max().unwrap();
    assert!(longest_us > 6_000, "longer than two ways: {longest_us}");
    assert!(settled.range(501..700).all(|(_, one)| one.admitted && one.degraded));
    assert!(settled.range(710..).all(|(_, one)| !one.admitted), "the store remembered");
}

#[test]
fn what_one_region_admits_the_other_hears_of_unless_it_is_cut_off() {
    // The first region uses the limit up, then somebody asks in the other.
    let mut calls: Vec<Coming> =
        (0..60).map(|number| (START_MS + number * 50, Some(0), vec![check("ann", 60)])).collect();
    calls.extend(
        (0..60).map(|number| (START_MS + 13_000 + number * 100, Some(1), vec![check("ann", 60)])),
    );
    let admitted_with = |troubles| {
        let mut fleet = Fleet::new(FleetOptions { regions: 2, troubles, ..options() });
        let settled = run(&mut fleet, &calls);
        assert!(settled.range(..60).all(|(_, one)| one.admitted));
        (admitted(&settled), fleet.work())
    };
    let (healthy, work) = admitted_with(Vec::new());
    assert!(healthy <= 60 + 15, "a quarter at most is hidden: {healthy}");
    assert!(work.rows_written > 0 && work.rows_read > 0 && work.statements > work.rows_written);
    let kind = TroubleKind::CutOff { region: 1 };
    let (cut, _) = admitted_with(vec![Trouble { kind, from_us: 0, for_us: 60_000_000 }]);
    assert_eq!(cut, 120, "nobody told it");
    let away = Trouble { kind: TroubleKind::GlobalAway, from_us: 0, for_us: 60_000_000 };
    assert_eq!(admitted_with(vec![away]).0, 120);
}

#[test]
fn who_waits_at_a_process_that_is_killed_is_answered_by_another() {
    let kind = TroubleKind::Kill { region: 0, node: 0 };
    let trouble = Trouble { kind, from_us: 1_000_500, for_us: 1_000_000 };
    let store_latency_us = (2_000, 3_000);
    let options = FleetOptions { troubles: vec![trouble], store_latency_us, ..options() };
    // The first eight are cold, so all of them wait when it happens.
    let calls = burst(16, 1_000, 1);
    let settled = run(&mut Fleet::new(options), &calls);
    assert_eq!(admitted(&settled), 16);
    assert!(settled.values().all(|one| !one.degraded), "{settled:?}");
    assert!(settled.range(..8).all(|(_, one)| one.waited_us >= 4_000), "{settled:?}");
}

#[test]
fn a_check_that_no_server_takes_is_an_error() {
    let mut fleet = Fleet::new(options());
    let short = FleetCheck { window_ms: 1, ..check("ann", 1) };
    assert_eq!(fleet.call(0, (START_MS, None), &[short]), Err(RequestError::WindowTooShort));
    assert!(fleet.call(0, (START_MS, None), &[]).is_err());
    assert!(fleet.call(0, (START_MS, None), &[check("ann", 1), short]).is_err());
}

#[test]
fn years_of_silence_take_no_time_and_faults_come_when_they_were_said() {
    const YEAR_MS: u64 = 365 * 86_400_000;
    let second = 1_000_000;
    let away = |node| Trouble {
        kind: TroubleKind::Kill { region: 0, node },
        from_us: (YEAR_MS - 60_000) * 1_000,
        for_us: 120 * second,
    };
    let options = FleetOptions { troubles: vec![away(0), away(1)], ..options() };
    let mut fleet = Fleet::new(options);
    let full = |at_ms| (START_MS + at_ms, Some(0), vec![check("ann", 1)]);
    // Full, silence, all are dead, all are back, and silence again.
    let times = [0, 1_000, YEAR_MS, YEAR_MS + 61_000, YEAR_MS + 62_000, 3 * YEAR_MS];
    let settled = run(&mut fleet, &times.map(full));
    let admitted: Vec<bool> = settled.values().map(|one| one.admitted).collect();
    assert_eq!(admitted, [true, false, true, true, false, true]);
    let degraded: Vec<u64> =
        settled.values().filter(|one| one.degraded).map(|one| one.number).collect();
    assert_eq!(degraded, [2], "nobody lived");
}

#[test]
fn a_pause_within_two_windows_is_no_silence() {
    let mut fleet = Fleet::new(options());
    let all = |at_ms| {
        let check = FleetCheck { window_ms: 3_600_000, cost: 10, ..check("ann", 10) };
        (START_MS + at_ms, Some(0), vec![check])
    };
    // Fourteen minutes after the hour, and four after the next: nearly all of it still counts.
    let settled = run(&mut fleet, &[0, 3_000_000].map(all));
    let admitted: Vec<bool> = settled.values().map(|one| one.admitted).collect();
    assert_eq!(admitted, [true, false]);
}
