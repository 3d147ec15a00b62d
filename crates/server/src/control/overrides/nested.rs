//! A set of keys, some of which begin with others, and a quick way to all that a text begins with.
//!
//! The keys are sorted, and each knows the longest other that it begins with. The last key that is
//! not after a text either is what the text begins with, or begins itself with the longest that
//! is; so one binary search and a walk to ever shorter keys finds them all.

use std::iter;

/// See the module.
#[derive(Debug)]
pub(super) struct Nested<T> {
    keys: Vec<Key<T>>,
}

#[derive(Debug)]
struct Key<T> {
    bytes: Box<[u8]>,
    value: T,
    /// The longest other key that this one begins with.
    shorter: Option<usize>,
}

impl<T> Default for Nested<T> {
    fn default() -> Self {
        Self { keys: Vec::new() }
    }
}

impl<T> Nested<T> {
    /// The keys must be distinct.
    pub(super) fn new(keys: impl IntoIterator<Item = (Box<[u8]>, T)>) -> Self {
        let key = |(bytes, value)| Key { bytes, value, shorter: None };
        let mut keys: Vec<Key<T>> = keys.into_iter().map(key).collect();
        keys.sort_by(|a, b| a.bytes.cmp(&b.bytes));
        let mut nested = Self { keys };
        for at in 0..nested.keys.len() {
            let shorter = nested.shorter_of(at);
            if let Some(key) = nested.keys.get_mut(at) {
                key.shorter = shorter;
            }
        }
        nested
    }

    /// What the key before begins with is known already, and with itself that is all this one
    /// can begin with.
    fn shorter_of(&self, at: usize) -> Option<usize> {
        let bytes = &self.keys.get(at)?.bytes;
        let mut up = self.up(at.checked_sub(1));
        up.find(|(_, key)| bytes.starts_with(&key.bytes)).map(|(at, _)| at)
    }

    /// A key and all that it begins with, longest first.
    fn up(&self, from: Option<usize>) -> impl Iterator<Item = (usize, &Key<T>)> {
        let numbered = |at: usize| Some((at, self.keys.get(at)?));
        iter::successors(from.and_then(numbered), move |(_, key)| key.shorter.and_then(numbered))
    }

    /// All keys that the text begins with, longest first.
    pub(super) fn of<I>(&self, text: I) -> impl Iterator<Item = (&[u8], &T)>
    where
        I: Iterator<Item = u8> + Clone,
    {
        let after = |key: &Key<T>| key.bytes.iter().copied().cmp(text.clone()).is_le();
        let last = self.keys.partition_point(after).checked_sub(1);
        // All that follow are beginnings of the last one, so one comparison serves them all.
        let same = last.and_then(|at| self.keys.get(at)).map_or(0, |key| {
            key.bytes.iter().copied().zip(text).take_while(|(a, b)| a == b).count()
        });
        let found = self.up(last).filter(move |(_, key)| key.bytes.len() <= same);
        found.map(|(_, key)| (&*key.bytes, &key.value))
    }
}
