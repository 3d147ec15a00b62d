//! The reference: a subject is a list of cells that is never tidied up cleverly, and everything an
//! answer says is worked out from it by the definitions, without any closed form.

use std::collections::BTreeMap;

use tidegate_limiter::{Answer, Denial, Now, Request};

use crate::support::subject;

pub(super) const WINDOWS_MS: [u64; 2] = [1_000, 3_000];
pub(super) const WORKSPACES: [&str; 2] = ["home", "away"];
/// Each identifier lives in one workspace.
const IDENTIFIERS: [(usize, &str); 4] = [(0, "a"), (0, "b"), (1, "c"), (1, "d")];

/// One request for one of a few subjects.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ask {
    pub(super) identifier: usize,
    pub(super) window: usize,
    pub(super) limit: u64,
    pub(super) cost: u64,
}

/// Who an [`Ask`] is about: identifier and window.
pub(super) type Who = (usize, usize);

impl Ask {
    pub(super) fn request(self) -> Request<'static> {
        let (workspace, name) = IDENTIFIERS[self.identifier];
        let subject = subject(WORKSPACES[workspace], name, self.window_ms());
        crate::support::request_of(subject, self.limit, self.cost)
    }

    pub(super) fn who(self) -> Who {
        (self.identifier, self.window)
    }

    pub(super) fn window_ms(self) -> u64 {
        WINDOWS_MS[self.window]
    }
}

pub(super) fn workspace_of((identifier, _): Who) -> usize {
    IDENTIFIERS[identifier].0
}

/// Everything an answer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    denial: Option<Denial>,
    limit: u64,
    remaining: u64,
    reset_ms: u64,
    retry_after_ms: Option<u64>,
}

impl From<&Answer> for Said {
    fn from(answer: &Answer) -> Self {
        Self {
            denial: answer.denial(),
            limit: answer.limit(),
            remaining: answer.remaining(),
            reset_ms: answer.reset_unix_ms(),
            retry_after_ms: answer.retry_after_ms(),
        }
    }
}

impl Said {
    /// There is no memory for a subject that is not known: come back when this cell has ended.
    pub(super) fn refused(window_ms: u64, limit: u64, now: Now) -> Self {
        let reset_ms = (now.unix_ms() / window_ms + 1) * window_ms;
        let retry_after_ms = Some(reset_ms - now.unix_ms());
        Self { denial: Some(Denial::Memory), limit, remaining: 0, reset_ms, retry_after_ms }
    }

    pub(super) fn is_refused(self) -> bool {
        self.denial == Some(Denial::Memory)
    }
}

/// One cell of one subject.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) spent: u64,
    pub(super) recorded: u64,
    pub(super) peers: u64,
    pub(super) foreign: u64,
    /// The smallest limit of which more than half was used, or else the first; 0 if there is none.
    limit: u64,
}

impl Cell {
    fn count(&self) -> u64 {
        self.spent + self.peers + self.foreign
    }
}

/// What is known of one subject: its cells by their sequences, as far as they may matter. Without
/// any it was never seen, or is forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Memory(BTreeMap<u64, Cell>);

impl Memory {
    pub(super) fn is_forgotten(&self) -> bool {
        self.0.is_empty()
    }

    /// The cell in which a request is decided, and the time elapsed in it: that of its clock, but
    /// never one below the highest that was used.
    fn place(&self, window_ms: u64, now: Now) -> (u64, u64) {
        let sequence = now.unix_ms() / window_ms;
        match self.0.last_key_value() {
            Some((highest, _)) if *highest > sequence => (*highest, 0),
            _ => (sequence, now.unix_ms() % window_ms),
        }
    }

    /// INV-5: what the sliding window holds.
    fn used(&self, window_ms: u64, now: Now) -> u64 {
        let (sequence, elapsed_ms) = self.place(window_ms, now);
        let count = |sequence| self.0.get(&sequence).map_or(0, Cell::count);
        count(sequence) + count(sequence - 1) * (window_ms - elapsed_ms) / window_ms
    }

    fn fits(&self, ask: Ask, earlier: u64, now: Now) -> bool {
        ask.limit > 0 && self.used(ask.window_ms(), now) + earlier + ask.cost <= ask.limit
    }

