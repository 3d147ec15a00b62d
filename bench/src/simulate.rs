//! What a trial costs: lines read, requests decided, memory.
//!
//! Rates are those of processor time, so that a busy machine does not change them.

use std::io::{self, Read, Write};
use std::process::ExitCode;

use tidegate_trial::{
    By, Fields, Findings, Input, Logs, OneProcess, Plan, Policy, ReadOptions, Record, Source,
    SuggestOptions, TopologyFacts, TraceError, TraceFacts, Trial,
};

use crate::report::{Line, Table, tenth};
use crate::{Failure, machine};

/// The first request, at the beginning of a minute.
const START_S: u64 = 1_760_104_500;
/// For how long requests come.
const HOURS: u64 = 6;
/// What a trial has to decide in a second of one core.
const RATE_MIN: f64 = 1_000_000.0;
/// What it may take of ten million lines with a million identifiers.
const BYTES_MAX: f64 = 1_073_741_824.0;
/// How much text is made at a time.
const TEXT_BYTES: usize = 1 << 16;

/// How much to try.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Lines of the log.
    #[arg(long, default_value_t = 10_000_000)]
    lines: u64,
    /// Identifiers in it.
    #[arg(long, default_value_t = 1_000_000)]
    identifiers: u64,
    /// A moment only: does it run?
    #[arg(long)]
    smoke: bool,
    /// One object on each line.
    #[arg(long)]
    json: bool,
}

/// Measures, and prints.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    let (lines, identifiers) =
        if args.smoke { (20_000, 2_000) } else { (args.lines, args.identifiers) };
    let shape = Shape { lines, identifiers };
    let case = format!("{lines} lines/{identifiers} identifiers");
    // First, so that what the others leave behind is not counted.
    let mut fields = Fields::default();
    fields.want("ip");
    let direct = || Direct { shape, fields: fields.clone(), at: 0 };
    let ((), given) = timed(|| count(&mut direct()))?;
    let (_, decided) = timed(|| tried(&mut direct()))?;
    let text = Text { shape, at: 0, made: Vec::new(), given: 0 };
    let ((), made) = timed(|| Ok(io::copy(&mut text.clone(), &mut io::sink()).map(|_| ())?))?;
    let ((), read) = timed(|| count(&mut logs(text.clone(), fields.clone())?))?;
    let (findings, whole) = timed(|| tried_logs(text))?;
    if findings.trace.requests != lines {
        return Err(format!("{} of {lines} lines were read", findings.trace.requests).into());
    }
    let bytes = machine::peak_bytes().ok_or("/proc/self/status does not say VmHWM")?;
    // Last, because the peak is that of all before it, too.
    everything(Direct { shape, fields: Fields::default(), at: 0 })?;
    let most = machine::peak_bytes().ok_or("/proc/self/status does not say VmHWM")?;
    let rate = |seconds: f64| lines as f64 / seconds.max(0.001);
    let figures = [
        ("read", rate(read - made), "lines/s of a core"),
        ("decide", rate(decided - given), "requests/s of a core"),
        ("both", rate(whole - made), "lines/s of a core"),
        ("memory", bytes as f64, "peak resident bytes"),
        ("most memory", most as f64, "peak resident bytes"),
    ];
    print(&case, &figures, args)
}

