//! Where it was decided, what was read, and how to read the page.

use super::html::{Cell, Html, Table};
use super::words::{count, micros, moment, share, span};
use crate::findings::{Findings, PolicyFindings, TraceFacts};

/// What the words of the page mean, and what no trace can say.
const READING: &str = "\
<section id=\"reading\" aria-labelledby=\"reading-head\">
<h2 id=\"reading-head\">How to read this</h2>
<dl class=\"terms\">
<dt>Affected</dt>
<dd>Denied at least once.</dd>
<dt>Falsely denied, falsely admitted</dt>
<dd>Beside each decision a log is kept of all that was really admitted in the last window length.
Falsely denied: the log had room, and the call was denied. Falsely admitted: the log had none, and
the call was admitted. A sliding window that counts instead of keeping a log is a little wrong both
ways, and a fleet learns of its own admissions late.</dd>
<dt>Fullest window</dt>
<dd>The most that was admitted in any span of a window’s length, against what is allowed. Above
100&#160;% is overshoot.</dd>
<dt>What a trace cannot say</dt>
<dd>How clients would have taken a denial. Those who try again send more than the trace has, those
who give up send less. An identifier that many people share, such as the address of an office, is
one identifier here. A trace with whole seconds has bursts that were none: windows of a few seconds
look worse than they were.</dd>
</dl>
</section>
";

/// The sections.
pub(super) fn section(html: &mut Html, findings: &Findings) {
    decided(html, findings);
    read(html, &findings.trace);
    html.raw(READING);
}

/// Our own words beside our own words.
fn pair(name: &str, value: String) -> Vec<Cell> {
    vec![Cell::Words(name.to_owned()), Cell::Words(value)]
}

fn facts(html: &mut Html, caption: &str, rows: Vec<Vec<Cell>>) {
    html.table(Table { caption, sortable: false, heads: &[], rows });
}

/// Where it was decided.
fn decided(html: &mut Html, findings: &Findings) {
    let topology = &findings.topology;
    html.raw("<section id=\"where\" aria-labelledby=\"where-head\">\n");
    html.raw("<h2 id=\"where-head\">Where it was decided</h2>\n");
    let mut rows =
        vec![pair("Regions", count(topology.regions)), pair("Processes", count(topology.nodes))];
    rows.extend(topology.facts.iter().map(|fact| pair(&fact.name, fact.value.clone())));
    facts(html, "Topology", rows);
    stores(html, &findings.policies);
    html.raw("</section>\n");
}

/// What stores had to do, and how long callers waited for them: a column for each policy.
fn stores(html: &mut Html, policies: &[PolicyFindings]) {
    let columns: Vec<Vec<(&'static str, String)>> = policies.iter().map(work).collect();
    let Some(first) = columns.first().filter(|first| !first.is_empty()) else { return };
    let rows = first.iter().enumerate().map(|(index, (name, _))| {
        let mut row = vec![Cell::Words((*name).to_owned())];
        for column in &columns {
            let value = column.get(index).map(|(_, value)| value.clone()).unwrap_or_default();
            row.push(Cell::Number(value, 0));
        }
        row
    });
    let heads: Vec<&str> =
        std::iter::once("").chain(policies.iter().map(|policy| policy.name.as_str())).collect();
    let (caption, rows) = ("What was asked of the stores", rows.collect());
    html.table(Table { caption, sortable: false, heads: &heads, rows });
}

/// The same for one policy: always the same names, or nothing.
fn work(policy: &PolicyFindings) -> Vec<(&'static str, String)> {
    if policy.stores.is_none() && policy.waits.is_none() {
        return Vec::new();
    }
    let (stores, waits) = (policy.stores.unwrap_or_default(), policy.waits.unwrap_or_default());
    let calls = policy.totals.admitted.saturating_add(policy.totals.denied);
    let of_calls = |part: u64| format!("{} ({})", count(part), share(part, calls));
    vec![
        ("Calls to regional stores", count(stores.region_calls)),
        ("Operations in them", count(stores.region_operations)),
        ("Rows written to the global store", count(stores.rows_written)),
        ("Rows read from it", count(stores.rows_read)),
        ("Statements it was sent", count(stores.statements)),
        ("Calls that waited for a store", of_calls(waits.calls)),
        ("99 of 100 calls waited at most", micros(waits.p99_us)),
        ("The longest wait", micros(waits.longest_us)),
        ("Decided without the region", of_calls(policy.totals.degraded)),
    ]
}

/// What was read.
fn read(html: &mut Html, trace: &TraceFacts) {
    html.raw("<section id=\"trace\" aria-labelledby=\"trace-head\">\n");
    html.raw("<h2 id=\"trace-head\">What was read</h2>\n");
    let mut rows = vec![
        vec![Cell::Words("From".to_owned()), Cell::Foreign(trace.source.clone())],
        pair("Format", trace.format.clone()),
        pair("Lines", count(trace.lines)),
        pair("Requests", count(trace.requests)),
    ];
    if trace.requests > 0 {
        let lasts = trace.last_unix_ms.saturating_sub(trace.first_unix_ms);
        rows.push(pair("First request", moment(trace.first_unix_ms)));
        rows.push(pair("Last request", moment(trace.last_unix_ms)));
        rows.push(pair("Between them", span(lasts)));
    }
    rows.push(pair("Out of order", count(trace.out_of_order)));
    rows.push(pair("Malformed lines", count(trace.malformed)));
    facts(html, "The trace", rows);
    if !trace.malformed_first.is_empty() {
        let rows = trace.malformed_first.iter().map(|malformed| {
            vec![
                Cell::Words(count(malformed.line)),
                Cell::Prose(malformed.reason.clone()),
                Cell::Foreign(malformed.sample.clone()),
            ]
        });
        let (heads, rows) = (["Line", "What was expected", "How it begins"], rows.collect());
        let caption = "The first malformed lines; they are not among the requests";
        html.table(Table { caption, sortable: false, heads: &heads, rows });
    }
    html.raw("</section>\n");
}
