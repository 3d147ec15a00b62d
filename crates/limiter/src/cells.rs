//! The cell of a subject, as convergence sees it.

use crate::cell::Cell;
use crate::key::Digest;
use crate::ledger::Ledger;
use crate::register::{Register, Turn, Write};
use crate::time::Now;

/// A subject in the table, to be found again without its name. If it is gone by then, it is not
/// found. [`Table::take_noted`](crate::Table::take_noted) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket {
    pub(crate) shard: u16,
    pub(crate) ledger: u32,
    pub(crate) era: u64,
}

/// One cell of a subject in the table, to be found again.
/// [`Table::take_noted`](crate::Table::take_noted) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellTicket {
    /// The subject.
    pub subject: Ticket,
    turn: Turn,
    sequence: u64,
}

impl CellTicket {
    pub(crate) const fn new(subject: Ticket, turn: Turn, sequence: u64) -> Self {
        Self { subject, turn, sequence }
    }

    pub(crate) const fn turn(&self) -> Turn {
        self.turn
    }

    /// Which window it was when the ticket was made.
    pub(crate) const fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The cell, if it still is the current or the previous one of its subject, under the same
    /// name.
    pub(crate) fn find<'a>(&self, ledger: Ledger<'a>) -> Option<CellHandle<'a>> {
        let cell = CellHandle::named(ledger, self.subject.era, (self.turn, self.sequence))?;
        cell.alive().then_some(cell)
    }
}

/// Both cells of a subject, as they stood at one moment.
/// [`Table::take_noted`](crate::Table::take_noted) has an example.
#[derive(Clone, Copy, Debug)]
pub struct Cells<'a> {
    /// The current cell.
    pub current: CellHandle<'a>,
    /// The one before it.
    pub previous: CellHandle<'a>,
    /// Which window the current one is.
    pub sequence: u64,
    /// How long the windows are.
    pub window_ms: u64,
}

impl<'a> Cells<'a> {
    pub(crate) fn new(ledger: Ledger<'a>, era: u64) -> Option<Self> {
        let position = ledger.position();
        let handle = |turn| {
            let sequence = position.sequence_of(turn)?;
            CellHandle::named(ledger, era, (turn, sequence))
        };
        let (current, previous) = (handle(position.turn())?, handle(position.turn().previous())?);
        let (sequence, window_ms) = (position.sequence(), ledger.window_ms());
        (ledger.era() == era).then_some(Self { current, previous, sequence, window_ms })
    }

    /// What the sliding window holds, and the limit it is measured by (0 if none is known).
    /// [`Table::take_noted`](crate::Table::take_noted) has an example.
    #[must_use]
    pub fn used_of_limit(&self, now: Now) -> (u64, u64) {
        self.current.ledger.used_of_limit(now)
    }

    /// So many processes use the subject, or may: each has that share of what may be admitted
    /// unasked.
    ///
    /// ```
    /// # use tidegate_limiter::*;
    /// # let window = Window::from_millis(60_000)?;
    /// # let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// # let request = Request::new(subject, Limit::new(80), Cost::ONE);
    /// # let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
    /// # let now = Now::new(1_700_000_040_000, 0);
    /// let request = request.with_consistency(Consistency::Bounded);
    /// let Decision::Ask(asking) = table.decide_or_refresh(&request, now) else { unreachable!() };
    /// let wanted = asking.wanted().next().ok_or("one")?;
    /// let cells = table.cells(wanted.cell.subject).ok_or("there")?;
    /// // The region grants it, and says that two processes are there.
    /// table.commit(asking);
    /// cells.current.acknowledge(1);
    /// cells.current.mark_fresh_until_ms(5_000);
    /// cells.set_company(2);
    /// assert_eq!(cells.company(), 2);
    /// // A sixteenth of what is left may be admitted here.
    /// assert!(matches!(table.decide_or_refresh(&request, now), Decision::Answered(_)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_company(&self, processes: u64) {
        self.current.ledger.set_company(processes);
    }

    /// How many processes use the subject, or may, as was [said](Self::set_company) last; 0 if
    /// nothing was said yet.
    #[must_use]
    pub fn company(&self) -> u64 {
        self.current.ledger.company()
    }

    /// How much of the current window is left at `now`; all of it while the clock is behind.
    /// [`set_company`](Self::set_company) has an example of where cells come from.
    #[must_use]
    pub fn rest_ms(&self, now: Now) -> u64 {
        let start_ms = self.sequence.saturating_mul(self.window_ms);
        self.window_ms.saturating_sub(now.unix_ms().saturating_sub(start_ms))
    }

    /// The region did not answer: it is not asked again before this moment of the monotonic clock.
    /// [`CellHandle`] has an example of how a cell is told something.
    pub fn retry_no_sooner(&self, monotonic_ms: u64) {
        self.current.ledger.retry_no_sooner(monotonic_ms);
    }
}

