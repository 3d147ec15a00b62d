//! Instructions per decision, counted by callgrind: a figure that does not depend on who else
//! uses the machine, kept as a baseline so that a later change shows.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use super::contestant::{Drive, Stretch};
use super::keys::Script;
use super::{field, workload};
use crate::Failure;
use crate::report::{Line, Table, tenth};

/// The workloads that are counted.
const COUNTED: [&str; 6] = ["hot", "uniform", "denied", "batch5", "region", "region-batch5"];
/// How far a figure may rise above the baseline before it is a regression.
const TOLERATED: f64 = 1.02;
/// And how far below it may fall before the baseline is worth being made anew.
const IMPROVED: f64 = 0.98;
/// Questions that are counted; more do not change the figure.
const QUESTIONS: u64 = 50_000;

/// Arguments of the process that is counted.
#[derive(clap::Args)]
pub(crate) struct RunArgs {
    /// The workload.
    #[arg(long)]
    workload: String,
    /// How many questions are counted.
    #[arg(long)]
    questions: u64,
}

/// What callgrind counts: collection is switched on and off by this function's name.
#[inline(never)]
fn callgrind_region(drive: &dyn Drive, script: &Script, stretch: Stretch) -> u64 {
    drive.drive(script, stretch)
}

/// Fills the table, warms up, and asks the questions that are counted.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode, Failure> {
    let workload = workload::all()
        .into_iter()
        .find(|one| one.name == args.workload)
        .ok_or("no such workload")?;
    let ours = field::enter("tidegate", workload.setup)?.ok_or("tidegate is not built in")?;
    let keys = u64::try_from(workload.setup.keys)?;
    let fill = Stretch { start: 0, questions: keys, from_ms: 0, questions_per_ms: keys };
    ours.drive(&Script::each_once(workload.setup.keys), fill);
    let script = workload.script();
    let questions_per_ms = 1_024;
    let warm = Stretch { start: 0, questions: 1_000, from_ms: 1, questions_per_ms };
    ours.drive(&script, warm);
    let from_ms = warm.until_ms();
    let counted = Stretch { questions: args.questions, from_ms, ..warm };
    let admitted = callgrind_region(&*ours, &script, counted);
    println!("{admitted} of {} admitted", args.questions);
    Ok(ExitCode::SUCCESS)
}

/// How the counting is done and told.
pub(crate) struct Options {
    /// JSON lines instead of a table.
    pub(crate) json: bool,
    /// Few questions.
    pub(crate) smoke: bool,
    /// Whether what was counted becomes the baseline.
    pub(crate) update: bool,
}

/// Where the figures of the last accepted run are, and what is said of them.
pub(crate) struct Baseline {
    /// The subcommand.
    pub(crate) bench: &'static str,
    /// The name of the file.
    pub(crate) file: &'static str,
    /// What a case counts.
    pub(crate) unit: fn(&str) -> &'static str,
}

/// Whether there is something to count with. Says so if not.
pub(crate) fn can_count() -> bool {
    let valgrind = Command::new("valgrind").arg("--version").stdout(Stdio::null()).status();
    let is_there = valgrind.is_ok_and(|status| status.success());
    if !is_there {
        eprintln!("error: valgrind is not installed; on Debian: apt-get install valgrind");
    }
    is_there
}

/// Counts all workloads and compares them with the baseline.
pub(crate) fn main(options: &Options) -> Result<ExitCode, Failure> {
    if !can_count() {
        return Ok(ExitCode::from(2));
    }
    let questions = if options.smoke { 1_000 } else { QUESTIONS };
    let mut counts = BTreeMap::new();
    for workload in COUNTED {
        eprintln!("callgrind: {workload}");
        counts.insert(workload.to_owned(), tenth(count(workload, questions)?));
    }
    Baseline { bench: "decide", file: "callgrind-baseline.json", unit }.compare(&counts, options)
}

/// Instructions per question.
fn count(workload: &str, questions: u64) -> Result<f64, Failure> {
    let out = std::env::temp_dir().join(format!("tidegate-callgrind.{}", std::process::id()));
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*callgrind_region*"])
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(std::env::current_exe()?)
        .args(["callgrind-run", "--workload", workload])
        .args(["--questions", &questions.to_string()])
        .output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let instructions = read_total(&out)?;
    fs::remove_file(&out)?;
    if instructions == 0 {
        return Err("callgrind did not find the function to count".into());
    }
    Ok(instructions as f64 / questions as f64)
}

