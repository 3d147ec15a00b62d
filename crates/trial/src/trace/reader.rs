//! Reads a log: lines to requests, what cannot be read counted.

use std::collections::VecDeque;

use super::detect::{Parser, ReadOptions, detect, example};
use super::jumps::{Jumps, Place, REASON};
use super::lines::{Input, LINE_BYTES_MAX, Lines, Next};
use super::{Fields, Record, TraceError, shown};
use crate::findings::{Malformed, TraceFacts};

/// Lines that the format is found out from.
const DETECT_LINES: usize = 20;
/// If so many lines begin a trace and none is a request, it is no trace.
const HOPELESS_LINES: u64 = 1_000;
/// Malformed lines that are shown.
const MALFORMED_SHOWN: usize = 10;
/// Lines that one request in CSV may have, with line ends in quotes.
const JOINED_LINES_MAX: usize = 64;

/// A line that was read before its turn.
struct Ahead {
    name: String,
    number: u64,
    next: Next,
    text: String,
}

/// Reads lines as requests, in the order of the lines.
pub(super) struct Reader {
    lines: Lines,
    parser: Parser,
    pub(super) fields: Fields,
    /// Lines that were looked at to find out the format.
    ahead: VecDeque<Ahead>,
    line: Vec<u8>,
    /// The last line, and the input it is from.
    text: String,
    name: String,
    /// The numbers of these fields, if they are asked for.
    path: Option<usize>,
    query: Option<usize>,
    sample: Option<String>,
    jumps: Jumps,
    pub(super) facts: TraceFacts,
}

impl Reader {
    pub(super) fn new(
        inputs: Vec<Input>,
        options: &ReadOptions,
        fields: Fields,
    ) -> Result<Self, TraceError> {
        let source = match inputs.as_slice() {
            [] => return Err(TraceError("there is nothing to read".to_owned())),
            [one] => one.name.clone(),
            [one, more @ ..] => format!("{} and {} more", one.name, more.len()),
        };
        let mut lines = Lines::new(inputs);
        let (mut line, mut ahead) = (Vec::new(), VecDeque::new());
        while ahead.len() < DETECT_LINES {
            match lines.next(&mut line).map_err(|why| broken(&lines, &why))? {
                Next::End => break,
                next => {
                    let text = String::from_utf8_lossy(&line).into_owned();
                    let (name, number) = (lines.name.clone(), lines.number);
                    ahead.push_back(Ahead { name, number, next, text });
                }
            }
        }
        let texts: Vec<String> = ahead.iter().map(|line| line.text.clone()).collect();
        let (parser, format) = detect(&texts, &source, options, &fields)?;
        let facts = TraceFacts { source, format: format.to_owned(), ..TraceFacts::default() };
        let (text, name, sample) = (String::new(), String::new(), None);
        let (path, query) = (fields.number("path"), fields.number("query"));
        let jumps = Jumps::default();
        Ok(Self {
            lines,
            parser,
            fields,
            ahead,
            line,
            text,
            name,
            path,
            query,
            sample,
            jumps,
            facts,
        })
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
                let Self { jumps, name, text, .. } = self;
                let place = || Place { line, name: name.clone(), sample: shown(text) };
                jumps.hear(record, place)
            } else {
                return self.end(record);
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
    fn end(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        match self.jumps.end() {
            Some((only, _, true)) => {
                *record = only;
                self.facts.requests = self.facts.requests.saturating_add(1);
                return Ok(true);
            }
            Some((_, place, false)) => self.malformed_at(place, REASON.to_owned()),
            None => {}
        }
        if self.facts.requests == 0 {
            return Err(self.hopeless());
        }
        Ok(false)
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
            if self.sample.is_none() && self.facts.malformed >= HOPELESS_LINES {
                return Err(self.hopeless());
            }
        }
        Ok(None)
    }

    /// The next line, with its number.
    fn line(&mut self) -> Result<Option<(u64, Next)>, TraceError> {
        let (number, next) = match self.ahead.pop_front() {
            Some(Ahead { name, number, next, text }) => {
                (self.text, self.name) = (text, name);
                (number, next)
            }
            None => {
                let next = self.lines.next(&mut self.line);
                let next = next.map_err(|why| broken(&self.lines, &why))?;
                if next == Next::End {
                    return Ok(None);
                }
                self.take();
                if self.name != self.lines.name {
                    self.name.clone_from(&self.lines.name);
                }
                (self.lines.number, next)
            }
        };
        if matches!(self.parser, Parser::Csv(_)) {
            self.join()?;
        }
        Ok(Some((number, next)))
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

    /// A line of CSV in which a quote is open goes on in the next.
    fn join(&mut self) -> Result<(), TraceError> {
        for _ in 0..JOINED_LINES_MAX {
            let quotes = memchr::memchr_iter(b'"', self.text.as_bytes()).count();
            if quotes.is_multiple_of(2) || self.text.len() >= LINE_BYTES_MAX {
                return Ok(());
            }
            let more = match self.ahead.pop_front() {
                Some(line) => line.text,
                None => {
                    let next = self.lines.next(&mut self.line);
                    if next.map_err(|why| broken(&self.lines, &why))? == Next::End {
                        return Ok(());
                    }
                    String::from_utf8_lossy(&self.line).into_owned()
                }
            };
            self.facts.lines = self.facts.lines.saturating_add(1);
            self.text.push('\n');
            self.text.push_str(&more);
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
        let (name, sample) = (self.name.clone(), shown(&self.text));
        self.malformed_at(Place { line, name, sample }, reason);
    }

    fn malformed_at(&mut self, place: Place, reason: String) {
        self.facts.malformed = self.facts.malformed.saturating_add(1);
        if self.facts.malformed_first.len() < MALFORMED_SHOWN {
            let Place { line, name, sample } = place;
            let several = self.lines.inputs_all > 1;
            let place = if several { format!(" (in {name})") } else { String::new() };
            let reason = format!("{reason}{place}");
            self.facts.malformed_first.push(Malformed { line, reason, sample });
        }
    }

    fn hopeless(&self) -> TraceError {
        let TraceFacts { source, format, malformed, malformed_first, .. } = &self.facts;
        let Some(Malformed { line, reason, sample }) = malformed_first.first() else {
            return TraceError(format!("there is no request in {source}"));
        };
        TraceError(format!(
            "none of the first {malformed} lines of {source} is a request in the format \
             {format}\nline {line}: {reason}\n  {sample}\nexpected, for example\n  {}\nSay --format \
             if it has another, and --time-field if its time has another name.",
            example(&self.parser)
        ))
    }
}

fn broken(lines: &Lines, why: &std::io::Error) -> TraceError {
    TraceError(format!("cannot read {}: {why}", lines.name))
}