/// One cell of one subject. The verbs below and admission are the only ways to change it; each
/// merges by maximum, so any order and repetition comes to the same.
///
/// A handle may outlive its cell, or its name if the wall clock jumps: a verb that comes too late
/// returns `false` and changes nothing, or, if it comes at that very moment, nothing of another
/// subject; and what is read of it then is 0.
///
/// ```
/// # use tidegate_limiter::*;
/// # let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
/// # let (part, window) = (Part::new("a")?, Window::from_millis(60_000)?);
/// # let subject = Subject::new(part, part, part, window);
/// let now = Now::new(28_333_334 * 60_000, 10_000);
/// let _ = table.decide(&Request::new(subject, Limit::new(10), Cost::new(4)?), now);
/// let cell = table.cell(&subject, 28_333_334).ok_or("it was decided on")?;
/// assert_eq!((cell.digest(), cell.claimed()), (table.digest_of(&subject), 4));
///
/// // Registers only grow, in whatever order things are heard.
/// cell.acknowledge(4);
/// cell.acknowledge(3);
/// cell.observe_region(9, 4);
/// cell.observe_foreign(2);
/// assert_eq!((cell.mine(), cell.acked(), cell.peers(), cell.foreign()), (4, 4, 5, 2));
/// cell.mark_fresh_until_ms(15_000);
/// assert_eq!((cell.fresh_until_ms(), cell.has_jumped()), (15_000, false));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct CellHandle<'a> {
    ledger: Ledger<'a>,
    era: u64,
    turn: Turn,
    sequence: u64,
    digest: Digest,
    life: u64,
}

impl<'a> CellHandle<'a> {
    pub(crate) fn new(ledger: Ledger<'a>, era: u64, sequence: u64) -> Option<Self> {
        Self::named(ledger, era, (ledger.position().turn_of(sequence)?, sequence))
    }

    #[cfg(test)]
    #[cfg(any(loom, shuttle))]
    pub(crate) fn of_turn(ledger: Ledger<'a>, era: u64, turn: Turn) -> Option<Self> {
        Self::named(ledger, era, (turn, ledger.position().sequence_of(turn)?))
    }

    fn named(ledger: Ledger<'a>, era: u64, (turn, sequence): (Turn, u64)) -> Option<Self> {
        let (digest, life) = (Digest::from_words(ledger.digest()), ledger.life());
        // After all of it was read: it is this subject's.
        (ledger.era() == era).then_some(Self { ledger, era, turn, sequence, digest, life })
    }

    /// The subject's name outside this process. The [type](Self) has an example.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The eviction sweep during which the subject was taken into the table. Together with the
    /// incarnation of the process it names the component that owns [`mine`](Self::mine). The
    /// [type](Self) has an example.
    #[must_use]
    pub const fn life(&self) -> u64 {
        self.life
    }

    /// To find the cell again. The [type](Self) has an example.
    #[must_use]
    pub const fn ticket(&self, subject: Ticket) -> CellTicket {
        CellTicket { subject, turn: self.turn, sequence: self.sequence }
    }

    /// From this total of [`mine`](Self::mine) on, an admission asks for a replay. Read `mine`
    /// again afterwards: an admission that came before does not. The [type](Self) has an example.
    pub fn replay_from(&self, total: u64) -> bool {
        let replay_at = &self.ledger.cell(self.turn).replay_at;
        self.done(replay_at.set(self.turn, || self.alive(), total))
    }

    /// No admission asks for a replay, until [`replay_from`](Self::replay_from) says so. The
    /// [type](Self) has an example.
    pub fn mute_replay(&self) -> bool {
        self.replay_from(u64::MAX)
    }

    /// Whether the clock jumped while the subject was in the table, so that its cells have had
    /// other names before. The [type](Self) has an example.
    #[must_use]
    pub fn has_jumped(&self) -> bool {
        self.ledger.has_jumped()
    }