    /// The earliest time at which it fits if nothing else happens. Counts only fade, so that the
    /// moment can be found by halving; two cells on nothing is left.
    fn retry_after_ms(&self, ask: Ask, earlier: u64, now: Now) -> Option<u64> {
        if ask.limit == 0 || earlier + ask.cost > ask.limit {
            return None;
        }
        let (sequence, _) = self.place(ask.window_ms(), now);
        let (mut too_early, mut fits) = (0, (sequence + 2) * ask.window_ms() - now.unix_ms());
        while fits - too_early > 1 {
            let middle = too_early.midpoint(fits);
            let at_middle = self.fits(ask, earlier, now.after_ms(middle));
            if at_middle { fits = middle } else { too_early = middle }
        }
        Some(fits)
    }

    /// What the answer to an item must say. `earlier` is what the items before it take from the
    /// same subject; `all` says whether the whole batch is admitted, and the cost spent.
    fn says(&self, ask: Ask, earlier: u64, all: bool, now: Now) -> Said {
        let window_ms = ask.window_ms();
        let reset_ms = (self.place(window_ms, now).0 + 1) * window_ms;
        if !self.fits(ask, earlier, now) {
            let retry_after_ms = self.retry_after_ms(ask, earlier, now);
            let denial = Some(Denial::Limit);
            return Said { denial, limit: ask.limit, remaining: 0, reset_ms, retry_after_ms };
        }
        let spent = if all { ask.cost } else { 0 };
        let remaining = ask.limit - self.used(window_ms, now) - earlier - spent;
        Said { denial: None, limit: ask.limit, remaining, reset_ms, retry_after_ms: Some(0) }
    }

    /// What is known after all items of one request that concern this subject, or `None` if
    /// whoever knew this would have answered otherwise.
    pub(super) fn after(&self, items: &[(Ask, Said)], all: bool, now: Now) -> Option<Self> {
        let refused = |(ask, said): &(Ask, Said)| {
            self.is_forgotten() && *said == Said::refused(ask.window_ms(), ask.limit, now)
        };
        if items.iter().all(refused) {
            return Some(self.clone());
        }
        let mut earlier = 0;
        for (ask, said) in items {
            if self.says(*ask, earlier, all, now) != *said {
                return None;
            }
            earlier += ask.cost;
        }
        let mut after = self.clone();
        for (ask, _) in items {
            let (sequence, _) = after.place(ask.window_ms(), now);
            let near = after.used(ask.window_ms(), now) + ask.cost > ask.limit / 2;
            let cell = after.0.entry(sequence).or_default();
            if all && ask.cost > 0 {
                if cell.limit == 0 || near && ask.limit < cell.limit {
                    cell.limit = ask.limit;
                }
                cell.spent += ask.cost;
            }
            after.0.retain(|kept, _| kept + 1 >= sequence);
        }
        Some(after)
    }

    /// The cell of that sequence, which was used before.
    pub(super) fn cell(&mut self, sequence: u64) -> &mut Cell {
        self.0.get_mut(&sequence).unwrap()
    }

    /// Cells that a request at this time, or a later one, could count.
    fn live(&self, window_ms: u64, now: Now) -> impl Iterator<Item = &Cell> {
        self.0.range((now.unix_ms() / window_ms - 1)..).map(|(_, cell)| cell)
    }

    pub(super) fn has_expired(&self, window_ms: u64, now: Now) -> bool {
        self.live(window_ms, now).next().is_none()
    }

    /// Both cells together use more than half of the smallest limit that is known of them.
    pub(super) fn is_above_half(&self, window_ms: u64, now: Now) -> bool {
        let used: u64 = self.live(window_ms, now).map(Cell::count).sum();
        let limits = self.live(window_ms, now).map(|cell| cell.limit);
        let limit = limits.filter(|limit| *limit > 0).min();
        limit.is_some_and(|limit| used * 1_024 / limit > 512)
    }

    /// The regional store has not recorded everything.
    pub(super) fn is_dirty(&self, window_ms: u64, now: Now) -> bool {
        self.live(window_ms, now).any(|cell| cell.spent > cell.recorded)
    }
}
