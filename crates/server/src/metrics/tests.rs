use std::collections::BTreeSet;
use std::fmt::Debug;

use super::*;
use crate::door::Noted;

/// The page that lists them.
const PAGE: &str = include_str!("../../../../docs/metrics.md");
/// What reads the counts.
const SOURCES: [&str; 6] = [
    include_str!("gather.rs"),
    include_str!("gather/config.rs"),
    include_str!("gather/house.rs"),
    include_str!("gather/region.rs"),
    include_str!("gather/globe.rs"),
    include_str!("gather/stores.rs"),
];

/// A look at a process that shares its limits with everybody.
fn seen() -> Seen {
    let (region, globe) = (Some(RegionCounts::default()), Some(GlobeCounts::default()));
    let spread = Histogram::new(REQUEST_BOUNDS).read();
    let workspace = WorkspaceSeen { id: "ws_000000001".to_owned(), admitted: 1, denied: 2 };
    let calls = StoreCalls::default();
    let store = |name, operations: &[Operation]| StoreSeen {
        name,
        calls: operations.iter().map(|it| (*it, calls.seen(*it))).collect(),
        skew: Some(SkewSeen { ahead_us: -1_500, error_us: 2_000, measured: 1 }),
    };
    let noted = Noted::new();
    Seen {
        region,
        globe,
        refused: noted.refused().collect(),
        requests: Class::ALL.map(|(_, word)| (word, spread.clone())).into(),
        workspaces: Some(vec![workspace]),
        stores: vec![store("region", &Operation::OF_REGION), store("globe", &Operation::OF_GLOBE)],
        started_unix_ms: 1_700_000_000_042,
        ..Seen::default()
    }
}

fn is_name(text: &str) -> bool {
    let begins = text.starts_with(|char: char| char.is_ascii_lowercase());
    begins && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
}

/// Reads one series: its name, its labels, its value.
fn series(line: &str) -> (String, Vec<(String, String)>, f64) {
    let (named, value) = line.rsplit_once(' ').unwrap();
    let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
    let Some((name, labels)) = named.split_once('{') else {
        return (named.to_owned(), vec![], value);
    };
    let labels = labels.strip_suffix('}').unwrap_or_else(|| panic!("no end: {line}"));
    let label = |text: &str| {
        let (name, value) = text.split_once('=').unwrap();
        let value = value.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap();
        let plain = |char: char| char.is_ascii_alphanumeric() || "._-+".contains(char);
        assert!(is_name(name) && value.chars().all(plain) && !value.is_empty(), "{line}");
        (name.to_owned(), value.to_owned())
    };
    (name.to_owned(), labels.split(',').map(label).collect(), value)
}

#[test]
fn the_text_keeps_every_rule_of_the_format() {
    let text = render(&gather::all(&seen()));
    assert!(text.ends_with('\n') && !text.contains("\n\n"));
    let (mut names, mut all) = (BTreeSet::new(), BTreeSet::new());
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let (name, help) = line.strip_prefix("# HELP ").and_then(|it| it.split_once(' ')).unwrap();
        assert!(is_name(name) && name.starts_with("tidegate_"), "{name}");
        assert!(names.insert(name.to_owned()), "twice: {name}");
        assert!(help.ends_with('.') && !help.contains('\\'), "a sentence: {help}");
        let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
        let kind = kind.unwrap_or_else(|| panic!("no type: {name}"));
        assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        let mut label_names = BTreeSet::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (of, labels, value) = series(line);
            let part = of.strip_prefix(name).unwrap_or_else(|| panic!("no head: {line}"));
            let parts: &[&str] = match kind {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            assert!(parts.contains(&part), "{line}");
            assert!(value >= 0.0 || kind == "gauge" && name.contains("_skew_"), "{line}");
            assert!(all.insert((of, labels.clone())), "twice: {line}");
            let names = labels.into_iter().map(|(name, _)| name).filter(|name| name != "le");
            label_names.insert(names.collect::<Vec<_>>());
        }
        assert_eq!(label_names.len(), 1, "every series of {name} has the same labels");
    }
    assert!(all.len() > 80, "{}", all.len());
}

#[test]
fn times_are_in_seconds() {
    let text = render(&gather::all(&seen()));
    assert!(text.contains("\ntidegate_process_start_time_seconds 1700000000.042\n"), "{text}");
    assert!(text.contains("\ntidegate_clock_skew_seconds{store=\"region\"} -0.001500\n"), "{text}");
}

#[test]
fn each_bucket_holds_those_below_it() {
    let histogram = Histogram::new(REQUEST_BOUNDS);
    for us in [10, 30, 40, 60_000_000] {
        histogram.note(std::time::Duration::from_micros(us));
    }
    let requests = vec![("limit", histogram.read())];
    let text = render(&gather::all(&Seen { requests, ..Seen::default() }));
    let bucket = |le: &str| {
        let start = format!("tidegate_request_seconds_bucket{{call=\"limit\",le=\"{le}\"}} ");
        text.lines().find_map(|line| line.strip_prefix(&start)).map(str::to_owned)
    };
    let said = ["0.000025", "0.00005", "10", "+Inf"].map(|le| bucket(le).unwrap());
    assert_eq!(said, ["1", "3", "3", "4"]);
    assert!(text.contains("tidegate_request_seconds_sum{call=\"limit\"} 60.000080\n"), "{text}");
    assert!(text.contains("tidegate_request_seconds_count{call=\"limit\"} 4\n"), "{text}");
}

