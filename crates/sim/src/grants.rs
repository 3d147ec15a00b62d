//! What a store records and grants is what it should.

use std::collections::BTreeMap;

use tidegate_convergence::{
    Ask, AskCell, AskReply, CallId, Grant, Record, Reply, ShardCall, ShardReply, Unit,
};

use crate::drive::Which;
use crate::ghost::weigh;
use crate::node::number_of;
use crate::truth::{Name, Owner};
use crate::world::World;

/// What was asked of a store so far.
#[derive(Debug, Default)]
pub(crate) struct Answered {
    /// The asks that it has answered, each with the number of losses before.
    asks: BTreeMap<(u32, CallId), u64>,
    /// The last one of each component in each cell.
    last: BTreeMap<(Name, Owner), CallId>,
    /// How often it lost something that its token does not tell of...
    losses: u64,
    /// ...and which of them was the last failover...
    failover: u64,
    /// ...and the last of each cell alone.
    cells: BTreeMap<Name, u64>,
}

impl Answered {
    /// A replica that lags took over.
    pub(crate) const fn fail_over(&mut self) {
        self.losses += 1;
        self.failover = self.losses;
    }

    /// A cell is gone: it was evicted, or its time is over.
    pub(crate) fn drop_cell(&mut self, name: Name) {
        self.losses += 1;
        self.cells.insert(name, self.losses);
    }

    /// Whether it lost one of these cells since there were so many losses.
    fn lost_since(&self, losses: u64, names: &[Name]) -> bool {
        let gone = |name| self.cells.get(name).is_some_and(|last| *last > losses);
        self.failover > losses || names.iter().any(gone)
    }
}

/// Who owns the total of a record.
pub(crate) fn owner_of(record: &Record) -> Owner {
    (number_of(record.component.incarnation), record.component.life)
}

impl World {
    /// The store holds what was recorded and granted: never more, and less only if it lost
    /// something.
    pub(crate) fn check_store(&mut self, which: Which, call: &ShardCall, honest: &ShardReply) {
        let (node, number, id) = which;
        let home = self.home_of(node);
        for (record, reply) in call.records.iter().zip(&honest.replies) {
            if let Some(reply) = reply {
                self.check_held(home, record, reply);
            }
        }
        let (Some(ask), Some(asked)) = (&call.ask, &honest.asked) else { return };
        // What it grants depends on both cells of each subject that it is about.
        let both = |cell: &AskCell| {
            let Record { subject, sequence, .. } = cell.record;
            let subject = self.digests.get(&subject).copied();
            subject.map(|subject| [(subject, sequence), (subject, sequence.saturating_sub(1))])
        };
        let names: Vec<Name> = ask.cells.iter().filter_map(both).flatten().collect();
        let answered = &mut self.homes.at_mut(home).answered;
        let losses = answered.losses;
        let before = answered.asks.get(&(number, id)).copied();
        answered.asks.entry((number, id)).or_insert(losses);
        // A store that lost something since may answer in another way.
        let forgot = honest.token != ask.token;
        let again = before.is_some_and(|before| forgot || answered.lost_since(before, &names));
        self.report.asks += 1;
        for (at, (cell, reply)) in ask.cells.iter().zip(&asked.cells).enumerate() {
            let excused = if again && self.options.excuses { carried(ask, at) } else { 0 };
            self.note_granted((home, excused), &cell.record, reply);
        }
        if before.is_none() && self.options.inside {
            self.check_grants((home, id), ask, asked, honest);
        }
        for (cell, reply) in ask.cells.iter().zip(&asked.cells) {
            self.check_held(home, &cell.record, reply);
        }
    }

    /// Notes what the store has granted, on top of what it recorded.
    ///
    /// One thing is known to be wrong, and `excused`: an ask arrives twice, and in between the
    /// store loses its first answer, or one of the cells that this was based on: by a failover, an
    /// eviction, or because its time is over. The process heeds one of the two answers, and the
    /// other may have granted what that one refuses. At most what the ask carries is then
    /// held by the store, or was heard of by others, and nobody was admitted.
    fn note_granted(&mut self, (home, excused): (usize, u64), record: &Record, reply: &Reply) {
        let Some(subject) = self.digests.get(&record.subject).copied() else { return };
        let (name, owner) = ((subject, record.sequence), owner_of(record));
        let times = (self.now_ms(), self.life_ms(record));
        let truth = &mut self.homes.at_mut(home).truth;
        truth.apply(name, owner, reply.current.recorded, times);
        if let Some(cell) = truth.cells.get_mut(&name).filter(|_| excused > 0) {
            cell.part(owner).regranted += excused;
        }
    }

