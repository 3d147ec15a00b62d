//! What comes back.

use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{Now, Table, Ticket};

use super::{Answered, At, CallId, Effect, Flight, Item, Kind, Region, Touched};
use crate::store::{Reply, ShardReply};

/// How soon a replay that failed is tried again by a process that is about to end.
const DRAIN_RETRY_MS: u64 = 50;

impl Region {
    /// The answer to a call, or that there is none. The [crate](crate) begins with an example.
    pub fn replied(&mut self, table: &Table, id: CallId, answered: Answered, now: Now) {
        let at = At { table, now };
        let Some(flight) = self.calls.remove(&id) else { return };
        let (success, took_ms) = (answered.is_ok(), at.ms().saturating_sub(flight.sent_ms));
        let deadline_ms = self.tuning.deadline_ms;
        if let Some(state) = self.state(flight.shard) {
            if matches!(flight.kind, Kind::Ask | Kind::Refresh) {
                // What came too late for who was to be denied is as bad as nothing.
                state.doubtful = !success || flight.late;
                state.took_ms = if success { took_ms } else { state.took_ms };
            }
            match flight.kind {
                Kind::Ask => {
                    state.asks_in_flight = state.asks_in_flight.saturating_sub(1);
                    state.refresh.report(success, at.ms());
                }
                Kind::Refresh => {
                    state.refreshes_in_flight = state.refreshes_in_flight.saturating_sub(1);
                    state.refresh.report(success, at.ms());
                }
                Kind::Replay => {
                    state.replays_in_flight = state.replays_in_flight.saturating_sub(1);
                    state.replay.report(success, at.ms());
                }
                Kind::Token if success => {
                    // Asked after the end was announced: what it has acknowledged, it has.
                    state.trusted |= flight.draining;
                    state.replay.heard(at.ms());
                    // Nobody waits longer for a read.
                    if took_ms <= deadline_ms {
                        state.refresh.heard(at.ms());
                    }
                }
                Kind::Token if flight.draining => {
                    state.next_token_ms = at.ms().saturating_add(DRAIN_RETRY_MS);
                }
                Kind::Token => {}
            }
        }
        self.counts.calls_failed += u64::from(!success);
        match answered {
            Ok(reply) => self.heard(at, id, &flight, &reply),
            Err(_) => {
                self.settle_units(at, &flight, None);
                for item in &flight.items {
                    self.unheard(at, id, &flight, item);
                }
            }
        }
        let subjects: Vec<Ticket> = flight.items.iter().map(|item| item.subject).collect();
        self.free_lines(flight.shard, &subjects);
        self.send_lines(at, flight.shard);
        self.read_asked(at, flight.shard);
        self.replay_ready(at, flight.shard);
    }

    fn heard(&mut self, at: At<'_>, id: CallId, flight: &Flight, reply: &ShardReply) {
        self.watch(at, flight, reply);
        if let (Some(present), Some(state)) = (reply.present, self.state(flight.shard)) {
            state.present = Some(present);
        }
        let asked = reply.asked.as_ref();
        // First what was granted: then this process has admitted all that is recorded of it.
        self.settle_units(at, flight, asked);
        let asked = asked.into_iter().flat_map(|asked| asked.cells.iter().copied().map(Some));
        let mut replies = reply.replies.iter().copied().chain(asked);
        for item in &flight.items {
            match replies.next().flatten() {
                Some(reply) => {
                    self.merge(at, (id, flight), item, &reply);
                    self.land(at, id, item, true);
                }
                None => self.unheard(at, id, flight, item),
            }
        }
    }

    /// Merges what a store holds of a subject into the table.
    fn merge(&mut self, at: At<'_>, call: (CallId, &Flight), item: &Item, reply: &Reply) {
        let (id, flight) = call;
        // Whether it proves what the store holds now: a loss noticed since makes it history.
        let current =
            self.state(flight.shard).is_some_and(|state| state.generation == flight.generation);
        // Under way there may be an ask, and the store may have granted it already.
        let asks = self.subjects.get(&item.subject).and_then(|entry| entry.ask);
        let asks = asks.is_some_and(|ask| ask != id) && !planted::is(Planted::GrantIsClash);
        self.touch(at, (item, flight.kind), reply);
        let both = [(item.current, reply.current), (item.previous, reply.previous)];
        for (cell, reply) in both {
            let Some(cell) = at.table.cell_of(cell) else { continue };
            let own = if planted::is(Planted::MaxMerge) { cell.mine() } else { reply.recorded };
            cell.observe_region(reply.sum, own);
            if current {
                let own = if planted::is(Planted::AckSent) { cell.mine() } else { reply.recorded };
                cell.acknowledge(own);
            }
            // Totals only grow, so nobody but another process of this name can have sent more;
            // unless a clock that stepped back led to a cell that this process has been in before.
            let clashes = reply.recorded > cell.mine() && !asks && !cell.has_jumped();
            if clashes && at.table.cell_of(cell.ticket(item.subject)).is_some() {
                self.counts.identity_clashes += 1;
                if !std::mem::replace(&mut self.clashing, true) {
                    self.effects.push(Effect::Reincarnate);
                }
            }
        }
        let mut recorded = false;
        if current {
            if reply.current.had < item.acked && !item.resend {
                self.counts.cells_lost += 1;
                self.suspect(at, flight.shard);
            }
            // It recorded all that was admitted when it was sent: what it says is fresh since then.
            if let Some(cell) = at.table.cell_of(item.current)
                && reply.current.recorded >= item.total
            {
                let fresh_ms = self.tuning.freshness.fresh_ms;
                let late = planted::is(Planted::FreshOnArrival);
                let since_ms = if late { at.ms() } else { flight.sent_ms };
                cell.mark_fresh_until_ms(since_ms.saturating_add(fresh_ms));
                recorded = true;
            }
        }
        let components = reply.current.components.max(reply.previous.components);
        if let Some(entry) = self.subjects.get_mut(&item.subject) {
            entry.components = components;
            entry.lost &= !current;
            if recorded {
                self.unrecorded.recorded(&mut entry.unrecorded_ms, flight.sent_ms);
            }
        }
        let Some(state) = self.state(flight.shard) else { return };
        state.note_components(components);
        // Until it is known how many there are, nothing is lent.
        if let (Some(present), Some(cells)) = (state.present, at.table.cells(item.subject)) {
            // Most components of a long window are of processes that have ended. Those that are not
            // present either, right after a store forgot who is, are hardly as many again.
            let known = components.min(present.saturating_mul(2));
            cells.set_company(known.max(present).into());
        }
    }

