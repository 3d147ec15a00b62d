use proptest::prelude::*;

use super::*;

fn numbered(pattern: &str, number: u64) -> Arc<Override> {
    Arc::new(Override {
        id: format!("rlor_{number:09}"),
        pattern: pattern.to_owned(),
        limit: Limit::new(number),
        window: Window::from_millis(60_000).unwrap(),
        created_ms: number,
    })
}

/// Made one after the other.
fn overrides(patterns: &[&str]) -> Overrides {
    Overrides::new(patterns.iter().zip(1..).map(|(pattern, number)| numbered(pattern, number)))
}

fn found<'a>(overrides: &'a Overrides, identifier: &str) -> Option<&'a str> {
    overrides.find(identifier).map(|one| one.pattern.as_str())
}

#[test]
fn exact_beats_prefix_beats_length_beats_age() {
    let all = overrides(&["*", "pre*", "premium_*", "premium_*_x", "*_x", "premium_1_x", "p*m*x"]);
    assert_eq!(found(&all, "premium_1_x"), Some("premium_1_x"));
    assert_eq!(found(&all, "premium_2_x"), Some("premium_*_x"));
    assert_eq!(found(&all, "premium_2"), Some("premium_*"));
    assert_eq!(found(&all, "preview"), Some("pre*"));
    assert_eq!(found(&all, "p.m.x"), Some("p*m*x"));
    assert_eq!(found(&all, "a_x"), Some("*_x"));
    assert_eq!(found(&all, "a"), Some("*"));
    assert_eq!(found(&all, ""), Some("*"));
    // Of the same length after the same prefix: the older one.
    assert_eq!(found(&overrides(&["a*bc*d", "a*b*cd"]), "abccd"), Some("a*bc*d"));
    assert_eq!(found(&overrides(&["a*b*cd", "a*bc*d"]), "abccd"), Some("a*b*cd"));
}

#[test]
fn only_the_star_is_special() {
    let all = overrides(&["a.c", "[ab]*", "?*", "a\n*", "ü*ß", "literal*star"]);
    assert_eq!(found(&all, "abc"), None);
    assert_eq!(found(&all, "a.c"), Some("a.c"));
    assert_eq!(found(&all, "[ab]"), Some("[ab]*"));
    assert_eq!(found(&all, "a"), None);
    assert_eq!(found(&all, "?x"), Some("?*"));
    assert_eq!(found(&all, "a\nb\nc"), Some("a\n*"), "a star spans lines");
    assert_eq!(found(&all, "über\nß"), Some("ü*ß"), "and any character");
    assert_eq!(found(&all, "literal*star"), Some("literal*star"));
    assert_eq!(found(&all, "Literal*star"), None, "case matters");
}

#[test]
fn pieces_do_not_overlap() {
    assert_eq!(found(&overrides(&["ab*ba"]), "aba"), None);
    assert_eq!(found(&overrides(&["ab*ba"]), "abba"), Some("ab*ba"));
    assert_eq!(found(&overrides(&["a*bb*b"]), "abb"), None);
    assert_eq!(found(&overrides(&["a*bb*b"]), "abbb"), Some("a*bb*b"));
    assert_eq!(found(&overrides(&["**"]), ""), Some("**"));
    assert_eq!(found(&overrides(&["a*", "a***", "a**"]), "ab"), Some("a***"), "the longest");
}

#[test]
fn a_search_does_not_grow_with_the_overrides() {
    // Ten thousand that share nothing, and ten thousand nested ones: were each of them tried, the
    // searches below would take minutes in a test build.
    let apart = (0..10_000).map(|n| format!("customer-{n}-*"));
    let ends = (0..10_000).map(|n| format!("*@tenant-{n}.example"));
    let all: Vec<String> = apart.chain(ends).chain((0..500).map(|n| "x".repeat(n) + "*")).collect();
    let all = overrides(&all.iter().map(String::as_str).collect::<Vec<_>>());
    for number in 0..50_000 {
        let number = number % 10_000;
        let expected = format!("customer-{number}-*");
        assert_eq!(found(&all, &format!("customer-{number}-a@b")), Some(expected.as_str()));
        let expected = format!("*@tenant-{number}.example");
        assert_eq!(found(&all, &format!("ann@tenant-{number}.example")), Some(expected.as_str()));
    }
    assert_eq!(found(&all, &"x".repeat(600)).map(str::len), Some(500));
}

