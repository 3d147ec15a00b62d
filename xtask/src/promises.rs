//! `cargo xtask promises`: measures what PROMISES.md says, and writes it there or compares it.
//!
//! Promises: what stands between the markers of the document, and its plots, is what the simulator
//! prints; `--check` fails if a fresh run disagrees.
//! Refuses: a document without a place for something that was measured.

use std::fs;
use std::path::PathBuf;
use std::process::Stdio;

use crate::failure::{Failure, Result};
use crate::repo::Repo;

/// The document, and where its plots are.
const DOCUMENT: &str = "PROMISES.md";
const PLOTS: &str = "docs/plots";
/// Cells of each figure. The simulator needs a minute for them.
const CELLS: &str = "200";
/// How far a figure of a fresh run may be from the one that is written. The simulator always prints
/// the same, so that this is for changes of the code that reorder chance but change nothing else.
const TOLERANCE: Tolerance = Tolerance { flat: 0.05, part: 0.10 };
/// The same for what is beyond the limit, where a figure is a share of one: 1.04 is an overshoot of
/// 0.04, and thrice as much has to be noticed. Not less than a unit of a limit of 100.
const OVERSHOOT: Tolerance = Tolerance { flat: 0.015, part: 0.25 };
/// A line of a plot may be so much higher or lower, in units of the picture, which is 360 high.
const HEIGHT: Tolerance = Tolerance { flat: 6.0, part: 0.0 };
/// What columns of shares are called. A cell with a unit is none.
const SHARES: [&str; 3] = ["p50", "p99", "worst"];

/// What may be between two figures: something, and a part of them.
#[derive(Clone, Copy, Debug)]
struct Tolerance {
    flat: f64,
    part: f64,
}

impl Tolerance {
    fn allows(self, a: f64, b: f64) -> bool {
        (a - b).abs() <= self.flat + self.part * a.abs().min(b.abs())
    }
}

/// Something that was printed.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Block(String, String),
    Plot(String, String),
}

/// `cargo xtask promises [--check]`.
pub(crate) fn command(repo: &Repo, args: &[String]) -> Result<()> {
    let check = match args {
        [] => false,
        [flag] if flag == "--check" => true,
        _ => return Err(Failure::usage("`promises` takes nothing but `--check`")),
    };
    let pieces = measure(repo)?;
    let path = repo.path(DOCUMENT);
    let written = read(&path)?;
    if check { compare(repo, &written, &pieces) } else { write(repo, &written, &pieces) }
}

fn measure(repo: &Repo) -> Result<Vec<Piece>> {
    let mut command = repo.cargo();
    command.args(["run", "--quiet", "--release", "-p", "tidegate-sim", "--features", "planted"]);
    command.args(["--", "--promises", CELLS]).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| Failure::machine(format!("cargo: {error}")))?;
    if !output.status.success() {
        return Err(Failure::check("a promise does not hold: the simulator says which"));
    }
    let printed = String::from_utf8_lossy(&output.stdout);
    Ok(pieces(&printed))
}

fn pieces(printed: &str) -> Vec<Piece> {
    let piece = |part: &str| {
        let (head, text) = part.split_once('\n')?;
        match head.split_once(' ')? {
            ("block", name) => Some(Piece::Block(name.to_owned(), text.to_owned())),
            ("plot", name) => Some(Piece::Plot(name.to_owned(), text.to_owned())),
            _ => None,
        }
    };
    printed.split("=== ").filter_map(piece).collect()
}

fn write(repo: &Repo, document: &str, pieces: &[Piece]) -> Result<()> {
    let mut document = document.to_owned();
    for piece in pieces {
        match piece {
            Piece::Block(name, text) => {
                let (before, _, after) = parts(&document, name)?;
                document = format!("{before}{text}{after}");
            }
            Piece::Plot(name, svg) => save(&plot(repo, name), svg)?,
        }
    }
    save(&repo.path(DOCUMENT), &document)?;
    println!("{DOCUMENT} and {PLOTS} are up to date");
    Ok(())
}

