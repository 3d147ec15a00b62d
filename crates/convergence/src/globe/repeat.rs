//! How a leader keeps the feed short, and whole.
//!
//! What is live is published once more now and then, so that the rows that held it can be deleted.
//! Who has read the feed to its end skips such a row: it knows what is in it. After a loss
//! everything is published again, and what is repeated next may be news to all.
//!
//! Nothing is deleted before its repetition was read: a failover may lose what was acknowledged,
//! and whoever has read no row of it would not miss it.

use std::collections::BTreeSet;

use crate::board::Post;
use crate::global::{GlobalCall, RegionNumber};
use crate::pack::Counter;

use super::publish::COUNTERS_AT_ONCE;
use super::values::OwnWalk;
use super::{At, Call, Globe};

/// Most rows deleted in one call.
const TRIMMED_AT_ONCE: usize = 500;
/// Cells looked at in one step: a fraction of a millisecond.
const WALK_STEPS: usize = 4_096;
/// What is published again waits while there is more than this to publish.
const RESEND_BACKLOG: usize = 10_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Repeats {
    under_way: Option<Repetition>,
    next_ms: u64,
    /// Totals of the own region that were imported since the last repetition.
    since: u64,
    /// Everything is published again, from here on.
    resend: Option<OwnWalk>,
    next_resend_ms: u64,
    /// Who does not lead posts everything, from here on and from this moment on...
    remind: Option<(OwnWalk, u64)>,
    /// ...for the second time: then it leaves the rest to others.
    reminded: bool,
    /// The feed has lost rows, and nothing was published again since: of what is known here the
    /// others may know less.
    news: bool,
    /// Something that the own region published could not be read or kept, so it cannot be repeated.
    incomplete: bool,
}

/// What is live is being published once more.
#[derive(Debug)]
struct Repetition {
    /// How far it is; `None` if everything is sent.
    walk: Option<OwnWalk>,
    /// A call is under way.
    calls: bool,
    /// All that the own region wrote up to here is repeated.
    up_to: u64,
    /// Its rows that no import has shown, by their random numbers.
    unread: BTreeSet<u64>,
    /// When the last of them was acknowledged.
    written_ms: u64,
}

impl Repeats {
    pub(super) const fn new() -> Self {
        Self {
            under_way: None,
            next_ms: 0,
            since: 0,
            resend: None,
            next_resend_ms: 0,
            remind: None,
            reminded: false,
            news: false,
            incomplete: false,
        }
    }

    /// Nothing is deleted that was not repeated: what was begun is left.
    pub(super) fn stop(&mut self) {
        self.under_way = None;
    }

    /// A row was read that was written with this random number.
    pub(super) fn read(&mut self, nonce: u64) {
        if let Some(repetition) = &mut self.under_way {
            repetition.unread.remove(&nonce);
        }
    }

    /// The own region had so many totals in a row.
    pub(super) const fn seen(&mut self, counters: u64) {
        self.since += counters;
    }

    /// Something that the own region published could not be read or kept.
    pub(super) const fn miss(&mut self) {
        self.incomplete = true;
    }

    /// Everything is published again; by who leads then, or is reminded at that moment.
    pub(super) fn resend(&mut self, remind_ms: u64) {
        (self.resend, self.reminded) = (Some(OwnWalk::default()), false);
        self.remind = Some((OwnWalk::default(), remind_ms));
        // What was repeated so far may be lost, too.
        self.stop();
        self.news = true;
    }
}

impl Globe {
    /// After a loss: publishes everything again, in steps, and no more often than it repeats.
    pub(super) fn resend(&mut self, at: At<'_>) {
        let ready = self.leader.leads(at.ms()) && self.feed.is_settled();
        let early = self.leader.repeats.next_resend_ms > at.ms();
        if !ready || early || self.leader.backlog() > RESEND_BACKLOG {
            return;
        }
        let Some(mut walk) = self.leader.repeats.resend else { return };
        let (own, more) = self.values.own(&mut walk, WALK_STEPS);
        own.into_iter().for_each(|counter| self.put_out(counter));
        self.leader.repeats.resend = more.then_some(walk);
        if !more {
            let next_ms = at.ms().saturating_add(self.tuning.repeat_ms);
            (self.leader.repeats.next_resend_ms, self.leader.repeats.news) = (next_ms, false);
        }
    }

    /// After a loss: who leads may not have read what was lost, and then does not miss it. Others
    /// of the region take it as published, so they have it looked at. Twice: who leads may have put
    /// it off and be killed, and who leads next may have read it or not. If it has, it publishes it
    /// again itself, until then.
    pub(super) fn remind(&mut self, at: At<'_>) {
        let repeats = &self.leader.repeats;
        let Some((mut walk, from_ms)) = repeats.remind.filter(|_| repeats.resend.is_some()) else {
            return;
        };
        if self.leader.leads(at.ms()) || from_ms > at.ms() || !self.feed.is_settled() {
            return;
        }
        let (own, more) = self.values.own(&mut walk, WALK_STEPS);
        for Counter { subject, window_ms, sequence, .. } in own {
            self.post_unserved(at, Post { subject, window_ms, sequence, step: 1 });
        }
        let repeats = &mut self.leader.repeats;
        if more {
            repeats.remind = Some((walk, from_ms));
        } else if std::mem::replace(&mut repeats.reminded, true) {
            (repeats.remind, repeats.resend) = (None, None);
        } else {
            // After as long as it may have been put off.
            let again_ms = at.ms().saturating_add(self.tuning.repeat_ms);
            repeats.remind = Some((OwnWalk::default(), again_ms));
        }
    }

