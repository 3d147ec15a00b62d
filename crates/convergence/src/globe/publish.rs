//! What a leader takes from the board, reads from the regional store and writes to the global one.

use tidegate_limiter::planted::{self, Planted};
use tidegate_limiter::{Digest, Now, Table};

use crate::board::Post;
use crate::global::{Batch, GlobalCall, GlobalError, RegionNumber};
use crate::pack::{Counter, pack};
use crate::region::Answered;
use crate::store::{CellName, CellReply, Component, Record, Reply, Shard, ShardCall, Token};

use super::leader::{PUBLISHES_MAX, Place, READS_MAX};
use super::rule::Weights;
use super::{At, Call, Globe, GlobeEffect, GlobeId};

/// Most cells read in one call: a fifth of a millisecond of a Redis. Nobody waits for it, but
/// callers that read or ask stand in line behind it.
const READS_AT_ONCE: usize = 32;
/// Most totals in a row: they always fit into one payload.
pub(super) const COUNTERS_AT_ONCE: usize = 1_000;
/// Most totals that a leader looks for in the feed: those of 200 full rows, more than are written
/// between two imports; some 20 MB. The oldest are given up first.
const SENT_MAX: usize = 200_000;
/// Batches of several totals refused in a row, after which it is not the totals that are bad. One
/// bad total of a thousand is refused ten times, with an accepted half after each.
const REFUSALS_MAX: u32 = 12;
/// The same of subjects, each refused by itself. One bad subject is refused again and again, maybe
/// with nothing else to publish in between.
const REFUSED_MAX: usize = 8;

impl Globe {
    /// Asks the regional store what the cells hold that were taken from the board.
    pub(super) fn read_taken(&mut self, at: At<'_>) {
        while self.leader.reads < READS_MAX
            && let Some(shard) = self.leader.next_shard(at.ms())
        {
            // It is asked now: nobody has to be woken for it.
            self.leader.read_retries.remove(&shard);
            let start = (shard, Digest::from_bytes([0; 16]), 0, 0);
            let of_shard = self.leader.taken.range(start..);
            let of_shard = of_shard.take_while(|((of, ..), _)| *of == shard).take(READS_AT_ONCE);
            let taken: Vec<(Place, u64)> = of_shard.map(|(place, step)| (*place, *step)).collect();
            let mut posts = Vec::new();
            for (place, step) in taken {
                self.leader.taken.remove(&place);
                let (_, subject, window_ms, sequence) = place;
                let cell = Counter { window_ms, sequence, subject, count: 0 };
                if cell.expires_ms() > at.now.unix_ms() {
                    posts.push(Post { subject, window_ms, sequence, step });
                }
            }
            if self.options.private {
                for post in posts {
                    let reply = self.read_here(at, &post);
                    self.weigh(at, &post, &reply);
                }
            } else if !posts.is_empty() {
                self.read(shard, posts);
            }
        }
    }

    fn read(&mut self, shard: Shard, posts: Vec<Post>) {
        let component = Component { incarnation: self.incarnation, life: 0 };
        let records = posts.iter().map(|post| Record {
            subject: post.subject,
            window_ms: post.window_ms,
            sequence: post.sequence,
            component,
            total: 0,
            previous_total: 0,
        });
        let records = records.collect();
        self.leader.reads += 1;
        let id = self.call(Call::Read(posts));
        // Never what `Region` proposes: it counts up from the incarnation.
        let proposal = Token((!self.incarnation).wrapping_sub(u128::from(self.last)));
        let call = ShardCall::of(shard, proposal, records);
        let timeout_ms = self.tuning.follow_ms;
        self.effects.push(GlobeEffect::Region { id, call, timeout_ms });
    }

    /// What a region that is this process alone has recorded of a cell.
    fn read_here(&self, at: At<'_>, post: &Post) -> Reply {
        let ticket = self.served.get(post.subject);
        let cells = ticket.and_then(|ticket| at.table.cells(*ticket));
        let held = |sequence: u64| {
            let cells = cells?;
            let before = cells.sequence.checked_sub(1);
            let current = (cells.sequence == sequence).then_some(cells.current);
            let cell = current.or_else(|| (before == Some(sequence)).then_some(cells.previous))?;
            Some(self.sum(cell))
        };
        let reply = |sequence: Option<u64>| {
            let sum = sequence.and_then(held).unwrap_or(0);
            CellReply { sum, ..CellReply::default() }
        };
        let (current, previous) = (Some(post.sequence), post.sequence.checked_sub(1));
        Reply { current: reply(current), previous: reply(previous) }
    }

