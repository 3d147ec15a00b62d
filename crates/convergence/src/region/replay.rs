//! What is told, and when.

use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{Cells, Now, Ticket};

use super::due::Due;
use super::loss::Resend;
use super::{At, Entry, Kind, Region, ShardState, Touched};
use crate::store::Shard;
use crate::tuning::Tuning;

/// Subjects looked at in one step, unless a long line waits: a tenth of a millisecond or two, for
/// which callers have to wait that need the region, or the thread. What is left is done next.
const STEP: usize = 128;
/// Most of them, however many are due: no more could be sent for a while.
const STEP_MAX: usize = 4_096;
/// What is to be told within so many milliseconds goes together, also if it is to be told at once:
/// a call costs as much as several records, here and in the store, and to go alone saves less than
/// a call takes to a store in another place. Of more that go together, a store that shares a core
/// with its server would keep that from its requests for longer.
pub(super) const TOGETHER_MS: u64 = 2;
/// [`Planted::ManyKept`].
const MANY: usize = 16;

impl Region {
    /// Takes in what admissions have noted.
    pub(super) fn take_noted(&mut self, at: At<'_>) {
        at.table.take_noted(&mut self.noted);
        // Who is about to end has no callers that wait. A long line gets shorter by more at a time,
        // so that nobody stands in it for ever, however many come.
        let most = if self.draining { usize::MAX } else { STEP.max(self.noted.len() / 4) };
        let oldest: Vec<Ticket> = self.noted.drain(..most.min(self.noted.len())).collect();
        for subject in oldest {
            self.touch_new(at, subject);
            self.schedule(at, subject);
        }
    }

    /// Others may have used a cell already that is new here.
    fn touch_new(&mut self, at: At<'_>, subject: Ticket) {
        let Some(touched) = &mut self.touched else { return };
        let is_new = |cells: Cells<'_>| cells.current.fresh_until_ms() == 0;
        if at.table.cells(subject).is_some_and(is_new) {
            touched.push(Touched { subject, grown: 0, over_ms: 0, is_untold: true });
        }
    }

    /// Decides when a subject is replayed. If it has nothing to tell and nothing is on its way, it
    /// is forgotten until an admission notes it again.
    pub(super) fn schedule(&mut self, at: At<'_>, subject: Ticket) {
        let Some(cells) = at.table.cells(subject) else {
            self.forget(subject);
            return;
        };
        let now_ms = at.ms();
        let shard = self.shard_of(cells.current.digest());
        let (usual, present) = self
            .state(shard)
            .map_or((1, None), |state| (state.components.div_ceil(16), state.present));
        let entry = self.subjects.enter(subject);
        let components = usual.max(entry.components.into());
        // Nobody else is present, and when this subject was last heard of, nobody else had used it.
        let alone = present == Some(1) && cells.company() == 1;
        let keeps = Keeps::of(&self.tuning, (components, alone), &cells, at.now);
        if entry.resend || entry.lost || is_dirty(&cells) {
            self.unrecorded.begin(&mut entry.unrecorded_ms, now_ms);
        } else {
            self.unrecorded.end(&mut entry.unrecorded_ms);
        }
        if entry.ask.is_some() {
            // What is told meanwhile would put the ask out of date; it is told when that lands.
            cells.current.mute_replay();
            return;
        }
        // What was sent of the cells as they are now; after a turn, the former current cell is the
        // previous one.
        let sent_of = |cell: tidegate_limiter::CellTicket| {
            let both = [entry.sent, entry.sent_previous];
            both.into_iter().flatten().find(|(sent, _)| *sent == cell).map_or(0, |(_, total)| total)
        };
        let sent = sent_of(cells.current.ticket(subject)).max(cells.current.acked());
        let significance = keeps.after(sent, &cells);
        let sent_previous = sent_of(cells.previous.ticket(subject)).max(cells.previous.acked());
        cells.current.replay_from(sent.saturating_add(significance));
        cells.previous.replay_from(sent_previous.saturating_add(1));
        // After the mark was set: an admission that passed it before did not see it.
        let unsent = cells.current.mine().saturating_sub(sent);
        let unsent_previous = cells.previous.mine().saturating_sub(sent_previous);
        let tuning = &self.tuning;
        let lazy = planted::is(Planted::LazyReplay) && self.counts.replays_failed > 0;
        let replay_max_ms = if lazy { 4 * tuning.replay_max_ms } else { tuning.replay_max_ms };
        let urgent = unsent >= significance || self.draining && unsent + unsent_previous > 0;
        let wait_ms = if entry.resend || urgent {
            0
        } else if unsent > 0 {
            let mine = cells.current.mine();
            let wait_ms = wait_ms(significance.saturating_sub(unsent), mine, &cells, at.now)
                .min(replay_max_ms);
            staggered(wait_ms, &cells, now_ms).max(tuning.replay_min_ms)
        } else if unsent_previous > 0 {
            tuning.replay_min_ms
        } else {
            self.settle(at, subject);
            return;
        };
        if wait_ms == 0 || entry.ready {
            // It goes as soon as it can, with whatever is admitted until then.
            cells.current.mute_replay();
        }
        // Never later than it was.
        let due_ms = now_ms.saturating_add(wait_ms).min(entry.due_ms.unwrap_or(u64::MAX));
        entry.set_due(&mut self.due, subject, due_ms);
    }

