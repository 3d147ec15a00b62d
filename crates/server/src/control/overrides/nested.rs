//! A set of keys, some of which begin with others, and a quick way to all that a text begins with.
//!
//! The keys are sorted, and each knows the longest other that it begins with. The last key that is
//! not after a text either is what the text begins with, or begins itself with the longest that
//! is; so one binary search and a walk to ever shorter keys finds them all.

//!
//! Their bytes lie in one piece, in order: the last steps of a search stay within a line or two of
//! memory, of which there is far more than fits the caches when there are many namespaces.

use std::iter;
use std::ops::Range;

/// See the module.
#[derive(Debug)]
pub(super) struct Nested<T> {
    /// The bytes of all keys, in order.
    bytes: Box<[u8]>,
    keys: Vec<Place>,
    entries: Vec<Entry<T>>,
}

/// Where the bytes of a key are.
type Place = Range<u32>;

/// The rest of a key.
#[derive(Debug)]
struct Entry<T> {
    value: T,
    /// The longest other key that this one begins with.
    shorter: Option<usize>,
}

impl<T> Default for Nested<T> {
    fn default() -> Self {
        Self { bytes: Box::default(), keys: Vec::new(), entries: Vec::new() }
    }
}

impl<T> Nested<T> {
    /// The keys must be distinct, and together shorter than 4 GiB.
    pub(super) fn new(keys: impl IntoIterator<Item = (Box<[u8]>, T)>) -> Self {
        let mut sorted: Vec<(Box<[u8]>, T)> = keys.into_iter().collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        let (mut bytes, mut places, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        let end = |bytes: &Vec<u8>| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        for (key, value) in sorted {
            let start = end(&bytes);
            bytes.extend_from_slice(&key);
            places.push(start..end(&bytes));
            entries.push(Entry { value, shorter: None });
        }
        let mut nested = Self { bytes: bytes.into_boxed_slice(), keys: places, entries };
        for at in 0..nested.keys.len() {
            let shorter = nested.shorter_of(at);
            if let Some(entry) = nested.entries.get_mut(at) {
                entry.shorter = shorter;
            }
        }
        nested
    }

    fn at(&self, place: &Place) -> &[u8] {
        self.bytes.get(place.start as usize..place.end as usize).unwrap_or_default()
    }

    fn key(&self, at: usize) -> Option<&[u8]> {
        self.keys.get(at).map(|place| self.at(place))
    }

    /// What the key before begins with is known already, and with itself that is all this one
    /// can begin with.
    fn shorter_of(&self, at: usize) -> Option<usize> {
        let bytes = self.key(at)?;
        let mut up = self.up(at.checked_sub(1));
        up.find(|(_, key)| bytes.starts_with(key)).map(|(at, _)| at)
    }

    /// A key and all that it begins with, longest first.
    fn up(&self, from: Option<usize>) -> impl Iterator<Item = (usize, &[u8])> {
        let numbered = |at: usize| Some((at, self.key(at)?));
        iter::successors(from.and_then(numbered), move |(at, _)| {
            self.entries.get(*at)?.shorter.and_then(numbered)
        })
    }

    /// All keys that the text begins with, longest first.
    pub(super) fn of<I>(&self, text: I) -> impl Iterator<Item = (&[u8], &T)>
    where
        I: Iterator<Item = u8> + Clone,
    {
        let after = |place: &Place| self.at(place).iter().copied().cmp(text.clone()).is_le();
        let last = self.keys.partition_point(after).checked_sub(1);
        // All that follow are beginnings of the last one, so one comparison serves them all.
        let same = last
            .and_then(|at| self.key(at))
            .map_or(0, |key| key.iter().copied().zip(text).take_while(|(a, b)| a == b).count());
        let found = self.up(last).filter(move |(_, key)| key.len() <= same);
        found.filter_map(|(at, key)| Some((key, &self.entries.get(at)?.value)))
    }
}
