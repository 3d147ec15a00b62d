//! Trials of small traces, against what can be reckoned by hand.

use std::collections::HashMap;

use proptest::prelude::*;
use tidegate_limiter::{Now, Options, Seed, Table};

use super::*;
use crate::call::StoreWork;
use crate::findings::{Findings, TopologyFacts, TraceFacts};
use crate::policy::By;
use crate::trace::{Source, TraceError};

/// A minute boundary.
pub(crate) const START_MS: u64 = 28_333_334 * 60_000;

/// Requests from a list: milliseconds after the start, and the values of all fields.
pub(crate) struct Listed<'a> {
    pub(crate) fields: Fields,
    pub(crate) calls: std::slice::Iter<'a, (u64, Vec<String>)>,
}

impl Source for Listed<'_> {
    fn next(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        let Some((at, values)) = self.calls.next() else { return Ok(false) };
        record.begin(&self.fields, START_MS + at);
        for (field, value) in values.iter().enumerate() {
            record.set(field, value);
        }
        Ok(true)
    }

    fn facts(&self) -> TraceFacts {
        TraceFacts { source: "a list".to_owned(), ..TraceFacts::default() }
    }
}

/// Tries policies; the fields have to be those of the values, in their order.
pub(crate) fn tried(
    policies: Vec<(Policy, Box<dyn Decide>)>,
    suggest: Option<crate::suggest::SuggestOptions>,
    calls: &[(u64, Vec<String>)],
) -> Result<Findings, TraceError> {
    let plan = Plan { policies, suggest, topology: TopologyFacts::default(), top: 20 };
    let mut fields = Fields::default();
    let trial = Trial::new(plan, &mut fields);
    trial.run(&mut Listed { fields, calls: calls.iter() }, &mut |_| {})
}

pub(crate) fn one() -> Box<dyn Decide> {
    Box::new(OneProcess::default())
}

pub(crate) fn per_ip(limit: u64, window_ms: u64) -> Policy {
    Policy::one(By::field("ip"), limit, window_ms).unwrap()
}

fn calls(all: &[(u64, &str)]) -> Vec<(u64, Vec<String>)> {
    all.iter().map(|(at, ip)| (*at, vec![(*ip).to_owned()])).collect()
}

#[test]
fn every_count_of_a_small_trace_is_right() {
    let trace = calls(&[(0, "a"), (1, "a"), (2, "a"), (2, "b"), (30_000, "a"), (200_000, "a")]);
    let found = tried(vec![(per_ip(2, 60_000), one())], None, &trace).unwrap();
    let policy = &found.policies[0];
    assert_eq!((policy.totals.admitted, policy.totals.denied), (4, 2));
    assert_eq!((policy.totals.falsely_admitted, policy.totals.falsely_denied), (0, 0));
    let limit = &policy.limits[0];
    assert_eq!((limit.identifiers, limit.affected, limit.missing), (2, 1, 0));
    assert_eq!(limit.denied_histogram, [1, 0, 1, 0, 0, 0]);
    assert_eq!((limit.fullness.p50, limit.fullness.worst), (500, 1_000));
    let [affected] = policy.most_affected.as_slice() else { panic!("{policy:?}") };
    assert_eq!((affected.identifier.as_str(), affected.requests, affected.denied), ("a", 5, 2));
    assert_eq!(affected.first_denied_unix_ms, START_MS + 2);
    assert_eq!(policy.over_time.len(), 201);
    assert_eq!(policy.over_time[0].admitted, 3);
    assert_eq!((policy.stores, policy.waits), (None, None));
}

#[test]
fn what_two_windows_get_wrong_is_said() {
    // A whole limit in the last moment of a window, then as it fades: two limits in a minute.
    let mut trace = vec![(59_999, "a"); 100];
    trace.extend((0..60_000).map(|at| (60_000 + at, "a")));
    let found = tried(vec![(per_ip(100, 60_000), one())], None, &calls(&trace)).unwrap();
    let policy = &found.policies[0];
    assert!(policy.totals.falsely_admitted > 50, "{:?}", policy.totals);
    assert!(policy.limits[0].fullness.worst > 1_900, "{:?}", policy.limits[0].fullness);
    // One burst at the beginning of a window counts for nearly two.
    let mut trace = vec![(0, "a"); 100];
    trace.extend([(60_001, "a"); 2]);
    let found = tried(vec![(per_ip(100, 60_000), one())], None, &calls(&trace)).unwrap();
    assert_eq!(found.policies[0].totals.falsely_denied, 1);
    assert_eq!(found.policies[0].most_affected[0].falsely_denied, 1);
}

