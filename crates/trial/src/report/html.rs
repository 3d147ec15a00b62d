//! Writing HTML that no log can write into.
//!
//! Promises: markup is text of this program ([`Html::raw`] takes nothing else), and everything
//! else is escaped. Characters that would hide or turn what stands around them are shown by number.

use std::fmt::{Display, Write as _};

use super::words;
use crate::marks::hides;

/// A page that grows.
#[derive(Debug, Default)]
pub(super) struct Html(String);

/// What stands in a cell of a table.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    /// What a log says: set apart, because it may be written from right to left.
    Foreign(String),
    /// Our own words.
    Words(String),
    /// More of them than a narrow column takes well.
    Prose(String),
    /// A number: how it is shown, and by what it is sorted.
    Number(String, u64),
}

/// A table.
#[derive(Debug)]
pub(super) struct Table<'a> {
    /// What it shows.
    pub(super) caption: &'a str,
    /// Can be sorted and filtered.
    pub(super) sortable: bool,
    /// The heads of its columns; none for names and values.
    pub(super) heads: &'a [&'a str],
    /// Its rows. The first cell of each names it.
    pub(super) rows: Vec<Vec<Cell>>,
}

impl Html {
    /// Adds markup.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Adds text.
    pub(super) fn text(&mut self, text: impl Display) -> &mut Self {
        // Writing into a string does not fail.
        let _ = write!(Escaped(&mut self.0), "{text}");
        self
    }

    /// Adds an attribute to the tag that was just opened by name.
    pub(super) fn attribute(&mut self, name: &'static str, value: impl Display) -> &mut Self {
        self.raw(" ").raw(name).raw("=\"").text(value).raw("\"")
    }

    /// Adds an element that holds text.
    pub(super) fn element(&mut self, name: &'static str, text: impl Display) -> &mut Self {
        self.raw("<").raw(name).raw(">").text(text).raw("</").raw(name).raw(">\n")
    }

    /// Adds text that must not be escaped: a script, which was made safe in another way.
    pub(super) fn script(&mut self, text: &str) -> &mut Self {
        self.0.push_str(text);
        self
    }

    /// Adds a table. It scrolls within itself where there is no room for it.
    pub(super) fn table(&mut self, table: Table<'_>) -> &mut Self {
        self.raw("<div class=\"scroll\" tabindex=\"0\" role=\"region\"");
        self.attribute("aria-label", table.caption);
        self.raw(match (table.sortable, table.heads) {
            (true, _) => "><table class=\"sortable\">\n",
            (false, []) => "><table class=\"facts\">\n",
            (false, _) => "><table>\n",
        });
        self.element("caption", table.caption);
        if !table.heads.is_empty() {
            self.heads(&table);
        }
        self.raw("<tbody>\n");
        for row in &table.rows {
            self.row(row);
        }
        self.raw("</tbody></table></div>\n")
    }

    fn heads(&mut self, table: &Table<'_>) {
        let first = table.rows.first().map(Vec::as_slice).unwrap_or_default();
        self.raw("<thead><tr>");
        for (column, head) in table.heads.iter().enumerate() {
            self.raw("<th scope=\"col\"");
            if first.get(column).is_some_and(Cell::is_number) {
                self.raw(" class=\"n\"");
            }
            self.raw(">").text(head).raw("</th>");
        }
        self.raw("</tr></thead>\n");
    }

    fn row(&mut self, row: &[Cell]) {
        self.raw("<tr>");
        for (column, cell) in row.iter().enumerate() {
            let tag = if column == 0 { "th" } else { "td" };
            self.raw("<").raw(tag);
            if column == 0 {
                self.raw(" scope=\"row\"");
            }
            match cell {
                Cell::Foreign(text) => self.raw(" class=\"who\">").foreign(text),
                Cell::Words(text) => self.raw(">").text(text),
                Cell::Prose(text) => self.raw(" class=\"prose\">").text(text),
                Cell::Number(shown, value) => {
                    self.raw(" class=\"n\"").attribute("data-value", value).raw(">").text(shown)
                }
            };
            self.raw("</").raw(tag).raw(">");
        }
        self.raw("</tr>\n");
    }

    /// Adds what a log says.
    pub(super) fn foreign(&mut self, text: &str) -> &mut Self {
        if text.is_empty() {
            return self.raw("<i>(empty)</i>");
        }
        self.raw("<bdi>").text(text).raw("</bdi>")
    }

    /// Adds a moment, which stays on one line.
    pub(super) fn moment(&mut self, unix_ms: u64) -> &mut Self {
        self.raw("<time>").text(words::moment(unix_ms)).raw("</time>")
    }

    /// The page.
    pub(super) fn into_string(self) -> String {
        self.0
    }
}

impl Cell {
    fn is_number(&self) -> bool {
        matches!(self, Self::Number(..))
    }
}

/// Where text goes and is escaped on its way.
struct Escaped<'a>(&'a mut String);

impl std::fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for character in text.chars() {
            match character {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                '\'' => self.0.push_str("&#39;"),
                hidden if hides(hidden) => write!(self.0, "\\u{{{:x}}}", u32::from(hidden))?,
                other => self.0.push(other),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        let mut html = Html::default();
        html.text("<b a=\"1\" c='2'>&").attribute("title", "\"><script>");
        assert_eq!(
            html.into_string(),
            "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp; title=\"&quot;&gt;&lt;script&gt;\""
        );
    }

    #[test]
    fn what_hides_is_shown_by_number() {
        let mut html = Html::default();
        html.foreign("a\u{202e}b\u{0}\u{200b}\u{2028}").foreign("");
        assert_eq!(
            html.into_string(),
            "<bdi>a\\u{202e}b\\u{0}\\u{200b}\\u{2028}</bdi><i>(empty)</i>"
        );
    }
}
