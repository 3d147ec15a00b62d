//! What came of a trial, in tables for people.

use std::fmt;

use tidegate_trial::{
    Affected, Changed, Comparison, Findings, LimitFindings, PolicyFindings, Slice, StoreWork,
    Suggestion, TraceFacts, Waits, share_of,
};

use crate::client::words::{exactly, visible};
use crate::utc::Utc;

/// Characters of a bar, and of the line over time.
const BAR: u64 = 40;
/// From empty to full.
const LEVELS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Longest identifier in a table, in characters.
const NAME_CHARS: usize = 48;
/// What the steps of the histogram are.
const STEPS: [&str; 6] = ["never", "once", "2-9 times", "10-99", "100-999", "1,000 and more"];

/// Findings, to be printed.
pub(super) struct Shown<'a>(&'a Findings);

impl<'a> Shown<'a> {
    pub(super) const fn new(findings: &'a Findings) -> Self {
        Self(findings)
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Findings { trace, warnings, topology, policies, comparison, suggestions, .. } = self.0;
        show_trace(trace, f)?;
        for warning in warnings {
            writeln!(f, "mind        {}", visible(warning))?;
        }
        write!(f, "decided by  {}", visible(&topology.summary))?;
        for fact in &topology.facts {
            write!(f, "\n            {}: {}", visible(&fact.name), visible(&fact.value))?;
        }
        for policy in policies {
            show_policy(policy, f)?;
        }
        if let Some(comparison) = comparison {
            let names: Vec<&str> = policies.iter().map(|policy| policy.name.as_str()).collect();
            show_comparison(comparison, &names, f)?;
        }
        show_suggestions(suggestions, f)?;
        show_malformed(trace, f)
    }
}

fn show_trace(trace: &TraceFacts, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let TraceFacts { source, format, lines, requests, first_unix_ms, last_unix_ms, .. } = trace;
    write!(f, "trace       {}, {format}: {} requests", visible(source), many(*requests))?;
    if lines > requests {
        write!(f, " in {} lines", many(*lines))?;
    }
    let span_s = last_unix_ms.saturating_sub(*first_unix_ms).div_ceil(1_000);
    let span = exactly(rounded_s(span_s).saturating_mul(1_000));
    writeln!(f, "\n            {} to {} ({span})", Utc(*first_unix_ms), Utc(*last_unix_ms))?;
    if trace.malformed > 0 || trace.out_of_order > 0 {
        let (malformed, late) = (many(trace.malformed), many(trace.out_of_order));
        writeln!(f, "            {malformed} malformed lines, {late} requests out of order")?;
    }
    Ok(())
}

/// A length of time without what nobody wants to read.
fn rounded_s(seconds: u64) -> u64 {
    let unit = match seconds {
        0..600 => 1,
        600..36_000 => 60,
        36_000..864_000 => 3_600,
        _ => 86_400,
    };
    seconds.div_ceil(unit).saturating_mul(unit)
}

fn show_policy(policy: &PolicyFindings, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let PolicyFindings { name, unlimited, totals, over_time, slice_ms, .. } = policy;
    write!(f, "\n\npolicy {}", visible(name))?;
    let calls = totals.admitted.saturating_add(totals.denied);
    for (what, count) in [("admitted", totals.admitted), ("denied", totals.denied)] {
        let bar = "█".repeat(usize::try_from(places_of(count, calls, BAR)).unwrap_or(0));
        let line = format!("  {what:16}  {:>13}  {:>7}  {bar}", many(count), percent(count, calls));
        write!(f, "\n{}", line.trim_end())?;
    }
    let false_ones = [
        ("falsely admitted", totals.falsely_admitted, "a log of all admissions had no room"),
        ("falsely denied", totals.falsely_denied, "a log of all admissions had room"),
        ("degraded", totals.degraded, "decided without the region"),
    ];
    for (what, count, why) in false_ones.into_iter().filter(|(_, count, _)| *count > 0) {
        write!(f, "\n  {what:16}  {:>13}  {:>7}  {why}", many(count), percent(count, calls))?;
    }
    if *unlimited > 0 {
        let calls = calls.saturating_add(*unlimited);
        let share = percent(*unlimited, calls);
        write!(
            f,
            "\n  {:16}  {:>13}  {share:>7}  no limit applies",
            "unlimited",
            many(*unlimited)
        )?;
    }
    if totals.denied > 0 {
        let each = exactly(slice_ms.saturating_mul(per_place(over_time.len()) as u64));
        write!(f, "\n  denied over time  |{}|  each place {each}", sparks(over_time))?;
    }
    for limit in &policy.limits {
        show_limit(limit, f)?;
    }
    show_stores(policy.stores.as_ref(), policy.waits.as_ref(), f)?;
    show_affected(&policy.most_affected, f)
}

