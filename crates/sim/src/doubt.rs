//! Whether a shard has given a process a reason to do without it.
//!
//! A process may decide unasked, and may keep what it admitted to itself, only where calls failed
//! or took too long, and only for as long as its tuning says. What a process takes for a failure is
//! reckoned apart from it: by what became of its calls.

use std::collections::BTreeMap;

use tidegate_convergence::{BreakerTuning, Grant, Shard, ShardReply, Token, Tuning};
use tidegate_limiter::Answer;

use crate::decide::Concluded;
use crate::node::{Ask, Call, Caller, Process};
use crate::truth::Name;
use crate::world::World;

/// A call that takes longer is late: many times what the network takes when nothing is wrong.
pub(crate) const LATE_MS: u64 = 100;
/// What a step of a process may come later than it is due.
const SLACK_MS: u64 = 50;
/// Where a message takes no longer than this, three round trips are less than a caller waits for.
const QUICK_US: u64 = 3_000;

/// What a process has seen of its shards.
#[derive(Debug, Default)]
pub(crate) struct Doubts(BTreeMap<Shard, Doubt>);

/// What it has seen of one, in milliseconds of its monotonic clock.
#[derive(Clone, Debug, Default)]
struct Doubt {
    /// When a call last failed, or a breaker may have opened.
    failed_ms: Option<u64>,
    /// The same, or one was late.
    late_ms: Option<u64>,
    /// How many calls that callers wait for were sent and answered since.
    answered: u32,
    /// When there were enough of them.
    probed_ms: Option<u64>,
    /// When the last one of those ended.
    busy_ms: u64,
    /// When the calls failed by which a breaker judges.
    failures_ms: Vec<u64>,
    /// Who the shard said it is.
    token: Option<Token>,
}

impl Doubts {
    /// A call has ended; `said` is `None` if nobody answered.
    pub(crate) fn end(
        &mut self,
        call: &Call,
        said: Option<&ShardReply>,
        (tuning, now_ms): (&BreakerTuning, u64),
    ) {
        let doubt = self.0.entry(call.call.shard).or_default();
        let awaited = call.awaited || call.call.ask.is_some();
        let estranged = said.is_some_and(|said| {
            // What was asked of it before it lost its data is not heard.
            doubt.token.replace(said.token).is_some_and(|token| token != said.token)
        });
        let failed = said.is_none_or(|said| has_failed(call, said)) || estranged;
        let opens = doubt.opens(failed, tuning, now_ms);
        if failed || opens {
            (doubt.failed_ms, doubt.answered) = (Some(now_ms), 0);
        } else if awaited && doubt.failed_ms < Some(call.sent_ms) {
            doubt.answered += 1;
            if doubt.answered == tuning.probes {
                doubt.probed_ms = Some(now_ms);
            }
        }
        if failed || opens || now_ms.saturating_sub(call.sent_ms) > LATE_MS {
            doubt.late_ms = Some(now_ms);
        }
        if awaited {
            doubt.busy_ms = now_ms;
        }
    }

    /// Whether a caller that came at `came_ms` may be decided without the shard.
    fn excuse(&self, shard: Shard, tuning: &Tuning, came_ms: u64, busy: bool) -> bool {
        let Some(doubt) = self.0.get(&shard) else { return false };
        let Some(failed_ms) = doubt.failed_ms else { return false };
        let retry_ms = tuning.retry_ms.max(tuning.ask_retry_ms) + tuning.deadline_ms + SLACK_MS;
        if came_ms <= failed_ms + tuning.breaker.open_ms + retry_ms {
            return true;
        }
        // A few are let through to see whether it is back, and the others do not wait for them; nor
        // do they ask again in the next moment, although those were answered.
        if doubt.probed_ms.is_some_and(|probed_ms| came_ms <= probed_ms + retry_ms) {
            return true;
        }
        let probes = doubt.answered < tuning.breaker.probes;
        probes && (busy || came_ms <= doubt.busy_ms + retry_ms)
    }

    /// When a shard last failed or was late.
    pub(crate) fn late_ms(&self, shard: Shard) -> Option<u64> {
        self.0.get(&shard).and_then(|doubt| doubt.late_ms)
    }
}

