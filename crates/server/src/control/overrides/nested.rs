//! A set of keys, some of which begin with others, and a quick way to all that a text begins with.
//!
//! The keys are sorted, and each knows the longest other that it begins with. The last key that is
//! not after a text either is what the text begins with, or begins itself with the longest that
//! is; so one binary search and a walk to ever shorter keys finds them all.
//!
//! Where there are many namespaces, there is far more of this than fits the caches. So the search
//! is one in a list of numbers, made of the bytes in which the keys begin to differ, and the bytes
//! of all keys lie in one piece, in order.

use std::cmp::Ordering;
use std::iter;
use std::ops::Range;

/// See the module.
#[derive(Debug)]
pub(super) struct Nested<T> {
    /// The bytes of all keys, in order.
    bytes: Box<[u8]>,
    /// With how many bytes all of them begin alike.
    alike: usize,
    /// The [number](number) of what follows these, of each.
    numbers: Vec<u64>,
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
        let (bytes, alike, numbers) = (Box::default(), 0, Vec::new());
        Self { bytes, alike, numbers, keys: Vec::new(), entries: Vec::new() }
    }
}

impl<T> Nested<T> {
    /// The keys must be distinct, and together shorter than 4 GiB.
    pub(super) fn new(keys: impl IntoIterator<Item = (Box<[u8]>, T)>) -> Self {
        let mut sorted: Vec<(Box<[u8]>, T)> = keys.into_iter().collect();
        sorted.sort_by(|(a, _), (b, _)| a.cmp(b));
        let alike = match (sorted.first(), sorted.last()) {
            // Whatever lies between the first and the last begins as both do.
            (Some((first, _)), Some((last, _))) => same(first, last.iter().copied()),
            _ => 0,
        };
        let follows = |(key, _): &(Box<[u8]>, T)| number(key.iter().copied().skip(alike));
        let numbers = sorted.iter().map(follows).collect();
        let (mut bytes, mut places, mut entries) = (Vec::new(), Vec::new(), Vec::new());
        let end = |bytes: &Vec<u8>| u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        for (key, value) in sorted {
            let start = end(&bytes);
            bytes.extend_from_slice(&key);
            places.push(start..end(&bytes));
            entries.push(Entry { value, shorter: None });
        }
        let bytes = bytes.into_boxed_slice();
        let mut nested = Self { bytes, alike, numbers, keys: places, entries };
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

    /// The last key that is not after the text.
    fn last<I>(&self, text: &I) -> Option<usize>
    where
        I: Iterator<Item = u8> + Clone,
    {
        let alike = self.key(0)?.iter().copied().take(self.alike);
        match alike.cmp(text.clone().take(self.alike)) {
            Ordering::Less => return self.keys.len().checked_sub(1),
            Ordering::Greater => return None,
            Ordering::Equal => {}
        }
        let number = number(text.clone().skip(self.alike));
        let from = self.numbers.partition_point(|other| *other < number);
        // Only of those with the same number it is not known yet.
        let rest = self.numbers.get(from..).filter(|rest| rest.first() == Some(&number));
        let same = rest.map_or(0, |rest| rest.partition_point(|other| *other == number));
        let same = self.keys.get(from..).and_then(|keys| keys.get(..same)).unwrap_or_default();
        let before = |place: &Place| self.at(place).iter().copied().cmp(text.clone()).is_le();
        (from + same.partition_point(before)).checked_sub(1)
    }

    /// All keys that the text begins with, longest first.
    pub(super) fn of<I>(&self, text: I) -> impl Iterator<Item = (&[u8], &T)>
    where
        I: Iterator<Item = u8> + Clone,
    {
        let last = self.last(&text);
        // All that follow are beginnings of the last one, so one comparison serves them all.
        let same = last.and_then(|at| self.key(at)).map_or(0, |key| same(key, text));
        let found = self.up(last).filter(move |(_, key)| key.len() <= same);
        found.filter_map(|(at, key)| Some((key, &self.entries.get(at)?.value)))
    }
}

/// With how many bytes both begin.
fn same(key: &[u8], text: impl Iterator<Item = u8>) -> usize {
    key.iter().copied().zip(text).take_while(|(a, b)| a == b).count()
}

/// The first eight bytes as a number, with zeros for those that are not there: of two texts the
/// one with the lesser number comes first.
fn number(text: impl Iterator<Item = u8>) -> u64 {
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(text).for_each(|(byte, of_text)| *byte = of_text);
    u64::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;

    use super::*;

    /// Few bytes, zero among them, and beginnings that are alike for longer than a number is.
    fn text() -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![Just(0), Just(b'a'), Just(b'b'), Just(u8::MAX)];
        let begin = prop_oneof![Just(""), Just("user_"), Just("user_aaaaaaaaaaaa")];
        let whole = |(begin, rest): (&str, Vec<u8>)| [begin.as_bytes(), &rest].concat();
        (begin, vec(byte, 0..12)).prop_map(whole)
    }

    proptest! {
        #[test]
        fn it_finds_every_key_that_a_text_begins_with(
            keys in btree_set(text(), 0..40),
            texts in vec(text(), 1..20),
        ) {
            let numbered = keys.iter().enumerate().map(|(at, key)| (Box::from(&key[..]), at));
            let nested = Nested::new(numbered);
            for text in texts.iter().chain(&keys) {
                let found: Vec<_> = nested.of(text.iter().copied()).collect();
                let begins = keys.iter().enumerate().filter(|(_, key)| text.starts_with(key));
                let mut all: Vec<_> = begins.map(|(at, key)| (key.as_slice(), at)).collect();
                all.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
                let found: Vec<_> = found.into_iter().map(|(key, at)| (key, *at)).collect();
                prop_assert_eq!(found, all);
            }
        }
    }
}
