//! The global store, and what befalls it.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_convergence::{Batch, Counter, GlobalCall, GlobalError, MemoryGlobe, NAME_LAPSE_MS};
use tidegate_convergence::{Post, RegionName, RegionNumber, Reply, ShardReply, unpack};
use tidegate_limiter::Digest;

use super::Errand;
use super::oracles::{Cell, Maxima};
use crate::chance::Chance;
use crate::fault::Fault;
use crate::options::Options;

/// The store.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) memory: MemoryGlobe,
    /// What a replica has that a failover would put in its place.
    pub(crate) standby: Option<MemoryGlobe>,
    /// What a replica has that imports read while it lags.
    pub(crate) replica: Option<MemoryGlobe>,
    pub(crate) lags_until_us: u64,
    /// An import was answered by it: rows that were read before may have seemed to be lost.
    pub(crate) lagged: bool,
    pub(crate) away_until_us: u64,
    /// It answers that it is away, instead of not at all.
    pub(crate) away_answers: bool,
    /// Rows that become visible late, calls that are refused for now, and calls or answers that
    /// are lost, in a thousand.
    pub(crate) late_permille: u64,
    pub(crate) busy_permille: u64,
    pub(crate) vanish_permille: u64,
    /// Rows that hold this subject are refused...
    pub(crate) poison: Option<(usize, Digest)>,
    /// ...also when everything else is mended.
    pub(crate) poison_stays: bool,
    /// Raised by every failover: what was being committed is not.
    pub(crate) epoch: u64,
    /// Whose the numbers are that were ever in use. A region that lost its identity has several.
    pub(crate) holders: BTreeMap<RegionNumber, usize>,
    /// Who used a name last, and when.
    names: BTreeMap<RegionName, (RegionNumber, u64)>,
    /// The largest total of each cell and number that ever was in the feed.
    pub(crate) published: Maxima,
    /// The largest total of each cell and number in rows that a failover took out of the feed.
    lost: Maxima,
    /// The most that the store of a region held of a cell when a process looked that publishes for
    /// it, since a failover took the cell out of the feed.
    looks: BTreeMap<(Cell, u32), u64>,
    /// How much had to be hidden of a cell when it was taken from a board last, for it to be
    /// published; and how much there was of it when that was too little.
    steps: Maxima,
    skipped: Maxima,
    /// The largest total that each process wrote of each cell and number.
    written: BTreeMap<(Cell, u32), u64>,
    /// The latest moment that the wall clock of a leader showed since a failover, by the number it
    /// published under.
    leaders_ms: BTreeMap<RegionNumber, u64>,
    /// The latest moment that the wall clock of one showed who deleted old rows of a number.
    trims_ms: BTreeMap<RegionNumber, u64>,
    /// Who has read something.
    readers: BTreeSet<u32>,
    /// Those of them for whom rows were gone, because a failover lost them or a replica lagged.
    /// When one of them leads, what it knows may be news, so it says it once more. Whether it has
    /// said a part of it since: what it had written itself and missed.
    bereft: BTreeMap<u32, bool>,
    /// Rows written that repeat nothing.
    pub(crate) rows: u64,
    /// How often a process was given a name that it did not have.
    pub(crate) namings: u64,
    /// The longest way through the network, in microseconds.
    pub(crate) latency_us: u64,
}

impl Database {
    pub(crate) fn new(options: &Options, subjects: &[(usize, Digest)]) -> Option<Self> {
        if !options.is_global() {
            return None;
        }
        let mut chance = Chance::new(options.seed, "database");
        let mut permille = |fault, low, high| {
            let drawn = chance.skewed(low, high);
            if options.faults.has(fault) { drawn } else { 0 }
        };
        let late_permille = permille(Fault::Late, 50, 700);
        let busy_permille = permille(Fault::Busy, 10, 400);
        let vanish_permille = permille(Fault::Vanish, 10, 300);
        let poisoned = chance.of(subjects).filter(|_| options.faults.has(Fault::Poison));
        Some(Self {
            memory: MemoryGlobe::default(),
            standby: None,
            replica: None,
            lags_until_us: 0,
            lagged: false,
            away_until_us: 0,
            away_answers: false,
            late_permille,
            busy_permille,
            vanish_permille,
            poison: poisoned,
            poison_stays: chance.percent(50),
            epoch: 0,
            holders: BTreeMap::new(),
            names: BTreeMap::new(),
            published: Maxima::new(),
            lost: Maxima::new(),
            looks: BTreeMap::new(),
            steps: Maxima::new(),
            skipped: Maxima::new(),
            written: BTreeMap::new(),
            leaders_ms: BTreeMap::new(),
            trims_ms: BTreeMap::new(),
            readers: BTreeSet::new(),
            bereft: BTreeMap::new(),
            rows: 0,
            namings: 0,
            latency_us: chance.of(&[2_000, 20_000, 120_000]).unwrap_or(2_000),
        })
    }

