//! What must hold of everything that is said to the global store.

use tidegate_convergence::{Batch, GlobalCall, RegionNumber, unpack};
use tidegate_limiter::Digest;

use super::{Errand, WINDOW_MIN_MS};
use crate::node::{Process, START_MS};
use crate::truth::Name;
use crate::world::World;

impl World {
    /// A call goes out: who has no name says nothing and hears nothing, and what is published is
    /// true.
    pub(crate) fn check_errand(&mut self, process: &Process, errand: &Errand) {
        let Errand::Global(call) = errand else { return };
        if matches!(call, GlobalCall::Register { .. } | GlobalCall::Release { .. }) {
            return;
        }
        let (number, home) = (process.number, process.home);
        let own = process.abroad.as_ref().and_then(|abroad| abroad.own);
        let holders = self.database.as_ref().map(|database| &database.holders);
        let holds = own.is_some_and(|own| {
            holders.and_then(|all| all.get(&own)).is_some_and(|holder| *holder == home)
        });
        if !holds {
            self.broken("namesake", || format!("process {number} is {own:?}, and calls {call:?}"));
        }
        match call {
            GlobalCall::Publish(batch) => {
                if Some(batch.region) != own {
                    let region = batch.region;
                    self.broken("own rows", || format!("process {number} writes as {region:?}"));
                }
                self.check_batch(process, batch);
            }
            GlobalCall::Trim { region, .. } if Some(*region) != own => {
                let region = *region;
                self.broken("own rows", || format!("process {number} deletes of {region:?}"));
            }
            _ => {}
        }
    }

    /// INV-18, INV-21: what is published was admitted and recorded, and is of use to somebody.
    fn check_batch(&mut self, process: &Process, batch: &Batch) {
        let number = process.number;
        let unix_ms = self.reading(process).unix_ms;
        let Some(counters) = unpack(&batch.payload).filter(|all| !all.is_empty()) else {
            self.broken("payload", || format!("process {number} writes a row that says nothing"));
            return;
        };
        let mut last_ms = 0;
        for counter in &counters {
            last_ms = last_ms.max(counter.expires_ms());
            let Some(name) = self.name_of(counter) else {
                self.broken("payload", || format!("process {number} publishes {counter:?}"));
                continue;
            };
            let short = counter.window_ms < WINDOW_MIN_MS;
            let over = counter.expires_ms() <= unix_ms && !batch.repeats;
            if short || over || counter.count == 0 {
                self.broken("useless", || format!("process {number} publishes {counter:?}"));
            }
            let (total, peak) = self.recorded(process, name);
            if counter.count > total {
                self.broken("published above truth", || {
                    format!("process {number} publishes {counter:?} of {name:?}, truth {total}")
                });
            } else if counter.count > peak {
                self.broken("unconfirmed", || {
                    format!("process {number} publishes {counter:?}, recorded {peak}")
                });
            }
        }
        if batch.expires_ms != last_ms {
            self.broken("payload", || format!("a row expires at {}", batch.expires_ms));
        }
    }

    /// What a region admitted to a cell, and the most that its store ever held. A store that ends
    /// with its process has nothing of the one before.
    fn recorded(&self, process: &Process, name: Name) -> (u64, u64) {
        let Some(cell) = self.homes.at(process.home).truth.cells.get(&name) else { return (0, 0) };
        if !self.options.is_private() {
            return (cell.most(), cell.peak);
        }
        let own = cell.parts.iter().filter(|part| part.owner.0 == process.number);
        own.fold((0, 0), |(total, peak), part| (total + part.most(), peak + part.applied))
    }

