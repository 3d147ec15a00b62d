//! The command line: what can be said to `tidegate`, and what it refuses.
//!
//! ```
//! use clap::Parser;
//! use tidegate_server::cli::{Cli, ClientCommand, Command, KeyCommand, Output};
//!
//! let said = |line: &str| Cli::try_parse_from(line.split(' ')).map(|cli| cli.command);
//!
//! let Command::Serve(args) = said("tidegate serve --memory 1GiB --listen [::1]:0")? else {
//!     unreachable!()
//! };
//! assert_eq!((args.memory, args.listen.port()), (1 << 30, 0));
//!
//! let line = "tidegate limit --namespace email --identifier user-1 --limit 10 --window 1h --fail";
//! let Command::Client(ClientCommand::Limit(args)) = said(line)? else { unreachable!() };
//! assert_eq!((args.request.window, args.request.cost, args.fail), (3_600_000, None, true));
//! assert_eq!(args.server.output, Output::Text);
//!
//! let line = "tidegate key create --expires-in 30d";
//! let Command::Key(KeyCommand::Create(args)) = said(line)? else { unreachable!() };
//! assert_eq!((args.to.workspace.as_str(), args.expires_in), ("default", Some(2_592_000_000)));
//!
//! for line in [
//!     "tidegate multi-limit --file limits.json",
//!     "tidegate override set --namespace email --identifier vip-* --limit 99 --window 1h",
//!     "tidegate override get --namespace email --identifier vip-7",
//!     "tidegate override list --namespace email --page-size 100",
//!     "tidegate explain --namespace email --identifier user-1 --limit 10 --window 1h",
//!     "tidegate bench --rate max --connections 64 --http2 --for 30s",
//!     "tidegate inspect --namespace email --identifier user-1 --window 1h",
//!     "tidegate key list --workspace acme",
//!     "tidegate key revoke key_3kXo9aT2z --output json",
//!     "tidegate namespace delete email --workspace acme",
//!     "tidegate namespace set email --mode shadow",
//!     "tidegate workspace create acme",
//!     "tidegate workspace set acme --requests-per-minute unlimited",
//!     "tidegate audit --last 20",
//!     "tidegate check-config tidegate.toml --against old.toml -- --memory 1GiB",
//!     "tidegate simulate access.log --policy current.toml --against candidate.toml",
//!     "tidegate migrate --globe sqlite:limits.db --database sqlite:settings.db",
//!     "tidegate gc --audit-older-than 90d --data /var/lib/tidegate",
//!     "tidegate globe regions --globe sqlite:limits.db",
//!     "tidegate globe show --globe sqlite:l.db --namespace n --identifier i --window 1h",
//! ] {
//!     said(line)?;
//! }
//! assert!(said("tidegate serve --memory lots").is_err());
//! # Ok::<(), clap::Error>(())
//! ```

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
use tidegate::{Consistency, Outage};

mod bench;
mod client;
mod config;
mod control;
mod globe;
mod log;
mod made;
pub(crate) mod output;
mod simulate;
#[cfg(test)]
mod tests;
mod transport;
mod version;

pub use bench::{AskedArgs, BenchArgs, Rate};
pub use client::{
    ClientCommand, ExplainArgs, InspectArgs, LimitArgs, LimitsArgs, ListArgs, MultiLimitArgs,
    OverrideCommand, RequestArgs, ServerArgs, SetOverrideArgs, SubjectArgs, WhichOverrideArgs,
};
pub use config::CheckConfigArgs;
pub use control::{
    AuditArgs, ConsistencyArg, ControlArgs, DatabaseArgs, InWorkspace, KeyArgs, KeyCommand,
    KeyCreateArgs, KeyListArgs, MigrateArgs, ModeArg, NamespaceArgs, NamespaceCommand,
    NamespaceSetArgs, OutageArg, RequestsPerMinute, WorkspaceArgs, WorkspaceCommand,
    WorkspaceSetArgs,
};
pub use globe::{GcArgs, GlobeCommand, GlobeUrl, RegionsArgs, ShowArgs};
pub use log::{LogArgs, LogFormat, LogLevel};
pub use made::GenerateArgs;
pub use output::Output;
pub use simulate::{FormatArg, PolicyArgs, SimulateArgs, SuggestArgs, TraceArgs};
pub use transport::TransportArgs;