    /// What the cells hold that were taken from the board, or that nobody said. The [type](Self)
    /// has an example.
    pub fn region_replied(&mut self, table: &Table, id: GlobeId, answered: Answered, now: Now) {
        let Some(Call::Read(posts)) = self.calls.remove(&id) else { return };
        let at = At { table, now };
        self.leader.reads = self.leader.reads.saturating_sub(1);
        let Some(shard) = posts.first().map(|post| Shard::of(post.subject, self.shards)) else {
            return;
        };
        if let Ok(reply) = answered {
            self.leader.read_retries.remove(&shard);
            for (post, reply) in posts.iter().zip(reply.replies) {
                match reply {
                    Some(reply) => self.weigh(at, post, &reply),
                    // A cell that cannot be read: whoever posted it does so again.
                    None => self.counts.skipped += 1,
                }
            }
        } else {
            let retry_ms = at.ms().saturating_add(self.tuning.retry_ms);
            self.leader.read_retries.insert(shard, retry_ms);
            self.leader.take(posts);
        }
        self.lead(at);
    }

    /// Publishes what a cell holds, if enough of it is new.
    fn weigh(&mut self, at: At<'_>, post: &Post, reply: &Reply) {
        let Post { subject, window_ms, sequence, step } = *post;
        if self.omits(subject) {
            return;
        }
        let before = sequence.checked_sub(1).map(|before| (before, reply.previous.sum));
        let cells = [Some((sequence, reply.current.sum)), before];
        let cells = cells.map(|cell| cell.unwrap_or((0, 0)));
        let news = cells.map(|(sequence, sum)| {
            let value = self.values.of(window_ms, sequence, subject);
            let known =
                value.own.max(self.leader.sent.of_at(CellName { subject, sequence }, at.ms()));
            let sum = self.planted_sum(at, (window_ms, sequence, subject), sum);
            let counter = Counter { window_ms, sequence, subject, count: sum };
            let live = counter.expires_ms() > at.now.unix_ms();
            (counter, if live { sum.saturating_sub(known) } else { 0 })
        });
        let elapsed_ms = at.now.unix_ms().saturating_sub(sequence.saturating_mul(window_ms));
        let weights = Weights { window_ms, rest_ms: window_ms.saturating_sub(elapsed_ms) };
        let [(_, current), (_, previous)] = news;
        // Half of the step is enough: the rest may have been lost to the time it waited, and who
        // posted it takes it as published. Of what somebody else has posted too nothing is left.
        let share = weights.share(current.saturating_mul(2), previous.saturating_mul(2));
        if current + previous == 0 || share < weights.whole(step) {
            self.counts.skipped += 1;
            return;
        }
        for (counter, new) in news {
            if new > 0 {
                self.put_out(counter);
            }
        }
    }

    /// The mistake: a leader publishes nothing that it does not serve.
    fn omits(&self, subject: Digest) -> bool {
        planted::is(Planted::PublishServedOnly) && self.served.get(subject).is_none()
    }

    /// What a mistake would publish instead of what the region has recorded.
    fn planted_sum(&self, at: At<'_>, cell: (u64, u64, Digest), sum: u64) -> u64 {
        let (window_ms, sequence, subject) = cell;
        if planted::is(Planted::ForeignRepublished) && sum > 0 {
            return sum.saturating_add(self.values.of(window_ms, sequence, subject).foreign);
        }
        if planted::is(Planted::PublishUnconfirmed)
            && let Some(ticket) = self.served.get(subject)
            && let Some(cells) = at.table.cells(*ticket)
            && cells.sequence == sequence
        {
            // Reserved, or admitted and not recorded: counted here and by the others.
            let cell = cells.current;
            return sum.saturating_add(cell.claimed().saturating_sub(cell.acked()));
        }
        sum
    }

    /// A total to be published; of two of a cell the larger.
    pub(super) fn put_out(&mut self, counter: Counter) {
        let Counter { window_ms, sequence, subject, count } = counter;
        let held = self.leader.outbox.entry((window_ms, sequence, subject)).or_default();
        *held = (*held).max(count);
    }

    pub(super) fn publish(&mut self, at: At<'_>, number: RegionNumber) {
        while self.leader.publishes < PUBLISHES_MAX && self.leader.publish_retry_ms <= at.ms() {
            let mut counters = self.next_batch();
            if counters.is_empty() {
                return;
            }
            counters.retain(|counter| self.is_of_use(at, counter));
            if counters.is_empty() {
                continue;
            }
            if !self.leader.breaker.admits(at.ms()) {
                self.leader.parts.push_front(counters);
                return;
            }
            let Some(batch) = self.batch(at, number, (&counters, false)) else { return };
            self.leader.publishes += 1;
            if planted::is(Planted::PublishedEarly) {
                self.assume(at, &counters, u64::MAX);
            }
            let (bytes, row) = (batch.payload.len(), (number, batch.nonce));
            self.leader.begun.insert(batch.nonce);
            self.send(Call::Publish { counters, bytes, row }, GlobalCall::Publish(batch));
        }
    }

