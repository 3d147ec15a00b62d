//! The guide to `tidegate simulate`: every command in it is run, and says what stands there.

mod log;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::support::{Server, data_dir, tidegate};

const GUIDE: &str = include_str!("../../../../docs/guide/simulate.md");
const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/simulate");
/// Stands for lines that the guide leaves out.
const LEFT_OUT: &str = "…";

/// A command of the guide, and what it says.
struct Step {
    command: String,
    said: Vec<String>,
}

/// The commands between fences, in their order.
fn steps() -> Vec<Step> {
    let blocks = GUIDE.split("```console\n").skip(1);
    let mut steps: Vec<Step> = Vec::new();
    for line in blocks.flat_map(|block| block.split("```").next().unwrap().lines()) {
        match (line.strip_prefix("$ "), steps.last_mut()) {
            (Some(command), _) => {
                steps.push(Step { command: command.to_owned(), said: Vec::new() });
            }
            (None, Some(step)) if step.command.ends_with('\\') => {
                step.command.pop();
                step.command.push_str(line.trim_start());
            }
            (None, Some(step)) => step.said.push(line.trim_end().to_owned()),
            (None, None) => panic!("before any command: {line}"),
        }
    }
    steps
}

/// A copy of the example, which the guide may write into.
fn copy() -> PathBuf {
    let place = data_dir();
    fs::create_dir_all(&place).unwrap();
    for entry in fs::read_dir(EXAMPLE).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, place.join(path.file_name().unwrap())).unwrap();
    }
    place
}

/// Whether lines are those of the guide, which may leave some out.
fn matches(said: &[&str], guide: &[&str]) -> bool {
    match guide.split_first() {
        None => said.is_empty(),
        Some((line, rest)) if line.trim() == LEFT_OUT => {
            (0..=said.len()).any(|skipped| matches(&said[skipped..], rest))
        }
        Some((line, rest)) => {
            said.first().is_some_and(|first| first == line) && matches(&said[1..], rest)
        }
    }
}

#[test]
fn the_commands_of_the_guide_say_what_stands_there() {
    let place = copy();
    let steps = steps();
    assert!(steps.len() > 4, "{} commands", steps.len());
    for step in steps {
        let words: Vec<&str> = step.command.split_whitespace().collect();
        let Some(("tidegate", args)) = words.split_first().map(|(first, rest)| (*first, rest))
        else {
            // Where the example is: the test is there already.
            assert_eq!(words, ["cd", "examples/simulate"]);
            continue;
        };
        let (code, said) = Server::run_to_end(tidegate(args).current_dir(&place));
        let lines: Vec<&str> = said.lines().map(str::trim_end).collect();
        let guide: Vec<&str> = step.said.iter().map(String::as_str).collect();
        assert_eq!(code, Some(0), "{}\n{said}", step.command);
        assert!(
            matches(&lines, &guide),
            "`{}` says\n{}\nand the guide\n{}",
            step.command,
            lines.join("\n"),
            guide.join("\n")
        );
    }
}

#[test]
fn lines_that_are_left_out_may_be_any() {
    assert!(matches(&["a", "b", "c"], &["a", LEFT_OUT, "c"]));
    assert!(matches(&["a"], &["a", LEFT_OUT]));
    assert!(!matches(&["a", "b"], &["a"]));
    assert!(!matches(&["a", "b", "d"], &["a", LEFT_OUT, "c"]));
}

#[test]
fn the_log_of_the_example_is_the_one_that_is_made_here() {
    let packed = fs::File::open(Path::new(EXAMPLE).join("access.log.gz")).unwrap();
    let mut text = String::new();
    flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
    let made = log::text();
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join("access.log");
    fs::write(&place, &made).unwrap();
    assert!(text == made, "it should be: gzip -9nc {}", place.display());
}

#[test]
fn the_page_of_the_example_is_the_one_that_is_made_here() {
    let readme = fs::read_to_string(Path::new(EXAMPLE).join("README.md")).unwrap();
    let command = readme.lines().find_map(|line| line.strip_prefix("$ tidegate ")).unwrap();
    let place = copy();
    let page = || fs::read_to_string(place.join("report.html")).unwrap();
    let kept = page();
    let args: Vec<&str> = command.split_whitespace().collect();
    let (code, said) = Server::run_to_end(tidegate(&args).current_dir(&place));
    assert_eq!(code, Some(0), "{said}");
    assert!(page() == kept, "run it in examples/simulate: tidegate {command}");
    // Somebody reads it on a phone.
    assert!(kept.len() < 300_000, "{} bytes", kept.len());
}

#[test]
fn a_page_that_cannot_be_written_is_known_before_the_log_is_read() {
    let args = ["simulate", "no-such.log", "--limit", "5", "--window", "1m", "--by", "ip"];
    let place = data_dir();
    let page = place.join("no-such-directory/page.html");
    let (code, said) =
        Server::run_to_end(tidegate(&args).arg("--report").arg(&page).env("HOME", "."));
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("cannot write") && said.contains("page.html"), "{said}");
}

#[test]
fn a_page_stays_as_it_was_when_the_log_cannot_be_used() {
    let place = copy();
    let page = place.join("page.html");
    fs::write(&page, "the last one").unwrap();
    let args = ["simulate", "README.md", "--limit", "5", "--window", "1m", "--by", "ip"];
    let mut command = tidegate(&args);
    command.current_dir(&place).args(["--report", "page.html"]);
    let (code, said) = Server::run_to_end(&mut command);
    assert_eq!(code, Some(2), "{said}");
    assert_eq!(fs::read_to_string(&page).unwrap(), "the last one");
}
