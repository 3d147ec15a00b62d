//! Where a process is in the feed.
//!
//! Rows are read in the order of their ids. One that is missing while later ones are there may have
//! begun earlier and become visible later: it is asked for again, for a while. The last row that
//! was read is looked at once more each time: if it is gone, the feed is read again from its
//! beginning, and if it is not there either, the store has lost rows.
//!
//! A failover loses what became visible last, and that need not be the row with the last id. So a
//! leader looks at rows of its own region once more, until one came that was not there with them:
//! whatever loses them then loses that one too.

use std::collections::{BTreeMap, VecDeque};

use tidegate_limiter::Now;
use tidegate_limiter::planted::{self, Planted};

use crate::breaker::Breaker;
use crate::global::{GAPS_MAX, Import, RegionNumber, Row};
use crate::pack::Counter;
use crate::tuning::GlobeTuning;

/// Most missing rows that are watched for. The oldest are given up first.
const GAPS_WATCHED: usize = 1_024;
/// Most own rows that are looked at once more: they are read with their payloads, and a leader
/// writes two at a time. Those that were read first are given up first.
const WATCHED_MAX: usize = 4;
/// How soon the feed is read from its beginning again: one that is read from several replicas, some
/// of which lag, must not be read in full each time.
const RESTART_MS: u64 = 10_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Feed {
    /// The last row that was read, and what it was written with.
    from: u64,
    nonce: u64,
    /// Rows that are missing: since when, and how often they were asked for.
    gaps: BTreeMap<u64, (u64, u32)>,
    /// Own rows that may have become visible after the last one, as they were read.
    watched: VecDeque<Watched>,
    /// It is being read from its beginning.
    cold: bool,
    /// The row that was the last one before that, until it is met again.
    sought: Option<(u64, u64)>,
    restarted_ms: Option<u64>,
    /// The last row at two moments that are at least `mark_ms` apart: the older is that old.
    marks: [(u64, u64); 2],
    mark_ms: u64,
    /// Raised with every restart: answers to earlier questions are of no use.
    generation: u64,
    under_way: bool,
    /// Rows that were read and not unpacked yet, with whether they repeat.
    pub(super) inbox: VecDeque<(RegionNumber, bool, Vec<u8>)>,
    /// What was unpacked and not taken in yet.
    pub(super) unpacked: VecDeque<(RegionNumber, Counter)>,
    landing: Option<Landing>,
    /// When the last import was made, and when the next one is.
    last_ms: u64,
    next_ms: u64,
    /// Where the next one would be if nothing hurried: imports do not drift.
    target_ms: u64,
    import_ms: u64,
    import_min_ms: u64,
    /// Most rows of the next import: fewer after one that took too long.
    rows: usize,
    rows_max: usize,
    /// When everything was asked for that had been published by then, by both clocks.
    heard: Option<Now>,
    breaker: Breaker,
}

/// A row that was read, and is looked at once more.
#[derive(Clone, Copy, Debug)]
struct Watched {
    id: u64,
    nonce: u64,
    since_ms: u64,
    /// Everything was read that was there with it: what is new now came later.
    ripe: bool,
}

/// An import whose totals are being taken in.
#[derive(Clone, Copy, Debug)]
struct Landing {
    sent: Now,
    /// There was more than it could bring.
    more: bool,
}

impl Feed {
    pub(super) const fn new(tuning: &GlobeTuning) -> Self {
        Self {
            from: 0,
            nonce: 0,
            gaps: BTreeMap::new(),
            watched: VecDeque::new(),
            cold: true,
            sought: None,
            restarted_ms: None,
            marks: [(0, 0); 2],
            mark_ms: tuning.grace_ms / 2,
            generation: 0,
            under_way: false,
            inbox: VecDeque::new(),
            unpacked: VecDeque::new(),
            landing: None,
            last_ms: 0,
            next_ms: 0,
            target_ms: 0,
            import_ms: tuning.import_ms,
            import_min_ms: tuning.import_min_ms,
            rows: tuning.rows_max,
            rows_max: tuning.rows_max,
            heard: None,
            breaker: Breaker::new(tuning.breaker),
        }
    }

    /// Whether everything that was read is taken in, from the beginning on.
    pub(super) fn is_settled(&self) -> bool {
        !self.cold && !self.is_landing()
    }

    /// Whether it was read to its end.
    pub(super) const fn is_warm(&self) -> bool {
        !self.cold
    }

    fn is_landing(&self) -> bool {
        self.landing.is_some() || !self.inbox.is_empty() || !self.unpacked.is_empty()
    }

    pub(super) fn gaps(&self) -> usize {
        self.gaps.len()
    }

    /// When everything was asked for that had been published by then, by the monotonic clock.
    pub(super) fn heard_ms(&self) -> u64 {
        self.heard.map_or(0, Now::monotonic_ms)
    }

