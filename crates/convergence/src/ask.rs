//! What a process asks of a regional store before it admits, and what the store grants.
//!
//! An [`Ask`] is one step of a shard. It records totals as a [`Record`] does, and then looks at the
//! costs that wait, in order: what fits beside everything that the *store* knows is granted, and
//! added to the component's total at once. So two processes never spend the same room.
//!
//! What makes it safe when messages are lost, late or doubled:
//!
//! - an operation that comes again is answered as it was before;
//! - one whose component has recorded more than the total it carries is out of date, and grants
//!   nothing: what it asked for was admitted meanwhile without an answer, and is recorded already;
//! - so is one that was meant for another [token](Token): the shard has lost what it knew.

use crate::store::{CellReply, Record, Reply, Token};

/// The largest sum that counts: twice the largest limit, as in the registers of a process.
/// [`AskCell::weighted`] has an example of sums.
pub const SUM_MAX: u64 = (1 << 51) - 1;
/// Most cells of one ask: at about 10 us for each that is up to 2.6 ms of a Redis, which serves
/// nobody else meanwhile. A store refuses more. [`Ask`] has an example.
pub const ASK_CELLS_MAX: usize = 256;
/// Most costs of one ask, for the same reason: at about 1 us for each that is another 2 ms.
/// [`Ask`] has an example.
pub const ASK_WANTS_MAX: usize = 2_048;
/// How long a store keeps its answer to an operation. Whoever waits gives up after milliseconds;
/// messages that come seconds late find by their totals that they are out of date. [`Ask`] has an
/// example.
pub const ANSWER_LIFE_MS: u64 = 10_000;

/// Costs that wait, and the cells they are for.
///
/// ```
/// use tidegate_convergence::{
///     Ask, AskCell, Component, Grant, MemoryRegion, Record, Shard, ShardCall, Token, Unit, Want,
/// };
/// # use tidegate_limiter::{Digest, FleetSecret, Part, Subject, Window};
/// # let window = Window::from_millis(60_000)?;
/// # let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
/// # let subject = Digest::of(&subject, &FleetSecret::default());
///
/// // Two callers want 3 each under a limit of 10, of which 5 are admitted already.
/// let component = Component { incarnation: 1, life: 0 };
/// let (window_ms, sequence, total, previous_total) = (60_000, 7, 5, 0);
/// let record = Record { subject, window_ms, sequence, component, total, previous_total };
/// let (known, known_previous, foreign_previous, rest_ms) = (5, 0, 0, 30_000);
/// let cell = AskCell { record, known, known_previous, foreign_previous, rest_ms };
/// let unit = Unit { wants: vec![Want { cell: 0, cost: 3, head: 10 }], count: 2 };
/// let ask = Ask { operation: 1, token: Token(9), cells: vec![cell], units: vec![unit] };
/// let call = ShardCall { ask: Some(ask), ..ShardCall::of(Shard(0), Token(9), vec![]) };
///
/// let mut region = MemoryRegion::new(1);
/// let reply = region.call(&call, 0).asked.ok_or("asked")?;
/// assert_eq!(reply.grants, [Grant::Granted(1)], "for the first of them");
/// assert_eq!(reply.cells[0].current.sum, 8);
/// let again = region.call(&call, 0).asked.ok_or("asked")?;
/// assert_eq!(again.grants, reply.grants, "the same again: the same answer");
/// assert_eq!(again.cells[0].current.sum, 8);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Grows with every ask of a process.
    pub operation: u64,
    /// Which shard is meant, by what it remembers. Another one grants nothing.
    pub token: Token,
    /// The cells, each of another subject. They are all of this component.
    pub cells: Vec<AskCell>,
    /// What waits, in the order in which it came.
    pub units: Vec<Unit>,
}

/// A cell of which something is asked, and what its process knows of it. [`Ask`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AskCell {
    /// The totals that are recorded first.
    pub record: Record,
    /// The least that the region has used of the current cell: a store that lost something knows
    /// less than this.
    pub known: u64,
    /// The same of the previous cell.
    pub known_previous: u64,
    /// What other regions have used of the previous cell.
    pub foreign_previous: u64,
    /// How much of the window is left: the previous cell counts in that proportion.
    pub rest_ms: u64,
}

/// Costs that are granted together or not at all; and that so many times, each for itself.
/// [`Ask`] has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// The costs, at least one.
    pub wants: Vec<Want>,
    /// How many callers want the same.
    pub count: u32,
}

/// One cost. [`Ask`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    /// Which of the [cells](Ask::cells).
    pub cell: usize,
    /// How much.
    pub cost: u64,
    /// What the window may hold with it: the limit, without what other regions used of the
    /// current cell.
    pub head: u64,
}