#[test]
fn several_limits_are_all_or_nothing() {
    let text = "[[limit]]\nname = 'ip'\nby = 'ip'\nlimit = 9\nwindow = '1m'\n\
                [[limit]]\nname = 'user'\nby = 'user'\nlimit = 1\nwindow = '1m'\n";
    let policy = Policy::parse("p", text).unwrap();
    let call = |ip: &str, user: &str| (0, vec![ip.to_owned(), user.to_owned()]);
    let trace = [call("i", "u"), call("i", "u"), call("i", ""), call("", "")];
    let found = tried(vec![(policy, one())], None, &trace).unwrap();
    let policy = &found.policies[0];
    assert_eq!((policy.totals.admitted, policy.totals.denied, policy.unlimited), (2, 1, 1));
    let [ip, user] = policy.limits.as_slice() else { panic!("{policy:?}") };
    assert_eq!((ip.totals.admitted, ip.totals.denied), (2, 0), "one was denied by the other");
    assert_eq!((user.totals.admitted, user.totals.denied, user.missing), (1, 1, 2));
    assert_eq!(ip.fullness.worst, 222, "2 of 9: nothing was spent for the denied one");
}

#[test]
fn a_call_that_no_server_takes_is_denied_and_counting_goes_on() {
    // No policy names such a limit; whoever decides is asked all the same.
    let check = |limit, namespace, allowed| {
        let (identifier, name, window_ms, cost) = (0, "i", 60_000, 1);
        Check { limit, namespace, identifier, name, window_ms, allowed, cost }
    };
    let (good, bad) = (check(0, "good", 1), check(1, "", 1_000));
    let mut verdicts = Vec::new();
    let mut one = OneProcess::default();
    for (number, checks) in (0..).zip([&[bad][..], &[bad, good], &[good, bad], &[good], &[good]]) {
        let call = Call { number, at_unix_ms: START_MS, origin: None, checks };
        one.offer(&call, &mut verdicts);
    }
    let said: Vec<_> = verdicts.iter().map(|it| (it.call, it.admitted, it.full)).collect();
    let refused = [(0, false, 1), (1, false, 3), (2, false, 3)];
    assert_eq!(said[..3], refused, "and nothing is spent");
    assert_eq!(said[3..], [(3, true, 0), (4, false, 1)]);
}

#[test]
fn nobody_is_not_blamed_on_another_limit() {
    let text = "[[limit]]\nname = 'cap'\nby = 'path'\nlimit = 9\nwindow = '1m'\n\
                capture = '^/(a?)/(b?)'\n\
                [[limit]]\nname = 'ip'\nby = 'ip'\nlimit = 3\nwindow = '1m'\n";
    let trace: Vec<_> = (0..5).map(|at| (at, vec!["//".to_owned(), "i".to_owned()])).collect();
    let found = tried(vec![(Policy::parse("p", text).unwrap(), one())], None, &trace).unwrap();
    let [cap, ip] = found.policies[0].limits.as_slice() else { panic!("{found:?}") };
    assert_eq!((cap.totals.denied, ip.totals.denied), (0, 2));
    let totals = found.policies[0].totals;
    assert_eq!((totals.admitted, totals.denied, totals.falsely_denied), (3, 2, 0));
}

/// Answers the first call only.
struct Forgets(OneProcess);

impl Decide for Forgets {
    fn offer(&mut self, call: &Call<'_>, verdicts: &mut Vec<Verdict>) {
        if call.number == 0 {
            self.0.offer(call, verdicts);
        }
    }

    fn finish(&mut self, _: &mut Vec<Verdict>) {}

    fn store_work(&self) -> Option<StoreWork> {
        None
    }
}

