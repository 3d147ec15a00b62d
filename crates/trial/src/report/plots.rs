//! Admitted and denied over time. The script draws; the words beside it say the same.

use super::html::{Cell, Html, Table};
use super::words::{count, length, moment};
use crate::findings::{Findings, PolicyFindings, Slice};

/// As many rows as one reads: the slices are added up to this many.
const ROWS_MAX: usize = 24;

/// The section.
pub(super) fn section(html: &mut Html, findings: &Findings) {
    if findings.policies.is_empty() {
        return;
    }
    html.raw("<section id=\"time\" aria-labelledby=\"time-head\">\n");
    html.raw("<h2 id=\"time-head\">Over time</h2>\n");
    if findings.policies.iter().all(|policy| policy.over_time.is_empty()) {
        html.raw("<p>No call came.</p>\n</section>\n");
        return;
    }
    denied(html, &findings.policies);
    for (index, policy) in findings.policies.iter().enumerate() {
        html.raw("<h3>Admitted and denied: ").text(&policy.name).raw("</h3>\n");
        html.raw("<figure data-plot=\"stack\"").attribute("data-of", index).raw(">\n");
        legend(html, &[("denied", "denied"), ("admitted", "admitted")]);
        plot(html, format_args!("Calls admitted and denied by {} over time", policy.name));
        html.element(
            "figcaption",
            most(policy, |slice| slice.admitted.saturating_add(slice.denied), "calls"),
        );
        html.raw("</figure>\n<details><summary>The same in a table</summary>\n");
        table(html, policy);
        html.raw("</details>\n");
    }
    html.raw("</section>\n");
}

/// What was denied, on a scale of its own: beside all that was admitted it could not be seen.
fn denied(html: &mut Html, policies: &[PolicyFindings]) {
    html.raw("<h3>Denied</h3>\n<figure data-plot=\"denied\">\n");
    match policies {
        [current, candidate, ..] => {
            legend(html, &[("before", &current.name), ("denied", &candidate.name)]);
        }
        _ => legend(html, &[("denied", "denied")]),
    }
    plot(html, "Calls denied over time");
    html.raw("<figcaption>");
    for policy in policies {
        html.text(most(policy, |slice| slice.denied, "denied calls")).raw(" ");
    }
    html.raw("</figcaption>\n</figure>\n");
}

/// Which colour is what, and room for what stands under the pointer.
pub(super) fn legend(html: &mut Html, names: &[(&'static str, &str)]) {
    html.raw("<p class=\"legend\">");
    for (class, name) in names {
        html.raw("<span><i class=\"").raw(class).raw("\"></i>").text(name).raw("</span> ");
    }
    html.raw("<output></output></p>\n");
}

/// Where the script draws.
pub(super) fn plot(html: &mut Html, label: impl std::fmt::Display) {
    html.raw("<div class=\"plot\" tabindex=\"0\" role=\"img\"").attribute("aria-label", label);
    html.raw("><noscript>The plot needs JavaScript; the words below do not.</noscript></div>\n");
}

/// The fullest slice, in words.
fn most(policy: &PolicyFindings, number: fn(&Slice) -> u64, what: &str) -> String {
    let most = policy.over_time.iter().rev().max_by_key(|slice| number(slice));
    match most.map(|slice| (number(slice), slice.from_unix_ms)) {
        None | Some((0, _)) => format!("{}: no {what}.", policy.name),
        Some((number, from)) => format!(
            "{}: the most {what} in {} were {}, from {}.",
            policy.name,
            length(policy.slice_ms),
            count(number),
            moment(from)
        ),
    }
}

/// The slices, added up to few rows.
fn table(html: &mut Html, policy: &PolicyFindings) {
    let together = policy.over_time.len().div_ceil(ROWS_MAX).max(1);
    let rows = policy.over_time.chunks(together).filter_map(|slices| {
        let from = slices.first()?.from_unix_ms;
        let sum = |number: fn(&Slice) -> u64| {
            slices.iter().fold(0, |sum: u64, slice| sum.saturating_add(number(slice)))
        };
        let (admitted, denied) = (sum(|slice| slice.admitted), sum(|slice| slice.denied));
        Some(vec![
            Cell::Words(moment(from)),
            Cell::Number(count(admitted), admitted),
            Cell::Number(count(denied), denied),
        ])
    });
    let each = policy.slice_ms.saturating_mul(u64::try_from(together).unwrap_or(u64::MAX));
    let caption = format!("{}, in steps of {}", policy.name, length(each));
    let (heads, rows) = (["From", "Admitted", "Denied"], rows.collect());
    html.table(Table { caption: &caption, sortable: false, heads: &heads, rows });
}