/// What a store answers to an [`Ask`], which has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskReply {
    /// What it holds of each cell, with what it granted.
    pub cells: Vec<Reply>,
    /// What became of each unit.
    pub grants: Vec<Grant>,
}

/// What became of a [`Unit`]. [`Ask`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grant {
    /// So many times, for those who came first.
    Granted(u32),
    /// The operation is out of date: whether it was granted before is not known.
    Conflict,
    /// The shard is not the one that was meant; nothing is granted.
    Stranger,
}

impl Ask {
    /// Whether a store takes it. [`Ask`] has an example of one.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let wants: usize = self.units.iter().map(|unit| unit.wants.len()).sum();
        self.cells.len() <= ASK_CELLS_MAX && wants <= ASK_WANTS_MAX
    }
}

impl AskCell {
    /// The share of the previous cell that still lies in the window, of which the store has `sum`.
    ///
    /// ```
    /// # use tidegate_convergence::{AskCell, Component, Record};
    /// # use tidegate_limiter::{Digest, FleetSecret, Part, Subject, Window};
    /// # let window = Window::from_millis(60_000)?;
    /// # let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
    /// # let subject = Digest::of(&subject, &FleetSecret::default());
    /// # let component = Component { incarnation: 1, life: 0 };
    /// # let (window_ms, sequence, total, previous_total) = (60_000, 7, 0, 0);
    /// # let record = Record { subject, window_ms, sequence, component, total, previous_total };
    /// // A third of a minute is left; the process knows of 8, and of 4 of other regions.
    /// let (known, known_previous, foreign_previous, rest_ms) = (0, 8, 4, 20_000);
    /// let cell = AskCell { record, known, known_previous, foreign_previous, rest_ms };
    /// assert_eq!(cell.weighted(2), 4, "the store has forgotten something");
    /// assert_eq!(cell.weighted(20), 8);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn weighted(&self, sum: u64) -> u64 {
        let previous = sum.max(self.known_previous).saturating_add(self.foreign_previous);
        let (previous, window_ms) = (previous.min(SUM_MAX), self.record.window_ms.max(1));
        let rest_ms = self.rest_ms.min(window_ms);
        let weighted = u128::from(previous) * u128::from(rest_ms) / u128::from(window_ms);
        u64::try_from(weighted).unwrap_or(u64::MAX)
    }
}

/// What is used of each cell while the units are looked at, one after the other.
#[derive(Debug)]
pub(crate) struct Tally {
    /// The current cell and the share of the previous one, with what was granted so far.
    used: Vec<u64>,
    /// What was granted of each cell.
    pub(crate) granted: Vec<u64>,
}

impl Tally {
    /// `replies` is what the store holds once the totals are recorded.
    pub(crate) fn new(cells: &[AskCell], replies: &[Reply]) -> Self {
        let used = |(cell, reply): (&AskCell, &Reply)| {
            let current = reply.current.sum.max(cell.known).min(SUM_MAX);
            current.saturating_add(cell.weighted(reply.previous.sum))
        };
        let used: Vec<u64> = cells.iter().zip(replies).map(used).collect();
        let granted = vec![0; used.len()];
        Self { used, granted }
    }

    /// Grants a unit as often as it fits.
    pub(crate) fn grant(&mut self, unit: &Unit) -> u32 {
        (0..unit.count).take_while(|_| self.grant_once(unit)).fold(0, |count, _| count + 1)
    }

    fn grant_once(&mut self, unit: &Unit) -> bool {
        for (at, want) in unit.wants.iter().enumerate() {
            if self.takes(want) {
                continue;
            }
            for taken in unit.wants.iter().take(at) {
                self.shift(taken, u64::saturating_sub);
            }
            return false;
        }
        true
    }

    fn takes(&mut self, want: &Want) -> bool {
        let used = self.used.get(want.cell).copied();
        let fits = used.is_some_and(|used| used.saturating_add(want.cost) <= want.head);
        if fits {
            self.shift(want, u64::saturating_add);
        }
        fits
    }

    fn shift(&mut self, want: &Want, change: fn(u64, u64) -> u64) {
        let counts = [self.used.get_mut(want.cell), self.granted.get_mut(want.cell)];
        for count in counts.into_iter().flatten() {
            *count = change(*count, want.cost);
        }
    }
}

impl CellReply {
    /// The same after so much more was granted to the component.
    pub(crate) const fn granted(self, more: u64) -> Self {
        let first = more > 0 && self.recorded == 0;
        Self {
            sum: self.sum.saturating_add(more),
            recorded: self.recorded.saturating_add(more),
            had: self.had,
            components: self.components.saturating_add(first as u32),
        }
    }
}
