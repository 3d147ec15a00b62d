//! What can be said about workspaces, keys, namespaces and the audit.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::Output;
use super::globe::{GLOBE_VARIABLE, duration_ms};
use crate::control::permission::is_permission;

/// Where the address of the database is looked for; it may hold a password.
pub(super) const DATABASE_VARIABLE: &str = "TIDEGATE_DATABASE";
/// The same for the data directory.
pub(super) const DATA_VARIABLE: &str = "TIDEGATE_DATA";

const DATABASE_HELP: &str = "\
The database that holds workspaces, keys, namespaces and overrides.

A file, one machine: sqlite:PATH
MySQL or MariaDB:    mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?socket=/PATH]
encrypted:           mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE?tls=true[&ca=/PATH]

Unless said otherwise it is that of --globe, or the file tidegate.db in the data directory. Any \
other than that file has to be made ready by `tidegate migrate`. Prefer the environment variable \
if there is a password: a command line can be read by every user.";

const DATA_HELP: &str = "\
The data directory; $XDG_DATA_HOME/tidegate or ~/.local/share/tidegate unless said otherwise.";

const KEY_EXAMPLES: &str = "\
Examples:
  tidegate key create --name backend
      Makes a key that may do everything in the workspace `default`, and prints it. It is printed
      once: only its digest is kept.

  tidegate key create --name edge --permission 'ratelimit.*.limit' --expires-in 30d
      A key that can spend in the namespaces that are there, and nothing else, for a month.

  tidegate key list
  tidegate key revoke key_3kXo9aT2z
      A key that was revoked never works again. Servers notice within two seconds.

A permission is ratelimit.NAMESPACE_ID.ACTION or ratelimit.*.ACTION. The actions are limit,
create_namespace, set_override, read_override, delete_override and look (explain and inspect).

Servers know a new key within two seconds. Exit codes: 0 done, 2 said wrongly, not found or the \
tables are missing, 1 it could not be done.";

const NAMESPACE_EXAMPLES: &str = "\
Examples:
  tidegate namespace list
  tidegate namespace set email --mode shadow
      Counts and answers as before, but lets everybody through: to try a limit out.
  tidegate namespace set email --mode off
      Lets everybody through and counts nothing.
  tidegate namespace set email --consistency bounded
      Holds the limit in a burst at several processes too: what is more than a small share of the
      room is granted by Redis first. `default` is what `tidegate serve --consistency` says.
  tidegate namespace set email --outage deny
      Admits nothing for which Redis should be asked and cannot be. `local` decides on what the
      process knows, `default` is what `tidegate serve --outage` says.
  tidegate namespace delete email
  tidegate namespace restore email
      What was deleted keeps its name and its overrides, and can be restored.

A namespace comes to be by the first `tidegate limit` on it. It is named by its id or its
name. Servers notice within two seconds.

Exit codes: 0 done, 2 said wrongly, not found or the tables are missing, 1 it could not be done.";

const WORKSPACE_EXAMPLES: &str = "\
Examples:
  tidegate workspace create acme
  tidegate key create --workspace acme
  tidegate workspace set acme --requests-per-minute 6000
  tidegate workspace set acme --requests-per-minute unlimited
  tidegate workspace set acme --enabled false
      None of its keys work until it is enabled again.

A workspace is named by its id or its name. Servers notice within two seconds.

Exit codes: 0 done, 2 said wrongly, not found or the tables are missing, 1 it could not be done.";

const AUDIT_EXAMPLES: &str = "\
Example:
  tidegate audit --workspace acme --last 20 --output json

Newest first. The actor is the id of a key, `cli` for these commands, or `serve` for what a server
made at its first start.";

const MIGRATE_EXAMPLES: &str = "\
Examples:
  TIDEGATE_GLOBE=mysql://tidegate_migrate@db/tidegate tidegate migrate
      Once, and after upgrades, before servers with this --globe start.

  tidegate migrate --globe mysql://… --database mysql://…
      Makes the tables of both.

  tidegate migrate
      Of the file in the data directory. `tidegate serve` makes that one by itself.

Exit codes: 0 the tables are as they should be, 2 said wrongly or the tables are newer than this \
program, 1 it could not be done.";

/// Where the database is. The [module](crate::cli) has an example.
#[derive(Args, Clone)]
pub struct DatabaseArgs {
    /// The database: sqlite:PATH or mysql://USER:PASSWORD@HOST/DATABASE.
    #[arg(
        long,
        value_name = "URL",
        env = DATABASE_VARIABLE,
        hide_env_values = true,
        long_help = DATABASE_HELP
    )]
    // Read by `Database::parse`: clap would print a value that it refuses.
    pub database: Option<String>,
    /// The data directory.
    #[arg(long, value_name = "DIR", env = DATA_VARIABLE, long_help = DATA_HELP)]
    pub data: Option<PathBuf>,
}