    /// Publishes what is live once more, when several times as much was published since the last
    /// time: the feed stays short, and so does a cold start.
    pub(super) fn repeat(&mut self, at: At<'_>, region: RegionNumber) {
        // A clock that jumped would delete what is live.
        let ready = self.leader.leads(at.ms()) && self.feed.is_settled() && self.is_steady(at);
        if !ready || self.leader.repeats.incomplete || !self.leader.is_able(at.ms()) {
            return;
        }
        self.begin_repetition(at);
        // One call at a time: nobody waits for these.
        let Some(repetition) = &mut self.leader.repeats.under_way else { return };
        if repetition.calls {
            return;
        }
        let mut walk = repetition.walk;
        let mut counters = Vec::new();
        for _ in 0..WALK_STEPS / COUNTERS_AT_ONCE {
            let Some(mut here) = walk.filter(|_| counters.is_empty()) else { break };
            let (own, more) = self.values.own(&mut here, COUNTERS_AT_ONCE);
            (counters, walk) = (own, more.then_some(here));
        }
        repetition.walk = walk;
        let repeats = !self.leader.repeats.news;
        if let Some(batch) = self.batch(at, region, (&counters, repeats)) {
            if let Some(repetition) = &mut self.leader.repeats.under_way {
                repetition.calls = true;
                repetition.unread.insert(batch.nonce);
            }
            let counters = counters.len();
            self.send(Call::Repeat { counters }, GlobalCall::Publish(batch));
        } else if walk.is_none() {
            self.leader.repeats.news = false;
            self.trim(at, region);
        }
    }

    /// Deletes what is repeated, if all of the repetition was read. If it then is lost, who leads
    /// misses it.
    fn trim(&mut self, at: At<'_>, region: RegionNumber) {
        let Some(repetition) = &mut self.leader.repeats.under_way else { return };
        if !repetition.unread.is_empty() {
            // Not among everything that was there long after it was acknowledged: it is lost, and
            // what it repeats is all there is.
            let late_ms = repetition.written_ms.saturating_add(self.tuning.repost_ms);
            if self.feed.heard_ms() >= late_ms {
                self.leader.repeats.stop();
            }
            return;
        }
        repetition.calls = true;
        let (up_to, rows_max) = (repetition.up_to, TRIMMED_AT_ONCE);
        let written_before_ms = at.now.unix_ms().saturating_sub(self.tuning.grace_ms);
        let trim = GlobalCall::Trim { region, up_to, written_before_ms, rows_max };
        self.send(Call::Trim, trim);
    }

    fn begin_repetition(&mut self, at: At<'_>) {
        let live = (self.values.own_cells() as u64).saturating_mul(self.tuning.repeat_times);
        let enough = live.max(self.tuning.repeat_counters_min);
        let repeats = &mut self.leader.repeats;
        // Before it has been here for a while it does not know what may be deleted.
        let up_to = self.feed.deletable_up_to();
        let due = repeats.since >= enough && repeats.next_ms <= at.ms() && up_to > 0;
        if repeats.under_way.is_none() && due {
            (repeats.next_ms, repeats.since) = (at.ms() + self.tuning.repeat_ms, 0);
            let walk = Some(OwnWalk::default());
            let (unread, written_ms) = (BTreeSet::new(), 0);
            repeats.under_way = Some(Repetition { walk, calls: false, up_to, unread, written_ms });
        }
    }

    /// A row of a repetition was written, or was not.
    pub(super) fn repeated(&mut self, at: At<'_>, counters: usize, succeeded: bool) {
        let Some(repetition) = &mut self.leader.repeats.under_way else { return };
        (repetition.calls, repetition.written_ms) = (false, at.ms());
        if succeeded {
            self.counts.repeated += counters as u64;
        } else {
            self.counts.publish_errors += 1;
            self.leader.repeats.stop();
        }
    }

    /// Rows were deleted, or were not (`None`).
    pub(super) fn trimmed(&mut self, rows: Option<u64>) {
        self.counts.publish_errors += u64::from(rows.is_none());
        let rows = rows.unwrap_or(0);
        self.counts.trimmed_rows += rows;
        let Some(repetition) = &mut self.leader.repeats.under_way else { return };
        repetition.calls = false;
        if rows < TRIMMED_AT_ONCE as u64 {
            self.leader.repeats.stop();
        }
    }
}
