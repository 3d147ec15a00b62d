//! Drives the table and the model alike, and compares everything that every answer says.
//!
//! Whom a full table forgets is its own affair, within what it promises:
//!
//! * nobody is forgotten but to make room or by a sweep, and everybody who is, is counted;
//! * who has expired may always be forgotten: nothing of it counts any more. As long as there is
//!   one, nobody else is pushed out and nobody is refused;
//! * a newcomer may push out live subjects of its own workspace, if that holds its share of the
//!   table or more, but none that is above half of its limit, both cells taken together;
//! * a newcomer of another workspace may push out any, if theirs holds more than its share;
//! * nobody is pushed out whom the regional store has not recorded;
//! * a newcomer is refused only if the table is full and its workspace holds its share.
//!
//! So of some subjects the model does not know whether they are remembered. It then follows both
//! possibilities until an answer tells them apart; an answer that fits none is a fault.

use std::collections::{BTreeMap, BTreeSet};

use tidegate_limiter::{Batch, Counts, Now, Options, Seed, Table};

use super::reference::{Ask, Memory, Said, WINDOWS_MS, WORKSPACES, Who, workspace_of};
use super::{Flood, Step};
use crate::support::{now, request_of, subject};

/// Small enough that the table looks at all of its subjects when it searches for one to forget.
const SUBJECTS: usize = 16;

/// What a run has exercised, so that one that shows nothing fails.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Exercised {
    pub(super) evicted: u64,
    pub(super) expired: u64,
    pub(super) refused: u64,
    /// Times an answer showed that a subject that could have been forgotten was not, or was.
    pub(super) found_remembered: u64,
    pub(super) found_forgotten: u64,
    /// Answers of subjects above half of their limit after others had been pushed out.
    pub(super) kept_above_half: u64,
}

impl Exercised {
    /// Each of them many times.
    pub(super) fn is_enough(self) -> bool {
        let rooms = [self.evicted, self.expired, self.refused, self.kept_above_half];
        let found = [self.found_remembered, self.found_forgotten];
        rooms.iter().chain(&found).all(|times| *times >= 100)
    }
}

pub(super) struct Pair {
    table: Table,
    regional: bool,
    subjects_max: usize,
    /// All that may be known of each subject; more than one only if that is uncertain.
    subjects: BTreeMap<Who, Vec<Memory>>,
    /// One-shot subjects of each workspace so far.
    flooded: [usize; 2],
    passed_ms: u64,
    pub(super) exercised: Exercised,
}

impl Pair {
    pub(super) fn new(regional: bool, exercised: Exercised) -> Self {
        let mut sizes = (1..).map(|size| Options::default().with_budget_bytes(size << 6));
        let options = sizes.find(|options| options.subjects_max() >= SUBJECTS).unwrap();
        let subjects_max = options.subjects_max();
        assert_eq!(subjects_max, SUBJECTS);
        let options = if regional { options.with_region() } else { options };
        Self {
            table: Table::new(options, Seed::from_bytes([42; 32])),
            regional,
            subjects_max,
            subjects: BTreeMap::new(),
            flooded: [0, 0],
            passed_ms: 60_000,
            exercised,
        }
    }

    pub(super) fn step(&mut self, step: Step) {
        match step {
            Step::Single(ask) => self.single(ask, now(self.passed_ms)),
            Step::Batch(asks) => self.batch(&asks, now(self.passed_ms)),
            Step::Pass(ms) => self.passed_ms += ms,
            Step::Late(ask, late_ms) => self.single(ask, now(self.passed_ms - late_ms)),
            Step::Told { ask, peers, foreign, recorded } => {
                self.told(ask, (peers, foreign), recorded);
            }
            Step::Sweep => {
                let (before, now) = (self.table.counts(), now(self.passed_ms));
                (0..8).for_each(|_| {
                    self.table.sweep(now);
                });
                self.forget(before, &[], &BTreeSet::new(), now);
            }
            Step::Flood(flood) => (0..flood.many).for_each(|_| self.flood(flood)),
        }
        let counts = self.table.counts();
        let gone = counts.subjects_evicted + counts.subjects_expired;
        assert_eq!(counts.subjects_created - gone, self.table.subjects() as u64);
    }

