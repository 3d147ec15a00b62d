use std::collections::BTreeMap;

use super::*;
use crate::topology::Publish;

/// The start of a minute.
const START_MS: u64 = 1_700_000_040_000;

fn one(name: &str, allowed: u64) -> Check<'_> {
    let (limit, namespace, identifier, window_ms, cost) = (0, "n", 0, 60_000, 1);
    Check { limit, namespace, identifier, name, window_ms, allowed, cost }
}

/// The verdicts on calls of one check each: when, of which origin, and on whom.
fn run(topology: Topology, calls: &[(u64, u64, Check<'_>)]) -> BTreeMap<u64, Verdict> {
    let (mut fleet, mut verdicts) = (Fleet::new(topology), Vec::new());
    for (number, (at_ms, origin, check)) in calls.iter().enumerate() {
        let (number, at_unix_ms, origin) = (number as u64, START_MS + at_ms, Some(*origin));
        fleet.offer(&Call { number, at_unix_ms, origin, checks: &[*check] }, &mut verdicts);
    }
    fleet.finish(&mut verdicts);
    assert_eq!(verdicts.len(), calls.len());
    verdicts.into_iter().map(|verdict| (verdict.call, verdict)).collect()
}

fn admitted(verdicts: &BTreeMap<u64, Verdict>) -> usize {
    verdicts.values().filter(|verdict| verdict.admitted).count()
}

/// Twice a limit of a hundred, evenly over half a minute.
fn steady() -> Vec<(u64, u64, Check<'static>)> {
    (0..200).map(|number| (number * 150, number, one("ann", 100))).collect()
}

#[test]
fn calls_of_an_origin_enter_one_region_and_in_turn_they_enter_all() {
    // Cut off from each other for ever, each region has a limit of its own.
    let text = |entry: &str| {
        let fault =
            |region| format!("[[fault]]\nkind='cut-off'\nregion={region}\nfrom='0s'\nfor='1h'\n");
        format!("regions = 2\nentry = '{entry}'\n{}{}", fault(0), fault(1))
    };
    let calls: Vec<_> = (0..60).map(|number| (number * 100, 7, one("ann", 10))).collect();
    for (entry, expected) in [("origin", 10), ("round-robin", 20)] {
        let topology = Topology::parse("t", &text(entry)).unwrap();
        assert_eq!(admitted(&run(topology, &calls)), expected, "{entry}");
    }
}

#[test]
fn a_trial_is_repeated_by_its_seed() {
    let topology = Topology { regions: 2, nodes: 3, ..Topology::default() };
    let once = run(topology.clone(), &steady());
    assert_eq!(once, run(topology.clone(), &steady()));
    assert_ne!(once, run(Topology { seed: 2, ..topology }, &steady()));
}

#[test]
fn regions_that_speak_rarely_admit_more() {
    let with = |publish| {
        let topology =
            Topology { regions: 3, publish, entry: Entry::Origin, ..Topology::default() };
        admitted(&run(topology, &steady()))
    };
    let (budget, rfc) = (with(Publish::Budget), with(Publish::Rfc { every_ms: 20_000 }));
    assert!((100..=130).contains(&budget), "a quarter is hidden, and 5 %: {budget}");
    assert!(rfc > budget, "{rfc} {budget}");
}

#[test]
fn a_check_that_no_server_takes_is_denied() {
    let short = Check { window_ms: 10, ..one("ann", 5) };
    let verdicts = run(Topology::default(), &[(0, 0, short), (10, 0, one("ann", 5))]);
    assert!(!verdicts[&0].admitted && verdicts[&0].full == 1);
    assert!(verdicts[&1].admitted);
}

#[test]
fn a_batch_says_which_of_its_checks_are_full() {
    let (mut fleet, mut verdicts) = (Fleet::new(Topology::default()), Vec::new());
    let second = Check { limit: 1, namespace: "m", ..one("ann", 1) };
    let checks = [one("ann", 5), second];
    for number in 0..3 {
        let (at_unix_ms, origin) = (START_MS + 100 * number, None);
        fleet.offer(&Call { number, at_unix_ms, origin, checks: &checks }, &mut verdicts);
    }
    fleet.finish(&mut verdicts);
    let said: Vec<(bool, u128)> = verdicts.iter().map(|it| (it.admitted, it.full)).collect();
    assert_eq!(said, [(true, 0), (false, 2), (false, 2)]);
}

#[test]
fn faults_are_told_from_the_first_request_not_from_the_first_that_is_limited() {
    let text = "[[fault]]\nkind='store-away'\nregion=0\nfrom='1m'\nfor='2m'\n";
    let degraded = |first_limited_ms: u64| {
        let (topology, mut verdicts) = (Topology::parse("t", text).unwrap(), Vec::new());
        let mut fleet = Fleet::new(topology);
        fleet.begin(START_MS);
        for number in 0..20 {
            let at_unix_ms = START_MS + first_limited_ms + 1_000 * number;
            let checks = [one("ann", 10)];
            fleet.offer(&Call { number, at_unix_ms, origin: None, checks: &checks }, &mut verdicts);
        }
        fleet.finish(&mut verdicts);
        verdicts.iter().filter(|verdict| verdict.degraded).count()
    };
    assert!(degraded(70_000) > 0, "the store is away");
    assert_eq!(degraded(300_000), 0, "it is back long since");
    assert_eq!(degraded(240_000), 0, "a minute after the first limited call is no time of a fault");
}
