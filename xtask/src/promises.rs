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
/// Cells of each figure. The simulator needs half a minute for them.
const CELLS: &str = "200";
/// How far a figure of a fresh run may be from the one that is written: a part of it, and a bit for
/// those near zero. The simulator always prints the same, so that this is for changes of the code
/// that reorder chance but change nothing else.
const TOLERANCE_PART: f64 = 0.10;
const TOLERANCE: f64 = 0.05;

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
        let (name, fresh, written) = match piece {
            Piece::Block(name, text) => (name, text, parts(document, name)?.1.to_owned()),
            Piece::Plot(name, svg) => (name, svg, read(&plot(repo, name))?),
        };
        if let Some((line, fresh)) = difference(&written, fresh) {
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

/// The first line that differs by more than figures may.
fn difference(written: &str, fresh: &str) -> Option<(String, String)> {
    let mut lines = written.lines();
    for fresh in fresh.lines() {
        let line = lines.next().unwrap_or_default();
        if !is_near(line, fresh) {
            return Some((line.to_owned(), fresh.to_owned()));
        }
    }
    lines.next().map(|line| (line.to_owned(), String::new()))
}

fn is_near(written: &str, fresh: &str) -> bool {
    let split = |line: &str| -> Vec<String> {
        let cut = |char: char| char.is_whitespace() || "|ML\">".contains(char);
        line.split(cut).filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let (written, fresh) = (split(written), split(fresh));
    let near = |(a, b): (&String, &String)| match (a.parse::<f64>(), b.parse::<f64>()) {
        (Ok(a), Ok(b)) => (a - b).abs() <= TOLERANCE + TOLERANCE_PART * a.abs(),
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

    #[test]
    fn figures_may_differ_a_little_and_words_not_at_all() {
        assert_eq!(difference("| 1.00 | a |", "| 1.04 | a |"), None);
        assert!(difference("| 1.00 | a |", "| 1.30 | a |").is_some());
        assert!(difference("| 1.00 | a |", "| 1.00 | b |").is_some());
        assert!(difference("| 1 |\n| 2 |", "| 1 |").is_some(), "a line too many");
        assert!(difference("| 1 |", "| 1 |\n| 2 |").is_some(), "a line too few");
    }
}
