//! A log in the order of time: logs are written when requests end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::detect::ReadOptions;
use super::lines::Input;
use super::merged::Merged;
use super::{Fields, Record, Source, TraceError};
use crate::findings::TraceFacts;

/// Most requests that are held back to be put in order: some 10 MiB of them.
const HELD_MAX: usize = 1 << 16;
/// Most bytes of values that are held back: requests of a usual length do not come near.
const HELD_BYTES_MAX: usize = 32 << 20;
/// What a place keeps for the next request: most fit, and all places together stay small.
const PLACE_BYTES: usize = 512;

/// From here on, in percent of all, requests out of order are too many for the numbers to hold.
const OUT_OF_ORDER_PERCENT: u64 = 1;

/// What to say of a trace that is out of order, if it is.
pub(crate) fn disorder(facts: &TraceFacts) -> Option<String> {
    let TraceFacts { out_of_order, requests, .. } = facts;
    let many = out_of_order.saturating_mul(100) > requests.saturating_mul(OUT_OF_ORDER_PERCENT);
    many.then(|| {
        format!(
            "{out_of_order} of {requests} requests are out of order, and were decided later than \
             they came: it says little. Name the logs as files, which are put in order, packed or \
             not; sort what comes through a pipe; or allow more with --reorder"
        )
    })
}

/// Reads logs as requests, in the order of time.
///
/// A request is held back until one has come that is later by more than the allowed time, or until
/// too much is held; one that comes after a later one was given out counts as
/// [out of order](crate::TraceFacts::out_of_order) and gets its time.
///
/// ```
/// use tidegate_trial::{Fields, Input, Logs, ReadOptions, Record, Source};
///
/// let text = "{\"time\":1700000001,\"ip\":\"a\"}\n{\"time\":1700000000,\"ip\":\"b\"}\nnoise\n";
/// let read = Box::new(text.as_bytes());
/// let mut fields = Fields::default();
/// let ip = fields.want("ip");
/// let options = ReadOptions { reorder_ms: 2_000, ..ReadOptions::default() };
/// let input = Input { name: "log".to_owned(), read };
/// let mut logs = Logs::new(vec![input], &options, fields)?;
/// let mut record = Record::default();
/// let mut all = Vec::new();
/// while logs.next(&mut record)? {
///     all.extend(record.get(ip).map(str::to_owned));
/// }
/// assert_eq!(all, ["b", "a"]);
/// assert_eq!((logs.facts().requests, logs.facts().malformed), (2, 1));
/// # Ok::<(), tidegate_trial::TraceError>(())
/// ```
pub struct Logs {
    merged: Merged,
    reorder_ms: u64,
    /// By time, then as they came: where in `held` they are.
    order: BinaryHeap<Reverse<(u64, u64, usize)>>,
    held: Vec<Record>,
    free: Vec<usize>,
    /// What the values of those that are held take.
    held_bytes: usize,
    came: u64,
    /// The latest time that was read.
    latest_ms: u64,
    /// The times of the first one and the last one that were given out.
    first_ms: Option<u64>,
    given_ms: u64,
    out_of_order: u64,
    ended: bool,
}

impl std::fmt::Debug for Logs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Logs").field("came", &self.came).finish_non_exhaustive()
    }
}

impl Logs {
    /// Looks at the first lines. The [type](Self) has an example.
    ///
    /// # Errors
    /// If they are in no format that is known, or lack a field that is needed.
    pub fn new(
        inputs: Vec<Input>,
        options: &ReadOptions,
        fields: Fields,
    ) -> Result<Self, TraceError> {
        let merged = Merged::new(inputs, options, &fields)?;
        Ok(Self {
            merged,
            reorder_ms: options.reorder_ms,
            order: BinaryHeap::new(),
            held: Vec::new(),
            free: Vec::new(),
            held_bytes: 0,
            came: 0,
            latest_ms: 0,
            first_ms: None,
            given_ms: 0,
            out_of_order: 0,
            ended: false,
        })
    }

