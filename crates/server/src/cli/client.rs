//! What can be said to a server from a terminal.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use clap_complete::Shell;

use super::bench::{BENCH_EXAMPLES, BenchArgs};
use super::globe::duration_ms;
use super::{KEY_VARIABLE, Output};

/// Where the address of the server is looked for.
const URL_VARIABLE: &str = "TIDEGATE_URL";
/// Where `tidegate serve` listens unless told otherwise.
const URL: &str = "http://127.0.0.1:7600";

const LIMIT_EXAMPLES: &str = "\
Exit codes: 0 answered (denied is an answer), 1 denied and --fail was given, 2 said wrongly or \
refused, 3 try again: the server could not be reached, failed, or said so (408, 409, 425, 429, 5xx).

Examples:
  tidegate limit --namespace email --identifier user-1 --limit 10 --window 1h
      Spends one of ten e-mails an hour.

  tidegate limit --namespace deploy --identifier main --limit 1 --window 10m --fail && ./deploy
      Deploys at most once in ten minutes.

  tidegate limit --namespace email --identifier user-1 --limit 10 --window 1h --cost 0
      Only asks whether there is room.

  tidegate limit … --idempotency-key $(uuidgen)
      A call that is sent again with the same key is charged once.";

const MULTI_LIMIT_EXAMPLES: &str = r#"Exit codes: as for `tidegate limit`.

Examples:
  tidegate multi-limit --limits-json '[
    {"namespace":"sms","identifier":"user-1","limit":5,"duration":60000},
    {"namespace":"sms","identifier":"team-7","limit":100,"duration":60000,"cost":2}]'
      Spends of both or of neither. Durations are in milliseconds, as in the HTTP API.

  tidegate multi-limit --file limits.json
  generate-limits | tidegate multi-limit -"#;

const EXIT_CODES: &str = "\
Exit codes: 0 done, 2 said wrongly, refused or not found, 3 try again: the server could not be \
reached, failed, or said so (408, 409, 425, 429, 5xx).";

const OVERRIDE_EXAMPLES: &str = "\
An override replaces the limit and the window that callers ask for. `*` stands for any characters.
A namespace comes to be by the first `tidegate limit` on it.

Examples:
  tidegate override set --namespace email --identifier 'premium_*' --limit 1000 --window 1h
  tidegate override get --namespace email --identifier premium_7
  tidegate override list --namespace email
  tidegate override delete --namespace email --identifier 'premium_*'

Exit codes: as for `tidegate limit`, without 1.";

const EXPLAIN_EXAMPLES: &str = "\
Nothing is spent. Exit codes: as for `tidegate limit`, without 1.

Example:
  tidegate explain --namespace email --identifier user-1 --limit 10 --window 1h";

const INSPECT_EXAMPLES: &str = "\
Nothing is spent. Exit codes: as for `tidegate limit`, without 1.

Example:
  tidegate inspect --namespace email --identifier user-1 --window 1h";

const HEALTH_EXAMPLES: &str = "\
Exit codes: 0 ready, 2 said wrongly, 3 retiring, or the server could not be reached. No key is \
needed.

Example:
  tidegate health --url http://127.0.0.1:9300
      Asks the admin listener; the data listener answers too.";

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  tidegate completions bash > ~/.local/share/bash-completion/completions/tidegate
  tidegate completions zsh > \"${fpath[1]}/_tidegate\"
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish";

/// What can be said to a server, and what helps with saying it. The [module](crate::cli) has an
/// example.
#[derive(Clone, Debug, Subcommand)]
pub enum ClientCommand {
    /// Spend of a limit.
    #[command(after_help = LIMIT_EXAMPLES)]
    Limit(LimitArgs),
    /// Spend of several limits together, or of none.
    #[command(after_help = MULTI_LIMIT_EXAMPLES)]
    MultiLimit(MultiLimitArgs),
    /// Give some identifiers other limits.
    #[command(subcommand, after_help = OVERRIDE_EXAMPLES)]
    Override(OverrideCommand),
    /// Say why a request would be admitted or denied.
    #[command(after_help = EXPLAIN_EXAMPLES)]
    Explain(ExplainArgs),
    /// Show what is known of a subject.
    #[command(after_help = INSPECT_EXAMPLES)]
    Inspect(InspectArgs),
    /// Load a server, and measure how it answers.
    #[command(after_long_help = BENCH_EXAMPLES)]
    Bench(Box<BenchArgs>),
    /// Ask whether a server is ready: for health checks.
    #[command(after_help = HEALTH_EXAMPLES)]
    Health {
        /// The address of the server.
        #[arg(
            long,
            value_name = "URL",
            env = URL_VARIABLE,
            hide_env_values = true,
            default_value = URL
        )]
        // Read by `client`, as that of `ServerArgs`.
        url: String,
    },
    /// Write manual pages of all commands into a directory.
    Man {
        /// Where; it is made if it is missing.
        directory: PathBuf,
    },
    /// Print what makes a shell complete these commands.
    #[command(after_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// Which shell.
        shell: Shell,
    },
}

