//! The cell of a subject, as convergence sees it.

use crate::cell::Cell;
use crate::key::Digest;
use crate::ledger::Ledger;
use crate::register::{Register, Turn, Write};

/// One cell of one subject. The verbs below and admission are the only ways to change it; each
/// merges by maximum, so any order and repetition comes to the same.
///
/// A handle may outlive its cell: a verb that comes too late changes nothing and returns `false`,
/// and what is read of it then is 0.
#[derive(Clone, Copy, Debug)]
pub struct CellHandle<'a> {
    ledger: Ledger<'a>,
    era: u64,
    turn: Turn,
    digest: Digest,
    life: u64,
}

impl<'a> CellHandle<'a> {
    pub(crate) fn new(ledger: Ledger<'a>, era: u64, sequence: u64) -> Option<Self> {
        let turn = ledger.turn_of(sequence)?;
        let (digest, life) = (Digest::from_words(ledger.digest()), ledger.life());
        // After all of it was read: it is this subject's.
        (ledger.era() == era).then_some(Self { ledger, era, turn, digest, life })
    }

    /// The subject's name outside this process.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The eviction sweep during which the subject was taken into the table. Together with the
    /// incarnation of the process it names the component that owns [`mine`](Self::mine).
    #[must_use]
    pub const fn life(&self) -> u64 {
        self.life
    }

    /// The subject's strict deadline on the monotonic clock, and the largest limit it concerns.
    #[must_use]
    pub fn strict(&self) -> (u64, u64) {
        self.ledger.strict()
    }

    /// What is admitted or reserved here. Never leaves the process.
    #[must_use]
    pub fn claimed(&self) -> u64 {
        self.read(|cell| cell.claimed)
    }

    /// What this process admitted: the total that it sends to the regional store.
    #[must_use]
    pub fn mine(&self) -> u64 {
        self.read(|cell| cell.mine)
    }

    /// How much of it the regional store has recorded.
    #[must_use]
    pub fn acked(&self) -> u64 {
        self.read(|cell| cell.acked)
    }

    /// What the other processes of the region have recorded.
    #[must_use]
    pub fn peers(&self) -> u64 {
        self.read(|cell| cell.peers)
    }

    /// The largest regional sum that the store has reported.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        self.read(|cell| cell.confirmed)
    }

    /// What other regions have published.
    #[must_use]
    pub fn foreign(&self) -> u64 {
        self.read(|cell| cell.foreign)
    }

    /// How much of `confirmed` is known to be published.
    #[must_use]
    pub fn published(&self) -> u64 {
        self.read(|cell| cell.published)
    }

    /// Until when, on the monotonic clock, the view counts as fresh.
    #[must_use]
    pub fn fresh_until_ms(&self) -> u64 {
        self.read(|cell| cell.fresh_until)
    }

    /// The regional store has `recorded` this much of what this process sent.
    pub fn acknowledge(&self, recorded: u64) -> bool {
        self.done(self.ledger.cell(self.turn).acknowledge(self.turn, || self.alive(), recorded))
    }

    /// The regional store's sum, of which `recorded` is this process's own.
    pub fn observe_region(&self, sum: u64, recorded: u64) -> bool {
        let (cell, reply) = (self.ledger.cell(self.turn), (sum, recorded));
        self.heard(cell.observe_region(self.turn, || self.alive(), reply))
    }

    /// The own region has published this total. Raises `peers` by what is not claimed here.
    pub fn observe_own_region(&self, published: u64) -> bool {
        let cell = self.ledger.cell(self.turn);
        self.heard(cell.observe_own_region(self.turn, || self.alive(), published))
    }

    /// The sum of what the other regions have published.
    pub fn observe_foreign(&self, sum: u64) -> bool {
        self.heard(self.ledger.cell(self.turn).observe_foreign(self.turn, || self.alive(), sum))
    }

    /// This much of `confirmed` has been published.
    pub fn mark_published(&self, count: u64) -> bool {
        let published = &self.ledger.cell(self.turn).published;
        self.done(published.raise(self.turn, || self.alive(), count))
    }

    /// The view is fresh until this moment of the monotonic clock.
    pub fn mark_fresh_until_ms(&self, until_ms: u64) -> bool {
        let fresh_until = &self.ledger.cell(self.turn).fresh_until;
        self.done(fresh_until.raise(self.turn, || self.alive(), until_ms))
    }

    fn read(&self, register: impl Fn(Cell<'a>) -> &'a Register) -> u64 {
        let count = register(self.ledger.cell(self.turn)).read(self.turn);
        if self.alive() { count } else { 0 }
    }

    /// What others have used counts from now on.
    fn heard(&self, write: Write) -> bool {
        if write == Write::Done {
            self.ledger.mark_heard();
        }
        self.done(write)
    }

    fn alive(&self) -> bool {
        self.ledger.is_alive(self.era, self.turn)
    }

    /// A write that met a ledger used by someone else cannot have changed it: its turns are new.
    fn done(&self, write: Write) -> bool {
        write == Write::Done && self.alive()
    }
}
