//! `tidegate simulate`: limits tried on the traffic of a log.
//!
//! Promises: the decisions are those of a server, by the same code; nothing is connected to, and
//! nothing is written but what is printed, the page of `--report` and the log of `--write-log`.
//! Refuses: a policy with a mistake, a log of which nothing can be read, to write over what it
//! reads. Fails with 2, and says what was expected. What was found is printed before the page is
//! written: whatever becomes of the page, it is not lost.

mod made;
mod page;
mod progress;
mod show;

use std::cell::Cell;
use std::fs::File;
use std::io::{self, IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;
use std::rc::Rc;

use tidegate_trial::{
    By, Fields, Findings, Input, Logs, Plan, Policy, ReadOptions, Source, SuggestOptions, Trial,
};

use crate::cli::output::tell;
use crate::cli::{PolicyArgs, SimulateArgs};
use progress::Progress;
use show::Shown;

/// Largest policy or topology that is read. More is another file.
const SETTINGS_BYTES_MAX: u64 = 1 << 20;
/// Said wrongly, or the log cannot be used.
const UNUSABLE: u8 = 2;
/// The name of standard input.
const STDIN: &str = "-";

/// Tries it, and says what came of it.
///
/// ```
/// use clap::Parser;
/// use tidegate_server::cli::{Cli, Command};
///
/// let line = "tidegate simulate no-such.log --limit 5 --window 1m --by ip";
/// let Command::Simulate(args) = Cli::try_parse_from(line.split(' '))?.command else { panic!() };
/// assert_eq!(tidegate_server::simulate::simulate(&args), std::process::ExitCode::from(2));
/// # Ok::<(), clap::Error>(())
/// ```
#[must_use]
pub fn simulate(args: &SimulateArgs) -> ExitCode {
    match tried(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::from(UNUSABLE)
        }
    }
}

/// Tries it, and prints and writes what came of it; or only writes a log.
fn tried(args: &SimulateArgs) -> Result<(), String> {
    if let Some(path) = &args.generate.write_log {
        page::refuse_inputs(path, args)?;
        let topology = made::topology(args)?;
        let policies = policies(&args.policy)?;
        let options = made::options(args, &policies, topology.as_ref())?;
        return options.map_or(Ok(()), |options| made::write(&options, path));
    }
    let report = args.report.as_deref();
    // That it can be written is known before anything is read.
    report.map_or(Ok(()), |path| page::check(path, args))?;
    let findings = findings(args)?;
    print(&findings, args).map_err(|why| format!("cannot print what was found: {why}"))?;
    report.map_or(Ok(()), |path| page::write(path, &tidegate_trial::page(&findings)))
}

fn print(findings: &Findings, args: &SimulateArgs) -> io::Result<()> {
    if args.json { tell(&serde_json::to_string(findings)?) } else { tell(&Shown::new(findings)) }
}

fn findings(args: &SimulateArgs) -> Result<Findings, String> {
    let policies = policies(&args.policy)?;
    let suggest = suggestions(args, &policies)?;
    if policies.is_empty() && suggest.is_none() {
        let why = "there is nothing to try: say --policy PATH, or --limit, --window and --by, or \
                   --suggest";
        return Err(why.to_owned());
    }
    let topology = made::topology(args)?;
    let topology = topology.as_ref();
    let made_up = made::options(args, &policies, topology)?;
    let many = policies.len();
    let decided = policies.into_iter().map(|policy| (policy, made::decider(topology, many)));
    let top = usize::try_from(args.top).unwrap_or(usize::MAX);
    let plan = Plan { policies: decided.collect(), suggest, topology: made::facts(topology), top };
    let mut fields = Fields::default();
    let trial = Trial::new(plan, &mut fields);
    let (mut source, mut progress) = match &made_up {
        Some(options) => made::source(options, fields)?,
        None => logs(args, fields)?,
    };
    let findings = trial.run(&mut *source, &mut |requests| progress.tell(requests));
    progress.end();
    findings.map_err(|why| why.to_string())
}

