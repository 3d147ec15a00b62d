//! The file of a topology: every value with its place, every mistake with its line.

use std::fmt;
use std::ops::Range;

use tidegate_limiter::Consistency;
use tidegate_sim::{Trouble, TroubleKind};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

use super::span::{range_us, span_us};
use super::{Entry, NODES_MAX, Publish, REGIONS_MAX, Topology};
use crate::policy::{Mistake, nearest};

const KEYS: [&str; 11] = [
    "regions",
    "nodes",
    "consistency",
    "entry",
    "store_latency",
    "global_latency",
    "publish",
    "publish_every",
    "import_every",
    "seed",
    "fault",
];
const FAULT_KEYS: [&str; 6] = ["kind", "region", "node", "by", "from", "for"];
const FAULT_KINDS: [&str; 5] = ["store-away", "store-slow", "global-away", "cut-off", "kill"];

/// How much a slow store keeps a call at most, unless it is said: past the time that callers wait.
const SLOW_US: u64 = 50_000;
/// The RFC's interval.
const RFC_EVERY_MS: u64 = 10_000;
/// No store answers later than this: calls to it have been given up long before.
const LATENCY_MAX_US: u64 = 60_000_000;
/// How often something is read or published at most, and at least.
const EVERY_MS: Range<u64> = 10..3_600_001;

/// Everything that is wrong with a topology, in words for whoever wrote it.
///
/// ```
/// use tidegate_trial::Topology;
///
/// let why = Topology::parse("t.toml", "regoins = 3\nnodes = 0\n").unwrap_err().to_string();
/// assert!(why.contains("t.toml:1:1: there is no key `regoins`: did you mean `regions`?"));
/// assert!(why.contains("t.toml:2:9: `nodes` is a whole number from 1 to 100"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError(Vec<Mistake>);

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [one] = self.0.as_slice() {
            return write!(f, "{one}");
        }
        write!(f, "there are {} mistakes in the topology:", self.0.len())?;
        self.0.iter().try_for_each(|mistake| write!(f, "\n\n{mistake}"))
    }
}

impl std::error::Error for TopologyError {}

/// Reads a file.
pub(super) fn topology(name: &str, text: &str) -> Result<Topology, TopologyError> {
    let (table, errors) = DeTable::parse_recoverable(text);
    let mut reader = Reader { name, text, mistakes: Vec::new() };
    for error in errors {
        let said = error.message().trim_end_matches('.');
        reader.mistake(error.span().unwrap_or_default(), format!("not TOML: {said}"));
    }
    let topology = match reader.mistakes.is_empty() {
        true => reader.topology(table.get_ref()),
        // What was made of lines that cannot be read is not to be complained of a second time.
        false => Topology::default(),
    };
    match reader.mistakes.is_empty() {
        true => Ok(topology),
        false => {
            reader.mistakes.sort_by_key(Mistake::rank);
            Err(TopologyError(reader.mistakes))
        }
    }
}

struct Reader<'a> {
    name: &'a str,
    text: &'a str,
    mistakes: Vec<Mistake>,
}

/// A value and its place.
type Value<'a> = Spanned<DeValue<'a>>;

