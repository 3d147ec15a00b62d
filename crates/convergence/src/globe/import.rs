//! What other regions published, and what the own one did.

use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{Cells, Now, Table, Ticket};

use crate::board::Post;
use crate::global::{GlobalCall, GlobalError, GlobalReply, Import, RegionNumber, Row};
use crate::pack::{Counter, unpack};
use crate::store::CellName;

use super::values::Change;
use super::{At, Call, Globe, GlobeId};

/// Totals taken in in one step, unless a long line of rows waits: about a tenth of a millisecond,
/// for which callers that need the region have to wait, and the requests of one thread. What is
/// left is done in the next step.
const STEP: usize = 64;
/// A line gets shorter by so many times as much at a time as it has so many rows...
const STEP_ROWS: usize = 16;
/// ...up to so many times: a millisecond and more. A process that is asked all it can answer comes
/// here seldom, and must not fall behind; one that begins has to read all that is live.
const STEP_TIMES_MAX: usize = 16;
/// A total of a window that begins later than this, and than one window, comes from a clock that is
/// wrong: it would be kept until then.
const AHEAD_MS: u64 = 300_000;

/// How many totals are taken in at a time while so many rows wait.
fn step(rows: usize) -> usize {
    STEP * (rows / STEP_ROWS).clamp(1, STEP_TIMES_MAX)
}

impl Globe {
    /// Reads what was published, if it is time.
    pub(super) fn import(&mut self, at: At<'_>) {
        if self.name.number().is_none() || !self.feed.is_due(at.now, self.tuning.grace_ms) {
            return;
        }
        let jittered_ms = self.dice.jitter(self.tuning.import_ms);
        let import = self.feed.ask(at.ms(), jittered_ms);
        self.counts.imports += 1;
        let call = GlobalCall::Import(import.clone());
        let generation = self.feed.generation();
        self.send(Call::Import { import, sent: at.now, generation }, call);
    }

    /// The answer to a call to the global store, or that there is none. The [type](Self) has an
    /// example.
    pub fn global_replied(
        &mut self,
        table: &Table,
        id: GlobeId,
        answered: Result<GlobalReply, GlobalError>,
        now: Now,
    ) {
        let Some(call) = self.calls.remove(&id) else { return };
        let at = At { table, now };
        match call {
            Call::Register { identity } => {
                let answered = match &answered {
                    Ok(GlobalReply::Registered { regions }) => Ok(*regions),
                    Ok(_) => Err(&GlobalError::Timeout),
                    Err(why) => Err(why),
                };
                self.registered(at, identity, answered);
            }
            Call::Publish { counters, bytes, row } => {
                self.published(at, (row, counters, bytes), answered.as_ref().map(|_| ()));
            }
            Call::Repeat { counters } => self.repeated(at, counters, answered.is_ok()),
            Call::Trim => self.trimmed(match answered {
                Ok(GlobalReply::Deleted { rows }) => Some(rows),
                _ => None,
            }),
            Call::Import { import, sent, generation } => {
                self.imported(at, (&import, sent, generation), answered);
            }
            Call::Release | Call::Board { .. } | Call::Read(_) => {}
        }
        self.lead(at);
        self.import(at);
    }

    fn imported(
        &mut self,
        at: At<'_>,
        (import, sent, generation): (&Import, Now, u64),
        answered: Result<GlobalReply, GlobalError>,
    ) {
        self.feed.answered(answered.is_ok(), at.ms());
        // Who does not lead publishes nothing, and would never learn that it could.
        if answered.is_ok() && !self.leader.leads(at.ms()) {
            self.leader.breaker.heard(at.ms());
        }
        let rows = match answered {
            Ok(GlobalReply::Imported(rows)) => rows,
            Ok(_) => return,
            Err(why) => {
                self.counts.import_errors += 1;
                if why == GlobalError::Timeout {
                    self.feed.shrink();
                }
                self.feed.import_from(at.ms().saturating_add(self.tuning.retry_ms));
                return;
            }
        };
        let begun_anew = generation != self.feed.generation();
        if begun_anew || self.feed.has_changed(import, &rows) {
            self.counts.discarded += 1;
            if !begun_anew {
                self.feed.restart_at(at.ms());
            }
            return;
        }
        if self.feed.misses(import, &rows) {
            self.lost(at);
        }
        let more = rows.len() >= import.rows_max;
        let own = self.own_rows(at, import, &rows);
        for row in rows {
            self.open(at, import, row);
        }
        let given_up = self.feed.give_up(import, sent.monotonic_ms(), self.tuning.gap_ms);
        self.counts.gaps_given_up += given_up;
        self.feed.watch(import, own, sent.monotonic_ms());
        self.feed.land(sent, more);
        self.take_in(at);
    }

