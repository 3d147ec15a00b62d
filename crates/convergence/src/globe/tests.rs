//! Regions and the globe, in virtual time. The names in brackets are lines of the behaviour that
//! the seeds' reference implementation asserts, at our own rule of publishing.

use tidegate_limiter::{
    Answer, Cost, Decision, Limit, Now, Options, Part, Request, Seed, Subject, Table, Window,
};

use super::*;
use crate::global::{GlobalError, GlobalReply, RegionNumber};
use crate::memory::{MemoryGlobe, MemoryRegion};
use crate::pack::unpack;
use crate::region::{Answered, Effect, Refresh, Region};
use crate::store::StoreError;
use crate::tuning::Tuning;

mod again;
mod failures;
mod feed;
mod flow;
mod hidden;
mod losses;
mod repeated;
mod steps;
mod touched;
mod watched;

const START_MS: u64 = 1_700_000_040_000;
const WINDOW_MS: u64 = 60_000;
const HOUR_MS: u64 = 3_600_000;
const REGIONS_MAX: u16 = 10;
const AWAY: Answered = Err(StoreError::Timeout);

/// One process of a region.
struct Process {
    home: usize,
    table: Table,
    region: Region,
    globe: Globe,
    /// It does nothing any more.
    dead: bool,
    /// Its calls to the global store come to nothing.
    cut_off: bool,
}

/// Regions with a store each, one store for all of them, and the time. Every call is answered at
/// once.
struct World {
    stores: Vec<MemoryRegion>,
    globe: MemoryGlobe,
    processes: Vec<Process>,
    now: Now,
    /// What the global store says instead of an answer.
    refuses: Option<fn(&GlobalCall) -> Option<GlobalError>>,
    calls: Vec<GlobalCall>,
    /// The region whose store does not answer.
    away: Option<usize>,
    /// Every other import is answered by this one, which lags.
    replica: Option<MemoryGlobe>,
    /// Answers to publishes that are on their way, and whose they are, while they are held up.
    held: Option<Vec<(usize, GlobeId, GlobalReply)>>,
}

impl World {
    /// So many processes in each region.
    fn new(regions: &[usize]) -> Self {
        Self::tuned(regions, GlobeTuning::default())
    }

    fn tuned(regions: &[usize], tuning: GlobeTuning) -> Self {
        let mut world = Self {
            stores: regions.iter().map(|_| MemoryRegion::new(1)).collect(),
            globe: MemoryGlobe::default(),
            processes: Vec::new(),
            now: Now::new(START_MS, 10_000),
            refuses: None,
            calls: Vec::new(),
            away: None,
            replica: None,
            held: None,
        };
        for (home, processes) in regions.iter().enumerate() {
            for _ in 0..*processes {
                world.add(home, &format!("region-{home}"), tuning);
            }
        }
        world.run_ms(3_000);
        world
    }

    /// Adds a process, and says which it is.
    fn add(&mut self, home: usize, name: &str, tuning: GlobeTuning) -> usize {
        let incarnation = (self.processes.len() as u128 + 1) << 64;
        let options = Options::default().with_budget_bytes(1 << 20).with_region();
        let table = Table::new(options, Seed::from_bytes([7; 32]));
        let mut region = Region::new(Tuning::default(), incarnation, 1);
        region.watch_growth();
        let name = RegionName::new(name).unwrap();
        let options = GlobeOptions { name, regions_max: REGIONS_MAX, private: false };
        let mut globe = Globe::new(tuning, options, incarnation, 1);
        globe.begin(&table);
        let (dead, cut_off) = (false, false);
        self.processes.push(Process { home, table, region, globe, dead, cut_off });
        self.processes.len() - 1
    }

    /// Does all that is to be done at this moment.
    fn settle(&mut self) {
        for at in 0..self.processes.len() {
            if !self.processes[at].dead {
                self.settle_one(at);
            }
        }
    }

