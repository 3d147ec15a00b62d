//! The kinds of what goes wrong.

use std::fmt;

/// A kind of fault. Each is switched on by half of the seeds, so that runs with one of them and
/// runs with many both occur.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// Messages are lost.
    Loss,
    /// Messages arrive twice.
    Duplicate,
    /// Messages overtake each other.
    Reorder,
    /// Some messages take seconds.
    Delay,
    /// A node is cut off.
    Partition,
    /// A process is killed and another starts in its place.
    Crash,
    /// A process is asked to stop, and does so when everything is recorded.
    Drain,
    /// A node stands still for a while.
    Pause,
    /// Wall clocks disagree a little.
    Skew,
    /// A wall clock jumps.
    Step,
    /// A shard of the store loses everything.
    Flush,
    /// A replica that lags takes over.
    Failover,
    /// A store evicts single cells.
    Evict,
    /// The store answers with an error, once each time: a lost script, a store that loads.
    Refuse,
    /// The store takes its time.
    Slow,
    /// The store is away.
    Away,
    /// Identifiers come in floods, to tables with little memory.
    Flood,
    /// Callers go away while they wait.
    Leave,
    /// The global store is away.
    Outage,
    /// The global store fails over, and its last rows are lost.
    Rewind,
    /// Imports read a replica that lags.
    Lag,
    /// Rows become visible late, or never.
    Late,
    /// The global store answers with an error, once each time: a deadlock, a lock.
    Busy,
    /// The global store refuses rows that hold a certain subject.
    Poison,
    /// Calls to the global store are lost, before or after they are done.
    Vanish,
    /// A node is cut off from the global store.
    Sever,
    /// The process that leads its region is killed, or stands still.
    Behead,
    /// A region has the name of another.
    Namesake,
}

impl Fault {
    /// All kinds.
    pub const ALL: [Self; 28] = [
        Self::Loss,
        Self::Duplicate,
        Self::Reorder,
        Self::Delay,
        Self::Partition,
        Self::Crash,
        Self::Drain,
        Self::Pause,
        Self::Skew,
        Self::Step,
        Self::Flush,
        Self::Failover,
        Self::Evict,
        Self::Refuse,
        Self::Slow,
        Self::Away,
        Self::Flood,
        Self::Leave,
        Self::Outage,
        Self::Rewind,
        Self::Lag,
        Self::Late,
        Self::Busy,
        Self::Poison,
        Self::Vanish,
        Self::Sever,
        Self::Behead,
        Self::Namesake,
    ];

    /// Those that befall one region as well as several.
    const REGIONAL: usize = 18;

    /// Those that can strike.
    pub(crate) fn all(global: bool) -> &'static [Self] {
        let (regional, _) = Self::ALL.split_at(Self::REGIONAL);
        if global { &Self::ALL } else { regional }
    }

    /// Its name on a command line.
    #[must_use]
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    const fn bit(self) -> u32 {
        1 << (self as u32)
    }
}

/// Which kinds of fault are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults(u32);

impl Faults {
    /// Whether a kind is on.
    #[must_use]
    pub const fn has(self, fault: Fault) -> bool {
        self.0 & fault.bit() != 0
    }

    /// The same with one kind off.
    #[must_use]
    pub const fn without(self, fault: Fault) -> Self {
        Self(self.0 & !fault.bit())
    }

    /// The same with one kind on.
    #[must_use]
    pub const fn with(self, fault: Fault) -> Self {
        Self(self.0 | fault.bit())
    }

    /// The kinds that are on.
    pub fn iter(self) -> impl Iterator<Item = Fault> {
        Fault::ALL.into_iter().filter(move |fault| self.has(*fault))
    }

    /// Reads a list as [`Display`](fmt::Display) writes it.
    #[must_use]
    pub fn parse(list: &str) -> Option<Self> {
        let mut faults = Self::default();
        for name in list.split(',').filter(|name| !name.is_empty() && *name != "none") {
            faults = faults.with(Fault::ALL.into_iter().find(|fault| fault.name() == name)?);
        }
        Some(faults)
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.iter().map(Fault::name).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(","))
    }
}