/// Smallest memory budget: a few thousand subjects. Less is a slip of the keyboard.
const MEMORY_BYTES_MIN: usize = 1 << 20;
/// Largest memory budget. More than any machine has is a slip of the keyboard too.
const MEMORY_BYTES_MAX: usize = 1 << 40;
/// Longest root key: it has to fit into a header many times over.
const KEY_CHARS_MAX: usize = 256;

const _: () = assert!(MEMORY_BYTES_MIN < MEMORY_BYTES_MAX);
const _: () = assert!(KEY_CHARS_MAX == 256, "`check_key` says it in words");

/// Where the path of the file is looked for that says the rest.
pub(crate) const CONFIG_VARIABLE: &str = "TIDEGATE_CONFIG";
/// Where the root key is looked for when it is not on the command line.
const KEY_VARIABLE: &str = "TIDEGATE_ROOT_KEY";
/// The same for the address of Redis, which may hold a password.
const REDIS_VARIABLE: &str = "TIDEGATE_REDIS";
/// The same for the fleet secret.
const FLEET_SECRET_VARIABLE: &str = "TIDEGATE_FLEET_SECRET";
/// The same for the consistency of namespaces that say nothing about it.
const CONSISTENCY_VARIABLE: &str = "TIDEGATE_CONSISTENCY";
/// What they get if nobody says anything: a limit that means what it says. See ADR 15.
const CONSISTENCY_DEFAULT: Consistency = Consistency::Bounded;

/// The same for what becomes of requests when the region cannot be asked.
const OUTAGE_VARIABLE: &str = "TIDEGATE_OUTAGE";

/// What the help begins with.
const ABOUT: &str = "A rate limiter that decides in memory, exactly and at once";

const EXAMPLES: &str = "\
Examples:
  tidegate serve
      Starts on 127.0.0.1:7600, makes a key the first time, and prints a curl line to try.

  export TIDEGATE_ROOT_KEY=$(openssl rand -hex 32)
  tidegate serve --listen 0.0.0.0:7600 --plain-http --memory 1GiB
      Answers other machines, to a key of your choice too, with room for more subjects. TLS ends
      in front of it; in a build with the feature `tls`, --tls-cert and --tls-key do without.

  tidegate serve --redis redis://127.0.0.1:6379
  tidegate serve --redis redis://127.0.0.1:6379 --listen 127.0.0.1:7601
      Two processes of one region: what one admits counts for the other.

  export TIDEGATE_GLOBE=sqlite:limits.db
  tidegate migrate
  tidegate key create
  tidegate serve --region eu
  tidegate serve --region us --listen 127.0.0.1:7601
      Two regions: limits of a minute and longer are shared within seconds. Keys and overrides are
      in that database too.";

const REDIS_HELP: &str = "\
The Redis or Valkey through which the processes of a region share their limits.

One server:     redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]
With Sentinels: redis://HOST,HOST,HOST/?sentinel=NAME_OF_THE_MASTER
A cluster:      redis://HOST,HOST/?cluster=true

`prefix=TEXT` after the `?` changes what the keys begin with. rediss:// encrypts, in a build with \
the feature `tls`. While Redis is away, each process answers on what it knows. Prefer the \
environment variable if there is a password: a command line can be read by every user.";

/// What was said, as it is read from a command line. The [module](self) has an example.
#[derive(Debug, Parser)]
#[command(name = "tidegate", about = ABOUT, version, long_version = version::LONG.as_str())]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What `tidegate` can do. The [module](crate::cli) has an example.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Answer requests over HTTP until Ctrl-C.
    #[command(after_help = EXAMPLES)]
    Serve(ServeArgs),
    /// Say what a server would run with, and what is wrong with it.
    CheckConfig(CheckConfigArgs),
    /// Make the tables of a database, or bring them up to date.
    Migrate(MigrateArgs),
    /// Make, list and end keys.
    #[command(subcommand)]
    Key(KeyCommand),
    /// List namespaces, and say what they do.
    #[command(subcommand)]
    Namespace(NamespaceCommand),
    /// Make, list and change workspaces.
    #[command(subcommand)]
    Workspace(WorkspaceCommand),
    /// Show who changed what.
    Audit(AuditArgs),
    /// Delete what expired in the store that regions share, or what is old in the audit: for cron.
    Gc(GcArgs),
    /// Look into the store that regions share.
    #[command(subcommand)]
    Globe(GlobeCommand),
    /// Try limits on the traffic of a log: whom would they have denied?
    Simulate(Box<SimulateArgs>),
    /// What is said to a server.
    #[command(flatten)]
    Client(ClientCommand),
}

