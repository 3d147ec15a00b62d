//! What can be said about the log.

use std::io::{self, IsTerminal};

use clap::{Args, ValueEnum};

use crate::log::{Form, Level, LogSettings};

/// Where the form of the log is looked for.
const FORMAT_VARIABLE: &str = "TIDEGATE_LOG_FORMAT";
/// The same for what is said at all.
const LEVEL_VARIABLE: &str = "TIDEGATE_LOG_LEVEL";

/// How the log looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// One JSON object on each line.
    Json,
    /// Lines for people, a welcome and a farewell.
    Pretty,
}

/// What is said in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogLevel {
    /// What somebody has to look at.
    Error,
    /// And what is worse than it should be.
    Warn,
    /// And what changed.
    Info,
    /// And what is of use to whoever looks for a cause.
    Debug,
}

/// What the server says on standard error while it runs.
///
/// ```
/// use clap::Parser;
/// use tidegate_server::cli::{Cli, Command, LogFormat, LogLevel};
///
/// let line = "tidegate serve --log-format json --log-level warn".split(' ');
/// let Command::Serve(args) = Cli::try_parse_from(line)?.command else { unreachable!() };
/// assert_eq!(args.log.log_format, Some(LogFormat::Json));
/// assert_eq!(args.log.log_level, LogLevel::Warn);
/// assert!(args.log.is_json());
/// # Ok::<(), clap::Error>(())
/// ```
#[derive(Args, Clone, Copy, Debug)]
pub struct LogArgs {
    /// How the log looks [default: `pretty` if standard error is a terminal, else `json`].
    ///
    /// With `json` there is no welcome: the event `started` says where it listens, and a first key
    /// is written to the file `root-key` in the data directory, for its owner alone.
    #[arg(long, value_name = "FORMAT", env = FORMAT_VARIABLE, value_enum)]
    pub log_format: Option<LogFormat>,

    /// What is said in the log.
    #[arg(
        long,
        value_name = "LEVEL",
        env = LEVEL_VARIABLE,
        value_enum,
        default_value_t = LogLevel::Info
    )]
    pub log_level: LogLevel,
}

impl LogArgs {
    /// Whether programs read it. The [type](Self) has an example.
    #[must_use]
    pub fn is_json(&self) -> bool {
        match self.log_format {
            Some(format) => format == LogFormat::Json,
            // What is not read on a screen is read by a program.
            None => !io::stderr().is_terminal(),
        }
    }

    /// The same for the log.
    pub(crate) fn settings(&self) -> LogSettings {
        let form = if self.is_json() { Form::Json } else { Form::Pretty };
        let level = match self.log_level {
            LogLevel::Error => Level::Error,
            LogLevel::Warn => Level::Warn,
            LogLevel::Info => Level::Info,
            LogLevel::Debug => Level::Debug,
        };
        LogSettings { form, level }
    }
}