fn compare(repo: &Repo, document: &str, pieces: &[Piece]) -> Result<()> {
    let mut differ = Vec::new();
    for piece in pieces {
        let (name, found) = match piece {
            Piece::Block(name, text) => {
                (name, difference(parts(document, name)?.1, text, is_near_in_table))
            }
            Piece::Plot(name, svg) => {
                let near = |_: &str, line: &str, fresh: &str| are_near(line, fresh, HEIGHT);
                (name, difference(&read(&plot(repo, name))?, svg, near))
            }
        };
        if let Some((line, fresh)) = found {
            differ.push(format!("{name}: {DOCUMENT} says\n  {line}\nand a fresh run\n  {fresh}"));
        }
    }
    if differ.is_empty() {
        println!("{DOCUMENT} says what a fresh run says");
        return Ok(());
    }
    let differ = differ.join("\n");
    Err(Failure::check(format!("{differ}\n`cargo xtask promises` writes it anew")))
}

/// What stands before, between and after the markers of a block.
fn parts<'a>(document: &'a str, name: &str) -> Result<(&'a str, &'a str, &'a str)> {
    let (begin, end) = (format!("<!-- measured: {name} -->\n"), "<!-- end -->");
    let missing = || Failure::check(format!("{DOCUMENT} has no place for `{name}`: {begin}"));
    let from = document.find(&begin).ok_or_else(missing)? + begin.len();
    let (before, rest) = document.split_at(from);
    let (block, after) = rest.split_at(rest.find(end).ok_or_else(missing)?);
    Ok((before, block, after))
}

/// The first line that differs by more than figures may. What is near is told by the first line of
/// the paragraph that it is in, which names the columns of a table.
fn difference(
    written: &str,
    fresh: &str,
    is_near: impl Fn(&str, &str, &str) -> bool,
) -> Option<(String, String)> {
    let (mut lines, mut head) = (written.lines(), "");
    for fresh in fresh.lines() {
        let line = lines.next().unwrap_or_default();
        head = if head.is_empty() || fresh.is_empty() { fresh } else { head };
        if !is_near(head, line, fresh) {
            return Some((line.to_owned(), fresh.to_owned()));
        }
    }
    lines.next().map(|line| (line.to_owned(), String::new()))
}

