//! One fixed window of one subject: what this process admitted to it and what it was told.

use crate::register::{COUNT_MAX, Register, Turn, Word, Write};

/// The value of `replay_at` that no total reaches.
pub(crate) const REPLAY_ASKED: u64 = COUNT_MAX;

/// What a decision swaps.
#[derive(Debug)]
pub(crate) struct Spent {
    pub(crate) claimed: Register,
    pub(crate) mine: Register,
}

/// What a decision in a region looks at besides: what others have used, whether that is news, what
/// may be lent, and whether what is admitted has to be told.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Heard {
    peers: Register,
    foreign: Register,
    acked: Register,
    fresh_until: Register,
    reserved: Register,
    replay_at: Register,
}

/// What an ordinary admission does not look at: it writes `limit` if it is the first or near it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Marks {
    confirmed: Register,
    limit: Register,
}

impl Spent {
    pub(crate) fn new(turn: Turn) -> Self {
        Self { claimed: zero(turn), mine: zero(turn) }
    }
}

impl Heard {
    pub(crate) fn new(turn: Turn) -> Self {
        Self {
            peers: zero(turn),
            foreign: zero(turn),
            acked: zero(turn),
            fresh_until: zero(turn),
            reserved: zero(turn),
            replay_at: zero(turn),
        }
    }

    /// The one that stands last.
    #[inline]
    pub(crate) const fn last(&self) -> &Register {
        &self.replay_at
    }

    /// Whether no batch holds anything in either cell, in whatever turn.
    #[inline]
    pub(crate) fn have_no_reservations([first, second]: &[Self; 2]) -> bool {
        first.reserved.load().count() | second.reserved.load().count() == 0
    }
}

impl Marks {
    pub(crate) fn new(turn: Turn) -> Self {
        Self { confirmed: zero(turn), limit: zero(turn) }
    }
}

fn zero(turn: Turn) -> Register {
    Register::new(Word::new(turn, 0))
}

/// The registers of a cell. `view = claimed + peers + foreign`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell<'a> {
    /// `mine` plus what is in flight: the word that decisions swap. Never leaves the process.
    pub(crate) claimed: &'a Register,
    /// Cost that this process has admitted.
    pub(crate) mine: &'a Register,
    /// What the regional store has recorded of `mine`: says what is dirty, no decision reads it.
    pub(crate) acked: &'a Register,
    /// What the other processes of the region have recorded.
    pub(crate) peers: &'a Register,
    /// The largest regional sum the store has reported: the only thing a region publishes.
    pub(crate) confirmed: &'a Register,
    /// What other regions have published. Never published again.
    pub(crate) foreign: &'a Register,
    /// Until when, on the monotonic clock, the view counts as fresh.
    pub(crate) fresh_until: &'a Register,
    /// What of `claimed` batches in flight hold. Says why a request is denied; no verdict depends
    /// on it.
    pub(crate) reserved: &'a Register,
    /// The smallest limit that is half used here, or else the first that admitted something: says
    /// what is near its limit and what is worth publishing.
    pub(crate) limit: &'a Register,
    /// The total of `mine` from which on an admission asks for a replay; [`REPLAY_ASKED`] if one
    /// did and nobody has taken notice yet.
    pub(crate) replay_at: &'a Register,
}

impl<'a> Cell<'a> {
    #[inline]
    pub(crate) fn of(spent: &'a Spent, heard: &'a Heard, marks: &'a Marks) -> Self {
        Self {
            claimed: &spent.claimed,
            mine: &spent.mine,
            acked: &heard.acked,
            peers: &heard.peers,
            confirmed: &marks.confirmed,
            foreign: &heard.foreign,
            fresh_until: &heard.fresh_until,
            reserved: &heard.reserved,
            limit: &marks.limit,
            replay_at: &heard.replay_at,
        }
    }

    fn registers(self) -> [&'a Register; 10] {
        [
            self.claimed,
            self.mine,
            self.acked,
            self.peers,
            self.confirmed,
            self.foreign,
            self.fresh_until,
            self.reserved,
            self.limit,
            self.replay_at,
        ]
    }

    /// Begins a turn in every register that nobody has written to in it yet. Decisions do not
    /// wait for it; it keeps a leftover from being met again when turn numbers repeat.
    pub(crate) fn begin(self, turn: Turn, alive: impl Fn() -> bool) {
        for register in self.registers() {
            register.begin(turn, &alive);
        }
    }

    /// Empties the cell of a ledger that nobody can reach.
    pub(crate) fn reset(self, turn: Turn) {
        for register in self.registers() {
            register.store(Word::new(turn, 0));
        }
    }

    /// The cell got another name: no store has heard of it under that one. What was admitted and
    /// what others used stays; the rest is told and asked anew.
    pub(crate) fn rename(self, turn: Turn, alive: impl Fn() -> bool) {
        let told = [self.acked, self.confirmed, self.fresh_until, self.replay_at];
        for register in told {
            let _ = register.set(turn, &alive, 0);
        }
    }

    /// What other processes and other regions have used, as far as this process was told.
    pub(crate) fn told(self, turn: Turn) -> u64 {
        self.peers.read(turn).saturating_add(self.foreign.read(turn))
    }

    /// Whether `seen`, what is claimed here, is more than what was admitted: a reservation is in
    /// flight, or an admission that has not reached `mine` yet.
    pub(crate) fn has_claims(self, seen: Word) -> bool {
        seen.count() != self.mine.read(seen.turn())
    }

    // The verbs. `alive` says whether the turn is still the current or the previous one.

    /// The store has `recorded` this much of what this process sent.
    pub(crate) fn acknowledge(self, turn: Turn, alive: impl Fn() -> bool, recorded: u64) -> Write {
        self.acked.raise(turn, alive, recorded.min(self.mine.read(turn)))
    }

    /// The store's sum, of which `recorded` is this process's own.
    pub(crate) fn observe_region(
        self,
        turn: Turn,
        alive: impl Fn() -> bool,
        (sum, recorded): (u64, u64),
    ) -> Write {
        match self.confirmed.raise(turn, &alive, sum) {
            Write::Done => self.peers.raise(turn, alive, sum.saturating_sub(recorded)),
            Write::Passed => Write::Passed,
        }
    }

    /// The own region has published this much: what of it is not claimed here, peers have used.
    /// `mine` says it too while an eviction that fails has closed `claimed` for a moment.
    pub(crate) fn observe_own_region(
        self,
        turn: Turn,
        alive: impl Fn() -> bool,
        published: u64,
    ) -> Write {
        let own = self.claimed.read(turn).max(self.mine.read(turn));
        self.peers.raise(turn, alive, published.saturating_sub(own))
    }

    /// So much of it was saved before this process started: to it, that is what peers have used.
    pub(crate) fn restore(self, turn: Turn, alive: impl Fn() -> bool, saved: u64) -> Write {
        self.peers.raise(turn, alive, saved)
    }

    /// The sum of what the other regions have published.
    pub(crate) fn observe_foreign(self, turn: Turn, alive: impl Fn() -> bool, sum: u64) -> Write {
        self.foreign.raise(turn, alive, sum)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
