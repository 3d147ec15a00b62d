//! Virtual time, what really was admitted, and what is measured of it.

use tidegate_limiter::Now;

use super::chance::Chance;
use super::fleet::{Fleet, PROCESSES};
use crate::Failure;

/// What happens at some moment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Requests come at a place.
    Arrive(usize),
    /// A process does what is due.
    Tick(usize),
    /// The same, of its other kind of work.
    Sync(usize),
    /// A process hears of a place what its region recorded: a seat.
    Hear(usize, usize),
    /// What was sent arrives.
    Deliver(usize),
}

/// A way to share limits between regions.
pub(crate) trait Scheme {
    /// Gets going.
    fn begin(&mut self, world: &mut World) -> Result<(), Failure>;

    /// Requests of this cost come to a process. Says how much of it was admitted.
    fn admit(&mut self, world: &mut World, at: Spot, cost: u64) -> Result<u64, Failure>;

    /// What it has waited for.
    fn happen(&mut self, world: &mut World, event: Event) -> Result<(), Failure>;

    /// Whether this much of a limit may be used in a region without the others hearing of it.
    fn is_silent(&self, limit: u64, current: u64, weighted_previous: u64) -> bool;
}

/// Where a request comes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub(crate) place: usize,
    /// The process in the fleet, and in its region.
    pub(crate) process: usize,
    pub(crate) rank: usize,
}

/// See the module.
pub(crate) struct World {
    pub(crate) fleet: Fleet,
    pub(crate) chance: Chance,
    pub(crate) burst: f64,
    /// The wall clock at the beginning.
    start_unix_ms: u64,
    pub(crate) ms: u64,
    /// What happens at each millisecond, and how much of the current one has.
    wheel: Vec<Vec<Event>>,
    done: usize,
    /// From when on it is measured.
    pub(crate) from_ms: u64,
    pub(crate) seen: Seen,
}

/// What was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) asked: u64,
    pub(crate) denied: u64,
    /// The most that each window of more than one region came to, in limits.
    pub(crate) worst: Vec<f64>,
    /// From what is worth saying to its being known in another region, in ms.
    pub(crate) latency_ms: Vec<f64>,
}

impl World {
    /// A fleet from this moment on, for so long.
    pub(crate) fn new(fleet: Fleet, seed: u64, start_unix_ms: u64, for_ms: u64) -> Self {
        let moments = usize::try_from(for_ms).unwrap_or(0) + 1;
        let mut world = Self {
            fleet,
            chance: Chance::new(seed),
            burst: 0.0,
            start_unix_ms,
            ms: 0,
            wheel: vec![Vec::new(); moments],
            done: 0,
            from_ms: 0,
            seen: Seen::default(),
        };
        for place in 0..world.fleet.places.len() {
            let person = world.fleet.people.at_mut(world.fleet.places.at(place).person);
            person.sequence = start_unix_ms / person.window_ms;
            world.fleet.places.at_mut(place).sequence = start_unix_ms / person.window_ms;
        }
        world
    }

    /// The clocks: of all processes, they are the same.
    pub(crate) const fn now(&self) -> Now {
        Now::new(self.start_unix_ms + self.ms, self.ms)
    }

    pub(crate) const fn unix_ms(&self) -> u64 {
        self.start_unix_ms + self.ms
    }

    pub(crate) const fn measures(&self) -> bool {
        self.ms >= self.from_ms
    }

    /// Something will happen at this moment, or as soon as it can.
    pub(crate) fn at(&mut self, ms: u64, event: Event) {
        let moment = usize::try_from(ms.max(self.ms)).unwrap_or(usize::MAX);
        if let Some(events) = self.wheel.get_mut(moment) {
            events.push(event);
        }
    }

    /// What happens next, before this moment.
    pub(crate) fn next(&mut self, until_ms: u64) -> Option<Event> {
        loop {
            let now = usize::try_from(self.ms).unwrap_or(usize::MAX);
            let events = self.wheel.get_mut(now)?;
            if let Some(event) = events.get(self.done) {
                self.done += 1;
                return Some(*event);
            }
            *events = Vec::new();
            (self.ms, self.done) = (self.ms + 1, 0);
            if self.ms >= until_ms {
                return None;
            }
        }
    }

