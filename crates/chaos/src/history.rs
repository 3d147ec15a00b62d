//! What happened, as seen from outside: every call, every life of a server, every fault.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::fault::Struck;
use crate::http::Trouble;
use crate::shape::{Subject, node_name, region_name};

/// What a server answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) admitted: bool,
    pub(crate) remaining: u64,
    /// The end of the window, by the clock of the server: it names the cell.
    pub(crate) reset_ms: u64,
    /// Redis was not heard in time.
    pub(crate) degraded: bool,
    /// Decided by the rule `fast`.
    pub(crate) fast: bool,
    /// A call with an `Idempotency-Key` that the whole region remembers.
    pub(crate) in_region: bool,
    /// The answer to an earlier call.
    pub(crate) replayed: bool,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answered(Answer),
    /// A status that is not 200.
    Status(u16),
    Nothing(Trouble),
}

/// What a call is to the batch that it is an item of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// Which batch.
    pub(crate) batch: u64,
    /// Whether it fits by itself, as far as it was said.
    pub(crate) fits: bool,
}

/// One call, or one item of a batch.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) subject: Arc<Subject>,
    /// If it is one. What was admitted is then said of the whole batch.
    pub(crate) item: Option<Item>,
    pub(crate) node: usize,
    pub(crate) life: u32,
    pub(crate) cost: u64,
    pub(crate) sent_ms: u64,
    pub(crate) ended_ms: u64,
    pub(crate) took_us: u64,
    pub(crate) end: End,
}

impl Call {
    /// What was admitted by it, as far as its caller knows.
    pub(crate) fn admitted(&self) -> u64 {
        match self.end {
            End::Answered(answer) if answer.admitted && !answer.replayed => self.cost,
            _ => 0,
        }
    }

    /// What may have been admitted beside that: it was sent, and nobody knows.
    pub(crate) fn unknown(&self) -> u64 {
        match self.end {
            End::Nothing(Trouble::Lost | Trouble::Late | Trouble::Left) => self.cost,
            _ => 0,
        }
    }

    /// The answer, if there was one.
    pub(crate) fn answer(&self) -> Option<&Answer> {
        match &self.end {
            End::Answered(answer) => Some(answer),
            _ => None,
        }
    }

    /// One line of the kept history.
    pub(crate) fn line(&self) -> Value {
        let end = match self.end {
            End::Answered(answer) => json!({
                "admitted": answer.admitted, "remaining": answer.remaining,
                "reset": answer.reset_ms, "degraded": answer.degraded, "fast": answer.fast,
                "inRegion": answer.in_region, "replayed": answer.replayed,
            }),
            End::Status(status) => json!({ "status": status }),
            End::Nothing(trouble) => json!({ "nothing": format!("{trouble:?}") }),
        };
        json!({
            "call": self.subject.name(), "limit": self.subject.limit,
            "window": self.subject.window_ms, "cost": self.cost, "node": node_name(self.node),
            "life": self.life, "sentMs": self.sent_ms, "endedMs": self.ended_ms,
            "tookUs": self.took_us, "end": end, "batch": self.item.map(|item| item.batch),
            "fits": self.item.map(|item| item.fits),
        })
    }
}

/// One life of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Life {
    pub(crate) node: usize,
    pub(crate) life: u32,
    /// When it was told to end, and whether it was killed.
    pub(crate) ended: Option<(u64, bool)>,
    /// When it was gone.
    pub(crate) gone_ms: Option<u64>,
}

/// What `explain` said a window holds.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) node: usize,
    pub(crate) life: u32,
    pub(crate) subject: Arc<Subject>,
    pub(crate) at_ms: u64,
    pub(crate) current: u64,
}

/// What `/readyz` said.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub(crate) node: usize,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    /// `None` if it did not answer.
    pub(crate) status: Option<u16>,
}

/// What one server says of a subject when everything is over.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) subject: Arc<Subject>,
    pub(crate) node: usize,
    /// What Redis holds; `None` if it did not answer.
    pub(crate) sum: Option<u64>,
    /// What a decision would count of this region...
    pub(crate) region: u64,
    /// ...and of the others.
    pub(crate) foreign: u64,
    /// Whether it knows which region it is to the others.
    pub(crate) knows_itself: bool,
}

/// Everything.
#[derive(Debug, Default)]
pub(crate) struct History {
    pub(crate) calls: Vec<Call>,
    pub(crate) lives: Vec<Life>,
    pub(crate) faults: Vec<Struck>,
    pub(crate) looks: Vec<Look>,
    pub(crate) ready: Vec<Ready>,
    pub(crate) seen: Vec<Seen>,
    /// How long after the last fault each server stopped saying `degraded`.
    pub(crate) healed_ms: Vec<Option<u64>>,
    /// How long it took until the rest agreed.
    pub(crate) settled_ms: Option<u64>,
    /// Calls that were due while their server was away, or while too many were under way.
    pub(crate) skipped: u64,
}

impl History {
    /// The life of a server.
    pub(crate) fn life(&self, node: usize, life: u32) -> Option<&Life> {
        self.lives.iter().find(|one| (one.node, one.life) == (node, life))
    }

    /// The faults of a region that lasted at some time from `from_ms` to `to_ms`, or ended at most
    /// `after_ms` before.
    pub(crate) fn faults(
        &self,
        region: usize,
        (from_ms, to_ms): (u64, u64),
        after_ms: u64,
    ) -> impl Iterator<Item = &Struck> {
        let touches = move |one: &&Struck| one.touches(from_ms, to_ms, after_ms);
        self.faults.iter().filter(move |one| one.concerns(region)).filter(touches)
    }

    /// The whole history, one object in a line.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let fault = |one: &Struck| {
            json!({ "fault": one.fault.kind.word(), "at": one.fault.place(),
                    "fromMs": one.from_ms, "toMs": one.to_ms, "dice": one.fault.dice })
        };
        let life = |one: &Life| {
            json!({ "life": one.life, "node": node_name(one.node), "goneMs": one.gone_ms,
                    "endedMs": one.ended.map(|end| end.0), "killed": one.ended.map(|end| end.1) })
        };
        let look = |one: &Look| {
            json!({ "look": one.subject.name(), "node": node_name(one.node), "life": one.life,
                    "atMs": one.at_ms, "current": one.current })
        };
        let seen = |one: &Seen| {
            json!({ "seen": one.subject.name(), "node": node_name(one.node), "sum": one.sum,
                    "region": one.region, "foreign": one.foreign })
        };
        let ready = |one: &Ready| {
            json!({ "ready": node_name(one.node), "fromMs": one.from_ms, "toMs": one.to_ms,
                    "status": one.status })
        };
        let mut lines: Vec<Value> = self.faults.iter().map(fault).collect();
        lines.extend(self.lives.iter().map(life));
        lines.extend(self.calls.iter().map(Call::line));
        lines.extend(self.looks.iter().map(look));
        lines.extend(self.ready.iter().map(ready));
        lines.extend(self.seen.iter().map(seen));
        let regions = (0..crate::shape::REGIONS).map(region_name);
        lines.push(json!({ "regions": regions.collect::<Vec<_>>() }));
        lines
    }
}
