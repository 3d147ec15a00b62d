//! What is said of a subject, in the order in which people read it.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate::{
    CellCounts, Consistency, Credit, Explanation, GlobeView, PublishedCell, Reason, RegionCell,
    RegionView, StoreError, SubjectView,
};

use crate::control::Namespace;
use crate::door::Defaults;
use crate::door::decide::mode_word;
use crate::reply::{Limited, Overridden};

/// How a request would be decided.
#[derive(Serialize)]
pub(super) struct Explained<'a> {
    pub(super) because: String,
    pub(super) answer: Limited<'a>,
    pub(super) namespace: Named<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) r#override: Option<Overridden<'a>>,
    pub(super) terms: Terms,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) region: Option<Asked>,
}

/// What is known of a subject.
#[derive(Serialize)]
pub(super) struct Inspected<'a> {
    pub(super) namespace: Named<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) r#override: Option<Overridden<'a>>,
    pub(super) node: Node,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) region: Option<Region>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) regions: Option<Regions>,
}

#[derive(Serialize)]
pub(super) struct Named<'a> {
    id: &'a str,
    name: &'a str,
    mode: &'static str,
    /// The one that applies, whoever says so.
    consistency: &'static str,
    /// The same of what happens when the region cannot be asked.
    outage: &'static str,
    deleted: bool,
}

impl<'a> Named<'a> {
    pub(super) fn of(namespace: &'a Namespace, rules: Defaults) -> Self {
        let Namespace { id, name, mode, deleted, .. } = namespace;
        let (consistency, outage) = (rules.consistency.as_str(), rules.outage.as_str());
        Self { id, name, mode: mode_word(*mode), consistency, outage, deleted: *deleted }
    }
}

/// `current + previousCounts + cost = effective`, which must not be above the limit.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Terms {
    now_ms: u64,
    window_ms: u64,
    elapsed_ms: u64,
    current: u64,
    previous: u64,
    previous_weight_ms: u64,
    previous_counts: u64,
    cost: u64,
    effective: u64,
    limit: u64,
}

impl Terms {
    pub(super) fn of(seen: &Explanation) -> Self {
        Self {
            now_ms: seen.subject.now.unix_ms(),
            window_ms: seen.subject.window_ms,
            elapsed_ms: seen.subject.elapsed_ms,
            current: seen.subject.current.view(),
            previous: seen.subject.previous.view(),
            previous_weight_ms: seen.weight_ms,
            previous_counts: seen.weighted,
            cost: seen.cost,
            effective: seen.effective,
            limit: seen.limit,
        }
    }
}

/// Whether the region would be asked first.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    asks_first: Option<&'static str>,
    asked_in_vain: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    credit: Option<Lent>,
    #[serde(flatten)]
    freshness: Freshness,
}

impl Asked {
    pub(super) fn of(seen: &Explanation) -> Self {
        let asks_first = seen.asks.map(|reason| match reason {
            Reason::Cold => "cold",
            Reason::Stale => "stale",
            Reason::Strict => "strict",
            Reason::Credit => "credit",
            Reason::Reserved => "reserved",
            _ => "significant",
        });
        let freshness = Freshness::of(&seen.subject);
        let (asked_in_vain, credit) = (seen.asked_in_vain, seen.credit.as_ref().map(Lent::of));
        Self { asks_first, asked_in_vain, credit, freshness }
    }
}

/// What a bounded namespace may admit here before the region has recorded it.
#[derive(Serialize)]
struct Lent {
    room: u64,
    processes: u64,
    most: u64,
    used: u64,
}

impl Lent {
    const fn of(credit: &Credit) -> Self {
        let Credit { room, processes, most, used, .. } = *credit;
        Self { room, processes, most, used }
    }
}

/// How old the view of the region is.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Freshness {
    #[serde(skip_serializing_if = "Option::is_none")]
    age_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fresh_for_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_in_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    strict: Option<Strict>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Strict {
    left_ms: u64,
    limit: u64,
}

impl Freshness {
    fn of(here: &SubjectView) -> Self {
        Self {
            age_ms: here.age_ms,
            fresh_for_ms: here.fresh_for_ms,
            retry_in_ms: here.retry_in_ms,
            strict: here
                .strict
                .map(|strict| Strict { left_ms: strict.left_ms, limit: strict.limit }),
        }
    }
}

