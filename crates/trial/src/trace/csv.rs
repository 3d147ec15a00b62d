//! CSV: a line of names, then a line for each request.

use csv_core::{ReadRecordResult, Reader, ReaderBuilder};

use super::names::{TIMES, aliases};
use super::time::{self, Guess};
use super::{Fields, Record, TraceError};

pub(super) const EXAMPLE: &str = "time,ip,path\\n2026-10-10T13:55:36Z,203.0.113.7,/a";

/// Most columns that are read.
const COLUMNS_MAX: usize = 1_024;

/// Reads such lines.
#[derive(Clone, Debug)]
pub(super) struct Csv {
    cells: Cells,
    /// The line of names, which may come again with the next file.
    header: String,
    /// How many names there are.
    names: usize,
    /// Where the time may be, best first; one column if it was named.
    times: Vec<usize>,
    is_named: bool,
    /// The column of each field.
    columns: Vec<Option<usize>>,
}

/// Takes a line apart.
#[derive(Clone, Debug)]
struct Cells {
    delimiter: u8,
    text: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
}

/// Where a line is, as far as quotes go. Only one that a cell begins with opens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Quotes {
    /// A cell begins.
    Begin,
    /// In a cell without.
    Without,
    /// In quotes.
    Open,
    /// After the quote that closes, or the first of two.
    Closed,
}

impl Cells {
    fn new(delimiter: u8) -> Self {
        Self { delimiter, text: Vec::new(), ends: vec![0; COLUMNS_MAX], count: 0 }
    }

    /// Whether it could be taken apart.
    fn split(&mut self, line: &str) -> bool {
        self.text.resize(line.len().saturating_add(1).max(self.text.len()), 0);
        let mut reader: Reader = ReaderBuilder::new().delimiter(self.delimiter).build();
        let (result, read, _, mut count) =
            reader.read_record(line.as_bytes(), &mut self.text, &mut self.ends);
        let done = match result {
            // The end of the line is the end of the record; it is only said to be.
            ReadRecordResult::InputEmpty => {
                let written = count.checked_sub(1).and_then(|at| self.ends.get(at)).copied();
                let rest = self.ends.get_mut(count..).unwrap_or_default();
                let text = self.text.get_mut(written.unwrap_or(0)..).unwrap_or_default();
                let (result, _, _, more) = reader.read_record(&[], text, rest);
                count = count.saturating_add(more);
                matches!(result, ReadRecordResult::Record)
            }
            ReadRecordResult::Record => read == line.len(),
            _ => false,
        };
        self.count = count;
        done
    }

    fn get(&self, column: usize) -> Option<&str> {
        let end = *self.ends.get(..self.count)?.get(column)?;
        let start = column.checked_sub(1).and_then(|at| self.ends.get(at)).copied().unwrap_or(0);
        std::str::from_utf8(self.text.get(start..end)?).ok().map(str::trim)
    }

    fn all(&self) -> impl Iterator<Item = &str> {
        (0..self.count).filter_map(|column| self.get(column))
    }
}

impl Csv {
    /// From its first line. `None` if it has no column for the time.
    pub(super) fn new(
        header: &str,
        delimiter: u8,
        fields: &Fields,
        time_field: Option<&str>,
    ) -> Option<Self> {
        let mut cells = Cells::new(delimiter);
        if !cells.split(header) {
            return None;
        }
        let find = |name: &str| cells.all().position(|it| it.eq_ignore_ascii_case(name));
        let times: Vec<usize> = match time_field {
            Some(name) => find(name).into_iter().collect(),
            None => TIMES.iter().filter_map(|name| find(name)).collect(),
        };
        if times.is_empty() {
            return None;
        }
        let column = |name: &str| aliases(name).iter().find_map(|name| find(name));
        let columns = fields.iter().map(|(name, _)| column(name)).collect();
        let (names, is_named) = (cells.count, time_field.is_some());
        Some(Self { cells, header: header.to_owned(), names, times, is_named, columns })
    }

    /// Which needed field has no column.
    pub(super) fn check(&self, fields: &Fields) -> Result<(), TraceError> {
        let missing = fields
            .iter()
            .zip(&self.columns)
            .find(|((_, needed), column)| *needed && column.is_none());
        match missing {
            None => Ok(()),
            Some(((name, _), _)) => Err(TraceError(format!(
                "there is no column `{name}`; the first line is\n  {}",
                super::shown(&self.header)
            ))),
        }
    }