    /// The most that can have been published of a cell under other numbers than the own one of a
    /// process: by other regions, and by its own under identities that it lost.
    pub(crate) fn elsewhere(&self, process: &Process, name: Name) -> (u64, u64) {
        let (Some(database), Some(abroad), Some(spec)) =
            (&self.database, &process.abroad, self.specs.get(name.0))
        else {
            return (0, 0);
        };
        let mut by_home = vec![0; self.homes.len()];
        for (number, count) in database.published_of((spec.digest, spec.window_ms, name.1)) {
            let home = database.holders.get(&number).and_then(|home| by_home.get_mut(*home));
            if let Some(sum) = home.filter(|_| Some(number) != abroad.former) {
                *sum += count;
            }
        }
        let former = by_home.get(process.home).copied().unwrap_or(0);
        // One that lost its identity, and not its cells, says the same twice.
        let others = by_home.iter().enumerate().filter(|(home, _)| *home != process.home);
        let most = |(home, sum): (usize, &u64)| self.homes.at(home).truth.most(name).max(*sum);
        (others.map(most).sum(), former)
    }

    /// INV-30: a process whose store ends with it leaves nothing that is not published, but what
    /// it tried to and was refused.
    pub(crate) fn check_last_words(&mut self, process: &Process) {
        let Some(abroad) = &process.abroad else { return };
        let Some(own) = abroad.own else { return };
        let Some(database) = self.database.as_ref().filter(|_| self.options.is_private()) else {
            return;
        };
        let (maxima, unix_ms, now_ms) =
            (database.maxima(), self.reading(process).unix_ms, self.now_ms());
        let (store, number) = (&self.homes.at(process.home).store, process.number);
        let left = self.homes.at(process.home).truth.cells.iter().find_map(
            |((subject, sequence), truth)| {
                let spec = self.specs.get(*subject)?;
                let live = self.expires_ms((*subject, *sequence)) > unix_ms;
                let held = store.sum(spec.digest, *sequence, now_ms);
                let cell = (spec.digest, spec.window_ms, *sequence, own);
                // A database that fails over may lose what it had taken, also the moment before the
                // process leaves.
                let ever = if database.epoch > 0 { &database.published } else { &maxima };
                let published = ever.get(&cell).copied().unwrap_or(0);
                let refused = abroad.refused.contains(&(*subject, *sequence));
                // Dropped from its table, or under another name: it cannot say what is left of it.
                let lost =
                    truth.parts.iter().any(|part| part.owner.0 == number && part.end.is_some());
                let due = live && spec.window_ms >= WINDOW_MIN_MS && !refused && !lost;
                let left = due && held > published;
                left.then(|| format!("({subject}, {sequence}): {published} of {held} published"))
            },
        );
        if let Some(left) = left {
            self.broken("last words", || format!("process {number} leaves {left}"));
        }
    }

    /// INV-18: rows are deleted only when others say the same. Called before and after.
    pub(crate) fn check_deleted(&mut self, call: &GlobalCall, before: bool) {
        let GlobalCall::Trim { written_before_ms, .. } = call else { return };
        // A clock that is ahead, and has been for long, takes for expired what is not yet.
        let clock_ms = written_before_ms + self.options.globe.grace_ms;
        let unix_ms = clock_ms.max(START_MS + self.now_ms());
        let Some(database) = &mut self.database else { return };
        // A failover may have lost the rows that repeat.
        if database.epoch > 0 {
            return;
        }
        let mut maxima = database.maxima();
        maxima.retain(|(_, window_ms, sequence, _), _| (sequence + 2) * window_ms > unix_ms + 500);
        if before {
            self.feed_before = maxima;
            return;
        }
        let was = std::mem::take(&mut self.feed_before);
        let lost = was.iter().find(|(cell, count)| maxima.get(cell) < Some(count));
        if let Some((cell, count)) = lost {
            let (cell, count) = (*cell, *count);
            self.broken("trimmed", || format!("{count} of {cell:?} is not in the feed any more"));
        }
        self.report.trims += 1;
    }
}

/// A cell and region: the digest, the window, the sequence and the number.
pub(crate) type Cell = (Digest, u64, u64, RegionNumber);

/// The largest total of each.
pub(crate) type Maxima = std::collections::BTreeMap<Cell, u64>;
