//! Traffic that is made up, and fleets that decide.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::rc::Rc;

use tidegate_trial::{
    Decide, Fields, Fleet, GenerateOptions, Generated, LogFormat, OneProcess, Policy, Record,
    Source, Topology, TopologyFacts, TraceError, TraceFacts, write_log,
};

use super::progress::Progress;
use super::{STDIN, text_of};
use crate::cli::SimulateArgs;

/// The fleet that decides, if it is not one process.
pub(super) fn topology(args: &SimulateArgs) -> Result<Option<Topology>, String> {
    let Some(path) = &args.topology else { return Ok(None) };
    let (name, text) = text_of(path)?;
    Topology::parse(&name, &text).map(Some).map_err(|why| why.to_string())
}

/// Who decides for one of so many policies.
pub(super) fn decider(topology: Option<&Topology>, many: usize) -> Box<dyn Decide> {
    match topology {
        Some(topology) => Box::new(Fleet::new(topology.clone())),
        None => Box::new(OneProcess::one_of(many)),
    }
}

/// The same in words.
pub(super) fn facts(topology: Option<&Topology>) -> TopologyFacts {
    let one = || {
        let summary = "one process".to_owned();
        TopologyFacts { summary, regions: 1, nodes: 1, ..TopologyFacts::default() }
    };
    topology.map_or_else(one, Topology::facts)
}

/// What is to be made up, for these policies and this fleet: the window that is hugged is that of
/// the first limit.
pub(super) fn options(
    args: &SimulateArgs,
    policies: &[Policy],
    topology: Option<&Topology>,
) -> Result<Option<GenerateOptions>, String> {
    let Some(usual) = args.generate.options()? else { return Ok(None) };
    let window_ms = policies.first().and_then(|policy| policy.limits.first());
    let window_ms = window_ms.map_or(usual.window_ms, |limit| limit.window_ms);
    let regions = topology.map_or(usual.regions, |topology| topology.regions as u64);
    Ok(Some(GenerateOptions { window_ms, regions, ..usual }))
}

/// Made-up traffic, and who watches how far it is.
pub(super) fn source(
    options: &GenerateOptions,
    fields: Fields,
) -> Result<(Box<dyn Source>, Progress), String> {
    let made = Rc::new(Cell::new(0));
    let generated = Generated::new(options, fields).map_err(|why| why.to_string())?;
    let progress = Progress::new(Rc::clone(&made), Some(options.requests));
    Ok((Box::new(Counted { generated, made }), progress))
}

/// Counts what is made.
struct Counted {
    generated: Generated,
    made: Rc<Cell<u64>>,
}

impl Source for Counted {
    fn next(&mut self, record: &mut Record) -> Result<bool, TraceError> {
        self.made.set(self.made.get().saturating_add(1));
        self.generated.next(record)
    }

    fn facts(&self) -> TraceFacts {
        self.generated.facts()
    }
}

/// Writes made-up traffic as a log.
pub(super) fn write(options: &GenerateOptions, path: &Path) -> Result<(), String> {
    let cannot = |why: io::Error| format!("cannot write {}: {why}", path.display());
    let is_json = path.extension().is_some_and(|end| end == "json" || end == "jsonl");
    let format = if is_json { LogFormat::Json } else { LogFormat::Combined };
    let out: Box<dyn Write> = match path.as_os_str() == STDIN {
        true => Box::new(io::stdout().lock()),
        false => Box::new(File::create(path).map_err(cannot)?),
    };
    let lines = write_log(options, format, &mut BufWriter::new(out)).map_err(cannot)?;
    if path.as_os_str() != STDIN {
        eprintln!("{lines} lines are in {}", path.display());
    }
    Ok(())
}
