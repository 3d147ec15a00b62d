//! How each input begins: in which format, and when.

use std::io::{self, Cursor, Read};

use super::detect::{Parser, ReadOptions, detect, unknown};
use super::lines::{Input, Lines, Next};
use super::{Fields, Record, TraceError};

/// Lines that the format is found out from.
const DETECT_LINES: usize = 20;
/// How much of an input is looked at first: more than so many lines have, most often.
const LOOK_BYTES: usize = 32 << 10;
/// How much more is looked at each time if that holds no line at all.
const LOOK_MORE: usize = 8;
/// Where looking ends: more than the longest line.
const LOOK_BYTES_MAX: usize = 2 << 20;

/// An input, and how to read it.
pub(super) struct Begun {
    pub(super) input: Input,
    pub(super) parser: Parser,
    pub(super) format: &'static str,
    /// The time of its first request.
    pub(super) first_ms: u64,
}

/// Finds out the format of each input, and puts them in the order of their first requests: logs
/// that were rotated come by name, the newest first. One of no known format is read as the one
/// before it: a file of CSV may be cut in pieces.
pub(super) fn begun(
    inputs: Vec<Input>,
    source: &str,
    options: &ReadOptions,
    fields: &Fields,
) -> Result<Vec<Begun>, TraceError> {
    let several = inputs.len() > 1;
    let mut found = Vec::with_capacity(inputs.len());
    for input in inputs {
        let name = input.name.clone();
        let looked = look(input);
        let (input, lines) =
            looked.map_err(|why| TraceError(format!("cannot read {name}: {why}")))?;
        let place = |why: TraceError| match several {
            true => TraceError(format!("{name}: {why}")),
            false => why,
        };
        let way = detect(&lines, options, fields).map_err(place)?;
        found.push((input, lines, way));
    }
    let first = found.iter().find_map(|(.., way)| way.clone());
    let Some(mut before) = first else {
        let lines: Vec<String> = found.into_iter().flat_map(|(_, lines, _)| lines).collect();
        return Err(unknown(source, &lines, options));
    };
    let (mut all, mut first_ms) = (Vec::with_capacity(found.len()), 0);
    for (input, lines, way) in found {
        before = way.unwrap_or(before);
        let (mut parser, format) = before.clone();
        // Where no request is found, it stays behind the one before.
        first_ms = earliest_ms(&lines, &mut parser, fields).unwrap_or(first_ms);
        all.push(Begun { input, parser, format, first_ms });
    }
    all.sort_by_key(|begun| begun.first_ms);
    Ok(all)
}

/// The earliest of these lines: too early opens a file too early, and does no harm.
fn earliest_ms(lines: &[String], parser: &mut Parser, fields: &Fields) -> Option<u64> {
    let mut record = Record::default();
    let at_ms = |line: &String| {
        parser.parse(line, fields, &mut record).is_ok().then(|| record.at_unix_ms())
    };
    lines.iter().filter_map(at_ms).min()
}

/// The first lines of an input, which then begins where it did.
fn look(input: Input) -> io::Result<(Input, Vec<String>)> {
    let Input { name, mut read } = input;
    let (mut begin, mut size) = (Vec::new(), LOOK_BYTES);
    loop {
        let room = size.saturating_sub(begin.len());
        let got = (&mut read).take(room as u64).read_to_end(&mut begin)?;
        let is_all = got < room;
        let lines = lines(&begin, is_all);
        let any = lines.iter().any(|line| !line.trim().is_empty());
        let enough = lines.len() >= DETECT_LINES || any && size > LOOK_BYTES;
        if is_all || enough || size >= LOOK_BYTES_MAX {
            let read = Box::new(Cursor::new(begin).chain(read));
            return Ok((Input { name, read }, lines));
        }
        size = size.saturating_mul(LOOK_MORE).min(LOOK_BYTES_MAX);
    }
}

/// The first lines that are whole.
fn lines(begin: &[u8], is_all: bool) -> Vec<String> {
    let read = Box::new(Cursor::new(begin.to_vec()));
    let mut lines = Lines::new(vec![Input { name: String::new(), read }]);
    let (mut line, mut found) = (Vec::new(), Vec::new());
    while found.len() <= DETECT_LINES {
        match lines.next(&mut line) {
            Ok(Next::Line) => found.push(String::from_utf8_lossy(&line).into_owned()),
            Ok(Next::End) => {
                if !is_all {
                    found.pop();
                }
                break;
            }
            // What is wrong with it is said when it is read.
            Ok(Next::TooLong) => {}
            Ok(Next::CutOff | Next::Damaged) | Err(_) => break,
        }
    }
    found.truncate(DETECT_LINES);
    found
}
