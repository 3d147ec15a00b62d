//! The topology of a trial: which fleet decides, and what goes wrong with it.
//!
//! It is a TOML file; what it does not say is as in [`Topology::default`]:
//!
//! ```
//! use tidegate_trial::Topology;
//!
//! let topology = Topology::parse(
//!     "topology.toml",
//!     r#"
//!     regions = 3
//!     nodes = 2                       # of each region
//!     consistency = "bounded"         # or "fast"
//!     entry = "origin"                # or "round-robin": where calls enter
//!     store_latency = "0.2ms..3ms"    # one way, between a process and its region's store
//!     global_latency = "20ms..80ms"   # one way, between a process and the global store
//!     publish = "budget"              # or "rfc": every so often, what is above half a limit
//!     import_every = "1s"             # how often processes read what others published
//!     seed = 1
//!
//!     [[fault]]
//!     kind = "store-away"     # store-slow, global-away, cut-off, kill
//!     region = 0
//!     from = "5m"             # after the first call
//!     for = "30s"
//!
//!     [[fault]]
//!     kind = "kill"
//!     region = 1
//!     node = 0
//!     from = "6m"
//!     for = "10s"             # then another process starts in its place
//!     "#,
//! )?;
//! assert_eq!(topology.facts().summary, "3 regions of 2 processes, bounded, 2 faults");
//! # Ok::<(), tidegate_trial::TopologyError>(())
//! ```
//!
//! Refuses what it does not know, all mistakes at once, each with its line.

mod read;
mod span;

use tidegate_limiter::Consistency;
use tidegate_sim::{FleetOptions, Trouble, TroubleKind};

pub use read::TopologyError;

use crate::findings::{Facts, TopologyFacts};
use span::told;
use tidegate_convergence::{GlobeTuning, Rule};

/// Most regions, as a server takes them.
pub(crate) const REGIONS_MAX: u64 = 100;
/// Most processes of a region. Each has a table of its own here, so more than this is no laptop's.
pub(crate) const NODES_MAX: u64 = 100;

/// Which fleet decides. The module `topology` has an example of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    /// Regions.
    pub regions: usize,
    /// Processes of each region.
    pub nodes: usize,
    /// Under which rule calls are decided.
    pub consistency: Consistency,
    /// Where calls enter.
    pub entry: Entry,
    /// One way between a process and the store of its region: at least and at most.
    pub store_latency_us: (u64, u64),
    /// One way between a process and the global store.
    pub global_latency_us: (u64, u64),
    /// When regions tell each other what they admitted.
    pub publish: Publish,
    /// How often processes read what other regions published. `None` is as usual.
    pub import_every_ms: Option<u64>,
    /// What goes wrong.
    pub faults: Vec<Trouble>,
    /// Of everything that is left to chance.
    pub seed: u64,
}

/// Where a call enters. [`Topology`] has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Entry {
    /// All calls of an origin enter one region; those without one take the regions in turn.
    #[default]
    Origin,
    /// All calls take the regions in turn: the worst for limits that regions share.
    RoundRobin,
}

/// When a region says what it admitted. [`Topology`] has one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Publish {
    /// Whenever what is hidden from the others could matter: what the server does.
    #[default]
    Budget,
    /// Every so often, what is above half of its limit.
    Rfc {
        /// How often.
        every_ms: u64,
    },
}

impl Default for Topology {
    /// Two processes in one region, bounded.
    fn default() -> Self {
        let FleetOptions { regions, nodes, consistency, .. } = FleetOptions::default();
        let FleetOptions { store_latency_us, global_latency_us, seed, .. } =
            FleetOptions::default();
        Self {
            regions,
            nodes,
            consistency,
            entry: Entry::default(),
            store_latency_us,
            global_latency_us,
            publish: Publish::default(),
            import_every_ms: None,
            faults: Vec::new(),
            seed,
        }
    }
}

