//! Names by number: each is kept once.

use std::hash::{BuildHasher, Hasher};

use foldhash::fast::FixedState;
use hashbrown::HashTable;

/// Identifiers, numbered in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Names {
    text: String,
    /// Where each ends in the text.
    ends: Vec<usize>,
    /// Half a hash, which saves most looks at the text, and the number.
    found: HashTable<(u32, u32)>,
}

/// The same in every run. Who writes a trace that collides slows down a program of their own.
const HASHER: FixedState = FixedState::with_seed(7);

impl Names {
    /// The number of a name, and whether it is new.
    #[inline]
    pub(crate) fn number(&mut self, name: &str) -> (u32, bool) {
        let half = half_of(name);
        let Self { text, ends, found } = self;
        let is_it = |(other, at): &(u32, u32)| {
            *other == half && get(text, ends, *at).is_some_and(|it| it == name)
        };
        if let Some((_, at)) = found.find(spread(half), is_it) {
            return (*at, false);
        }
        let at = u32::try_from(ends.len()).unwrap_or(u32::MAX);
        text.push_str(name);
        ends.push(text.len());
        found.insert_unique(spread(half), (half, at), |(half, _)| spread(*half));
        (at, true)
    }

    /// The number of a name that came.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        let half = half_of(name);
        let Self { text, ends, found } = self;
        let is_it = |(other, at): &(u32, u32)| {
            *other == half && get(text, ends, *at).is_some_and(|it| it == name)
        };
        found.find(spread(half), is_it).map(|(_, at)| *at)
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

fn half_of(name: &str) -> u32 {
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
        for at in 0..10_000_u32 {
            assert_eq!(names.number(&at.to_string()), (at, true));
        }
        for at in 0..10_000_u32 {
            assert_eq!(names.number(&at.to_string()), (at, false));
            assert_eq!((names.get(at), names.find(&at.to_string())), (&*at.to_string(), Some(at)));
        }
        assert_eq!(names.find("x"), None);
    }
}