    fn single(&mut self, ask: Ask, now: Now) {
        let before = self.table.counts();
        let answer = self.table.decide(&ask.request(), now);
        self.follow(before, &[(ask, Said::from(&answer))], answer.admitted(), now);
    }

    fn batch(&mut self, asks: &[Ask], now: Now) {
        let before = self.table.counts();
        let requests: Vec<_> = asks.iter().map(|ask| ask.request()).collect();
        let answer = self.table.decide_all(&Batch::new(&requests).unwrap(), now);
        let all = answer.items().iter().all(|item| item.admitted());
        assert_eq!(answer.admitted(), all, "INV-9");
        assert_eq!(answer.items().len(), asks.len());
        let said = answer.items().iter().map(Said::from);
        let items: Vec<_> = asks.iter().copied().zip(said).collect();
        self.follow(before, &items, all, now);
    }

    /// Keeps what agrees with every item's answer.
    fn follow(&mut self, before: Counts, items: &[(Ask, Said)], all: bool, now: Now) {
        let asked: BTreeSet<_> = items.iter().map(|(ask, _)| ask.who()).collect();
        for who in &asked {
            self.subjects.entry(*who).or_insert_with(|| vec![Memory::default()]);
        }
        let newcomers: Vec<_> = asked.iter().map(|who| workspace_of(*who)).collect();
        if self.forget(before, &newcomers, &asked, now) {
            self.expired_went_first(&asked, now);
        }
        for (ask, _) in items.iter().filter(|(_, said)| said.is_refused()) {
            self.expired_went_first(&asked, now);
            self.may_refuse(workspace_of(ask.who()));
        }
        for who in asked {
            let of_it = |(ask, _): &&(Ask, Said)| ask.who() == who;
            let items: Vec<_> = items.iter().filter(of_it).copied().collect();
            self.narrow(who, &items, all, now);
        }
    }

    fn narrow(&mut self, who: Who, items: &[(Ask, Said)], all: bool, now: Now) {
        let known = self.subjects.get_mut(&who).unwrap();
        let (agree, differ): (Vec<_>, Vec<_>) =
            known.drain(..).partition(|known| known.after(items, all, now).is_some());
        assert!(!agree.is_empty(), "{items:?} at {now:?}, but what is known is {differ:?}");
        let forgotten = agree.iter().all(Memory::is_forgotten);
        self.exercised.found_forgotten += u64::from(!differ.is_empty() && forgotten);
        self.exercised.found_remembered += u64::from(!differ.is_empty() && !forgotten);
        let above = agree.iter().all(|known| known.is_above_half(WINDOWS_MS[who.1], now));
        let evicted = self.table.counts().subjects_evicted > 0;
        self.exercised.kept_above_half += u64::from(evicted && above);
        known.extend(agree.iter().filter_map(|known| known.after(items, all, now)));
        known.dedup();
    }

    /// Adds the possibility of being forgotten to all who may have been since `before`, for a
    /// newcomer of one of these workspaces, but not to the `safe`, who come in the same batch.
    /// Returns whether live ones were pushed out.
    fn forget(
        &mut self,
        before: Counts,
        newcomers: &[usize],
        safe: &BTreeSet<Who>,
        now: Now,
    ) -> bool {
        let counts = self.table.counts();
        let evicted = counts.subjects_evicted - before.subjects_evicted;
        let expired = counts.subjects_expired - before.subjects_expired;
        self.exercised.evicted += evicted;
        self.exercised.expired += expired;
        let holds = [self.holds_most(0), self.holds_most(1)];
        let (regional, share) = (self.regional, self.subjects_max / 2);
        for (who, known) in self.subjects.iter_mut().filter(|(who, _)| !safe.contains(who)) {
            let (window_ms, workspace) = (WINDOWS_MS[who.1], workspace_of(*who));
            let may_go = |known: &Memory, newcomer: usize| {
                let own = newcomer == workspace && holds[workspace] >= share;
                let other = newcomer != workspace && holds[workspace] > share;
                own && !known.is_above_half(window_ms, now) || other
            };
            let gone = known.iter().any(|known| {
                let pushed = newcomers.iter().any(|newcomer| may_go(known, *newcomer));
                let dirty = regional && known.is_dirty(window_ms, now);
                evicted > 0 && pushed && !dirty || expired > 0 && known.has_expired(window_ms, now)
            });
            if gone && !known.iter().any(Memory::is_forgotten) {
                known.push(Memory::default());
            }
        }
        evicted > 0
    }