#[test]
fn calls_without_a_verdict_are_an_error_not_a_lower_count() {
    let forgets = Box::new(Forgets(OneProcess::default()));
    let trace = calls(&[(0, "a"), (1, "a"), (2, "b")]);
    let why = tried(vec![(per_ip(1, 60_000), forgets)], None, &trace).unwrap_err().0;
    assert!(why.contains("2 of 3 requests were not decided"), "{why}");
}

#[test]
fn overrides_change_the_limit_and_the_window() {
    let text = "[[limit]]\nname = 'ip'\nby = 'ip'\nlimit = 1\nwindow = '1m'\n\
                [[limit.override]]\nidentifier = 'v*'\nlimit = 2\nwindow = '1s'\n";
    let policy = Policy::parse("p", text).unwrap();
    let trace = calls(&[(0, "x"), (0, "v"), (0, "v"), (0, "v"), (5_000, "v"), (5_000, "x")]);
    let found = tried(vec![(policy, one())], None, &trace).unwrap();
    let denied: HashMap<_, _> = found.policies[0]
        .most_affected
        .iter()
        .map(|it| (it.identifier.as_str(), (it.allowed, it.denied)))
        .collect();
    assert_eq!(denied, HashMap::from([("x", (1, 1)), ("v", (2, 1))]));
}

#[test]
fn a_comparison_names_who_changes() {
    let trace = calls(&[(0, "a"), (0, "a"), (0, "a"), (0, "b"), (0, "b"), (0, "c")]);
    let (mut current, mut candidate) = (per_ip(2, 60_000), per_ip(1, 60_000));
    (current.name, candidate.name) = ("current".to_owned(), "candidate".to_owned());
    let policies = vec![(current.clone(), one()), (candidate.clone(), one())];
    let change = tried(policies, None, &trace).unwrap().comparison.unwrap();
    assert_eq!((change.newly_limited, change.limited_by_both), (1, 1));
    assert_eq!((change.newly_denied_calls, change.newly_admitted_calls), (2, 0));
    assert_eq!(change.newly_limited_first[0].identifier, "b");
    let back = vec![(candidate, one()), (current, one())];
    let change = tried(back, None, &trace).unwrap().comparison.unwrap();
    assert_eq!((change.newly_limited, change.no_longer_limited), (0, 1));
    let gone = &change.no_longer_limited_first[0];
    assert_eq!((gone.identifier.as_str(), gone.denied_before, gone.denied_after), ("b", 1, 0));
    assert_eq!((change.newly_denied_calls, change.newly_admitted_calls), (0, 2));
}

/// Limits by ip, with their names and how much they allow.
fn limits(named: &[(&str, u64)]) -> Policy {
    let one = |(name, limit): &(&str, u64)| {
        format!("[[limit]]\nname = '{name}'\nby = 'ip'\nlimit = {limit}\nwindow = '1m'\n")
    };
    Policy::parse("p", &named.iter().map(one).collect::<String>()).unwrap()
}

#[test]
fn an_identifier_counts_once_however_many_limits_deny_it() {
    let trace = calls(&[(0, "a"), (0, "a"), (0, "a"), (0, "a"), (0, "b"), (0, "b"), (0, "c")]);
    let before = limits(&[("wide", 9)]);
    // The second of them denies the second of b, both deny what a has above 2.
    let after = limits(&[("two", 2), ("one", 1), ("nine", 9)]);
    let found = tried(vec![(before, one()), (after, one())], None, &trace).unwrap();
    let policy = &found.policies[1];
    assert_eq!((policy.affected, policy.identifiers), (2, 3));
    assert_eq!((found.policies[0].affected, found.policies[0].identifiers), (0, 3));
    let change = found.comparison.unwrap();
    assert_eq!((change.newly_limited, change.newly_limited_first.len()), (2, 2));
    let first = &change.newly_limited_first[0];
    assert_eq!((first.identifier.as_str(), first.limit.as_str()), ("a", "one"), "denied most");
    assert_eq!((first.requests, first.denied_after), (4, 3));
}

