//! The RFC's fleet: every ten seconds each process writes what is above half of its limit and grew,
//! and reads the sums of all other regions.
//!
//! The region is instant and exact here too.

mod table;

use super::dense::Dense;
use super::feed::VISIBLE_MS;
use super::fleet::PROCESSES;
use super::world::{Event, Scheme, Spot, World, weigh};
use crate::Failure;
pub(crate) use table::Table;
use table::Written;

/// How often a process writes and reads.
const EVERY_MS: u64 = 10_000;
/// Whatever is below this part of its limit is not written.
const FLOOR_PART: u64 = 2;
/// How often rows that have expired are deleted.
const CLEAN_MS: u64 = 60_000;

/// See the module.
pub(crate) struct Rfc<'a> {
    table: Table<'a>,
    processes: Dense<Process>,
    /// For each process of each place: what others used.
    views: Dense<View>,
    places: Dense<Shown>,
    /// What was sent and is not there yet.
    under_way: Dense<Vec<Written>>,
    next_clean_ms: u64,
    pub(crate) counts: Counts,
    second: (u64, u64),
}

/// What was done while it was measured.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) rows_written: u64,
    pub(crate) rows_returned: u64,
    pub(crate) peak: u64,
}

struct Process {
    region: usize,
    rank: usize,
    /// Places at which it admitted something since it last looked.
    dirty: Vec<usize>,
    /// When it last read.
    synced_ms: u64,
}

/// What a process knows of other regions: a window, and the sums of it and of the one before.
#[derive(Clone, Copy, Debug, Default)]
struct View {
    sequence: u64,
    foreign: [u64; 2],
}

impl View {
    fn roll(&mut self, sequence: u64) {
        if self.sequence != sequence {
            let next = self.sequence + 1 == sequence;
            self.foreign = [0, if next { self.foreign[0] } else { 0 }];
            self.sequence = sequence;
        }
    }
}

/// What a place has written, for whom it is new, and since when that was worth it.
#[derive(Clone, Debug, Default)]
struct Shown {
    /// Bits of the processes that admitted something to the current window, and to the one before.
    dirty: [u8; 2],
    sequence: u64,
    listed: u8,
    worthy_ms: Option<u64>,
    /// What others could read of it last.
    visible: Option<Visible>,
}

/// A window, what was written of it, when that was there to be read, and since when it had been
/// worth writing.
#[derive(Clone, Copy, Debug)]
struct Visible {
    of: (u64, u64),
    ms: u64,
    since_ms: u64,
}

impl Shown {
    fn roll(&mut self, sequence: u64) {
        if self.sequence != sequence {
            let next = self.sequence + 1 == sequence;
            self.dirty = [0, if next { self.dirty[0] } else { 0 }];
            self.sequence = sequence;
        }
    }
}

fn floor(limit: u64) -> u64 {
    limit.div_ceil(FLOOR_PART).max(1)
}

impl<'a> Rfc<'a> {
    pub(crate) fn new(world: &World, table: Table<'a>) -> Self {
        let places = PROCESSES.into_iter().enumerate();
        let all = places.flat_map(|(region, many)| (0..many).map(move |rank| (region, rank)));
        let process = |(region, rank)| Process { region, rank, dirty: vec![], synced_ms: 0 };
        Self {
            table,
            processes: all.map(process).collect(),
            views: (0..world.fleet.seats).map(|_| View::default()).collect(),
            places: (0..world.fleet.places.len()).map(|_| Shown::default()).collect(),
            under_way: Dense::default(),
            next_clean_ms: CLEAN_MS,
            counts: Counts::default(),
            second: (0, 0),
        }
    }

    /// A process writes what is worth it.
    fn flush(&mut self, world: &mut World, number: usize) -> Result<(), Failure> {
        let process = self.processes.at_mut(number);
        let (region, bit) = (process.region, 1_u8 << process.rank);
        let mut rows = Vec::new();
        for place in std::mem::take(&mut process.dirty) {
            world.roll(place);
            let here = world.fleet.places.at(place);
            let person = world.fleet.people.at(here.person);
            let shown = self.places.at_mut(place);
            shown.roll(here.sequence);
            shown.listed &= !bit;
            let before = rows.len();
            let windows = [here.sequence, here.sequence.saturating_sub(1)];
            for ((used, dirty), sequence) in here.used.iter().zip(&mut shown.dirty).zip(windows) {
                if *dirty & bit != 0 && *used >= floor(person.limit) {
                    let since_ms = shown.worthy_ms.unwrap_or(world.ms);
                    let person = here.person;
                    rows.push(Written { place, person, region, sequence, count: *used, since_ms });
                }
                *dirty &= !bit;
            }
            if rows.len() > before {
                shown.worthy_ms = None;
            }
        }
        if !rows.is_empty() {
            self.count(world, rows.len() as u64);
            let sent = self.under_way.add(rows);
            world.at(world.ms + VISIBLE_MS, Event::Deliver(sent));
        }
        let next_ms = world.ms + world.chance.jitter(EVERY_MS);
        world.at(next_ms, Event::Tick(number));
        Ok(())
    }