/// How to serve. The [module](crate::cli) has an example.
#[derive(Args, Clone)]
pub struct ServeArgs {
    /// A file that says what is not said here: docs/configuration.md and packaging/tidegate.toml.
    ///
    /// It is TOML, and has a key for each of these options. Flags are nearer than their variables,
    /// those nearer than TIDEGATE__SECTION__KEY, and that is nearer than the file. SIGHUP and a
    /// change of the file make the server read it again. `tidegate check-config` says what it comes
    /// to.
    #[arg(long, value_name = "PATH", env = CONFIG_VARIABLE)]
    pub config: Option<PathBuf>,

    /// Address and port to listen on; port 0 takes any that is free.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7600", value_parser = listen)]
    pub listen: SocketAddr,

    /// Memory for subjects, in bytes or with a unit: KiB, MiB or GiB.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = memory)]
    pub memory: usize,

    /// A key that callers may send as `Authorization: Bearer <KEY>`, beside those that were made
    /// with `tidegate key create`. It may do everything in the workspace `default`, and is stored
    /// nowhere.
    ///
    /// Without it, the first start makes a key and prints it, if the database is a file of SQLite.
    /// For any other, make one with `tidegate key create` before.
    ///
    /// Prefer the environment variable: a command line can be read by every user of the machine.
    #[arg(long, value_name = "KEY", env = KEY_VARIABLE, hide_env_values = true)]
    // Of any shape: clap would print a value that it refuses, and this one is a secret. It is
    // looked at by `check_key`.
    pub root_key: Option<String>,

    /// Where keys and overrides are, and the counts of a process on its own.
    #[command(flatten)]
    pub place: DatabaseArgs,

    /// The Redis or Valkey through which the processes of a region share their limits.
    #[arg(
        long,
        value_name = "URL",
        env = REDIS_VARIABLE,
        hide_env_values = true,
        long_help = REDIS_HELP
    )]
    // Read by `Region::parse`, for the same reason.
    pub redis: Option<String>,

    /// 64 hexadecimal digits, the same in all processes that share a Redis or a database.
    ///
    /// With it, whoever can read these cannot find out which key belongs to whom. Processes
    /// with different secrets do not share limits. Prefer the environment variable.
    #[arg(long, value_name = "HEX", env = FLEET_SECRET_VARIABLE, hide_env_values = true)]
    // Read by `fleet_secret_bytes`, for the same reason.
    pub fleet_secret: Option<String>,

    /// The database through which regions share their limits.
    #[arg(
        long,
        value_name = "URL",
        env = globe::GLOBE_VARIABLE,
        hide_env_values = true,
        long_help = globe::GLOBE_HELP
    )]
    // Read by `Globe::parse`, for the same reason.
    pub globe: Option<String>,

    /// The name of the region this process is in; needed with --globe.
    #[arg(long, value_name = "NAME", env = globe::REGION_VARIABLE, long_help = globe::REGION_HELP)]
    pub region: Option<String>,

    /// How many regions there are at most; the same in all of them.
    ///
    /// The more there are, the sooner each tells the others what it used.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 10,
        value_parser = clap::value_parser!(u16).range(1..=1_000)
    )]
    pub regions_max: u16,

    /// What admissions are worth in namespaces that do not say it themselves.
    ///
    /// It matters to processes that share a Redis. `fast` decides in memory: a burst at several
    /// processes at once may exceed the limit. `bounded` lets Redis grant what is more than a
    /// small share of the room: the limit holds in a burst, at one round trip.
    /// `tidegate namespace set --consistency` says it of one namespace.
    #[arg(
        long,
        value_name = "CONSISTENCY",
        env = CONSISTENCY_VARIABLE,
        default_value = CONSISTENCY_DEFAULT.as_str(),
        value_parser = consistency()
    )]
    pub consistency: Consistency,

    /// What becomes of requests when the region should be asked and cannot be, in namespaces that
    /// do not say it themselves.
    ///
    /// It matters to processes that share a Redis. `local` decides on what this process knows:
    /// rather too much than nothing. `deny` denies what it would have had to ask Redis for: rather
    /// nothing than too much. `tidegate namespace set --outage` says it of one namespace.
    #[arg(
        long,
        value_name = "OUTAGE",
        env = OUTAGE_VARIABLE,
        default_value = Outage::Local.as_str(),
        value_parser = outage()
    )]
    pub outage: Outage,

    /// How connections are taken in and ended.
    #[command(flatten)]
    pub transport: TransportArgs,

    /// What is said while it runs.
    #[command(flatten)]
    pub log: LogArgs,
}

