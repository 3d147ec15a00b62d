//! A suggested limit does what it says, and no lower one does.

use proptest::prelude::*;

use super::*;
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

proptest! {
    #![proptest_config(some())]

    #[test]
    fn the_suggested_limit_affects_at_most_the_share_and_one_less_affects_more(
        steps in prop::collection::vec((0..3_000_u64, 0..9_u8), 1..300),
        ppm in 0..500_000_u64,
        window_ms in 1_000..9_000_u64,
    ) {
        let trace = trace(&steps);
        let policy = per_ip(1, window_ms);
        let options =
            SuggestOptions { policy, windows_ms: vec![window_ms], max_affected_ppm: ppm };
        let found = tried(Vec::new(), Some(options), &trace).unwrap();
        let [suggestion] = found.suggestions.as_slice() else { panic!("{found:?}") };
        let affected = |limit| {
            let found = tried(vec![(per_ip(limit, window_ms), one())], None, &trace).unwrap();
            found.policies[0].limits[0].affected
        };
        let may = suggestion.identifiers * ppm / MILLION;
        prop_assert_eq!(affected(suggestion.limit), suggestion.affected);
        prop_assert!(suggestion.affected <= may);
        prop_assert!(affected(suggestion.limit - 1) > may);
        for point in &suggestion.curve {
            prop_assert_eq!(affected(point.limit), point.affected);
        }
    }
}