/// Which server, as whom, and how its reply is printed. The [module](crate::cli) has an example.
#[derive(Args, Clone)]
pub struct ServerArgs {
    /// The address of the server.
    #[arg(
        long,
        value_name = "URL",
        env = URL_VARIABLE,
        hide_env_values = true,
        default_value = URL
    )]
    // Read by `client`: clap would print a value that it refuses, and there may be a secret in it.
    pub url: String,

    /// The key; prefer the environment variable, which other users cannot read.
    ///
    /// `tidegate serve` prints one when it first starts; `tidegate key create` makes others.
    #[arg(
        long,
        value_name = "KEY",
        env = KEY_VARIABLE,
        hide_env_values = true
    )]
    // Read by `client`, for the same reason.
    pub root_key: Option<String>,

    /// In words, or the server's reply on one line.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

impl std::fmt::Debug for ServerArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key is a secret, and the address may hold one.
        f.debug_struct("ServerArgs").field("output", &self.output).finish_non_exhaustive()
    }
}

/// What is limited. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct SubjectArgs {
    /// What is limited.
    #[arg(long)]
    pub namespace: String,
    /// Who is limited.
    #[arg(long)]
    pub identifier: String,
}

/// What is asked for. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct RequestArgs {
    /// What is limited.
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// How much is admitted in a window.
    #[arg(long)]
    pub limit: u64,
    /// The length of the window: a number with ms, s, m, h or d.
    #[arg(long, value_name = "DURATION", value_parser = duration_ms)]
    pub window: u64,
    /// How much to spend; 1 unless said otherwise, and 0 only asks.
    #[arg(long)]
    pub cost: Option<u64>,
}