    /// Everything is sent. If it is recorded too, and nothing is on its way, the next admission
    /// notes the subject again.
    fn settle(&mut self, at: At<'_>, subject: Ticket) {
        let Some(entry) = self.subjects.get_mut(&subject) else { return };
        entry.due_ms = None;
        let waited = !entry.waiters.is_empty() || !entry.later.is_empty() || !entry.is_unasked();
        if entry.flights > 0 || entry.ready || waited {
            return;
        }
        let Some(cells) = at.table.cells(subject) else {
            self.forget(subject);
            return;
        };
        if is_dirty(&cells) {
            // Sent, and no answer came: once more.
            self.due_at(subject, at.ms().saturating_add(self.tuning.replay_min_ms));
            return;
        }
        cells.current.replay_from(0);
        cells.previous.replay_from(0);
        if is_dirty(&cells) {
            self.due_at(subject, at.ms().saturating_add(self.tuning.replay_min_ms));
        } else {
            self.forget(subject);
        }
    }

    /// Replays what is due, many subjects in one call.
    pub(super) fn replay_due(&mut self, at: At<'_>) {
        let now_ms = at.ms();
        // A long line gets shorter by more at a time: who is asked all it can answer comes here
        // seldom, and must not fall behind with what it has to tell.
        let most = if self.draining { usize::MAX } else { STEP_MAX };
        for _ in 0..(self.due.overdue(now_ms) / 4).clamp(STEP, most) {
            let Some((due_ms, subject)) = self.due.take(now_ms) else { break };
            let is_due = |entry: &Entry| entry.due_ms == Some(due_ms);
            if self.subjects.get(&subject).is_some_and(is_due) {
                self.make_ready(at, subject);
            }
        }
        for shard in self.all_shards() {
            self.replay_ready(at, shard);
        }
    }

    fn make_ready(&mut self, at: At<'_>, subject: Ticket) {
        let Some(entry) = self.subjects.get_mut(&subject) else { return };
        entry.due_ms = None;
        let Some(cells) = at.table.cells(subject) else {
            self.forget(subject);
            return;
        };
        if !std::mem::replace(&mut entry.ready, true) {
            let shard = self.shard_of(cells.current.digest());
            if let Some(state) = self.state(shard) {
                state.ready.push_back(subject);
            }
        }
    }

    /// Sends what is ready to one shard, as long as it takes it.
    pub(super) fn replay_ready(&mut self, at: At<'_>, shard: Shard) {
        let (now_ms, tuning) = (at.ms(), self.tuning);
        loop {
            let Some(state) = self.state(shard) else { return };
            let bounded = !planted::is(Planted::UnboundedReplays);
            let waits = state.ready.is_empty()
                || bounded && state.replays_in_flight >= tuning.replays_beside(state.ready.len())
                || state.after_replay_ms() > now_ms && state.ready.len() < tuning.replay_records;
            if waits {
                return;
            }
            let most = tuning.replay_at_once(state.ready.len());
            let taken: Vec<Ticket> = state.ready.drain(..most).collect();
            // What is asked for at this moment is told when that lands.
            let beside = planted::is(Planted::ReplayBeside);
            let asked = |subject: &Ticket| {
                self.subjects.get(subject).is_some_and(|entry| entry.ask.is_some() && !beside)
            };
            let (skipped, subjects): (Vec<Ticket>, Vec<Ticket>) =
                taken.into_iter().partition(asked);
            self.not_ready(&skipped);
            for subject in skipped {
                self.schedule(at, subject);
            }
            let Some(state) = self.state(shard) else { return };
            if subjects.is_empty() {
                continue;
            }
            if !state.replay.admits(now_ms) {
                subjects.into_iter().rev().for_each(|subject| state.ready.push_front(subject));
                return;
            }
            self.not_ready(&subjects);
            let sent = self.send(at, shard, Kind::Replay, &subjects);
            self.counts.replayed += sent.len() as u64;
            for subject in subjects {
                self.schedule(at, subject);
            }
        }
    }

