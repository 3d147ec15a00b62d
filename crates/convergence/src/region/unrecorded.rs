//! Since when there is cost that the region has not recorded.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_limiter::Ticket;

/// Every subject with such a cost, and the earliest moment at which some of it can have been
/// admitted.
#[derive(Debug, Default)]
pub(super) struct Unrecorded {
    since: BTreeMap<Ticket, u64>,
    oldest: BTreeSet<(u64, Ticket)>,
}

impl Unrecorded {
    /// Something is not recorded now. If that was so before, it is as old as it was.
    pub(super) fn begin(&mut self, subject: Ticket, now_ms: u64) {
        if let std::collections::btree_map::Entry::Vacant(vacant) = self.since.entry(subject) {
            vacant.insert(now_ms);
            self.oldest.insert((now_ms, subject));
        }
    }

    /// Everything is recorded that was admitted before this moment. What is not is younger.
    pub(super) fn recorded(&mut self, subject: Ticket, sent_ms: u64) {
        if let Some(since_ms) = self.since.get_mut(&subject).filter(|since_ms| **since_ms < sent_ms)
        {
            self.oldest.remove(&(*since_ms, subject));
            *since_ms = sent_ms;
            self.oldest.insert((sent_ms, subject));
        }
    }

    /// Everything is recorded, or nothing is left to record.
    pub(super) fn end(&mut self, subject: Ticket) {
        if let Some(since_ms) = self.since.remove(&subject) {
            self.oldest.remove(&(since_ms, subject));
        }
    }

    pub(super) fn clear(&mut self) {
        self.since.clear();
        self.oldest.clear();
    }

    /// How long ago the oldest such cost was admitted, at most.
    pub(super) fn age_ms(&self, now_ms: u64) -> u64 {
        self.oldest.first().map_or(0, |(since_ms, _)| now_ms.saturating_sub(*since_ms))
    }
}
