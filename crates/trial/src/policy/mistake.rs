//! What is wrong with a policy, and where.

use std::fmt;
use std::ops::Range;

use crate::marks::visible;

/// All that is wrong with a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError(pub(super) Vec<Mistake>);

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mistake {
    text: String,
    /// Where, if it is in a file.
    place: Option<Place>,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    path: String,
    /// Both count from 1, columns in characters.
    line: usize,
    column: usize,
    shown: String,
}

impl PolicyError {
    pub(super) fn plain(text: String) -> Self {
        Self(vec![Mistake { text, place: None }])
    }
}

impl Mistake {
    /// At some bytes of a text.
    pub(crate) fn new(path: &str, text: &str, bytes: &Range<usize>, said: String) -> Self {
        let start = (0..=bytes.start).rev().find_map(|at| text.split_at_checked(at));
        let (before, after) = start.unwrap_or(("", text));
        let begin = before.rsplit('\n').next().unwrap_or_default();
        let rest = after.lines().next().unwrap_or_default();
        let place = Place {
            path: path.to_owned(),
            line: before.matches('\n').count().saturating_add(1),
            column: begin.chars().count().saturating_add(1),
            shown: format!("{begin}{rest}"),
        };
        Self { text: said, place: Some(place) }
    }

    /// As they stand in the file.
    pub(crate) fn rank(&self) -> (usize, usize) {
        self.place.as_ref().map_or((0, 0), |place| (place.line, place.column))
    }
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, place } = self;
        // Names in it are those of the file.
        let text = visible(text);
        let Some(Place { path, line, column, shown }) = place else {
            return write!(f, "{text}");
        };
        let (margin, left) = (line.to_string().len(), column.saturating_sub(1));
        writeln!(f, "{}:{line}:{column}: {text}", visible(path))?;
        writeln!(f, "  {line} | {}", crate::trace::shown(shown))?;
        write!(f, "  {:margin$} | {:left$}^", "", "")
    }
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return write!(f, "{one}");
        }
        write!(f, "there are {} mistakes in the policy:", self.0.len())?;
        self.0.iter().try_for_each(|mistake| write!(f, "\n\n{mistake}"))
    }
}

impl std::error::Error for PolicyError {}

/// The one of `known` that may have been meant.
pub(crate) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    let ranked = known.iter().map(|it| (strsim::osa_distance(&word, it), *it));
    let (distance, nearest) = ranked.min()?;
    // A third of the letters may be wrong, and of a short word two; but not all.
    let letters = nearest.chars().count();
    (distance <= (letters / 3).max(2) && distance < letters).then_some(nearest)
}
