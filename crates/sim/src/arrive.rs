//! Requests: how they come.

use crate::coverage::{Moment, Moments};
use crate::decide::Stage;
use crate::fault::Fault;
use crate::node::{Ask, Caller};
use crate::options::Traffic;
use crate::world::{Event, World};

/// Who rests does so every second time; who hops is in each region once in this time.
const ROUND_US: u64 = 60_000_000;

impl World {
    /// The next request comes, and the one after it is put into the queue.
    pub(crate) fn arrive(&mut self) {
        if self.requests_left == 0 || self.healed {
            return;
        }
        self.requests_left -= 1;
        self.report.events += 1;
        let gap_us = self.gap_us();
        self.queue.push(self.now_us + gap_us, Event::Arrive);
        let rests = matches!(self.options.traffic, Traffic::Resting | Traffic::Hopping);
        if rests && self.now_us / ROUND_US % 2 == 1 {
            return;
        }
        let any = self.workload.index(self.nodes.len());
        let batch = self.workload.percent(self.options.batch_percent);
        let items = if batch { self.workload.between(2, 4) } else { 1 };
        let asks: Vec<Ask> = (0..items).map(|_| self.ask(batch)).collect();
        let own = self.options.kinds.len();
        if self.muted && asks.iter().any(|ask| ask.subject >= own) {
            return;
        }
        let node = self.node_for(any, &asks);
        let held = self.nodes.get(node).filter(|node| node.paused_until_us <= self.now_us);
        let process = held.and_then(|node| node.process.as_ref()).filter(|p| !p.draining);
        let Some(number) = process.map(|process| process.number) else { return };
        self.with_process(node, number, |world, process| {
            let deadline_us = world.now_us + world.tuning.deadline_ms * 1_000;
            let came = world.reading(process);
            let number = world.requests_left;
            let caller = Caller { number, ..Caller::new(asks, batch, came, deadline_us) };
            world.decide(process, caller, Stage::First);
            world.pump(process);
        });
    }

    /// With several regions, half of the requests of a subject go to one of them for a while.
    fn node_for(&mut self, any: usize, asks: &[Ask]) -> usize {
        let (regions, nodes) = (self.homes.len(), self.nodes.len());
        let hops = self.options.traffic == Traffic::Hopping;
        if regions < 2 || !hops && (self.options.plain || self.workload.percent(50)) {
            return any;
        }
        let each_us = if hops { ROUND_US / regions as u64 } else { 20_000_000 };
        let epoch = usize::try_from(self.now_us / each_us).unwrap_or(0);
        let home = (asks.first().map_or(0, |ask| ask.subject) + epoch) % regions;
        let here = || (0..nodes).filter(|node| self.home_of(*node) == home);
        here().nth(any / regions).or_else(|| here().next()).unwrap_or(nodes - 1)
    }

    fn gap_us(&mut self) -> u64 {
        let mean_us = self.options.safety_ms * 1_000 / self.options.requests.max(1);
        if !matches!(self.options.traffic, Traffic::Burst | Traffic::Boundary) {
            return self.workload.below(2 * mean_us);
        }
        if self.burst_left > 0 {
            self.burst_left -= 1;
            return self.workload.below(200);
        }
        self.burst_left = self.workload.skewed(10, 120);
        let gap_us = self.workload.below(2 * mean_us * self.burst_left);
        if self.options.traffic == Traffic::Burst {
            return gap_us;
        }
        // Windows are whole seconds: a little before or after the next one.
        let second_us = (self.now_us + gap_us).next_multiple_of(1_000_000);
        (second_us + self.workload.below(40_000)).saturating_sub(self.now_us + 20_000)
    }

    fn ask(&mut self, batch: bool) -> Ask {
        if self.options.plain {
            let subject = self.workload.index(self.options.kinds.len());
            let limit = self.specs.get(subject).map_or(1, |spec| spec.limit);
            return Ask { subject, limit, cost: 1, bounded: self.bounded(subject, 1), deny: false };
        }
        let own = self.options.kinds.len();
        let flood = self.options.faults.has(Fault::Flood) && self.workload.percent(30);
        let subject = if flood {
            self.struck(Fault::Flood, Moments::default().with(Moment::Batch, batch));
            own + self.workload.index(self.specs.len() - own)
        } else if self.workload.percent(35) {
            0
        } else {
            self.workload.index(own)
        };
        let limit = self.specs.get(subject).map_or(1, |spec| spec.limit);
        let cost = match self.workload.below(100) {
            0..5 => 0,
            5..75 => 1,
            75..95 => self.workload.between(2, 5),
            _ => self.workload.between(1, limit + limit / 4),
        };
        let limit = match self.workload.below(100) {
            0 => 0,
            n if n <= self.options.second_limit_percent => 2 * limit,
            _ => limit,
        };
        let deny = self.outage.percent(self.options.deny_percent);
        Ask { subject, limit, cost, bounded: self.bounded(subject, cost), deny }
    }

    /// Whether a request is of bounded consistency. One that takes nothing is not; and who is alone
    /// in its region has nobody to ask.
    fn bounded(&mut self, subject: usize, cost: u64) -> bool {
        let usual = self.specs.get(subject).map_or(0, |spec| spec.bounded_percent);
        let percent = usual.min(self.options.bounded_percent);
        percent > 0 && self.consistency.percent(percent) && cost > 0 && !self.options.is_private()
    }
}