    /// Somebody was pushed out or refused: nobody is here who expired long ago, but for those who
    /// came in the same batch.
    fn expired_went_first(&self, asked: &BTreeSet<Who>, now: Now) {
        for (who, known) in self.subjects.iter().filter(|(who, _)| !asked.contains(who)) {
            // Two windows more, for strict deadlines and clocks.
            let window_ms = WINDOWS_MS[who.1];
            let ago = Now::new(now.unix_ms() - 2 * window_ms, now.monotonic_ms());
            let here = |known: &Memory| !known.is_forgotten() && known.has_expired(window_ms, ago);
            assert!(!known.iter().all(here), "{who:?} expired first: {known:?}");
        }
    }

    /// No more subjects of a workspace can be in the table than were ever asked for.
    fn holds_most(&self, workspace: usize) -> usize {
        let asked = self.subjects.keys().filter(|who| workspace_of(**who) == workspace);
        asked.count() + self.flooded[workspace]
    }

    fn may_refuse(&mut self, workspace: usize) {
        self.exercised.refused += 1;
        let last = self.subjects_max / 16;
        assert!(self.table.subjects() >= self.subjects_max - last, "refused although not full");
        // What a regional store has not recorded keeps its place, whosever it is.
        let has_share = self.holds_most(workspace) >= self.subjects_max / 2;
        assert!(self.regional || has_share, "refused for the sake of a loud workspace, INV-35");
    }

    fn flood(&mut self, flood: Flood) {
        let (before, now) = (self.table.counts(), now(self.passed_ms));
        let (workspace, window_ms) = (flood.workspace, WINDOWS_MS[flood.window]);
        let name = format!("flood-{}", self.flooded[workspace]);
        self.flooded[workspace] += 1;
        let subject = subject(WORKSPACES[workspace], &name, window_ms);
        let answer = self.table.decide(&request_of(subject, flood.limit, 1), now);
        let evicted = self.forget(before, &[workspace], &BTreeSet::new(), now);
        let said = Said::from(&answer);
        if evicted || said.is_refused() {
            self.expired_went_first(&BTreeSet::new(), now);
        }
        if said.is_refused() {
            self.may_refuse(workspace);
            assert_eq!(said, Said::refused(window_ms, flood.limit, now));
            return;
        }
        assert_eq!((answer.denial(), answer.remaining()), (None, flood.limit - 1));
        if flood.recorded {
            let cell = self.table.cell(&subject, now.unix_ms() / window_ms).unwrap();
            assert!(cell.acknowledge(1));
        }
    }

    fn told(&mut self, ask: Ask, (peers, foreign): (u64, u64), recorded: bool) {
        // Both look, so that both stand at the same cell, if there is room for one.
        let now = now(self.passed_ms);
        self.single(Ask { cost: 0, limit: 1_000, ..ask }, now);
        let (request, sequence) = (ask.request(), now.unix_ms() / ask.window_ms());
        let known = self.subjects.get_mut(&ask.who()).unwrap();
        let Some(handle) = self.table.cell(request.subject(), sequence) else {
            known.retain(Memory::is_forgotten);
            assert!(!known.is_empty(), "{ask:?} was decided, and is gone");
            return;
        };
        let mine = handle.mine();
        assert_eq!(handle.claimed(), mine, "INV-10");
        known.retain_mut(|known| !known.is_forgotten() && known.cell(sequence).spent == mine);
        assert!(!known.is_empty(), "{ask:?} has spent {mine}");
        assert!(handle.observe_region(peers + mine, mine));
        assert!(handle.observe_foreign(foreign));
        assert!(!recorded || handle.acknowledge(mine));
        for known in known {
            let cell = known.cell(sequence);
            cell.recorded = if recorded { mine } else { cell.recorded };
            cell.peers = cell.peers.max(peers);
            cell.foreign = cell.foreign.max(foreign);
            assert_eq!((handle.peers(), handle.foreign()), (cell.peers, cell.foreign), "INV-1");
        }
    }
}
