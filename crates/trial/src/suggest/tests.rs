//! A suggested limit does what it says, and no lower one does.

use proptest::prelude::*;

use super::*;
use crate::policy::{By, Cost};
use crate::run::tests::{one, per_ip, some, trace, tried};

#[test]
fn the_lowest_limit_is_the_peak_of_the_first_that_must_not_be_hurt() {
    let peaks = [1, 1, 2, 5, 9];
    for (ppm, limit, affected) in [
        (0, 9, 0),
        (199_999, 9, 0),
        (200_000, 5, 1),
        (400_000, 2, 2),
        (600_000, 1, 3),
        (1_000_000, 1, 3),
        (9_000_000, 1, 3),
    ] {
        assert_eq!(lowest(&peaks, ppm), limit, "{ppm}");
        assert_eq!(above(&peaks, limit), affected, "{ppm}");
    }
    assert_eq!((lowest(&[], 5), curve(&[], 1).len()), (1, 0));
}

/// Calls that cost nothing have a peak of 0; a limit of 0 would deny them.
#[test]
fn a_curve_begins_at_a_limit_of_one() {
    for peaks in [&[0][..], &[0, 0, 4]] {
        assert_eq!(curve(peaks, lowest(peaks, 0))[0].limit, 1, "{peaks:?}");
    }
}

#[test]
fn a_curve_falls_and_is_not_long() {
    let mut peaks: Vec<u64> = (0..50_000_u64).map(|at| 1 + at * at % 1_000_003).collect();
    peaks.sort_unstable();
    for peaks in [&peaks[..], &[3], &[1, LIMIT_MAX], &[1_000_000, 1_999_999]] {
        let points = curve(peaks, 7);
        assert!(points.len() < 200, "{}", points.len());
        assert!(points.windows(2).all(|it| it[0].limit < it[1].limit));
        assert!(points.windows(2).all(|it| it[0].affected >= it[1].affected));
        assert_eq!(
            points.iter().find(|it| it.limit == *peaks.last().unwrap()).unwrap().affected,
            0
        );
    }
}

/// One limit of a policy: who is limited, and what a call costs.
fn limit_of(by: &str, cost: Cost, limit: u64, window_ms: u64) -> Policy {
    let mut policy = Policy::one(By::field(by), limit, window_ms).unwrap();
    policy.limits[0].cost = cost;
    policy
}

/// The values of some columns only.
fn columns(trace: &[(u64, Vec<String>)], of: &[usize]) -> Vec<(u64, Vec<String>)> {
    let pick = |values: &[String]| of.iter().map(|at| values[*at].clone()).collect();
    trace.iter().map(|(at, values)| (*at, pick(values))).collect()
}

proptest! {
    #![proptest_config(some())]

    /// Two limits, of which one reads its costs from a field, over two or three windows.
    #[test]
    fn the_suggested_limit_affects_at_most_the_share_and_one_less_affects_more(
        steps in prop::collection::vec((0..3_000_u64, 0..9_u8, 0..4_u8, 0..6_u64), 1..200),
        ppm in 0..500_000_u64,
        windows_ms in prop::collection::btree_set(1_000..9_000_u64, 2..=3),
        fixed in prop::sample::select(vec![0, 1, 7_u64]),
    ) {
        let whose: Vec<(u64, u8)> = steps.iter().map(|(gap, ip, ..)| (*gap, *ip)).collect();
        let mut trace = trace(&whose);
        for ((_, values), (_, _, user, cost)) in trace.iter_mut().zip(&steps) {
            // Most calls cost nothing or one, as they do.
            let cost = if *cost < 3 { cost % 2 } else { cost * cost };
            values.extend([format!("{cost}"), format!("u{user}")]);
        }
        let priced = Cost::Field("cost".to_owned());
        let kinds = [("ip", priced, &[0, 1][..]), ("user", Cost::Fixed(fixed), &[2])];
        let mut policy = per_ip(1, 60_000);
        policy.limits = kinds
            .iter()
            .flat_map(|(by, cost, _)| limit_of(by, cost.clone(), 1, 60_000).limits)
            .collect();
        let windows_ms: Vec<u64> = windows_ms.into_iter().collect();
        let options =
            SuggestOptions { policy, windows_ms: windows_ms.clone(), max_affected_ppm: ppm };
        let found = tried(Vec::new(), Some(options), &trace).unwrap();
        prop_assert_eq!(found.suggestions.len(), 2 * windows_ms.len());
        let places = kinds.iter().flat_map(|kind| windows_ms.iter().map(move |ms| (kind, *ms)));
        for (suggestion, ((by, cost, of), window_ms)) in found.suggestions.iter().zip(places) {
            prop_assert_eq!(&suggestion.name, &format!("per-{by}"));
            prop_assert_eq!(suggestion.window_ms, window_ms);
            let own = columns(&trace, of);
            let affected = |limit| {
                let policy = limit_of(by, cost.clone(), limit, window_ms);
                tried(vec![(policy, one())], None, &own).unwrap().policies[0].limits[0].affected
            };
            let may = suggestion.identifiers * ppm / MILLION;
            prop_assert_eq!(affected(suggestion.limit), suggestion.affected);
            prop_assert!(suggestion.affected <= may);
            prop_assert!(affected(suggestion.limit - 1) > may);
            // Each is a whole trial: of a long curve, some.
            for point in suggestion.curve.iter().step_by(1 + suggestion.curve.len() / 12) {
                prop_assert_eq!(affected(point.limit), point.affected, "{:?}", point);
            }
        }
    }
}
