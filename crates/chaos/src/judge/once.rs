//! A call with an `Idempotency-Key` is charged once, however often it is made.
//!
//! The documents except: a process that is killed between the decision and the reply, a Redis that
//! does not answer in time or loses its data (docs/http.md). Then each try may be charged.

use std::collections::BTreeMap;

use super::{AFTER_MS, Verdict};
use crate::fault::{Kind, Struck};
use crate::history::{Call, End, History};
use crate::shape::{Class, region_of};

/// How near another answer was `degraded` for Redis to count as late at that time.
const NEAR_MS: u64 = 1_000;

pub(super) fn judge(history: &History) -> Verdict {
    let mut verdict = Verdict::new("once");
    let mut tries: BTreeMap<String, Vec<&Call>> = BTreeMap::new();
    for call in history.calls.iter().filter(|call| call.subject.class == Class::Once) {
        tries.entry(call.subject.name()).or_default().push(call);
    }
    let (mut excused, mut again) = (0_u64, 0_u64);
    for seen in history.seen.iter().filter(|seen| seen.subject.class == Class::Once) {
        let name = seen.subject.name();
        let Some(calls) = tries.get(&name) else { continue };
        let Some(sum) = seen.sum else {
            verdict.breaks(format!("{name}: Redis did not answer"));
            continue;
        };
        verdict.judged = verdict.judged.saturating_add(1);
        again = again.saturating_add(u64::from(calls.len() > 1));
        let cost = calls.first().map_or(1, |call| call.cost);
        let charged = sum.div_ceil(cost.max(1));
        let counts = |call: &&&Call| call.unknown() > 0 || call.admitted() > 0;
        let tried = u64::try_from(calls.iter().filter(counts).count()).unwrap_or(u64::MAX);
        let is_excused = is_excused(history, calls);
        excused = excused.saturating_add(u64::from(is_excused));
        let most = if is_excused { tried } else { 1 };
        if charged > most {
            verdict.breaks(format!("{name}: charged {charged} times, at most {most}"));
        }
    }
    verdict.said = format!("{again} made again, {excused} of all excused by faults");
    verdict
}

/// Whether something happened for which the promise does not hold.
fn is_excused(history: &History, calls: &[&Call]) -> bool {
    let from_ms = calls.iter().map(|call| call.sent_ms).min().unwrap_or(0);
    let to_ms = calls.iter().map(|call| call.ended_ms).max().unwrap_or(0);
    let Some(region) = calls.first().map(|call| region_of(call.node)) else { return true };
    let breaks = |one: &Struck| {
        let kind = one.fault.kind;
        kind.hides_redis() || kind.loses() || matches!(kind, Kind::KillServer | Kind::StopServer)
    };
    if history.faults(region, (from_ms, to_ms), AFTER_MS).any(breaks) {
        return true;
    }
    // Only one process remembers it, and says so.
    let alone = |call: &&&Call| matches!(call.end, End::Answered(answer) if !answer.in_region);
    if calls.iter().any(|call| alone(&call)) {
        return true;
    }
    // Redis was late for others at that time, and may have been for those who left.
    history.calls.iter().any(|call| {
        region_of(call.node) == region
            && call.answer().is_some_and(|answer| answer.degraded)
            && call.sent_ms <= to_ms.saturating_add(NEAR_MS)
            && call.ended_ms.saturating_add(NEAR_MS) >= from_ms
    })
}
