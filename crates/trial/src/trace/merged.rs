//! Several logs as one: at each moment the request that came first is next.
//!
//! Logs that were rotated follow each other, those of several servers run side by side. A log is
//! opened when its first request is due, so that many files take the memory of those that overlap.

use std::collections::VecDeque;

use super::begin::begun;
use super::detect::ReadOptions;
use super::lines::Input;
use super::reader::{MALFORMED_SHOWN, Reader};
use super::{Fields, Record, TraceError};
use crate::findings::TraceFacts;

/// A log, and its next request.
struct Open {
    reader: Reader,
    next: Record,
}

/// Reads logs side by side.
pub(super) struct Merged {
    /// Those that are not due, in the order of their first requests, and when that is.
    waiting: VecDeque<(u64, Reader)>,
    open: Vec<Open>,
    ended: Vec<Reader>,
    source: String,
    format: String,
}

impl Merged {
    pub(super) fn new(
        inputs: Vec<Input>,
        options: &ReadOptions,
        fields: &Fields,
    ) -> Result<Self, TraceError> {
        let source = match inputs.as_slice() {
            [] => return Err(TraceError("there is nothing to read".to_owned())),
            [one] => one.name.clone(),
            [one, more @ ..] => format!("{} and {} more", one.name, more.len()),
        };
        let is_alone = inputs.len() == 1;
        let mut formats: Vec<&str> = Vec::new();
        let mut waiting = VecDeque::new();
        for begun in begun(inputs, &source, options, fields)? {
            if !formats.contains(&begun.format) {
                formats.push(begun.format);
            }
            waiting.push_back((begun.first_ms, Reader::new(begun, fields.clone(), is_alone)));
        }
        let format = formats.join(" and ");
        Ok(Self { waiting, open: Vec::new(), ended: Vec::new(), source, format })
    }

    /// Puts the next request into `record`; `false` at the end.
    pub(super) fn next(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        let Some(first) = self.first()? else { return self.end() };
        let Some(open) = self.open.get_mut(first) else { return Ok(false) };
        std::mem::swap(record, &mut open.next);
        if !open.reader.next(&mut open.next)? {
            let Open { reader, .. } = self.open.remove(first);
            self.ended.push(reader);
        }
        Ok(true)
    }

    /// Which log has the next request. Of two at once, the one that began earlier.
    fn first(&mut self) -> Result<Option<usize>, TraceError> {
        loop {
            let all = self.open.iter().enumerate();
            let least = all.map(|(at, open)| (open.next.at_unix_ms(), at)).min();
            let is_due =
                |(first_ms, _): &(u64, Reader)| least.is_none_or(|(at, _)| *first_ms <= at);
            if !self.waiting.front().is_some_and(is_due) {
                return Ok(least.map(|(_, at)| at));
            }
            let Some((_, mut reader)) = self.waiting.pop_front() else { continue };
            let mut next = Record::default();
            match reader.next(&mut next)? {
                true => self.open.push(Open { reader, next }),
                false => self.ended.push(reader),
            }
        }
    }

    /// Nothing more can be read. If nothing was, it is no trace.
    fn end(&self) -> Result<bool, TraceError> {
        match self.readers().all(|reader| reader.facts.requests == 0) {
            true => Err(self.readers().next().map_or_else(
                || TraceError(format!("there is no request in {}", self.source)),
                |first| first.hopeless(),
            )),
            false => Ok(false),
        }
    }

    fn readers(&self) -> impl Iterator<Item = &Reader> {
        let open = self.open.iter().map(|open| &open.reader);
        self.ended.iter().chain(open).chain(self.waiting.iter().map(|(_, reader)| reader))
    }

    pub(super) fn sample(&self) -> Option<&str> {
        self.readers().find_map(Reader::sample)
    }

    /// What was read of all of them.
    pub(super) fn facts(&self) -> TraceFacts {
        let (source, format) = (self.source.clone(), self.format.clone());
        let mut all = TraceFacts { source, format, ..TraceFacts::default() };
        for Reader { facts, .. } in self.readers() {
            all.lines = all.lines.saturating_add(facts.lines);
            all.requests = all.requests.saturating_add(facts.requests);
            all.malformed = all.malformed.saturating_add(facts.malformed);
            let room = MALFORMED_SHOWN.saturating_sub(all.malformed_first.len());
            all.malformed_first.extend(facts.malformed_first.iter().take(room).cloned());
        }
        all
    }
}
