//! The memory of all ledgers of a shard: allocated in chunks as needed, never freed.
//!
//! Fronts and backs lie apart, so that the memory a decision walks over is a quarter of it. Chunks
//! double up to a size and stay there: few allocations, and little that is not used.

use std::sync::OnceLock;

use crate::ledger::{Back, Front, Ledger};

/// Ledgers of the first chunk.
const CHUNK_MIN: usize = 16;
/// Ledgers of the large chunks: 128 KiB of fronts.
const CHUNK_MAX: usize = 2_048;
/// Chunks that are smaller than the largest.
const GROWING: usize = (CHUNK_MAX / CHUNK_MIN).ilog2() as usize;
/// Ledgers in all of those together.
const GROWN: usize = CHUNK_MAX - CHUNK_MIN;

const _: () = assert!(CHUNK_MIN << GROWING == CHUNK_MAX);

#[derive(Debug)]
struct Chunk {
    fronts: Box<[Front]>,
    backs: Box<[Back]>,
}

#[derive(Debug)]
pub(crate) struct Ledgers {
    chunks: Box<[OnceLock<Chunk>]>,
    subjects_max: usize,
}

impl Ledgers {
    pub(crate) fn new(subjects_max: usize) -> Self {
        let chunks = std::iter::repeat_with(OnceLock::new).take(chunks_for(subjects_max));
        Self { chunks: chunks.collect(), subjects_max }
    }

    /// The most that [`bytes`](Self::bytes) can be for that many subjects: the last chunk is cut
    /// to fit.
    pub(crate) fn bytes_max(subjects: usize) -> usize {
        let list = chunks_for(subjects) * size_of::<OnceLock<Chunk>>();
        list + subjects * (size_of::<Front>() + size_of::<Back>())
    }

    /// Bytes allocated.
    pub(crate) fn bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter_map(OnceLock::get);
        let ledgers: usize = chunks.map(|chunk| chunk.fronts.len()).sum();
        let list = size_of_val::<[OnceLock<Chunk>]>(&self.chunks);
        list + ledgers * (size_of::<Front>() + size_of::<Back>())
    }

    #[inline]
    pub(crate) fn get(&self, at: u32) -> Option<Ledger<'_>> {
        let (chunk, at) = place_of(at as usize);
        self.chunks.get(chunk)?.get()?.get(at)
    }

    /// Allocates the chunk if this is its first ledger.
    pub(crate) fn get_or_new(&self, at: u32) -> Option<Ledger<'_>> {
        let (chunk, at) = place_of(at as usize);
        let len = chunk_len(chunk).min(self.subjects_max - chunk_start(chunk));
        self.chunks.get(chunk)?.get_or_init(|| Chunk::new(len)).get(at)
    }
}

impl Chunk {
    fn new(len: usize) -> Self {
        Self {
            fronts: std::iter::repeat_with(Front::free).take(len).collect(),
            backs: std::iter::repeat_with(Back::free).take(len).collect(),
        }
    }

    #[inline]
    fn get(&self, at: usize) -> Option<Ledger<'_>> {
        Some(Ledger::new(self.fronts.get(at)?, self.backs.get(at)?))
    }
}

/// The chunk of a ledger and its place there.
#[inline]
fn place_of(at: usize) -> (usize, usize) {
    match at.checked_sub(GROWN) {
        Some(at) => ((at / CHUNK_MAX).wrapping_add(GROWING), at % CHUNK_MAX),
        None => {
            let chunk = (at / CHUNK_MIN + 1).ilog2() as usize;
            (chunk, at - chunk_start(chunk))
        }
    }
}

fn chunk_start(chunk: usize) -> usize {
    match chunk.checked_sub(GROWING) {
        Some(large) => GROWN + large * CHUNK_MAX,
        None => CHUNK_MIN * ((1 << chunk) - 1),
    }
}

fn chunk_len(chunk: usize) -> usize {
    CHUNK_MIN << chunk.min(GROWING)
}

fn chunks_for(subjects: usize) -> usize {
    place_of(subjects.saturating_sub(1)).0 + 1
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let mut expected = (0, 0);
        for at in 0..10_000 {
            assert_eq!(place_of(at), expected, "{at}");
            assert_eq!(chunk_start(expected.0) + expected.1, at);
            expected.1 += 1;
            if expected.1 == chunk_len(expected.0) {
                expected = (expected.0 + 1, 0);
            }
        }
    }

    #[test]
    fn the_last_chunk_is_cut_to_fit() {
        for subjects in [1, 15, 16, 17, 1_000, 5_000] {
            let ledgers = Ledgers::new(subjects);
            for at in 0..subjects {
                assert!(ledgers.get_or_new(u32::try_from(at).unwrap()).is_some());
            }
            assert!(ledgers.get_or_new(u32::try_from(subjects).unwrap()).is_none());
            assert_eq!(ledgers.bytes(), Ledgers::bytes_max(subjects));
        }
    }
}
