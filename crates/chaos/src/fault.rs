//! What can go wrong, and when it does.

use crate::chance::Chance;
use crate::shape::{NODES, REGIONS, node_name, region_name, region_of};

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    KillServer,
    EndServer,
    StopServer,
    Clock,
    StopRedis,
    PauseRedis,
    KillRedis,
    Flush,
    StopDatabase,
    RestartDatabase,
    KillDatabase,
    PartDatabase,
    PartRedis,
    Cut,
    Delay,
    Double,
}

impl Kind {
    /// Every kind, with its word for `--only`, what it is in words, and how long it lasts.
    pub(crate) const ALL: [(Self, &'static str, &'static str, (u64, u64)); 16] = [
        (Self::KillServer, "kill-server", "kill -9 of a server", (300, 3_000)),
        (Self::EndServer, "end-server", "SIGTERM of a server", (0, 2_000)),
        (Self::StopServer, "stop-server", "SIGSTOP of a server", (300, 6_000)),
        (Self::Clock, "clock", "a server whose clock is wrong", (4_000, 10_000)),
        (Self::StopRedis, "stop-redis", "SIGSTOP of Redis", (300, 4_000)),
        (Self::PauseRedis, "pause-redis", "CLIENT PAUSE", (300, 3_000)),
        (Self::KillRedis, "kill-redis", "kill -9 of Redis, back empty", (200, 3_000)),
        (Self::Flush, "flush", "FLUSHALL", (0, 0)),
        (Self::StopDatabase, "stop-database", "SIGSTOP of the database", (500, 6_000)),
        (Self::RestartDatabase, "restart-database", "SIGTERM of the database", (0, 2_000)),
        (Self::KillDatabase, "kill-database", "kill -9 of the database", (0, 2_000)),
        (Self::PartDatabase, "part-database", "a region without the database", (1_000, 8_000)),
        (Self::PartRedis, "part-redis", "a server without Redis", (500, 6_000)),
        (Self::Cut, "cut", "connections cut after Redis executed", (1_000, 4_000)),
        (Self::Delay, "delay", "late answers of Redis", (1_000, 4_000)),
        (Self::Double, "double", "commands that arrive twice", (1_000, 4_000)),
    ];

    /// Its word.
    pub(crate) fn word(self) -> &'static str {
        Self::ALL.iter().find(|one| one.0 == self).map_or("", |one| one.1)
    }

    /// What it is.
    pub(crate) fn about(self) -> &'static str {
        Self::ALL.iter().find(|one| one.0 == self).map_or("", |one| one.2)
    }

    /// The kind of that word.
    pub(crate) fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|one| one.1 == word).map(|one| one.0)
    }

    /// Whether it concerns one server, a region, or all.
    pub(crate) const fn scope(self) -> Scope {
        match self {
            Self::KillServer | Self::EndServer | Self::StopServer | Self::Clock => Scope::Node,
            Self::PartRedis | Self::Cut | Self::Delay | Self::Double => Scope::Node,
            Self::StopRedis | Self::PauseRedis | Self::KillRedis | Self::Flush => Scope::Region,
            Self::PartDatabase => Scope::Region,
            Self::StopDatabase | Self::RestartDatabase | Self::KillDatabase => Scope::World,
        }
    }

    /// Whether servers may not hear Redis because of it.
    pub(crate) const fn hides_redis(self) -> bool {
        matches!(
            self,
            Self::StopRedis
                | Self::PauseRedis
                | Self::KillRedis
                | Self::PartRedis
                | Self::Cut
                | Self::Delay
        )
    }

    /// Whether Redis has lost its data at the end of it.
    pub(crate) const fn loses(self) -> bool {
        matches!(self, Self::Flush | Self::KillRedis)
    }

    /// What it needs for itself while it lasts. Never are both servers of a region away: the region
    /// would not know who it is if its Redis is flushed then, and counts as another one.
    pub(crate) const fn holds(self) -> &'static [Hold] {
        match self {
            Self::KillServer | Self::EndServer | Self::StopServer | Self::Clock => &[Hold::Servers],
            Self::StopRedis | Self::PauseRedis | Self::KillRedis | Self::Flush => &[Hold::Redis],
            Self::StopDatabase | Self::RestartDatabase | Self::KillDatabase => &[Hold::Database],
            Self::PartDatabase => &[Hold::Way],
            Self::PartRedis | Self::Cut | Self::Delay => &[Hold::Net],
            // What is sent twice and met by a loss of data may be granted twice: a residual of
            // ADR 15 that cannot be told from a mistake here.
            Self::Double => &[Hold::Redis, Hold::Net],
        }
    }
}

/// How much of the world a fault concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Node,
    Region,
    World,
}

/// What two faults of a region, or of the world, cannot have at a time; in the order in which it
/// is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hold {
    Servers,
    Redis,
    Net,
    Way,
    Database,
}

