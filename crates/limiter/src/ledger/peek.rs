//! Looks that change nothing, not even the turn of a ledger: for those who ask why, and what is
//! kept.

use crate::cell::Cell;
use crate::register::Turn;
use crate::request::Window;
use crate::sync::Ordering;
use crate::time::Now;
use crate::window::View;

use super::place::Position;
use super::region::age_of;
use super::{Freshness, Ledger, Look, Place, Reason, Refusal, Terms};

/// Looks until all that was read is of one moment. Each further one takes a decision on the same
/// subject at that very moment; the last one is told as it is.
const LOOKS_MAX: usize = 64;
/// A ledger gets to where it decides in one move; after a jump of the clock it finds itself ahead.
const MOVES_MAX: usize = 3;

/// What a cell holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) mine: u64,
    pub(crate) claimed: u64,
    pub(crate) reserved: u64,
    pub(crate) acked: u64,
    pub(crate) peers: u64,
    pub(crate) confirmed: u64,
    pub(crate) foreign: u64,
    pub(crate) limit: u64,
    pub(crate) fresh_until: u64,
}

impl Held {
    fn of(cell: Cell<'_>, turn: Turn) -> Self {
        Self {
            mine: cell.mine.read(turn),
            claimed: cell.claimed.read(turn),
            reserved: cell.reserved.read(turn),
            acked: cell.acked.read(turn),
            peers: cell.peers.read(turn),
            confirmed: cell.confirmed.read(turn),
            foreign: cell.foreign.read(turn),
            limit: cell.limit.read(turn),
            fresh_until: cell.fresh_until.read(turn),
        }
    }

    /// What [`Cell::rename`] leaves.
    const fn renamed(self) -> Self {
        Self { acked: 0, confirmed: 0, fresh_until: 0, ..self }
    }

    pub(crate) const fn view(&self) -> u64 {
        self.claimed.saturating_add(self.peers).saturating_add(self.foreign)
    }
}

/// What a decision would see.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peek {
    pub(crate) refusal: Refusal,
    /// The current cell's.
    pub(crate) sequence: u64,
    /// Current and previous.
    pub(crate) cells: [Held; 2],
    /// The region would know the cells by no name that it has heard.
    nameless: bool,
    /// Until when, on the monotonic clock, and for limits up to which.
    pub(crate) strict: (u64, u64),
    pub(crate) retry_at: u64,
    /// So many processes use the subject, or may; 0 if that is not known.
    pub(crate) company: u64,
}

impl Peek {
    /// What is known of a subject that is not in the table: what was restored of its two cells.
    pub(crate) fn of_stranger(window: Window, restored: [u64; 2], now: Now) -> Self {
        let sequence = now.unix_ms() / window.as_millis();
        let start_ms = sequence.saturating_mul(window.as_millis());
        let elapsed_ms = now.unix_ms().saturating_sub(start_ms);
        let turn = Turn::FIRST;
        let place = Place { turn, heard: true, start_ms, elapsed_ms, behind: false };
        let [current, previous] = restored;
        let view = View { current, previous };
        let used = view.used(window, elapsed_ms);
        let cells = restored.map(|peers| Held { peers, ..Held::default() });
        let refusal = Refusal { look: Look { place, view, used }, settled: used, earlier: 0 };
        let (strict, retry_at, company) = ((0, 0), 0, 0);
        Self { refusal, sequence, cells, nameless: true, strict, retry_at, company }
    }

    /// How old what is known of the region is.
    pub(crate) fn age_ms(&self, window: Window, fresh_ms: u64, now: Now) -> u64 {
        let fresh_until = self.cells.map(|cell| cell.fresh_until);
        age_of(fresh_until, self.refusal.look.place, (window, fresh_ms), now)
    }
}

impl Look {
    /// What is left to see of a cell that has ended, and in which this much is used. Nothing of the
    /// one before it counts at its end.
    pub(crate) fn ended(
        (turn, sequence, used): (Turn, u64, u64),
        window: Window,
        now: Now,
    ) -> Self {
        let start_ms = sequence.saturating_mul(window.as_millis());
        let elapsed_ms = now.unix_ms().saturating_sub(start_ms).max(window.as_millis());
        let place = Place { turn, heard: true, start_ms, elapsed_ms, behind: false };
        Self { place, view: View { current: used, previous: 0 }, used }
    }
}

