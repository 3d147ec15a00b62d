use std::collections::BTreeSet;
use std::fmt::Debug;

use super::*;

/// The page that lists them.
const PAGE: &str = include_str!("../../../../docs/metrics.md");
/// What reads the counts.
const SOURCES: [&str; 4] = [
    include_str!("gather.rs"),
    include_str!("gather/house.rs"),
    include_str!("gather/region.rs"),
    include_str!("gather/globe.rs"),
];

/// A look at a process that shares its limits with everybody.
fn seen() -> Seen {
    let (region, globe) = (Some(RegionCounts::default()), Some(GlobeCounts::default()));
    Seen { region, globe, started_unix_ms: 1_700_000_000_042, ..Seen::default() }
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
        assert!(["counter", "gauge"].contains(&kind), "{kind}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
        let mut label_names = BTreeSet::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let (of, labels, value) = series(line);
            assert_eq!(of, name, "a series without its head");
            assert!(value >= 0.0 && all.insert((of, labels.clone())), "twice: {line}");
            label_names.insert(labels.into_iter().map(|(name, _)| name).collect::<Vec<_>>());
        }
        assert_eq!(label_names.len(), 1, "every series of {name} has the same labels");
    }
    assert!(all.len() > 80, "{}", all.len());
}

#[test]
fn times_are_in_seconds() {
    let text = render(&gather::all(&seen()));
    assert!(text.contains("\ntidegate_process_start_time_seconds 1700000000.042\n"), "{text}");
}

#[test]
fn a_process_on_its_own_says_nothing_of_others() {
    let text = render(&gather::all(&Seen::default()));
    assert!(!text.contains("tidegate_region_") && !text.contains("tidegate_globe_"), "{text}");
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
    let Seen { counts, region, globe, idempotency, settings, .. } = seen();
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
    let names: BTreeSet<&str> = family
        .series
        .iter()
        .flat_map(|series| series.labels.iter().map(|(name, _)| *name))
        .collect();
    let of = |name: &str| {
        let values: BTreeSet<&str> = family
            .series
            .iter()
            .flat_map(|series| series.labels.iter().filter(|(it, _)| *it == name))
            .map(|(_, value)| *value)
            .collect();
        // Which program it is differs from build to build.
        if family.name == "tidegate_build_info" {
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