#[test]
fn a_limit_with_another_name_changes_nothing() {
    let trace = calls(&[(0, "a"), (0, "a"), (0, "b"), (0, "b"), (0, "c")]);
    let policies = vec![(limits(&[("old", 1)]), one()), (limits(&[("new", 1)]), one())];
    let change = tried(policies, None, &trace).unwrap().comparison.unwrap();
    assert_eq!((change.newly_limited, change.no_longer_limited), (0, 0));
    assert_eq!((change.limited_by_both, change.newly_denied_calls), (2, 0));
}

#[test]
fn a_field_that_is_nowhere_is_an_error() {
    let trace: Vec<_> = (0..1_001).map(|at| (at, vec![String::new()])).collect();
    let why = tried(vec![(per_ip(1, 60_000), one())], None, &trace).unwrap_err().0;
    assert!(why.contains("the limit `per-ip` needs `ip`"), "{why}");
    // The same for the other keys that name a field; here it is the second that none has.
    let by_ip = "[[limit]]\nname = 'l'\nby = 'ip'\nlimit = 1\nwindow = '1m'\n";
    let trace = calls(&[(0, "i"), (1, "i"), (2, "i")]);
    for (more, key) in
        [("when = { metod = 'POST' }", "when"), ("cost = { field = 'metod' }", "cost")]
    {
        let policy = Policy::parse("p", &format!("{by_ip}{more}")).unwrap();
        let why = tried(vec![(policy, one())], None, &trace).unwrap_err().0;
        let expected = format!("of the trace in `{key}`");
        assert!(why.contains("the limit `l` needs `metod`") && why.contains(&expected), "{why}");
    }
    let policy = Policy::parse("p", &format!("{by_ip}when = {{ user = '^$' }}")).unwrap();
    let found = tried(vec![(policy, one())], None, &trace).unwrap();
    assert_eq!(found.policies[0].totals.denied, 2, "those without the field are meant");
    let [warning] = found.warnings.as_slice() else { panic!("{found:?}") };
    assert!(warning.contains("looks at `user` in `when`, and no request has it"), "{warning}");
}

#[test]
fn a_field_that_comes_late_is_no_error() {
    let user = |at: u64| if at < 1_500 { "" } else { "ann" };
    let trace: Vec<_> = (0..1_502).map(|at| (at, vec![user(at).to_owned()])).collect();
    let by_user = || Policy::one(By::field("user"), 1, 60_000).unwrap();
    let found = tried(vec![(by_user(), one())], None, &trace).unwrap();
    let totals = found.policies[0].totals;
    assert_eq!((totals.admitted, totals.denied, found.policies[0].unlimited), (1, 1, 1_500));
    assert!(found.warnings[0].contains("1500 of 1502 requests lack it"), "{:?}", found.warnings);
    // The only login lacks its field, others have it.
    let text = "[[limit]]\nname = 'l'\nby = 'user'\nlimit = 1\nwindow = '1m'\n\
                when = { path = '^/login' }\n";
    let call = |user: &str, path: &str| (0, vec![user.to_owned(), path.to_owned()]);
    let trace = [call("", "/login"), call("ann", "/")];
    let policy = Policy::parse("p", text).unwrap();
    let found = tried(vec![(policy, one())], None, &trace).unwrap();
    assert_eq!(found.policies[0].limits[0].missing, 1);
    assert!(found.warnings[0].contains("1 of 1 requests lack it"), "{:?}", found.warnings);
}

#[test]
fn a_cost_that_is_no_number_is_a_warning() {
    let text = "[[limit]]\nname = 'l'\nby = 'ip'\nlimit = 9\nwindow = '1m'\n\
                cost = { field = 'bytes' }\n";
    let costs = ["-5", "12.5", "3", "", "0"];
    let trace: Vec<_> = costs.map(|it| (0, vec!["i".to_owned(), it.to_owned()])).to_vec();
    let policy = Policy::parse("p", text).unwrap();
    let found = tried(vec![(policy, one())], None, &trace).unwrap();
    let [warning] = found.warnings.as_slice() else { panic!("{found:?}") };
    assert!(
        warning.contains("takes its cost from `bytes`, and 3 of 5 requests have no whole number"),
        "{warning}"
    );
}

