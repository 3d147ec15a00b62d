//! A store that lost its data is healed from the memories of the living.

use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{Ticket, Walk};

use super::{At, Flight, Kind, Region, ShardState};
use crate::store::{Shard, ShardReply};

/// Ledgers looked at in one step of a walk: well below a millisecond.
const WALK_STEPS: usize = 2_048;
/// Time between two steps.
const STEP_MS: u64 = 2;
/// Subjects sent in a step at least, so that a small table is whole at once.
const STEP_SUBJECTS_MIN: u64 = 256;
/// Classes of significance, by sixteenths of the limit: the fullest are sent first.
const CLASSES: usize = 16;
/// How soon a shard is asked that seems to have lost something: once for all the cells it lost.
const SUSPECT_MS: u64 = 50;

/// Everything of a shard is sent again, most significant first, over about a second.
#[derive(Debug)]
pub(super) struct Resend {
    walk: Option<Walk>,
    /// Found, and not sent yet.
    classes: [Vec<Ticket>; CLASSES],
    next_ms: u64,
}

impl Resend {
    fn new(now_ms: u64) -> Self {
        let classes = std::array::from_fn(|_| Vec::new());
        Self { walk: Some(Walk::default()), classes, next_ms: now_ms }
    }

    /// What was found and is not sent yet.
    pub(super) fn found(&self) -> impl Iterator<Item = &Ticket> {
        self.classes.iter().flatten()
    }

    pub(super) const fn next_ms(&self) -> u64 {
        self.next_ms
    }

    fn is_over(&self) -> bool {
        self.walk.is_none() && self.classes.iter().all(Vec::is_empty)
    }

    fn take(&mut self, most: u64) -> Vec<Ticket> {
        let mut taken = Vec::new();
        for class in self.classes.iter_mut().rev() {
            while (taken.len() as u64) < most
                && let Some(subject) = class.pop()
            {
                taken.push(subject);
            }
        }
        taken
    }
}

impl Region {
    /// Compares what a shard says of itself with what it said before.
    pub(super) fn watch(&mut self, at: At<'_>, flight: &Flight, reply: &ShardReply) {
        let Some(state) = self.state(flight.shard) else { return };
        if flight.generation != state.generation && !planted::is(Planted::NoGenerations) {
            return;
        }
        let other_token = state.token.is_some_and(|token| token != reply.token);
        let other_server = match (state.server, reply.server) {
            (Some(before), Some(now)) => before != now,
            _ => false,
        };
        state.token = Some(reply.token);
        state.server = reply.server.or(state.server);
        if other_token || other_server {
            state.generation += 1;
            state.resend = (!planted::is(Planted::NoResend)).then(|| Resend::new(at.ms()));
            self.counts.losses += 1;
        }
    }

    /// Takes the next step of every resend.
    pub(super) fn go_on_resending(&mut self, at: At<'_>) {
        for shard in self.all_shards() {
            let Some(mut resend) = self.state(shard).and_then(|state| state.resend.take()) else {
                continue;
            };
            if resend.next_ms <= at.ms() {
                self.step(at, shard, &mut resend);
            }
            if !resend.is_over()
                && let Some(state) = self.state(shard)
            {
                state.resend = Some(resend);
            }
        }
    }

    fn step(&mut self, at: At<'_>, shard: Shard, resend: &mut Resend) {
        resend.next_ms = at.ms().saturating_add(STEP_MS);
        if let Some(mut walk) = resend.walk {
            let more = at.table.walk(&mut walk, WALK_STEPS, |subject| {
                if let Some(class) = self.class(at, shard, subject)
                    && let Some(class) = resend.classes.get_mut(class)
                {
                    class.push(subject);
                }
            });
            resend.walk = more.then_some(walk);
        }
        let subjects = at.table.subjects() as u64 / self.shards.len().max(1) as u64;
        let share = subjects.saturating_mul(STEP_MS) / self.tuning.resend_ms.max(1);
        for subject in resend.take(share.max(STEP_SUBJECTS_MIN)) {
            let entry = self.subjects.enter(subject);
            (entry.sent, entry.sent_previous) = (None, None);
            (entry.resend, entry.lost) = (true, true);
            self.counts.resent += 1;
            self.due_at(subject, at.ms());
        }
    }

    /// How full a subject of the shard is, if it has recorded anything.
    fn class(&self, at: At<'_>, shard: Shard, subject: Ticket) -> Option<usize> {
        let cells = at.table.cells(subject)?;
        let recorded = cells.current.mine() > 0 || cells.previous.mine() > 0;
        if !recorded || self.shard_of(cells.current.digest()) != shard {
            return None;
        }
        let (used, limit) = cells.used_of_limit(at.now);
        let class = used.saturating_mul(CLASSES as u64) / limit.max(1);
        Some(usize::try_from(class).unwrap_or(CLASSES).min(CLASSES - 1))
    }

    /// A shard had less than it had acknowledged: it is asked who it is before its time.
    pub(super) fn suspect(&mut self, at: At<'_>, shard: Shard) {
        let soon_ms = at.ms().saturating_add(SUSPECT_MS);
        if let Some(state) = self.state(shard) {
            state.next_token_ms = state.next_token_ms.min(soon_ms);
        }
    }

    /// Asks every shard in use now and then who it is, even if there is nothing to tell: a process
    /// that only denies has to notice a loss too.
    pub(super) fn ask_tokens(&mut self, at: At<'_>) {
        let now_ms = at.ms();
        for shard in self.all_shards() {
            // A fleet that started together must not ask together: four fifths to six fifths.
            let fifth = self.tuning.token_ms / 5;
            let jittered = fifth * 4 + self.dice() % (2 * fifth).max(1);
            let eager = planted::is(Planted::EagerTokens);
            let jittered = if eager { jittered / 10 } else { jittered };
            let Some(state) = self.state(shard) else { continue };
            if !state.used || state.next_token_ms > now_ms {
                continue;
            }
            state.next_token_ms = now_ms.saturating_add(jittered);
            self.send(at, shard, Kind::Token, &[]);
        }
    }
}

impl Region {
    /// A number that differs from process to process and from call to call.
    fn dice(&mut self) -> u64 {
        let [.., low] = self.incarnation.to_be_bytes().map(u64::from);
        let seed = self.next().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (low << 32);
        (seed ^ (seed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32
    }
}

impl ShardState {
    /// Takes the components of a cell into the mean. Not the maximum: one cell that outlived many
    /// processes must not make all the others speak more often.
    pub(super) const fn note_components(&mut self, components: u32) {
        self.components = self.components - self.components / 16 + components as u64;
    }
}
