//! What can be said to `simulate`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use tidegate_limiter::LIMIT_MAX;
use tidegate_trial::Format;

use super::globe::duration_ms;
use super::made::GenerateArgs;

/// Longest time that a line of a log may be late.
const REORDER_MS_MAX: u64 = 3_600_000;
/// Most identifiers that are named in a list.
const TOP_MAX: u64 = 100_000;
/// All, in millionths.
const MILLION: f64 = 1_000_000.0;

const SIMULATE_EXAMPLES: &str = "\
It reads access logs of Apache and nginx (common, combined), JSON lines and CSV with a line of \
names, packed with gzip or not. Each file may have another format. Lines that cannot be read are \
counted and shown.

Fields: ip, method, path, query, status, user, agent, referer, bytes; of JSON and CSV any other \
by its name. In JSON a dot leads into objects (request.user.id), and header.NAME finds headers.

A policy is TOML:
  name = \"candidate\"
  [[limit]]
  name = \"login\"
  by = [\"ip\", \"user\"]            # one field, or several together
  limit = 5
  window = \"1m\"
  cost = 1                         # or { field = \"bytes\" }
  when = { method = \"POST\", path = \"^/login\" }
  # capture = \"^/v1/([^/]+)\"       # with one field in `by`: the group is the identifier
  [[limit.override]]
  identifier = \"203.0.113.*\"
  limit = 1000

A call is decided by all limits that apply to it, as one: all have room, or nothing is spent. The \
decisions are those of a server. Beside them a log of all admissions says which are false: a \
server keeps two counts for each window, and a log would be exact.

A topology is TOML, too: the fleet that decides, with its latencies and what goes wrong.
  regions = 2
  nodes = 2                        # of each region
  consistency = \"bounded\"
  store_latency = \"0.2ms..3ms\"    # one way
  global_latency = \"20ms..80ms\"
  [[fault]]
  kind = \"store-away\"             # store-slow, global-away, cut-off, kill
  region = 0
  from = \"5m\"                     # after the first request
  for = \"30s\"

Many logs have times to the second only: all calls of a second then come at once, and windows of \
a few seconds look harder than they are. Clients that are denied may come again or stay away; a \
log cannot say which.

Exit codes: 0 done, 2 said wrongly, or the log cannot be used.

Examples:
  tidegate simulate access.log --limit 100 --window 1m --by ip
  tidegate simulate access.log* --policy candidate.toml --top 50
  tidegate simulate access.log --policy current.toml --against candidate.toml \\
      --report candidate.html
  tidegate simulate access.log --suggest --by ip --max-affected 0.1% --windows 10s,1m,1h
  tidegate simulate requests.jsonl --time-field start --by header.x-api-key \\
      --limit 1000 --window 1h --json
  tidegate simulate access.log --policy candidate.toml --topology fleet.toml
  tidegate simulate --generate credential-stuffing --limit 5 --window 1m --by user
  tidegate simulate --generate burst --requests 50000 --write-log sample.log";

/// What to try, and on what. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
#[command(after_help = SIMULATE_EXAMPLES)]
pub struct SimulateArgs {
    /// Logs, in any order: each is read when its first request is due. `-` is standard input.
    #[arg(value_name = "FILE", required_unless_present = "generate")]
    pub files: Vec<PathBuf>,
    /// Traffic to make up instead.
    #[command(flatten)]
    pub generate: GenerateArgs,
    /// How to read them.
    #[command(flatten)]
    pub read: TraceArgs,
    /// What to try.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Which limit to suggest.
    #[command(flatten)]
    pub suggest: SuggestArgs,
    /// Decide with a fleet instead of one process: a file that says which.
    #[arg(long, value_name = "PATH")]
    pub topology: Option<PathBuf>,
    /// How many identifiers to name in each list.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20,
        value_parser = clap::value_parser!(u64).range(0..=TOP_MAX)
    )]
    pub top: u64,
    /// Print one JSON document instead of tables.
    #[arg(long)]
    pub json: bool,
    /// Also write a page to look at: one HTML file with plots, which needs no network.
    #[arg(long, value_name = "PATH")]
    pub report: Option<PathBuf>,
}

/// How to read logs. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct TraceArgs {
    /// The format of the logs; otherwise it is found out from the first lines.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<FormatArg>,
    /// Where the time is, in JSON and CSV; otherwise the usual names are tried.
    ///
    /// Times are RFC 3339, 10/Oct/2026:13:55:36 +0000, or numbers since 1970 in seconds,
    /// milliseconds, microseconds or nanoseconds. Without a name, numbers before 2000 are no times.
    #[arg(long, value_name = "NAME")]
    pub time_field: Option<String>,
    /// What separates columns in CSV, or `tab`; otherwise a comma, a tab, a semicolon or a bar.
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    pub delimiter: Option<u8>,
    /// How late a line may be: logs are written when requests end. Later ones are counted, and
    /// decided at the time of the one before.
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = reorder)]
    pub reorder: u64,
}