impl ServeArgs {
    /// What is wrong with the root key, in words that do not repeat it.
    pub(crate) fn check_key(&self) -> Result<(), &'static str> {
        let Some(key) = &self.root_key else { return Ok(()) };
        // What can be sent in a header without quoting.
        if key.is_empty() || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err("must be of visible ASCII characters, without spaces");
        }
        if key.len() > KEY_CHARS_MAX {
            return Err("must have at most 256 characters");
        }
        Ok(())
    }

    /// The bytes of the fleet secret, if there is one; `Err` if they are not to be read.
    pub(crate) fn fleet_secret_bytes(&self) -> Result<Option<[u8; 32]>, &'static str> {
        fleet_secret_bytes(self.fleet_secret.as_deref())
    }

    /// Whether a shell like the one that started us has the key in its environment.
    pub(crate) fn has_key_in_environment(&self) -> bool {
        std::env::var(KEY_VARIABLE).ok() == self.root_key
    }
}

impl std::fmt::Debug for ServeArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The key and the fleet secret are secrets, and the addresses may hold one.
        let mut debug = f.debug_struct("ServeArgs");
        debug.field("listen", &self.listen).field("memory", &self.memory).finish_non_exhaustive()
    }
}

/// The bytes of a fleet secret.
pub(crate) fn fleet_secret_bytes(text: Option<&str>) -> Result<Option<[u8; 32]>, &'static str> {
    let Some(text) = text else { return Ok(None) };
    let bytes = hexadecimal(text).ok_or("must have 64 hexadecimal digits")?;
    Ok(Some(bytes))
}

fn consistency() -> impl TypedValueParser<Value = Consistency> {
    let (fast, bounded) = (Consistency::Fast.as_str(), Consistency::Bounded.as_str());
    PossibleValuesParser::new([fast, bounded])
        .map(move |text| if text == bounded { Consistency::Bounded } else { Consistency::Fast })
}

fn outage() -> impl TypedValueParser<Value = Outage> {
    let (local, deny) = (Outage::Local.as_str(), Outage::Deny.as_str());
    PossibleValuesParser::new([local, deny])
        .map(move |text| if text == deny { Outage::Deny } else { Outage::Local })
}

fn hexadecimal(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 2 * bytes.len() {
        return None;
    }
    let mut digits = text.chars().map(|char| char.to_digit(16).and_then(|d| u8::try_from(d).ok()));
    for byte in &mut bytes {
        *byte = digits.next()?? << 4 | digits.next()??;
    }
    Some(bytes)
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| {
        "expected an IP address and a port, such as 127.0.0.1:7600 or [::1]:7600".to_owned()
    })
}

fn memory(text: &str) -> Result<usize, String> {
    let digits_end = text.find(|char: char| !char.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits_end);
    let shift = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "kib" => 10,
        "mib" => 20,
        "gib" => 30,
        _ => return Err("expected a number of bytes, or one with KiB, MiB or GiB".to_owned()),
    };
    let number: usize = number.parse().map_err(|_| "expected a size, such as 256MiB".to_owned())?;
    match number.checked_mul(1 << shift) {
        Some(bytes) if bytes < MEMORY_BYTES_MIN => Err("must be at least 1MiB".to_owned()),
        Some(bytes) if bytes <= MEMORY_BYTES_MAX => Ok(bytes),
        _ => Err("must be at most 1024GiB".to_owned()),
    }
}
