//! Since when there is cost that the region has not recorded.

use std::collections::{BTreeMap, btree_map};

/// How many subjects have such a cost, by the earliest moment at which some of it can have been
/// admitted. That moment is kept with the subject.
#[derive(Debug, Default)]
pub(super) struct Unrecorded {
    since: BTreeMap<u64, usize>,
}

impl Unrecorded {
    /// Something is not recorded now. If that was so before, it is as old as it was.
    pub(super) fn begin(&mut self, since_ms: &mut Option<u64>, now_ms: u64) {
        if since_ms.is_none() {
            *since_ms = Some(now_ms);
            self.count(now_ms);
        }
    }

    /// Everything is recorded that was admitted before this moment. What is not is younger.
    pub(super) fn recorded(&mut self, since_ms: &mut Option<u64>, sent_ms: u64) {
        if let Some(before_ms) = since_ms.filter(|since_ms| *since_ms < sent_ms) {
            *since_ms = Some(sent_ms);
            self.discount(before_ms);
            self.count(sent_ms);
        }
    }

    /// Everything is recorded, or nothing is left to record.
    pub(super) fn end(&mut self, since_ms: &mut Option<u64>) {
        if let Some(since_ms) = since_ms.take() {
            self.discount(since_ms);
        }
    }

    pub(super) fn clear(&mut self) {
        self.since.clear();
    }

    /// How long ago the oldest such cost was admitted, at most.
    pub(super) fn age_ms(&self, now_ms: u64) -> u64 {
        self.since.first_key_value().map_or(0, |(since_ms, _)| now_ms.saturating_sub(*since_ms))
    }

    fn count(&mut self, since_ms: u64) {
        *self.since.entry(since_ms).or_default() += 1;
    }

    fn discount(&mut self, since_ms: u64) {
        if let btree_map::Entry::Occupied(mut counted) = self.since.entry(since_ms) {
            *counted.get_mut() -= 1;
            if *counted.get() == 0 {
                counted.remove();
            }
        }
    }
}
