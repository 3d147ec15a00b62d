//! Everything that can be said to `serve`, by its name in the file.
//!
//! One table: the file, the overlay, `check-config`, a reload and the pages of the documentation
//! are made from it, and tests hold the flags of `serve` against it.

/// One thing that can be set.
#[derive(Debug)]
pub(crate) struct Knob {
    /// Its section in the file.
    pub(crate) section: &'static str,
    /// Its name there.
    pub(crate) key: &'static str,
    /// The flag that it is, as clap names it.
    pub(crate) id: &'static str,
    /// How it is written in the file.
    pub(crate) kind: Kind,
    /// Whether a running server can take another value.
    pub(crate) reload: Reload,
    /// Whether it is never shown. `<key>_file` then names a file that it is read from.
    pub(crate) secret: bool,
}

/// How a value is written in the file. What it may be is said by the flag, and only there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A string.
    Text,
    /// A number, or a string with one.
    Number,
    /// `true` or `false`.
    Flag,
}

/// What becomes of another value while the server runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reload {
    /// It is taken at once.
    Live,
    /// It is taken at once if there was one at the start, and there still is.
    WhileSet,
    /// It waits for a restart.
    Restart,
}

impl Knob {
    const fn new(section: &'static str, key: &'static str, id: &'static str, kind: Kind) -> Self {
        Self { section, key, id, kind, reload: Reload::Restart, secret: false }
    }

    const fn live(mut self, reload: Reload) -> Self {
        self.reload = reload;
        self
    }

    const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// The variable that overlays it.
    pub(crate) fn variable(&self) -> String {
        let (section, key) = (self.section.to_uppercase(), self.key.to_uppercase());
        format!("{PREFIX}{section}__{key}")
    }
}

/// What the names of overlaying variables begin with.
pub(crate) const PREFIX: &str = "TIDEGATE__";
/// What the name of a key ends with that names a file with the value in it.
pub(crate) const FILE: &str = "_file";

use Kind::{Flag, Number, Text};
use Reload::{Live, WhileSet};

/// All of them, section by section.
pub(crate) const KNOBS: &[Knob] = &[
    Knob::new("server", "listen", "listen", Text),
    Knob::new("server", "root_key", "root_key", Text).secret(),
    Knob::new("server", "memory", "memory", Number),
    Knob::new("server", "retire_for", "retire_for", Text).live(Live),
    Knob::new("server", "connections_max", "connections_max", Number).live(Live),
    Knob::new("server", "connections_per_address_max", "connections_per_address_max", Number)
        .live(Live),
    Knob::new("server", "plain_http", "plain_http", Flag),
    Knob::new("server", "tls_cert", "tls_cert", Text).live(WhileSet),
    Knob::new("server", "tls_key", "tls_key", Text).live(WhileSet),
    Knob::new("admin", "listen", "admin_listen", Text),
    Knob::new("admin", "exposed", "admin_exposed", Flag),
    Knob::new("admin", "metrics_workspaces", "metrics_workspaces", Number),
    Knob::new("settings", "database", "database", Text).secret(),
    Knob::new("settings", "data", "data", Text),
    Knob::new("region", "name", "region", Text),
    Knob::new("region", "redis", "redis", Text).secret(),
    Knob::new("region", "fleet_secret", "fleet_secret", Text).secret(),
    Knob::new("region", "consistency", "consistency", Text).live(Live),
    Knob::new("region", "outage", "outage", Text).live(Live),
    Knob::new("globe", "url", "globe", Text).secret(),
    Knob::new("globe", "regions_max", "regions_max", Number),
    Knob::new("log", "format", "log_format", Text),
    Knob::new("log", "level", "log_level", Text).live(Live),
];

/// The sections, in order.
pub(crate) fn sections() -> Vec<&'static str> {
    let mut sections: Vec<&str> = KNOBS.iter().map(|knob| knob.section).collect();
    sections.dedup();
    sections
}

/// The keys of a section, those of files included.
pub(crate) fn keys(section: &str) -> Vec<String> {
    let of_section = KNOBS.iter().filter(|knob| knob.section == section);
    let names = |knob: &Knob| {
        let file = knob.secret.then(|| format!("{}{FILE}", knob.key));
        [Some(knob.key.to_owned()), file].into_iter().flatten()
    };
    of_section.flat_map(names).collect()
}

/// A knob by its name in the file, and whether it is the name for a file with the value in it.
pub(crate) fn find(section: &str, key: &str) -> Option<(&'static Knob, bool)> {
    let named = |key: &str| KNOBS.iter().find(|knob| knob.section == section && knob.key == key);
    let in_file = || named(key.strip_suffix(FILE)?).filter(|knob| knob.secret);
    let plain = named(key).map(|knob| (knob, false));
    plain.or_else(|| in_file().map(|knob| (knob, true)))
}
