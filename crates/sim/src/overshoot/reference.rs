//! The rule of the reference: a view is the larger of what is known here and what the store says,
//! each admission adds one to the store at once, and a cell that is cold, stale or strict is read
//! first. Reads are shared, which flatters it: its strict reads are not.

use std::collections::BTreeMap;

use crate::chance::Chance;
use crate::node::START_MS;
use crate::queue::Queue;

use super::{Admitted, Arrival, Setting, subjects};

/// How long a view is fresh.
const FRESH_US: u64 = 5_000_000;

/// What a node knows of a cell.
#[derive(Clone, Copy, Debug, Default)]
struct View {
    count: u64,
    fresh_until_us: u64,
}

/// What a node knows of a subject, and who waits there.
#[derive(Clone, Debug, Default)]
struct Known {
    /// By sequence.
    cells: BTreeMap<u64, View>,
    strict_until_us: u64,
    reading: bool,
    waiting: u64,
}

/// Where something is meant for, and of which window.
#[derive(Clone, Copy, Debug)]
struct Place {
    node: usize,
    subject: usize,
    sequence: u64,
}

/// What is on its way.
#[derive(Clone, Copy, Debug)]
enum Message {
    /// Reads a cell and the one before it.
    Read(Place),
    Add(Place),
    Counts {
        place: Place,
        counts: [u64; 2],
    },
    Count {
        place: Place,
        count: u64,
    },
}

struct Fleet {
    setting: Setting,
    /// By node and subject.
    known: Vec<Vec<Known>>,
    /// By subject and sequence.
    store: Vec<BTreeMap<u64, u64>>,
    queue: Queue<Message>,
    network: Chance,
    admitted: Admitted,
}

pub(super) fn run(setting: Setting, group: u64, arrivals: &[Arrival]) -> Admitted {
    let subjects = subjects(arrivals);
    let mut fleet = Fleet {
        setting,
        known: vec![vec![Known::default(); subjects]; setting.nodes],
        store: vec![BTreeMap::new(); subjects],
        queue: Queue::new(),
        network: Chance::new(group, "network"),
        admitted: Admitted::of(setting, arrivals),
    };
    for arrival in arrivals {
        while let Some((at_us, message)) = fleet.queue.pop_before(arrival.at_us) {
            fleet.hear(message, at_us);
        }
        fleet.ask(arrival.node, arrival.subject, arrival.at_us);
    }
    while let Some((at_us, message)) = fleet.queue.pop_before(u64::MAX) {
        fleet.hear(message, at_us);
    }
    fleet.admitted
}

impl Fleet {
    /// The current sequence, and how much of its window is left.
    const fn sequence(&self, now_us: u64) -> (u64, u64) {
        let (unix_ms, window_ms) = (START_MS + now_us / 1_000, self.setting.window_ms);
        (unix_ms / window_ms, window_ms - unix_ms % window_ms)
    }

    fn send(&mut self, message: Message, now_us: u64) {
        let (low, high) = self.setting.latency_us;
        let at_us = now_us + self.network.between(low, high);
        self.queue.push(at_us, message);
    }

    fn known(&mut self, node: usize, subject: usize) -> Option<&mut Known> {
        self.known.get_mut(node)?.get_mut(subject)
    }

    fn ask(&mut self, node: usize, subject: usize, now_us: u64) {
        let (sequence, _) = self.sequence(now_us);
        let Some(known) = self.known(node, subject) else { return };
        let stale = |sequence: u64| {
            let view = known.cells.get(&sequence);
            u64::from(view.is_none_or(|view| view.fresh_until_us <= now_us))
        };
        let strict = u64::from(known.strict_until_us > now_us);
        let reads = stale(sequence).max(strict) + stale(sequence - 1);
        if reads == 0 {
            return self.decide(node, subject, now_us);
        }
        known.waiting += 1;
        if !std::mem::replace(&mut known.reading, true) {
            self.admitted.operations += reads;
            self.send(Message::Read(Place { node, subject, sequence }), now_us);
        }
    }

    fn decide(&mut self, node: usize, subject: usize, now_us: u64) {
        let Setting { limit, window_ms, .. } = self.setting;
        let (sequence, rest_ms) = self.sequence(now_us);
        let Some(known) = self.known(node, subject) else { return };
        let before = known.cells.get(&(sequence - 1)).map_or(0, |view| view.count);
        let view = known.cells.entry(sequence).or_default();
        if view.count + before * rest_ms / window_ms >= limit {
            known.strict_until_us = now_us + window_ms * 1_000;
            return;
        }
        view.count += 1;
        self.admitted.count(self.setting, subject, sequence);
        self.admitted.operations += 1;
        self.send(Message::Add(Place { node, subject, sequence }), now_us);
    }

    fn hear(&mut self, message: Message, now_us: u64) {
        match message {
            Message::Read(place) => {
                let Some(cells) = self.store.get(place.subject) else { return };
                let count = |sequence: u64| cells.get(&sequence).copied().unwrap_or(0);
                let counts = [count(place.sequence), count(place.sequence - 1)];
                self.send(Message::Counts { place, counts }, now_us);
            }
            Message::Add(place) => {
                let Some(cells) = self.store.get_mut(place.subject) else { return };
                let count = cells.entry(place.sequence).or_default();
                *count += 1;
                let count = *count;
                self.send(Message::Count { place, count }, now_us);
            }
            Message::Count { place, count } => self.merge(place, count, now_us),
            Message::Counts { place, counts: [count, before] } => {
                self.merge(place, count, now_us);
                self.merge(Place { sequence: place.sequence - 1, ..place }, before, now_us);
                let Some(known) = self.known(place.node, place.subject) else { return };
                known.reading = false;
                for _ in 0..std::mem::take(&mut known.waiting) {
                    self.decide(place.node, place.subject, now_us);
                }
            }
        }
    }

    fn merge(&mut self, Place { node, subject, sequence }: Place, count: u64, now_us: u64) {
        let Some(known) = self.known(node, subject) else { return };
        let view = known.cells.entry(sequence).or_default();
        view.count = view.count.max(count);
        view.fresh_until_us = now_us + FRESH_US;
    }
}
