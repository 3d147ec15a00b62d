//! The regional store, and what befalls it.

use std::collections::BTreeMap;

use tidegate_convergence::{CellName, MemoryRegion, Record, Shard, ShardCall, ShardReply};
use tidegate_limiter::Digest;
use tidegate_limiter::planted::{self, Planted};

use crate::node::Call;
use crate::truth::Name;

/// When the store forgets the cells of a shard, as it was at some moment.
type Expiries = BTreeMap<Name, Option<u64>>;

/// The store.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) memory: MemoryRegion,
    /// What a replica has of each shard, and when it forgets it.
    pub(crate) replicas: BTreeMap<Shard, (MemoryRegion, Expiries)>,
    pub(crate) away_until_us: u64,
    /// It answers that it is away, instead of not at all.
    pub(crate) away_answers: bool,
    pub(crate) slow_until_us: u64,
    pub(crate) slow_ms: u64,
    /// Calls that are refused next.
    pub(crate) refusals: u32,
    shards: u16,
}

/// What the store said, and what an honest one would have said.
pub(crate) struct Said {
    pub(crate) reply: ShardReply,
    pub(crate) honest: ShardReply,
}

impl Store {
    pub(crate) fn new(shards: u16) -> Self {
        Self {
            memory: MemoryRegion::new(shards),
            replicas: BTreeMap::new(),
            away_until_us: 0,
            away_answers: false,
            slow_until_us: 0,
            slow_ms: 0,
            refusals: 0,
            shards,
        }
    }

    pub(crate) fn shard_of(&self, subject: Digest) -> Shard {
        Shard::of(subject, self.shards)
    }

    /// Answers a call, of which it may refuse one record.
    pub(crate) fn call(&mut self, made: &Call, refused: Option<usize>, now_ms: u64) -> Said {
        let mut call = self.planted_call(made, now_ms);
        let refused = refused.filter(|at| *at < call.records.len());
        if let Some(at) = refused {
            call.records.remove(at);
        }
        let mut honest = self.memory.call(&call, now_ms);
        let mut reply = honest.clone();
        if planted::is(Planted::EchoTotal) {
            for (reply, record) in reply.replies.iter_mut().zip(&call.records) {
                if let Some(reply) = reply {
                    reply.current.recorded = record.total;
                    reply.previous.recorded = record.previous_total;
                }
            }
        }
        if let Some(at) = refused {
            honest.replies.insert(at, None);
            reply.replies.insert(at, None);
        }
        Said { reply, honest }
    }

    /// With a mistake planted, a call carries increments, and the store adds them up.
    fn planted_call(&mut self, made: &Call, now_ms: u64) -> ShardCall {
        let mut call = made.call.clone();
        if planted::is(Planted::Increments) {
            for (record, acked) in call.records.iter_mut().zip(&made.acked) {
                let (had, had_previous) = self.had(record, now_ms);
                let more = record.total.saturating_sub(acked.0);
                let more_previous = record.previous_total.saturating_sub(acked.1);
                record.total = had + more;
                record.previous_total = had_previous + more_previous;
            }
        }
        call
    }

    /// What it holds of a component, in both cells of the record.
    pub(crate) fn had(&mut self, record: &Record, now_ms: u64) -> (u64, u64) {
        let look = Record { total: 0, previous_total: 0, ..*record };
        let shard = self.shard_of(record.subject);
        let proposal = tidegate_convergence::Token(u128::MAX);
        let call = ShardCall::of(shard, proposal, vec![look]);
        // A look at a copy: it must not give the shard a token.
        let empty = self.memory.sum(record.cell(), now_ms) == 0
            && self.memory.sum(record.previous_cell(), now_ms) == 0;
        if empty {
            return (0, 0);
        }
        let reply = self.memory.call(&call, now_ms).replies.first().copied().flatten();
        reply.map_or((0, 0), |reply| (reply.current.had, reply.previous.had))
    }

    pub(crate) fn sum(&self, subject: Digest, sequence: u64, now_ms: u64) -> u64 {
        self.memory.sum(CellName { subject, sequence }, now_ms)
    }
}
