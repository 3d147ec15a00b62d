//! What servers say of themselves: usage that never falls, and that they are ready.

use std::collections::BTreeMap;

use super::Verdict;
use crate::fault::{Kind, Struck};
use crate::history::{History, Ready};
use crate::shape::{Subject, node_name};
use crate::strike::seconds;

/// How far the times of those who look and of those who end servers may lie apart.
const APART_MS: u64 = 1_000;

/// Within one life and one window, what is counted never falls.
pub(super) fn monotone(history: &History) -> Verdict {
    let mut verdict = Verdict::new("monotone");
    let mut last: BTreeMap<(usize, u32, &Subject), u64> = BTreeMap::new();
    for look in &history.looks {
        verdict.judged = verdict.judged.saturating_add(1);
        let key = (look.node, look.life, look.subject.as_ref());
        let before = last.insert(key, look.current).unwrap_or(0);
        if look.current < before {
            let (name, who) = (look.subject.name(), node_name(look.node));
            let at = seconds(look.at_ms);
            verdict.breaks(format!("{name} at {who} ({at:.1} s): {} after {before}", look.current));
        }
    }
    verdict.said = format!("{} views of {} lives and subjects", history.looks.len(), last.len());
    verdict
}

/// A living server is ready whatever the stores do, and no longer `degraded` soon after all is
/// well.
pub(super) fn ready(history: &History) -> Verdict {
    let mut verdict = Verdict::new("ready");
    for ready in &history.ready {
        verdict.judged = verdict.judged.saturating_add(1);
        if ready.status != Some(200) && !is_away(history, ready) {
            let (who, at) = (node_name(ready.node), seconds(ready.from_ms));
            verdict.breaks(format!("{who} said {:?} ({at:.1} s)", ready.status));
        }
    }
    for (node, healed_ms) in history.healed_ms.iter().enumerate() {
        verdict.judged = verdict.judged.saturating_add(1);
        if healed_ms.is_none() {
            verdict.breaks(format!("{} is degraded although all is well", node_name(node)));
        }
    }
    let longest_ms = history.healed_ms.iter().flatten().max().copied().unwrap_or(0);
    verdict.said = format!("not degraded {:.1} s after the last fault", seconds(longest_ms));
    verdict
}

/// Whether the server ended or stood still at some time of the question.
fn is_away(history: &History, ready: &Ready) -> bool {
    let (from_ms, to_ms) = (ready.from_ms, ready.to_ms.saturating_add(APART_MS));
    let gone = history.lives.iter().filter(|life| life.node == ready.node).any(|life| {
        let gone_ms = life.gone_ms.unwrap_or(u64::MAX).saturating_add(APART_MS);
        life.ended.is_some_and(|(at_ms, _)| at_ms <= to_ms && from_ms <= gone_ms)
    });
    let stops = |one: &Struck| {
        one.fault.kind == Kind::StopServer
            && one.fault.node == ready.node
            && one.touches(from_ms, to_ms, APART_MS)
    };
    gone || history.faults.iter().any(stops)
}
