//! What can be said about the store that regions share.

use clap::{Args, Subcommand};
pub(super) use tidegate_trial::duration_ms;

use super::control::lifetime_ms;
use super::{DatabaseArgs, Output};

/// Where its address is looked for; it may hold a password.
pub(super) const GLOBE_VARIABLE: &str = "TIDEGATE_GLOBE";
/// The same for the name of the region.
pub(super) const REGION_VARIABLE: &str = "TIDEGATE_REGION";

pub(super) const GLOBE_HELP: &str = "\
The database through which regions share their limits, of windows of a minute and longer.

MySQL or MariaDB:    mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE[?socket=/PATH]
encrypted:           mysql://USER[:PASSWORD]@HOST[:PORT]/DATABASE?tls=true[&ca=/PATH]
A file, one machine: sqlite:PATH

Run `tidegate migrate` first. Workspaces, keys, namespaces and overrides are there too, unless \
--database names another. No request ever waits for it; while it is away, each region answers on \
what it knows. Prefer the environment variable if there is a password: a command line can be read \
by every user.";

pub(super) const REGION_HELP: &str = "\
The name of the region this process is in: 1 to 48 visible characters, such as eu-central-1.

All processes of a region have the same name and the same Redis; no two regions have the same \
name. A region without a Redis is one process. There is no default: two regions that called \
themselves the same would each take the other's counts for its own.";

const GC_EXAMPLES: &str = "\
Exit codes: 0 nothing of the kind is left, 3 more is left, 2 said wrongly or the tables are \
missing, 1 the database did not answer or the user may not delete.

For cron, every ten minutes what expired, and every night what is old:
  */10 * * * *  TIDEGATE_GLOBE=mysql://tidegate@db/tidegate tidegate gc
  0 3 * * *     TIDEGATE_GLOBE=mysql://tidegate_gc@db/tidegate tidegate gc --audit-older-than 90d

Servers delete nothing of the audit, and in MySQL their user has no right to: docs/globe.md says
what the user `tidegate_gc` needs.";

const SHOW_EXAMPLES: &str = "\
Example:
  tidegate globe show --globe sqlite:limits.db --namespace email --identifier user-1 --window 1h

With TIDEGATE_FLEET_SECRET set for the servers it has to be set here too: subjects are kept under \
names that are made with it.";

/// Where the shared store is. The [module](crate::cli) has an example.
#[derive(Args, Clone)]
pub struct GlobeUrl {
    /// The database: mysql://USER:PASSWORD@HOST/DATABASE or sqlite:PATH.
    #[arg(long, value_name = "URL", env = GLOBE_VARIABLE, hide_env_values = true)]
    // Read by `Database::parse`: clap would print a value that it refuses.
    pub globe: String,
}

impl std::fmt::Debug for GlobeUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("GlobeUrl").finish_non_exhaustive()
    }
}

/// How to delete what expired, and what is old. The [module](crate::cli) has an example.
#[derive(Args, Clone)]
#[command(after_help = GC_EXAMPLES)]
#[group(required = true, multiple = true, args = ["globe", "audit_older_than"])]
pub struct GcArgs {
    /// The database that regions share: what expired there is deleted.
    #[arg(long, value_name = "URL", env = GLOBE_VARIABLE, hide_env_values = true)]
    // Read by `Database::parse`: clap would print a value that it refuses.
    pub globe: Option<String>,
    /// Where the audit is.
    #[command(flatten)]
    pub place: DatabaseArgs,
    /// Delete also what the audit says of changes that are older, such as 90d. The audit is kept
    /// for ever unless this is said.
    #[arg(long, value_name = "DURATION", value_parser = lifetime_ms)]
    pub audit_older_than: Option<u64>,
    /// Most rows deleted at a time.
    #[arg(
        long,
        value_name = "ROWS",
        default_value_t = 1_000,
        value_parser = clap::value_parser!(u32).range(1..=10_000)
    )]
    pub batch: u32,
    /// Most times.
    #[arg(
        long,
        value_name = "TIMES",
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    pub max_batches: u32,
    /// For people, or for programs.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

impl std::fmt::Debug for GcArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut debug = f.debug_struct("GcArgs");
        debug.field("audit_older_than", &self.audit_older_than).finish_non_exhaustive()
    }
}

/// What can be looked at. The [module](crate::cli) has an example.
#[derive(Clone, Debug, Subcommand)]
pub enum GlobeCommand {
    /// Show what each region has published of one subject.
    Show(ShowArgs),
    /// List the regions: number, name, and when they were last seen.
    Regions(RegionsArgs),
}

/// Whose regions to list. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
pub struct RegionsArgs {
    /// Which database.
    #[command(flatten)]
    pub url: GlobeUrl,
    /// For people, or for programs.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

/// Which subject to show. The [module](crate::cli) has an example.
#[derive(Args, Clone)]
#[command(after_help = SHOW_EXAMPLES)]
pub struct ShowArgs {
    /// Which database.
    #[command(flatten)]
    pub url: GlobeUrl,
    /// The id of the workspace, as `tidegate workspace list` shows it.
    #[arg(long, default_value = crate::control_tools::DEFAULT_ID)]
    pub workspace: String,
    /// The name of the namespace.
    #[arg(long)]
    pub namespace: String,
    /// The identifier.
    #[arg(long)]
    pub identifier: String,
    /// The length of the window: a number with ms, s, m, h or d.
    #[arg(long, value_name = "DURATION", value_parser = duration_ms)]
    pub window: u64,
    /// The fleet secret of the servers, if they have one.
    #[arg(
        long,
        value_name = "HEX",
        env = super::FLEET_SECRET_VARIABLE,
        hide_env_values = true
    )]
    pub fleet_secret: Option<String>,
    /// For people, or for programs.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
}

impl std::fmt::Debug for ShowArgs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ShowArgs").field("window", &self.window).finish_non_exhaustive()
    }
}