    fn count(&mut self, world: &World, rows: u64) {
        let second = world.ms / 1_000;
        if self.second.0 != second {
            self.second = (second, 0);
        }
        self.second.1 += rows;
        if world.measures() {
            self.counts.rows_written += rows;
            self.counts.peak = self.counts.peak.max(self.second.1);
        }
    }

    /// A process reads what others wrote.
    fn sync(&mut self, world: &mut World, number: usize) -> Result<(), Failure> {
        let process = self.processes.at_mut(number);
        let (region, rank) = (process.region, process.rank);
        let since_ms = std::mem::replace(&mut process.synced_ms, world.ms);
        let sums = self.table.sums(&world.fleet, world.unix_ms(), region)?;
        if world.measures() {
            self.counts.rows_returned += sums.len() as u64;
        }
        for (person, sequence, sum) in sums {
            let Some(place) = world.fleet.place(person, region) else { continue };
            world.roll(place);
            let here = world.fleet.places.at(place);
            let view = self.views.at_mut(here.first_seat + rank);
            view.roll(here.sequence);
            let [current, previous] = &mut view.foreign;
            if sequence == here.sequence {
                *current = sum.max(*current);
            } else if sequence + 1 == here.sequence {
                *previous = sum.max(*previous);
            }
            if rank == 0 && sequence == here.sequence && world.measures() {
                self.note_latency(world, (person, place), since_ms);
            }
        }
        let next_ms = world.ms + world.chance.jitter(EVERY_MS);
        world.at(next_ms, Event::Sync(number));
        Ok(())
    }

    /// What other regions wrote since this one last read.
    fn note_latency(&self, world: &mut World, (person, place): (usize, usize), since_ms: u64) {
        for other in world.fleet.people.at(person).places().filter(|other| *other != place) {
            if let Some(visible) = self.places.at(other).visible
                && visible.ms >= since_ms
            {
                world.seen.latency_ms.push((world.ms - visible.since_ms) as f64);
            }
        }
    }

    fn deliver(&mut self, world: &World, number: usize) -> Result<(), Failure> {
        let rows = std::mem::take(self.under_way.at_mut(number));
        self.table.write(&world.fleet, &rows, world.unix_ms())?;
        for Written { place, sequence, count, since_ms, .. } in rows {
            let visible = &mut self.places.at_mut(place).visible;
            // Another process of the region may have written as much before.
            if visible.is_none_or(|before| before.of < (sequence, count)) {
                *visible = Some(Visible { of: (sequence, count), ms: world.ms, since_ms });
            }
        }
        if world.ms >= self.next_clean_ms {
            self.next_clean_ms = world.ms + CLEAN_MS;
            self.table.clean(world.unix_ms())?;
        }
        Ok(())
    }
}

impl Scheme for Rfc<'_> {
    fn begin(&mut self, world: &mut World) -> Result<(), Failure> {
        for process in 0..self.processes.len() {
            for event in [Event::Tick(process), Event::Sync(process)] {
                let ms = 1 + world.chance.roll() % EVERY_MS;
                world.at(ms, event);
            }
        }
        Ok(())
    }

    fn admit(&mut self, world: &mut World, at: Spot, cost: u64) -> Result<u64, Failure> {
        let place = world.fleet.places.at(at.place);
        let person = world.fleet.people.at(place.person);
        let (sequence, limit) = (place.sequence, person.limit);
        let view = self.views.at_mut(place.first_seat + at.rank);
        view.roll(sequence);
        let rest_ms = person.window_ms - world.unix_ms() % person.window_ms;
        let before = weigh(place.used[1] + view.foreign[1], rest_ms, person.window_ms);
        let used = place.used[0] + view.foreign[0] + before;
        let admitted = limit.saturating_sub(used).min(cost);
        if admitted > 0 {
            world.admitted(at.place, admitted);
            let used = world.fleet.places.at(at.place).used[0];
            let shown = self.places.at_mut(at.place);
            shown.roll(sequence);
            let bit = 1_u8 << at.rank;
            shown.dirty[0] |= bit;
            if used >= floor(limit) && shown.worthy_ms.is_none() {
                shown.worthy_ms = Some(world.ms);
            }
            if shown.listed & bit == 0 {
                shown.listed |= bit;
                self.processes.at_mut(at.process).dirty.push(at.place);
            }
        }
        Ok(admitted)
    }

    fn happen(&mut self, world: &mut World, event: Event) -> Result<(), Failure> {
        match event {
            Event::Tick(process) => self.flush(world, process),
            Event::Sync(process) => self.sync(world, process),
            Event::Deliver(number) => self.deliver(world, number),
            Event::Hear(..) | Event::Arrive(_) => Ok(()),
        }
    }

    fn is_silent(&self, limit: u64, current: u64, _: u64) -> bool {
        current < floor(limit)
    }
}
