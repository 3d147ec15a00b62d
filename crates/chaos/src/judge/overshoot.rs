//! No cell holds more than the documents allow.
//!
//! One life of one process never admits more than the limit to a cell (INV-4). The processes of a
//! region together: the limit and an eighth of it (docs/adr/0015), what was admitted without an
//! answer of Redis on top, which the answers say; and never more than one limit for each life
//! (INV-26), which is all that the rule `fast` promises. Regions together: the sum of that; and if
//! nothing was wrong, 1.3 limits and what was sent in twice the time until they hear of each other
//! (docs/globe.md).

use std::collections::{BTreeMap, BTreeSet};

use super::{AFTER_MS, Verdict, part};
use crate::fault::{LONG_MS, Struck};
use crate::history::{Call, History};
use crate::shape::{Class, region_name, region_of};

/// By when a region knows what another had to tell, at the latest (PROMISES.md, P-5): it is
/// recorded, told after the sixtieth part of a window or this, and read.
const fn news_ms(window_ms: u64) -> u64 {
    let told_ms = if window_ms / 60 < 5_000 { window_ms / 60 } else { 5_000 };
    told_ms.saturating_add(3_200)
}

/// A cell of which less was seen says little of what regions admit together.
const WHOLE_MS: u64 = 50_000;

/// One cell of a subject: who, and the end of its window.
type Cells<'a> = BTreeMap<(String, u64), Vec<&'a Call>>;

/// What may have been admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rule {
    /// Nothing was wrong: the limit and an eighth, and what the answers call degraded.
    Calm,
    /// Something was wrong, but Redis kept its data. Processes are not known to each other for
    /// some seconds (three sixteenths); one that ended takes an eighth with it.
    Faults,
    /// Redis lost its data: one limit for each life.
    Loss,
    /// The rule `fast`: the same, whatever happens (PROMISES.md, P-4).
    Fast,
}

/// All that is limited.
const fn is_judged(class: Class) -> bool {
    !matches!(class, Class::Once)
}

/// The cells, by the answers.
fn cells(history: &History) -> Cells<'_> {
    let mut cells = Cells::new();
    for call in history.calls.iter().filter(|call| is_judged(call.subject.class)) {
        if let Some(answer) = call.answer() {
            let cell = (call.subject.name(), answer.reset_ms);
            cells.entry(cell).or_default().push(call);
        }
    }
    cells
}

/// One life of one process admits at most the limit.
pub(super) fn exact(history: &History) -> Verdict {
    let mut verdict = Verdict::new("exact");
    let mut most = 0;
    for ((name, reset_ms), calls) in cells(history) {
        let mut lives: BTreeMap<(usize, u32), u64> = BTreeMap::new();
        for call in &calls {
            let sum = lives.entry((call.node, call.life)).or_default();
            *sum = sum.saturating_add(call.admitted());
        }
        let limit = calls.first().map_or(0, |call| call.subject.limit);
        for ((node, life), sum) in lives {
            verdict.judged = verdict.judged.saturating_add(1);
            most = most.max(part(sum, 100, limit.max(1)));
            if sum > limit {
                let who = crate::shape::node_name(node);
                verdict.breaks(format!(
                    "{name} until {reset_ms}: life {life} of {who} admitted {sum} of {limit}"
                ));
            }
        }
    }
    verdict.said = format!("one life admitted at most {most} % of a limit");
    verdict
}

