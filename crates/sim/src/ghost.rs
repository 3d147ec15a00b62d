//! What a subject of one process should hold, reckoned apart from the production code.
//!
//! A ghost is moved by the same requests, answers and clock readings as the ledger it shadows. The
//! rules of time are those of ADR 3, written once more.

use crate::node::Charged;

/// One of the two cells.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    /// What this component admitted.
    pub(crate) mine: u64,
    /// What of it is claimed beside that, until the region grants it.
    pub(crate) pending: u64,
    /// What it was told of the others.
    pub(crate) known: u64,
    /// What it was told that other regions published.
    pub(crate) foreign: u64,
    /// What it was told that the store holds of it.
    pub(crate) acked: u64,
    /// The largest sum it was told.
    pub(crate) confirmed: u64,
    /// Until when it is fresh, on the monotonic clock; 0 if it was never heard of.
    pub(crate) fresh_until_ms: u64,
    /// When the newest question that was answered had been asked.
    pub(crate) asked_ms: Option<u64>,
    /// A total that was reached and not recorded when it was last looked at, and when, in
    /// microseconds.
    pub(crate) untold: Option<(u64, u64)>,
    /// The sequences it had before a clock jumped.
    pub(crate) former: Vec<u64>,
}

/// Both cells of a subject in one process.
#[derive(Clone, Debug)]
pub(crate) struct Ghost {
    /// Which taking-in of the subject this is; never the same twice in a run.
    pub(crate) era: u64,
    pub(crate) life: u64,
    window_ms: u64,
    pub(crate) sequence: u64,
    pub(crate) renamed: bool,
    pub(crate) turned_ms: u64,
    /// When the turn before began, if that is known.
    turned_before_ms: Option<u64>,
    /// Counts the turns, so that an answer finds the cell its question was about.
    pub(crate) turn: u64,
    pub(crate) current: Side,
    pub(crate) previous: Side,
    strict_until_ms: u64,
    strict_limit: u64,
    /// What other regions publish of it is told to the table at once.
    pub(crate) adopted: bool,
    /// How many processes use it, as far as it was told; 0 if it was not.
    pub(crate) company: u32,
}

/// A reading of both clocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) unix_ms: u64,
    pub(crate) monotonic_ms: u64,
}

/// A cell that left the table, with its sequence.
pub(crate) type Gone = (u64, Side);

impl Ghost {
    pub(crate) fn new(era: u64, window_ms: u64, now: Reading) -> Self {
        Self {
            era,
            life: 0,
            window_ms,
            sequence: now.unix_ms / window_ms,
            renamed: false,
            turned_ms: now.monotonic_ms,
            turned_before_ms: None,
            turn: 2,
            current: Side::default(),
            previous: Side::default(),
            strict_until_ms: 0,
            strict_limit: 0,
            adopted: false,
            company: 0,
        }
    }

    /// Moves to the place of `now`. Returns how much of the window has elapsed, and puts the cells
    /// that left into `gone`.
    pub(crate) fn place(&mut self, now: Reading, gone: &mut Vec<Gone>) -> u64 {
        let window_ms = self.window_ms;
        let sequence = now.unix_ms / window_ms;
        if sequence == self.sequence {
            return now.unix_ms % window_ms;
        }
        if sequence + 1 == self.sequence {
            self.turned_ms = self.turned_ms.max(now.monotonic_ms);
            return 0;
        }
        if sequence < self.sequence && now.monotonic_ms < self.turned_ms {
            return 0;
        }
        let ahead = sequence.saturating_sub(self.sequence);
        let windows = (ahead + u64::from(self.renamed)).saturating_sub(1);
        let most_ms = window_ms - window_ms / 16;
        let must_ms = if ahead == 0 { 3 * window_ms } else { most_ms.saturating_mul(windows) };
        let since = |began_ms: u64| now.monotonic_ms.saturating_sub(began_ms);
        let has_passed = since(self.turned_ms) >= must_ms.min(3 * window_ms);
        let steady = self.turned_before_ms.is_none_or(|before_ms| since(before_ms) >= most_ms);
        if has_passed && (ahead != 1 || steady) {
            self.move_on(sequence, ahead == 1, gone);
            self.turned_ms = self.turned_ms.max(now.monotonic_ms);
            return now.unix_ms % window_ms;
        }
        self.rename(sequence + 1);
        self.turned_ms = self.turned_ms.max(now.monotonic_ms);
        0
    }

    fn move_on(&mut self, sequence: u64, by_one: bool, gone: &mut Vec<Gone>) {
        let before = self.sequence;
        let current = std::mem::take(&mut self.current);
        let previous = std::mem::take(&mut self.previous);
        gone.push((before.saturating_sub(1), previous));
        if by_one {
            self.previous = current;
            self.turned_before_ms = Some(self.turned_ms);
            self.turn += 1;
        } else {
            gone.push((before, current));
            self.turned_before_ms = None;
            self.turn += 2;
        }
        (self.sequence, self.renamed) = (sequence, false);
    }

    /// What was admitted and heard stays; what was told and asked under the old name is forgotten.
    fn rename(&mut self, sequence: u64) {
        let before = self.sequence;
        for (name, side) in [(before, &mut self.current), (before - 1, &mut self.previous)] {
            side.former.push(name);
            (side.acked, side.confirmed, side.fresh_until_ms) = (0, 0, 0);
            side.asked_ms = None;
        }
        (self.sequence, self.renamed) = (sequence, true);
    }

    /// As it was when the last window ended. The one before that counted no more by then.
    pub(crate) fn before(&self) -> Self {
        let (sequence, current) = (self.sequence - 1, self.previous.clone());
        Self { sequence, current, previous: Side::default(), ..self.clone() }
    }