fn print(case: &str, figures: &[(&str, f64, &str)], args: &Args) -> Result<ExitCode, Failure> {
    let mut table = Table::new(&["case", "what", "value", "unit"]);
    for (what, value, unit) in figures {
        let (case, what) = (format!("{case}/{what}"), (*what).to_owned());
        if args.json {
            let (contestant, unit) = ("tidegate".to_owned(), (*unit).to_owned());
            let value = tenth(*value);
            Line::Measurement { bench: "simulate", case, contestant, value, unit }.print()?;
        } else {
            table.row(vec![case, what, format!("{value:.0}"), (*unit).to_owned()]);
        }
    }
    if !table.is_empty() {
        table.print(2);
    }
    let of = |name: &str| figures.iter().find(|(what, ..)| *what == name).map_or(0.0, |it| it.1);
    let targets = [
        ("decide", ">= 1,000,000 requests/s of a core", of("decide"), of("decide") >= RATE_MIN),
        ("memory", "one limit of 1m: < 1 GiB resident", of("memory"), of("memory") < BYTES_MAX),
        (
            "most memory",
            "two policies, five suggestions: < 1 GiB resident",
            of("most memory"),
            of("most memory") < BYTES_MAX,
        ),
    ];
    for (what, target, value, met) in targets.into_iter().filter(|_| !args.smoke) {
        let (case, measured) = (format!("{case}/{what}"), format!("{value:.0}"));
        if args.json {
            let target = target.to_owned();
            Line::Target { bench: "simulate", case, target, measured, met }.print()?;
        } else {
            println!("{what}: {target}: {measured}, {}", if met { "met" } else { "not met" });
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// What came of it, and the seconds of processor time it took.
fn timed<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<(T, f64), Failure> {
    let before = machine::ran_ns();
    let done = work()?;
    Ok((done, machine::ran_ns().saturating_sub(before) as f64 / 1e9))
}

fn trial(fields: &mut Fields) -> Result<Trial, Failure> {
    let policy = Policy::one(By::field("ip"), 100, 60_000)?;
    let policies = vec![(policy, Box::new(OneProcess::default()) as Box<_>)];
    let plan = Plan { policies, suggest: None, topology: TopologyFacts::default(), top: 20 };
    Ok(Trial::new(plan, fields))
}

/// Two policies side by side, and limits suggested for five lengths of the window.
fn everything(mut source: Direct) -> Result<Findings, Failure> {
    let policy = |limit| Policy::one(By::field("ip"), limit, 60_000);
    let both = [policy(100)?, policy(10)?];
    let policies = both.map(|policy| (policy, Box::new(OneProcess::one_of(2)) as Box<_>));
    let windows_ms = vec![1_000, 10_000, 60_000, 600_000, 3_600_000];
    let suggest = SuggestOptions { policy: policy(100)?, windows_ms, max_affected_ppm: 1_000 };
    let topology = TopologyFacts::default();
    let plan = Plan { policies: policies.into(), suggest: Some(suggest), topology, top: 20 };
    let trial = Trial::new(plan, &mut source.fields);
    Ok(trial.run(&mut source, &mut |_| {})?)
}

fn tried(source: &mut Direct) -> Result<Findings, Failure> {
    let mut fields = Fields::default();
    let trial = trial(&mut fields)?;
    source.fields = fields;
    Ok(trial.run(source, &mut |_| {})?)
}

fn tried_logs(text: Text) -> Result<Findings, Failure> {
    let mut fields = Fields::default();
    let trial = trial(&mut fields)?;
    Ok(trial.run(&mut logs(text, fields)?, &mut |_| {})?)
}

fn logs(text: Text, fields: Fields) -> Result<Logs, Failure> {
    let options = ReadOptions { reorder_ms: 2_000, ..ReadOptions::default() };
    let input = Input { name: "made".to_owned(), read: Box::new(text) };
    Ok(Logs::new(vec![input], &options, fields)?)
}

fn count(source: &mut dyn Source) -> Result<(), Failure> {
    let mut record = Record::default();
    while source.next(&mut record)? {}
    Ok(())
}

/// How much comes.
#[derive(Clone, Copy)]
struct Shape {
    lines: u64,
    identifiers: u64,
}

impl Shape {
    /// Who comes when. Everybody once, then some more often than others.
    fn request(self, at: u64) -> (u64, [u64; 3]) {
        let second = START_S + at * HOURS * 3_600 / self.lines.max(1);
        let mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let who = match at < self.identifiers {
            true => at,
            // Of two draws the smaller: early ones come more often.
            false => (mixed % self.identifiers).min(mixed / 7 % self.identifiers),
        };
        (second, [who >> 16 & 255, who >> 8 & 255, who & 255])
    }
}

/// The requests themselves, without any text around them.
struct Direct {
    shape: Shape,
    fields: Fields,
    at: u64,
}

impl Source for Direct {
    fn next(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        if self.at >= self.shape.lines {
            return Ok(false);
        }
        let (second, parts) = self.shape.request(self.at);
        self.at += 1;
        record.begin(&self.fields, second * 1_000);
        let mut text = [0; 20];
        let mut rest = text.as_mut_slice();
        let [a, b, c] = parts;
        if write!(rest, "10.{a}.{b}.{c}").is_ok() {
            let left = rest.len();
            let end = text.len().saturating_sub(left);
            let name = text.get(..end).and_then(|bytes| std::str::from_utf8(bytes).ok());
            record.set(0, name.unwrap_or_default());
        }
        Ok(true)
    }

    fn facts(&self) -> TraceFacts {
        TraceFacts { source: "made".to_owned(), requests: self.at, ..TraceFacts::default() }
    }
}

/// The same as an access log.
#[derive(Clone)]
struct Text {
    shape: Shape,
    at: u64,
    made: Vec<u8>,
    given: usize,
}

impl Read for Text {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.made.len() {
            self.made.clear();
            self.given = 0;
            while self.made.len() < TEXT_BYTES && self.at < self.shape.lines {
                let (second, [a, b, c]) = self.shape.request(self.at);
                self.at += 1;
                let (hour, minute) = (second / 3_600 % 24, second / 60 % 60);
                writeln!(
                    self.made,
                    "10.{a}.{b}.{c} - - [10/Oct/2025:{hour:02}:{minute:02}:{:02} +0000] \"GET \
                     /api/v1/items/{c}?page={b} HTTP/1.1\" 200 5{a} \"-\" \"Mozilla/5.0 (X11)\"",
                    second % 60
                )?;
            }
        }
        let rest = self.made.get(self.given..).unwrap_or_default();
        let count = rest.len().min(buffer.len());
        if let (Some(to), Some(from)) = (buffer.get_mut(..count), rest.get(..count)) {
            to.copy_from_slice(from);
        }
        self.given += count;
        Ok(count)
    }
}
