//! The rule of the reference: a view is the larger of what is known here and what the store says,
//! each admission adds one to the store at once, and a cell that is cold, stale or strict is read
//! first.

use crate::chance::Chance;
use crate::queue::Queue;

use super::{Admitted, Arrival, LATENCY_US, Setting, WINDOW_MS};

/// How long a view is fresh.
const FRESH_US: u64 = 5_000_000;

/// What a node knows of a cell.
#[derive(Clone, Debug, Default)]
struct View {
    count: u64,
    fresh_until_us: u64,
    strict_until_us: u64,
    reading: bool,
    waiting: u64,
}

/// What is on its way.
#[derive(Clone, Copy, Debug)]
enum Message {
    Read { node: usize, cell: usize },
    Add { node: usize, cell: usize },
    Count { node: usize, cell: usize, count: u64, read: bool },
}

struct Fleet {
    limit: u64,
    /// By node and cell.
    views: Vec<Vec<View>>,
    store: Vec<u64>,
    queue: Queue<Message>,
    network: Chance,
    admitted: Admitted,
}

pub(super) fn run(setting: Setting, group: u64, arrivals: &[Arrival]) -> Admitted {
    let cells = arrivals.iter().map(|arrival| arrival.cell + 1).max().unwrap_or(0);
    let requests = arrivals.len() as u64;
    let mut fleet = Fleet {
        limit: setting.limit,
        views: vec![vec![View::default(); cells]; setting.nodes],
        store: vec![0; cells],
        queue: Queue::new(),
        network: Chance::new(group, "network"),
        admitted: Admitted { cells: vec![0; cells], operations: 0, requests },
    };
    for arrival in arrivals {
        while let Some((at_us, message)) = fleet.queue.pop_before(arrival.at_us) {
            fleet.hear(message, at_us);
        }
        fleet.ask(arrival.node, arrival.cell, arrival.at_us);
    }
    while let Some((at_us, message)) = fleet.queue.pop_before(u64::MAX) {
        fleet.hear(message, at_us);
    }
    fleet.admitted
}

impl Fleet {
    fn send(&mut self, message: Message, now_us: u64) {
        let (low, high) = LATENCY_US;
        let at_us = now_us + self.network.between(low, high);
        self.queue.push(at_us, message);
    }

    fn view(&mut self, node: usize, cell: usize) -> Option<&mut View> {
        self.views.get_mut(node)?.get_mut(cell)
    }

    fn ask(&mut self, node: usize, cell: usize, now_us: u64) {
        let limit = self.limit;
        let Some(view) = self.view(node, cell) else { return };
        if view.count >= limit {
            view.strict_until_us = now_us + WINDOW_MS * 1_000;
        } else if view.fresh_until_us <= now_us || view.strict_until_us > now_us {
            view.waiting += 1;
            if !std::mem::replace(&mut view.reading, true) {
                self.admitted.operations += 1;
                self.send(Message::Read { node, cell }, now_us);
            }
        } else {
            self.decide(node, cell, now_us);
        }
    }

    fn decide(&mut self, node: usize, cell: usize, now_us: u64) {
        let limit = self.limit;
        let Some(view) = self.view(node, cell) else { return };
        if view.count >= limit {
            view.strict_until_us = now_us + WINDOW_MS * 1_000;
            return;
        }
        view.count += 1;
        if let Some(admitted) = self.admitted.cells.get_mut(cell) {
            *admitted += 1;
        }
        self.admitted.operations += 1;
        self.send(Message::Add { node, cell }, now_us);
    }

    fn hear(&mut self, message: Message, now_us: u64) {
        match message {
            Message::Read { node, cell } => {
                let count = self.store.get(cell).copied().unwrap_or(0);
                self.send(Message::Count { node, cell, count, read: true }, now_us);
            }
            Message::Add { node, cell } => {
                let Some(count) = self.store.get_mut(cell) else { return };
                *count += 1;
                let count = *count;
                self.send(Message::Count { node, cell, count, read: false }, now_us);
            }
            Message::Count { node, cell, count, read } => {
                let Some(view) = self.view(node, cell) else { return };
                view.count = view.count.max(count);
                view.fresh_until_us = now_us + FRESH_US;
                if read {
                    view.reading = false;
                    for _ in 0..std::mem::take(&mut view.waiting) {
                        self.decide(node, cell, now_us);
                    }
                }
            }
        }
    }
}
