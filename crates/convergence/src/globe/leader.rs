//! What the process does that leads its region: it publishes for all of them.
//!
//! Reading and publishing are in `publish`, keeping the feed short in `repeat`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tidegate_limiter::Digest;

use crate::board::Post;
use crate::breaker::Breaker;
use crate::pack::Counter;
use crate::store::{CellName, Shard};
use crate::tuning::GlobeTuning;

use super::assumed::Assumed;
use super::repeat::Repeats;
use super::{At, Globe};

/// Most reads under way: as of replays, because callers that read or ask stand in line behind them.
pub(super) const READS_MAX: usize = 2;
/// Most rows being written: one may be slow without the next having to wait.
pub(super) const PUBLISHES_MAX: usize = 2;

/// A post without its step, by shard: what is read together lies together.
pub(super) type Place = (Shard, Digest, u64, u64);

/// See the module.
#[derive(Debug)]
pub(super) struct Leader {
    leads_until_ms: u64,
    shards: u16,
    /// Taken from the board and not read yet, with their steps.
    pub(super) taken: BTreeMap<Place, u64>,
    pub(super) reads: usize,
    /// Shards that did not answer, and when they are asked again.
    pub(super) read_retries: BTreeMap<Shard, u64>,
    /// To be published.
    pub(super) outbox: BTreeMap<(u64, u64, Digest), u64>,
    /// Parts of a batch that was refused.
    pub(super) parts: VecDeque<Vec<Counter>>,
    pub(super) publishes: usize,
    pub(super) publish_retry_ms: u64,
    /// Batches of several totals refused since one was accepted.
    pub(super) refusals: u32,
    /// Subjects of which a total was refused by itself since then.
    pub(super) refused: BTreeSet<Digest>,
    pub(super) breaker: Breaker,
    /// Rows being written, by their random numbers, that no import has shown.
    pub(super) begun: BTreeSet<u64>,
    /// Written and acknowledged, and not seen in an import since.
    pub(super) sent: Assumed,
    pub(super) repeats: Repeats,
}

impl Leader {
    pub(super) const fn new(tuning: &GlobeTuning, shards: u16) -> Self {
        Self {
            leads_until_ms: 0,
            shards,
            taken: BTreeMap::new(),
            reads: 0,
            read_retries: BTreeMap::new(),
            outbox: BTreeMap::new(),
            parts: VecDeque::new(),
            publishes: 0,
            publish_retry_ms: 0,
            refusals: 0,
            refused: BTreeSet::new(),
            breaker: Breaker::new(tuning.breaker),
            begun: BTreeSet::new(),
            sent: Assumed::new(),
            repeats: Repeats::new(),
        }
    }

    pub(super) const fn leads(&self, now_ms: u64) -> bool {
        self.leads_until_ms > now_ms
    }

    pub(super) const fn lead_until(&mut self, until_ms: u64) {
        self.leads_until_ms = until_ms;
    }

    pub(super) fn resign(&mut self) {
        self.leads_until_ms = 0;
        self.repeats.stop();
    }

    /// Whether it could publish, or try to: the breaker of who leads closes only by being tried.
    pub(super) fn is_able(&self, now_ms: u64) -> bool {
        self.breaker.may_admit(now_ms)
    }

    pub(super) const fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    pub(super) fn take(&mut self, posts: Vec<Post>) {
        for post in posts {
            let shard = Shard::of(post.subject, self.shards);
            let place = (shard, post.subject, post.window_ms, post.sequence);
            let step = self.taken.entry(place).or_insert(post.step);
            *step = (*step).min(post.step);
        }
    }

    /// How much there is to do.
    pub(super) fn backlog(&self) -> usize {
        let parts: usize = self.parts.iter().map(Vec::len).sum();
        self.taken.len() + self.outbox.len() + parts
    }

    pub(super) fn is_idle(&self) -> bool {
        self.backlog() == 0
    }

    /// So much of a cell is published.
    pub(super) fn shown(&mut self, cell: CellName, count: u64) {
        self.sent.shown(cell, count);
    }

    /// The feed has lost rows: nothing that was published is sure any more. (What it was not seen
    /// to lose is still looked for.)
    pub(super) fn lost(&mut self, remind_ms: u64) {
        self.repeats.resend(remind_ms);
    }

    /// A shard of which something was taken, and that may be asked.
    pub(super) fn next_shard(&self, now_ms: u64) -> Option<Shard> {
        let mut from = Shard(0);
        loop {
            let first = self.taken.range((from, Digest::from_bytes([0; 16]), 0, 0)..).next();
            let ((shard, ..), _) = first?;
            if self.read_retries.get(shard).is_none_or(|retry_ms| *retry_ms <= now_ms) {
                return Some(*shard);
            }
            from = Shard(shard.0.checked_add(1)?);
        }
    }

    /// When there is something to do, for a region that has its name or has not.
    pub(super) fn next_ms(&self, named: bool) -> Option<u64> {
        let retry_ms = match self.next_shard(0) {
            Some(_) => 0,
            None => self.read_retries.values().copied().min().unwrap_or(0),
        };
        let reads = (!self.taken.is_empty() && self.reads < READS_MAX).then_some(retry_ms);
        let waits = named && !(self.outbox.is_empty() && self.parts.is_empty());
        let open_ms = self.breaker.next_ms().filter(|_| waits && self.publishes < PUBLISHES_MAX);
        let publishes = open_ms.map(|open_ms| open_ms.max(self.publish_retry_ms));
        [reads, publishes].into_iter().flatten().min()
    }
}

impl Globe {
    /// Reads what was taken, publishes what was read, and keeps the feed short.
    pub(super) fn lead(&mut self, at: At<'_>) {
        self.read_taken(at);
        let Some(number) = self.name.number() else { return };
        self.resend(at);
        self.remind(at);
        self.publish(at, number);
        self.repeat(at, number);
    }
}