    /// The rows of its region that a leader reads, and looks at once more: it would publish again
    /// what is lost of them. Not those of a feed that is read from its beginning: most are old, and
    /// may be deleted.
    fn own_rows(&self, at: At<'_>, import: &Import, rows: &[Row]) -> Vec<(u64, u64)> {
        if !self.leader.leads(at.ms()) || !self.feed.is_warm() {
            return Vec::new();
        }
        let new = |row: &&Row| row.id != import.from && !self.feed.is_watched(row);
        let own = |row: &&Row| Some(row.batch.region) == self.name.number();
        let rows = rows.iter().filter(new).filter(own);
        rows.map(|row| (row.id, row.batch.nonce)).collect()
    }

    /// Notes one row.
    fn open(&mut self, at: At<'_>, import: &Import, row: Row) {
        if row.id == import.from || self.feed.is_watched(&row) {
            return;
        }
        let was_missing = self.feed.advance(&row, at.ms());
        self.leader.begun.remove(&row.batch.nonce);
        self.leader.repeats.read(row.batch.nonce);
        self.counts.late_rows += u64::from(was_missing);
        self.counts.imported_rows += 1;
        self.counts.imported_bytes += row.batch.payload.len() as u64;
        self.counts.lag_ms = at.now.unix_ms().saturating_sub(row.batch.written_ms);
        if import.repeats || !row.batch.repeats {
            let batch = row.batch;
            self.feed.inbox.push_back((batch.region, batch.repeats, batch.payload));
        }
    }

    /// Takes in some of what was read; the import is over when all is.
    pub(super) fn take_in(&mut self, at: At<'_>) {
        for _ in 0..step(self.feed.inbox.len()) {
            if self.feed.unpacked.is_empty() {
                self.unpack_next();
            }
            let Some((region, counter)) = self.feed.unpacked.pop_front() else { break };
            self.apply(at, region, &counter);
        }
        if !self.feed.unpacked.is_empty() || !self.feed.inbox.is_empty() {
            return;
        }
        let (heard, lost) = self.feed.arrive(at.ms());
        if let Some(heard) = heard {
            at.table.heard_globe(heard.monotonic_ms(), self.tuning.window_min_ms);
            self.put_out_late(heard.monotonic_ms());
        }
        if lost {
            self.lost(at);
        }
    }

    /// The store has lost rows that were read.
    fn lost(&mut self, at: At<'_>) {
        self.counts.feed_losses += 1;
        // By then nobody assumes any more that what was lost is published.
        let assumed_ms = self.tuning.repost_ms.saturating_add(self.tuning.timeout_ms);
        self.leader.lost(at.ms().saturating_add(assumed_ms));
    }

    fn unpack_next(&mut self) {
        while let Some((region, repeats, payload)) = self.feed.inbox.pop_front() {
            let own = Some(region) == self.name.number();
            let Some(counters) = unpack(&payload) else {
                self.counts.rows_unreadable += 1;
                if own {
                    self.leader.repeats.miss();
                }
                continue;
            };
            if own && !repeats {
                self.leader.repeats.seen(counters.len() as u64);
            }
            self.counts.imported += counters.len() as u64;
            self.feed.unpacked.extend(counters.into_iter().map(|counter| (region, counter)));
            return;
        }
    }

