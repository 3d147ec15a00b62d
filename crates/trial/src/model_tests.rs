//! Trials against a model of two cells that is small enough to be obviously right.

use std::cell::Cell;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::rc::Rc;

use proptest::prelude::*;

use crate::{
    Call, Check, Decide, Fields, Fleet, OneProcess, Plan, Policy, Record, Source, StoreWork,
    Topology, TopologyFacts, TraceError, TraceFacts, Trial, Verdict,
};

/// A minute boundary.
const START_MS: u64 = 28_333_334 * 60_000;

/// The current window of a subject and the one before it.
#[derive(Debug, Default)]
struct Two {
    sequence: u64,
    current: u64,
    previous: u64,
}

/// Two cells for each subject, in plain numbers.
#[derive(Debug, Default)]
struct Model(HashMap<(String, String, u64), Two>);

impl Model {
    fn of(&mut self, check: &Check<'_>, at_ms: u64) -> &mut Two {
        let subject = (check.namespace.to_owned(), check.name.to_owned(), check.window_ms);
        let (two, sequence) = (self.0.entry(subject).or_default(), at_ms / check.window_ms);
        if sequence != two.sequence {
            let previous = if sequence == two.sequence + 1 { two.current } else { 0 };
            *two = Two { sequence, current: 0, previous };
        }
        two
    }

    /// The checks without room, a bit for each; if there are none, all is spent.
    fn decide(&mut self, checks: &[Check<'_>], at_ms: u64) -> u128 {
        let mut full = 0;
        for (at, check) in checks.iter().enumerate() {
            let left_ms = check.window_ms - at_ms % check.window_ms;
            let two = self.of(check, at_ms);
            let used = two.current + two.previous * left_ms / check.window_ms;
            full |= u128::from(used + check.cost > check.allowed) << at;
        }
        if full == 0 {
            checks.iter().for_each(|check| self.of(check, at_ms).current += check.cost);
        }
        full
    }
}

/// Decides by the model, and requires the same of somebody else.
struct Both<D> {
    other: D,
    model: Model,
    expected: HashMap<u64, u128>,
    settled: Rc<Cell<u64>>,
}

impl<D: Decide> Both<D> {
    fn compare(&mut self, verdicts: &[Verdict]) {
        for verdict in verdicts {
            let expected = self.expected.remove(&verdict.call).unwrap();
            assert_eq!((verdict.full, verdict.admitted), (expected, expected == 0), "{verdict:?}");
            self.settled.set(self.settled.get() + 1);
        }
    }
}

impl<D: Decide> Decide for Both<D> {
    fn asks_origin(&self) -> bool {
        self.other.asks_origin()
    }

    fn offer(&mut self, call: &Call<'_>, verdicts: &mut Vec<Verdict>) {
        let known = verdicts.len();
        self.other.offer(call, verdicts);
        let full = self.model.decide(call.checks, call.at_unix_ms);
        self.expected.insert(call.number, full);
        self.compare(&verdicts[known..]);
    }

    fn finish(&mut self, verdicts: &mut Vec<Verdict>) {
        let known = verdicts.len();
        self.other.finish(verdicts);
        self.compare(&verdicts[known..]);
    }

    fn store_work(&self) -> Option<StoreWork> {
        None
    }
}

/// A call: how long after the one before, and the numbers of its ip and its user.
type Coming = (u64, u64, u64);

/// Calls of a list.
struct Listed {
    fields: Fields,
    calls: std::vec::IntoIter<Coming>,
    at_ms: u64,
}

impl Source for Listed {
    fn next(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        let Some((gap_ms, ip, user)) = self.calls.next() else { return Ok(false) };
        // The longest gaps end where windows do.
        self.at_ms += gap_ms;
        if gap_ms >= 3_000 {
            self.at_ms = self.at_ms.next_multiple_of(1_000);
        }
        record.begin(&self.fields, START_MS + self.at_ms);
        for (name, value) in [("ip", format!("ip-{ip}")), ("user", format!("user-{user}"))] {
            if let Some(field) = self.fields.number(name) {
                record.set(field, &value);
            }
        }
        Ok(true)
    }

    fn facts(&self) -> TraceFacts {
        TraceFacts::default()
    }
}

/// By whom, how much, within how many seconds, at what cost, and how much for the second of them.
type Said = (usize, u64, u64, u64, u64);

fn policy(limits: &[Said]) -> Policy {
    let mut text = String::new();
    for (at, (by, limit, seconds, cost, other)) in limits.iter().enumerate() {
        let by = ["'ip'", "'user'", "['ip', 'user']"][by % 3];
        let _ = write!(
            text,
            "[[limit]]\nname = 'l{at}'\nby = {by}\nlimit = {limit}\nwindow = '{seconds}s'\n\
             cost = {cost}\n[[limit.override]]\nidentifier = '*-1'\nlimit = {other}\n"
        );
    }
    Policy::parse("p", &text).unwrap()
}

/// Takes calls through a trial; every verdict is the model's.
fn try_out(limits: &[Said], calls: Vec<Coming>, other: impl Decide + 'static) {
    let (settled, many) = (Rc::new(Cell::new(0)), calls.len() as u64);
    let (model, expected) = (Model::default(), HashMap::new());
    let both = Both { other, model, expected, settled: Rc::clone(&settled) };
    let plan = Plan {
        policies: vec![(policy(limits), Box::new(both))],
        suggest: None,
        topology: TopologyFacts::default(),
        top: 3,
    };
    let mut fields = Fields::default();
    let trial = Trial::new(plan, &mut fields);
    let mut source = Listed { fields, calls: calls.into_iter(), at_ms: 0 };
    trial.run(&mut source, &mut |_| {}).unwrap();
    assert_eq!(settled.get(), many, "every call was compared");
}

fn any_limits() -> impl Strategy<Value = Vec<Said>> {
    let limit = (0..3_usize, 0..15_u64, 1..8_u64, 1..4_u64, 0..20_u64);
    proptest::collection::vec(limit, 1..4)
}

/// `least_ms` apart.
fn any_calls(least_ms: u64) -> impl Strategy<Value = Vec<Coming>> {
    let gap = prop_oneof![4 => Just(0), 4 => 0..200_u64, 1 => 1_000..9_000_u64];
    let call = (gap, 0..3_u64, 0..3_u64);
    let call = call.prop_map(move |(gap_ms, ip, user)| (gap_ms.max(least_ms), ip, user));
    proptest::collection::vec(call, 1..150)
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn one_process_decides_as_two_cells_do(limits in any_limits(), calls in any_calls(0)) {
        try_out(&limits, calls, OneProcess::default());
    }
}

proptest! {
    #![proptest_config(cases(60))]

    /// Calls that do not overlap: there is nothing that a process could not know.
    #[test]
    fn a_fleet_of_one_process_decides_as_two_cells_do(
        limits in any_limits(), calls in any_calls(15), fast in any::<bool>()
    ) {
        let rules = [tidegate_limiter::Consistency::Bounded, tidegate_limiter::Consistency::Fast];
        let consistency = rules[usize::from(fast)];
        let topology = Topology { regions: 1, nodes: 1, consistency, ..Topology::default() };
        try_out(&limits, calls, Fleet::new(topology));
    }
}