/// What to spend. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct LimitArgs {
    /// What is asked for.
    #[command(flatten)]
    pub request: RequestArgs,
    /// End with 1 if it is denied.
    #[arg(long)]
    pub fail: bool,
    /// A name for this call, so that it is charged once however often it is sent.
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What to spend together. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct MultiLimitArgs {
    /// Where the limits are.
    #[command(flatten)]
    pub limits: LimitsArgs,
    /// End with 1 if it is denied.
    #[arg(long)]
    pub fail: bool,
    /// A name for this call, so that it is charged once however often it is sent.
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Where the limits of a batch are. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub struct LimitsArgs {
    /// The limits: a JSON array of objects, as the HTTP API takes it.
    #[arg(long, value_name = "JSON")]
    pub limits_json: Option<String>,
    /// A file that holds them.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// `-` reads them from standard input.
    #[arg(value_name = "-", value_parser = ["-"])]
    pub stdin: Option<String>,
}

/// What can be done with overrides. The [module](crate::cli) has an example.
#[derive(Clone, Debug, Subcommand)]
pub enum OverrideCommand {
    /// Make or change one.
    #[command(after_help = EXIT_CODES)]
    Set(SetOverrideArgs),
    /// Show the one that applies to an identifier.
    #[command(after_help = EXIT_CODES)]
    Get(WhichOverrideArgs),
    /// List those of a namespace.
    #[command(after_help = EXIT_CODES)]
    List(ListArgs),
    /// Remove one, by exactly what it was set for.
    #[command(after_help = EXIT_CODES)]
    Delete(WhichOverrideArgs),
}

/// What an override says. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct SetOverrideArgs {
    /// For whom; the identifier may contain `*`.
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// How much is admitted in a window; 0 admits nothing.
    #[arg(long)]
    pub limit: u64,
    /// The length of the window: a number with ms, s, m, h or d.
    #[arg(long, value_name = "DURATION", value_parser = duration_ms)]
    pub window: u64,
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Which override. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct WhichOverrideArgs {
    /// For whom.
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// Which overrides. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Of which namespace.
    #[arg(long)]
    pub namespace: String,
    /// Only one page, of so many; all of them unless this or --cursor is given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=100))]
    pub page_size: Option<u16>,
    /// Only the page that begins here, as the page before it says.
    #[arg(long)]
    pub cursor: Option<String>,
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What to explain. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct ExplainArgs {
    /// What would be asked for.
    #[command(flatten)]
    pub request: RequestArgs,
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
}

/// What to show. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct InspectArgs {
    /// What is limited.
    #[command(flatten)]
    pub subject: SubjectArgs,
    /// The length of the window: a number with ms, s, m, h or d.
    #[arg(long, value_name = "DURATION", value_parser = duration_ms)]
    pub window: u64,
    /// Which server.
    #[command(flatten)]
    pub server: ServerArgs,
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use clap::error::ErrorKind;

    use super::super::{Cli, Command};
    use super::*;

    /// The environment of the test run must not decide: address and key are always given here.
    const SERVER: [&str; 4] = ["--url", "http://h", "--root-key", "hush"];

    fn parse(args: &[&str]) -> Result<ClientCommand, ErrorKind> {
        let all = ["tidegate"].iter().chain(args).chain(&SERVER);
        match Cli::try_parse_from(all).map_err(|error| error.kind())?.command {
            Command::Client(command) => Ok(command),
            other => panic!("{other:?}"),
        }
    }

    const ASK: [&str; 7] =
        ["--namespace", "n", "--identifier", "i", "--limit", "10", "--window=1h"];

    #[test]
    fn a_limit_is_said_in_words_of_the_library() {
        let parsed = |more: &[&str]| match parse(&[&["limit"], &ASK[..], more].concat()).unwrap() {
            ClientCommand::Limit(args) => args,
            other => panic!("{other:?}"),
        };
        let args = parsed(&[]);
        assert_eq!((args.request.limit, args.request.window), (10, 3_600_000));
        assert_eq!((args.request.cost, args.fail, args.idempotency_key), (None, false, None));
        assert_eq!(args.server.output, Output::Text);
        let args = parsed(&["--cost", "0", "--fail", "--idempotency-key", "k", "--output", "json"]);
        assert_eq!((args.request.cost, args.fail), (Some(0), true), "0 is not the same as nothing");
        assert_eq!(
            (args.idempotency_key.as_deref(), args.server.output),
            (Some("k"), Output::Json)
        );
    }

    #[test]
    fn what_is_missing_or_wrong_is_refused() {
        use ErrorKind::{ArgumentConflict, InvalidValue, MissingRequiredArgument, ValueValidation};
        for (args, kind) in [
            (&["limit", "--namespace", "n"][..], MissingRequiredArgument),
            (&["limit", "--window", "60"], ValueValidation),
            (&["limit", "--limit", "-1"], ErrorKind::UnknownArgument),
            (&["limit", "--limit=-1"], ValueValidation),
            (&["multi-limit"], MissingRequiredArgument),
            (&["multi-limit", "--limits-json", "[]", "-"], ArgumentConflict),
            (&["multi-limit", "--file", "f", "--limits-json", "[]"], ArgumentConflict),
            (&["multi-limit", "limits.json"], InvalidValue),
            (&["override", "list", "--namespace", "n", "--page-size", "101"], ValueValidation),
            (&["override", "get", "--namespace", "n"], MissingRequiredArgument),
            (&["inspect", "--namespace", "n", "--identifier", "i"], MissingRequiredArgument),
        ] {
            assert_eq!(parse(args).unwrap_err(), kind, "{args:?}");
        }
    }

    #[test]
    fn the_usual_shells_are_completed() {
        for (shell, known) in [("bash", true), ("zsh", true), ("fish", true), ("tcsh", false)] {
            assert_eq!(Cli::try_parse_from(["tidegate", "completions", shell]).is_ok(), known);
        }
    }

    #[test]
    fn limits_of_a_batch_come_from_one_place() {
        for source in [&["-"][..], &["--file", "f"], &["--limits-json", "[]"]] {
            assert!(parse(&[&["multi-limit"], source].concat()).is_ok(), "{source:?}");
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        let args = ["override", "get", "--namespace", "n", "--identifier", "i"];
        assert!(!format!("{:?}", parse(&args).unwrap()).contains("hush"));
    }
}