/// One fault of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) kind: Kind,
    /// The server it concerns; the first one of a region if it concerns all of it.
    pub(crate) node: usize,
    pub(crate) at_ms: u64,
    pub(crate) lasts_ms: u64,
    /// Whatever else has to be drawn: how late, how wrong a clock, in which of two ways.
    pub(crate) dice: u64,
}

impl Fault {
    /// The region it concerns; all if it is none.
    pub(crate) fn region(&self) -> Option<usize> {
        (self.kind.scope() != Scope::World).then(|| region_of(self.node))
    }

    /// Where, in a word.
    pub(crate) fn place(&self) -> String {
        match self.kind.scope() {
            Scope::Node => node_name(self.node),
            Scope::Region => region_name(region_of(self.node)).to_owned(),
            Scope::World => "all".to_owned(),
        }
    }
}

/// One fault that happened, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Struck {
    pub(crate) fault: Fault,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
}

impl Struck {
    /// Whether it lasted at some time from `from_ms` to `to_ms`, or did so `after_ms` before.
    pub(crate) fn touches(&self, from_ms: u64, to_ms: u64, after_ms: u64) -> bool {
        self.from_ms <= to_ms && self.to_ms.saturating_add(after_ms) >= from_ms
    }

    /// Whether it concerns that region.
    pub(crate) fn concerns(&self, region: usize) -> bool {
        self.fault.region().is_none_or(|own| own == region)
    }
}

/// How long nothing is struck at the beginning, so that calm cells are there to be judged.
pub(crate) const CALM_MS: u64 = 10_000;
/// The same at the end of the load...
const TAIL_MS: u64 = 3_000;
/// ...and in a long run, so that what regions admit together is judged by the promise for when
/// everything is well: a minute until the last fault is over, which may have to wait for others,
/// what is left of a minute, and a whole one.
const LONG_TAIL_MS: u64 = 190_000;
/// What a long run is.
pub(crate) const LONG_MS: u64 = 290_000;
/// Usual time from one fault to the next. Many last longer than that: they overlap.
const GAP_MS: u64 = 2_500;

/// The faults of a run of that length, in the order of their time. All kinds come before one comes
/// again.
pub(crate) fn plan(seed: u64, kinds: &[Kind], length_ms: u64) -> Vec<Fault> {
    let mut chance = Chance::new(seed, "faults");
    let tail_ms = if length_ms >= LONG_MS { LONG_TAIL_MS } else { TAIL_MS };
    let end_ms = length_ms.saturating_sub(tail_ms);
    let span_ms = end_ms.saturating_sub(CALM_MS);
    let count = u64::try_from(kinds.len()).unwrap_or(1).max(1);
    let gap_ms = GAP_MS.min((span_ms / count).max(1));
    let (mut at_ms, mut deck, mut plan) = (CALM_MS, Vec::new(), Vec::new());
    while at_ms < end_ms && !kinds.is_empty() {
        if deck.is_empty() {
            deck = kinds.to_vec();
            chance.shuffle(&mut deck);
        }
        let Some(kind) = deck.pop() else { break };
        let (low, high) = Kind::ALL.iter().find(|one| one.0 == kind).map_or((0, 0), |one| one.3);
        let node = match kind.scope() {
            Scope::Node => chance.index(NODES),
            Scope::Region => chance.index(REGIONS).saturating_mul(NODES / REGIONS),
            Scope::World => 0,
        };
        let (lasts_ms, dice) = (chance.between(low, high), chance.any());
        plan.push(Fault { kind, node, at_ms, lasts_ms, dice });
        at_ms = at_ms.saturating_add(chance.between(gap_ms / 2, gap_ms.saturating_mul(3) / 2));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_follows_from_its_seed_and_has_every_kind() {
        let kinds: Vec<Kind> = Kind::ALL.iter().map(|one| one.0).collect();
        for seed in 0..50 {
            let all = plan(seed, &kinds, 75_000);
            assert_eq!(all, plan(seed, &kinds, 75_000));
            let missing = kinds.iter().find(|kind| !all.iter().any(|fault| fault.kind == **kind));
            assert_eq!(missing, None, "seed {seed}");
            assert!(all.iter().all(|fault| fault.at_ms >= CALM_MS && fault.at_ms < 72_000));
        }
        assert_ne!(plan(1, &kinds, 75_000), plan(2, &kinds, 75_000));
        let long = plan(1, &kinds, 300_000);
        assert!(long.iter().all(|fault| fault.at_ms < 110_000), "three minutes are for a calm one");
        assert!(plan(1, &[], 75_000).is_empty());
    }

    #[test]
    fn every_kind_has_a_word() {
        for (kind, word, about, (low, high)) in Kind::ALL {
            assert_eq!((Kind::named(word), kind.word(), kind.about()), (Some(kind), word, about));
            assert!(low <= high);
        }
        assert_eq!(Kind::named("rain"), None);
    }
}
