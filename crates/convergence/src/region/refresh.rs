//! Who waits for the region, and for what.

use std::collections::BTreeSet;

use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{Need, Now, Reason, Table, Ticket};

use super::{At, Entry, Kind, Outcome, Refresh, Region, Wait, Waiter};
use crate::store::Shard;

impl Region {
    /// A request needs to hear of these subjects. A read under way is shared, unless the request is
    /// strict and came after it was sent. The others are read at once, in one round trip for each
    /// shard; when several reads are under way already, together with what else is asked until one
    /// of them ends. The [crate](crate) begins with an example.
    pub fn refresh(&mut self, table: &Table, needs: &[Need], now: Now) -> Refresh {
        self.refresh_for(At { table, now }, needs, None)
    }

    /// The same for a request that [looked again](Outcome::look_again), and that waited as `since`
    /// when it came. Whatever was sent after that is shared by all who come back together;
    /// otherwise the first of them would send a read, and all others would wait for the one after
    /// that, over and over. The [crate](crate) begins with an example.
    pub fn refresh_again(
        &mut self,
        table: &Table,
        needs: &[Need],
        since: Waiter,
        now: Now,
    ) -> Refresh {
        self.refresh_for(At { table, now }, needs, Some(since))
    }

    fn refresh_for(&mut self, at: At<'_>, needs: &[Need], since: Option<Waiter>) -> Refresh {
        let (table, waiter) = (at.table, Waiter(self.next()));
        let (mut left, mut unheard, mut shards) = (0, Vec::new(), BTreeSet::new());
        let mut look_again = false;
        for need in needs {
            if need.reason == Reason::Reserved {
                // It waits for the end of what is asked for, if it has not ended already.
                let waits =
                    |entry: &&mut Entry| !entry.is_unasked() && !planted::is(Planted::LooksAtOnce);
                match self.subjects.get_mut(&need.subject).filter(waits) {
                    Some(entry) => {
                        entry.later.push(waiter);
                        left += 1;
                    }
                    None => look_again = true,
                }
                continue;
            }
            let Some(cells) = table.cells(need.subject) else {
                // It was dropped since the request was looked at: nothing is known of it.
                look_again = true;
                continue;
            };
            let shard = self.shard_of(cells.current.digest());
            let open = self.state(shard).is_some_and(|state| state.refresh.may_admit(at.ms()));
            let entry = self.subjects.enter(need.subject);
            let read = entry.refresh.is_some() && !planted::is(Planted::EachReads);
            let under_way = entry.ask.is_some() || read;
            // Callers and calls are numbered in the order in which they come.
            let sent_after = |since: Waiter| {
                let calls = [entry.ask, entry.refresh].into_iter().flatten();
                calls.min().is_some_and(|call| call.0 > since.0)
            };
            if under_way && need.reason == Reason::Strict && !since.is_some_and(sent_after) {
                // It must not be content with what was asked before it came.
                entry.later.push(waiter);
                self.counts.refreshes_joined += 1;
            } else if under_way || entry.asked {
                // What is asked for tells as much as a read; which would disturb it.
                entry.waiters.push(waiter);
                self.counts.refreshes_joined += 1;
            } else if open {
                entry.asked = true;
                entry.waiters.push(waiter);
                self.counts.count_reason(need.reason);
                if let Some(state) = self.state(shard) {
                    state.asked.push_back(need.subject);
                }
                shards.insert(shard);
            } else {
                unheard.push(need.subject);
                continue;
            }
            left += 1;
        }
        for subject in &unheard {
            self.counts.refreshes_refused += 1;
            self.not_soon(at, *subject);
            self.drop_if_idle(*subject);
        }
        if left == 0 {
            return if look_again { Refresh::LookAgain } else { Refresh::Refused };
        }
        self.waiters
            .insert(waiter, Wait { left, outcome: Outcome { unheard, look_again, granted: None } });
        for shard in shards {
            self.read_asked(at, shard);
        }
        Refresh::Wait(waiter)
    }

    /// Reads what callers wait for, as long as the shard takes it.
    pub(super) fn read_asked(&mut self, at: At<'_>, shard: Shard) {
        let tuning = self.tuning;
        loop {
            let Some(state) = self.state(shard) else { return };
            if state.asked.is_empty()
                || state.refreshes_in_flight >= tuning.refreshes_in_flight_max.max(1)
            {
                return;
            }
            let most = state.asked.len().min(tuning.call_records_max.max(1));
            let subjects: Vec<Ticket> = state.asked.drain(..most).collect();
            let mut free = Vec::new();
            for subject in &subjects {
                let Some(entry) = self.subjects.get_mut(subject) else { continue };
                entry.asked = false;
                // What is asked for tells as much.
                if entry.ask.is_none() {
                    free.push(*subject);
                }
            }
            let admitted = free.is_empty()
                || self.state(shard).is_some_and(|state| state.refresh.admits(at.ms()));
            if admitted && !free.is_empty() {
                self.send(at, shard, Kind::Refresh, &free);
            }
            for subject in subjects {
                self.end_unless_read(at, subject, admitted);
            }
        }
    }

    /// Nobody waits for a subject that is not read: if the breaker opened meanwhile, they decide on
    /// what is known; if it was dropped from the table, they look again.
    fn end_unless_read(&mut self, at: At<'_>, subject: Ticket, admitted: bool) {
        let read = |entry: &&mut Entry| entry.refresh.is_none() && entry.ask.is_none();
        let Some(entry) = self.subjects.get_mut(&subject).filter(read) else {
            return;
        };
        for waiter in std::mem::take(&mut entry.waiters) {
            self.end_wait(waiter, subject, (false, admitted));
        }
        if !admitted {
            self.counts.refreshes_refused += 1;
            self.not_soon(at, subject);
        }
        // Whatever else there is to do about it; nothing, if it is gone.
        self.schedule(at, subject);
    }

    /// Those who come in the next moment need not ask whether the region answers by now.
    pub(super) fn not_soon(&self, at: At<'_>, subject: Ticket) {
        if let Some(cells) = at.table.cells(subject) {
            cells.retry_no_sooner(at.ms().saturating_add(self.tuning.retry_ms));
        }
    }
}