#[test]
fn a_limit_that_hardly_ever_applies_is_a_warning() {
    let text = "[[limit]]\nname = 'ip'\nby = 'ip'\nlimit = 9\nwindow = '1m'\n\
                [[limit]]\nname = 'user'\nby = 'user'\nlimit = 9\nwindow = '1m'\n\
                [[limit]]\nname = 'never'\nby = 'ip'\nlimit = 9\nwindow = '1m'\n\
                when = { user = '^x$' }\n\
                [[limit]]\nname = 'nobody'\nby = 'ip'\nlimit = 9\nwindow = '1m'\n\
                capture = '^(x)'\n";
    let policy = Policy::parse("p", text).unwrap();
    let trace = |with: u64| {
        let user = move |at| if at < with { "ann" } else { "" };
        let call = move |at| (at, vec!["i".to_owned(), user(at).to_owned()]);
        (0..1_000).map(call).collect::<Vec<_>>()
    };
    let said = |with| {
        let policies = vec![(policy.clone(), one()), (policy.clone(), one())];
        tried(policies, None, &trace(with)).unwrap().warnings
    };
    let [user, never, nobody] = &*said(9) else { panic!("{:?}", said(9)) };
    assert!(user.contains("`user` needs `user`, and 991 of 1000 requests lack it"), "{user}");
    assert!(never.contains("none matches its `when`"), "{never}");
    assert!(nobody.contains("its `capture` finds nothing"), "{nobody}");
    assert_eq!(said(10).len(), 2, "99 % is not more than 99 %");
}

/// Decides like one process, and says so some calls later, the later ones first.
struct Late {
    one: OneProcess,
    held: Vec<Verdict>,
}

impl Decide for Late {
    fn offer(&mut self, call: &Call<'_>, verdicts: &mut Vec<Verdict>) {
        self.one.offer(call, &mut self.held);
        if self.held.len() > 5 {
            verdicts.extend(self.held.drain(2..).rev());
        }
    }

    fn finish(&mut self, verdicts: &mut Vec<Verdict>) {
        verdicts.append(&mut self.held);
    }

    fn store_work(&self) -> Option<StoreWork> {
        Some(StoreWork::default())
    }
}

/// Not too many: each is a whole trial.
pub(crate) fn some() -> ProptestConfig {
    ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(some())]

    #[test]
    fn verdicts_that_come_late_change_nothing(
        steps in prop::collection::vec((0..3_000_u64, 0..6_u8), 1..200),
        limit in 1..6_u64,
    ) {
        let trace = trace(&steps);
        let late = Late { one: OneProcess::default(), held: Vec::new() };
        let at_once = tried(vec![(per_ip(limit, 5_000), one())], None, &trace).unwrap();
        let later = tried(vec![(per_ip(limit, 5_000), Box::new(late))], None, &trace).unwrap();
        let strip = |mut found: Findings| {
            found.policies[0].waits = None;
            found.policies[0].stores = None;
            found
        };
        prop_assert_eq!(strip(at_once), strip(later));
    }

    #[test]
    fn verdicts_are_those_of_production(
        steps in prop::collection::vec((0..3_000_u64, 0..6_u8), 1..200),
        limit in 1..6_u64,
    ) {
        let trace = trace(&steps);
        let found = tried(vec![(per_ip(limit, 5_000), one())], None, &trace).unwrap();
        let table = Table::new(Options::default(), Seed::from_bytes([3; 32]));
        let mut denied = 0;
        for (at, values) in &trace {
            let check = Check {
                limit: 0, namespace: "other", identifier: 0, name: &values[0],
                window_ms: 5_000, allowed: limit, cost: 1,
            };
            let request = super::one::request(&check).unwrap();
            let now = Now::new(START_MS + at, 77 + at);
            denied += u64::from(!table.decide(&request, now).admitted());
        }
        prop_assert_eq!(found.policies[0].totals.denied, denied);
    }
}

pub(crate) fn trace(steps: &[(u64, u8)]) -> Vec<(u64, Vec<String>)> {
    let mut now = 0;
    let step = |(gap, who): &(u64, u8)| {
        // Mostly close together, now and then a pause.
        now += if gap % 7 == 0 { *gap } else { gap / 20 };
        (now, vec![format!("{who}")])
    };
    steps.iter().map(step).collect()
}
