//! Limits that would have limited few.

use super::html::{Cell, Html, Table};
use super::plots::{legend, plot};
use super::words::{count, counted, length, share};
use crate::findings::{Findings, Suggestion};

/// A share of all is asked for in millionths.
const ALL_PPM: u64 = 1_000_000;

/// The section.
pub(super) fn section(html: &mut Html, findings: &Findings) {
    if findings.suggestions.is_empty() {
        return;
    }
    html.raw("<section id=\"suggested\" aria-labelledby=\"suggested-head\">\n");
    html.raw(
        "<h2 id=\"suggested-head\">Suggested limits</h2>\n<p>For each window, the lowest limit ",
    );
    html.raw("that would have limited at most the share of identifiers that was asked for. ");
    html.raw("A lower one would have limited more.</p>\n");
    let rows = findings.suggestions.iter().map(|suggestion| {
        let (affected, all) = (suggestion.affected, suggestion.identifiers);
        vec![
            Cell::Words(format!("{}, {}", suggestion.name, suggestion.by)),
            Cell::Number(length(suggestion.window_ms), suggestion.window_ms),
            Cell::Number(count(suggestion.limit), suggestion.limit),
            Cell::Number(count(affected), affected),
            Cell::Number(share(affected, all), affected),
            Cell::Number(share(suggestion.max_affected_ppm, ALL_PPM), suggestion.max_affected_ppm),
        ]
    });
    let heads = ["What", "Window", "Limit", "Would be limited", "Of all", "Asked for"];
    let rows = rows.collect();
    html.table(Table { caption: "The lowest limits", sortable: false, heads: &heads, rows });
    html.raw("<div class=\"cards\">\n");
    for (index, suggestion) in findings.suggestions.iter().enumerate() {
        curve(html, index, suggestion);
    }
    html.raw("</div>\n</section>\n");
}

/// How many a limit would have limited.
fn curve(html: &mut Html, index: usize, suggestion: &Suggestion) {
    let title = format!("{}, {}: {}", suggestion.name, suggestion.by, length(suggestion.window_ms));
    html.raw("<article class=\"card\">\n").element("h3", &title);
    html.raw("<figure data-plot=\"curve\"").attribute("data-of", index).raw(">\n");
    legend(html, &[("admitted", "identifiers limited"), ("chosen", "suggested")]);
    plot(html, format_args!("How many identifiers a limit would have limited, {title}"));
    html.raw("<figcaption>A limit of ").text(count(suggestion.limit)).raw(" would have limited ");
    html.text(count(suggestion.affected)).raw(" of ");
    html.text(counted(suggestion.identifiers, "identifier", "identifiers"));
    html.raw(".</figcaption>\n</figure>\n");
    html.raw("<details><summary>The curve in a table</summary>\n");
    let rows = suggestion.curve.iter().map(|point| {
        vec![
            Cell::Words(count(point.limit)),
            Cell::Number(count(point.affected), point.affected),
            Cell::Number(share(point.affected, suggestion.identifiers), point.affected),
        ]
    });
    let (heads, rows) = (["Limit", "Would be limited", "Of all"], rows.collect());
    html.table(Table { caption: &title, sortable: false, heads: &heads, rows });
    html.raw("</details>\n</article>\n");
}
