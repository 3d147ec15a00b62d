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
}

/// A cost that the region has to grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The cell in which it is claimed.
    pub cell: CellTicket,
    /// How much.
    pub cost: Cost,
    /// The limit under which it has to fit.
    pub limit: Limit,
}

impl Asking {
    /// What the region has to grant, at least one cost; subjects may appear several times.
    pub fn wanted(&self) -> impl Iterator<Item = Wanted> {
        let wanted = |item: &Asked| Wanted {
            cell: item.cell,
            cost: item.terms.cost,
            limit: item.terms.limit,
        };
        self.items.iter().filter(|item| item.asks).map(wanted)
    }
}

impl Asked {
    /// A claim in the ledger of `subject`. `None` if the ledger has turned away from its cell.
    pub(crate) fn new(
        ledger: Ledger<'_>,
        subject: Ticket,
        (claim, terms): (Claim, Terms),
        asks: bool,
    ) -> Option<Self> {
        let sequence = ledger.position().sequence_of(claim.turn)?;
        let cell = CellTicket::new(subject, claim.turn, sequence);
        Some(Self { cell, claim, terms, asks })
    }

    /// Which use of its subject's cells it is claimed in.
    pub(crate) const fn turn(&self) -> Turn {
        self.claim.turn
    }
}