    /// Nothing goes wrong from now on.
    pub(crate) fn mend(&mut self) {
        (self.away_until_us, self.lags_until_us) = (0, 0);
        (self.late_permille, self.busy_permille, self.vanish_permille) = (0, 0, 0);
        if !self.poison_stays {
            self.poison = None;
        }
    }

    /// A replica takes over. What it had not heard of is lost: rows, and who has which name.
    pub(crate) fn fail_over(&mut self, replica: MemoryGlobe) {
        let before = std::mem::replace(&mut self.memory, replica);
        let kept =
            |id: &u64, nonce: u64| self.memory.rows().get(id).is_some_and(|row| row.nonce == nonce);
        for (_, batch) in before.rows().iter().filter(|(id, batch)| !kept(id, batch.nonce)) {
            raise(&mut self.lost, batch);
            for counter in unpack(&batch.payload).unwrap_or_default() {
                let gone = cell_of(batch.region, &counter);
                self.looks.retain(|(cell, _), _| *cell != gone);
            }
            self.bereft.extend(self.readers.iter().map(|reader| (*reader, false)));
        }
        self.epoch += 1;
    }

    /// The largest total of a cell in a row that a failover took out of the feed.
    pub(crate) fn lost(&self, cell: Cell) -> u64 {
        self.lost.get(&cell).copied().unwrap_or(0)
    }

    /// One that publishes under a number looked at what the store of its region holds.
    pub(crate) fn looked(
        &mut self,
        (who, number): (u32, RegionNumber),
        errand: &Errand,
        reply: &ShardReply,
    ) {
        let Errand::Read(call) = errand else { return };
        for (record, reply) in call.records.iter().zip(&reply.replies) {
            let Some(Reply { current, previous }) = reply else { continue };
            let both = [(record.sequence, current), (record.sequence.saturating_sub(1), previous)];
            let mut news = 0;
            for (sequence, held) in both {
                let cell = (record.subject, record.window_ms, sequence, number);
                let most = self.looks.entry((cell, who)).or_insert(0);
                *most = held.sum.max(*most);
                news += held.sum.saturating_sub(self.published.get(&cell).copied().unwrap_or(0));
            }
            let cell = (record.subject, record.window_ms, record.sequence, number);
            // Half of what it should be is published, too.
            if self.steps.get(&cell).is_some_and(|step| 2 * news < *step) {
                self.skipped.insert(cell, current.sum);
            }
        }
    }

    /// Whether one looked since a failover lost the cell, and the store never held more than this.
    pub(crate) fn has_found_no_more(&self, who: u32, cell: Cell, count: u64) -> bool {
        self.looks.get(&(cell, who)).is_some_and(|most| *most <= count)
    }

    /// One that publishes under a number took these from its board.
    pub(crate) fn took(&mut self, number: RegionNumber, posts: &[Post]) {
        for Post { subject, window_ms, sequence, step } in posts {
            let cell = (*subject, *window_ms, *sequence, number);
            self.steps.insert(cell, *step);
            self.skipped.remove(&cell);
        }
    }

    /// Whether one looked, found so much, and that it was less than it should be to be published.
    pub(crate) fn has_skipped(&self, cell: Cell, count: u64) -> bool {
        self.skipped.get(&cell).is_some_and(|found| *found >= count)
    }

    /// Whether nobody may speak under a number any more: another region has its name now.
    pub(crate) fn is_mute(&self, number: RegionNumber) -> bool {
        !self.names.values().any(|(holder, _)| *holder == number)
    }

    /// Whether a row holds something that is refused.
    pub(crate) fn refuses(&self, call: &GlobalCall) -> Option<GlobalError> {
        let (GlobalCall::Publish(batch), Some((_, poison))) = (call, self.poison) else {
            return None;
        };
        let counters = unpack(&batch.payload).unwrap_or_default();
        let bad = counters.iter().any(|counter| counter.subject == poison);
        bad.then(|| GlobalError::Refused("out of range".to_owned()))
    }

    /// A region got a name. Says whether it took it from one that had it a moment ago.
    pub(crate) fn hold(
        &mut self,
        (name, home): (&RegionName, usize),
        number: RegionNumber,
        now_ms: u64,
    ) -> bool {
        let before = self.names.insert(name.clone(), (number, now_ms));
        self.holders.insert(number, home);
        before.is_some_and(|(held, seen_ms)| {
            held != number && seen_ms > 0 && now_ms - seen_ms < NAME_LAPSE_MS
        })
    }

    /// A region gave its name back.
    pub(crate) fn let_go(&mut self, name: &RegionName, number: RegionNumber) {
        if self.names.get(name).is_some_and(|(held, _)| *held == number) {
            self.names.entry(name.clone()).and_modify(|(_, seen_ms)| *seen_ms = 0);
        }
    }

    /// The largest total of each cell and region in the feed.
    pub(crate) fn maxima(&self) -> Maxima {
        let mut maxima = Maxima::new();
        for batch in self.memory.rows().values() {
            raise(&mut maxima, batch);
        }
        maxima
    }