    /// Takes one total in.
    fn apply(&mut self, at: At<'_>, region: RegionNumber, counter: &Counter) {
        let Counter { window_ms, sequence, subject, count } = *counter;
        let short = window_ms < self.tuning.window_min_ms;
        if short || counter.expires_ms() <= at.now.unix_ms() {
            return;
        }
        let ticket = self.served.get(subject).copied();
        let serves = ticket.is_some_and(|ticket| at.table.cells(ticket).is_some());
        if planted::is(Planted::DropUnserved) && !serves {
            return;
        }
        let own = Some(region) == self.name.number();
        let starts_ms = sequence.saturating_mul(window_ms);
        let ahead = starts_ms.saturating_sub(at.now.unix_ms()) > window_ms.max(AHEAD_MS);
        let change = if ahead { Change::Dropped } else { self.values.raise(region, counter) };
        if own {
            // Whether it is news or not: it may have been written again, after a loss.
            self.leader.shown(CellName { subject, sequence }, count);
        }
        let (cell_is_new, region_is_new) = match change {
            Change::Raised { cell_is_new, region_is_new } => (cell_is_new, region_is_new),
            Change::Known => return,
            Change::Dropped => {
                self.counts.values_dropped += 1;
                if own {
                    // It is published, though there is no room to remember that: for as long as it
                    // lives it must not be published again.
                    let lives_ms = counter.expires_ms().saturating_sub(at.now.unix_ms());
                    let until_ms = at.ms().saturating_add(lives_ms);
                    self.posts.keep(CellName { subject, sequence }, until_ms);
                    self.leader.repeats.miss();
                }
                return;
            }
        };
        self.counts.applied += 1;
        if own {
            if let Some(since_ms) = self.posts.shown(CellName { subject, sequence }, count) {
                self.counts.round_trip_ms = at.ms().saturating_sub(since_ms);
            }
        } else if region_is_new {
            self.answer(at, counter, cell_is_new);
        }
        match ticket.filter(|_| serves) {
            Some(ticket) => self.bring(at, ticket, counter),
            None => {
                if ticket.is_some() {
                    self.served.remove(subject);
                }
                self.counts.cells_created += u64::from(cell_is_new && !own);
            }
        }
    }

    /// Brings what is new of a cell to the subject in the table.
    fn bring(&mut self, at: At<'_>, ticket: Ticket, counter: &Counter) {
        let clock = at.now.unix_ms() / counter.window_ms.max(1);
        let ahead = |cells: &Cells<'_>| cells.sequence < counter.sequence;
        if counter.sequence == clock && at.table.cells(ticket).is_some_and(|cells| ahead(&cells)) {
            // The window has begun, and no request has come here yet: the first one must find it.
            at.table.turn(ticket, at.now);
        }
        let Some(cells) = at.table.cells(ticket) else { return };
        self.tell(&cells);
        if self.concerns(&cells, at.now) {
            let elapsed_ms = at.now.unix_ms() % cells.window_ms.max(1);
            self.weigh_up(at, &cells, (self.sum(cells.current), elapsed_ms.max(1)));
        }
    }

    /// Another region uses a cell that this one has published something of. Alone this one may have
    /// kept half of it to itself, and those who served it may be gone: so it is looked at.
    fn answer(&mut self, at: At<'_>, counter: &Counter, cell_is_new: bool) {
        let Counter { subject, window_ms, sequence, .. } = *counter;
        let published = |sequence| self.values.of(window_ms, sequence, subject).own > 0;
        // Of a cell that is new nothing else is known: most are, and it need not be looked up.
        if (cell_is_new || !published(sequence)) && !published(sequence.saturating_sub(1)) {
            return;
        }
        let post = Post { subject, window_ms, sequence, step: 1 };
        if self.leader.leads(at.ms()) {
            self.leader.take(vec![post]);
        } else if self.feed.is_warm() {
            // In case nobody leads at this moment.
            self.post_unserved(at, post);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tuning::GlobeTuning;

    #[test]
    fn a_long_line_of_rows_gets_shorter_by_more_at_a_time() {
        let most = GlobeTuning::default().rows_max;
        assert_eq!([0, 10, 31, 32, most, 4 * most].map(step), [64, 64, 64, 128, 1_024, 1_024]);
    }
}