impl std::fmt::Debug for DatabaseArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DatabaseArgs").field("data", &self.data).finish_non_exhaustive()
    }
}

/// What all of these commands are told. The [module](crate::cli) has an example.
#[derive(Args, Clone)]
pub struct ControlArgs {
    /// Which database.
    #[command(flatten)]
    pub place: DatabaseArgs,
    /// The database that regions share; it is used unless --database names another.
    #[arg(long, value_name = "URL", env = GLOBE_VARIABLE, hide_env_values = true)]
    // Read by `Database::parse`, for the same reason.
    pub globe: Option<String>,
    /// For people, or for programs.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

impl std::fmt::Debug for ControlArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("ControlArgs");
        debug.field("place", &self.place).field("output", &self.output).finish_non_exhaustive()
    }
}

/// Which workspace, and what all commands are told. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct InWorkspace {
    /// The workspace, by id or name.
    #[arg(long, value_name = "WORKSPACE", default_value = crate::control_tools::DEFAULT_NAME)]
    pub workspace: String,
    /// The rest.
    #[command(flatten)]
    pub control: ControlArgs,
}

/// What can be done with keys. The [module](crate::cli) has an example.
#[derive(Clone, Debug, Subcommand)]
#[command(after_help = KEY_EXAMPLES)]
pub enum KeyCommand {
    /// Make a key and print it, once.
    #[command(after_help = KEY_EXAMPLES)]
    Create(KeyCreateArgs),
    /// List the keys of all workspaces, or of one.
    List(KeyListArgs),
    /// End a key for ever.
    Revoke(KeyArgs),
    /// Let a key not work for now.
    Disable(KeyArgs),
    /// Let a key that was disabled work again.
    Enable(KeyArgs),
}

/// Which key to make. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct KeyCreateArgs {
    /// Where, and how it is printed.
    #[command(flatten)]
    pub to: InWorkspace,
    /// What people call it.
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub name: String,
    /// What it may do; can be said several times. Everything unless said otherwise.
    #[arg(long = "permission", value_name = "PERMISSION", value_parser = permission)]
    pub permissions: Vec<String>,
    /// After how long it ends, such as 12h or 30d. Never unless said otherwise.
    #[arg(long, value_name = "DURATION", value_parser = lifetime_ms)]
    pub expires_in: Option<u64>,
}

/// Which keys to list. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct KeyListArgs {
    /// Only those of this workspace, by id or name.
    #[arg(long, value_name = "WORKSPACE")]
    pub workspace: Option<String>,
    /// The rest.
    #[command(flatten)]
    pub control: ControlArgs,
}

/// One key. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct KeyArgs {
    /// Its id, such as key_3kXo9aT2z. Not the key itself.
    #[arg(value_name = "ID")]
    pub id: String,
    /// The rest.
    #[command(flatten)]
    pub control: ControlArgs,
}

/// What can be done with namespaces. The [module](crate::cli) has an example.
#[derive(Clone, Debug, Subcommand)]
#[command(after_help = NAMESPACE_EXAMPLES)]
pub enum NamespaceCommand {
    /// List the namespaces of a workspace, deleted ones too.
    List(InWorkspace),
    /// Say what a namespace does.
    #[command(after_help = NAMESPACE_EXAMPLES)]
    Set(NamespaceSetArgs),
    /// Delete a namespace; it can be restored.
    Delete(NamespaceArgs),
    /// Restore one that was deleted.
    Restore(NamespaceArgs),
}

/// One namespace. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct NamespaceArgs {
    /// Its id or name.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Where, and how it is printed.
    #[command(flatten)]
    pub of: InWorkspace,
}

/// What a namespace does from now on. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = true, args = ["mode", "consistency", "outage"])]
pub struct NamespaceSetArgs {
    /// Which one.
    #[command(flatten)]
    pub which: NamespaceArgs,
    /// What it does.
    #[arg(long, value_name = "MODE")]
    pub mode: Option<ModeArg>,
    /// What its admissions are worth.
    #[arg(long, value_name = "CONSISTENCY")]
    pub consistency: Option<ConsistencyArg>,
    /// What becomes of its requests when the region should be asked and cannot be.
    #[arg(long, value_name = "OUTAGE")]
    pub outage: Option<OutageArg>,
}

/// What can become of a request when the region cannot be asked. The [module](crate::cli) has an
/// example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutageArg {
    /// Decide on what the process knows: rather too much than nothing.
    Local,
    /// Deny it: rather nothing than too much.
    Deny,
    /// What the server says.
    Default,
}

/// What the admissions of a namespace can be worth. The [module](crate::cli) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ConsistencyArg {
    /// Decided in memory: a burst at several processes at once may exceed the limit.
    Fast,
    /// Granted by the region beyond a small share of the room: the limit holds in a burst.
    Bounded,
    /// What the server says.
    Default,
}