    /// Whether a total says anything: it lives, and none was read that is larger. One that failed
    /// may be tried again after that.
    fn is_of_use(&self, at: At<'_>, counter: &Counter) -> bool {
        let Counter { subject, window_ms, sequence, count } = *counter;
        let read = self.values.of(window_ms, sequence, subject).own;
        counter.expires_ms() > at.now.unix_ms() && count >= read
    }

    fn next_batch(&mut self) -> Vec<Counter> {
        if let Some(part) = self.leader.parts.pop_front() {
            return part;
        }
        let mut counters = Vec::new();
        while counters.len() < COUNTERS_AT_ONCE
            && let Some(((window_ms, sequence, subject), count)) = self.leader.outbox.pop_first()
        {
            counters.push(Counter { window_ms, sequence, subject, count });
        }
        counters
    }

    pub(super) fn batch(
        &mut self,
        at: At<'_>,
        region: RegionNumber,
        (counters, repeats): (&[Counter], bool),
    ) -> Option<Batch> {
        let (payload, expires_ms) = pack(counters.to_vec()).pop()?;
        let (nonce, written_ms) = (self.dice.roll(), at.now.unix_ms());
        Some(Batch { region, repeats, nonce, written_ms, expires_ms, payload })
    }

    /// Everything was read that was in the feed at this moment. What was acknowledged long before,
    /// and is not there, the store has lost: nobody else may miss it, because not every total was
    /// posted by somebody. It is published again, each cell once in that time at most. (Long
    /// before, because a replica may lag, and late rows are asked for one after the other.)
    pub(super) fn put_out_late(&mut self, heard_ms: u64) {
        while let Some((cell, (count, window_ms))) = self.leader.sent.take_late(heard_ms) {
            let CellName { subject, sequence } = cell;
            if !self.omits(subject) {
                self.put_out(Counter { window_ms, sequence, subject, count });
            }
        }
    }

    /// Takes totals as published, until an import shows them or time is up.
    fn assume(&mut self, at: At<'_>, counters: &[Counter], for_ms: u64) {
        let until_ms = at.ms().saturating_add(for_ms);
        for Counter { subject, sequence, count, window_ms } in counters.iter().copied() {
            self.leader.sent.set(CellName { subject, sequence }, (count, window_ms), until_ms);
        }
        while self.leader.sent.len() > SENT_MAX {
            self.leader.sent.take_late(u64::MAX);
        }
    }

    pub(super) fn published(
        &mut self,
        at: At<'_>,
        ((region, nonce), counters, bytes): ((RegionNumber, u64), Vec<Counter>, usize),
        answered: Result<(), &GlobalError>,
    ) {
        self.leader.publishes = self.leader.publishes.saturating_sub(1);
        let unread = self.leader.begun.remove(&nonce);
        let refused = matches!(answered, Err(GlobalError::Refused(_)));
        let bad = refused && self.has_bad(&counters);
        self.leader.breaker.report(answered.is_ok() || bad, at.ms());
        if answered.is_ok() {
            self.counts.published += counters.len() as u64;
            self.counts.published_rows += 1;
            self.counts.published_bytes += bytes as u64;
            self.leader.refusals = 0;
            self.leader.refused.clear();
            if planted::is(Planted::RestingLeader) {
                self.leader.publish_retry_ms = at.ms().saturating_add(self.tuning.timeout_ms);
            }
            // An import may be faster than the answer, and a name may be lost meanwhile.
            if unread && self.name.number() == Some(region) {
                let of_use = counters.into_iter().filter(|counter| self.is_of_use(at, counter));
                let of_use: Vec<Counter> = of_use.collect();
                self.assume(at, &of_use, self.tuning.repost_ms);
            }
            return;
        }
        self.counts.publish_errors += 1;
        if planted::is(Planted::PublishedEarly) {
            return;
        }
        if !bad {
            self.leader.publish_retry_ms = at.ms().saturating_add(self.tuning.retry_ms);
        }
        if refused && counters.len() > 1 {
            // One of them may be bad: the others must not wait for it.
            let (left, right) = counters.split_at(counters.len() / 2);
            // The first part of it first: so a bad one is soon alone, and something accepted.
            self.leader.parts.push_front(right.to_vec());
            self.leader.parts.push_front(left.to_vec());
        } else if bad {
            // It is tried again when it is posted again.
            self.counts.refused += counters.len() as u64;
        } else {
            counters.into_iter().for_each(|counter| self.put_out(counter));
        }
    }

    /// Whether one of the totals that the store refuses is bad. If many are refused and none is
    /// accepted, it is the store.
    fn has_bad(&mut self, counters: &[Counter]) -> bool {
        if let [counter] = counters {
            if self.leader.refused.len() < REFUSED_MAX {
                self.leader.refused.insert(counter.subject);
            }
            return self.leader.refused.len() < REFUSED_MAX;
        }
        self.leader.refusals = self.leader.refusals.saturating_add(1);
        self.leader.refusals < REFUSALS_MAX
    }
}
