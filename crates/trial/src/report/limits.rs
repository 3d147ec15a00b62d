//! What each limit did, and to whom.

use super::html::{Cell, Html, Table};
use super::words::{clock, count, counted, length, permille, share};
use crate::findings::{Findings, LimitFindings, PolicyFindings};

/// The names of the steps of [`LimitFindings::denied_histogram`], after the first: never denied.
const STEPS: [&str; 5] =
    ["once", "2 to 9 times", "10 to 99 times", "100 to 999 times", "1,000 times and more"];

/// As full as a limit allows, in thousandths.
const FULL: u64 = 1_000;

/// One bar: its name, its number as shown, and its length.
type Bar<'a> = (&'a str, String, u64);

/// The limits, then those who were denied most often.
pub(super) fn section(html: &mut Html, findings: &Findings) {
    if findings.policies.is_empty() {
        return;
    }
    html.raw("<section id=\"limits\" aria-labelledby=\"limits-head\">\n");
    html.raw("<h2 id=\"limits-head\">Limits</h2>\n");
    for policy in &findings.policies {
        if findings.policies.len() > 1 {
            html.raw("<h3>Of ").text(&policy.name).raw("</h3>\n");
        }
        html.raw("<div class=\"cards\">\n");
        policy.limits.iter().for_each(|limit| card(html, limit));
        html.raw("</div>\n");
    }
    html.raw("</section>\n<section id=\"affected\" aria-labelledby=\"affected-head\">\n");
    html.raw("<h2 id=\"affected-head\">Most affected</h2>\n");
    for policy in &findings.policies {
        if findings.policies.len() > 1 {
            html.raw("<h3>By ").text(&policy.name).raw("</h3>\n");
        }
        affected(html, policy);
    }
    html.raw("</section>\n");
}

/// One limit.
fn card(html: &mut Html, limit: &LimitFindings) {
    html.raw("<article class=\"card\">\n<h4>").text(&limit.name).raw("</h4>\n<p class=\"rule\">");
    html.text(count(limit.limit)).raw(" in ").text(length(limit.window_ms)).raw(", ");
    html.text(&limit.by).raw("</p>\n");
    let totals = &limit.totals;
    let checks = totals.admitted.saturating_add(totals.denied);
    html.raw("<p>Had no room for <b>")
        .text(counted(totals.denied, "call", "calls"))
        .raw("</b> of ");
    html.text(count(checks)).raw(" (").text(share(totals.denied, checks)).raw("), of <b>");
    html.text(counted(limit.affected, "identifier", "identifiers")).raw("</b> of ");
    html.text(count(limit.identifiers)).raw(" (");
    html.text(share(limit.affected, limit.identifiers)).raw(").");
    if limit.missing > 0 {
        html.raw(" It did not apply to ").text(counted(limit.missing, "call", "calls"));
        html.raw(" without that field.");
    }
    html.raw("</p>\n");
    denials(html, limit);
    fullness(html, limit);
    html.raw("<p>").text(counted(totals.falsely_denied, "call was", "calls were"));
    html.raw(" falsely denied: a log of every admission had room. ");
    html.text(counted(totals.falsely_admitted, "call was", "calls were"));
    html.raw(" falsely admitted: that log had none.");
    if totals.degraded > 0 {
        html.raw(" ").text(counted(totals.degraded, "call was", "calls were"));
        html.raw(" decided without the region, which did not answer in time.");
    }
    html.raw("</p>\n</article>\n");
}

/// How many identifiers were denied how often.
fn denials(html: &mut Html, limit: &LimitFindings) {
    let [never, often @ ..] = &limit.denied_histogram;
    if limit.affected == 0 {
        html.raw("<p>No identifier was denied.</p>\n");
        return;
    }
    let rows: Vec<Bar<'_>> = STEPS
        .iter()
        .zip(often)
        .map(|(name, identifiers)| (*name, count(*identifiers), *identifiers))
        .collect();
    let scale = often.iter().copied().max().unwrap_or(0);
    let caption = format!("Identifiers by how often they were denied; {} never", count(*never));
    bars(html, &caption, &rows, (scale, None));
}

