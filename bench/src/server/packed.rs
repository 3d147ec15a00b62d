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
        Ok(Arc::new(Self { bytes, places, taken: AtomicUsize::new(0) }))
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.places.len()
    }

    /// The next one, whichever connection asks for it.
    pub(super) fn next(&self) -> Asked<'_> {
        // ORDER: relaxed, a counter that orders nothing.
        let at = self.taken.fetch_add(1, Ordering::Relaxed) % self.places.len();
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
}
