//! Policies that are read, and what they make of requests.

use super::*;
use crate::trace::{Fields, Record};

const LIMIT: &str = "[[limit]]\nname = 'a'\nby = 'ip'\nlimit = 5\nwindow = '1m'\n";

fn parse(text: &str) -> Result<Policy, String> {
    Policy::parse("p", text).map_err(|why| why.to_string())
}

/// Who is limited, by limit, and at what cost.
fn found(policy: &str, values: &[(&str, &str)]) -> Vec<(usize, String, u64)> {
    let mut fields = Fields::default();
    let mut rules = Rules::new(&parse(policy).unwrap(), &mut fields);
    let mut record = Record::default();
    record.begin(&fields, 0);
    for (name, value) in values {
        record.set(fields.number(name).unwrap(), value);
    }
    rules.look(&record);
    rules.found().iter().map(|it| (it.limit, rules.name(&record, it).to_owned(), it.cost)).collect()
}

#[test]
fn all_mistakes_are_said_at_once_with_their_lines() {
    let text = "nam = 'x'\n[[limit]]\nname = ''\nby = []\nlimit = -1\nwindow = '1w'\ncost = 'x'\n\
                when = { path = '(' }\n[[limit.override]]\nidentifer = 'x'\nlimit = 'y'\n";
    let why = parse(text).unwrap_err();
    for expected in [
        "there are 9 mistakes",
        "p:1:1: there is no key `nam`: did you mean `name`?\n  1 | nam = 'x'\n    | ^",
        "a name has 1 to 512",
        "p:4:6: expected the names of 1 to 8 fields",
        "p:5:9: expected a whole number from 0",
        "p:6:10: expected a number with a unit",
        "p:7:8: expected a whole number",
        "p:8:17: not a regular expression",
        "p:10:1: there is no key `identifer`: did you mean `identifier`?",
        "p:11:9: expected a whole number",
    ] {
        assert!(why.contains(expected), "{expected}\nis not in\n{why}");
    }
}

#[test]
fn each_mistake_has_its_words() {
    for (text, expected) in [
        ("", "there is no limit"),
        ("limit = 5", "write [[limit]]"),
        ("limit = []", "1 to 100 limits, as a batch has; there are 0"),
        ("[[limit]]\n", "`window` is missing"),
        ("[[limit]", "not TOML"),
        (&format!("{LIMIT}{LIMIT}"), "two limits `a`"),
        (&format!("{LIMIT}capture = 'x'"), "expected a group"),
        (&LIMIT.replace("'ip'", "['ip', 'user']\ncapture = '(x)'"), "one field"),
        (&LIMIT.replace("1m", "32d"), "at most 31d"),
        (&LIMIT.replace("1m", "999ms"), "at least 1s"),
        (&format!("{LIMIT}cost = {{ feld = 'x' }}"), "did you mean `field`"),
        (&format!("{LIMIT}override = 5"), "[[limit.override]]"),
        (&format!("{LIMIT}when = 5"), "fields and expressions"),
    ] {
        let why = parse(text).unwrap_err();
        assert!(why.contains(expected), "{text}: {why}");
    }
}

/// A policy with these overrides.
fn overridden<'a>(patterns: impl IntoIterator<Item = &'a str>) -> Result<Policy, String> {
    let mut text = LIMIT.to_owned();
    for pattern in patterns {
        text += &format!("[[limit.override]]\nidentifier = '{pattern}'\nlimit = 9\n");
    }
    parse(&text)
}

#[test]
fn overrides_that_no_server_has_are_refused() {
    let long = "x".repeat(513);
    for (patterns, expected) in [
        (&["a", "b", "a"][..], "p:12:1: there are two overrides for `a`"),
        (&[""], "p:7:14: an identifier has 1 to 512 characters"),
        (&[&long], "an identifier has 1 to 512 characters"),
        (&["*a*b*c*d*e*"], "more than 4 pieces of text"),
    ] {
        let why = overridden(patterns.iter().copied()).unwrap_err();
        assert!(why.contains(expected), "{expected}\nis not in\n{why}");
    }
    overridden(["*a*b*c*d*", "a", "b"]).unwrap();
    let globs: Vec<String> = (0..=GLOBS_MAX).map(|at| format!("*{at}*")).collect();
    overridden(globs.iter().take(GLOBS_MAX).map(String::as_str)).unwrap();
    let why = overridden(globs.iter().map(String::as_str)).unwrap_err();
    assert!(why.contains("at most 64 overrides with text between two `*`"), "{why}");
}