    /// The largest total that a process wrote of a cell under this number.
    pub(crate) fn written(&self, cell: Cell, writer: u32) -> u64 {
        self.written.get(&(cell, writer)).copied().unwrap_or(0)
    }

    /// What each number ever published of a cell.
    pub(crate) fn published_of(
        &self,
        (digest, window_ms, sequence): (Digest, u64, u64),
    ) -> impl Iterator<Item = (RegionNumber, u64)> {
        let of = |number| (digest, window_ms, sequence, number);
        let all = self.published.range(of(RegionNumber(0))..=of(RegionNumber(u32::MAX)));
        all.map(|((.., number), count)| (*number, *count))
    }

    /// After a failover: one that publishes under this number has a clock that shows this moment.
    pub(crate) fn led(&mut self, number: RegionNumber, unix_ms: u64) {
        let latest_ms = self.leaders_ms.entry(number).or_default();
        *latest_ms = unix_ms.max(*latest_ms);
    }

    /// Whether one that led after a failover took a cell as expired.
    pub(crate) fn is_outlived(&self, (_, window_ms, sequence, number): Cell) -> bool {
        let expires_ms = (sequence + 2).saturating_mul(window_ms);
        self.leaders_ms.get(&number).is_some_and(|latest_ms| *latest_ms >= expires_ms)
    }

    /// Rows of a number are deleted by one whose clock shows this moment.
    pub(crate) fn trimmed(&mut self, number: RegionNumber, unix_ms: u64) {
        let latest_ms = self.trims_ms.entry(number).or_default();
        *latest_ms = unix_ms.max(*latest_ms);
    }

    /// Whether one that deleted rows took a cell as expired, so that it did not repeat it first.
    pub(crate) fn is_trimmed(&self, (_, window_ms, sequence, number): Cell) -> bool {
        let expires_ms = (sequence + 2).saturating_mul(window_ms);
        self.trims_ms.get(&number).is_some_and(|latest_ms| *latest_ms >= expires_ms)
    }

    /// Somebody reads the feed, or what a replica has of it that lags.
    pub(crate) fn read_by(&mut self, reader: u32, lags: bool) {
        self.readers.insert(reader);
        self.lagged |= lags;
        if lags {
            self.bereft.insert(reader, false);
        }
    }

    /// Whether a row is written in place of a repetition: it holds nothing that was not in the feed
    /// before, and rows were gone for who writes it. Once of all that is live, and before that once
    /// of a part of it: but what is not in the feed any more does not count as that.
    fn is_instead(&mut self, writer: u32, batch: &Batch) -> bool {
        let Some(partly) = self.bereft.get(&writer).copied() else { return false };
        let maxima = self.maxima();
        let whole = is_whole(&maxima, batch);
        let instead = holds(&self.published, batch) && (whole || !partly);
        let said = instead && holds(&maxima, batch);
        if batch.repeats || said && whole {
            self.bereft.remove(&writer);
        } else if said {
            self.bereft.insert(writer, true);
        }
        instead
    }

    /// A row becomes visible.
    pub(crate) fn commit(&mut self, writer: u32, id: u64, batch: Batch) {
        let instead = self.is_instead(writer, &batch);
        self.rows += u64::from(!batch.repeats && !instead);
        for counter in unpack(&batch.payload).unwrap_or_default() {
            let cell = cell_of(batch.region, &counter);
            let most = self.written.entry((cell, writer)).or_insert(0);
            *most = counter.count.max(*most);
        }
        raise(&mut self.published, &batch);
        self.memory.commit(id, batch);
    }
}

fn cell_of(number: RegionNumber, counter: &Counter) -> Cell {
    (counter.subject, counter.window_ms, counter.sequence, number)
}

/// Whether none of the totals of a row is larger than these.
fn holds(maxima: &Maxima, batch: &Batch) -> bool {
    unpack(&batch.payload).unwrap_or_default().iter().all(|counter| {
        let cell = cell_of(batch.region, counter);
        maxima.get(&cell).is_some_and(|held| *held >= counter.count)
    })
}

/// Whether a row holds every cell of its region that is live, by the clock of who wrote it.
fn is_whole(maxima: &Maxima, batch: &Batch) -> bool {
    let counters = unpack(&batch.payload).unwrap_or_default();
    let held: BTreeSet<Cell> =
        counters.iter().map(|counter| cell_of(batch.region, counter)).collect();
    let live = |(_, window_ms, sequence, number): &Cell| {
        *number == batch.region && (sequence + 2).saturating_mul(*window_ms) > batch.written_ms
    };
    maxima.keys().filter(|cell| live(cell)).all(|cell| held.contains(cell))
}

/// Takes the totals of a row in, by maximum.
fn raise(maxima: &mut Maxima, batch: &Batch) {
    for counter in unpack(&batch.payload).unwrap_or_default() {
        let cell = cell_of(batch.region, &counter);
        let held = maxima.entry(cell).or_insert(0);
        *held = counter.count.max(*held);
    }
}
