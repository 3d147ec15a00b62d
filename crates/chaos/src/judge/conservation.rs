//! In the end the stores hold what callers were told, and all servers agree.
//!
//! A region's Redis holds at least what was admitted, without what the documents allow to be
//! forgotten (a process that was killed, an outage, a loss of data), and at most that with the
//! calls of which nobody knows. What a batch that was denied has charged would be more than that.
//! Of another region a server knows what that one had to tell.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{AFTER_MS, RECORD_MS, Verdict};
use crate::fault::Struck;
use crate::history::{Call, History, Life, Seen};
use crate::shape::{REGIONS, Subject, node_name, region_name, region_of};

/// What is known of one subject in one region.
#[derive(Debug, Default)]
struct Account {
    admitted: u64,
    unknown: u64,
    forgotten: u64,
    seen: Vec<Seen>,
}

/// All that lasts, by subject and region.
type Accounts = BTreeMap<(Arc<Subject>, usize), Account>;

pub(crate) fn judge(history: &History) -> Verdict {
    let mut verdict = Verdict::new("conservation");
    let accounts = accounts(history);
    let (mut admitted, mut unknown, mut forgotten, mut recorded) = (0_u64, 0_u64, 0_u64, 0_u64);
    for ((subject, region), account) in &accounts {
        verdict.judged = verdict.judged.saturating_add(1);
        admitted = admitted.saturating_add(account.admitted);
        unknown = unknown.saturating_add(account.unknown);
        forgotten = forgotten.saturating_add(account.forgotten);
        recorded =
            recorded.saturating_add(account.seen.first().and_then(|one| one.sum).unwrap_or(0));
        at_home(&mut verdict, (subject, *region), account);
        for other in (0..REGIONS).filter(|other| other != region) {
            if let Some(theirs) = accounts.get(&(Arc::clone(subject), other)) {
                abroad(&mut verdict, subject, account, theirs);
            }
        }
    }
    verdict.said = format!(
        "{admitted} admitted, {recorded} recorded; {forgotten} may be forgotten, {unknown} unknown"
    );
    verdict
}

/// What was admitted to each, and what is said of it.
fn accounts(history: &History) -> Accounts {
    let mut accounts = Accounts::new();
    for call in history.calls.iter().filter(|call| call.subject.class.lasts()) {
        let at = (Arc::clone(&call.subject), region_of(call.node));
        let account = accounts.entry(at).or_default();
        account.admitted = account.admitted.saturating_add(call.admitted());
        account.unknown = account.unknown.saturating_add(call.unknown());
        let forgotten = if forgets(history, call) { call.admitted() } else { 0 };
        account.forgotten = account.forgotten.saturating_add(forgotten);
    }
    for seen in history.seen.iter().filter(|seen| seen.subject.class.lasts()) {
        let at = (Arc::clone(&seen.subject), region_of(seen.node));
        accounts.entry(at).or_default().seen.push(seen.clone());
    }
    accounts
}

/// Whether the documents allow that this admission is forgotten: its process has ended, and it
/// either had no time to record it, or Redis lost what it had recorded.
fn forgets(history: &History, call: &Call) -> bool {
    let Some(Life { ended: Some((end_ms, _)), .. }) = history.life(call.node, call.life) else {
        return false;
    };
    // What a loss takes is sent again by those who live a while longer.
    let lost =
        |one: &Struck| one.fault.kind.loses() && one.to_ms.saturating_add(AFTER_MS) >= *end_ms;
    let region = region_of(call.node);
    history.faults.iter().filter(|one| one.concerns(region)).any(lost) || is_untold(history, call)
}

/// Whether a process may have ended before it had told Redis of this admission, or told it again
/// after a loss: it may have told only a part of what it admitted.
pub(super) fn is_untold(history: &History, call: &Call) -> bool {
    let Some(Life { ended: Some((end_ms, killed)), gone_ms, .. }) =
        history.life(call.node, call.life).copied()
    else {
        return false;
    };
    let region = region_of(call.node);
    let gone_ms = gone_ms.unwrap_or(end_ms);
    // What is lost when it is gone, is lost as a whole.
    if history.faults(region, (end_ms, gone_ms), AFTER_MS).any(|one| one.fault.kind.loses()) {
        return true;
    }
    // Killed: what it had not sent. Asked to end: what it could not send until it had to.
    let mut since_ms = if killed { end_ms.saturating_sub(RECORD_MS) } else { u64::MAX };
    let hides = |one: &&Struck| one.fault.kind.hides_redis();
    loop {
        let from_ms = since_ms.min(end_ms);
        let faults = history.faults(region, (from_ms, gone_ms), AFTER_MS).filter(hides);
        let first_ms = faults.map(|one| one.from_ms.saturating_sub(RECORD_MS)).min();
        match first_ms {
            Some(first_ms) if first_ms < since_ms => since_ms = first_ms,
            _ => break,
        }
    }
    call.ended_ms >= since_ms
}

/// A region's own store, and what its servers count.
fn at_home(verdict: &mut Verdict, (subject, region): (&Subject, usize), account: &Account) {
    let Account { admitted, unknown, forgotten, seen } = account;
    let name = format!("{} in {}", subject.name(), region_name(region));
    let (least, most) = (admitted.saturating_sub(*forgotten), admitted.saturating_add(*unknown));
    for one in seen {
        let who = node_name(one.node);
        match one.sum {
            None => verdict.breaks(format!("{name}: Redis did not answer {who}")),
            Some(sum) if sum < least => verdict.breaks(format!(
                "{name}: {sum} recorded, {admitted} admitted, at most {forgotten} forgotten"
            )),
            Some(sum) if sum > most => verdict.breaks(format!(
                "{name}: {sum} recorded, {admitted} admitted, at most {unknown} unknown"
            )),
            // Its own published totals count, also when Redis lost them.
            Some(sum) if one.region < sum || one.region > most => verdict.breaks(format!(
                "{name}: {who} counts {}, {sum} recorded, at most {most} admitted",
                one.region
            )),
            Some(_) => {}
        }
    }
    // Who heard of something before Redis lost it still counts it, and who came later does not.
    let counts = || seen.iter().map(|one| one.region);
    let apart = counts().max().unwrap_or(0).saturating_sub(counts().min().unwrap_or(0));
    if apart > *forgotten {
        let all: Vec<u64> = counts().collect();
        verdict.breaks(format!("{name}: its servers count {all:?}, {forgotten} were forgotten"));
    }
    if seen.is_empty() {
        verdict.breaks(format!("{name}: no server said what it knows"));
    }
}

/// What a region knows of another. What is hidden is at most 5 % of the limit or half of what is
/// left, whichever is more (docs/globe.md).
fn abroad(verdict: &mut Verdict, subject: &Subject, here: &Account, there: &Account) {
    let recorded = there.seen.iter().filter_map(|one| one.sum).min().unwrap_or(0);
    let most = there.admitted.saturating_add(there.unknown);
    for one in &here.seen {
        let used = one.region.saturating_add(one.foreign);
        let hidden = (subject.limit / 20).max(subject.limit.saturating_sub(used) / 2).max(1);
        let name = format!("{} at {}", subject.name(), node_name(one.node));
        if one.foreign > most {
            verdict.breaks(format!("{name}: {} of other regions, {most} at most", one.foreign));
        }
        if one.foreign.saturating_add(hidden) < recorded {
            verdict.breaks(format!(
                "{name}: {} of other regions, which recorded {recorded} and may hide {hidden}",
                one.foreign
            ));
        }
    }
}