/// The processes of a region, and all regions.
pub(super) fn judge(history: &History) -> Verdict {
    let mut verdict = Verdict::new("overshoot");
    let mut worst: BTreeMap<Rule, (u64, u64, u64)> = BTreeMap::new();
    let mut calm_worlds = 0_u64;
    for ((name, reset_ms), calls) in cells(history) {
        let limit = calls.first().map_or(0, |call| call.subject.limit);
        let mut regions: BTreeMap<usize, Vec<&Call>> = BTreeMap::new();
        for call in calls {
            regions.entry(region_of(call.node)).or_default().push(call);
        }
        let (mut all, mut bounds, mut calm) = (0_u64, 0_u64, true);
        for (region, calls) in &regions {
            let (rule, bound) = bound(history, *region, calls, limit);
            calm &= rule == Rule::Calm;
            let sum = calls.iter().map(|call| call.admitted()).sum::<u64>();
            verdict.judged = verdict.judged.saturating_add(1);
            let entry = worst.entry(rule).or_default();
            let percent = part(sum, 100, limit.max(1));
            if (percent, entry.0) > (entry.1, 0) {
                entry.1 = entry.1.max(percent);
                entry.2 = if entry.1 == percent { part(bound, 100, limit.max(1)) } else { entry.2 };
            }
            entry.0 = entry.0.saturating_add(1);
            (all, bounds) = (all.saturating_add(sum), bounds.saturating_add(bound));
            if sum > bound {
                let place = region_name(*region);
                verdict.breaks(format!(
                    "{name} until {reset_ms}: {place} admitted {sum} of {limit}, at most {bound} \
                     ({rule:?})"
                ));
            }
        }
        if calm && regions.len() > 1 {
            let calls: Vec<&Call> = regions.into_values().flatten().collect();
            let (from_ms, to_ms) = span(&calls);
            calm_worlds += u64::from(to_ms.saturating_sub(from_ms) >= WHOLE_MS);
            let above = densest(&calls).saturating_add(degraded(&calls));
            bounds = bounds.min(part(limit, 13, 10).saturating_add(above));
        }
        if all > bounds {
            verdict.breaks(format!("{name}: all regions admitted {all}, at most {bounds}"));
        }
    }
    let said = worst.iter().map(|(rule, (count, percent, bound))| {
        format!("{rule:?}: {count} cells, worst {percent} % of its limit (bound {bound} %)")
    });
    let said = said.chain([format!("{calm_worlds} calm cells of all regions")]);
    verdict.said = said.collect::<Vec<_>>().join("; ");
    if is_long(history) && calm_worlds == 0 {
        verdict.breaks("no minute was calm, and the run was long enough for one".to_owned());
    }
    verdict
}

/// Whether a run was one that ends with a calm minute.
fn is_long(history: &History) -> bool {
    let calls: Vec<&Call> = history.calls.iter().collect();
    span(&calls).1 >= LONG_MS && !history.faults.is_empty()
}

/// From the first of these calls to the last.
fn span(calls: &[&Call]) -> (u64, u64) {
    let from_ms = calls.iter().map(|call| call.sent_ms).min().unwrap_or(0);
    (from_ms, calls.iter().map(|call| call.ended_ms).max().unwrap_or(0))
}

/// What was admitted without an answer of Redis.
fn degraded(calls: &[&Call]) -> u64 {
    let degraded = |call: &&&Call| call.answer().is_some_and(|answer| answer.degraded);
    calls.iter().filter(degraded).map(|call| call.admitted()).sum()
}

/// The most that was sent in twice the time until regions hear of each other.
fn densest(calls: &[&Call]) -> u64 {
    let window_ms = calls.first().map_or(0, |call| call.subject.window_ms);
    let twice_ms = news_ms(window_ms).saturating_mul(2);
    let sent = |from_ms: u64| {
        let within = move |call: &&&Call| {
            (from_ms..from_ms.saturating_add(twice_ms)).contains(&call.sent_ms)
        };
        calls.iter().filter(within).map(|call| call.cost).sum::<u64>()
    };
    calls.iter().map(|call| sent(call.sent_ms)).max().unwrap_or(0)
}

/// What the processes of a region may have admitted to a cell.
fn bound(history: &History, region: usize, calls: &[&Call], limit: u64) -> (Rule, u64) {
    let (from_ms, to_ms) = span(calls);
    let lives: BTreeSet<(usize, u32)> = calls.iter().map(|call| (call.node, call.life)).collect();
    let count = u64::try_from(lives.len()).unwrap_or(u64::MAX);
    let each = limit.saturating_mul(count);
    if calls.iter().any(|call| call.subject.fast) {
        return (Rule::Fast, each);
    }
    let faults: Vec<&Struck> = history.faults(region, (from_ms, to_ms), AFTER_MS).collect();
    let lost = |one: &&Struck| one.fault.kind.loses() && one.to_ms >= from_ms;
    if faults.iter().copied().any(|one| lost(&one)) {
        return (Rule::Loss, each);
    }
    let degraded = degraded(calls);
    let ended = |at: &&(usize, u32)| {
        history.life(at.0, at.1).and_then(|life| life.ended).is_some_and(|end| end.0 <= to_ms)
    };
    let ends = u64::try_from(lives.iter().filter(ended).count()).unwrap_or(u64::MAX);
    let (rule, above) = if faults.is_empty() {
        (Rule::Calm, part(limit, 1, 8))
    } else {
        (Rule::Faults, part(limit, ends.saturating_mul(2).saturating_add(3), 16))
    };
    (rule, each.min(limit.saturating_add(above).saturating_add(degraded)))
}
