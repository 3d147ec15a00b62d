//! What is printed, as it is read.

use tidegate_trial::{CurvePoint, Facts, Malformed, TopologyFacts, Totals};

use super::*;

#[test]
fn numbers_are_easy_to_read() {
    assert_eq!([0, 999, 1_000, 1_234_567].map(many), ["0", "999", "1,000", "1,234,567"]);
    assert_eq!(percent(1, 1_000_000), "< 0.1 %");
    // As the page rounds.
    assert_eq!((percent(3_217, 13_027), percent(7_999, 8_000)), ("24.7 %".into(), "99.9 %".into()));
    assert_eq!(
        (percent(0, 7), percent(1, 3), percent(5, 0)),
        ("0.0 %".into(), "33.3 %".into(), "< 0.1 %".into())
    );
    assert_eq!(cut(&"x".repeat(60)).chars().count(), NAME_CHARS + 1);
    assert_eq!(cut("a\u{1b}b"), "a\\u{1b}b");
}

#[test]
fn what_was_denied_once_is_seen_over_time() {
    let slice = |denied| Slice { denied, ..Slice::default() };
    assert_eq!(sparks(&[slice(0), slice(1), slice(1_000)]), " ▁█");
    let long: Vec<Slice> = (0..500).map(slice).collect();
    assert_eq!(sparks(&long).chars().count(), 39);
    assert_eq!(sparks(&[]), "");
}

/// Something of everything.
fn found() -> Findings {
    let affected = Affected {
        identifier: "203.0.113.7".into(),
        limit: "per-ip".into(),
        denied: 12_345,
        ..Affected::default()
    };
    let limit = LimitFindings {
        name: "per-ip".into(),
        by: "by ip".into(),
        limit: 100,
        window_ms: 60_000,
        affected: 1,
        identifiers: 4,
        missing: 3,
        ..LimitFindings::default()
    };
    let policy = PolicyFindings {
        name: "candidate".into(),
        unlimited: 5,
        totals: Totals { admitted: 90, denied: 10, falsely_denied: 2, ..Totals::default() },
        limits: vec![limit],
        most_affected: vec![affected],
        stores: Some(StoreWork { rows_written: 77, ..StoreWork::default() }),
        waits: Some(Waits { p99_us: 1_500, ..Waits::default() }),
        ..PolicyFindings::default()
    };
    let current = PolicyFindings { name: "current".into(), ..PolicyFindings::default() };
    let changed = Changed { identifier: "new".into(), denied_after: 3, ..Changed::default() };
    let comparison = Comparison {
        newly_limited: 312,
        newly_limited_first: vec![changed],
        ..Comparison::default()
    };
    let suggestion = Suggestion {
        name: "per-ip".into(),
        by: "by ip".into(),
        window_ms: 10_000,
        limit: 42,
        max_affected_ppm: 1_000,
        curve: vec![CurvePoint::default()],
        ..Suggestion::default()
    };
    let malformed = Malformed { line: 7, reason: "not JSON".into(), sample: "{".into() };
    Findings {
        trace: TraceFacts {
            source: "a.log".into(),
            format: "json".into(),
            malformed: 1,
            malformed_first: vec![malformed],
            ..TraceFacts::default()
        },
        topology: TopologyFacts {
            summary: "one process".into(),
            facts: vec![Facts { name: "latency".into(), value: "9 ms".into() }],
            ..TopologyFacts::default()
        },
        warnings: vec!["it says little".into()],
        policies: vec![current, policy],
        comparison: Some(comparison),
        suggestions: vec![suggestion],
        ..Findings::default()
    }
}

#[test]
fn everything_that_was_found_is_said() {
    let text = Shown::new(&found()).to_string();
    for expected in [
        "trace       a.log, json: 0 requests",
        "mind        it says little\ndecided by  one process\n            latency: 9 ms",
        "denied                       10   10.0 %  ████",
        "falsely denied                2",
        "no limit applies",
        "per-ip: 100 in 1m by ip\n    affected  1 of 4 identifiers (25.0 %)",
        "3 calls without that field",
        "77 rows written",
        "p99 1.500 ms",
        "203.0.113.7  per-ip",
        "12,345",
        "candidate against current: 312 identifiers newly limited",
        "at most 0.1 % of identifiers",
        "per-ip  ip     10s     42",
        "7  not JSON\n             {",
    ] {
        assert!(text.contains(expected), "{expected}\nis not in\n{text}");
    }
}