/// What this process knows.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Node {
    known: bool,
    now_ms: u64,
    window_ms: u64,
    elapsed_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    unreplayed: Option<bool>,
    #[serde(flatten)]
    freshness: Option<Freshness>,
    /// By the limit that was used last.
    #[serde(skip_serializing_if = "Option::is_none")]
    credit: Option<Lent>,
    current: Cell,
    previous: Cell,
}

impl Node {
    pub(super) fn of(here: &SubjectView, in_region: bool, consistency: Consistency) -> Self {
        let limit = [here.current.limit, here.previous.limit].into_iter().find(|limit| *limit > 0);
        let limit = limit.filter(|_| consistency == Consistency::Bounded);
        let credit = limit.and_then(|limit| here.credit(limit));
        Self {
            known: here.known,
            now_ms: here.now.unix_ms(),
            window_ms: here.window_ms,
            elapsed_ms: here.elapsed_ms,
            unreplayed: in_region.then_some(here.dirty),
            freshness: in_region.then(|| Freshness::of(here)),
            credit: credit.as_ref().map(Lent::of),
            current: Cell::of(&here.current, in_region),
            previous: Cell::of(&here.previous, in_region),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Cell {
    sequence: u64,
    start_ms: u64,
    end_ms: u64,
    mine: u64,
    reserved: u64,
    restored: u64,
    peers: u64,
    #[serde(flatten)]
    shared: Option<Shared>,
    counts: u64,
}

#[derive(Serialize)]
struct Shared {
    acked: u64,
    unreplayed: u64,
    confirmed: u64,
    foreign: u64,
}

impl Cell {
    fn of(cell: &CellCounts, in_region: bool) -> Self {
        let shared = in_region.then(|| Shared {
            acked: cell.acked,
            unreplayed: cell.unreplayed(),
            confirmed: cell.confirmed,
            foreign: cell.foreign,
        });
        Self {
            sequence: cell.sequence,
            start_ms: cell.start_unix_ms,
            end_ms: cell.end_unix_ms,
            mine: cell.mine,
            reserved: cell.reserved,
            restored: cell.restored,
            peers: cell.peers,
            shared,
            counts: cell.view(),
        }
    }
}

/// What the region's store holds, or why it does not say.
#[derive(Serialize)]
#[serde(untagged)]
pub(super) enum Region {
    Known { current: Recorded, previous: Recorded },
    Away { away: String },
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Recorded {
    sequence: u64,
    sum: u64,
    of_this_process: u64,
    processes: u32,
}

impl Region {
    pub(super) fn of(asked: Result<Option<RegionView>, StoreError>) -> Option<Self> {
        let recorded = |cell: &RegionCell| Recorded {
            sequence: cell.sequence,
            sum: cell.sum,
            of_this_process: cell.recorded,
            processes: cell.components,
        };
        match asked {
            Ok(view) => view.map(|view| Self::Known {
                current: recorded(&view.current),
                previous: recorded(&view.previous),
            }),
            Err(why) => Some(Self::Away { away: why.to_string() }),
        }
    }
}

/// What the regions have published, by their numbers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Regions {
    own: Option<String>,
    age_ms: u64,
    current: Published,
    previous: Published,
}

#[derive(Serialize)]
struct Published {
    own: u64,
    /// What the region has used and not told the others.
    unpublished: u64,
    others: BTreeMap<String, u64>,
}

impl Regions {
    pub(super) fn of(globe: &GlobeView, here: &SubjectView) -> Self {
        let published = |cell: &PublishedCell, known: &CellCounts| Published {
            own: cell.own,
            unpublished: known.confirmed.saturating_sub(cell.own),
            others: cell
                .others
                .iter()
                .map(|(number, count)| (format!("{:08x}", number.0), *count))
                .collect(),
        };
        Self {
            own: globe.number.map(|number| format!("{:08x}", number.0)),
            age_ms: globe.age_ms,
            current: published(&globe.current, &here.current),
            previous: published(&globe.previous, &here.previous),
        }
    }
}
