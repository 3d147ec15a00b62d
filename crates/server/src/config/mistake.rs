//! What is wrong with a configuration, where, and in words that repeat no secret.

use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::knobs::{self, FILE, KNOBS, Knob};
use super::near::nearest;

/// Everything that is wrong with a configuration. [`Source`](super::Source) has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(pub(super) Vec<Mistake>);

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    pub(super) place: Place,
    pub(super) text: String,
    /// The file that is missed, or cannot be read.
    pub(super) wanted: Option<PathBuf>,
}

/// Where a value was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the command line, in the flag's own variable, or not at all: the words name it.
    Elsewhere,
    /// In an overlaying variable.
    Variable(String),
    /// In the file.
    File(Spot),
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(super) path: PathBuf,
    /// Both count from 1, columns in characters.
    pub(super) line: usize,
    pub(super) column: usize,
    /// How many characters are meant.
    width: usize,
    /// What of the line can be shown.
    shown: String,
}

impl Spot {
    /// The place of some bytes of a text.
    pub(super) fn of(path: &Path, text: &str, bytes: Range<usize>) -> Self {
        let start = (0..=bytes.start).rev().find_map(|at| text.split_at_checked(at));
        let (before, after) = start.unwrap_or(("", text));
        let line_start = before.rfind('\n').map_or(0, |at| at.saturating_add(1));
        let begin = before.get(line_start..).unwrap_or_default();
        let rest = after.lines().next().unwrap_or_default();
        let meant = bytes.end.saturating_sub(bytes.start).min(rest.len());
        let meant = rest.get(..meant).map_or(1, |meant| meant.chars().count());
        Self {
            path: path.to_owned(),
            line: before.matches('\n').count().saturating_add(1),
            column: begin.chars().count().saturating_add(1),
            width: meant.max(1),
            shown: showable(&format!("{begin}{rest}")),
        }
    }
}

/// What of a line can be shown. Up to the end of its value if it is about something that is no
/// secret, otherwise its first word, and that only if it is a key or near one: who writes
/// `root_kye = "…"` has written a secret, too, and any other word may be a part of one.
fn showable(line: &str) -> String {
    let begin = line.trim_start();
    let word_end = begin.find(|char| !is_of_name(char)).unwrap_or(begin.len());
    let word = begin.get(..word_end).unwrap_or_default();
    let key = word.rsplit('.').next().unwrap_or_default();
    let is_named = |knob: &Knob| match knob.secret {
        true => key.strip_suffix(FILE) == Some(knob.key),
        false => key == knob.key,
    };
    let signs = line.matches('=').count();
    if signs == 0 && is_header(begin.trim_end()) {
        return line.trim_end().to_owned();
    }
    // With several signs, something else follows on the same line.
    if signs == 1
        && KNOBS.iter().any(is_named)
        && let Some(shown) = up_to_value(line)
    {
        return shown;
    }
    let known = || knobs::sections().into_iter().flat_map(knobs::keys);
    let is_key = known().any(|it| it == key) || signs == 1 && nearest(key, known()).is_some();
    let indent = line.len().saturating_sub(begin.len());
    match is_key {
        true => format!("{}{word} …", line.get(..indent).unwrap_or_default()),
        // It may be a line of a value.
        false => "…".to_owned(),
    }
}

fn is_of_name(char: char) -> bool {
    char.is_alphanumeric() || "_-.".contains(char)
}

/// Whether it begins a section that there is, or one with nearly its name. Any other word in
/// brackets may be a line of a list.
fn is_header(line: &str) -> bool {
    let sections = knobs::sections().into_iter().map(str::to_owned);
    let name = line.trim_start_matches('[').trim_end_matches(']').trim();
    let first = name.split('.').next().unwrap_or_default();
    let is_plain = name.chars().all(is_of_name);
    let is_known = || knobs::sections().contains(&first) || nearest(name, sections).is_some();
    line.starts_with('[') && line.ends_with(']') && is_plain && is_known()
}

/// A line up to the end of its value, if that is one word or one string. What follows is left out:
/// it may be anything.
fn up_to_value(line: &str) -> Option<String> {
    let (left, right) = line.split_once('=')?;
    let value = right.trim_start();
    let ends = |char: char| char.is_whitespace() || "\"'#".contains(char);
    let len = match value.chars().next()? {
        quote @ ('"' | '\'') => value.get(1..)?.find(quote)?.checked_add(2)?,
        _ => value.find(ends).unwrap_or(value.len()),
    };
    let (value, rest) = value.split_at_checked(len)?;
    let gap = right.len().checked_sub(value.len())?.checked_sub(rest.len())?;
    let shown = format!("{left}={}{value}", right.get(..gap)?);
    Some(if rest.trim().is_empty() { shown } else { format!("{shown} …") })
}

impl Mistake {
    pub(super) fn new(place: Place, text: impl Into<String>) -> Self {
        Self { place, text: text.into(), wanted: None }
    }

    /// It would be right if this file could be read.
    pub(super) fn wanting(self, path: PathBuf) -> Self {
        Self { wanted: Some(path), ..self }
    }

    pub(super) fn elsewhere(text: impl Into<String>) -> Self {
        Self::new(Place::Elsewhere, text)
    }

    /// The order in which they are told: as they stand in the file, then the others.
    pub(super) fn rank(&self) -> (bool, usize, usize) {
        match &self.place {
            Place::File(spot) => (false, spot.line, spot.column),
            _ => (true, 0, 0),
        }
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = &self.text;
        match &self.place {
            Place::Elsewhere => write!(f, "{text}"),
            Place::Variable(name) => write!(f, "{name}: {text}"),
            Place::File(spot) => {
                let Spot { path, line, column, width, shown } = spot;
                let margin = line.to_string().len().saturating_add(2);
                writeln!(f, "{}:{line}:{column}: {text}", path.display())?;
                write!(f, "  {line} | {shown}")?;
                if *column <= shown.chars().count() {
                    let left = column.saturating_sub(1);
                    let room = shown.chars().count().saturating_sub(left);
                    let marks = "^".repeat((*width).min(room));
                    write!(f, "\n{:margin$} | {:left$}{marks}", "", "")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return write!(f, "{one}");
        }
        write!(f, "there are {} mistakes in the configuration:", self.0.len())?;
        self.0.iter().try_for_each(|mistake| write!(f, "\n\n{mistake}"))
    }
}

impl std::error::Error for Mistakes {}
