//! Findings that nobody found: one of everything, with identifiers that would like to be markup.

use tidegate_trial::{
    Affected, Changed, Comparison, CurvePoint, Facts, Findings, Fullness, LimitFindings, Malformed,
    PolicyFindings, Slice, StoreWork, Suggestion, TopologyFacts, Totals, TraceFacts, Waits,
};

/// 2026-11-15, midnight UTC.
const MIDNIGHT: u64 = 1_794_700_800_000;
const SLICE_MS: u64 = 180_000;
/// A day.
const SLICES: u64 = 480;

/// What a log could hold to hurt whoever looks at the page.
pub(crate) const HOSTILE: [&str; 6] = [
    "</script><script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "<!--<script>",
    "\u{202e}gnp.elgoog\u{2066}",
    "line\u{2028}break\u{0}\t",
    "javascript:alert(1)",
];

/// A page with every section.
pub(crate) fn findings() -> Findings {
    let (current, candidate) = (policy("current", 3), policy("candidate", 1));
    Findings {
        version: 1,
        trace: trace(),
        warnings: vec!["the limit `<b>` needs `user`, and 991 of 1000 lack it".into()],
        topology: topology(),
        policies: vec![current, candidate],
        comparison: Some(comparison()),
        suggestions: [1_000, 10_000, 60_000, 3_600_000].map(suggestion).to_vec(),
    }
}

/// A page about one policy alone.
pub(crate) fn alone() -> Findings {
    let mut policies = vec![policy("candidate", 1)];
    policies[0].stores = None;
    policies[0].waits = None;
    let topology = TopologyFacts {
        summary: "one process".to_owned(),
        regions: 1,
        nodes: 1,
        facts: Vec::new(),
    };
    Findings { version: 1, trace: trace(), topology, policies, ..Findings::default() }
}

/// Pages about nearly nothing: no call, one call, suggestions alone, and a limit of 0.
pub(crate) fn sparse() -> Vec<(&'static str, Findings)> {
    let nothing = Findings { policies: vec![PolicyFindings::default()], ..Findings::default() };
    let mut one = nothing.clone();
    if let Some(policy) = one.policies.first_mut() {
        policy.slice_ms = 1;
        policy.over_time = vec![Slice { from_unix_ms: MIDNIGHT, admitted: 1, denied: 0 }];
        policy.limits = vec![LimitFindings::default()];
    }
    let suggestions = vec![suggestion(60_000), Suggestion::default()];
    let suggested = Findings { suggestions, ..Findings::default() };
    vec![
        ("nothing", Findings::default()),
        ("no-call", nothing),
        ("one-call", one),
        ("suggested", suggested),
    ]
}

fn trace() -> TraceFacts {
    TraceFacts {
        source: "access.log.gz".to_owned(),
        format: "combined".to_owned(),
        lines: 1_482_911,
        requests: 1_482_907,
        first_unix_ms: MIDNIGHT + 112,
        last_unix_ms: MIDNIGHT + 86_399_000,
        out_of_order: 17,
        malformed: 4,
        malformed_first: HOSTILE[..4]
            .iter()
            .zip([17, 40_211, 40_212, 1_400_000])
            .map(bad)
            .collect(),
    }
}

fn bad((sample, line): (&&str, u64)) -> Malformed {
    let reason = "a time in brackets, as in [15/Nov/2026:04:02:28 +0000]".to_owned();
    Malformed { line, reason, sample: (*sample).to_owned() }
}

fn topology() -> TopologyFacts {
    let fact = |name: &str, value: &str| Facts { name: name.to_owned(), value: value.to_owned() };
    TopologyFacts {
        summary: "2 regions of 3 processes each".to_owned(),
        regions: 2,
        nodes: 6,
        facts: vec![
            fact("Latency to the regional store", "1 ms"),
            fact("Latency between regions", "80 ms"),
            fact("Fault", "region eu cut off from 12:00 to 12:10"),
        ],
    }
}

/// Traffic of a day with a burst at one in the afternoon.
fn slice(number: u64, spared: u64) -> Slice {
    let wave = (1_000 * number.abs_diff(300)) / 300;
    let calls = 4_200 - 3 * wave + (number * 7_919) % 311;
    let burst = if (258..271).contains(&number) { 2_600 } else { 0 };
    let denied = (burst + (number * 104_729) % 37 + calls / 120) / spared;
    Slice { from_unix_ms: MIDNIGHT + number * SLICE_MS, admitted: calls, denied }
}

