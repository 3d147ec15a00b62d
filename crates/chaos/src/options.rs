//! The command line.

use std::path::PathBuf;

use crate::fault::Kind;

/// A mistake that is planted between the callers and the servers, to show that it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Planted {
    /// Now and then somebody admits who counts nothing.
    Free,
    /// Now and then a call is made twice.
    Twice,
    /// Now and then an answer is an error.
    Error,
    /// Now and then an item of a batch is left out.
    Half,
}

/// What a run is to be.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) server: PathBuf,
    pub(crate) length_ms: u64,
    pub(crate) seed: u64,
    pub(crate) per_second: u64,
    pub(crate) settle_ms: u64,
    pub(crate) kinds: Vec<Kind>,
    pub(crate) keep: Option<PathBuf>,
    pub(crate) json: bool,
    pub(crate) planted: Option<Planted>,
}

pub(crate) const HELP: &str = "\
Real servers, a real Redis for each of two regions, a real MariaDB, and all that can go wrong.

  --minutes N         How long there is load and faults (5); 1.5 is possible.
  --seed K            Which faults, when and where (1).
  --only FAULT,...    Only these faults; `none` for none.
  --rate N            Calls in a second, at all servers together (150).
  --settle N          Seconds until everything has to agree once all is mended (60).
  --keep DIR          Keep the history and the logs there, also when all is well.
  --json              The report as one line of JSON.
  --planted NAME      Plant a mistake that must be found: free, twice, error or half.
  --server PATH       The binary `tidegate`; `cargo xtask chaos` builds it and says where it is.

Exit code: 0 every promise was kept, 1 one was not, 2 the command line or the machine is not right.
";

/// How long everything may take to agree once nothing is wrong any more. What is promised adds up
/// to some ten seconds (docs/globe.md, docs/redis.md); a busy machine gets several times that.
const SETTLE_MS: u64 = 60_000;
/// Shortest run: calm, one fault, calm.
const SECONDS_MIN: f64 = 15.0;
/// Longest: all calls are kept in memory.
const SECONDS_MAX: f64 = 24.0 * 3_600.0;

impl Options {
    /// Reads the arguments; `None` asks for help.
    pub(crate) fn read(args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Self {
            server: PathBuf::from("tidegate"),
            length_ms: 300_000,
            seed: 1,
            per_second: 150,
            settle_ms: SETTLE_MS,
            kinds: Kind::ALL.iter().map(|one| one.0).collect(),
            keep: None,
            json: false,
            planted: None,
        };
        let mut args = args;
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--help" | "-h" => return Ok(None),
                "--json" => {
                    options.json = true;
                    continue;
                }
                _ => {}
            }
            let value = args.next().ok_or_else(|| format!("`{arg}` needs a value"))?;
            let number = || value.parse::<u64>().map_err(|_| format!("`{value}` is no number"));
            match arg.as_str() {
                "--minutes" => options.length_ms = length_ms(&value)?,
                "--seed" => options.seed = number()?,
                "--rate" => options.per_second = number()?.clamp(1, 10_000),
                "--settle" => options.settle_ms = number()?.clamp(1, 3_600).saturating_mul(1_000),
                "--only" => options.kinds = kinds(&value)?,
                "--keep" => options.keep = Some(PathBuf::from(value)),
                "--server" => options.server = PathBuf::from(value),
                "--planted" => options.planted = Some(planted(&value)?),
                _ => return Err(format!("no option `{arg}`; `--help` lists them")),
            }
        }
        Ok(Some(options))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it was bounded")]
fn length_ms(text: &str) -> Result<u64, String> {
    let minutes: f64 = text.parse().map_err(|_| format!("`{text}` is no number"))?;
    let seconds = minutes * 60.0;
    if !(SECONDS_MIN..=SECONDS_MAX).contains(&seconds) {
        return Err("a run takes from 0.25 minutes to a day".to_owned());
    }
    Ok((seconds * 1_000.0) as u64)
}

fn kinds(text: &str) -> Result<Vec<Kind>, String> {
    let words = text.split(',').filter(|word| !word.is_empty() && *word != "none");
    let named = |word: &str| {
        let all: Vec<&str> = Kind::ALL.iter().map(|one| one.1).collect();
        Kind::named(word).ok_or_else(|| format!("no fault `{word}`; there is: {}", all.join(", ")))
    };
    words.map(named).collect()
}

fn planted(text: &str) -> Result<Planted, String> {
    match text {
        "free" => Ok(Planted::Free),
        "twice" => Ok(Planted::Twice),
        "error" => Ok(Planted::Error),
        "half" => Ok(Planted::Half),
        _ => Err(format!("no planted mistake `{text}`; there is: free, twice, error, half")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(line: &str) -> Result<Option<Options>, String> {
        Options::read(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn what_is_said_is_understood_and_the_rest_is_refused() {
        let options =
            said("--minutes 1.5 --seed 7 --only flush,cut --planted free").unwrap().unwrap();
        assert_eq!((options.length_ms, options.seed), (90_000, 7));
        assert_eq!(options.kinds, [Kind::Flush, Kind::Cut]);
        assert_eq!(options.planted, Some(Planted::Free));
        assert!(said("--only none").unwrap().unwrap().kinds.is_empty());
        assert!(said("--help").unwrap().is_none());
        for bad in ["--minutes 0", "--minutes x", "--only rain", "--seed", "--all 1", "--planted x"]
        {
            assert!(said(bad).is_err(), "{bad}");
        }
    }
}
