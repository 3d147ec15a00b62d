//! The production code, driven by requests and a network without faults.

use std::collections::BTreeMap;

use tidegate_convergence::{
    Asked, CallId, Effect, Granted, MemoryRegion, Outcome, Refresh, Region, ShardCall, ShardReply,
    Tuning, Waiter,
};
use tidegate_limiter::{
    Answer, AskedFor, Claimed, Consistency, Cost, Decision, Limit, Now, Options, Part, Request,
    Seed, Subject, Table, Window,
};

use crate::chance::Chance;
use crate::node::START_MS;
use crate::queue::Queue;

use super::{Admitted, Arrival, Setting, subjects};

/// Time for what is under way when the last request has come.
const END_US: u64 = 1_000_000;

/// What is on its way, or due.
#[derive(Debug)]
enum Event {
    ToStore { node: usize, id: CallId, call: ShardCall },
    ToNode { node: usize, id: CallId, reply: ShardReply },
    Tick { node: usize },
}

struct Node {
    table: Table,
    region: Region,
    callers: BTreeMap<Waiter, (usize, Option<Claimed>)>,
    timer_us: Option<u64>,
}

struct Fleet {
    setting: Setting,
    consistency: Consistency,
    names: Vec<String>,
    nodes: Vec<Node>,
    store: MemoryRegion,
    queue: Queue<Event>,
    network: Chance,
    now_us: u64,
    admitted: Admitted,
}

pub(super) fn run(
    setting: Setting,
    consistency: Consistency,
    group: u64,
    arrivals: &[Arrival],
) -> Admitted {
    let node = |n: usize| {
        let options = Options::default().with_budget_bytes(1 << 20).with_region();
        let incarnation = (n as u128 + 1) << 64 | u128::from(group);
        Node {
            table: Table::new(options, Seed::from_bytes([7; 32])),
            region: Region::new(Tuning::default(), incarnation, 1),
            callers: BTreeMap::new(),
            timer_us: None,
        }
    };
    let mut fleet = Fleet {
        setting,
        consistency,
        names: (0..subjects(arrivals)).map(|subject| format!("i{subject}")).collect(),
        nodes: (0..setting.nodes).map(node).collect(),
        store: MemoryRegion::new(1),
        queue: Queue::new(),
        network: Chance::new(group, "network"),
        now_us: 0,
        admitted: Admitted::of(setting, arrivals),
    };
    for arrival in arrivals {
        fleet.pass_until(arrival.at_us);
        fleet.ask(arrival.node, arrival.subject, None);
        fleet.pump(arrival.node);
    }
    fleet.pass_until(fleet.now_us + END_US);
    fleet.admitted
}

impl Fleet {
    const fn now(&self) -> Now {
        let ms = self.now_us / 1_000;
        Now::new(START_MS + ms, 1_000_000 + ms)
    }

    fn pass_until(&mut self, end_us: u64) {
        while let Some((at_us, event)) = self.queue.pop_before(end_us) {
            self.now_us = self.now_us.max(at_us);
            self.happen(event);
        }
        self.now_us = self.now_us.max(end_us);
    }

    fn happen(&mut self, event: Event) {
        let now = self.now();
        match event {
            Event::ToStore { node, id, call } => {
                let reply = self.store.call(&call, self.now_us / 1_000);
                let at_us = self.arrival_us();
                self.queue.push(at_us, Event::ToNode { node, id, reply });
            }
            Event::ToNode { node, id, reply } => {
                if let Some(node) = self.nodes.get_mut(node) {
                    node.region.replied(&node.table, id, Ok(reply), now);
                }
                self.pump(node);
            }
            Event::Tick { node } => {
                if let Some(node) = self.nodes.get_mut(node) {
                    if node.timer_us.is_some_and(|timer_us| timer_us > self.now_us) {
                        return;
                    }
                    node.timer_us = None;
                    node.region.tick(&node.table, now);
                }
                self.pump(node);
            }
        }
    }

    fn arrival_us(&mut self) -> u64 {
        let (low, high) = self.setting.latency_us;
        self.now_us + self.network.between(low, high)
    }