    /// What a store holds of both cells is what was recorded there.
    fn check_held(&mut self, home: usize, record: &Record, reply: &Reply) {
        let Some(subject) = self.digests.get(&record.subject).copied() else { return };
        let before = record.sequence.saturating_sub(1);
        let owner = owner_of(record);
        for (sequence, reply) in [(record.sequence, reply.current), (before, reply.previous)] {
            let truth = &mut self.homes.at_mut(home).truth;
            let Some(cell) = truth.cells.get_mut(&(subject, sequence)) else {
                if reply.sum > 0 {
                    let sum = reply.sum;
                    self.broken("inflation", || format!("{sum} in a cell of nobody"));
                }
                continue;
            };
            cell.peak = cell.peak.max(reply.sum);
            let (sum, most, applied) = (reply.sum, cell.most(), cell.applied());
            let lossy = cell.lossy;
            let part = cell.parts.iter_mut().find(|part| part.owner == owner);
            let (mut inflated, mut excess) = (false, 0);
            let part = part.map(|part| {
                let surplus = part.surplus(part.applied);
                inflated = surplus > part.regranted;
                excess = surplus.saturating_sub(part.excess);
                part.excess += excess;
                *part
            });
            self.report.regranted += excess;
            if sum > most || sum > applied || inflated || !lossy && sum < applied {
                let oracle = if sum < applied && !inflated { "store" } else { "inflation" };
                self.broken(oracle, || {
                    format!("({subject}, {sequence}) holds {sum} of {applied} of {most}, {part:?}")
                });
            }
        }
    }

    /// The first time that an ask is answered: what fits is granted, in order, and nothing else.
    fn check_grants(
        &mut self,
        (home, id): (usize, CallId),
        ask: &Ask,
        asked: &AskReply,
        honest: &ShardReply,
    ) {
        let known = honest.token == ask.token;
        let mut tally = Tally::new(ask, asked);
        let mut wrong = None;
        for (unit, grant) in ask.units.iter().zip(&asked.grants) {
            let right = match grant {
                Grant::Granted(count) => known && tally.is_right(unit, *count),
                Grant::Conflict => known && self.is_late((home, id), ask, unit, asked),
                Grant::Stranger => !known,
            };
            if let Grant::Granted(count) = grant {
                self.report.declined += u64::from(unit.count.saturating_sub(*count));
            }
            wrong = wrong.or((!right).then_some((unit, *grant)));
        }
        let recorded = ask.cells.iter().zip(&asked.cells).map(granted_of);
        if let Some((unit, grant)) = wrong {
            self.broken("grant", || format!("{grant:?} to {unit:?} of {ask:?}: {asked:?}"));
        } else if !recorded.eq(tally.granted.iter().copied()) {
            self.broken("grant", || format!("not recorded as granted: {ask:?}: {asked:?}"));
        }
        let granted: u64 = tally.granted.iter().sum();
        self.report.granted += granted;
        for cell in &ask.cells {
            let Some(subject) = self.digests.get(&cell.record.subject).copied() else { continue };
            let place = ((subject, cell.record.sequence), owner_of(&cell.record));
            let last = self.homes.at_mut(home).answered.last.entry(place).or_insert(id);
            *last = (*last).max(id);
        }
    }

    /// Whether more was recorded since an ask was sent, or a later one was answered.
    fn is_late(&self, (home, id): (usize, CallId), ask: &Ask, unit: &Unit, all: &AskReply) -> bool {
        unit.wants.iter().any(|want| {
            let (Some(cell), Some(reply)) = (ask.cells.get(want.cell), all.cells.get(want.cell))
            else {
                return false;
            };
            let Some(subject) = self.digests.get(&cell.record.subject) else { return false };
            let place = ((*subject, cell.record.sequence), owner_of(&cell.record));
            let last = self.homes.at(home).answered.last.get(&place);
            reply.current.had > cell.record.total || last.is_some_and(|last| *last > id)
        })
    }
}

/// What an ask carries of one of its cells.
fn carried(ask: &Ask, cell: usize) -> u64 {
    let of = |unit: &Unit| {
        let wants = unit.wants.iter().filter(|want| want.cell == cell);
        wants.map(|want| want.cost).sum::<u64>() * u64::from(unit.count)
    };
    ask.units.iter().map(of).sum()
}

/// What an ask added to a cell.
fn granted_of((cell, reply): (&AskCell, &Reply)) -> u64 {
    reply.current.recorded.saturating_sub(reply.current.had.max(cell.record.total))
}

/// What fits, reckoned apart.
struct Tally {
    used: Vec<u64>,
    granted: Vec<u64>,
}

impl Tally {
    fn new(ask: &Ask, asked: &AskReply) -> Self {
        let used = ask.cells.iter().zip(&asked.cells).map(|(cell, reply)| {
            let before = reply.current.sum - granted_of((cell, reply));
            let previous = reply.previous.sum.max(cell.known_previous) + cell.foreign_previous;
            let window_ms = cell.record.window_ms;
            let elapsed_ms = window_ms - cell.rest_ms.min(window_ms);
            before.max(cell.known) + weigh(previous, window_ms, elapsed_ms)
        });
        Self { used: used.collect(), granted: vec![0; ask.cells.len()] }
    }

    /// Whether so many of a unit fit, and not one more.
    fn is_right(&mut self, unit: &Unit, count: u32) -> bool {
        (0..count).all(|_| self.takes(unit)) && (count == unit.count || !self.takes(unit))
    }

    /// Takes one, if all of it fits.
    fn takes(&mut self, unit: &Unit) -> bool {
        let mut used = self.used.clone();
        for want in &unit.wants {
            let Some(held) = used.get_mut(want.cell) else { return false };
            *held += want.cost;
            if *held > want.head {
                return false;
            }
        }
        self.used = used;
        for want in &unit.wants {
            if let Some(granted) = self.granted.get_mut(want.cell) {
                *granted += want.cost;
            }
        }
        true
    }
}