/// What to try. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct PolicyArgs {
    /// The policy to try, a file.
    #[arg(long, value_name = "PATH", conflicts_with_all = ["limit", "window", "by"])]
    pub policy: Option<PathBuf>,
    /// A second policy, the candidate: also say what it changes.
    #[arg(long, value_name = "PATH", requires = "policy")]
    pub against: Option<PathBuf>,
    /// Without a file: how much is admitted in a window.
    #[arg(
        long,
        value_name = "N",
        requires = "window",
        requires = "by",
        value_parser = clap::value_parser!(u64).range(0..=LIMIT_MAX)
    )]
    pub limit: Option<u64>,
    /// Without a file: the length of the window, a number with s, m, h or d.
    #[arg(long, value_name = "DURATION", value_parser = duration_ms, requires = "limit")]
    pub window: Option<u64>,
    /// Without a file: who is limited. One field, or several with commas between.
    #[arg(long, value_name = "FIELD", value_delimiter = ',', value_parser = field)]
    pub by: Vec<String>,
}

/// Which limit to suggest. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct SuggestArgs {
    /// Find the lowest limit that would have limited few, for each length of the window.
    ///
    /// Who is limited is what --by says, or each limit of the policy; of two, the candidate.
    /// Overrides do not count.
    #[arg(long)]
    pub suggest: bool,
    /// How many: a share of the identifiers.
    #[arg(long, value_name = "PERCENT", default_value = "0.1%", value_parser = share,
        requires = "suggest")]
    pub max_affected: u64,
    /// The lengths of windows to suggest limits for.
    #[arg(
        long,
        value_name = "DURATIONS",
        default_value = "1s,10s,1m,10m,1h",
        value_delimiter = ',',
        value_parser = duration_ms,
        requires = "suggest"
    )]
    pub windows: Vec<u64>,
}

/// How logs are written. The [module](crate::cli) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// Apache and nginx.
    Common,
    /// The same with referer and user agent.
    Combined,
    /// An object on each line.
    Json,
    /// Columns, with a line of names.
    Csv,
}

impl From<FormatArg> for Format {
    fn from(said: FormatArg) -> Self {
        match said {
            FormatArg::Common | FormatArg::Combined => Self::Common,
            FormatArg::Json => Self::Json,
            FormatArg::Csv => Self::Csv,
        }
    }
}

fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        _ if text == "tab" => Ok(b'\t'),
        [byte] if byte.is_ascii() && !b"\"\r\n".contains(byte) => Ok(*byte),
        _ => Err("expected one ASCII character, or `tab`".to_owned()),
    }
}

/// The name of a field.
fn field(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("expected the name of a field before and after each comma".to_owned()),
        name => Ok(name.to_owned()),
    }
}

fn reorder(text: &str) -> Result<u64, String> {
    match duration_ms(text)? {
        ms if ms > REORDER_MS_MAX => Err("must be at most 1h".to_owned()),
        ms => Ok(ms),
    }
}

/// A share, in millionths.
fn share(text: &str) -> Result<u64, String> {
    let wrong = || "expected a share from 0% to 100%, such as 0.1%".to_owned();
    let percent: f64 = text.strip_suffix('%').ok_or_else(wrong)?.parse().map_err(|_| wrong())?;
    if !(0.0..=100.0).contains(&percent) {
        return Err(wrong());
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "from 0 to a million"
    )]
    Ok((percent * MILLION / 100.0).round() as u64)
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use super::super::{Cli, Command};
    use super::*;

    fn parse(more: &[&str]) -> Result<SimulateArgs, ErrorKind> {
        let all = ["tidegate", "simulate"].iter().chain(more);
        match Cli::try_parse_from(all).map_err(|error| error.kind())?.command {
            Command::Simulate(args) => Ok(*args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_trial_is_said_in_words() {
        let args =
            parse(&["a.log", "-", "--limit", "5", "--window", "1m", "--by", "ip,path"]).unwrap();
        assert_eq!(
            (args.files.len(), args.policy.limit, args.policy.window),
            (2, Some(5), Some(60_000))
        );
        assert_eq!(
            (args.policy.by, args.read.reorder),
            (vec!["ip".to_owned(), "path".to_owned()], 2_000)
        );
        let args = parse(&["a", "--suggest", "--by", "ip", "--max-affected", "0.25%"]).unwrap();
        assert_eq!((args.suggest.max_affected, args.suggest.windows.len()), (2_500, 5));
        let args = parse(&["a", "--delimiter", "tab", "--policy", "p", "--against", "q"]).unwrap();
        assert_eq!(args.read.delimiter, Some(b'\t'));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        use ErrorKind::{ArgumentConflict, MissingRequiredArgument, ValueValidation};
        for (args, kind) in [
            (&[][..], MissingRequiredArgument),
            (&["a", "--limit", "5", "--by", "ip"], MissingRequiredArgument),
            (&["a", "--limit", "5", "--window", "1m"], MissingRequiredArgument),
            (&["a", "--against", "p"], MissingRequiredArgument),
            (&["a", "--policy", "p", "--by", "ip"], ArgumentConflict),
            (&["a", "--max-affected", "0.1"], ValueValidation),
            (&["a", "--max-affected", "101%"], ValueValidation),
            (&["a", "--windows", "1x"], ValueValidation),
            (&["a", "--delimiter", "ab"], ValueValidation),
            (&["a", "--reorder", "2h"], ValueValidation),
            (
                &["a", "--limit", "9999999999999999", "--window", "1m", "--by", "ip"],
                ValueValidation,
            ),
            (&["a", "--limit", "5", "--window", "1m", "--by", "ip,"], ValueValidation),
            (&["a", "--policy", "p", "--max-affected", "1%"], MissingRequiredArgument),
            (&["a", "--policy", "p", "--windows", "1m"], MissingRequiredArgument),
        ] {
            assert_eq!(parse(args).unwrap_err(), kind, "{args:?}");
        }
    }
}
