//! Lines of several inputs, one after the other, unpacked if they are compressed.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead, BufReader, Cursor, Read};

use flate2::read::MultiGzDecoder;

/// Longest line that is read. A longer one is no request: it is skipped, and counts as malformed.
pub(super) const LINE_BYTES_MAX: usize = 1 << 20;
/// How much is read at a time.
const BUFFER_BYTES: usize = 256 << 10;
/// What a file begins with that gzip made.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// What some programs put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A file, or standard input.
pub struct Input {
    /// Its name, for errors.
    pub name: String,
    /// What is in it.
    pub read: Box<dyn Read>,
}

impl fmt::Debug for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Input").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What came next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A line.
    Line,
    /// One that is too long: its beginning.
    TooLong,
    /// The compressed input ends in the middle.
    CutOff,
    /// The compressed input cannot be unpacked from here on.
    Damaged,
    /// Nothing more.
    End,
}

/// An input that is being read.
struct Unpacked {
    read: Box<dyn BufRead>,
    is_packed: bool,
}

impl Unpacked {
    /// What an error means for the lines: of a compressed input the rest is lost, not all of it.
    fn lost(&self, why: &io::Error) -> Option<Next> {
        match why.kind() {
            io::ErrorKind::UnexpectedEof => Some(Next::CutOff),
            io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData if self.is_packed => {
                Some(Next::Damaged)
            }
            _ => None,
        }
    }
}

pub(super) struct Lines {
    inputs: VecDeque<Input>,
    current: Option<Unpacked>,
    /// The name of the current one.
    pub(super) name: String,
    /// The number of the last line in it.
    pub(super) number: u64,
}

impl Lines {
    pub(super) fn new(inputs: Vec<Input>) -> Self {
        let inputs = VecDeque::from(inputs);
        Self { inputs, current: None, name: String::new(), number: 0 }
    }

    /// Puts the next line into `line`, without its end.
    pub(super) fn next(&mut self, line: &mut Vec<u8>) -> io::Result<Next> {
        line.clear();
        loop {
            let Some(current) = &mut self.current else {
                let Some(Input { name, read }) = self.inputs.pop_front() else {
                    return Ok(Next::End);
                };
                (self.name, self.number) = (name, 0);
                self.current = Some(unpacked(read)?);
                continue;
            };
            let next = match read_line(&mut *current.read, line) {
                Ok(Next::End) => {
                    self.current = None;
                    continue;
                }
                Ok(next) => next,
                Err(why) => {
                    let lost = current.lost(&why).ok_or(why)?;
                    self.current = None;
                    lost
                }
            };
            self.number = self.number.saturating_add(1);
            if self.number == 1 && line.starts_with(BYTE_ORDER_MARK) {
                line.drain(..BYTE_ORDER_MARK.len());
            }
            return Ok(next);
        }
    }
}

fn unpacked(mut read: Box<dyn Read>) -> io::Result<Unpacked> {
    let mut begin = Vec::new();
    let magic = GZIP_MAGIC.len() as u64;
    (&mut read).take(magic).read_to_end(&mut begin)?;
    let is_packed = begin == GZIP_MAGIC;
    let whole = BufReader::with_capacity(BUFFER_BYTES, Cursor::new(begin).chain(read));
    let read: Box<dyn BufRead> = match is_packed {
        true => Box::new(BufReader::with_capacity(BUFFER_BYTES, MultiGzDecoder::new(whole))),
        false => Box::new(whole),
    };
    Ok(Unpacked { read, is_packed })
}

fn read_line(from: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<Next> {
    let (mut too_long, mut any) = (false, false);
    loop {
        let buffer = match from.fill_buf() {
            Err(why) if why.kind() == io::ErrorKind::Interrupted => continue,
            buffer => buffer?,
        };
        if buffer.is_empty() && !any {
            return Ok(Next::End);
        }
        any = true;
        let end = memchr::memchr(b'\n', buffer);
        let part = buffer.get(..end.unwrap_or(buffer.len())).unwrap_or_default();
        let room = LINE_BYTES_MAX.saturating_sub(line.len());
        too_long |= part.len() > room;
        line.extend_from_slice(part.get(..room).unwrap_or(part));
        let used = end.map_or(buffer.len(), |end| end.saturating_add(1));
        let ended = end.is_some() || buffer.is_empty();
        from.consume(used);
        if ended {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(if too_long { Next::TooLong } else { Next::Line });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn packed(text: &str) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn all(inputs: Vec<Vec<u8>>) -> Vec<(Next, String)> {
        let inputs = inputs
            .into_iter()
            .map(|bytes| Input { name: "x".to_owned(), read: Box::new(Cursor::new(bytes)) });
        let mut lines = Lines::new(inputs.collect());
        let (mut line, mut found) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            let next = lines.next(&mut line).unwrap();
            if next == Next::End {
                break;
            }
            found.push((next, String::from_utf8(line.clone()).unwrap()));
        }
        found
    }

    fn line(text: &str) -> (Next, String) {
        (Next::Line, text.to_owned())
    }

    #[test]
    fn inputs_follow_each_other_packed_or_not() {
        let members = [packed("c\r\nd\n"), packed("e")].concat();
        let plain = b"\xef\xbb\xbfa\n\nb".to_vec();
        let found = all(vec![plain, members, Vec::new(), b"f\n".to_vec()]);
        assert_eq!(found, ["a", "", "b", "c", "d", "e", "f"].map(line));
    }

    #[test]
    fn a_line_without_end_is_cut_and_the_next_is_read() {
        let long = [vec![b'x'; LINE_BYTES_MAX + 7], b"\nnext\n".to_vec()].concat();
        let found = all(vec![long]);
        assert_eq!(found[0].0, Next::TooLong);
        assert_eq!(found[0].1.len(), LINE_BYTES_MAX);
        assert_eq!(found[1..], [line("next")]);
    }

    #[test]
    fn a_compressed_file_that_ends_in_the_middle_is_said() {
        let mut bytes = packed("one\ntwo\n");
        bytes.truncate(bytes.len() - 6);
        let found = all(vec![bytes, b"three\n".to_vec()]);
        assert!(found.iter().any(|(next, _)| *next == Next::CutOff), "{found:?}");
        assert_eq!(found.last(), Some(&line("three")));
    }

    #[test]
    fn of_a_damaged_file_what_was_unpacked_before_counts() {
        let mut checksum = packed("one\ntwo\n");
        let at = checksum.len() - 8;
        checksum[at] ^= 0xff;
        let found = all(vec![checksum, b"three\n".to_vec()]);
        let damaged = (Next::Damaged, String::new());
        assert_eq!(found, [line("one"), line("two"), damaged, line("three")]);
        let trailing = [packed("one\n"), b"junk that no gzip made".to_vec()].concat();
        let found = all(vec![trailing, b"three\n".to_vec()]);
        assert_eq!(found.first(), Some(&line("one")));
        assert_eq!(found.last(), Some(&line("three")));
    }
}