    /// Brings a place and its person to the current window; says how much of it is over.
    pub(crate) fn roll(&mut self, number: usize) -> u64 {
        let unix_ms = self.unix_ms();
        let place = self.fleet.places.at_mut(number);
        let person = self.fleet.people.at_mut(place.person);
        let sequence = unix_ms / person.window_ms;
        if place.sequence != sequence {
            let next = place.sequence + 1 == sequence;
            place.used = [0, if next { place.used[0] } else { 0 }];
            place.sequence = sequence;
        }
        if person.sequence != sequence {
            let next = person.sequence + 1 == sequence;
            // Only windows that were measured from their beginning.
            if next && person.regions > 1 && self.ms >= self.from_ms + person.window_ms {
                self.seen.worst.push(person.worst);
            }
            person.total = [0, if next { person.total[0] } else { 0 }];
            (person.sequence, person.worst) = (sequence, 0.0);
        }
        unix_ms % person.window_ms
    }

    /// So much of a request that came was admitted.
    pub(crate) fn admitted(&mut self, number: usize, cost: u64) {
        let unix_ms = self.unix_ms();
        let place = self.fleet.places.at_mut(number);
        let person = self.fleet.people.at_mut(place.person);
        place.used[0] += cost;
        person.total[0] += cost;
        if person.regions > 1 && cost > 0 {
            let rest_ms = person.window_ms - unix_ms % person.window_ms;
            let before = weigh(person.total[1], rest_ms, person.window_ms);
            let used = (person.total[0] + before) as f64 / person.limit as f64;
            person.worst = person.worst.max(used);
        }
    }
}

/// What counts of the window before when so much of this one is left.
pub(crate) fn weigh(previous: u64, rest_ms: u64, window_ms: u64) -> u64 {
    let weighed = u128::from(previous) * u128::from(rest_ms) / u128::from(window_ms.max(1));
    u64::try_from(weighed).unwrap_or(u64::MAX)
}

/// Requests that come to a region at one moment, spread over its processes.
pub(crate) fn ask(
    world: &mut World,
    scheme: &mut impl Scheme,
    place: usize,
    cost: u64,
) -> Result<(), Failure> {
    if cost == 0 {
        return Ok(());
    }
    world.roll(place);
    let region = world.fleet.places.at(place).region;
    let before: usize = PROCESSES.iter().take(region).sum();
    let processes = PROCESSES.get(region).copied().unwrap_or(1);
    let parts = (processes as u64).min(cost);
    let first = world.chance.below(processes);
    for part in 0..parts {
        let rank = (first + usize::try_from(part).unwrap_or(0)) % processes;
        let cost = cost / parts + u64::from(part < cost % parts);
        let spot = Spot { place, process: before + rank, rank };
        let admitted = scheme.admit(world, spot, cost)?;
        if world.measures() {
            world.seen.asked += cost;
            world.seen.denied += cost - admitted;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::fleet::Pattern;
    use super::*;

    #[test]
    fn events_come_in_the_order_of_their_moments() {
        let mut world = World::new(Fleet::default(), 1, 0, 100);
        for ms in [5, 3, 5, 99] {
            world.at(ms, Event::Tick(usize::try_from(ms).unwrap()));
        }
        world.at(101, Event::Tick(101));
        let mut seen = Vec::new();
        while let Some(Event::Tick(number)) = world.next(u64::MAX) {
            seen.push((world.ms, number));
        }
        assert_eq!(seen, [(3, 3), (5, 5), (5, 5), (99, 99)]);
    }

    #[test]
    fn the_worst_of_a_window_counts_the_one_before_it() {
        let mut fleet = Fleet::default();
        let regions = [(0, 0.5), (1, 0.5)];
        fleet.add((60_000, 100), Pattern::Even(1.0), &regions, 0.0).unwrap();
        let mut world = World::new(fleet, 1, 0, 200_000);
        world.admitted(0, 80);
        world.ms = 90_000;
        world.roll(1);
        world.admitted(1, 70);
        assert!((world.fleet.people.at(0).worst - 1.1).abs() < 1e-9, "70 and half of 80");
        world.ms = 121_000;
        world.roll(0);
        assert_eq!(world.seen.worst.len(), 2);
    }
}
