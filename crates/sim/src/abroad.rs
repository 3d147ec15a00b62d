//! What a process says to the other regions and hears of them: the production state machine, and
//! what it should know, reckoned apart from it.

mod agree;
mod database;
mod drive;
mod oracles;
mod stale;

use std::collections::{BTreeMap, BTreeSet};

use tidegate_convergence::{
    BoardCall, BoardReply, Counter, GlobalCall, GlobalError, GlobalReply, Globe, GlobeEffect,
    GlobeId, GlobeOptions, RegionName, RegionNumber, Row, ShardCall, ShardReply, StoreError,
    Touched, unpack,
};
use tidegate_limiter::Ticket;

pub(crate) use database::Database;
pub(crate) use drive::Whose;
pub(crate) use oracles::Maxima;

use crate::fault::Fault;
use crate::ghost::Ghost;
use crate::node::Process;
use crate::options::Options;
use crate::truth::Name;
use crate::world::World;

/// Windows below this stay in their region.
pub(crate) const WINDOW_MIN_MS: u64 = 60_000;
/// Totals of windows that begin later than this, and than one window, are not believed.
const AHEAD_MS: u64 = 300_000;

/// What goes to a store.
#[derive(Clone, Debug)]
pub(crate) enum Errand {
    Board(BoardCall),
    Read(ShardCall),
    Global(GlobalCall),
}

/// What comes back.
#[derive(Clone, Debug)]
pub(crate) enum Returned {
    Board(Result<BoardReply, StoreError>),
    Read(Result<ShardReply, StoreError>),
    Global(Result<GlobalReply, GlobalError>),
}

/// One process and the other regions.
#[derive(Debug)]
pub(crate) struct Abroad {
    pub(crate) globe: Globe,
    pub(crate) effects: Vec<GlobeEffect>,
    pub(crate) timer_us: Option<u64>,
    /// Calls under way: what was asked, and when by the monotonic clock.
    pub(crate) calls: BTreeMap<GlobeId, (Errand, u64)>,
    pub(crate) draining: bool,
    /// Cells of which a total was refused, by itself, since then.
    refused: BTreeSet<Name>,
    /// The number of its region, if it was told.
    pub(crate) own: Option<RegionNumber>,
    /// The last number that it was told: what came under it is its own region's.
    former: Option<RegionNumber>,
    /// The largest total that each region was said to have published of each cell.
    told: BTreeMap<Name, BTreeMap<RegionNumber, u64>>,
    /// What came from a clock that is far ahead: it is not believed, and not asked for again.
    far: BTreeSet<(Name, RegionNumber)>,
    /// When everything had been asked for, by the monotonic clock.
    pub(crate) heard_ms: u64,
    /// Cells of which something should have been published when it was last looked at, and since
    /// when, in microseconds, with what was published by then.
    hidden: BTreeMap<Name, (u64, u64)>,
}

impl Abroad {
    /// The conversation of a process with this identity, if there are other regions.
    pub(crate) fn new(options: &Options, home: usize, incarnation: u128) -> Option<Self> {
        if !options.is_global() {
            return None;
        }
        let name = RegionName::new(&region_name(options, home)).ok()?;
        let about =
            GlobeOptions { name, regions_max: options.regions_max, private: options.is_private() };
        Some(Self {
            globe: Globe::new(options.globe, about, incarnation, options.shards),
            effects: Vec::new(),
            timer_us: None,
            calls: BTreeMap::new(),
            draining: false,
            refused: BTreeSet::new(),
            own: None,
            former: None,
            told: BTreeMap::new(),
            far: BTreeSet::new(),
            heard_ms: 0,
            hidden: BTreeMap::new(),
        })
    }

    /// What all other regions have published of a cell, as far as was told.
    pub(crate) fn foreign(&self, name: Name) -> u64 {
        let all = self.told.get(&name).into_iter().flatten();
        all.filter(|(number, _)| Some(**number) != self.former).map(|(_, count)| *count).sum()
    }

    /// What one region has.
    pub(crate) fn count(&self, name: Name, number: RegionNumber) -> u64 {
        self.told.get(&name).and_then(|cell| cell.get(&number)).copied().unwrap_or(0)
    }

    /// What is of no use any more is forgotten.
    pub(crate) fn expire(&mut self, over: impl Fn(Name) -> bool) {
        self.told.retain(|name, _| !over(*name));
    }

    /// Takes a total in; says whether it is news.
    pub(crate) fn raise(&mut self, name: Name, number: RegionNumber, count: u64) -> bool {
        let held = self.told.entry(name).or_default().entry(number).or_insert(0);
        let news = *held < count;
        *held = (*held).max(count);
        news
    }

    /// Tells the ghost of a subject what is known of both of its cells.
    fn tell(&self, subject: usize, ghost: &mut Ghost) {
        let sequence = ghost.sequence;
        for (sequence, side) in
            [(sequence, &mut ghost.current), (sequence.saturating_sub(1), &mut ghost.previous)]
        {
            let name = (subject, sequence);
            side.foreign = side.foreign.max(self.foreign(name));
            let own = self.former.map_or(0, |own| self.count(name, own));
            let claimed = side.mine + side.pending;
            side.known = side.known.max(own.saturating_sub(claimed));
        }
    }
}