    pub(super) const fn breaker(&self) -> &Breaker {
        &self.breaker
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    /// The last row that may be deleted: none before it is missing, and everybody has read later
    /// ones. If the last that somebody read were deleted, that would be taken for a loss.
    pub(super) fn deletable_up_to(&self) -> u64 {
        let [(all_read, _), _] = self.marks;
        self.gaps.keys().next().map_or(all_read, |gap| all_read.min(*gap)).saturating_sub(1)
    }

    /// Remembers where it is: who has not read everything for so long begins anew.
    fn mark(&mut self, now_ms: u64) {
        let [_, last] = self.marks;
        if now_ms.saturating_sub(last.1) >= self.mark_ms {
            self.marks = [last, (self.from, now_ms)];
        }
    }

    /// The next import is at this moment, if it were later.
    pub(super) fn import_from(&mut self, ms: u64) {
        let soonest_ms = self.last_ms.saturating_add(self.import_min_ms);
        self.next_ms = self.next_ms.min(ms.max(soonest_ms));
    }

    /// The next import is so long after the last, if it were later.
    pub(super) fn import_within(&mut self, ms: u64) {
        if ms < self.import_ms {
            self.import_from(self.last_ms.saturating_add(ms));
        }
    }

    /// When there is something to do.
    pub(super) fn next_ms(&self) -> Option<u64> {
        if self.is_landing() {
            return Some(0);
        }
        let open_ms = self.breaker.next_ms().filter(|_| !self.under_way)?;
        Some(open_ms.max(self.next_ms))
    }

    /// Whether the next import is to be made now.
    pub(super) fn is_due(&mut self, now: Now, grace_ms: u64) -> bool {
        let now_ms = now.monotonic_ms();
        if self.under_way || self.is_landing() || self.next_ms > now_ms {
            return false;
        }
        // What is repeated is deleted: who was away for too long has to read the repetition. By the
        // clock that went further: one of them stands still while a machine is suspended.
        let away_ms = self.heard.map_or(0, |heard| {
            let away_ms = now_ms.saturating_sub(heard.monotonic_ms());
            away_ms.max(now.unix_ms().saturating_sub(heard.unix_ms()))
        });
        if away_ms > grace_ms / 2 && !self.cold {
            self.restart();
        }
        self.breaker.admits(now_ms)
    }

    /// What the next import asks for. `jittered_ms`: how long after the last target the next is.
    pub(super) fn ask(&mut self, now_ms: u64, jittered_ms: u64) -> Import {
        if self.target_ms <= now_ms {
            let since_ms = self.target_ms.max(now_ms.saturating_sub(self.import_ms));
            self.target_ms = since_ms + jittered_ms.max(1);
        }
        self.next_ms = self.target_ms.max(now_ms + 1);
        let mut gaps: Vec<(u32, u64)> =
            self.gaps.iter().map(|(id, (_, asked))| (*asked, *id)).collect();
        // New ones first: most come within a moment, or never.
        gaps.sort_unstable();
        // The last row is looked at anyway.
        let watched = self.watched.iter().map(|row| row.id).filter(|id| *id != self.from);
        let watched: Vec<u64> = watched.collect();
        gaps.truncate(GAPS_MAX - watched.len());
        for (_, id) in &gaps {
            if let Some((_, asked)) = self.gaps.get_mut(id) {
                *asked += 1;
            }
        }
        (self.under_way, self.last_ms) = (true, now_ms);
        // Room for what was missing, the last row and a new one.
        let rows_max = self.rows.max(GAPS_MAX + 2);
        let gaps = gaps.into_iter().map(|(_, id)| id).chain(watched).collect();
        Import { from: self.from, gaps, repeats: self.cold, rows_max }
    }

    /// An import has ended.
    pub(super) fn answered(&mut self, succeeded: bool, now_ms: u64) {
        self.under_way = false;
        self.breaker.report(succeeded, now_ms);
    }

    /// An import took too long: the next one is smaller.
    pub(super) fn shrink(&mut self) {
        self.rows = (self.rows / 2).max(1);
    }

    /// Whether the last row that was read is not what it was: what comes after it is of no use.
    pub(super) fn has_changed(&self, import: &Import, rows: &[Row]) -> bool {
        let same = |row: &Row| row.id == import.from && row.batch.nonce == self.nonce;
        let anchored = import.from == 0 || rows.iter().any(same);
        !anchored && !planted::is(Planted::CursorUnchecked)
    }

    /// The last row has changed: goes back to the beginning, unless it was just there. Then the
    /// next import may find that row; if none does, it goes back later.
    pub(super) fn restart_at(&mut self, now_ms: u64) {
        let soon = |since_ms: u64| now_ms.saturating_sub(since_ms) < RESTART_MS;
        if self.restarted_ms.is_some_and(soon) {
            return;
        }
        self.restarted_ms = Some(now_ms);
        self.restart();
        self.next_ms = now_ms;
    }

    /// Whether this row was read before, and is only looked at.
    pub(super) fn is_watched(&self, row: &Row) -> bool {
        self.watched.iter().any(|seen| (seen.id, seen.nonce) == (row.id, row.batch.nonce))
    }

    /// Whether a row is gone that was looked at, though the last one is there: the store has lost
    /// it. Says so once.
    pub(super) fn misses(&mut self, import: &Import, rows: &[Row]) -> bool {
        let same = |seen: &Watched| {
            rows.iter().any(|row| (row.id, row.batch.nonce) == (seen.id, seen.nonce))
        };
        let gone = |seen: &Watched| import.gaps.contains(&seen.id) && !same(seen);
        let missing = self.watched.iter().any(gone) && !planted::is(Planted::CursorUnchecked);
        if missing {
            self.watched.clear();
        }
        missing
    }

    /// An import that was made then brought these rows of the own region.
    pub(super) fn watch(&mut self, import: &Import, own: Vec<(u64, u64)>, since_ms: u64) {
        if self.from > import.from {
            // The last row is another one now, and whatever loses a ripe one loses it too.
            self.watched.retain(|row| !row.ripe);
        }
        let watched = |(id, nonce)| Watched { id, nonce, since_ms, ripe: false };
        self.watched.extend(own.into_iter().map(watched));
        let more = self.watched.len().saturating_sub(WATCHED_MAX);
        self.watched.drain(..more);
    }

    /// Goes back to the beginning.
    pub(super) fn restart(&mut self) {
        if self.from > 0 && self.sought.is_none() {
            self.sought = Some((self.from, self.nonce));
        }
        (self.from, self.nonce, self.cold, self.marks) = (0, 0, true, [(0, 0); 2]);
        self.generation += 1;
        self.landing = None;
        self.gaps.clear();
        self.watched.clear();
    }

    /// Goes on to a row; says whether it had been missing.
    pub(super) fn advance(&mut self, row: &Row, now_ms: u64) -> bool {
        if self.sought == Some((row.id, row.batch.nonce)) {
            self.sought = None;
        }
        if row.id <= self.from {
            return self.gaps.remove(&row.id).is_some();
        }
        let first = (self.from + 1).max(row.id.saturating_sub(GAPS_WATCHED as u64));
        if !planted::is(Planted::CursorSkips) {
            self.gaps.extend((first..row.id).map(|id| (id, (now_ms, 0))));
        }
        (self.from, self.nonce) = (row.id, row.batch.nonce);
        false
    }

    /// All rows of an import are in the inbox.
    pub(super) fn land(&mut self, sent: Now, more: bool) {
        self.landing = Some(Landing { sent, more });
        if more {
            self.rows = self.rows.saturating_mul(2).min(self.rows_max);
        }
    }

    /// Everything is taken in. Says since when all is known, if it is, and whether the store has
    /// lost rows.
    pub(super) fn arrive(&mut self, now_ms: u64) -> (Option<Now>, bool) {
        let Some(Landing { sent, more }) = self.landing.take() else { return (None, false) };
        if more {
            self.next_ms = now_ms;
            return (None, false);
        }
        // What is missing before the first rows of a feed was deleted; what is late is at its end.
        while self.cold && self.gaps.len() > 4 * GAPS_MAX {
            self.gaps.pop_first();
        }
        self.cold = false;
        self.watched.iter_mut().for_each(|row| row.ripe = true);
        self.mark(now_ms);
        self.heard = Some(sent);
        (Some(sent), self.sought.take().is_some())
    }

    /// Gives up rows that an import asked for in vain when they had been missing for too long, and
    /// says how many. Not by the clock alone: who was cut off has not asked since, and they may
    /// have become visible long ago. No row is looked at for longer either: a feed may be quiet.
    pub(super) fn give_up(&mut self, import: &Import, sent_ms: u64, gap_ms: u64) -> u64 {
        // Most of what is missing in a feed that is read from its beginning was deleted.
        while self.gaps.len() > GAPS_WATCHED {
            self.gaps.pop_first();
        }
        let before = self.gaps.len();
        for id in &import.gaps {
            let since = self.gaps.get(id).map(|(since_ms, _)| *since_ms);
            let since = since.filter(|_| !planted::is(Planted::EndlessGaps));
            if since.is_some_and(|since_ms| since_ms.saturating_add(gap_ms) <= sent_ms) {
                self.gaps.remove(id);
            }
        }
        self.watched.retain(|row| row.since_ms.saturating_add(gap_ms) > sent_ms);
        (before - self.gaps.len()) as u64
    }
}
