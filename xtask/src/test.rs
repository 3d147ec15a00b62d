//! `cargo xtask test`: every step, a table of times, and one line that counts.

use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};
use crate::repo::Repo;
use crate::setup::{self, Need};
use crate::steps::{STEPS, Step};
use crate::tally::Tally;

/// How many of the slowest test binaries the table names.
const SLOWEST: usize = 5;

/// What the table says about one step.
struct Row {
    name: &'static str,
    passed: u64,
    failed: u64,
    took: Duration,
}

/// `cargo xtask test`.
pub(crate) fn command(repo: &Repo, args: &[String]) -> Result<()> {
    let Some(chosen) = choose(args)? else {
        for step in &STEPS {
            println!("{:12} {}", step.name, step.about);
        }
        return Ok(());
    };
    let needs: Vec<&Need> = chosen.iter().flat_map(|step| step.needs.iter().copied()).collect();
    setup::ensure(&needs)?;
    for step in chosen.iter().filter(|step| ["fmt", "clippy"].contains(&step.name)) {
        setup::ensure_component(repo, step.name)?;
    }
    let mut total = Tally::default();
    let mut rows = Vec::new();
    for step in chosen {
        let (tally, took) = run(repo, step);
        rows.push(Row { name: step.name, passed: tally.passed, failed: tally.failed, took });
        total.add(tally);
    }
    print!("{}", table(&rows, &total));
    // The last line of all: programs read it.
    println!("{}", total.summary());
    if total.failed == 0 { Ok(()) } else { Err(Failure::told()) }
}

/// The steps the arguments ask for, in their usual order; `None` asks for the list.
fn choose(args: &[String]) -> Result<Option<Vec<&'static Step>>> {
    let mut only: Vec<&str> = Vec::new();
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--list" => return Ok(None),
            "--only" => {
                let name = rest.next().ok_or_else(|| Failure::usage("`--only` needs a step"))?;
                if !STEPS.iter().any(|step| step.name == name) {
                    return Err(Failure::usage(format!("no step `{name}`; `--list` shows them")));
                }
                only.push(name);
            }
            other => return Err(Failure::usage(format!("`test` takes no argument `{other}`"))),
        }
    }
    let wanted = |step: &&Step| only.is_empty() || only.contains(&step.name);
    Ok(Some(STEPS.iter().filter(wanted).collect()))
}

/// Runs one step. What stops it counts as one failure; the next step runs all the same.
fn run(repo: &Repo, step: &Step) -> (Tally, Duration) {
    println!("\n== {}: {}", step.name, step.about);
    let start = Instant::now();
    let tally = (step.run)(repo).unwrap_or_else(|failure| {
        println!("{failure}");
        Tally::of_check(false)
    });
    let took = start.elapsed();
    let word = if tally.failed == 0 { "ok" } else { "FAILED" };
    println!("== {}: {word}, {}, {:.1} s", step.name, tally.summary(), took.as_secs_f64());
    (tally, took)
}

/// The table at the end.
fn table(rows: &[Row], total: &Tally) -> String {
    let mut text = format!("\n{:<12} {:>8} {:>8} {:>10}\n", "step", "passed", "failed", "time");
    let mut sum = Duration::ZERO;
    for row in rows {
        sum = sum.saturating_add(row.took);
        text.push_str(&line(row.name, row.passed, row.failed, row.took));
    }
    text.push_str(&line("all", total.passed, total.failed, sum));
    let slowest = total.slowest(SLOWEST);
    if !slowest.is_empty() {
        text.push_str("\nslowest test binaries\n");
    }
    for (name, took) in slowest {
        text.push_str(&format!("{:>8.1} s  {name}\n", took.as_secs_f64()));
    }
    let failed: Vec<&str> = rows.iter().filter(|row| row.failed > 0).map(|row| row.name).collect();
    if !failed.is_empty() {
        text.push_str(&format!("\nfailed: {}\n", failed.join(", ")));
    }
    text.push('\n');
    text
}

/// One line of the table.
fn line(name: &str, passed: u64, failed: u64, took: Duration) -> String {
    format!("{name:<12} {passed:>8} {failed:>8} {:>8.1} s\n", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(line: &str) -> Result<Option<Vec<&'static str>>> {
        let args: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Ok(choose(&args)?.map(|steps| steps.iter().map(|step| step.name).collect()))
    }

    #[test]
    fn steps_are_chosen_by_name_and_keep_their_order() {
        assert_eq!(names("").unwrap().unwrap().len(), STEPS.len());
        assert_eq!(names("--only doc --only fmt").unwrap().unwrap(), ["fmt", "doc"]);
        assert!(names("--list").unwrap().is_none());
        assert_eq!(names("--only mutants").unwrap_err().code, 2);
    }

    #[test]
    fn a_step_that_cannot_run_is_one_failure() {
        fn broken(_: &Repo) -> Result<Tally> {
            Err(Failure::check("no such program"))
        }
        let step = Step { name: "broken", about: "a test", needs: &[], run: broken };
        let (tally, _) = run(&Repo::find().unwrap(), &step);
        assert_eq!((tally.passed, tally.failed), (0, 1));
    }

    #[test]
    fn the_table_adds_up() {
        let took = Duration::from_millis(1500);
        let rows = [
            Row { name: "fmt", passed: 1, failed: 0, took },
            Row { name: "unit", passed: 40, failed: 2, took },
        ];
        let mut total = Tally::default();
        (total.passed, total.failed) = (41, 2);
        let text = table(&rows, &total);
        assert!(text.contains("all                41        2      3.0 s"), "{text}");
        assert!(text.contains("failed: unit\n"), "{text}");
    }
}
