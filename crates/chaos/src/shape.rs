//! How many servers there are and what they are asked: the same in every run.

use std::sync::Arc;

/// Servers.
pub(crate) const NODES: usize = 4;
/// Regions; each has as many servers.
pub(crate) const REGIONS: usize = 2;
/// What the regions are called.
pub(crate) const REGION_NAMES: [&str; REGIONS] = ["eu", "us"];

/// 30 days: the longest window there is. One ends during a run as rarely as can be; then nothing
/// can be said of what lasts.
const LONG_MS: u64 = 2_592_000_000;
/// Stays in its region: shorter than a minute.
const SHORT_MS: u64 = 10_000;
/// The shortest that regions share.
const MINUTE_MS: u64 = 60_000;

/// The namespace whose limits are decided by the rule `fast`.
pub(crate) const FAST: &str = "fast";

/// The region of a server.
pub(crate) const fn region_of(node: usize) -> usize {
    node / (NODES / REGIONS)
}

/// The servers of a region.
pub(crate) fn nodes_of(region: usize) -> impl Iterator<Item = usize> {
    (0..NODES).filter(move |node| region_of(*node) == region)
}

/// What a region is called.
pub(crate) fn region_name(region: usize) -> &'static str {
    REGION_NAMES.get(region).copied().unwrap_or("?")
}

/// What a server is called here: `eu-1`.
pub(crate) fn node_name(node: usize) -> String {
    let number = node.checked_rem(NODES / REGIONS).unwrap_or(0).saturating_add(1);
    format!("{}-{number}", region_name(region_of(node)))
}

/// What a subject is there to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// Used at one server only: it is exact.
    Own,
    /// Used at all servers of one region: bounded.
    Shared,
    /// Used in all regions, a minute long.
    World,
    /// Used everywhere, in one window that outlives the run: nothing is lost.
    Long,
    /// The same with a limit that is reached.
    Full,
    /// One of two that are only used together, in batches, at the same cost: the same long window.
    Pair(usize),
    /// Used by one call with an `Idempotency-Key`.
    Once,
}

impl Class {
    /// Whether its window outlives the run, so that what it holds in the end is judged.
    pub(crate) const fn lasts(self) -> bool {
        matches!(self, Self::Long | Self::Full | Self::Pair(_))
    }
}

/// What is limited.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Subject {
    pub(crate) class: Class,
    pub(crate) namespace: String,
    pub(crate) identifier: String,
    pub(crate) limit: u64,
    pub(crate) window_ms: u64,
    /// Decided by the rule `fast`.
    pub(crate) fast: bool,
    /// The servers that are asked.
    pub(crate) nodes: Vec<usize>,
    /// The largest cost of a call.
    pub(crate) cost_max: u64,
}

impl Subject {
    /// What it is called here.
    pub(crate) fn name(&self) -> String {
        format!("{}/{}", self.namespace, self.identifier)
    }
}

/// The subject of one call with an `Idempotency-Key`, in a region.
pub(crate) fn once(number: u64, region: usize) -> Arc<Subject> {
    Arc::new(Subject {
        class: Class::Once,
        namespace: "once".to_owned(),
        identifier: format!("call-{number}"),
        limit: 1_000,
        window_ms: LONG_MS,
        fast: false,
        nodes: nodes_of(region).collect(),
        cost_max: ONCE_COST,
    })
}

/// What a call with an `Idempotency-Key` costs. Not 1, so that a sum says how often it was charged.
pub(crate) const ONCE_COST: u64 = 7;

/// All subjects but those of [`once`]: with 150 calls in a second, limits of short windows are
/// asked for more than there is.
pub(crate) fn subjects(seconds: u64) -> Vec<Arc<Subject>> {
    let mut all = Vec::new();
    let mut add = |class, namespace: &str, identifier: String, nodes: Vec<usize>| {
        let (limit, window_ms, cost_max) = match class {
            Class::Own => (15, SHORT_MS, 3),
            Class::Shared => (40, SHORT_MS, 1),
            Class::World => (150, MINUTE_MS, 1),
            // Half of it is used at the end: what a kill may forget is a part of the limit.
            Class::Long | Class::Pair(_) | Class::Once => {
                (seconds.saturating_mul(40).max(400), LONG_MS, 5)
            }
            // Reached at about two thirds of the run.
            Class::Full => (seconds.saturating_mul(4).max(40), LONG_MS, 3),
        };
        let (namespace, fast) = (namespace.to_owned(), namespace == FAST);
        let subject =
            Subject { class, namespace, identifier, limit, window_ms, fast, nodes, cost_max };
        all.push(Arc::new(subject));
    };
    for node in 0..NODES {
        for number in 0..2 {
            let namespace = format!("own-{}", node_name(node));
            add(Class::Own, &namespace, format!("own-{number}"), vec![node]);
        }
    }
    for region in 0..REGIONS {
        for number in 0..3 {
            let identifier = format!("{}-{number}", region_name(region));
            add(Class::Shared, "shared", identifier, nodes_of(region).collect());
        }
        for number in 0..2 {
            let identifier = format!("{}-{number}", region_name(region));
            add(Class::Shared, FAST, identifier, nodes_of(region).collect());
        }
    }
    for number in 0..2 {
        add(Class::World, "world", format!("world-{number}"), (0..NODES).collect());
        add(Class::Full, "long", format!("full-{number}"), (0..NODES).collect());
        add(Class::Long, FAST, format!("long-{number}"), (0..NODES).collect());
        // Two by one rule, and two by different ones.
        for (side, namespace) in [("a", "pair"), ("b", if number == 0 { "pair" } else { FAST })] {
            let identifier = format!("pair-{number}-{side}");
            add(Class::Pair(number), namespace, identifier, (0..NODES).collect());
        }
    }
    for number in 0..4 {
        add(Class::Long, "long", format!("long-{number}"), (0..NODES).collect());
    }
    all
}
