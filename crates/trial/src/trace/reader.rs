//! Reads a log: lines to requests, what cannot be read counted.

use std::collections::VecDeque;

use super::begin::Begun;
use super::csv::Quotes;
use super::detect::{Parser, example};
use super::jumps::{Jumps, Place, REASON};
use super::lines::{LINE_BYTES_MAX, Lines, Next};
use super::{Fields, Record, TraceError, shown};
use crate::findings::{Malformed, TraceFacts};

/// If so many lines begin a trace and none is a request, it is no trace.
const HOPELESS_LINES: u64 = 1_000;
/// Malformed lines that are shown.
pub(super) const MALFORMED_SHOWN: usize = 10;
/// Lines that one request in CSV may have, with line ends in quotes.
const JOINED_LINES_MAX: usize = 64;

/// What is wrong with a line of CSV whose quote stays open.
const UNCLOSED: &str = "a quote is open at its end, and none of the next lines closes it";

/// A line that was read before its turn.
struct Ahead {
    number: u64,
    next: Next,
    text: String,
}

/// Reads lines as requests, in the order of the lines.
pub(super) struct Reader {
    lines: Lines,
    parser: Parser,
    pub(super) fields: Fields,
    /// Lines that could belong to the one before.
    ahead: VecDeque<Ahead>,
    line: Vec<u8>,
    /// The last line.
    text: String,
    is_alone: bool,
    /// The numbers of these fields, if they are asked for.
    path: Option<usize>,
    query: Option<usize>,
    sample: Option<String>,
    jumps: Jumps,
    pub(super) facts: TraceFacts,
}

impl Reader {
    /// One that `is_alone` may give up early: nothing else can be read.
    pub(super) fn new(begun: Begun, fields: Fields, is_alone: bool) -> Self {
        let Begun { input, parser, format, .. } = begun;
        let (source, format) = (input.name.clone(), format.to_owned());
        let facts = TraceFacts { source, format, ..TraceFacts::default() };
        let (path, query) = (fields.number("path"), fields.number("query"));
        Self {
            lines: Lines::new(vec![input]),
            parser,
            fields,
            ahead: VecDeque::new(),
            line: Vec::new(),
            text: String::new(),
            is_alone,
            path,
            query,
            sample: None,
            jumps: Jumps::default(),
            facts,
        }
    }

    pub(super) fn sample(&self) -> Option<&str> {
        self.sample.as_deref()
    }

    /// Puts the next request into `record`; `false` at the end.
    pub(super) fn next(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        loop {
            let heard = if let Some(place) = self.jumps.waiting(record) {
                self.jumps.hear(record, || place)
            } else if let Some(line) = self.read(record)? {
                let Self { jumps, text, .. } = self;
                jumps.hear(record, || Place { line, sample: shown(text) })
            } else {
                return Ok(self.end(record));
            };
            if let Some(place) = heard.refuted {
                self.malformed_at(place, REASON.to_owned());
            }
            if heard.believed {
                self.facts.requests = self.facts.requests.saturating_add(1);
                return Ok(true);
            }
        }
    }

    /// Nothing more can be read. A request that is doubted still is one if it is the only one.
    fn end(&mut self, record: &mut Record) -> bool {
        match self.jumps.end() {
            Some((only, _, true)) => {
                *record = only;
                self.facts.requests = self.facts.requests.saturating_add(1);
                return true;
            }
            Some((_, place, false)) => self.malformed_at(place, REASON.to_owned()),
            None => {}
        }
        false
    }

    /// Puts what the next line that is a request says into `record`. Answers with its number.
    fn read(&mut self, record: &mut Record) -> Result<Option<u64>, TraceError> {
        while let Some((number, next)) = self.line()? {
            self.facts.lines = self.facts.lines.saturating_add(1);
            match next {
                Next::TooLong => {
                    let why = format!("it has more than {LINE_BYTES_MAX} bytes");
                    self.malformed(number, why);
                    continue;
                }
                Next::CutOff => {
                    self.malformed(number, "the compressed file ends in the middle".to_owned());
                    continue;
                }
                Next::Damaged => {
                    let why = "the compressed file is damaged here; the rest of it is not read";
                    self.malformed(number, why.to_owned());
                    continue;
                }
                Next::Line | Next::End => {}
            }
            if self.text.trim().is_empty() {
                continue;
            }
            if !self.join()? {
                self.malformed(number, UNCLOSED.to_owned());
                continue;
            }
            if let Parser::Csv(csv) = &self.parser
                && csv.is_header(&self.text)
            {
                continue;
            }
            match self.parser.parse(&self.text, &self.fields, record) {
                Ok(()) => {
                    self.split_path(record);
                    if self.sample.is_none() {
                        self.sample = Some(shown(&self.text));
                    }
                    return Ok(Some(number));
                }
                Err(why) => self.malformed(number, why),
            }
            let nothing = self.is_alone && self.sample.is_none();
            if nothing && self.facts.malformed >= HOPELESS_LINES {
                return Err(self.hopeless());
            }
        }
        Ok(None)
    }