impl Reader<'_> {
    fn mistake(&mut self, bytes: Range<usize>, text: impl Into<String>) {
        self.mistakes.push(Mistake::new(self.name, self.text, &bytes, text.into()));
    }

    fn topology(&mut self, table: &DeTable<'_>) -> Topology {
        self.unknown_keys(table, &KEYS);
        let usual = Topology::default();
        let regions = self.count(table, "regions", 1..REGIONS_MAX + 1);
        let nodes = self.count(table, "nodes", 1..NODES_MAX + 1);
        // Where it is not known how many there are, a fault may be anywhere.
        let known = |key: &str, count: Option<usize>, usual| match count {
            None if table.contains_key(key) => usize::MAX,
            count => count.unwrap_or(usual),
        };
        let regions = known("regions", regions, usual.regions);
        let nodes = known("nodes", nodes, usual.nodes);
        let rules = [("bounded", Consistency::Bounded), ("fast", Consistency::Fast)];
        let consistency = self.word(table, "consistency", &rules).unwrap_or(usual.consistency);
        let entries = [("origin", Entry::Origin), ("round-robin", Entry::RoundRobin)];
        let entry = self.word(table, "entry", &entries).unwrap_or_default();
        let store_latency_us = self.latency(table, "store_latency");
        let global_latency_us = self.latency(table, "global_latency");
        Topology {
            regions,
            nodes,
            consistency,
            entry,
            store_latency_us: store_latency_us.unwrap_or(usual.store_latency_us),
            global_latency_us: global_latency_us.unwrap_or(usual.global_latency_us),
            publish: self.publish(table),
            import_every_ms: self.every(table, "import_every"),
            faults: self.faults(table, (regions, nodes)),
            seed: self.number(table, "seed", 0..u64::MAX).unwrap_or(usual.seed),
        }
    }

    fn publish(&mut self, table: &DeTable<'_>) -> Publish {
        let rules = [("budget", false), ("rfc", true)];
        let is_rfc = self.word(table, "publish", &rules).unwrap_or(false);
        let every_ms = self.every(table, "publish_every");
        match (is_rfc, every_ms, table.get("publish_every")) {
            (true, every_ms, _) => Publish::Rfc { every_ms: every_ms.unwrap_or(RFC_EVERY_MS) },
            (false, Some(_), Some(value)) => {
                let why = "`publish_every` goes with publish = \"rfc\": by the budget, a region \
                           speaks when it matters";
                self.mistake(value.span(), why);
                Publish::Budget
            }
            (false, ..) => Publish::Budget,
        }
    }

    fn faults(&mut self, table: &DeTable<'_>, size: (usize, usize)) -> Vec<Trouble> {
        let Some(value) = table.get("fault") else { return Vec::new() };
        let DeValue::Array(faults) = value.get_ref() else {
            self.mistake(value.span(), "write [[fault]], in two brackets, for each fault");
            return Vec::new();
        };
        self.all_faults(faults, size)
    }

    fn all_faults(&mut self, faults: &DeArray<'_>, size: (usize, usize)) -> Vec<Trouble> {
        let mut all = Vec::new();
        for fault in faults {
            let DeValue::Table(keys) = fault.get_ref() else {
                self.mistake(fault.span(), "write [[fault]] and its keys below it");
                continue;
            };
            all.extend(self.fault((keys, fault.span()), size));
        }
        all
    }

    fn fault(
        &mut self,
        (keys, place): (&DeTable<'_>, Range<usize>),
        (regions, nodes): (usize, usize),
    ) -> Option<Trouble> {
        self.unknown_keys(keys, &FAULT_KEYS);
        let kinds: Vec<(&str, &str)> = FAULT_KINDS.iter().map(|kind| (*kind, *kind)).collect();
        let kind = self.word(keys, "kind", &kinds);
        let region = self.count(keys, "region", 0..regions as u64);
        let node = self.count(keys, "node", 0..nodes as u64).unwrap_or(0);
        let by_us = self.span(keys, "by").unwrap_or(SLOW_US);
        let (from_us, for_us) = (self.span(keys, "from"), self.span(keys, "for"));
        for key in ["kind", "from", "for"].iter().filter(|key| !keys.contains_key(**key)) {
            self.mistake(place.clone(), format!("the fault has no `{key}`"));
        }
        let is_global = kind == Some("global-away");
        if kind.is_some() && !is_global && !keys.contains_key("region") {
            self.mistake(place, "the fault has no `region`; they count from 0");
        }
        for (key, whose) in [("node", "kill"), ("by", "store-slow")] {
            if let Some(value) = keys.get(key).filter(|_| kind.is_some_and(|kind| kind != whose)) {
                self.mistake(value.span(), format!("`{key}` goes with kind = \"{whose}\""));
            }
        }
        if let Some(value) = keys.get("region").filter(|_| is_global) {
            self.mistake(value.span(), "the global store is away for all; `cut-off` is for one");
        }
        let kind = match (kind?, region) {
            ("global-away", _) => TroubleKind::GlobalAway,
            ("store-away", Some(region)) => TroubleKind::StoreAway { region },
            ("store-slow", Some(region)) => TroubleKind::StoreSlow { region, by_us },
            ("cut-off", Some(region)) => TroubleKind::CutOff { region },
            ("kill", Some(region)) => TroubleKind::Kill { region, node },
            _ => return None,
        };
        Some(Trouble { kind, from_us: from_us?, for_us: for_us? })
    }

    fn unknown_keys(&mut self, table: &DeTable<'_>, known: &[&str]) {
        for (key, _) in table {
            let word: &str = key.get_ref();
            if !known.contains(&word) {
                self.mistake(key.span(), format!("there is no key `{word}`{}", meant(word, known)));
            }
        }
    }

    fn number(&mut self, table: &DeTable<'_>, key: &str, within: Range<u64>) -> Option<u64> {
        let value: &Value<'_> = table.get(key)?;
        let number = match value.get_ref() {
            DeValue::Integer(number) => {
                let digits = number.as_str().replace('_', "");
                u64::from_str_radix(&digits, number.radix()).ok()
            }
            _ => None,
        };
        let number = number.filter(|number| within.contains(number));
        if number.is_none() {
            let (first, last) = (within.start, within.end - 1);
            let text = format!("`{key}` is a whole number from {first} to {last}");
            self.mistake(value.span(), text);
        }
        number
    }

    fn count(&mut self, table: &DeTable<'_>, key: &str, within: Range<u64>) -> Option<usize> {
        self.number(table, key, within).and_then(|number| usize::try_from(number).ok())
    }

    fn text<'t>(&mut self, table: &'t DeTable<'_>, key: &str) -> Option<(&'t str, Range<usize>)> {
        let value: &Value<'_> = table.get(key)?;
        match value.get_ref() {
            DeValue::String(text) => Some((text, value.span())),
            _ => {
                self.mistake(value.span(), format!("`{key}` is a string: write it in quotes"));
                None
            }
        }
    }

    fn word<T: Copy>(&mut self, table: &DeTable<'_>, key: &str, words: &[(&str, T)]) -> Option<T> {
        let (text, place) = self.text(table, key)?;
        let found = words.iter().find(|(word, _)| *word == text).map(|(_, meaning)| *meaning);
        if found.is_none() {
            let known: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            self.mistake(place, format!("there is no {key} `{text}`{}", meant(text, &known)));
        }
        found
    }

    fn span(&mut self, table: &DeTable<'_>, key: &str) -> Option<u64> {
        let (text, place) = self.text(table, key)?;
        span_us(text).map_err(|why| self.mistake(place, why)).ok()
    }

    fn every(&mut self, table: &DeTable<'_>, key: &str) -> Option<u64> {
        let (text, place) = self.text(table, key)?;
        match span_us(text) {
            Ok(us) if EVERY_MS.contains(&(us / 1_000)) => Some(us / 1_000),
            Ok(_) => {
                self.mistake(place, format!("`{key}` is from 10ms to 1h"));
                None
            }
            Err(why) => {
                self.mistake(place, why);
                None
            }
        }
    }

    fn latency(&mut self, table: &DeTable<'_>, key: &str) -> Option<(u64, u64)> {
        let (text, place) = self.text(table, key)?;
        match range_us(text) {
            Ok((low, high)) if high <= LATENCY_MAX_US => Some((low, high)),
            Ok(_) => {
                self.mistake(place, format!("`{key}` is one way, and at most 1m"));
                None
            }
            Err(why) => {
                self.mistake(place, why);
                None
            }
        }
    }
}

/// What somebody may have meant, or what there is.
fn meant(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(it) => format!(": did you mean `{it}`?"),
        None => format!("; there are {}", known.join(", ")),
    }
}
