//! A fault has struck: what was under way is written down.

use tidegate_convergence::{GlobalCall, ShardCall};

use crate::abroad::Errand;
use crate::coverage::{Moment, Moments};
use crate::fault::Fault;
use crate::node::{Call, Caller, Process};
use crate::world::World;

/// What no leader and no reader of another region's rows can feel.
const HARMLESS: [Fault; 3] = [Fault::Leave, Fault::Reorder, Fault::Duplicate];

impl Call {
    /// What it is for.
    pub(crate) fn moment(&self) -> Moment {
        let ShardCall { ask, records, .. } = &self.call;
        match (ask.is_some(), self.awaited, records.is_empty()) {
            (true, ..) => Moment::Ask,
            (_, true, _) => Moment::Refresh,
            (.., false) => Moment::Replay,
            (.., true) => Moment::Greet,
        }
    }
}

impl Errand {
    /// What it is for.
    pub(crate) const fn moment(&self) -> Moment {
        match self {
            Self::Board(_) => Moment::Post,
            Self::Read(_) => Moment::Read,
            Self::Global(call) => moment_of(call),
        }
    }
}

/// What a call of the global store is for.
pub(crate) const fn moment_of(call: &GlobalCall) -> Moment {
    match call {
        GlobalCall::Publish(_) => Moment::Publish,
        GlobalCall::Import(_) => Moment::Import,
        GlobalCall::Register { .. }
        | GlobalCall::Release { .. }
        | GlobalCall::Trim { .. }
        | GlobalCall::Collect { .. } => Moment::Chore,
    }
}

/// What a caller waits for.
pub(crate) fn awaited_by(caller: &Caller) -> Moments {
    let what = if caller.claims { Moment::Ask } else { Moment::Refresh };
    Moments::from(what).with(Moment::Batch, caller.batch)
}

/// What a process is busy with.
pub(crate) fn under_way(process: &Process) -> Moments {
    let calls = process.calls.values().map(Call::moment);
    let errands = process.abroad.iter().flat_map(|abroad| abroad.calls.values());
    let all = calls.chain(errands.map(|(errand, _)| errand.moment()));
    let batch = process.callers.values().any(|caller| caller.batch);
    all.fold(Moments::default(), |moments, moment| moments.with(moment, true))
        .with(Moment::Batch, batch)
        .with(Moment::Drain, process.draining)
        .with(Moment::Cold, process.ghosts.is_empty())
}

impl World {
    /// A fault has struck, into all of these.
    pub(crate) fn struck(&mut self, fault: Fault, into: impl Into<Moments>) {
        let moments = into.into().with(Moment::Mended, self.healed);
        if !HARMLESS.contains(&fault) {
            self.troubled_us = self.troubled_us.max(self.now_us);
        }
        self.report.faults.count(fault, moments);
    }

    /// A fault has struck a node.
    pub(crate) fn struck_node(&mut self, fault: Fault, node: usize) {
        self.struck(fault, self.under_way_at(node));
    }

    /// A fault has struck a region.
    pub(crate) fn struck_home(&mut self, fault: Fault, home: usize) {
        let nodes = (0..self.nodes.len()).filter(|node| self.home_of(*node) == home);
        let all = nodes.map(|node| self.under_way_at(node));
        self.struck(fault, all.fold(Moments::default(), Moments::and));
    }

    /// A fault has struck all regions.
    pub(crate) fn struck_world(&mut self, fault: Fault) {
        let all = (0..self.nodes.len()).map(|node| self.under_way_at(node));
        self.struck(fault, all.fold(Moments::default(), Moments::and));
    }

    fn under_way_at(&self, node: usize) -> Moments {
        let process = self.nodes.get(node).and_then(|node| node.process.as_deref());
        process.map_or_else(|| Moment::Down.into(), under_way)
    }
}