    fn settle_one(&mut self, at: usize) {
        let (now, ms) = (self.now, self.now.monotonic_ms());
        loop {
            let Process { home, table, region, globe, cut_off, .. } = &mut self.processes[at];
            region.tick(table, now);
            globe.tick(table, now);
            let (mut effects, mut global, mut touched) = (vec![], vec![], vec![]);
            region.take_effects(&mut effects);
            globe.take_effects(&mut global);
            for effect in effects.drain(..) {
                if let Effect::Call { id, call, .. } = effect {
                    let reply = self.stores[*home].call(&call, ms);
                    let away = self.away == Some(*home);
                    region.replied(table, id, if away { AWAY } else { Ok(reply) }, now);
                }
            }
            region.take_touched(&mut touched);
            globe.touched(table, &touched, now);
            let done = touched.is_empty() && global.is_empty();
            for effect in global {
                match effect {
                    GlobeEffect::Board { id, call, .. } => {
                        let away = self.away == Some(*home);
                        let reply = (!away).then(|| self.stores[*home].board(&call, ms));
                        globe.board_replied(table, id, reply.ok_or(StoreError::Timeout), now);
                    }
                    GlobeEffect::Region { id, call, .. } => {
                        let reply = self.stores[*home].call(&call, ms);
                        globe.region_replied(table, id, Ok(reply), now);
                    }
                    GlobeEffect::Global { id, call, .. } => {
                        self.calls.push(call.clone());
                        let refused = self.refuses.and_then(|refuses| refuses(&call));
                        let answered = match refused {
                            _ if *cut_off => Err(GlobalError::Timeout),
                            Some(why) => Err(why),
                            None if self.calls.len().is_multiple_of(2)
                                && matches!(call, GlobalCall::Import(_))
                                && self.replica.is_some() =>
                            {
                                self.replica.as_mut().unwrap().call(&call, now.unix_ms())
                            }
                            None => self.globe.call(&call, now.unix_ms()),
                        };
                        match (&mut self.held, answered) {
                            (Some(held), Ok(reply @ GlobalReply::Published { .. })) => {
                                held.push((at, id, reply));
                            }
                            (_, answered) => globe.global_replied(table, id, answered, now),
                        }
                    }
                }
            }
            if done {
                return;
            }
        }
    }

    /// Lets time pass.
    fn run_ms(&mut self, ms: u64) {
        let end_ms = self.now.monotonic_ms() + ms;
        loop {
            self.settle();
            let now_ms = self.now.monotonic_ms();
            let alive = self.processes.iter().filter(|process| !process.dead);
            let next = alive.flat_map(|process| {
                [process.globe.next_tick_ms(), process.region.next_tick_ms().unwrap_or(end_ms)]
            });
            let next_ms = next.min().unwrap_or(end_ms).clamp(now_ms + 1, end_ms.max(now_ms + 1));
            if next_ms > end_ms || now_ms >= end_ms {
                return;
            }
            self.now = self.now.after_ms(next_ms - now_ms);
        }
    }

    fn check(&mut self, at: usize, request: &Request<'_>) -> Answer {
        let now = self.now;
        let Process { home, table, region, globe, .. } = &mut self.processes[at];
        let need = match table.decide_or_refresh(request, now) {
            Decision::Answered(answer) => return answer,
            Decision::Refresh(need) => need,
            Decision::Ask(asking) => panic!("not bounded: {asking:?}"),
        };
        globe.adopt_all(table, std::iter::once(need.subject), now);
        assert!(matches!(region.refresh(table, &[need], now), Refresh::Wait(_)));
        let mut effects = Vec::new();
        region.take_effects(&mut effects);
        for effect in effects {
            if let Effect::Call { id, call, .. } = effect {
                let reply = self.stores[*home].call(&call, now.monotonic_ms());
                region.replied(table, id, Ok(reply), now);
            }
        }
        region.take_effects(&mut Vec::new());
        table.decide_refreshed(request, true, now)
    }

    /// Admits a cost that must fit, one by one.
    fn spend(&mut self, at: usize, limit: u64, cost: u64) {
        for _ in 0..cost {
            assert!(self.check(at, &request("user", limit, 1)).admitted());
        }
        self.settle();
    }

    /// All totals that were written and not deleted, with the number of the region, from 1.
    fn written(&self) -> Vec<(usize, u64)> {
        let numbered = |process: &Process| RegionNumber::of(process.globe.name.identity());
        let home = |number: RegionNumber| {
            let of = self.processes.iter().find(|process| numbered(process) == number);
            of.map_or(0, |process| process.home + 1)
        };
        let rows = self.globe.rows().values().filter(|batch| !batch.repeats);
        rows.flat_map(|batch| {
            let counters = unpack(&batch.payload).unwrap().into_iter();
            let home = home(batch.region);
            counters.map(move |counter| (home, counter.count))
        })
        .collect()
    }

    fn counts(&self, at: usize) -> GlobeCounts {
        self.processes[at].globe.counts(self.now)
    }

    /// Which process leads a region.
    fn leader(&self, home: usize) -> usize {
        let leads = |at: &usize| {
            let process = &self.processes[*at];
            process.home == home && !process.dead && self.counts(*at).leads == 1
        };
        (0..self.processes.len()).find(leads).unwrap()
    }
}

/// A request of a window of an hour.
fn long(cost: u64) -> Request<'static> {
    request_of("user", (1_000, cost), HOUR_MS)
}

fn request(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    request_of(identifier, (limit, cost), WINDOW_MS)
}

fn request_of(identifier: &str, (limit, cost): (u64, u64), window_ms: u64) -> Request<'_> {
    let part = |text| Part::new(text).unwrap();
    let window = Window::from_millis(window_ms).unwrap();
    let subject = Subject::new(part("workspace"), part("namespace"), part(identifier), window);
    Request::new(subject, Limit::new(limit), Cost::new(cost).unwrap())
}
