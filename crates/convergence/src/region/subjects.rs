//! The subjects that a region has something to do with.
//!
//! Each is looked up a dozen times from an admission to its record, by a ticket that nobody can
//! choose: so they are in a hash map and not in a tree. In parts, because a map that grows moves
//! all it holds at once, and callers wait meanwhile.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

use tidegate_limiter::Ticket;

use super::Entry;

/// How many parts: of a million subjects, one moves sixteen thousand.
const PARTS: u64 = 64;
/// A part gives memory back that is this much larger than what it holds needs, and not small.
const SPARE: usize = 8;
const SMALL: usize = 256;
/// Entries that are kept for the next: as many as come and go in some usual steps. To ask for
/// memory and to give it back took as long as a look-up.
const KEPT: usize = 1_024;
/// Which bits of a hash choose the part: not the lowest and not the highest, by which a map finds
/// its places.
const PART_SHIFT: u32 = 40;

/// In boxes: what moves a map moves, and an entry is long.
type Part = HashMap<Ticket, Box<Entry>, BuildHasherDefault<Mix>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Subjects {
    parts: Vec<Part>,
    /// As new, and nobody's.
    #[expect(clippy::vec_box, reason = "the boxes are what is kept: a map takes them as they are")]
    kept: Vec<Box<Entry>>,
}

impl Default for Subjects {
    fn default() -> Self {
        Self { parts: (0..PARTS).map(|_| Part::default()).collect(), kept: Vec::new() }
    }
}

impl Subjects {
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(HashMap::len).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.iter().all(HashMap::is_empty)
    }

    pub(super) fn get(&self, subject: &Ticket) -> Option<&Entry> {
        self.parts.get(part_of(subject))?.get(subject).map(|entry| &**entry)
    }

    pub(super) fn get_mut(&mut self, subject: &Ticket) -> Option<&mut Entry> {
        self.parts.get_mut(part_of(subject))?.get_mut(subject).map(|entry| &mut **entry)
    }

    /// The entry of a subject, a new one if there is none.
    #[expect(clippy::indexing_slicing, reason = "there are so many parts")]
    pub(super) fn enter(&mut self, subject: Ticket) -> &mut Entry {
        let kept = &mut self.kept;
        let new = || kept.pop().unwrap_or_default();
        self.parts[part_of(&subject)].entry(subject).or_insert_with(new)
    }

    pub(super) fn remove(&mut self, subject: &Ticket) {
        if let Some(part) = self.parts.get_mut(part_of(subject)) {
            if let Some(mut entry) = part.remove(subject)
                && self.kept.len() < KEPT
            {
                *entry = Entry::default();
                self.kept.push(entry);
            }
            if part.capacity() > SMALL && part.len() < part.capacity() / SPARE {
                part.shrink_to(2 * part.len());
            }
        }
    }

    /// In no order, but the same one for the same history.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&Ticket, &Entry)> {
        self.parts.iter().flatten().map(|(subject, entry)| (subject, &**entry))
    }

    /// All of them, in order.
    pub(super) fn tickets(&self) -> Vec<Ticket> {
        let mut all: Vec<Ticket> = self.iter().map(|(subject, _)| *subject).collect();
        all.sort_unstable();
        all
    }
}

fn part_of(subject: &Ticket) -> usize {
    let hash = BuildHasherDefault::<Mix>::default().hash_one(subject);
    usize::try_from((hash >> PART_SHIFT) % PARTS).unwrap_or(0)
}

/// Spreads what tickets differ in over all bits.
#[derive(Clone, Copy, Debug, Default)]
struct Mix(u64);

impl Mix {
    const fn add(&mut self, word: u64) {
        // An odd number whose bits are as good as random: the upper half of the product depends on
        // all bits of the word, and is folded onto the lower.
        let product = (self.0 ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.add(u64::from(*byte)));
    }

    fn write_u16(&mut self, word: u16) {
        self.add(word.into());
    }

    fn write_u32(&mut self, word: u32) {
        self.add(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        self.add(word);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use tidegate_limiter::{Cost, Limit, Now, Options, Part as Text, Request, Seed, Subject};
    use tidegate_limiter::{Table, Walk, Window};

    use super::*;

    #[test]
    fn tickets_are_spread() {
        let table = Table::new(Options::default().with_region(), Seed::from_bytes([7; 32]));
        let window = Window::from_millis(60_000).unwrap();
        for name in 0..10_000 {
            let name = name.to_string();
            let [a, b] = ["a", name.as_str()].map(|text| Text::new(text).unwrap());
            let request = Request::new(Subject::new(a, a, b, window), Limit::new(9), Cost::ONE);
            table.decide(&request, Now::new(0, 0));
        }
        let mut subjects = Subjects::default();
        table.walk(&mut Walk::default(), usize::MAX, |ticket| {
            subjects.enter(ticket).flights += 1;
        });
        assert_eq!((subjects.len(), subjects.is_empty()), (10_000, false));
        // Evenly over the parts, and within a part over the places and the marks of a map.
        let lens = subjects.parts.iter().map(HashMap::len);
        assert!(lens.clone().all(|len| (90..230).contains(&len)), "{:?}", lens.collect::<Vec<_>>());
        let hash = |ticket: &Ticket| BuildHasherDefault::<Mix>::default().hash_one(ticket);
        let places = |bits: u32, shift: u32| {
            let of =
                |part: &Part| part.keys().map(|it| hash(it) >> shift & ((1 << bits) - 1)).collect();
            subjects.parts.iter().map(of).map(|places: BTreeSet<u64>| places.len()).min()
        };
        assert!(places(8, 0) > Some(60), "{:?}", places(8, 0));
        assert!(places(7, 57) > Some(45), "{:?}", places(7, 57));
        let tickets = subjects.tickets();
        assert!(tickets.is_sorted() && tickets.len() == 10_000);
        for ticket in &tickets {
            assert_eq!(subjects.get(ticket).map(|entry| entry.flights), Some(1));
            subjects.remove(ticket);
            assert!(subjects.get_mut(ticket).is_none());
        }
        assert!(subjects.is_empty());
        assert!(subjects.parts.iter().all(|part| part.capacity() <= SMALL), "it is given back");
    }
}