/// How full windows were.
fn fullness(html: &mut Html, limit: &LimitFindings) {
    let full = &limit.fullness;
    let rows: Vec<Bar<'_>> = [
        ("median identifier", full.p50),
        ("99 of 100 at most", full.p99),
        ("the worst", full.worst),
    ]
    .into_iter()
    .map(|(name, number)| (name, permille(number), number))
    .collect();
    // A little more than the limit, so that its mark can be seen.
    let scale = full.worst.max(FULL.saturating_add(50));
    bars(html, "The fullest window; the mark is what is allowed", &rows, (scale, Some(FULL)));
}

/// A few numbers as bars, with a mark across them.
fn bars(html: &mut Html, caption: &str, rows: &[Bar<'_>], (scale, mark): (u64, Option<u64>)) {
    // In thousandths of the width.
    let wide = |number: u64| {
        let part = u128::from(number).saturating_mul(1_000) / u128::from(scale.max(1));
        // What is there can be seen.
        part.clamp(u128::from(number > 0) * 4, 1_000)
    };
    html.raw("<table class=\"bars\">\n").element("caption", caption).raw("<tbody>\n");
    for (name, shown, number) in rows {
        html.raw("<tr><th scope=\"row\">").text(name).raw("</th><td aria-hidden=\"true\">");
        html.raw("<svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\">");
        let over = mark.is_some_and(|mark| *number > mark);
        html.raw(if over { "<rect class=\"over\" height=\"10\"" } else { "<rect height=\"10\"" });
        html.attribute("width", wide(*number)).raw("/>");
        if let Some(mark) = mark {
            html.raw("<rect class=\"mark\" height=\"10\" width=\"4\"").attribute("x", wide(mark));
            html.raw("/>");
        }
        html.raw("</svg></td><td class=\"n\">").text(shown).raw("</td></tr>\n");
    }
    html.raw("</tbody></table>\n");
}

/// Those who were denied most often.
fn affected(html: &mut Html, policy: &PolicyFindings) {
    if policy.most_affected.is_empty() {
        html.raw("<p>Nobody was denied.</p>\n");
        return;
    }
    let rows = policy.most_affected.iter().map(|who| {
        let calls = who.admitted.saturating_add(who.denied);
        vec![
            Cell::Foreign(who.identifier.clone()),
            Cell::Words(who.limit.clone()),
            Cell::Number(count(who.denied), who.denied),
            Cell::Number(share(who.denied, calls), per_million(who.denied, calls)),
            Cell::Number(count(who.admitted), who.admitted),
            Cell::Number(count(who.falsely_denied), who.falsely_denied),
            Cell::Number(count(who.allowed), who.allowed),
            Cell::Number(permille(who.fullest_permille), who.fullest_permille),
            Cell::Number(clock(who.first_denied_unix_ms), who.first_denied_unix_ms),
        ]
    });
    let heads = [
        "Identifier",
        "Limit",
        "Denied",
        "Share",
        "Admitted",
        "Falsely denied",
        "Allowed",
        "Fullest",
        "First denied, UTC",
    ];
    let shown = u64::try_from(policy.most_affected.len()).unwrap_or(u64::MAX);
    let all = policy.limits.iter().fold(0_u64, |sum, limit| sum.saturating_add(limit.affected));
    let caption =
        format!("{} of {} affected, most denied first", count(shown), count(all.max(shown)));
    let rows = rows.collect();
    html.table(Table { caption: &caption, sortable: true, heads: &heads, rows });
}

/// A share that can be sorted by.
fn per_million(part: u64, whole: u64) -> u64 {
    let share = u128::from(part).saturating_mul(1_000_000) / u128::from(whole.max(1));
    u64::try_from(share).unwrap_or(u64::MAX)
}