fn policy(name: &str, spared: u64) -> PolicyFindings {
    let over_time: Vec<Slice> = (0..SLICES).map(|number| slice(number, spared)).collect();
    let totals = Totals {
        admitted: over_time.iter().map(|slice| slice.admitted).sum(),
        denied: over_time.iter().map(|slice| slice.denied).sum(),
        falsely_admitted: 212,
        falsely_denied: 1_480 / spared,
        degraded: 12,
    };
    PolicyFindings {
        name: name.to_owned(),
        unlimited: 20_311,
        totals,
        identifiers: 52_811,
        affected: 312,
        slice_ms: SLICE_MS,
        over_time,
        limits: vec![
            limit("per-ip", "by ip", (300 * spared, 60_000), totals),
            limit("login", "by ip and path", (10, 3_600_000), Totals::default()),
        ],
        most_affected: (0..20).map(affected).collect(),
        stores: Some(StoreWork {
            region_calls: 402_118,
            region_operations: 511_902,
            rows_written: 3_190,
            rows_read: 12_004,
            statements: 9_377,
        }),
        waits: Some(Waits { calls: 52_000, p99_us: 1_940, longest_us: 20_100 }),
    }
}

fn limit(name: &str, by: &str, (limit, window_ms): (u64, u64), totals: Totals) -> LimitFindings {
    let quiet = totals.denied == 0;
    LimitFindings {
        name: name.to_owned(),
        by: by.to_owned(),
        limit,
        window_ms,
        totals: if quiet { Totals { admitted: 2_911, ..totals } } else { totals },
        identifiers: if quiet { 811 } else { 52_000 },
        affected: if quiet { 0 } else { 312 },
        denied_histogram: if quiet { [811, 0, 0, 0, 0, 0] } else { [51_688, 61, 140, 88, 20, 3] },
        fullness: if quiet {
            Fullness { p50: 100, p99: 700, worst: 1_000 }
        } else {
            Fullness { p50: 43, p99: 970, worst: 1_127 }
        },
        missing: if quiet { 14 } else { 0 },
    }
}

fn affected(number: u64) -> Affected {
    let hostile = usize::try_from(number).ok().and_then(|number| HOSTILE.get(number));
    let identifier =
        hostile.map_or_else(|| format!("203.0.113.{number}"), |text| (*text).to_owned());
    let denied = 9_000 / (number + 1);
    Affected {
        limit: "per-ip".to_owned(),
        identifier,
        allowed: if number == 7 { 1_000 } else { 300 },
        requests: denied + 5_310,
        admitted: 5_310 + number,
        denied,
        falsely_denied: number % 4,
        first_denied_unix_ms: MIDNIGHT + 46_440_000 + number * 61_003,
        fullest_permille: 1_127 - number * 6,
    }
}

fn comparison() -> Comparison {
    let changed = |number: u64| Changed {
        limit: "per-ip".to_owned(),
        identifier: if number == 0 {
            HOSTILE[0].to_owned()
        } else {
            format!("198.51.100.{number}")
        },
        requests: 4_211 - number * 103,
        denied_before: 0,
        denied_after: 311 - number * 15,
    };
    let mut first: Vec<Changed> = (0..20).map(changed).collect();
    let mut no_longer = first.split_off(18);
    for changed in &mut no_longer {
        std::mem::swap(&mut changed.denied_before, &mut changed.denied_after);
    }
    Comparison {
        newly_limited: 312,
        no_longer_limited: 2,
        limited_by_both: 104,
        newly_denied_calls: 40_911,
        newly_admitted_calls: 77,
        newly_limited_first: first,
        no_longer_limited_first: no_longer,
    }
}

fn suggestion(window_ms: u64) -> Suggestion {
    let identifiers = 52_000;
    let scale = window_ms / 500;
    let curve: Vec<CurvePoint> = (1..=60)
        .map(|step: u64| CurvePoint {
            limit: scale * step * step / 4 + step,
            affected: identifiers / (step * step * step),
        })
        .collect();
    let chosen = curve.iter().find(|point| point.affected <= 52).copied().unwrap_or_default();
    Suggestion {
        name: "per-ip".to_owned(),
        by: "by ip".to_owned(),
        window_ms,
        limit: chosen.limit,
        affected: chosen.affected,
        identifiers,
        max_affected_ppm: 1_000,
        curve,
    }
}
