//! Names by number: each is kept once.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Names up to this length are found without a look at the text: addresses, and most others.
const SHORT: usize = 23;
/// Stands for the length of a longer one.
const LONG: u8 = u8::MAX;

/// Identifiers, numbered in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Names {
    text: String,
    /// Where each ends in the text.
    ends: Vec<usize>,
    found: HashTable<Entry>,
}

/// Half a hash, the number, and the name itself if it is short: half a line of the cache.
#[derive(Clone, Copy, Debug)]
struct Entry {
    half: u32,
    number: u32,
    len: u8,
    short: [u8; SHORT],
}

const _: () = assert!(size_of::<Entry>() == 32, "two of them are a line of the cache");

impl Entry {
    fn new(half: u32, number: u32, name: &str) -> Self {
        let (mut len, mut short) = (LONG, [0; SHORT]);
        if let Some(place) = short.get_mut(..name.len()) {
            place.copy_from_slice(name.as_bytes());
            len = u8::try_from(name.len()).unwrap_or(LONG);
        }
        Self { half, number, len, short }
    }

    #[inline]
    fn is(&self, half: u32, name: &str, text: &str, ends: &[usize]) -> bool {
        if self.half != half {
            return false;
        }
        if self.len == LONG {
            return get(text, ends, self.number).is_some_and(|it| it == name);
        }
        self.short.get(..self.len.into()) == Some(name.as_bytes())
    }
}

/// The same in every run. Who writes a trace that collides slows down a program of their own.
const HASHER: FixedState = FixedState::with_seed(7);

impl Names {
    /// The number of a name, and whether it is new.
    #[inline]
    pub(crate) fn number(&mut self, name: &str) -> (u32, bool) {
        let half = half_of(name);
        let Self { text, ends, found } = self;
        if let Some(entry) = found.find(spread(half), |it| it.is(half, name, text, ends)) {
            return (entry.number, false);
        }
        let number = u32::try_from(ends.len()).unwrap_or(u32::MAX);
        text.push_str(name);
        ends.push(text.len());
        let entry = Entry::new(half, number, name);
        found.insert_unique(spread(half), entry, |it| spread(it.half));
        (number, true)
    }

    /// The number of a name with this hash, if one came: nearly always the one that is meant.
    #[inline]
    pub(crate) fn guess(&self, half: u32) -> Option<u32> {
        self.found.find(spread(half), |it| it.half == half).map(|it| it.number)
    }

    /// The number of a name that came.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        let half = half_of(name);
        let Self { text, ends, found } = self;
        let entry = found.find(spread(half), |it| it.is(half, name, text, ends));
        entry.map(|entry| entry.number)
    }

    /// The name with a number.
    pub(crate) fn get(&self, number: u32) -> &str {
        get(&self.text, &self.ends, number).unwrap_or_default()
    }
}

/// A number for a text, the same in every run.
pub(crate) fn hash_of(text: &str) -> u64 {
    let mut hasher = HASHER.build_hasher();
    hasher.write(text.as_bytes());
    hasher.finish()
}

pub(crate) fn half_of(name: &str) -> u32 {
    (hash_of(name) >> 32) as u32
}

/// Half a hash as a whole one: an odd factor keeps halves apart in all bits that are looked at.
const fn spread(half: u32) -> u64 {
    (half as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn get<'a>(text: &'a str, ends: &[usize], number: u32) -> Option<&'a str> {
    let number = number as usize;
    let start = number.checked_sub(1).map_or(Some(0), |before| ends.get(before).copied())?;
    text.get(start..*ends.get(number)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_keeps_its_number() {
        let mut names = Names::default();
        // Of every length: the longest short ones, and the shortest long ones.
        let name = |at: u32| format!("{at:0width$}", width = (at % 40) as usize);
        for at in 0..10_000 {
            assert_eq!(names.number(&name(at)), (at, true));
        }
        for at in 0..10_000 {
            assert_eq!(names.number(&name(at)), (at, false));
            assert_eq!((names.get(at), names.find(&name(at))), (&*name(at), Some(at)));
        }
        assert_eq!((names.find("x"), names.find("")), (None, None));
    }
}
