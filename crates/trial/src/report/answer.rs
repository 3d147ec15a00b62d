//! The answer: whom would this hurt?

use super::html::{Cell, Html, Table};
use super::words::{count, counted, length, share, span};
use crate::findings::{Changed, Comparison, Findings, PolicyFindings};

/// How identifiers are counted.
const ONCE: &str = "An identifier counts once, however many limits on the same fields it met.";

/// The answer in one sentence.
pub(super) fn sentence(findings: &Findings) -> String {
    match (findings.policies.as_slice(), &findings.comparison) {
        ([current, candidate, ..], Some(comparison)) => {
            let names = format!("{} against {}", candidate.name, current.name);
            let newly = comparison.newly_limited;
            let newly = match newly {
                0 => "nobody newly limited".to_owned(),
                _ => format!("{} newly limited", counted(newly, "identifier", "identifiers")),
            };
            match comparison.no_longer_limited {
                0 => format!("{names}: {newly}"),
                fewer => format!("{names}: {newly}, {} no longer", count(fewer)),
            }
        }
        ([policy, ..], _) => alone(policy),
        ([], _) => match findings.suggestions.first() {
            Some(first) => format!(
                "A limit of {} in {}, {}, would have limited {} of {}",
                count(first.limit),
                length(first.window_ms),
                first.by,
                count(first.affected),
                counted(first.identifiers, "identifier", "identifiers")
            ),
            None => "No policy was tried".to_owned(),
        },
    }
}

/// The answer for one policy.
fn alone(policy: &PolicyFindings) -> String {
    let calls = calls(policy);
    if policy.totals.denied == 0 {
        return format!("{} would have denied none of {}", name(policy), counted_calls(calls));
    }
    let (affected, identifiers) = affected(policy);
    format!(
        "{} would have denied {} of calls and touched {} of {}",
        name(policy),
        share(policy.totals.denied, calls),
        count(affected),
        counted(identifiers, "identifier", "identifiers")
    )
}

/// How the sentence calls the policy.
fn name(policy: &PolicyFindings) -> String {
    if policy.name.is_empty() { "This policy".to_owned() } else { policy.name.clone() }
}

/// Calls that a limit applied to.
fn calls(policy: &PolicyFindings) -> u64 {
    policy.totals.admitted.saturating_add(policy.totals.denied)
}

fn counted_calls(number: u64) -> String {
    counted(number, "call", "calls")
}

/// Identifiers denied at least once and identifiers seen.
const fn affected(policy: &PolicyFindings) -> (u64, u64) {
    (policy.affected, policy.identifiers)
}

/// The head of the page.
pub(super) fn headline(html: &mut Html, findings: &Findings) {
    html.raw("<p class=\"product\">tidegate simulate</p>\n");
    html.element("h1", sentence(findings));
    let trace = &findings.trace;
    html.raw("<p class=\"lede\">Tried on ").text(counted(trace.requests, "request", "requests"));
    html.raw(" of ").foreign(&trace.source);
    if trace.requests > 0 {
        let lasts = trace.last_unix_ms.saturating_sub(trace.first_unix_ms);
        html.raw(", from ").moment(trace.first_unix_ms).raw(" to ");
        html.moment(trace.last_unix_ms).raw(" (").text(span(lasts)).raw(")");
    }
    html.raw(".");
    if !findings.topology.summary.is_empty() {
        html.raw(" Decided by ").text(&findings.topology.summary).raw(".");
    }
    html.raw("</p>\n");
    for warning in &findings.warnings {
        html.raw("<p role=\"note\"><strong>Mind:</strong> ").text(warning).raw(".</p>\n");
    }
    html.raw("<nav aria-label=\"On this page\">");
    let parts = [
        (!findings.policies.is_empty(), "<a href=\"#time\">Over time</a> "),
        (!findings.policies.is_empty(), "<a href=\"#limits\">Limits</a> "),
        (!findings.policies.is_empty(), "<a href=\"#affected\">Most affected</a> "),
        (!findings.suggestions.is_empty(), "<a href=\"#suggested\">Suggested limits</a> "),
        (true, "<a href=\"#where\">Where it was decided</a> <a href=\"#trace\">What was read</a> "),
        (true, "<a href=\"#reading\">How to read this</a>"),
    ];
    for (_, link) in parts.into_iter().filter(|(wanted, _)| *wanted) {
        html.raw(link);
    }
    html.raw("</nav>\n");
}

/// The main numbers, and what the candidate changes.
pub(super) fn section(html: &mut Html, findings: &Findings) {
    if findings.policies.is_empty() {
        return;
    }
    html.raw("<section id=\"answer\" aria-labelledby=\"answer-head\">\n");
    match (findings.policies.as_slice(), &findings.comparison) {
        ([current, candidate, ..], Some(comparison)) => {
            html.raw("<h2 id=\"answer-head\">What ").text(&candidate.name).raw(" changes</h2>\n");
            changes(html, comparison);
            say_once(html, &[current, candidate]);
            side_by_side(html, &[current, candidate]);
            changed(
                html,
                "Newly limited",
                &comparison.newly_limited_first,
                comparison.newly_limited,
            );
            let fewer = (&comparison.no_longer_limited_first, comparison.no_longer_limited);
            changed(html, "No longer limited", fewer.0, fewer.1);
        }
        (policies, _) => {
            html.raw("<h2 id=\"answer-head\">In short</h2>\n");
            policies.iter().for_each(|policy| figures(html, policy));
        }
    }
    html.raw("</section>\n");
}

