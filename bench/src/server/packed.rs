//! The requests of a load in one piece of memory, which is read from its beginning to its end and
//! then again. A load that looks for each request elsewhere waits for memory, and what it costs is
//! taken from the server beside it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::wire::{Asked, Written};
use crate::Failure;

/// See the module.
#[derive(Debug)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
    /// Where a request begins and ends, and where the numbers of its stream are.
    places: Vec<(usize, usize, [usize; 2])>,
    /// How many were taken, by all loads: one goes on where the last one ended.
    taken: AtomicUsize,
    churn: Option<Churn>,
}

/// Who comes and goes. There are so many at a time, who take turns; at every so many requests one
/// of them is replaced, whoever's turn it is, and each has been there for as long as all others
/// when it goes. Who has gone comes back when all others have been there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Churn {
    /// How many there are at a time. `every` divides it.
    pub(super) present: usize,
    /// Of so many requests one is about somebody new.
    pub(super) every: usize,
}

impl Churn {
    /// Whom a request is about, of so many who come and go.
    const fn place(self, at: usize, all: usize) -> usize {
        let Self { present, every } = self;
        let (turn, seat) = (at / present, at % present);
        // In each turn another of `every` neighbours gives its seat away.
        let replaced = (turn + every - 1 - seat % every) / every;
        (seat + replaced * present) % all
    }
}

impl Packed {
    /// None was taken yet of these.
    pub(super) fn of(
        script: impl IntoIterator<Item = Result<Written, Failure>>,
    ) -> Result<Arc<Self>, Failure> {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        for one in script {
            let (one, start) = (one?, bytes.len());
            bytes.extend(&one.bytes);
            places.push((start, bytes.len(), one.streams));
        }
        if places.is_empty() {
            return Err("there is nothing to ask".into());
        }
        Ok(Arc::new(Self { bytes, places, taken: AtomicUsize::new(0), churn: None }))
    }

    /// The same of those who come and go: a whole number of times as many as are there at a time.
    pub(super) fn churning(
        script: impl IntoIterator<Item = Result<Written, Failure>>,
        churn: Churn,
    ) -> Result<Arc<Self>, Failure> {
        let packed = Arc::into_inner(Self::of(script)?).ok_or("nobody else has it")?;
        let Churn { present, every } = churn;
        if !present.is_multiple_of(every) || !packed.len().is_multiple_of(present) {
            return Err("who comes and goes does not add up".into());
        }
        Ok(Arc::new(Self { churn: Some(churn), ..packed }))
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.places.len()
    }

    /// The next one, whichever connection asks for it.
    pub(super) fn next(&self) -> Asked<'_> {
        // ORDER: relaxed, a counter that orders nothing.
        let at = self.taken.fetch_add(1, Ordering::Relaxed);
        let at = match self.churn {
            Some(churn) => churn.place(at, self.places.len()),
            None => at % self.places.len(),
        };
        let (start, end, streams) = self.places.get(at).copied().unwrap_or_default();
        Asked { bytes: self.bytes.get(start..end).unwrap_or_default(), streams }
    }

    /// How many were taken.
    pub(super) fn taken(&self) -> usize {
        // ORDER: relaxed, a counter that orders nothing.
        self.taken.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::wire::command;

    #[test]
    fn requests_come_in_turn_and_then_again() {
        let script = ["a", "bb", "c"].map(|word| command(&[word]));
        let packed = Packed::of(script.iter().cloned().map(Ok)).unwrap();
        for one in script.iter().chain(&script) {
            assert_eq!(packed.next().bytes, one.bytes);
        }
        assert_eq!((packed.taken(), packed.len()), (6, 3));
        assert!(Packed::of([]).is_err());
    }

    #[test]
    fn one_of_so_many_requests_is_about_somebody_new_at_any_time() {
        let (churn, all) = (Churn { present: 20, every: 5 }, 60);
        // The first turn is about those who were there from the start.
        assert!((0..20).all(|at| churn.place(at, all) == at));
        let places: Vec<usize> = (0..1_000).map(|at| churn.place(at, all)).collect();
        for (turn, pair) in (0..).zip(places.chunks(20).collect::<Vec<_>>().windows(2)) {
            let new = |seat: &usize| pair[0].get(*seat) != pair[1].get(*seat);
            let new: Vec<usize> = (0..20).filter(new).collect();
            assert_eq!(new, [0, 5, 10, 15].map(|seat| seat + turn % 5), "after turn {turn}");
        }
        // Each is there for five turns, and comes back when those of two others are over.
        let turns: Vec<usize> = (0..50).filter(|turn| places[turn * 20 + 7] == 27).collect();
        let wanted: Vec<usize> = [3..8, 18..23, 33..38, 48..50].into_iter().flatten().collect();
        assert_eq!(turns, wanted);
        let script = || ["a", "b", "c", "d"].map(|word| Ok(command(&[word])));
        let adds_up = |present, every| Packed::churning(script(), Churn { present, every }).is_ok();
        assert!(adds_up(4, 2) && adds_up(2, 2));
        assert!(!adds_up(3, 3) && !adds_up(4, 3) && !adds_up(4, 0) && !adds_up(0, 0));
    }
}
