//! How long regions take to know of each other once everything is mended, and what they never hear
//! of again.

use std::collections::BTreeMap;

use tidegate_convergence::{GlobeTuning, Rule, Tuning};

use crate::abroad::WINDOW_MIN_MS;
use crate::node::START_MS;
use crate::report::{Agreed, Excused};
use crate::truth::Name;
use crate::world::World;

/// A region that finds its name in use asks again this often, and its name lapses in this time: a
/// region that lost its identity with its store and all of its processes.
const NAMING_MS: u64 = 36_000;

/// A feed is read from its beginning this often at most.
const RESTART_MS: u64 = 10_000;

/// A cell that is about to expire need not arrive any more.
pub(crate) const MARGIN_MS: u64 = 3_000;

/// What a world may have to get over before its regions know of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Losses {
    /// A region may have lost who it is, with the data of its store.
    pub(crate) names: bool,
    /// A failover of the global store lost rows, or a replica lagged.
    pub(crate) rows: bool,
}

/// P-11, INV-29: what was lost is posted again, twice; it waits to be published and is imported,
/// twice; calls time out and breakers open before that, and another process leads.
pub(crate) fn settle_max_ms(tuning: &Tuning, globe: &GlobeTuning, losses: Losses) -> u64 {
    let GlobeTuning { rule, publish_max_ms, import_ms, repost_ms, breaker, .. } = *globe;
    let GlobeTuning { timeout_ms, lease_ms, follow_ms, .. } = *globe;
    let publish_ms = match rule {
        Rule::Budget { .. } => publish_max_ms,
        Rule::Floor { every_ms, .. } => every_ms * 6 / 5,
    };
    let replay_ms = tuning.replay_max_ms + tuning.replay_timeout_ms;
    let told_ms = 2 * (replay_ms + publish_ms + repost_ms + import_ms * 6 / 5);
    let naming_ms = if losses.names { NAMING_MS } else { 0 };
    let rows_ms = if losses.rows { resend_ms(globe) } else { 0 };
    told_ms + timeout_ms + breaker.open_ms + lease_ms + 2 * follow_ms + naming_ms + rows_ms
}

/// What a failover lost is noticed and published again once in this time, by who leads or by the
/// next; and so is what the next one lost.
pub(crate) const fn resend_ms(globe: &GlobeTuning) -> u64 {
    let remind_ms = globe.repost_ms + globe.timeout_ms + globe.publish_max_ms;
    RESTART_MS + remind_ms + globe.repeat_ms
}

impl World {
    /// All regions know what they should, since that long after the stores were whole.
    pub(crate) fn note_settled(&mut self, took_ms: u64) {
        // The second look comes when more windows are over.
        if self.report.excused.is_empty() {
            self.report.excused = self.excused();
        }
        if !matches!(self.options.globe.rule, Rule::Budget { .. }) {
            return;
        }
        let lossy = (0..self.homes.len()).any(|home| self.has_lost(home));
        if !lossy {
            self.report.settled_ms = self.report.settled_ms.max(took_ms);
        }
        let Losses { names, rows } = self.losses();
        let before_ms = self.report.agreed.map_or(0, |agreed| agreed.took_ms);
        let took_ms = took_ms.max(before_ms);
        self.report.agreed = Some(Agreed { took_ms, names, rows, lossy });
    }

    /// Of each cell of each region: the most that a process knows of it and the feed does not say.
    fn excused(&self) -> Vec<Excused> {
        let Some(database) = &self.database else { return Vec::new() };
        let (maxima, unix_ms) = (database.maxima(), START_MS + self.now_ms());
        let mut all = BTreeMap::new();
        for (_, abroad) in self.abroad() {
            for cell in database.published.keys() {
                let (digest, window_ms, sequence, number) = *cell;
                let ends_ms = (sequence + 2) * window_ms;
                let Some(subject) = self.digests.get(&digest).copied() else { continue };
                let name: Name = (subject, sequence);
                let (told, count) =
                    (abroad.count(name, number), maxima.get(cell).copied().unwrap_or(0));
                let lives = window_ms >= WINDOW_MIN_MS && ends_ms > unix_ms + MARGIN_MS;
                if !lives || told <= count {
                    continue;
                }
                let Some(why) = self.excuse((name, *cell), (told, count)) else { continue };
                let limit = self.specs.get(subject).map_or(1, |spec| spec.limit.max(1));
                let missing = told - count;
                let permille = missing.saturating_mul(1_000) / limit;
                let held = all.entry(*cell).or_insert(Excused { why, missing: 0, permille: 0 });
                if missing > held.missing {
                    *held = Excused { why, missing, permille };
                }
            }
        }
        all.into_values().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROMISES: &str = include_str!("../../../../PROMISES.md");
    const INVARIANTS: &str = include_str!("../../../../docs/invariants.md");

    /// One figure: what the oracle allows is what is promised.
    #[test]
    fn the_documents_say_how_long_the_oracle_waits() {
        let of = |names, rows| {
            let losses = Losses { names, rows };
            let ms = settle_max_ms(&Tuning::default(), &GlobeTuning::default(), losses);
            format!("{}.{} s", ms / 1_000, ms % 1_000 / 100)
        };
        let promise = PROMISES.lines().find(|line| line.starts_with("| P-11 |")).unwrap();
        let (_, invariant) = INVARIANTS.split_once("**INV-29**").unwrap();
        let (invariant, _) = invariant.split_once("- **INV-30**").unwrap();
        for said in [of(false, false), of(false, true), of(true, false), of(true, true)] {
            assert!(promise.contains(&said), "P-11 does not say {said}");
            assert!(invariant.contains(&said), "INV-29 does not say {said}");
        }
    }
}