    /// A request comes, or looks again.
    fn ask(&mut self, node: usize, subject: usize, since: Option<Waiter>) {
        let now = self.now();
        let (Some(name), Some(node)) = (self.names.get(subject), self.nodes.get_mut(node)) else {
            return;
        };
        let Some(request) = request(name, self.setting, self.consistency) else { return };
        let answer = match node.table.decide_or_refresh(&request, now) {
            Decision::Answered(answer) => answer,
            Decision::Refresh(need) => {
                let refresh = match since {
                    None => node.region.refresh(&node.table, &[need], now),
                    Some(since) => node.region.refresh_again(&node.table, &[need], since, now),
                };
                if let Refresh::Wait(waiter) = refresh {
                    node.callers.insert(waiter, (subject, None));
                    return;
                }
                node.table.decide_refreshed(&request, false, now)
            }
            Decision::Ask(asking) => {
                let claimed = asking.claimed().next();
                if let Asked::Wait(waiter) = node.region.ask(&node.table, asking, now) {
                    node.callers.insert(waiter, (subject, claimed));
                    return;
                }
                node.table.answer_asked(&request, (AskedFor::Unheard, claimed), now)
            }
        };
        self.count(subject, &answer);
    }

    fn count(&mut self, subject: usize, answer: &Answer) {
        let sequence = (answer.reset_unix_ms() / self.setting.window_ms).saturating_sub(1);
        if answer.admitted() {
            self.admitted.count(self.setting, subject, sequence);
        }
    }

    /// Does what the state machine asks for. The table is looked at at once: whoever drives it is
    /// woken when there is something to tell.
    fn pump(&mut self, at: usize) {
        let (mut effects, now) = (Vec::new(), self.now());
        loop {
            let Some(node) = self.nodes.get_mut(at) else { return };
            node.region.tick(&node.table, now);
            node.region.take_effects(&mut effects);
            if effects.is_empty() {
                break;
            }
            for effect in std::mem::take(&mut effects) {
                match effect {
                    Effect::Call { id, call, .. } => {
                        let asked = call.ask.as_ref().map_or(0, |ask| ask.cells.len());
                        self.admitted.operations += (call.records.len() + asked) as u64;
                        let at_us = self.arrival_us();
                        self.queue.push(at_us, Event::ToStore { node: at, id, call });
                    }
                    Effect::Wake { waiter, outcome } => self.wake(at, waiter, &outcome),
                    Effect::Reincarnate => {}
                }
            }
        }
        let Some(node) = self.nodes.get_mut(at) else { return };
        let next_ms = node.region.next_tick_ms().map(|next_ms| next_ms.saturating_sub(1_000_000));
        if let Some(next_us) = next_ms.map(|next_ms| (next_ms * 1_000).max(self.now_us + 1))
            && node.timer_us.is_none_or(|timer_us| timer_us > next_us)
        {
            node.timer_us = Some(next_us);
            self.queue.push(next_us, Event::Tick { node: at });
        }
    }

    fn wake(&mut self, at: usize, waiter: Waiter, outcome: &Outcome) {
        let now = self.now();
        let Some(node) = self.nodes.get_mut(at) else { return };
        let Some((subject, claimed)) = node.callers.remove(&waiter) else { return };
        if outcome.look_again || outcome.granted == Some(Granted::No) {
            return self.ask(at, subject, Some(waiter));
        }
        let Some(name) = self.names.get(subject) else { return };
        let Some(request) = request(name, self.setting, self.consistency) else { return };
        let answer = match outcome.granted {
            Some(granted) => {
                let yes = granted == Granted::Yes;
                let how = if yes { AskedFor::Granted } else { AskedFor::Unheard };
                node.table.answer_asked(&request, (how, claimed), now)
            }
            None => node.table.decide_refreshed(&request, true, now),
        };
        self.count(subject, &answer);
    }
}

fn request(name: &str, setting: Setting, consistency: Consistency) -> Option<Request<'_>> {
    let window = Window::from_millis(setting.window_ms).ok()?;
    let (workspace, namespace) = (Part::new("w").ok()?, Part::new("n").ok()?);
    let subject = Subject::new(workspace, namespace, Part::new(name).ok()?, window);
    let request = Request::new(subject, Limit::new(setting.limit), Cost::ONE);
    Some(request.with_consistency(consistency))
}
