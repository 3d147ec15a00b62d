//! Every call that reached a living server is answered, with a success, in time, and by the rule of
//! its namespace, or says why not.

use super::{AFTER_MS, Verdict};
use crate::fault::{Kind, Struck};
use crate::history::{Call, End, History};
use crate::http::Trouble;
use crate::shape::{Class, REGIONS, node_name, region_name, region_of};
use crate::strike::seconds;

/// How far the times of callers and of those who end servers may lie apart.
const APART_MS: u64 = 1_000;
/// Of a hundred calls while nothing is wrong, so many may be decided without Redis: it gets 20 ms,
/// and a busy machine may take them.
const CALM_DEGRADED_PERCENT: u64 = 10;
/// The same, of calls at all: a few say nothing of a hundred.
const CALM_DEGRADED_MIN: u64 = 20;

pub(super) fn judge(history: &History) -> Verdict {
    let mut verdict = Verdict::new("answers");
    let mut took: Vec<u64> = Vec::new();
    let (mut unknown, mut refused) = (0_u64, 0_u64);
    let (mut calm, mut degraded) = (0_u64, 0_u64);
    for region in 0..REGIONS {
        let (all, without) = calm_in(history, region);
        let most = CALM_DEGRADED_MIN.max(all.saturating_mul(CALM_DEGRADED_PERCENT) / 100);
        if without > most {
            let place = region_name(region);
            verdict.breaks(format!("{without} of {all} in {place} were degraded for no reason"));
        }
        (calm, degraded) = (calm.saturating_add(all), degraded.saturating_add(without));
    }
    for call in &history.calls {
        verdict.judged = verdict.judged.saturating_add(1);
        if let End::Answered(answer) = call.end
            && answer.fast
            && !(call.subject.fast || answer.degraded)
        {
            verdict.breaks(format!("{} was decided as fast, and not degraded", place(call)));
        }
        match call.end {
            End::Answered(_) if !is_stopped(history, call.node, call) => took.push(call.took_us),
            End::Answered(_) | End::Nothing(Trouble::Left) => {}
            // A call whose first try is still being decided says so.
            End::Status(409) if call.subject.class == Class::Once => {}
            End::Status(status) => {
                verdict.breaks(format!("{} was answered {status}", place(call)));
            }
            End::Nothing(trouble) => {
                let sent = trouble != Trouble::Refused;
                unknown = unknown.saturating_add(u64::from(sent));
                refused = refused.saturating_add(u64::from(!sent));
                if !is_excused(history, call, trouble) {
                    verdict.breaks(format!("{} was not answered ({trouble:?})", place(call)));
                }
            }
        }
    }
    took.sort_unstable();
    let at = |percent: usize| {
        let place = took.len().saturating_sub(1).saturating_mul(percent) / 100;
        took.get(place).copied().unwrap_or(0)
    };
    verdict.said = format!(
        "{unknown} unknown, {refused} refused; answered within {:.1} ms (50 %), {:.1} ms (99 %), \
         {:.1} ms (all); {degraded} of {calm} degraded while nothing was wrong",
        seconds(at(50)),
        seconds(at(99)),
        seconds(at(100))
    );
    verdict
}

/// How many calls were answered while nothing was wrong in a region, nor had been; and how many of
/// them without Redis. By the rule `fast` nobody waits for it.
fn calm_in(history: &History, region: usize) -> (u64, u64) {
    let (mut calm, mut degraded) = (0_u64, 0_u64);
    let here = |call: &&Call| region_of(call.node) == region && !call.subject.fast;
    for call in history.calls.iter().filter(here) {
        let Some(answer) = call.answer() else { continue };
        let times = (call.sent_ms, call.ended_ms);
        if history.faults(region, times, AFTER_MS).next().is_none() {
            calm = calm.saturating_add(1);
            degraded = degraded.saturating_add(u64::from(answer.degraded));
        }
    }
    (calm, degraded)
}

/// Which call, in words.
fn place(call: &Call) -> String {
    let at = seconds(call.sent_ms);
    format!("{} at {} ({at:.1} s)", call.subject.name(), node_name(call.node))
}

/// Whether the server stood still at some time of the call.
fn is_stopped(history: &History, node: usize, call: &Call) -> bool {
    let here = |one: &&Struck| one.fault.kind == Kind::StopServer && one.fault.node == node;
    let (from_ms, to_ms) = (call.sent_ms, call.ended_ms);
    history.faults.iter().filter(here).any(|one| one.touches(from_ms, to_ms, APART_MS))
}

/// Whether the server was killed or stood still at some time of the call. One that was asked to end
/// answers whoever reaches it: it may refuse, and lose nothing.
fn is_excused(history: &History, call: &Call, trouble: Trouble) -> bool {
    let ended = history.life(call.node, call.life).and_then(|life| life.ended);
    let excuses = |(at_ms, killed): (u64, bool)| {
        let before = at_ms <= call.ended_ms.saturating_add(APART_MS);
        before && (killed || trouble == Trouble::Refused)
    };
    ended.is_some_and(excuses) || is_stopped(history, call.node, call)
}