    fn not_ready(&mut self, subjects: &[Ticket]) {
        for subject in subjects {
            if let Some(entry) = self.subjects.get_mut(subject) {
                entry.ready = false;
            }
        }
    }

    /// Sets when a subject is replayed; one that is about to be stays so.
    pub(super) fn due_at(&mut self, subject: Ticket, due_ms: u64) {
        self.subjects.enter(subject).set_due(&mut self.due, subject, due_ms);
    }

    /// The subject has nothing to tell.
    pub(super) fn forget(&mut self, subject: Ticket) {
        let kept = planted::is(Planted::ManyKept) && self.subjects.len() > MANY;
        let Some(entry) = self.subjects.get_mut(&subject) else { return };
        self.unrecorded.end(&mut entry.unrecorded_ms);
        entry.due_ms = None;
        if entry.flights == 0
            && !kept
            && !entry.ready
            && !entry.asked
            && entry.is_unasked()
            && entry.waiters.is_empty()
            && entry.later.is_empty()
        {
            self.subjects.remove(&subject);
        }
    }

    /// Forgets a subject that was only looked at.
    pub(super) fn drop_if_idle(&mut self, subject: Ticket) {
        let idle = |entry: &Entry| {
            entry.due_ms.is_none()
                && !entry.ready
                && entry.sent.is_none()
                && entry.refresh.is_none()
                && entry.is_unasked()
        };
        if self.subjects.get(&subject).is_some_and(idle) {
            self.forget(subject);
        }
    }
}

impl Entry {
    /// Sets when it is replayed; one that is about to be stays so.
    fn set_due(&mut self, due: &mut Due, subject: Ticket, due_ms: u64) {
        if !self.ready && self.due_ms.replace(due_ms) != Some(due_ms) {
            due.add(due_ms, subject);
        }
    }
}

impl ShardState {
    /// When there is something to do for this shard.
    pub(super) fn next_ms(&self, tuning: &Tuning) -> Option<u64> {
        let resend = self.resend.as_ref().map(Resend::next_ms);
        let most = tuning.replays_beside(self.ready.len());
        let waits = !self.ready.is_empty() && self.replays_in_flight < most;
        let ready = self.replay.next_ms().filter(|_| waits);
        let ready = ready.map(|ready_ms| ready_ms.max(self.after_replay_ms()));
        let token = self.used.then_some(self.next_token_ms);
        [resend, ready, token].into_iter().flatten().min()
    }

    /// The earliest moment for another replay that is not full. The first goes at once; where one
    /// follows on the other, they go together.
    fn after_replay_ms(&self) -> u64 {
        self.replayed_ms.map_or(0, |sent_ms| sent_ms.saturating_add(TOGETHER_MS))
    }
}

impl Tuning {
    /// How many replays may be under way while so many subjects are ready.
    fn replays_beside(&self, ready: usize) -> usize {
        let full = ready / self.call_records_max.max(1);
        full.max(self.replays_in_flight).min(self.replays_in_flight_max)
    }

    /// How many of those that are ready go with one replay. A long line gets shorter by more at a
    /// time, or a store that is far away would not keep up.
    fn replay_at_once(&self, ready: usize) -> usize {
        self.replay_records.max(ready / 4).min(self.call_records_max).max(1).min(ready)
    }
}

/// How much a subject may keep to itself.
#[derive(Clone, Copy, Debug)]
struct Keeps {
    /// From one record to the next.
    usually: u64,
    /// Never more than this.
    at_most: u64,
}

impl Keeps {
    /// Of a subject whose cells have so many components, or that this process is alone with.
    fn of(tuning: &Tuning, (components, alone): (u64, bool), cells: &Cells<'_>, now: Now) -> Self {
        let (used, limit) = cells.used_of_limit(now);
        let room = limit.saturating_sub(used);
        let at_most = room / tuning.replay_room_part.saturating_mul(components).max(1);
        let shared = limit / tuning.replay_part.max(1);
        // While half of it is left: less would come too near to what may be lent.
        let unshared =
            if alone && used <= limit / 2 { limit / tuning.replay_alone_part.max(1) } else { 0 };
        Self { usually: shared.max(unshared).max(1), at_most: at_most.max(1) }
    }