/// The name of a region; a namesake has that of the first.
fn region_name(options: &Options, home: usize) -> String {
    let last = home + 1 == options.shape.regions();
    let namesake = last && options.faults.has(Fault::Namesake);
    format!("region-{}", if namesake { 0 } else { home })
}

impl World {
    /// When a cell is of no use any more, by a wall clock.
    pub(crate) fn expires_ms(&self, (subject, sequence): Name) -> u64 {
        let window_ms = self.specs.get(subject).map_or(1, |spec| spec.window_ms);
        (sequence + 2).saturating_mul(window_ms)
    }

    /// What the region recorded more of goes to the globe, before anybody is woken.
    pub(crate) fn touch(&mut self, process: &mut Process) {
        let now = self.reading(process).into();
        let Some(abroad) = &mut process.abroad else { return };
        let mut touched: Vec<Touched> = Vec::new();
        process.region.take_touched(&mut touched);
        if touched.is_empty() {
            return;
        }
        abroad.globe.touched(&process.table, &touched, now);
        for Touched { subject, .. } in touched.into_iter().filter(|touched| touched.is_untold) {
            self.adopt(process, subject);
        }
    }

    /// Subjects that are about to be decided on hear of the other regions first.
    pub(crate) fn adopt_all(&mut self, process: &mut Process, subjects: &[Ticket]) {
        let now = self.reading(process).into();
        let Some(abroad) = &mut process.abroad else { return };
        abroad.globe.adopt_all(&process.table, subjects.iter().copied(), now);
        for subject in subjects {
            self.adopt(process, *subject);
        }
    }

    /// The same of a ghost.
    fn adopt(&mut self, process: &mut Process, ticket: Ticket) {
        let Some(cells) = process.table.cells(ticket) else { return };
        let Some(subject) = self.digests.get(&cells.current.digest()).copied() else { return };
        let unix_ms = self.reading(process).unix_ms;
        let (Some(abroad), Some(ghost)) = (&process.abroad, process.ghosts.get_mut(&subject))
        else {
            return;
        };
        let live = self.expires_ms((subject, ghost.sequence)) > unix_ms;
        let long = self.specs.get(subject).is_some_and(|spec| spec.window_ms >= WINDOW_MIN_MS);
        if live && long {
            ghost.adopted = true;
            abroad.tell(subject, ghost);
        }
    }

    /// The region of a process got a number. If it had another, what came under that is another
    /// region's from now on: all that it serves hears so.
    pub(crate) fn named(&mut self, process: &mut Process, number: RegionNumber) {
        let unix_ms = self.reading(process).unix_ms;
        let Some(abroad) = &mut process.abroad else { return };
        let named = abroad.own.replace(number) != Some(number);
        if let Some(database) = self.database.as_mut().filter(|_| named) {
            database.namings += 1;
        }
        let before = abroad.former.replace(number);
        if before.is_none_or(|before| before == number) {
            return;
        }
        for (subject, ghost) in &mut process.ghosts {
            let live = self.expires_ms((*subject, ghost.sequence)) > unix_ms;
            if ghost.adopted && ghost.is_long() && live {
                abroad.tell(*subject, ghost);
            }
        }
    }

    /// Rows were delivered to a process.
    fn deliver(&mut self, process: &mut Process, from: u64, rows: &[Row]) {
        let unix_ms = self.reading(process).unix_ms;
        let counters = rows.iter().filter(|row| row.id != from).flat_map(|row| {
            let all = unpack(&row.batch.payload).unwrap_or_default();
            all.into_iter().map(|counter| (row.batch.region, counter))
        });
        for (number, counter) in counters {
            let Some(name) = self.name_of(&counter) else { continue };
            let ahead_ms = (counter.sequence * counter.window_ms).saturating_sub(unix_ms);
            let ahead = ahead_ms > counter.window_ms.max(AHEAD_MS);
            let short = counter.window_ms < WINDOW_MIN_MS;
            let Some(abroad) = &mut process.abroad else { return };
            if ahead {
                abroad.far.insert((name, number));
            }
            if short || counter.expires_ms() <= unix_ms || ahead {
                continue;
            }
            if abroad.raise(name, number, counter.count) {
                self.bring(process, name);
            }
        }
    }

    /// The ghost of a subject that is served hears what is new of a cell. If its window has begun,
    /// it turns first.
    fn bring(&mut self, process: &mut Process, (subject, sequence): Name) {
        let Some(ghost) = process.ghosts.get(&subject).filter(|ghost| ghost.adopted) else {
            return;
        };
        let reading = self.reading(process);
        let clock = self.specs.get(subject).map_or(0, |spec| reading.unix_ms / spec.window_ms);
        if sequence == clock && ghost.sequence < sequence {
            self.seat(process, subject, reading);
        }
        if let (Some(abroad), Some(ghost)) = (&process.abroad, process.ghosts.get_mut(&subject)) {
            abroad.tell(subject, ghost);
        }
    }

    /// The cell that a counter is of.
    fn name_of(&self, counter: &Counter) -> Option<Name> {
        let subject = self.digests.get(&counter.subject).copied()?;
        Some((subject, counter.sequence))
    }
}

#[cfg(test)]
mod tests;