    /// The next line, with its number.
    fn line(&mut self) -> Result<Option<(u64, Next)>, TraceError> {
        if let Some(Ahead { number, next, text }) = self.ahead.pop_front() {
            self.text = text;
            return Ok(Some((number, next)));
        }
        let next = self.lines.next(&mut self.line).map_err(|why| broken(&self.lines, &why))?;
        if next == Next::End {
            return Ok(None);
        }
        self.take();
        Ok(Some((self.lines.number, next)))
    }

    /// Makes the bytes of the line the text.
    fn take(&mut self) {
        match std::str::from_utf8(&self.line) {
            Ok(text) => {
                self.text.clear();
                self.text.push_str(text);
            }
            Err(_) => self.text = String::from_utf8_lossy(&self.line).into_owned(),
        }
    }

    /// A line of CSV in which a quote is open goes on in the next ones. Answers whether one of them
    /// closes it; otherwise they stay what they are.
    fn join(&mut self) -> Result<bool, TraceError> {
        let Parser::Csv(csv) = &self.parser else { return Ok(true) };
        let mut quotes = csv.quotes(Quotes::Begin, &self.text);
        let mut bytes = self.text.len();
        for at in 0..JOINED_LINES_MAX {
            if quotes != Quotes::Open {
                self.take_ahead(at);
                return Ok(true);
            }
            if at >= self.ahead.len() {
                self.look_ahead()?;
            }
            let Parser::Csv(csv) = &mut self.parser else { return Ok(false) };
            let Some(Ahead { next, text, .. }) = self.ahead.get(at) else { return Ok(false) };
            bytes = bytes.saturating_add(text.len());
            let goes_on = *next == Next::Line && bytes < LINE_BYTES_MAX;
            if !goes_on || csv.is_request(text) {
                return Ok(false);
            }
            quotes = csv.quotes(quotes, text);
        }
        Ok(false)
    }

    /// Adds lines that were read ahead to the current one.
    fn take_ahead(&mut self, count: usize) {
        for line in self.ahead.drain(..count.min(self.ahead.len())) {
            self.facts.lines = self.facts.lines.saturating_add(1);
            self.text.push('\n');
            self.text.push_str(&line.text);
        }
    }

    /// Reads a line before its turn, if there is one.
    fn look_ahead(&mut self) -> Result<(), TraceError> {
        let next = self.lines.next(&mut self.line).map_err(|why| broken(&self.lines, &why))?;
        if next != Next::End {
            let number = self.lines.number;
            let text = String::from_utf8_lossy(&self.line).into_owned();
            self.ahead.push_back(Ahead { number, next, text });
        }
        Ok(())
    }

    /// Whatever was written: a path begins with the host's root and has no query.
    fn split_path(&self, record: &mut Record) {
        let Some(path) = self.path else { return };
        let Some(target) = record.get(path) else { return };
        let start = match target.split_once("://") {
            Some((scheme, rest)) if !scheme.contains('/') => {
                let host = scheme.len().saturating_add(3);
                host.saturating_add(rest.find('/').unwrap_or(rest.len()))
            }
            _ => 0,
        };
        let end = memchr::memchr(b'?', target.as_bytes()).unwrap_or(target.len());
        if start == 0 && end == target.len() {
            return;
        }
        let after = target.get(end.saturating_add(1)..).unwrap_or_default().to_owned();
        if let Some(query) = self.query.filter(|query| record.get(*query).is_none()) {
            record.set(query, &after);
        }
        record.narrow(path, start, end.max(start));
    }

    fn malformed(&mut self, line: u64, reason: String) {
        let sample = shown(&self.text);
        self.malformed_at(Place { line, sample }, reason);
    }

    fn malformed_at(&mut self, place: Place, reason: String) {
        self.facts.malformed = self.facts.malformed.saturating_add(1);
        if self.facts.malformed_first.len() < MALFORMED_SHOWN {
            let Place { line, sample } = place;
            let reason = match self.is_alone {
                true => reason,
                false => format!("{reason} (in {})", self.facts.source),
            };
            self.facts.malformed_first.push(Malformed { line, reason, sample });
        }
    }

    /// None of its lines is a request.
    pub(super) fn hopeless(&self) -> TraceError {
        let TraceFacts { source, format, malformed, malformed_first, .. } = &self.facts;
        let Some(Malformed { line, reason, sample }) = malformed_first.first() else {
            return TraceError(format!("there is no request in {source}"));
        };
        TraceError(format!(
            "none of the first {malformed} lines of {source} is a request in the format \
             {format}\nline {line}: {reason}\n  {sample}\nexpected, for example\n  {}\nSay \
             --format if it has another, and --time-field if its time has another name.",
            example(&self.parser)
        ))
    }
}

fn broken(lines: &Lines, why: &std::io::Error) -> TraceError {
    TraceError(format!("cannot read {}: {why}", lines.name))
}