#[test]
fn one_limit_is_checked_as_in_a_file() {
    let by = |fields: &[&str]| {
        let fields = fields.iter().map(|field| (*field).to_owned()).collect();
        By { fields, capture: None }
    };
    let long = "x".repeat(600);
    for (by, limit, window_ms, expected) in [
        (by(&["ip"]), LIMIT_MAX + 1, 60_000, "limit: expected a whole number from 0 to"),
        (by(&["ip"]), 1, 999, "a window has at least 1s"),
        (by(&["ip", ""]), 1, 60_000, "by: expected the names of 1 to 8 fields"),
        (by(&[]), 1, 60_000, "expected the names of 1 to 8 fields"),
        (by(&["a"; 9]), 1, 60_000, "expected the names of 1 to 8 fields"),
        (by(&[&long]), 1, 60_000, "a name has 1 to 512 characters"),
    ] {
        let why = Policy::one(by, limit, window_ms).unwrap_err().to_string();
        assert!(why.contains(expected), "{expected}\nis not in\n{why}");
    }
    Policy::one(by(&["ip"]), LIMIT_MAX, 60_000).unwrap();
}

#[test]
fn a_mistake_never_speaks_to_the_terminal() {
    let name = "\"\\u001b]0;x\\u0007\\u202e\"";
    let limit = LIMIT.replace("'a'", name);
    let why = Policy::parse("p\u{1b}[31m", &format!("{limit}{limit}")).unwrap_err().to_string();
    assert!(why.contains("there are two limits `\\u{1b}]0;x\\u{7}\\u{202e}`"), "{why}");
    assert!(!why.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{why}");
}

#[test]
fn an_identifier_is_a_value_several_or_what_is_captured() {
    assert_eq!(found(LIMIT, &[("ip", "::1")]), [(0, "::1".to_owned(), 1)]);
    assert!(found(LIMIT, &[]).is_empty());
    let both = LIMIT.replace("'ip'", "['ip', 'user']");
    assert_eq!(found(&both, &[("ip", "a|b"), ("user", "c")])[0].1, "a\\|b|c");
    assert!(found(&both, &[("ip", "a")]).is_empty(), "one of them is missing");
    let capture = LIMIT.replace("'ip'", "'path'\ncapture = '^/v\\d/(?<tenant>[^/]*)'");
    assert_eq!(found(&capture, &[("path", "/v1/acme/x")])[0].1, "acme");
    assert!(found(&capture, &[("path", "/health")]).is_empty());
    assert!(found(&capture, &[("path", "/v1//x")]).is_empty(), "nobody");
    let two = LIMIT.replace("'ip'", "'path'\ncapture = '^/(\\w+)/(\\w+)'");
    assert_eq!(found(&two, &[("path", "/a/b/c")])[0].1, "a|b");
    let empty = LIMIT.replace("'ip'", "'path'\ncapture = '^/(a?)/(b?)'");
    assert!(found(&empty, &[("path", "//")]).is_empty(), "nobody of two groups");
    assert_eq!(found(&empty, &[("path", "//b")])[0].1, "b");
    let long = "é".repeat(600);
    assert_eq!(found(LIMIT, &[("ip", &long)])[0].1.chars().count(), 512);
}

#[test]
fn a_limit_is_for_calls_that_match_all_it_says() {
    let when = format!("{LIMIT}when = {{ method = '^POST$', path = '^/login' }}\n{}", {
        LIMIT.replace("'a'", "'b'") + "cost = { field = 'bytes' }"
    });
    let call = |method, path, bytes| {
        let values = [("ip", "i"), ("method", method), ("path", path), ("bytes", bytes)];
        let found = found(&when, &values);
        found.into_iter().map(|(limit, _, cost)| (limit, cost)).collect::<Vec<_>>()
    };
    assert_eq!(call("POST", "/login", "7"), [(0, 1), (1, 7)]);
    assert_eq!(call("GET", "/login", "x"), [(1, 1)]);
    assert_eq!(call("POST", "/", "99999999999999999"), [(1, tidegate_limiter::COST_MAX)]);
}

#[test]
fn the_most_literal_override_applies_and_of_equals_the_first() {
    let all = |patterns: &[&str]| {
        let one = |it: &&str| Override { pattern: (*it).to_owned(), limit: 1, window_ms: None };
        Overrides::new(patterns.iter().map(one).collect())
    };
    for (patterns, name, expected) in [
        (&["a*", "ab*", "*"][..], "abc", Some(1)),
        (&["a*c", "a*", "abc"], "abc", Some(2)),
        (&["a*c", "a*bc"], "abbc", Some(1)),
        (&["*x*", "*y*"], "xy", Some(0)),
        (&["a*b*c"], "a-b-b-c", Some(0)),
        (&["a*b*c"], "acb", None),
        (&["ab*bc"], "abc", None),
        (&["a"], "b", None),
    ] {
        assert_eq!(all(patterns).find(name), expected, "{patterns:?} {name}");
    }
}

#[test]
fn a_mistake_shows_names_and_obeys_nothing_in_them() {
    let limit = LIMIT.replace("'a'", "\"a\\u001b[31m\\u200bb\"");
    let why = parse(&limit.repeat(2)).unwrap_err();
    assert!(why.contains("there are two limits `a\\u{1b}[31m\\u{200b}b`"), "{why}");
}
