//! Costs that are claimed here and that the region has yet to grant.

use crate::cells::{CellTicket, Ticket};
use crate::ledger::{Claim, Ledger, Terms};
use crate::register::Turn;
use crate::request::{Cost, Limit};

/// The costs of one request or of one batch, claimed in the table while the region is asked: all of
/// them become admissions, or none does.
///
/// Whoever holds it must end it, by [`Table::commit`](crate::Table::commit) or
/// [`Table::release`](crate::Table::release): what is claimed is not free for others.
///
/// ```
/// use tidegate_limiter::{AskedFor, Consistency, Decision};
/// # use tidegate_limiter::{Cost, Limit, Now, Options, Part, Request, Seed, Subject};
/// # use tidegate_limiter::{Table, Window};
/// # let window = Window::from_millis(60_000)?;
/// # let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
/// # let request = Request::new(subject, Limit::new(5), Cost::ONE);
/// # let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
/// # let now = Now::new(1_700_000_040_000, 0);
///
/// let request = request.with_consistency(Consistency::Bounded);
/// let Decision::Ask(asking) = table.decide_or_refresh(&request, now) else {
///     unreachable!("nothing is known of the subject");
/// };
/// assert_eq!(asking.wanted().map(|wanted| wanted.cost.get()).sum::<u64>(), 1);
/// let claimed = asking.claimed().next();
/// // The region grants it.
/// table.commit(asking);
/// let answer = table.answer_asked(&request, (AskedFor::Granted, claimed), now);
/// assert_eq!(answer.remaining(), 4);
/// # Ok::<(), tidegate_limiter::RequestError>(())
/// ```
#[derive(Debug)]
#[must_use = "what is claimed must be committed or released"]
pub struct Asking {
    pub(crate) items: Vec<Asked>,
}

/// One cost of an [`Asking`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) cell: CellTicket,
    pub(crate) claim: Claim,
    pub(crate) terms: Terms,
    /// The region has to grant it; otherwise it is only held with the others.
    pub(crate) asks: bool,
    /// If the region does not grant it, its request is denied.
    pub(crate) denies: bool,
}

/// A cost that the region has to grant. [`Asking`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The cell in which it is claimed.
    pub cell: CellTicket,
    /// How much.
    pub cost: Cost,
    /// The limit under which it has to fit.
    pub limit: Limit,
}

/// Where a cost is claimed: its answer is about this cell, even if the next one has begun by then.
/// [`Asking`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// The cell.
    pub cell: CellTicket,
    /// The region has to grant it; otherwise it is only held with the others.
    pub asks: bool,
}

impl Asking {
    /// What the region has to grant, at least one cost; subjects may appear several times. The
    /// [type](Self) has an example.
    pub fn wanted(&self) -> impl Iterator<Item = Wanted> {
        let wanted = |item: &Asked| Wanted {
            cell: item.cell,
            cost: item.terms.cost,
            limit: item.terms.limit,
        };
        self.items.iter().filter(|item| item.asks).map(wanted)
    }

    /// Where every cost is claimed, in the order of the requests: to be kept for their answers. The
    /// [type](Self) has an example.
    pub fn claimed(&self) -> impl Iterator<Item = Claimed> {
        self.items.iter().map(|item| Claimed { cell: item.cell, asks: item.asks })
    }

    /// Whether a request is among those that the region has to grant which is denied if it does not
    /// say: [`Outage::Deny`](crate::Outage::Deny). The [type](Self) has an example of the rest.
    #[must_use]
    pub fn denies(&self) -> bool {
        self.items.iter().any(|item| item.asks && item.denies)
    }

    /// The subjects of which something is only held until the rest is granted; some may also be
    /// among the [wanted](Self::wanted). The [type](Self) has an example of the rest.
    pub fn held(&self) -> impl Iterator<Item = Ticket> {
        self.items.iter().filter(|item| !item.asks).map(|item| item.cell.subject)
    }
}

impl Asked {
    /// A claim in the ledger of `subject`. `None` if the ledger has turned away from its cell.
    pub(crate) fn new(
        ledger: Ledger<'_>,
        subject: Ticket,
        (claim, terms): (Claim, Terms),
        (asks, denies): (bool, bool),
    ) -> Option<Self> {
        let sequence = ledger.position().sequence_of(claim.turn)?;
        let cell = CellTicket::new(subject, claim.turn, sequence);
        Some(Self { cell, claim, terms, asks, denies })
    }

    /// Which use of its subject's cells it is claimed in.
    pub(crate) const fn turn(&self) -> Turn {
        self.claim.turn
    }
}