    /// How much more than was `sent` of a cell is told at once: up to the next of those totals
    /// that are told of this one, which are as far apart, and elsewhere for each cell. Otherwise
    /// subjects that are asked about in turn would all have enough to tell in the same turn, and in
    /// each that follows, in waves that fill a store. If that is near, up to the one after it, or
    /// whatever is told for another reason would be told twice.
    fn after(self, sent: u64, cells: &Cells<'_>) -> u64 {
        let of_cell = u128::from(self.usually) * u128::from(chance(cells, cells.sequence));
        self.next(sent, u64::try_from(of_cell >> 8).unwrap_or(0))
    }

    fn next(self, sent: u64, of_cell: u64) -> u64 {
        let Self { usually, at_most } = self;
        let passed = sent.saturating_add(of_cell) % usually;
        let next = usually - passed;
        let told = if next < usually.div_ceil(4) { next.saturating_add(usually) } else { next };
        told.min(at_most)
    }
}

/// Whether something was admitted that the region has not acknowledged.
fn is_dirty(cells: &Cells<'_>) -> bool {
    [cells.current, cells.previous].iter().any(|cell| cell.mine() > cell.acked())
}

/// Some time in the last quarter of a wait, by chance: subjects that began together, at the start
/// of a load or of a window, would otherwise be told together for ever, in waves that fill a store.
fn staggered(wait_ms: u64, cells: &Cells<'_>, now_ms: u64) -> u64 {
    let due_ms = now_ms.saturating_add(wait_ms - ((wait_ms / 4 * chance(cells, now_ms)) >> 8));
    (due_ms - due_ms % TOGETHER_MS).saturating_sub(now_ms)
}

/// A number below 256 that is another one for each subject, and for each of these.
fn chance(cells: &Cells<'_>, of: u64) -> u64 {
    // A multiplication spreads over its upper bits whatever differs between subjects and times.
    let [.., a, b, c, d, e, f, g, h] = *cells.current.digest().as_bytes();
    let word = u64::from_le_bytes([a, b, c, d, e, f, g, h]).wrapping_add(of);
    word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56
}

/// How long it takes to admit `cost` more, at the rate of this window so far.
fn wait_ms(cost: u64, mine: u64, cells: &Cells<'_>, now: Now) -> u64 {
    let start_ms = cells.sequence.saturating_mul(cells.window_ms);
    let elapsed_ms = now.unix_ms().saturating_sub(start_ms).clamp(1, cells.window_ms);
    let wait = u128::from(cost) * u128::from(elapsed_ms) / u128::from(mine.max(1));
    u64::try_from(wait).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_at_once_is_a_quarter_of_what_is_kept_to_five_quarters() {
        for usually in 1..=64 {
            for of_cell in 0..usually {
                let keeps = Keeps { usually, at_most: u64::MAX };
                let mut sent = 0;
                let first = keeps.next(sent, of_cell);
                assert!((usually.div_ceil(4)..usually * 5 / 4 + 1).contains(&first), "{usually}");
                for _ in 0..3 {
                    sent += keeps.next(sent, of_cell);
                    assert_eq!(keeps.next(sent, of_cell), usually, "from then on, all of it");
                }
                // Told for another reason just before: not twice.
                let early = keeps.next(sent + usually - 1, of_cell);
                assert_eq!(early, if usually > 4 { usually + 1 } else { 1 });
                assert_eq!(Keeps { usually, at_most: 1 }.next(sent, of_cell), 1);
            }
        }
    }

    #[test]
    fn more_replays_are_under_way_where_a_long_line_waits() {
        let tuning = Tuning::default();
        let beside = [0, 1, 383, 384, 511, 512, 100_000].map(|ready| tuning.replays_beside(ready));
        assert_eq!(beside, [2, 2, 2, 3, 3, 4, 4]);
    }

    #[test]
    fn a_replay_is_small_unless_a_long_line_waits() {
        let tuning = Tuning::default();
        let sizes = [0, 1, 15, 16, 50, 100, 512, 100_000].map(|ready| tuning.replay_at_once(ready));
        assert_eq!(sizes, [0, 1, 15, 16, 16, 25, 128, 128]);
        let least = Tuning { call_records_max: 0, replay_records: 0, ..tuning };
        assert_eq!(least.replay_at_once(9), 1, "there is an end to every line");
    }
}