    /// Notes how much a subject grew, before it is merged.
    fn touch(&mut self, at: At<'_>, (item, kind): (&Item, Kind), reply: &Reply) {
        let Some(touched) = &mut self.touched else { return };
        let Some(cell) = at.table.cell_of(item.current) else { return };
        let grown = reply.current.sum.saturating_sub(cell.confirmed());
        let until_ms = cell.fresh_until_ms();
        let is_new = until_ms == 0;
        let heard_ms = if is_new {
            // It may have grown since its window began.
            at.ms().saturating_sub(at.elapsed_ms(item))
        } else {
            until_ms.saturating_sub(self.tuning.freshness.fresh_ms)
        };
        let over_ms = at.ms().saturating_sub(heard_ms).max(1);
        // What this region has published proves less while more is claimed, so that after an ask it
        // may prove more than when it was told.
        let is_untold = is_new || kind == Kind::Ask;
        touched.push(Touched { subject: item.subject, grown, over_ms, is_untold });
    }

    /// A subject of which nothing was heard: what it carried is sent again, and who waited decides
    /// on what is known.
    fn unheard(&mut self, at: At<'_>, id: CallId, flight: &Flight, item: &Item) {
        if let Some(entry) = self.subjects.get_mut(&item.subject) {
            (entry.sent, entry.sent_previous) = (None, None);
            entry.resend |= item.resend;
        }
        if flight.kind == Kind::Ask {
            // Also if nobody waited any more.
            if let Some(cells) = at.table.cells(item.subject) {
                cells.retry_no_sooner(at.ms().saturating_add(self.tuning.ask_retry_ms));
            }
        } else if flight.kind == Kind::Refresh {
            self.counts.refreshes_failed += 1;
            if let Some(cells) = at.table.cells(item.subject) {
                cells.retry_no_sooner(at.ms().saturating_add(self.tuning.retry_ms));
                if planted::is(Planted::FailedReadFresh) {
                    cells.current.mark_fresh_until_ms(at.ms().saturating_add(5_000));
                }
            }
        } else {
            self.counts.replays_failed += 1;
        }
        self.land(at, id, item, false);
    }

    /// A call has ended for one of its subjects.
    fn land(&mut self, at: At<'_>, id: CallId, item: &Item, heard: bool) {
        let subject = item.subject;
        let Some(entry) = self.subjects.get_mut(&subject) else { return };
        entry.flights = entry.flights.saturating_sub(1);
        if entry.ask == Some(id) {
            entry.ask = None;
            for waiter in std::mem::take(&mut entry.waiters) {
                self.end_wait(waiter, subject, (heard, false));
            }
            self.wake_later(subject, heard);
        } else if entry.refresh == Some(id) {
            entry.refresh = None;
            let (waiters, later) =
                (std::mem::take(&mut entry.waiters), std::mem::take(&mut entry.later));
            for waiter in waiters {
                self.end_wait(waiter, subject, (heard, false));
            }
            // Those who came later look again; if nothing was heard, they decide at once too.
            for waiter in later {
                self.end_wait(waiter, subject, (false, heard));
            }
        }
        if heard {
            self.schedule(at, subject);
        } else {
            self.retry(at, subject);
        }
    }

    /// After a failure: once more, but not at once.
    fn retry(&mut self, at: At<'_>, subject: Ticket) {
        let Some(cells) = at.table.cells(subject) else {
            self.forget(subject);
            return;
        };
        let dirty = [cells.current, cells.previous].iter().any(|cell| cell.mine() > cell.acked());
        let resend = self.subjects.get(&subject).is_some_and(|entry| entry.resend);
        if planted::is(Planted::DropDirty) {
            return self.forget(subject);
        }
        if !dirty && !resend {
            self.schedule(at, subject);
            return;
        }
        let wait_ms = if self.draining { DRAIN_RETRY_MS } else { self.tuning.replay_min_ms };
        cells.current.mute_replay();
        self.due_at(subject, at.ms().saturating_add(wait_ms));
    }
}

impl At<'_> {
    /// How much of the window of a subject is over.
    fn elapsed_ms(self, item: &Item) -> u64 {
        let window_ms = self.table.cells(item.subject).map_or(1, |cells| cells.window_ms.max(1));
        self.now.unix_ms() % window_ms
    }
}
