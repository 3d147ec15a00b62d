//! What should be known before the numbers are believed.

use crate::policy::{Cost, Limit, Policy, Rules, Seen};

/// A limit says little if more than this share of its requests, in hundredths, lack its field.
const MISSING_PERCENT: u64 = 99;

/// What is odd about how the limits of a policy met the trace.
pub(super) fn warnings(policy: &Policy, rules: &Rules) -> Vec<String> {
    let mut all = Vec::new();
    for (at, (limit, seen)) in policy.limits.iter().zip(rules.seen()).enumerate() {
        all.extend(whom(limit, seen));
        all.extend(price(limit, seen));
        let empty = rules.always_empty(at).filter_map(|at| limit.when.get(at));
        all.extend(empty.map(|(field, _)| {
            let name = &limit.name;
            format!("the limit `{name}` looks at `{field}` in `when`, and no request has it")
        }));
    }
    all
}

/// If a limit is for hardly anybody.
fn whom(limit: &Limit, seen: Seen) -> Option<String> {
    let (name, Seen { concerned, missing, applied, .. }) = (&limit.name, seen);
    if concerned == 0 {
        return Some(format!("the limit `{name}` is for no request: none matches its `when`"));
    }
    if missing.saturating_mul(100) > concerned.saturating_mul(MISSING_PERCENT) {
        let fields: Vec<String> = limit.by.fields.iter().map(|it| format!("`{it}`")).collect();
        let fields = fields.join(" and ");
        return Some(format!(
            "the limit `{name}` needs {fields}, and {missing} of {concerned} requests lack it: it \
             says little"
        ));
    }
    let none = format!("the limit `{name}` applies to nobody: its `capture` finds nothing");
    (applied == 0).then_some(none)
}

/// If calls cost 1 because they do not say what they cost.
fn price(limit: &Limit, seen: Seen) -> Option<String> {
    let (name, Seen { applied, unpriced, .. }) = (&limit.name, seen);
    let Cost::Field(field) = &limit.cost else { return None };
    let some = format!(
        "the limit `{name}` takes its cost from `{field}`, and {unpriced} of {applied} requests \
         have no whole number there: each of them costs 1"
    );
    (unpriced > 0).then_some(some)
}