#[test]
fn a_process_on_its_own_says_nothing_of_others() {
    let text = render(&gather::all(&Seen::default()));
    for of in ["region_", "globe_", "store_", "breaker_", "clock_", "workspace_"] {
        assert!(!text.contains(&format!("tidegate_{of}")), "{of}: {text}");
    }
}

#[test]
fn every_count_has_a_metric() {
    fn missing(of: &impl Debug) -> Vec<String> {
        let text = format!("{of:?}");
        let (_, fields) = text.split_once('{').unwrap();
        let names = fields.split(", ").filter_map(|field| field.split(':').next());
        let names = names.map(|name| name.trim().to_owned());
        let is_read = |name: &String| {
            let read = format!(".{name}");
            let ends =
                |rest: &str| !rest.starts_with(|char: char| char == '_' || char.is_alphanumeric());
            SOURCES.iter().any(|source| source.split(&read).skip(1).any(ends))
        };
        names.filter(|name| !is_read(name)).collect()
    }
    let Seen { counts, region, globe, idempotency, settings, tally, config, .. } = seen();
    assert_eq!(missing(&tally), [""; 0]);
    assert_eq!(missing(&config), [""; 0]);
    assert_eq!(missing(&counts), [""; 0]);
    assert_eq!(missing(&region.unwrap()), [""; 0]);
    assert_eq!(missing(&globe.unwrap()), [""; 0]);
    assert_eq!(missing(&idempotency), [""; 0]);
    assert_eq!(missing(&settings), [""; 0]);
    #[derive(Debug, Default)]
    struct Other {
        _unheard_of: u64,
    }
    assert_eq!(missing(&Other::default()).len(), 1, "it can be missed");
}

/// The row of a metric on the page.
fn row(family: &Family) -> String {
    let whose = family.series.iter().any(|series| series.workspace.is_some());
    let names: BTreeSet<&str> = family
        .series
        .iter()
        .flat_map(|series| series.labels.iter().map(|(name, _)| *name))
        .chain(whose.then_some("workspace"))
        .collect();
    let of = |name: &str| {
        let values: BTreeSet<&str> = family
            .series
            .iter()
            .flat_map(|series| series.labels.iter().filter(|(it, _)| *it == name))
            .map(|(_, value)| *value)
            .collect();
        // Which program it is differs from build to build.
        if family.name == "tidegate_build_info" || name == "workspace" {
            return format!("`{name}`");
        }
        format!("`{name}`: {}", values.into_iter().collect::<Vec<_>>().join(", "))
    };
    let labels = names.into_iter().map(of).collect::<Vec<_>>().join("; ");
    let Family { name, kind, help, reference, .. } = family;
    format!("| `{name}` | {} | {labels} | {help} | {reference} |", kind.name())
}

#[test]
fn the_page_lists_every_metric_as_it_is() {
    let rows: Vec<String> = gather::all(&seen()).iter().map(row).collect();
    let listed: Vec<&str> = PAGE.lines().filter(|line| line.starts_with("| `")).collect();
    assert!(rows == listed, "docs/metrics.md should have these rows:\n{}", rows.join("\n"));
}

/// What the reference and the RFC call theirs, without what all names begin with.
const REFERENCE: [&str; 24] = [
    "windows",
    "windows_created_total",
    "windows_evicted_total",
    "decisions_total",
    "cas_exhausted_total",
    "strict_mode_activations_total",
    "origin_operations_total",
    "origin_latency_seconds",
    "origin_errors_total",
    "global_push_total",
    "global_push_errors_total",
    "global_pull_rows_applied_total",
    "global_pull_errors_total",
    "global_pull_rows_last_poll",
    "global_entries_created_total",
    "unkey_buffer_state_total",
    "unkey_buffer_size_percentage",
    "unkey_circuitbreaker_requests_total",
    "writes_total",
    "write_errors_total",
    "sync_rows_applied_total",
    "sync_errors_total",
    "entries_created_total",
    "rows_last_poll",
];

#[test]
fn the_page_says_what_became_of_every_metric_of_the_reference() {
    let (_, not_here) = PAGE.split_once("\n## What the reference counts and Tidegate").unwrap();
    let last = |line: &str| line.trim_end_matches(" |").rsplit(" | ").next().map(str::to_owned);
    let of_ours = PAGE.lines().filter(|line| line.starts_with("| `")).filter_map(last);
    let not_ours = not_here.lines().filter(|line| line.starts_with("| "));
    let not_ours = not_ours.filter_map(|line| Some(line.split(" | ").next()?.to_owned()));
    let is_word = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let named: BTreeSet<String> = of_ours
        .chain(not_ours)
        .flat_map(|cell| cell.split(|char| !is_word(char)).map(str::to_owned).collect::<Vec<_>>())
        .collect();
    let missing: Vec<&str> = REFERENCE.into_iter().filter(|name| !named.contains(*name)).collect();
    assert_eq!(missing, [""; 0]);
    assert!(!named.contains("no_such_metric_total"), "one can be missed");
}