/// Slices that one character stands for.
fn per_place(slices: usize) -> usize {
    slices.div_ceil(usize::try_from(BAR).unwrap_or(1)).max(1)
}

/// What was denied over time, as heights.
fn sparks(slices: &[Slice]) -> String {
    let denied = |slices: &[Slice]| slices.iter().map(|slice| slice.denied).sum::<u64>();
    let sums: Vec<u64> = slices.chunks(per_place(slices.len())).map(denied).collect();
    let most = sums.iter().copied().max().unwrap_or(0);
    let height = |sum: &u64| {
        // Whatever is not nothing is seen.
        let level = places_of(*sum, most, 8).max(u64::from(*sum > 0));
        usize::try_from(level).ok().and_then(|level| LEVELS.get(level)).copied().unwrap_or(' ')
    };
    sums.iter().map(height).collect()
}

fn show_limit(limit: &LimitFindings, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let LimitFindings { name, by, totals, identifiers, affected, fullness, .. } = limit;
    let window = exactly(limit.window_ms);
    write!(f, "\n\n  {}: {} in {window} {}", visible(name), many(limit.limit), visible(by))?;
    let share = percent(*affected, *identifiers);
    write!(
        f,
        "\n    affected  {} of {} identifiers ({share})",
        many(*affected),
        many(*identifiers)
    )?;
    let (denied, falsely) = (many(totals.denied), many(totals.falsely_denied));
    write!(f, "\n    denied    {denied} calls, {falsely} of them falsely; ")?;
    write!(f, "{} admitted falsely", many(totals.falsely_admitted))?;
    if limit.missing > 0 {
        write!(f, "\n    not for   {} calls without that field", many(limit.missing))?;
    }
    let full = |permille: u64| format!("{}.{} %", many(permille / 10), permille % 10);
    let (p50, p99, worst) = (full(fullness.p50), full(fullness.p99), full(fullness.worst));
    write!(f, "\n    fullest   {p50} of the limit (median), {p99} (p99), {worst} (worst)")?;
    if *affected > 0 {
        let steps = STEPS.iter().zip(limit.denied_histogram).filter(|(_, count)| *count > 0);
        let steps: Vec<String> =
            steps.map(|(step, count)| format!("{step}: {}", many(count))).collect();
        write!(f, "\n    how often {}", steps.join(", "))?;
    }
    Ok(())
}

fn show_stores(
    stores: Option<&StoreWork>,
    waits: Option<&Waits>,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    if let Some(work) = stores {
        let (calls, operations) = (many(work.region_calls), many(work.region_operations));
        write!(f, "\n\n  stores of the regions: {calls} calls with {operations} operations")?;
        let (written, read) = (many(work.rows_written), many(work.rows_read));
        let statements = many(work.statements);
        write!(
            f,
            "\n  global store: {written} rows written, {read} read, {statements} statements"
        )?;
    }
    if let Some(Waits { calls, p99_us, longest_us }) = waits {
        let ms = |us: u64| format!("{}.{:03} ms", us / 1_000, us % 1_000);
        let (p99, longest) = (ms(*p99_us), ms(*longest_us));
        write!(f, "\n  waited for a store: {} calls, p99 {p99}, longest {longest}", many(*calls))?;
    }
    Ok(())
}

fn show_affected(all: &[Affected], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if all.is_empty() {
        return Ok(());
    }
    write!(f, "\n\n  most affected")?;
    let head = ["identifier", "limit", "allowed", "calls", "denied", "falsely", "first denied"];
    let row = |it: &Affected| {
        [
            cut(&it.identifier),
            cut(&it.limit),
            many(it.allowed),
            many(it.requests),
            many(it.denied),
            many(it.falsely_denied),
            Utc(it.first_denied_unix_ms).to_string(),
        ]
    };
    show_table(&head.map(str::to_owned), &all.iter().map(row).collect::<Vec<_>>(), f)
}