    /// What the sliding window holds, as far as the process was told.
    pub(crate) fn used(&self, elapsed_ms: u64) -> u64 {
        self.current.view() + weigh(self.previous.view(), self.window_ms, elapsed_ms)
    }

    /// The same with what is claimed.
    pub(crate) fn held(&self, elapsed_ms: u64) -> u64 {
        let previous = self.previous.view() + self.previous.pending;
        let current = self.current.view() + self.current.pending;
        current + weigh(previous, self.window_ms, elapsed_ms)
    }

    /// Whether this much more may be admitted unasked: what the store has not recorded is at most
    /// an eighth of the room, shared by all. `earlier` is taken by the same batch.
    pub(crate) fn lends(&self, (cost, limit): (u64, u64), earlier: u64, elapsed_ms: u64) -> bool {
        let Side { mine, pending, acked, .. } = self.current;
        let unrecorded = (mine + pending + earlier).saturating_sub(acked) + cost;
        let room = limit.saturating_sub(self.held(elapsed_ms) + earlier);
        let share = room.checked_div(8 * u64::from(self.company)).unwrap_or(0);
        unrecorded <= share
    }

    /// When the current cell ends.
    pub(crate) const fn ends_ms(&self) -> u64 {
        (self.sequence + 1) * self.window_ms
    }

    /// As if a cell in which something was claimed were the current one, and how much of it has
    /// elapsed: if it has ended, all of it. Of one that is gone nothing is known.
    pub(crate) fn turned_back(&self, cell: Charged, now: Reading) -> (Self, u64) {
        let mut ghost = self.clone();
        let (sequence, side) = match ghost.side_of(cell.era, cell.turn) {
            Some((sequence, side)) => (sequence, side.clone()),
            None => (cell.sequence, Side::default()),
        };
        let elapsed_ms = now.unix_ms.saturating_sub(sequence * self.window_ms);
        if (cell.era, cell.turn) == (self.era, self.turn) {
            return (ghost, elapsed_ms.min(self.window_ms));
        }
        (ghost.sequence, ghost.turn) = (sequence, cell.turn);
        (ghost.current, ghost.previous) = (side, Side::default());
        (ghost, elapsed_ms.max(self.window_ms))
    }

    /// The cell of a turn, under whatever name, if it still counts.
    pub(crate) fn side_of(&mut self, era: u64, turn: u64) -> Option<(u64, &mut Side)> {
        if era != self.era {
            None
        } else if turn == self.turn {
            Some((self.sequence, &mut self.current))
        } else if turn + 1 == self.turn {
            Some((self.sequence.saturating_sub(1), &mut self.previous))
        } else {
            None
        }
    }

    /// The side that a question of this era was about, if it still counts under the same name.
    pub(crate) fn side(&mut self, era: u64, (turn, sequence): (u64, u64)) -> Option<&mut Side> {
        if era != self.era {
            None
        } else if (turn, sequence) == (self.turn, self.sequence) {
            Some(&mut self.current)
        } else if (turn + 1, sequence + 1) == (self.turn, self.sequence) {
            Some(&mut self.previous)
        } else {
            None
        }
    }

    /// Whether it concerns other regions.
    pub(crate) const fn is_long(&self) -> bool {
        self.window_ms >= crate::abroad::WINDOW_MIN_MS
    }

    /// A request was denied although a cost of 1 was asked for: admissions are checked for one
    /// window.
    pub(crate) fn arm(&mut self, limit: u64, monotonic_ms: u64) {
        let armed = self.strict_until_ms > monotonic_ms;
        self.strict_limit = if armed { self.strict_limit.max(limit) } else { limit };
        self.strict_until_ms = self.strict_until_ms.max(monotonic_ms + self.window_ms);
    }

    /// Whether an admission must ask.
    pub(crate) fn is_strict(&self, limit: u64, monotonic_ms: u64) -> bool {
        self.strict_until_ms > monotonic_ms && self.strict_limit >= limit
    }

    /// Whether an admission may do without asking.
    pub(crate) fn is_fresh(
        &self,
        (cost, limit): (u64, u64),
        elapsed_ms: u64,
        fresh_ms: u64,
        monotonic_ms: u64,
    ) -> bool {
        if self.current.fresh_until_ms > 0 {
            return self.current.fresh_until_ms > monotonic_ms;
        }
        self.previous.fresh_until_ms > 0 && elapsed_ms < fresh_ms && cost * 64 <= limit
    }
}

impl Side {
    /// What is used, as far as the process was told.
    pub(crate) const fn view(&self) -> u64 {
        self.mine + self.known + self.foreign
    }

    /// An answer: the sum and the own total that a store reported.
    pub(crate) fn hear(&mut self, sum: u64, recorded: u64) {
        self.known = self.known.max(sum.saturating_sub(recorded));
        self.acked = self.acked.max(recorded.min(self.mine));
        self.confirmed = self.confirmed.max(sum);
    }

    /// The sequences it had, the present one first.
    pub(crate) fn names(&self, sequence: u64) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(sequence).chain(self.former.iter().copied())
    }
}

/// The share of the previous window that still counts, in integers.
pub(crate) fn weigh(previous: u64, window_ms: u64, elapsed_ms: u64) -> u64 {
    let rest_ms = u128::from(window_ms.saturating_sub(elapsed_ms));
    let weighted = u128::from(previous) * rest_ms / u128::from(window_ms.max(1));
    u64::try_from(weighted).unwrap_or(previous)
}