    /// The subject's strict deadline on the monotonic clock, and the largest limit it concerns. The
    /// [type](Self) has an example.
    #[must_use]
    pub fn strict(&self) -> (u64, u64) {
        self.ledger.strict()
    }

    /// What is admitted or reserved here. Never leaves the process. The [type](Self) has an
    /// example.
    #[must_use]
    pub fn claimed(&self) -> u64 {
        self.read(|cell| cell.claimed)
    }

    /// What this process admitted: the total that it sends to the regional store. The [type](Self)
    /// has an example.
    #[must_use]
    pub fn mine(&self) -> u64 {
        self.read(|cell| cell.mine)
    }

    /// How much of it the regional store has recorded. The [type](Self) has an example.
    #[must_use]
    pub fn acked(&self) -> u64 {
        self.read(|cell| cell.acked)
    }

    /// What the other processes of the region have recorded. The [type](Self) has an example.
    #[must_use]
    pub fn peers(&self) -> u64 {
        self.read(|cell| cell.peers)
    }

    /// The largest regional sum that the store has reported. The [type](Self) has an example.
    #[must_use]
    pub fn confirmed(&self) -> u64 {
        self.read(|cell| cell.confirmed)
    }

    /// What other regions have published. The [type](Self) has an example.
    #[must_use]
    pub fn foreign(&self) -> u64 {
        self.read(|cell| cell.foreign)
    }

    /// What of `claimed` is marked as reserved.
    #[cfg(test)]
    #[cfg(shuttle)]
    pub(crate) fn reserved(&self) -> u64 {
        self.read(|cell| cell.reserved)
    }

    /// Until when, on the monotonic clock, the view counts as fresh. The [type](Self) has an
    /// example.
    #[must_use]
    pub fn fresh_until_ms(&self) -> u64 {
        self.read(|cell| cell.fresh_until)
    }

    /// The regional store has `recorded` this much of what this process sent. The [type](Self) has
    /// an example.
    pub fn acknowledge(&self, recorded: u64) -> bool {
        self.done(self.ledger.cell(self.turn).acknowledge(self.turn, || self.alive(), recorded))
    }

    /// The regional store's sum, of which `recorded` is this process's own. The [type](Self) has an
    /// example.
    pub fn observe_region(&self, sum: u64, recorded: u64) -> bool {
        let (cell, reply) = (self.ledger.cell(self.turn), (sum, recorded));
        self.heard(cell.observe_region(self.turn, || self.alive(), reply))
    }

    /// The own region has published this total. Raises `peers` by what is not claimed here. The
    /// [type](Self) has an example.
    pub fn observe_own_region(&self, published: u64) -> bool {
        let cell = self.ledger.cell(self.turn);
        self.heard(cell.observe_own_region(self.turn, || self.alive(), published))
    }

    /// So much was admitted to it by an earlier life of this process.
    pub(crate) fn restore(&self, saved: u64) -> bool {
        self.heard(self.ledger.cell(self.turn).restore(self.turn, || self.alive(), saved))
    }

    /// The sum of what the other regions have published. The [type](Self) has an example.
    pub fn observe_foreign(&self, sum: u64) -> bool {
        self.heard(self.ledger.cell(self.turn).observe_foreign(self.turn, || self.alive(), sum))
    }

    /// The view is fresh until this moment of the monotonic clock. The [type](Self) has an example.
    pub fn mark_fresh_until_ms(&self, until_ms: u64) -> bool {
        let fresh_until = &self.ledger.cell(self.turn).fresh_until;
        self.done(fresh_until.raise(self.turn, || self.alive(), until_ms))
    }

    /// Changes what this process admitted, which nothing but an admission may do.
    #[cfg(feature = "planted")]
    #[doc(hidden)]
    pub fn change_mine(&self, change: impl Fn(u64) -> u64) {
        let _ = self.ledger.cell(self.turn).mine.write(self.turn, || self.alive(), change);
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
        self.ledger.position().sequence_of(self.turn) == Some(self.sequence)
            && self.ledger.era() == self.era
    }

    /// A write that met a ledger used by someone else has not changed it, as long as that has not
    /// come round to the same turn with the same count.
    fn done(&self, write: Write) -> bool {
        write == Write::Done && self.alive()
    }
}