    /// Whether it is the line of names again.
    pub(super) fn is_header(&self, line: &str) -> bool {
        line == self.header
    }

    /// The time in the line that was taken apart.
    fn time(&self) -> Option<u64> {
        let mut cells = self.times.iter().filter_map(|column| self.cells.get(*column));
        if self.is_named {
            return time::parse(cells.next()?);
        }
        // What is written as a time is one; a number may be anything.
        let mut number = None;
        for cell in cells {
            match time::guess(cell) {
                Some(Guess::Text(at)) => return Some(at),
                Some(Guess::Number(at)) => number = number.or(Some(at)),
                None => {}
            }
        }
        number
    }

    /// Whether it is a whole request by itself.
    pub(super) fn is_request(&mut self, line: &str) -> bool {
        self.cells.split(line) && self.cells.count == self.names && self.time().is_some()
    }

    /// How a line leaves the quotes that it found.
    pub(super) fn quotes(&self, found: Quotes, line: &str) -> Quotes {
        if found != Quotes::Open && memchr::memchr(b'"', line.as_bytes()).is_none() {
            return Quotes::Begin;
        }
        line.bytes().fold(found, |quotes, byte| match (quotes, byte) {
            (Quotes::Begin | Quotes::Closed, b'"') => Quotes::Open,
            (Quotes::Open, b'"') => Quotes::Closed,
            (Quotes::Open, _) => Quotes::Open,
            (_, byte) if byte == self.cells.delimiter => Quotes::Begin,
            _ => Quotes::Without,
        })
    }

    /// Fills `record`, or says what was expected.
    pub(super) fn parse(
        &mut self,
        line: &str,
        fields: &Fields,
        record: &mut Record,
    ) -> Result<(), String> {
        if !self.cells.split(line) {
            return Err("expected one line of at most 1,024 columns".to_owned());
        }
        let Some(at_unix_ms) = self.time() else {
            let first = self.times.first().and_then(|column| self.cells.get(*column));
            let bad = first.ok_or("there are fewer columns than names")?;
            let bad: String = bad.chars().take(40).collect();
            return Err(format!("`{bad}` is no time: expected {}", time::EXPECTED));
        };
        record.begin(fields, at_unix_ms);
        for (field, column) in self.columns.iter().enumerate() {
            let value = column.and_then(|column| self.cells.get(column));
            if let Some(value) = value.filter(|value| *value != "-") {
                record.set(field, value);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_and_quotes_are_taken_off() {
        let mut fields = Fields::default();
        let [ip, agent, x] = ["ip", "agent", "X"].map(|name| fields.want(name));
        let header = "ts;\"Client_IP\";user_agent;x";
        let mut csv = Csv::new(header, b';', &fields, None).unwrap();
        csv.check(&fields).unwrap();
        assert!(csv.is_header(header));
        let mut record = Record::default();
        csv.parse("1709164800; ::1 ;\"a \"\"b\"\"; c\";-", &fields, &mut record).unwrap();
        assert_eq!(record.at_unix_ms(), 1_709_164_800_000);
        assert_eq!(record.get(ip), Some("::1"));
        assert_eq!((record.get(agent), record.get(x)), (Some("a \"b\"; c"), None));
        // Shorter, and longer.
        csv.parse("1709164801;b", &fields, &mut record).unwrap();
        assert_eq!((record.get(ip), record.get(agent)), (Some("b"), None));
        assert!(csv.parse("noon;b", &fields, &mut record).unwrap_err().contains("`noon`"));
        assert!(csv.parse("", &fields, &mut record).is_err());
    }

    #[test]
    fn without_a_time_or_a_needed_column_it_is_refused() {
        let mut fields = Fields::default();
        fields.want("user");
        fields.want_if_there("ip");
        assert!(Csv::new("a,b", b',', &fields, None).is_none());
        assert!(Csv::new("a,b", b',', &fields, Some("b")).is_some());
        let csv = Csv::new("time,ip", b',', &fields, None).unwrap();
        assert!(csv.check(&fields).unwrap_err().0.contains("`user`"));
        let mut fields = Fields::default();
        fields.want_if_there("ip");
        Csv::new("time,b", b',', &fields, None).unwrap().check(&fields).unwrap();
    }
}
