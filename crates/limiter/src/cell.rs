//! One fixed window of one subject: what this process admitted to it and what it was told.

use crate::register::{Register, Turn, Word, Write};

/// The registers of a cell, one cache line. `view = claimed + peers + foreign`.
#[derive(Debug)]
pub(crate) struct Cell {
    /// `mine` plus what batches in flight have reserved: the word that decisions swap. Never
    /// leaves the process.
    pub(crate) claimed: Register,
    /// Cost that this process has admitted.
    pub(crate) mine: Register,
    /// What the regional store has recorded of `mine`: says what is dirty, no decision reads it.
    pub(crate) acked: Register,
    /// What the other processes of the region have recorded.
    pub(crate) peers: Register,
    /// The largest regional sum the store has reported: the only thing a region publishes.
    pub(crate) confirmed: Register,
    /// What other regions have published. Never published again.
    pub(crate) foreign: Register,
    /// How much of `confirmed` the global store holds.
    pub(crate) published: Register,
    /// Until when, on the monotonic clock, the view counts as fresh.
    pub(crate) fresh_until: Register,
}

impl Cell {
    pub(crate) fn new(turn: Turn) -> Self {
        let zero = || Register::new(Word::new(turn, 0));
        Self {
            claimed: zero(),
            mine: zero(),
            acked: zero(),
            peers: zero(),
            confirmed: zero(),
            foreign: zero(),
            published: zero(),
            fresh_until: zero(),
        }
    }

    fn registers(&self) -> [&Register; 8] {
        [
            &self.claimed,
            &self.mine,
            &self.acked,
            &self.peers,
            &self.confirmed,
            &self.foreign,
            &self.published,
            &self.fresh_until,
        ]
    }

    /// Begins a turn in every register that nobody has written to in it yet. Decisions do not
    /// wait for it; it keeps a leftover from being met again when turn numbers repeat.
    pub(crate) fn begin(&self, turn: Turn) {
        for register in self.registers() {
            register.begin(turn);
        }
    }

    /// Empties the cell of a ledger that nobody can reach.
    pub(crate) fn reset(&self, turn: Turn) {
        for register in self.registers() {
            register.store(Word::new(turn, 0));
        }
    }

    /// What other processes and other regions have used, as far as this process was told.
    pub(crate) fn told(&self, turn: Turn) -> u64 {
        self.peers.read(turn).saturating_add(self.foreign.read(turn))
    }

    /// Whether a reservation is in flight, or an admission that has not reached `mine` yet.
    pub(crate) fn has_claims(&self) -> bool {
        let claimed = self.claimed.load();
        claimed.count() != self.mine.read(claimed.turn())
    }

    // The verbs. `alive` says whether the turn is still the current or the previous one.

    /// The store has `recorded` this much of what this process sent.
    pub(crate) fn acknowledge(&self, turn: Turn, alive: impl Fn() -> bool, recorded: u64) -> Write {
        self.acked.raise(turn, alive, recorded.min(self.mine.read(turn)))
    }

    /// The store's sum, of which `recorded` is this process's own.
    pub(crate) fn observe_region(
        &self,
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
    pub(crate) fn observe_own_region(
        &self,
        turn: Turn,
        alive: impl Fn() -> bool,
        published: u64,
    ) -> Write {
        self.peers.raise(turn, alive, published.saturating_sub(self.claimed.read(turn)))
    }

    /// The sum of what the other regions have published.
    pub(crate) fn observe_foreign(&self, turn: Turn, alive: impl Fn() -> bool, sum: u64) -> Write {
        self.foreign.raise(turn, alive, sum)
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