impl Doubt {
    /// Whether a breaker may open now. It judges by all calls of a period, and whenever one ends:
    /// also when that one did not fail.
    fn opens(&mut self, failed: bool, tuning: &BreakerTuning, now_ms: u64) -> bool {
        self.failures_ms.retain(|failed_ms| failed_ms + tuning.period_ms > now_ms);
        if failed {
            self.failures_ms.push(now_ms);
        }
        self.failures_ms.len() as u64 * 2 >= u64::from(tuning.calls_min)
    }
}

/// Whether an answer says that something of the call was not done.
fn has_failed(call: &Call, said: &ShardReply) -> bool {
    let refused = said.replies.iter().any(Option::is_none);
    let unasked = call.call.ask.is_some() && said.asked.is_none();
    let grants = said.asked.iter().flat_map(|asked| &asked.grants);
    refused || unasked || grants.into_iter().any(|grant| *grant == Grant::Conflict)
}

impl World {
    /// A process speaks with a shard. Those that are there hear of it when they next look who it
    /// is.
    pub(crate) fn meet(&mut self, (home, number): (usize, u32), shard: Shard) {
        let looked_ms = self.tuning.token_ms * 6 / 5 + LATE_MS;
        let until_ms = self.now_ms() + looked_ms;
        self.homes.at_mut(home).truth.meet(shard, number, until_ms);
    }

    /// Something was admitted to a cell.
    pub(crate) fn touch_cell(&mut self, home: usize, name: Name) {
        let Some(spec) = self.specs.get(name.0) else { return };
        let (shard, now_ms) = (Shard::of(spec.digest, self.options.shards), self.now_ms());
        self.homes.at_mut(home).truth.touch(name, shard, now_ms);
    }

    /// What is admitted unasked, although the region should have been asked, has a cause:
    /// the caller has waited for as long as it may, or the shard failed a moment ago.
    pub(crate) fn check_excused(
        &mut self,
        process: &Process,
        caller: &Caller,
        (ask, answer): (Ask, &Answer),
        c: &Concluded,
    ) {
        if !answer.degraded() || !c.admitted {
            return;
        }
        // What several shards would have to grant is decided on what is read.
        let apart = caller.batch && c.last && ask.bounded;
        // What was heard of it is gone with it.
        let came_us = process.moment_us(caller.came.monotonic_ms);
        let drops = process.dropped.is_some_and(|at_us| at_us >= came_us);
        let since_us = process.dropped_us.get(&ask.subject).copied();
        let dropped =
            drops && c.last && !c.in_vain || since_us.is_some_and(|at_us| at_us >= came_us);
        // Behind a batch it may have been more than three round trips.
        let quick = self.is_quick() && !caller.behind_batch;
        let waited = self.now_us >= caller.deadline_us && !quick;
        if apart || waited || dropped {
            return;
        }
        let Some(spec) = self.specs.get(ask.subject) else { return };
        let own = Shard::of(spec.digest, self.options.shards);
        let came_ms = c.reading.monotonic_ms;
        // Whoever takes the place of one that was dropped takes its excuse as well.
        let mut shards = (0..self.options.shards).map(Shard).filter(|it| drops || *it == own);
        let excused = shards.any(|shard| {
            let mut calls = process.calls.values().filter(|call| call.call.shard == shard);
            let busy = calls.any(|call| call.awaited || call.call.ask.is_some());
            process.doubts.excuse(shard, &self.tuning, came_ms, busy)
        });
        if !excused {
            let number = process.number;
            self.broken("unexcused", || {
                format!("process {number} admits {ask:?} unasked, and nothing failed")
            });
        }
    }

    /// Whether everybody who asks hears in time.
    fn is_quick(&self) -> bool {
        let (_, most_us) = self.options.latency_us;
        self.is_calm() && most_us <= QUICK_US && self.tuning == Tuning::default()
    }

    /// Since when nothing keeps a process from telling a shard what it admitted, in microseconds;
    /// `None` if something does.
    pub(crate) fn well_since_us(&self, process: &Process, shard: Shard) -> Option<u64> {
        let now_ms = self.reading(process).monotonic_ms;
        let mut calls = process.calls.values().filter(|call| call.call.shard == shard);
        if calls.any(|call| now_ms.saturating_sub(call.sent_ms) > LATE_MS) {
            return None;
        }
        let late_us = process.doubts.late_ms(shard).map(|late_ms| process.moment_us(late_ms));
        let stood_us = self.nodes.get(process.node).map_or(0, |node| node.stood_until_us);
        Some(late_us.unwrap_or(0).max(stood_us))
    }
}
