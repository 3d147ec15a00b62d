//! Every event: its name, its level, its words and its fields. The names are a promise to whoever
//! searches and alarms by them; `docs/logs.md` lists them, and a test keeps it so.

use std::net::SocketAddr;

use super::Level;
use super::text::{Field, Text, Value};

/// What is the same in all events of one name.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) level: Level,
    pub(super) message: &'static str,
    /// In the order in which they are written.
    pub(super) fields: &'static [&'static str],
}

/// One row for each event: variant, name, level, words, fields.
macro_rules! events {
    ($(
        $(#[$doc:meta])*
        $variant:ident, $name:literal, $level:ident, $message:literal,
        { $( $field:ident: $type:ty ),* $(,)? };
    )*) => {
        /// Something that happened. The module has the rules.
        #[derive(Clone, Debug)]
        pub(crate) enum Event {
            $( $(#[$doc])* $variant { $( $field: $type ),* } ),*
        }

        impl Event {
            /// What it has in common with its like.
            pub(super) const fn kind(&self) -> &'static Kind {
                match self {
                    $( Self::$variant { .. } => &Kind {
                        name: $name,
                        level: Level::$level,
                        message: $message,
                        fields: &[ $( stringify!($field) ),* ],
                    } ),*
                }
            }

            /// Its fields.
            pub(super) fn values(&self) -> Vec<(&'static str, Value<'_>)> {
                match self {
                    $( Self::$variant { $( $field ),* } => {
                        vec![ $( (stringify!($field), $field.value()) ),* ]
                    } ),*
                }
            }

            /// All there are.
            #[cfg(test)]
            pub(super) const KINDS: &[Kind] = &[
                $( Kind {
                    name: $name,
                    level: Level::$level,
                    message: $message,
                    fields: &[ $( stringify!($field) ),* ],
                } ),*
            ];
        }
    };
}

impl Event {
    /// Whether it is held to a rate. What an operator did, and what became of it, is said each
    /// time; a configuration that is read again and again as it was is not.
    pub(super) const fn is_held(&self) -> bool {
        match self {
            Self::ConfigReloaded { changed, .. } => *changed == 0,
            Self::ConfigNotTaken { .. } | Self::KeyMade { .. } | Self::NotStarted { .. } => false,
            _ => true,
        }
    }
}

events! {
    // The process.

    /// It serves. In the form for people the welcome says it.
    Started, "started", Info, "the server listens", {
        version: &'static str,
        address: SocketAddr,
        tls: bool,
        admin: Option<SocketAddr>,
        memory_bytes: u64,
        subjects_max: u64,
        settings: Text,
        region: Option<Text>,
        region_store: Option<Text>,
        globe: Option<Text>,
        root_key: &'static str,
    };
    /// It does not serve.
    NotStarted, "not_started", Error, "the server cannot begin", { why: Text };
    /// There was no key. It is in this file, never in the log.
    KeyMade, "key_made", Warn,
        "the first root key was made and is in this file: read it, keep it, delete the file",
        { path: Text };
    /// The first signal, with time for load balancers to notice.
    Retiring, "retiring", Info, "clients are sent elsewhere, and /readyz says 503", { for_ms: u64 };
    /// The listener is closed.
    Stopping, "stopping", Info, "what is in flight is finished, and what was admitted is recorded",
        { hurried: bool };
    /// The end takes longer than it usually does.
    DrainSlow, "drain_slow", Warn, "the end takes long: something does not finish or answer",
        { waited_ms: u64, connections: u64 };
    /// The last event.
    Stopped, "stopped", Info, "the server has ended", {
        admitted: u64,
        denied: u64,
        refused: u64,
        subjects: u64,
        connections_cut: u64,
        unrecorded_cost: Option<u64>,
        unrecorded_subjects: Option<u64>,
        unpublished: Option<u64>,
    };
    /// A mistake in the program.
    TaskPanicked, "task_panicked", Error, "a mistake in the program ended a task: please report it",
        { file: Option<Text>, line: Option<u64>, words: Option<&'static str> };
    /// A loop goes on.
    TaskRestarted, "task_restarted", Warn, "a loop that panicked was begun again",
        { task: &'static str };

    // Connections and memory.

    /// Fewer files than connections.
    FilesFew, "files_few", Warn,
        "too few files may be open for --connections-max: raise `ulimit -n` or LimitNOFILE=",
        { connections_max: u64 };
    /// As many as there may be.
    ConnectionsFull, "connections_full", Warn,
        "every place for a connection is taken: the one that idles longest makes room",
        { connections: u64 };
    /// The budget is used up.
    EvictionsBegan, "evictions_began", Warn,
        "memory is short: subjects are forgotten before their time",
        { evicted: u64, subjects: u64 };
    /// And nothing in it can be forgotten.
    MemoryDenialsBegan, "memory_denials_began", Error,
        "memory is used up: requests of new subjects are denied", { denied: u64, subjects: u64 };

    // The region.

    /// Redis does not answer, or a breaker is open.
    RegionAway, "region_away", Warn,
        "the region does not answer: requests are decided here alone or denied, as namespaces say",
        { place: Text, why: Option<Text>, breakers_open: u64 };
    /// It does again.
    RegionBack, "region_back", Info, "the region answers now: limits are shared",
        { place: Text, away_ms: u64 };
    /// Something about Redis should be otherwise.
    RegionUnfit, "region_unfit", Warn, "the region's store is not set up as it should be",
        { place: Text, what: Text };
    /// Nothing is shared.
    FleetSecretDiffers, "fleet_secret_differs", Error,
        "others use another fleet secret: nothing is shared with them until all have the same",
        { place: Text };

    /// Redis lost what it had.
    RegionLostData, "region_lost_data", Warn,
        "the region's store lost its data: what is known here is sent again", { losses: u64 };
    /// It was told again.
    RegionResent, "region_resent", Info, "what the region's store had lost was sent again",
        { subjects: u64 };
    /// Some of it.
    RegionCellsLost, "region_cells_lost", Warn,
        "the region's store lost single cells: they are sent again", { cells: u64 };
    /// A clone, or a snapshot that was restored.
    IdentityClash, "identity_clash", Error,
        "another process has the identity of this one: a new one was taken", { clashes: u64 };

    // The globe.

    /// The database between regions does not answer.
    GlobeAway, "globe_away", Warn,
        "nothing is heard of other regions: requests are answered on what this region alone knows",
        { place: Text, why: Option<Text> };
    /// It does again.
    GlobeBack, "globe_back", Info, "the database of the regions answers now: limits are shared",
        { place: Text };
    /// Another region has the name.
    GlobeNameTaken, "globe_name_taken", Error,
        "another region has this name: nothing is shared until one of them has another",
        { place: Text, region: Text };

    /// This process publishes for its region.
    LeaderGained, "leader_gained", Info, "this process speaks for its region now", {};
    /// Another one does.
    LeaderLost, "leader_lost", Info, "another process speaks for the region now", {};
    /// Rows of another version, or damaged.
    GlobeRowsUnreadable, "globe_rows_unreadable", Warn,
        "rows of other regions cannot be read and are ignored", { rows: u64 };
    /// The database does not take them.
    GlobeTotalsRefused, "globe_totals_refused", Warn,
        "the database refused totals of this region: others do not hear of them", { totals: u64 };
    /// Too many subjects in other regions.
    GlobeTotalsDropped, "globe_totals_dropped", Warn,
        "there are too many totals of other regions to keep: some were dropped", { totals: u64 };
    /// A restored copy, or another server.
    GlobeLostData, "globe_lost_data", Warn,
        "the database lost rows that had been read: it is read from the beginning",
        { losses: u64 };

    // The configuration.

    /// It was read again.
    ConfigReloaded, "config_reloaded", Info, "the configuration was read again",
        { what: Text, changed: u64, waiting: u64 };
    /// There is a mistake in it.
    ConfigNotTaken, "config_not_taken", Warn, "the configuration has a mistake: the old one stays",
        { why: Text };

    // Settings and counts.

    /// Keys, namespaces and overrides cannot be read.
    SettingsUnreadable, "settings_unreadable", Warn,
        "the settings cannot be read: they stay as they are known here", { place: Text, why: Text };
    /// They can again.
    SettingsBack, "settings_back", Info, "the settings answer now: changes are learnt again",
        { place: Text };
    /// Another process has the file.
    CountsAwaited, "counts_awaited", Info, "waiting for the process that has the file of counts",
        { path: Text, at_most_ms: u64 };
    /// A restart forgets.
    CountsNotKept, "counts_not_kept", Warn,
        "counts are not kept: a restart forgets what was admitted",
        { path: Option<Text>, why: Text };
    /// Now it does not.
    CountsKept, "counts_kept", Info, "counts are kept from now on", { path: Text };
    /// A damaged file.
    CountsUnusable, "counts_unusable", Warn,
        "the file of counts cannot be used: counting starts anew",
        { path: Text, why: Text, moved_to: Option<Text> };
    /// The disk is full, or the like.
    CountsNotSaved, "counts_not_saved", Warn,
        "counts are not saved: a restart forgets what is admitted now", { path: Text, why: Text };
    /// It is not any more.
    CountsSaved, "counts_saved", Info, "counts are saved again", { path: Text };

    // The log itself.

    /// Nobody read, or not fast enough.
    LogDropped, "log_dropped", Warn, "lines of this log were lost: whoever reads it was too slow",
        { count: u64 };
    /// The same event again and again.
    EventsSuppressed, "events_suppressed", Info, "an event was left out: it came too often",
        { name: &'static str, count: u64 };
}