/// The logs, and who watches how far they are read.
fn logs(args: &SimulateArgs, fields: Fields) -> Result<(Box<dyn Source>, Progress), String> {
    let read = Rc::new(Cell::new(0));
    let (mut inputs, mut bytes) = (Vec::new(), Some(0_u64));
    if args.files.iter().filter(|path| path.as_os_str() == STDIN).count() > 1 {
        return Err("`-` is standard input, which can be read once: say it once".to_owned());
    }
    for path in &args.files {
        let (input, len) = input(path, &read)?;
        inputs.push(input);
        bytes = bytes.zip(len).map(|(sum, len)| sum.saturating_add(len));
    }
    let options = ReadOptions {
        format: args.read.format.map(Into::into),
        time_field: args.read.time_field.clone(),
        delimiter: args.read.delimiter,
        reorder_ms: args.read.reorder,
    };
    let logs = Logs::new(inputs, &options, fields).map_err(|why| why.to_string())?;
    Ok((Box::new(logs), Progress::new(read, bytes)))
}

/// Opens a log; says how long it is, if that is known.
fn input(path: &Path, count: &Rc<Cell<u64>>) -> Result<(Input, Option<u64>), String> {
    let count = Rc::clone(count);
    if path.as_os_str() == STDIN {
        if io::stdin().is_terminal() {
            return Err("`-` reads the log from a pipe, and this is a terminal".to_owned());
        }
        let read = Box::new(Counted { read: io::stdin().lock(), count });
        return Ok((Input { name: "standard input".to_owned(), read }, None));
    }
    let name = path.display().to_string();
    let cannot = |why: &dyn std::fmt::Display| format!("cannot read {name}: {why}");
    let file = File::open(path).map_err(|why| cannot(&why))?;
    let about = file.metadata().map_err(|why| cannot(&why))?;
    if about.is_dir() {
        return Err(cannot(&"it is a directory"));
    }
    let len = about.is_file().then_some(about.len());
    Ok((Input { name, read: Box::new(Counted { read: file, count }) }, len))
}

/// Counts what is read.
struct Counted<R> {
    read: R,
    count: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.read.read(buffer)?;
        self.count.set(self.count.get().saturating_add(read as u64));
        Ok(read)
    }
}

/// The policies to try: none, one, or the current one and the candidate.
fn policies(said: &PolicyArgs) -> Result<Vec<Policy>, String> {
    if let Some(path) = &said.policy {
        let mut policies = vec![policy(path)?];
        if let Some(path) = &said.against {
            policies.push(policy(path)?);
            distinguish(&mut policies);
        }
        return Ok(policies);
    }
    let (Some(limit), Some(window_ms)) = (said.limit, said.window) else {
        return Ok(Vec::new());
    };
    let policy = Policy::one(by(said), limit, window_ms).map_err(|why| why.to_string())?;
    Ok(vec![policy])
}

/// Two policies of one name are told apart by what they are.
fn distinguish(policies: &mut [Policy]) {
    if let [current, candidate] = policies
        && current.name == candidate.name
    {
        (current.name, candidate.name) = ("current".to_owned(), "candidate".to_owned());
    }
}

fn by(said: &PolicyArgs) -> By {
    By { fields: said.by.clone(), capture: None }
}

fn policy(path: &Path) -> Result<Policy, String> {
    let (name, text) = text_of(path)?;
    Policy::parse(&name, &text).map_err(|why| why.to_string())
}

/// The name of a file of settings, and what is in it.
fn text_of(path: &Path) -> Result<(String, String), String> {
    let name = path.display().to_string();
    let cannot = |why: io::Error| format!("cannot read {name}: {why}");
    let mut text = String::new();
    let file = File::open(path).map_err(cannot)?;
    file.take(SETTINGS_BYTES_MAX).read_to_string(&mut text).map_err(cannot)?;
    Ok((name, text))
}

/// For whom limits are suggested: as the last policy says, or `--by`.
fn suggestions(args: &SimulateArgs, tried: &[Policy]) -> Result<Option<SuggestOptions>, String> {
    let said = &args.suggest;
    if !said.suggest {
        return Ok(None);
    }
    let policy = match tried.last() {
        Some(policy) => policy.clone(),
        None if args.policy.by.is_empty() => {
            return Err("--suggest needs to know who is limited: say --by ip".to_owned());
        }
        // The numbers are what is looked for.
        None => Policy::one(by(&args.policy), 1, 60_000).map_err(|why| why.to_string())?,
    };
    let (mut windows_ms, max_affected_ppm) = (Vec::new(), said.max_affected);
    for window_ms in &said.windows {
        Policy::one(By::field("ip"), 1, *window_ms).map_err(|why| format!("--windows: {why}"))?;
        // 60s and 1m are one.
        if !windows_ms.contains(window_ms) {
            windows_ms.push(*window_ms);
        }
    }
    Ok(Some(SuggestOptions { policy, windows_ms, max_affected_ppm }))
}