/// One of the large numbers.
fn figure(html: &mut Html, label: &'static str, number: String, note: String) {
    html.raw("<div><dt>").raw(label).raw("</dt><dd>").text(number);
    html.raw(" <span>").text(note).raw("</span></dd></div>\n");
}

/// The large numbers of one policy.
fn figures(html: &mut Html, policy: &PolicyFindings) {
    let (totals, calls) = (policy.totals, calls(policy));
    let (affected, identifiers) = affected(policy);
    html.raw("<dl class=\"figures\">\n");
    let of_calls = |part: u64| format!("{} of {}", share(part, calls), counted_calls(calls));
    figure(html, "Calls denied", count(totals.denied), of_calls(totals.denied));
    let of = format!("{} of {}", share(affected, identifiers), count(identifiers));
    figure(html, "Identifiers affected", count(affected), of);
    figure(html, "Falsely denied", count(totals.falsely_denied), "a log had room".to_owned());
    figure(html, "Falsely admitted", count(totals.falsely_admitted), "a log had none".to_owned());
    html.raw("</dl>\n");
    let mut notes = Vec::new();
    if policy.limits.len() > 1 {
        notes.push(ONCE.to_owned());
    }
    if policy.unlimited > 0 {
        let calls = counted(policy.unlimited, "request", "requests");
        notes.push(format!("No limit applied to {calls} more; they are not among the calls."));
    }
    if !notes.is_empty() {
        html.element("p", notes.join(" "));
    }
}

/// Says how identifiers are counted, if that could be asked.
fn say_once(html: &mut Html, policies: &[&PolicyFindings]) {
    if policies.iter().any(|policy| policy.limits.len() > 1) {
        html.element("p", ONCE);
    }
}

/// The large numbers of a comparison.
fn changes(html: &mut Html, comparison: &Comparison) {
    html.raw("<dl class=\"figures\">\n");
    let both = format!("{} limited by both", count(comparison.limited_by_both));
    figure(html, "Newly limited", count(comparison.newly_limited), "identifiers".to_owned());
    figure(html, "No longer limited", count(comparison.no_longer_limited), both);
    let (more, fewer) = (comparison.newly_denied_calls, comparison.newly_admitted_calls);
    figure(html, "Calls newly denied", count(more), "admitted until now".to_owned());
    figure(html, "Calls newly admitted", count(fewer), "denied until now".to_owned());
    html.raw("</dl>\n");
}

/// Both policies, number by number.
fn side_by_side(html: &mut Html, policies: &[&PolicyFindings; 2]) {
    type Number = fn(&PolicyFindings) -> (u64, u64);
    let numbers: [(&str, Number); 6] = [
        ("Calls admitted", |p| (p.totals.admitted, calls(p))),
        ("Calls denied", |p| (p.totals.denied, calls(p))),
        ("Identifiers affected", affected),
        ("Falsely denied", |p| (p.totals.falsely_denied, calls(p))),
        ("Falsely admitted", |p| (p.totals.falsely_admitted, calls(p))),
        ("Requests without a limit", |p| (p.unlimited, p.unlimited.saturating_add(calls(p)))),
    ];
    let [current, candidate] = policies;
    let heads = ["", &current.name, "", &candidate.name, ""];
    let rows = numbers.iter().map(|(name, number)| {
        let mut row = vec![Cell::Words((*name).to_owned())];
        for policy in policies {
            let (part, whole) = number(policy);
            row.push(Cell::Number(count(part), part));
            row.push(Cell::Number(share(part, whole), part));
        }
        row
    });
    let rows = rows.collect();
    html.table(Table { caption: "Side by side", sortable: false, heads: &heads, rows });
}

/// Identifiers for which something changed.
fn changed(html: &mut Html, title: &'static str, first: &[Changed], all: u64) {
    html.element("h3", title);
    if first.is_empty() {
        html.raw("<p>Nobody.</p>\n");
        return;
    }
    let shown = u64::try_from(first.len()).unwrap_or(u64::MAX);
    let caption = format!("{title}: {} of {}, most denied first", count(shown), count(all));
    let rows = first.iter().map(|changed| {
        vec![
            Cell::Foreign(changed.identifier.clone()),
            Cell::Words(changed.limit.clone()),
            Cell::Number(count(changed.requests), changed.requests),
            Cell::Number(count(changed.denied_before), changed.denied_before),
            Cell::Number(count(changed.denied_after), changed.denied_after),
        ]
    });
    let heads = ["Identifier", "Limit", "Calls", "Denied before", "Denied after"];
    let rows = rows.collect();
    html.table(Table { caption: &caption, sortable: true, heads: &heads, rows });
}