impl Ledger<'_> {
    /// Looks at a cell from which the ledger has turned away. `None` if it does not count any more.
    pub(crate) fn look_back(&self, era: u64, turn: Turn, window: Window, now: Now) -> Option<Look> {
        let (sequence, cell) = (self.position().sequence_of(turn)?, self.cell(turn));
        let used = cell.claimed.read(turn).saturating_add(cell.told(turn));
        // Afterwards: if the turn still counts, the words were its own.
        self.is_alive(era, turn).then(|| Look::ended((turn, sequence, used), window, now))
    }

    /// Looks as a decision would, and leaves everything as it is. `None` if the ledger is not the
    /// subject's any more, or about to be dropped.
    pub(crate) fn peek(&self, era: u64, window: Window, now: Now) -> Option<Peek> {
        let mut seen = None;
        for _ in 0..LOOKS_MAX {
            let at = self.position();
            let (peek, whole) = self.peek_at(at, window, now)?;
            let same = whole && self.position() == at;
            if self.era() != era {
                return None;
            }
            seen = Some(peek);
            if same {
                break;
            }
        }
        seen
    }

    /// One look from a position, and whether all of it is of one moment.
    fn peek_at(&self, at: Position, window: Window, now: Now) -> Option<(Peek, bool)> {
        let (place, sequence, nameless) = self.foresee(at, window, now);
        let seen = self.claimed(place.turn);
        let view = self.add_up(place, seen)?;
        let held = |turn: Turn| {
            let held = Held::of(self.cell(turn), turn);
            if nameless { held.renamed() } else { held }
        };
        let cells = [held(place.turn), held(place.turn.previous())];
        let look = Look { place, view, used: view.used(window, place.elapsed_ms) };
        let refusal = Refusal { look, settled: self.settled(&look, window), earlier: 0 };
        let retry_at = self.back.retry_at.load(Ordering::Acquire);
        let (strict, company) = (self.strict(), self.company());
        let peek = Peek { refusal, sequence, cells, nameless, strict, retry_at, company };
        let whole = self.claimed(place.turn) == seen
            && cells.map(|cell| cell.view()) == [view.current, view.previous];
        Some((peek, whole))
    }

    /// Where a decision would be made: [`place`](Self::place) without turning anything. Also the
    /// sequence of that cell, and whether it would get it by a jump of the clock.
    fn foresee(&self, mut at: Position, window: Window, now: Now) -> (Place, u64, bool) {
        let window_ms = window.as_millis();
        let mut renames = false;
        for _ in 0..MOVES_MAX {
            let start_ms = at.sequence().saturating_mul(window_ms);
            let elapsed_ms = now.unix_ms().wrapping_sub(start_ms);
            let (turn, heard) = (at.turn(), at.has_heard());
            if elapsed_ms < window_ms {
                let place = Place { turn, heard, start_ms, elapsed_ms, behind: false };
                return (place, at.sequence(), renames);
            }
            match self.destination(at, window, now) {
                Ok(to) => {
                    renames |= to.turn() == turn;
                    at = to;
                }
                Err(_) => break,
            }
        }
        let start_ms = at.sequence().saturating_mul(window_ms);
        let (turn, heard) = (at.turn(), at.has_heard());
        let place = Place { turn, heard, start_ms, elapsed_ms: 0, behind: true };
        (place, at.sequence(), renames)
    }
}

/// Why an admission would ask the region first, from what was seen of a ledger, if there is one.
pub(crate) fn would_ask(
    ledger: Option<Ledger<'_>>,
    peek: &Peek,
    terms: Terms,
    freshness: Freshness,
    now: Now,
) -> Option<Reason> {
    let (until, limit) = peek.strict;
    let strict = until > now.monotonic_ms() && limit >= terms.limit.get();
    match ledger.filter(|_| !peek.nameless) {
        Some(ledger) => ledger.needs_region_at(peek.refusal.look.place, terms, freshness, now),
        None if strict => Some(Reason::Strict),
        None => Some(Reason::Cold),
    }
}
