//! What can be said to `check-config`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::{CONFIG_VARIABLE, Output};

const EXAMPLES: &str = "\
Examples:
  tidegate check-config /etc/tidegate/tidegate.toml
      Everything that a server would run with, and where it comes from. Nothing is connected to.

  tidegate check-config new.toml --against /etc/tidegate/tidegate.toml
      Also what would change, and what of it needs a restart.

  tidegate check-config tidegate.toml -- --listen 0.0.0.0:7600 --plain-http
      With flags of `tidegate serve`.

The variables of the environment count as they do for a server.

Exit codes: 0 a server would begin, 2 it would not.";

/// What to check. The [module](crate::cli) has an example.
#[derive(Args, Clone, Debug)]
#[command(after_help = EXAMPLES)]
pub struct CheckConfigArgs {
    /// The file. Without one, what variables and flags come to.
    #[arg(value_name = "PATH", env = CONFIG_VARIABLE)]
    pub path: Option<PathBuf>,
    /// Say what is different from this other file.
    #[arg(long, value_name = "OTHER")]
    pub against: Option<PathBuf>,
    /// For people, or for programs.
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    pub output: Output,
    /// What `tidegate serve` would be given beside it.
    #[arg(last = true, value_name = "FLAGS")]
    pub flags: Vec<OsString>,
}