    /// Whether the first of those that are held back can go.
    fn is_due(&self) -> bool {
        let late = |at: u64| at.saturating_add(self.reorder_ms) < self.latest_ms;
        let due = |Reverse((at, ..)): &Reverse<(u64, u64, usize)>| {
            let full = self.order.len() >= HELD_MAX || self.held_bytes >= HELD_BYTES_MAX;
            self.ended || full || late(*at)
        };
        self.order.peek().is_some_and(due)
    }

    fn give(&mut self, record: &mut Record) -> bool {
        let Some(Reverse((_, _, at))) = self.order.pop() else { return false };
        if let Some(held) = self.held.get_mut(at) {
            self.held_bytes = self.held_bytes.saturating_sub(held.bytes());
            std::mem::swap(held, record);
            held.forget();
            held.shrink(PLACE_BYTES);
        }
        self.free.push(at);
        self.clamp(record);
        true
    }

    /// Holds it back until its turn.
    fn hold(&mut self, record: &mut Record) {
        self.latest_ms = self.latest_ms.max(record.at_unix_ms());
        let at = self.free.pop().unwrap_or_else(|| {
            self.held.push(Record::default());
            self.held.len().saturating_sub(1)
        });
        self.order.push(Reverse((record.at_unix_ms(), self.came, at)));
        self.came = self.came.saturating_add(1);
        if let Some(held) = self.held.get_mut(at) {
            record.shrink(PLACE_BYTES);
            self.held_bytes = self.held_bytes.saturating_add(record.bytes());
            std::mem::swap(held, record);
        }
    }

    /// Times never fall.
    fn clamp(&mut self, record: &mut Record) {
        if record.at_unix_ms() < self.given_ms {
            self.out_of_order = self.out_of_order.saturating_add(1);
            record.set_at_unix_ms(self.given_ms);
        }
        self.given_ms = record.at_unix_ms();
        self.first_ms.get_or_insert(self.given_ms);
    }
}

impl Source for Logs {
    fn next(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        if self.reorder_ms == 0 {
            let more = self.merged.next(record)?;
            if more {
                self.clamp(record);
            }
            return Ok(more);
        }
        while !self.is_due() {
            if self.ended {
                return Ok(false);
            }
            if !self.merged.next(record)? {
                self.ended = true;
                continue;
            }
            self.hold(record);
        }
        Ok(self.give(record))
    }

    fn facts(&self) -> TraceFacts {
        TraceFacts {
            out_of_order: self.out_of_order,
            first_unix_ms: self.first_ms.unwrap_or(0),
            last_unix_ms: self.given_ms,
            ..self.merged.facts()
        }
    }

    fn sample(&self) -> Option<&str> {
        self.merged.sample()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_back_is_bounded_in_bytes() {
        let long = "x".repeat(1 << 19);
        let lines = (0..200_u64).map(|at| {
            // Every second one is short, so that places are used again for others.
            let path = if at.is_multiple_of(2) { long.as_str() } else { "/" };
            format!("{{\"time\":{},\"path\":\"{path}\"}}\n", 1_700_000_000_000 + at)
        });
        let mut fields = Fields::default();
        fields.want("path");
        let read = Box::new(std::io::Cursor::new(lines.collect::<String>().into_bytes()));
        let options = ReadOptions { reorder_ms: 60_000, ..ReadOptions::default() };
        let input = Input { name: "log".to_owned(), read };
        let mut logs = Logs::new(vec![input], &options, fields).unwrap();
        let (mut record, mut requests) = (Record::default(), 0);
        while logs.next(&mut record).unwrap() {
            requests += 1;
            let bytes: usize = logs.held.iter().map(Record::bytes).sum();
            assert!(bytes <= HELD_BYTES_MAX + (4 << 20), "{bytes} bytes are held");
        }
        assert_eq!((requests, logs.held_bytes, logs.facts().out_of_order), (200, 0, 0));
    }
}
