//! How old what the other regions do not know may be.

use std::collections::BTreeMap;

use tidegate_convergence::{GlobeTuning, RegionNumber, Rule};

use super::oracles::Maxima;
use crate::fault::Fault;
use crate::node::Process;
use crate::truth::Name;
use crate::world::World;

/// From the moment when something is due to the moment when its row is there: it is seen when its
/// process next looks, and goes by way of a board and its leader. So much that thousands of worlds
/// without any fault keep to it.
const SAY_MS: u64 = 4_000;
/// What an import takes, and the ones that others make it wait for.
const IMPORT_MS: u64 = 1_000;

impl World {
    /// INV-26: where nothing has been wrong for long, what is worth publishing is published in its
    /// time, and what is published is read in its time.
    pub(crate) fn check_stale(&mut self, process: &mut Process) {
        let Some(database) = self.database.as_ref().filter(|_| self.is_well_abroad()) else {
            // What was hidden while something was wrong counts from when nothing is any more.
            if let Some(abroad) = &mut process.abroad {
                abroad.hidden.clear();
            }
            return;
        };
        let Some((own, heard_ms)) =
            process.abroad.as_ref().and_then(|abroad| Some((abroad.own?, abroad.heard_ms)))
        else {
            return;
        };
        let (number, now_us) = (process.number, self.now_us);
        let age_ms = self.reading(process).monotonic_ms.saturating_sub(heard_ms);
        let most_ms = self.options.globe.import_ms * 6 / 5 + IMPORT_MS;
        if age_ms > most_ms {
            self.broken("staleness", || format!("process {number} read {age_ms} ms ago"));
            return;
        }
        let maxima = database.maxima();
        let hidden = self.all_hidden(process, own, &maxima);
        let Some(abroad) = &mut process.abroad else { return };
        let before = std::mem::take(&mut abroad.hidden);
        // Who is busy has always something to say. What it says next counts from its last row.
        let since = |name: Name| {
            let said = self.specs.get(name.0).map_or(0, |spec| {
                let of = |sequence| (spec.digest, spec.window_ms, sequence, own);
                let both = [name.1, name.1 - 1].map(|sequence| maxima.get(&of(sequence)));
                both.into_iter().flatten().sum()
            });
            let same = before.get(&name).filter(|(_, then)| *then == said);
            (name, same.copied().unwrap_or((now_us, said)))
        };
        abroad.hidden = hidden.iter().map(|(name, _)| since(*name)).collect::<BTreeMap<_, _>>();
        let late = hidden.into_iter().find_map(|(name, what)| {
            let since_us = abroad.hidden.get(&name).map_or(now_us, |(since_us, _)| *since_us);
            let age_ms = (now_us - since_us) / 1_000;
            let late = age_ms > self.say_max_ms((process.home, own), name, &maxima);
            late.then(|| format!("for {age_ms} ms {what}"))
        });
        if let Some(what) = late {
            self.broken("staleness", || format!("process {number}, {what}"));
        }
    }

    /// How long something that is due may take until its row is there.
    fn say_max_ms(
        &self,
        (home, own): (usize, RegionNumber),
        (subject, sequence): Name,
        maxima: &Maxima,
    ) -> u64 {
        let GlobeTuning { rule, publish_min_ms, publish_max_ms, publish_window_part, .. } =
            self.options.globe;
        let Some(spec) = self.specs.get(subject) else { return u64::MAX };
        let wait_ms = match rule {
            Rule::Budget { .. } => {
                let part_ms = spec.window_ms / publish_window_part.max(1);
                part_ms.min(publish_max_ms).max(publish_min_ms)
            }
            Rule::Floor { every_ms, .. } => every_ms * 6 / 5,
        };
        // Who leads may have found all of it, and that it was not yet worth it. Who posted it takes
        // it as published until it is time to post it again.
        let skipped = [sequence, sequence - 1].into_iter().any(|sequence| {
            let cell = (spec.digest, spec.window_ms, sequence, own);
            let out = maxima.get(&cell).copied().unwrap_or(0);
            let held = self.homes.at(home).store.sum(spec.digest, sequence, self.now_ms());
            held > out && self.database.as_ref().is_some_and(|all| all.has_skipped(cell, held))
        });
        wait_ms + SAY_MS + if skipped { self.options.globe.repost_ms } else { 0 }
    }

    /// Whether nothing is wrong that a leader or a reader could feel, nor was for as long as it may
    /// take to get over it; and all have had the time to find each other.
    fn is_well_abroad(&self) -> bool {
        // These do not pass: clocks stay apart, rows stay away, and who was dropped says nothing.
        let lasting =
            [Fault::Skew, Fault::Step, Fault::Flood, Fault::Late, Fault::Poison, Fault::Namesake];
        let lasts = lasting.into_iter().any(|fault| self.options.faults.has(fault));
        let away_us = self.database.as_ref().map_or(0, |database| database.away_until_us);
        let GlobeTuning { timeout_ms, lease_ms, .. } = self.options.globe;
        let found_us = away_us.saturating_add((timeout_ms + lease_ms) * 1_000);
        let over_ms = if self.troubled_us > 0 { self.settle_max_ms() } else { 0 };
        let over_us = self.troubled_us + over_ms * 1_000;
        !lasts && self.now_us > found_us.max(over_us)
    }
}
