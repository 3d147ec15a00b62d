//! What should be known before the numbers are believed.

use crate::policy::{Limit, Policy, Rules, Seen};

/// A limit says little if more than this share of its requests, in hundredths, lack its field.
const MISSING_PERCENT: u64 = 99;

/// What is odd about how the limits of a policy met the trace.
pub(super) fn warnings(policy: &Policy, rules: &Rules) -> Vec<String> {
    let limits = policy.limits.iter().zip(rules.seen());
    limits.filter_map(|(limit, seen)| warning(limit, seen)).collect()
}

fn warning(limit: &Limit, seen: Seen) -> Option<String> {
    let (name, Seen { concerned, missing, applied }) = (&limit.name, seen);
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
    let none = format!("the limit `{name}` applies to nobody: no request matches its `capture`");
    (applied == 0).then_some(none)
}