fn show_comparison(
    comparison: &Comparison,
    names: &[&str],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let [current, candidate] = names else { return Ok(()) };
    let Comparison { newly_limited, no_longer_limited, limited_by_both, .. } = comparison;
    let newly = many(*newly_limited);
    write!(f, "\n\n{} against {}", visible(candidate), visible(current))?;
    write!(f, ": {newly} identifiers newly limited")?;
    let (no_longer, both) = (many(*no_longer_limited), many(*limited_by_both));
    write!(f, "\n  {no_longer} no longer limited, {both} limited by both")?;
    let denied = many(comparison.newly_denied_calls);
    let admitted = many(comparison.newly_admitted_calls);
    write!(f, "\n  {denied} calls newly denied, {admitted} newly admitted")?;
    for (title, changed) in [
        ("newly limited", &comparison.newly_limited_first),
        ("no longer limited", &comparison.no_longer_limited_first),
    ] {
        if changed.is_empty() {
            continue;
        }
        write!(f, "\n\n  {title}")?;
        let head = ["identifier", "limit", "calls", "denied before", "denied after"];
        let row = |it: &Changed| {
            let (before, after) = (many(it.denied_before), many(it.denied_after));
            [cut(&it.identifier), cut(&it.limit), many(it.requests), before, after]
        };
        let rows: Vec<_> = changed.iter().map(row).collect();
        show_table(&head.map(str::to_owned), &rows, f)?;
    }
    Ok(())
}

fn show_suggestions(all: &[Suggestion], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(first) = all.first() else { return Ok(()) };
    let ppm = first.max_affected_ppm;
    let share = format!("{}.{:04}", ppm / 10_000, ppm % 10_000);
    let share = share.trim_end_matches('0').trim_end_matches('.');
    write!(f, "\n\nthe lowest limits that would have limited at most {share} % of identifiers")?;
    let head = ["name", "by", "window", "limit", "affected", "identifiers"];
    let row = |it: &Suggestion| {
        let by = it.by.strip_prefix("by ").unwrap_or(&it.by);
        let (affected, identifiers) = (many(it.affected), many(it.identifiers));
        [cut(&it.name), cut(by), exactly(it.window_ms), many(it.limit), affected, identifiers]
    };
    show_table(&head.map(str::to_owned), &all.iter().map(row).collect::<Vec<_>>(), f)
}

fn show_malformed(trace: &TraceFacts, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if trace.malformed_first.is_empty() {
        return Ok(());
    }
    write!(f, "\n\nmalformed lines, the first {}", trace.malformed_first.len())?;
    for line in &trace.malformed_first {
        write!(f, "\n  {:>9}  {}", many(line.line), visible(&line.reason))?;
        write!(f, "\n             {}", visible(&line.sample))?;
    }
    Ok(())
}

/// Columns: the first to the left, numbers to the right.
fn show_table<const N: usize>(
    head: &[String; N],
    rows: &[[String; N]],
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let all = || std::iter::once(head).chain(rows);
    let width = |column: usize| {
        let cells = all().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    for row in all() {
        let mut line = String::from("   ");
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            // Numbers and lengths of time begin with a digit.
            let number = rows.iter().all(|row| {
                row.get(column).is_some_and(|cell| cell.starts_with(|it: char| it.is_ascii_digit()))
            });
            line.push_str(&match number && column > 0 {
                true => format!(" {cell:>width$} "),
                false => format!(" {cell:width$} "),
            });
        }
        write!(f, "\n{}", line.trim_end())?;
    }
    Ok(())
}

/// A text of others, not too long.
fn cut(text: &str) -> String {
    let shown: String = text.chars().take(NAME_CHARS).collect();
    let more = if text.chars().nth(NAME_CHARS).is_some() { "…" } else { "" };
    format!("{}{more}", visible(&shown))
}

/// A number with commas.
fn many(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && digits.len().saturating_sub(at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Full places of so many: a bar is as long as what it shows.
fn places_of(part: u64, whole: u64, places: u64) -> u64 {
    let full = u128::from(part) * u128::from(places);
    let full = full.checked_div(u128::from(whole)).unwrap_or(0);
    u64::try_from(full).unwrap_or(places)
}

/// With one digit after the point; what is not nothing is never shown as nothing.
fn percent(part: u64, whole: u64) -> String {
    match share_of(part, whole, 1_000) {
        0 if part > 0 => "< 0.1 %".to_owned(),
        permille => format!("{}.{} %", permille / 10, permille % 10),
    }
}

#[cfg(test)]
mod tests;