/// Compares a line of a block, cell by cell if it is a row of a table.
fn is_near_in_table(head: &str, written: &str, fresh: &str) -> bool {
    if !fresh.starts_with('|') {
        return are_near(written, fresh, TOLERANCE);
    }
    let cells = |line: &str| -> Vec<String> {
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let (heads, written, fresh) = (cells(head), cells(written), cells(fresh));
    let near = |((head, a), b): ((&String, &String), &String)| {
        let is_share = SHARES.iter().any(|share| head.ends_with(share));
        match (a.parse::<f64>(), b.parse::<f64>()) {
            (Ok(a), Ok(b)) if is_share => OVERSHOOT.allows(a - 1.0, b - 1.0),
            _ => are_near(a, b, TOLERANCE),
        }
    };
    let same = heads.len() == fresh.len() && written.len() == fresh.len();
    same && heads.iter().zip(&written).zip(&fresh).all(near)
}

/// Compares word by word: figures may differ a little.
fn are_near(written: &str, fresh: &str, tolerance: Tolerance) -> bool {
    let split = |line: &str| -> Vec<String> {
        let cut = |char: char| char.is_whitespace() || "ML\">".contains(char);
        line.split(cut).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let (written, fresh) = (split(written), split(fresh));
    let near = |(a, b): (&String, &String)| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => tolerance.allows(a, b),
        _ => a == b,
    };
    written.len() == fresh.len() && written.iter().zip(&fresh).all(near)
}

fn plot(repo: &Repo, name: &str) -> PathBuf {
    repo.path(PLOTS).join(format!("{name}.svg"))
}

fn read(path: &PathBuf) -> Result<String> {
    fs::read_to_string(path)
        .map_err(|error| Failure::machine(format!("{}: {error}", path.display())))
}

fn save(path: &PathBuf, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| Failure::machine(format!("{}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_taken_apart() {
        let printed = "=== block region\n| 1 |\n=== plot lag\n<svg>\n";
        let region = Piece::Block("region".to_owned(), "| 1 |\n".to_owned());
        assert_eq!(pieces(printed), [region, Piece::Plot("lag".to_owned(), "<svg>\n".to_owned())]);
    }

    #[test]
    fn a_block_is_found_between_its_markers() {
        let document = "a\n<!-- measured: x -->\n| 1 |\n<!-- end -->\nb\n";
        let (before, block, after) = parts(document, "x").unwrap();
        assert_eq!((block, after), ("| 1 |\n", "<!-- end -->\nb\n"));
        assert!(before.ends_with("-->\n"));
        assert!(parts(document, "y").is_err(), "no place for it");
    }

    fn table(row: &str) -> String {
        format!("| who | p50 | fast worst | rows |\n|---|---|---|---|\n{row}\n")
    }

    fn differ(written: &str, fresh: &str) -> bool {
        difference(&table(written), &table(fresh), is_near_in_table).is_some()
    }

    #[test]
    fn figures_may_differ_a_little_and_words_not_at_all() {
        assert!(!differ("| a | 1.00 | 1.00 | 20.0 |", "| a | 1.01 | 1.00 | 21.9 |"));
        assert!(differ("| a | 1.00 | 1.00 | 20.0 |", "| a | 1.00 | 1.00 | 22.2 |"));
        assert!(differ("| a | 1.00 | 1.00 | 20.0 |", "| b | 1.00 | 1.00 | 20.0 |"));
        assert!(differ("| a | 1.00 | 1.00 |", "| a | 1.00 | 1.00 | 20.0 |"), "a cell too few");
        let lines = |a, b| difference(a, b, is_near_in_table);
        assert!(lines("| 1 |\n| 2 |", "| 1 |").is_some(), "a line too many");
        assert!(lines("| 1 |", "| 1 |\n| 2 |").is_some(), "a line too few");
        assert_eq!(lines("400 seeds: 100 admitted", "400 seeds: 109 admitted"), None);
        assert!(lines("400 seeds: 100 admitted", "400 seeds: 130 admitted").is_some());
    }

    /// A cell of 1.04 limits and one of 1.11 are near each other, and an overshoot of 0.04 and one
    /// of 0.11 are not.
    #[test]
    fn a_tripled_overshoot_is_a_difference() {
        for (once, thrice) in [("1.01", "1.03"), ("1.04", "1.12"), ("1.13", "1.39"), ("2.0", "4.0")]
        {
            let row = |share: &str| format!("| a | 1.00 | {share} | 20.0 |");
            assert!(differ(&row(once), &row(thrice)), "{once} and {thrice}");
            assert!(differ(&row(thrice), &row(once)), "{thrice} and {once}");
            assert!(!differ(&row(once), &row(once)), "{once}");
        }
        // A wait is no share of a limit: it has a unit.
        assert!(!differ("| a | 1.00 | 30.00 ms | 2 |", "| a | 1.00 | 32.90 ms | 2 |"));
        assert!(differ("| a | 1.00 | 30.00 ms | 2 |", "| a | 1.00 | 33.90 ms | 2 |"));
    }

    #[test]
    fn a_line_of_a_plot_may_not_move_far() {
        let path = |y: &str| format!("<path class=\"line c0\" d=\"M64.0 250.0L200.0 {y}\"/>");
        assert!(are_near(&path("250.0"), &path("245.0"), HEIGHT));
        assert!(!are_near(&path("250.0"), &path("243.0"), HEIGHT));
    }
}
