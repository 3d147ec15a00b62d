//! What a million subjects take. Each contestant is filled in a process of its own, so that no
//! other's leftovers are counted.

use std::process::{Command, ExitCode};

use serde::{Deserialize, Serialize};

use super::contestant::{Setup, Stretch, WINDOW_MS};
use super::field;
use super::keys::Script;
use crate::{Failure, machine};

/// How many subjects.
pub(crate) const SUBJECTS: usize = 1_000_000;
/// Keys whose text exists at the same time: it must not show in the process's memory.
const CHUNK: usize = 1_000;

/// Arguments of the process that is filled.
#[derive(clap::Args)]
pub(crate) struct ProbeArgs {
    /// Whom to fill.
    #[arg(long)]
    contestant: String,
    /// With how many subjects.
    #[arg(long)]
    subjects: usize,
}

/// What filling took.
#[derive(Serialize, Deserialize)]
pub(crate) struct Filled {
    /// How many subjects were asked for.
    subjects: usize,
    /// What the table says it holds, where it says so.
    accounted: Option<(usize, usize)>,
    /// Growth of the resident memory.
    resident_bytes: u64,
}

impl Filled {
    /// Resident bytes for each subject.
    pub(crate) fn resident(&self) -> f64 {
        self.resident_bytes as f64 / self.subjects as f64
    }

    /// Accounted bytes for each subject, everything included.
    pub(crate) fn accounted(&self) -> Option<f64> {
        let (subjects, bytes) = self.accounted?;
        Some(bytes as f64 / subjects as f64)
    }
}

/// Fills a contestant and prints what that took.
pub(crate) fn probe(args: &ProbeArgs) -> Result<ExitCode, Failure> {
    let setup = Setup { keys: args.subjects, limit: 1_000_000_000, batch: false, region: false };
    // Once before the first reading, so that the text's own memory is not counted.
    drop(Script::each_once(CHUNK));
    let before = machine::resident_bytes().ok_or("/proc/self/status does not say VmRSS")?;
    let contestant =
        field::enter(&args.contestant, setup)?.ok_or("no contestant of that name is built in")?;
    // Two windows, so that both cells of every subject are in use.
    for from_ms in [0, WINDOW_MS] {
        for first in (0..args.subjects).step_by(CHUNK) {
            let script = Script::new(first..args.subjects.min(first + CHUNK));
            let questions = u64::try_from(script.len())?;
            let questions_per_ms = questions;
            let stretch = Stretch { start: 0, questions, from_ms, questions_per_ms };
            let admitted = contestant.drive(&script, stretch);
            if admitted != questions {
                return Err(format!("admitted {admitted} of {questions}").into());
            }
        }
    }
    let after = machine::resident_bytes().ok_or("/proc/self/status does not say VmRSS")?;
    let filled = Filled {
        subjects: args.subjects,
        accounted: contestant.accounted().map(|held| (held.subjects, held.bytes)),
        resident_bytes: after.saturating_sub(before),
    };
    if let Some((held, _)) = filled.accounted
        && held != args.subjects
    {
        return Err(format!("holds {held} of {} subjects", args.subjects).into());
    }
    println!("{}", serde_json::to_string(&filled)?);
    Ok(ExitCode::SUCCESS)
}

/// Has `contestant` filled in a fresh process; `None` if it is not built in or has no memory.
pub(crate) fn measure(contestant: &str, subjects: usize) -> Result<Option<Filled>, Failure> {
    let tiny = Setup { keys: 1, limit: 1, batch: false, region: false };
    if ["bare", "noop"].contains(&contestant) || field::enter(contestant, tiny)?.is_none() {
        return Ok(None);
    }
    eprintln!("memory: filling {contestant} with {subjects} keys in a fresh process");
    let output = Command::new(std::env::current_exe()?)
        .args(["memory-probe", "--contestant", contestant])
        .args(["--subjects", &subjects.to_string()])
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("memory: {contestant}: {}", said.trim()).into());
    }
    Ok(Some(serde_json::from_slice(&output.stdout)?))
}