/// What a namespace can do. The [module](crate::cli) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// Apply its limits.
    Enforce,
    /// Count, and let everybody through.
    Shadow,
    /// Let everybody through and count nothing.
    Off,
}

/// What can be done with workspaces. The [module](crate::cli) has an example.
#[derive(Clone, Debug, Subcommand)]
#[command(after_help = WORKSPACE_EXAMPLES)]
pub enum WorkspaceCommand {
    /// Make a workspace.
    Create(WorkspaceArgs),
    /// List them.
    List(ControlArgs),
    /// Change one.
    #[command(after_help = WORKSPACE_EXAMPLES)]
    Set(WorkspaceSetArgs),
}

/// One workspace. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct WorkspaceArgs {
    /// Its name; to change one, its id will do as well.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// The rest.
    #[command(flatten)]
    pub control: ControlArgs,
}

/// How a workspace is to be. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = true, args = ["enabled", "requests_per_minute"])]
pub struct WorkspaceSetArgs {
    /// Which one.
    #[command(flatten)]
    pub which: WorkspaceArgs,
    /// Whether its keys work.
    #[arg(long, value_name = "BOOL")]
    pub enabled: Option<bool>,
    /// How many calls it may make in a minute: a number, or `unlimited`.
    #[arg(long, value_name = "NUMBER", value_parser = requests_per_minute)]
    pub requests_per_minute: Option<RequestsPerMinute>,
}

/// A number of calls, or any. The [module](crate::cli) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestsPerMinute(pub Option<u64>);

/// Which part of the audit. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
#[command(after_help = AUDIT_EXAMPLES)]
pub struct AuditArgs {
    /// Only what happened to this workspace, by id or name.
    #[arg(long, value_name = "WORKSPACE")]
    pub workspace: Option<String>,
    /// How many lines.
    #[arg(
        long,
        value_name = "LINES",
        default_value_t = 50,
        value_parser = clap::value_parser!(u32).range(1..=100_000)
    )]
    pub last: u32,
    /// The rest.
    #[command(flatten)]
    pub control: ControlArgs,
}

/// Which tables to make: those of the shared store, those of the control plane, or both. They are
/// the same tables, so one database can be both. The [module](crate::cli) has an example.
#[derive(Args, Clone)]
#[command(after_help = MIGRATE_EXAMPLES)]
pub struct MigrateArgs {
    /// The store that regions share.
    #[arg(long, value_name = "URL", env = GLOBE_VARIABLE, hide_env_values = true)]
    // Read by `Database::parse`, for the same reason as the other.
    pub globe: Option<String>,
    /// The database of the control plane.
    #[command(flatten)]
    pub place: DatabaseArgs,
    /// For people, or for programs.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

impl std::fmt::Debug for MigrateArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MigrateArgs").field("place", &self.place).finish_non_exhaustive()
    }
}

fn permission(text: &str) -> Result<String, String> {
    if is_permission(text) && text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Ok(text.to_owned());
    }
    Err("expected ratelimit.NAMESPACE_ID.ACTION or ratelimit.*.ACTION; the actions are limit, \
         create_namespace, set_override, read_override, delete_override and look"
        .to_owned())
}

/// A duration that is not nothing.
pub(super) fn lifetime_ms(text: &str) -> Result<u64, String> {
    match duration_ms(text)? {
        0 => Err("expected more than nothing".to_owned()),
        ms => Ok(ms),
    }
}

fn requests_per_minute(text: &str) -> Result<RequestsPerMinute, String> {
    if text == "unlimited" {
        return Ok(RequestsPerMinute(None));
    }
    let number = text.parse().map_err(|_| "expected a number, or `unlimited`".to_owned())?;
    Ok(RequestsPerMinute(Some(number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permissions_that_nobody_would_ever_ask_for_are_refused() {
        for good in [
            "ratelimit.*.limit",
            "ratelimit.rlns_3kXo9aT2z.set_override",
            "ratelimit.*.look",
            "unkey:v1:ws_1:ratelimits/**#read_override",
        ] {
            assert_eq!(permission(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "limit",
            "ratelimit.limit",
            "ratelimit.*.limits",
            "ratelimit..limit",
            "ratelimit.*.limit.x",
            "ratelimit.*.limit\n",
            "ratelimit.a b.limit",
            "tidegate.*.read",
        ] {
            assert!(permission(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn numbers_of_requests_are_read() {
        assert_eq!(requests_per_minute("unlimited"), Ok(RequestsPerMinute(None)));
        assert_eq!(requests_per_minute("0"), Ok(RequestsPerMinute(Some(0))));
        assert!(requests_per_minute("many").is_err());
        assert!(lifetime_ms("0s").is_err() && lifetime_ms("30d") == Ok(2_592_000_000));
    }
}
