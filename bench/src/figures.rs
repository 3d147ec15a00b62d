//! What was measured so far, and how it is printed.

use crate::Failure;
use crate::machine::{self, Usage};
use crate::report::{Line, Table};

/// The unit of the first of the four figures of a spread.
const CELLS: &str = "cells";

/// Figures and targets, in the order in which they came.
pub(crate) struct Figures {
    /// The name of the bench.
    bench: &'static str,
    lines: Vec<Line>,
    /// Whether a table has a row for each contestant, with all its figures, instead of one for each
    /// figure.
    wide: bool,
}

impl Figures {
    /// None yet, of this bench.
    pub(crate) const fn new(bench: &'static str) -> Self {
        Self { bench, lines: Vec::new(), wide: false }
    }

    /// The same, of which a table has a row for each contestant.
    pub(crate) const fn wide(bench: &'static str) -> Self {
        Self { bench, lines: Vec::new(), wide: true }
    }

    /// Adds something that was measured.
    pub(crate) fn add(&mut self, case: &str, contestant: &str, value: f64, unit: &str) {
        self.lines.push(Line::Measurement {
            bench: self.bench,
            case: case.to_owned(),
            contestant: contestant.to_owned(),
            value: three_digits(value),
            unit: unit.to_owned(),
        });
    }

    /// Adds something we set out to reach.
    pub(crate) fn target(&mut self, case: &str, target: String, measured: String, met: bool) {
        self.lines.push(Line::Target {
            bench: self.bench,
            case: case.to_owned(),
            target,
            measured,
            met,
        });
    }

    /// All targets, and whether they were met.
    #[cfg(test)]
    pub(crate) fn targets(&self) -> Vec<(String, String, bool)> {
        let of = |line: &Line| match line {
            Line::Target { target, measured, met, .. } => {
                Some((target.clone(), measured.clone(), *met))
            }
            Line::Measurement { .. } => None,
        };
        self.lines.iter().filter_map(of).collect()
    }

    /// Adds what cells came to: how many there are, the median, the 99th percentile, the worst.
    pub(crate) fn spread(&mut self, case: &str, contestant: &str, sorted: &[f64]) {
        self.add(case, contestant, sorted.len() as f64, CELLS);
        self.add(case, contestant, quantile(sorted, 0.5), "admitted/limit p50");
        self.add(case, contestant, quantile(sorted, 0.99), "admitted/limit p99");
        self.add(case, contestant, quantile(sorted, 1.0), "admitted/limit max");
    }

    /// Prints all of it: as JSON, or as tables with what is to be known of the run.
    pub(crate) fn print(
        &self,
        json: bool,
        smoke: bool,
        usage: Option<Usage>,
    ) -> Result<(), Failure> {
        let others = usage.and_then(Usage::others_since);
        if json {
            return Ok(self.print_lines()?);
        }
        self.print_tables();
        println!("\n{}", machine::describe());
        if let Some(others) = others {
            println!("others used {others:.0} % of it during the run");
        }
        if smoke {
            println!("smoke: the figures above mean nothing");
        }
        Ok(())
    }

    /// Prints one JSON object per line.
    fn print_lines(&self) -> Result<(), serde_json::Error> {
        self.lines.iter().try_for_each(Line::print)
    }

    /// Prints a table of the figures, one of the spreads over cells, and one of the targets.
    fn print_tables(&self) {
        let mut figures = Table::new(&["case", "contestant", "unit", "value"]);
        let mut spreads = Table::new(&["case", "contestant", CELLS, "p50", "p99", "max"]);
        let mut targets = Table::new(&["case", "target", "measured", ""]);
        let mut spread = Vec::new();
        for line in &self.lines {
            match line {
                // A spread is one row: where it begins, and until it is whole.
                Line::Measurement { case, contestant, value, unit, .. }
                    if unit == CELLS || !spread.is_empty() =>
                {
                    if spread.is_empty() {
                        spread.extend([case.clone(), contestant.clone()]);
                    }
                    spread.push(value.to_string());
                    if spread.len() == 6 {
                        spreads.row(std::mem::take(&mut spread));
                    }
                }
                Line::Measurement { case, contestant, value, unit, .. } => figures.row(vec![
                    case.clone(),
                    contestant.clone(),
                    unit.clone(),
                    value.to_string(),
                ]),
                Line::Target { case, target, measured, met, .. } => {
                    let met = if *met { "met" } else { "NOT MET" };
                    targets.row(vec![case.clone(), target.clone(), measured.clone(), met.into()]);
                }
            }
        }
        if self.wide {
            self.wide_table().print(2);
        } else {
            figures.print(3);
        }
        if !spreads.is_empty() {
            println!("\nadmitted/limit");
            spreads.print(2);
        }
        if !targets.is_empty() {
            println!();
            targets.print(2);
        }
    }

    /// One row for each contestant of each case, one column for each unit; `-` for what was not
    /// measured of it.
    fn wide_table(&self) -> Table {
        let mut units: Vec<&str> = Vec::new();
        let mut rows: Vec<(&str, &str, Vec<String>)> = Vec::new();
        for line in &self.lines {
            let Line::Measurement { case, contestant, value, unit, .. } = line else { continue };
            let column = units.iter().position(|known| known == unit).unwrap_or(units.len());
            if column == units.len() {
                units.push(unit);
            }
            let is_it = |row: &(&str, &str, _)| row.0 == case && row.1 == contestant;
            let at = rows.iter().position(is_it).unwrap_or(rows.len());
            if at == rows.len() {
                rows.push((case, contestant, Vec::new()));
            }
            if let Some((_, _, cells)) = rows.get_mut(at) {
                cells.resize(cells.len().max(column + 1), "-".to_owned());
                cells.get_mut(column).into_iter().for_each(|cell| *cell = value.to_string());
            }
        }
        let headings: Vec<&str> = ["case", "contestant"].into_iter().chain(units).collect();
        let mut table = Table::new(&headings);
        for (case, contestant, mut cells) in rows {
            cells.resize(headings.len() - 2, "-".to_owned());
            let names = [case.to_owned(), contestant.to_owned()];
            table.row(names.into_iter().chain(cells).collect());
        }
        table
    }
}

/// Rounds to three digits that mean something: figures here go from thousandths to millions.
pub(crate) fn three_digits(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() || value.abs() >= 1_000.0 {
        return value.round();
    }
    // Printed and read again, because a power of ten below 1 is not exact.
    format!("{value:.2e}").parse().unwrap_or(value)
}

/// `a / b`, or 0 if there is nothing to divide by.
pub(crate) fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// The value below which this part of the samples lies, which are sorted.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let wanted = sorted.len() as f64 * part;
    let rank = (0..sorted.len()).find(|rank| (rank + 1) as f64 >= wanted);
    rank.and_then(|rank| sorted.get(rank)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_keep_three_digits() {
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(three_digits(0.001_234_5), 0.001_23));
        assert!(near(three_digits(12.345), 12.3));
        assert!(near(three_digits(123_456.7), 123_457.0));
        assert!(near(three_digits(0.0), 0.0));
    }

    #[test]
    fn a_quantile_is_a_sample() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        let near = |a: f64, b: f64| (a - b).abs() < 1e-12;
        assert!(near(quantile(&sorted, 0.5), 50.0));
        assert!(near(quantile(&sorted, 0.99), 99.0));
        assert!(near(quantile(&sorted, 1.0), 100.0));
        assert!(near(quantile(&[], 0.5), 0.0));
    }
}
