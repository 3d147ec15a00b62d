//! What a bench prints: a table for people, or one JSON object per line for programs.

use serde::Serialize;

/// One line of `--json`, the same in all benches of the project.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Line {
    /// Something that was measured.
    Measurement {
        /// The subcommand.
        bench: &'static str,
        /// The workload and the number of threads.
        case: String,
        /// Who was measured.
        contestant: String,
        /// How much.
        value: f64,
        /// Of what, and which statistic.
        unit: String,
    },
    /// Something we set out to reach.
    Target {
        /// The subcommand.
        bench: &'static str,
        /// The workload and the number of threads.
        case: String,
        /// What was to be reached.
        target: String,
        /// What was.
        measured: String,
        /// Whether that is enough.
        met: bool,
    },
}

impl Line {
    /// Prints the object on a line of its own.
    pub(crate) fn print(&self) -> Result<(), serde_json::Error> {
        println!("{}", serde_json::to_string(self)?);
        Ok(())
    }
}

/// A plain table: columns as wide as their widest cell, numbers to the right.
#[derive(Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self { rows: vec![headings.iter().map(ToString::to_string).collect()] }
    }

    /// Adds a row.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Whether it has headings only.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }

    /// Prints the table; the first `left` columns are text.
    pub(crate) fn print(&self, left: usize) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            self.rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let cells = row.iter().zip(&widths).enumerate().map(|(column, (cell, width))| {
                if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
            });
            println!("{}", cells.collect::<Vec<_>>().join("  ").trim_end());
        }
    }
}

/// Rounds to a tenth: what the clock and the noise allow to say.
pub(crate) fn tenth(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_shape_all_benches_share() {
        let line = Line::Measurement {
            bench: "decide",
            case: "uniform/2t".to_owned(),
            contestant: "tidegate".to_owned(),
            value: tenth(61.2345),
            unit: "ns/decision min".to_owned(),
        };
        let json = serde_json::to_string(&line).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"bench":"decide","case":"uniform/2t","contestant":"tidegate","#,
                r#""value":61.2,"unit":"ns/decision min"}"#
            )
        );
        let line = Line::Target {
            bench: "decide",
            case: "uniform/2t".to_owned(),
            target: "<= 0.5x governor-string".to_owned(),
            measured: "0.31x".to_owned(),
            met: true,
        };
        let json = serde_json::to_string(&line).unwrap();
        assert_eq!(
            json,
            concat!(
                r#"{"bench":"decide","case":"uniform/2t","target":"<= 0.5x governor-string","#,
                r#""measured":"0.31x","met":true}"#
            )
        );
    }
}