/// What callgrind counted in all.
pub(crate) fn read_total(out: &Path) -> Result<u64, Failure> {
    let text = fs::read_to_string(out)?;
    let total = text
        .lines()
        .find_map(|line| line.strip_prefix("totals:").or_else(|| line.strip_prefix("summary:")))
        .and_then(|rest| rest.split_whitespace().next())
        .ok_or("callgrind's output has no total")?;
    Ok(total.parse()?)
}

fn unit(workload: &str) -> &'static str {
    if workload.ends_with("batch5") { "instructions/batch" } else { "instructions/decision" }
}

impl Baseline {
    /// Prints what was counted beside what was, and makes it what was if that is wanted; if it is
    /// not, and more was counted than is tolerated, the program fails. Few questions say nothing.
    pub(crate) fn compare(
        &self,
        counts: &BTreeMap<String, f64>,
        options: &Options,
    ) -> Result<ExitCode, Failure> {
        let was = self.read()?;
        if options.json {
            self.print_lines(counts, &was)?;
        } else {
            self.print_table(counts, &was);
        }
        for (name, was) in &was {
            let value = counts.get(name).filter(|value| **value < was * IMPROVED);
            if let Some(value) = value.filter(|_| !options.smoke && !options.update) {
                let below = 100.0 * (1.0 - value / was);
                eprintln!("callgrind: {name} is {below:.1} % below the baseline");
            }
        }
        if options.update {
            fs::write(self.path(), serde_json::to_string_pretty(counts)? + "\n")?;
            eprintln!("callgrind: the baseline is now what was counted");
        } else if !options.smoke && has_regressed(counts, &was) {
            return Ok(ExitCode::FAILURE);
        }
        Ok(ExitCode::SUCCESS)
    }

    fn path(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(self.file)
    }

    fn read(&self) -> Result<BTreeMap<String, f64>, Failure> {
        match fs::read_to_string(self.path()) {
            Ok(text) => Ok(serde_json::from_str(&text)?),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
            Err(error) => Err(error.into()),
        }
    }

    fn print_lines(
        &self,
        counts: &BTreeMap<String, f64>,
        baseline: &BTreeMap<String, f64>,
    ) -> Result<(), Failure> {
        for (name, &value) in counts {
            let case = format!("callgrind/{name}");
            let (bench, unit) = (self.bench, (self.unit)(name).to_owned());
            let contestant = "tidegate".to_owned();
            Line::Measurement { bench, case: case.clone(), contestant, value, unit }.print()?;
            if let Some(&was) = baseline.get(name) {
                let measured = format!("{:.3}x", value / was);
                let target = format!("<= {TOLERATED}x the baseline");
                Line::Target { bench, case, target, measured, met: !is_above(value, was) }
                    .print()?;
            }
        }
        Ok(())
    }

    fn print_table(&self, counts: &BTreeMap<String, f64>, baseline: &BTreeMap<String, f64>) {
        let mut table = Table::new(&["case", "unit", "counted", "baseline", "moved", ""]);
        for (name, &value) in counts {
            let was = baseline.get(name).copied();
            let moved = was.map(|was| 100.0 * (value / was - 1.0));
            let regressed = was.is_some_and(|was| is_above(value, was));
            table.row(vec![
                name.clone(),
                (self.unit)(name).to_owned(),
                format!("{value:.1}"),
                was.map_or_else(|| "none".to_owned(), |was| format!("{was:.1}")),
                moved.map_or_else(String::new, |moved| format!("{moved:+.1} %")),
                if regressed { "REGRESSED".to_owned() } else { String::new() },
            ]);
        }
        table.print(2);
    }
}

/// Whether this is a regression.
fn is_above(value: f64, was: f64) -> bool {
    value > was * TOLERATED
}

/// Whether any case is one.
fn has_regressed(counts: &BTreeMap<String, f64>, baseline: &BTreeMap<String, f64>) -> bool {
    counts.iter().any(|(name, value)| baseline.get(name).is_some_and(|was| is_above(*value, *was)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rises_above_the_baseline_is_a_regression() {
        let of =
            |limit: f64| BTreeMap::from([("limit".to_owned(), limit), ("new".to_owned(), 9.0)]);
        let baseline = BTreeMap::from([("limit".to_owned(), 1_000.0)]);
        assert!(has_regressed(&of(1_021.0), &baseline));
        assert!(!has_regressed(&of(1_019.0), &baseline));
        assert!(!has_regressed(&of(900.0), &baseline));
        assert!(!has_regressed(&of(900.0), &BTreeMap::new()));
    }
}