impl Topology {
    /// Reads a topology. `name` is what the file is called in errors. The module `topology` has an
    /// example.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn parse(name: &str, text: &str) -> Result<Self, TopologyError> {
        read::topology(name, text)
    }

    /// What a trial says of it.
    #[must_use]
    pub fn facts(&self) -> TopologyFacts {
        let (regions, nodes) = (self.regions as u64, (self.regions * self.nodes) as u64);
        let mut summary = match self.regions {
            1 => format!("1 region of {}", many(self.nodes, "process", "processes")),
            more => format!("{more} regions of {}", many(self.nodes, "process", "processes")),
        };
        summary.push_str(&format!(", {}", self.consistency.as_str()));
        if !self.faults.is_empty() {
            summary.push_str(&format!(", {}", many(self.faults.len(), "fault", "faults")));
        }
        let mut facts = vec![
            fact("consistency", self.consistency.as_str()),
            fact("to the store of the region, one way", &range(self.store_latency_us)),
        ];
        if self.regions > 1 {
            facts.push(fact("to the global store, one way", &range(self.global_latency_us)));
            facts.push(fact("regions tell each other", &self.publish.told()));
            facts.extend(self.import_every_ms.map(|ms| fact("and read", &every(ms))));
            facts.push(fact("calls enter", self.entry.told()));
        }
        facts.extend(self.faults.iter().map(|fault| fact("fault", &told_fault(fault))));
        TopologyFacts { summary, regions, nodes, facts }
    }

    /// What the simulator makes of it, for a trace that begins at this time.
    pub(crate) fn options(&self, start_unix_ms: u64) -> FleetOptions {
        FleetOptions {
            regions: self.regions,
            nodes: self.nodes,
            store_latency_us: self.store_latency_us,
            global_latency_us: self.global_latency_us,
            consistency: self.consistency,
            globe: self.globe(),
            start_unix_ms,
            troubles: self.faults.clone(),
            seed: self.seed,
            ..FleetOptions::default()
        }
    }

    fn globe(&self) -> GlobeTuning {
        let mut globe = match self.publish {
            Publish::Budget => GlobeTuning::default(),
            Publish::Rfc { every_ms } => {
                let rfc = GlobeTuning::rfc();
                let part = if let Rule::Floor { part, .. } = rfc.rule { part } else { 2 };
                let rule = Rule::Floor { every_ms, part };
                GlobeTuning { rule, import_ms: every_ms, import_min_ms: every_ms, ..rfc }
            }
        };
        if let Some(import_ms) = self.import_every_ms {
            globe.import_ms = import_ms;
            globe.import_min_ms = globe.import_min_ms.min(import_ms);
        }
        globe
    }
}

impl Publish {
    fn told(self) -> String {
        match self {
            Self::Budget => "when it could matter".to_owned(),
            Self::Rfc { every_ms } => format!("{}, above half of a limit", every(every_ms)),
        }
    }
}

impl Entry {
    const fn told(self) -> &'static str {
        match self {
            Self::Origin => "by origin",
            Self::RoundRobin => "in turn",
        }
    }
}

fn told_fault(fault: &Trouble) -> String {
    let what = match fault.kind {
        TroubleKind::StoreAway { region } => format!("the store of region {region} is away"),
        TroubleKind::StoreSlow { region, by_us } => {
            format!("the store of region {region} is slower by up to {}", told(by_us))
        }
        TroubleKind::GlobalAway => "the global store is away".to_owned(),
        TroubleKind::CutOff { region } => format!("region {region} is cut off from the others"),
        TroubleKind::Kill { region, node } => {
            format!("process {node} of region {region} is killed")
        }
    };
    format!("{what} after {} for {}", told(fault.from_us), told(fault.for_us))
}

fn fact(name: &str, value: &str) -> Facts {
    Facts { name: name.to_owned(), value: value.to_owned() }
}

fn many(count: usize, one: &str, more: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { more })
}

fn every(ms: u64) -> String {
    format!("every {}", told(ms.saturating_mul(1_000)))
}

fn range((low, high): (u64, u64)) -> String {
    if low == high { told(low) } else { format!("{} to {}", told(low), told(high)) }
}

#[cfg(test)]
mod tests;
