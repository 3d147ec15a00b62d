use super::*;

const WALL_MS: u64 = 1_700_000_000_000;

/// Reads the anchor at `monotonic_ms` on a machine whose wall clock shows `wall_ms`.
fn unix_ms(anchor: &Anchor, monotonic_ms: u64, wall_ms: u64) -> u64 {
    anchor.read(monotonic_ms, || wall_ms).unix_ms()
}

#[test]
fn between_two_comparisons_the_wall_clock_is_not_read() {
    let anchor = Anchor::new(WALL_MS);
    let now = anchor.read(COMPARE_INTERVAL_MS - 1, || panic!("read too early"));
    assert_eq!(now, Now::new(WALL_MS + COMPARE_INTERVAL_MS - 1, COMPARE_INTERVAL_MS - 1));
}

#[test]
fn a_disagreement_is_followed_only_beyond_the_constant() {
    for (wall_ms, shown_ms) in [
        (WALL_MS + 1_000, WALL_MS + 1_000),
        (WALL_MS + 1_000 + DISAGREEMENT_MS_MAX, WALL_MS + 1_000),
        (WALL_MS + 1_000 - DISAGREEMENT_MS_MAX, WALL_MS + 1_000),
        (WALL_MS + 1_001 + DISAGREEMENT_MS_MAX, WALL_MS + 1_001 + DISAGREEMENT_MS_MAX),
        (WALL_MS + 999 - DISAGREEMENT_MS_MAX, WALL_MS + 999 - DISAGREEMENT_MS_MAX),
    ] {
        assert_eq!(unix_ms(&Anchor::new(WALL_MS), 1_000, wall_ms), shown_ms, "wall {wall_ms}");
    }
}

#[test]
fn a_step_is_followed_within_the_interval_and_kept() {
    let anchor = Anchor::new(WALL_MS);
    assert_eq!(unix_ms(&anchor, 900, WALL_MS + 86_400_000), WALL_MS + 900);
    assert_eq!(unix_ms(&anchor, 1_000, WALL_MS + 86_400_000), WALL_MS + 86_400_000);
    assert_eq!(unix_ms(&anchor, 1_001, 0), WALL_MS + 86_400_001, "no comparison is due");
}

#[test]
fn slewing_is_followed_in_steps_that_stay_small() {
    let anchor = Anchor::new(WALL_MS);
    // 500 ppm for an hour: the wall clock ends 1.8 s ahead, the anchored one close behind it.
    for second in 1..=3_600 {
        let wall_ms = WALL_MS + second * 1_000 + second / 2;
        let behind_ms = wall_ms.abs_diff(unix_ms(&anchor, second * 1_000, wall_ms));
        assert!(behind_ms <= DISAGREEMENT_MS_MAX, "{behind_ms} ms behind at {second} s");
    }
}

#[test]
fn a_wall_clock_set_to_1970_is_followed_without_overflow() {
    let anchor = Anchor::new(WALL_MS);
    assert_eq!(unix_ms(&anchor, 50_000, 7), 7);
    assert_eq!(unix_ms(&anchor, 50_500, 0), 507);
}

#[test]
fn the_system_clock_shows_wall_time_and_never_goes_back() {
    let clock = SystemClock::new();
    let before_ms = wall_ms();
    let first = clock.now();
    assert!(first.unix_ms().abs_diff(before_ms) <= 1_000, "{first:?} is not near {before_ms}");
    assert!(clock.now().monotonic_ms() >= first.monotonic_ms());
}

#[test]
fn a_manual_clock_moves_only_when_told() {
    let clock = ManualClock::at_unix_ms(WALL_MS);
    let twin = clock.clone();
    assert_eq!(clock.now(), Now::new(WALL_MS, 0));
    twin.advance(Duration::from_micros(2_500));
    assert_eq!(clock.now(), Now::new(WALL_MS + 2, 2));
    twin.step_to_unix_ms(5);
    assert_eq!(clock.now(), Now::new(5, 2));
}