#[test]
fn a_pattern_that_would_make_others_backtrack_is_read_once() {
    let bomb = "a*".repeat(1_000) + "b";
    let all = overrides(&[&bomb]);
    assert_eq!(found(&all, &"a".repeat(2_000)), None);
    assert_eq!(found(&all, &("a".repeat(2_000) + "b")), Some(bomb.as_str()));
    assert_eq!(all.globs(), 1);
}

/// The rule as it is written down, tried on all.
fn slowly<'a>(patterns: &'a [String], identifier: &str) -> Option<&'a str> {
    fn matches(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.split_first() {
            None => text.is_empty(),
            Some((b'*', rest)) => (0..=text.len()).any(|skip| matches(rest, &text[skip..])),
            Some((byte, rest)) => {
                text.split_first().is_some_and(|(first, text)| first == byte && matches(rest, text))
            }
        }
    }
    if let Some(exact) = patterns.iter().find(|pattern| *pattern == identifier) {
        return Some(exact);
    }
    let rank = |(at, pattern): &(usize, &String)| {
        (Reverse(pattern.find('*')), Reverse(pattern.len()), *at)
    };
    let all = patterns.iter().enumerate().filter(|(_, pattern)| pattern.contains('*'));
    let fitting = all.filter(|(_, pattern)| matches(pattern.as_bytes(), identifier.as_bytes()));
    fitting.min_by_key(rank).map(|(_, pattern)| pattern.as_str())
}

fn many() -> ProptestConfig {
    ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(many())]

    #[test]
    fn the_quick_search_finds_what_the_slow_one_does(
        patterns in prop::collection::btree_set("[ab*]{0,6}", 1..12).prop_shuffle_set(),
        identifiers in prop::collection::vec("[ab*]{0,8}", 1..12),
    ) {
        let all = overrides(&patterns.iter().map(String::as_str).collect::<Vec<_>>());
        for identifier in &identifiers {
            let slow = slowly(&patterns, identifier);
            prop_assert_eq!(found(&all, identifier), slow, "{}", identifier);
        }
    }
}

/// A set in any order.
trait Shuffled {
    fn prop_shuffle_set(self) -> BoxedStrategy<Vec<String>>;
}

impl<S: Strategy<Value = std::collections::BTreeSet<String>> + 'static> Shuffled for S {
    fn prop_shuffle_set(self) -> BoxedStrategy<Vec<String>> {
        self.prop_map(|set| set.into_iter().collect::<Vec<_>>()).prop_shuffle().boxed()
    }
}

proptest! {
    #![proptest_config(many())]

    /// `tidegate simulate` takes what can be set, and refuses the rest.
    #[test]
    fn a_trial_takes_the_patterns_that_can_be_set(
        patterns in prop::collection::vec("[ab*]{0,12}", 0..4),
    ) {
        let mut text = "[[limit]]\nname = 'a'\nby = 'ip'\nlimit = 5\nwindow = '1m'\n".to_owned();
        for pattern in &patterns {
            text += &format!("[[limit.override]]\nidentifier = '{pattern}'\nlimit = 9\n");
        }
        let distinct: HashSet<&String> = patterns.iter().collect();
        let settable = distinct.len() == patterns.len()
            && !patterns.iter().any(|it| it.is_empty() || has_too_many_pieces(it));
        prop_assert_eq!(tidegate_trial::Policy::parse("p", &text).is_ok(), settable);
        prop_assert_eq!(tidegate_trial::GLOBS_MAX, GLOBS_MAX);
    }

    /// `tidegate simulate` searches one by one what is searched quickly here.
    #[test]
    fn a_trial_finds_the_same_override(
        patterns in prop::collection::vec("[ab*]{1,5}", 0..8),
        identifier in "[ab]{0,6}",
    ) {
        let mut seen = HashSet::new();
        let patterns: Vec<String> =
            patterns.into_iter().filter(|it| seen.insert(it.clone())).collect();
        let one = |pattern: &String| tidegate_trial::Override {
            pattern: pattern.clone(),
            limit: 1,
            window_ms: None,
        };
        let tried = tidegate_trial::Overrides::new(patterns.iter().map(one).collect());
        let all: Vec<&str> = patterns.iter().map(String::as_str).collect();
        let expected = found(&overrides(&all), &identifier).map(str::to_owned);
        let by_trial = tried.find(&identifier).and_then(|at| patterns.get(at)).cloned();
        prop_assert_eq!(by_trial, expected);
    }
}
