//! The keys, and the order in which they are asked for: all prepared before the clock starts.
//!
//! A server has just read the key from a socket when it decides: the text is in its cache. A
//! [`Script`] therefore holds the texts in the order of access, so that the processor reads them
//! ahead, and a miss is a miss of the contestant's own memory.

/// Bytes of a workspace's name.
pub(crate) const WORKSPACE: usize = 20;
/// Bytes of a namespace's name.
pub(crate) const NAMESPACE: usize = 12;
/// Bytes of an identifier.
pub(crate) const IDENTIFIER: usize = 24;
/// Bytes of all three.
const KEY_BYTES: usize = WORKSPACE + NAMESPACE + IDENTIFIER;

/// Keys of one workspace: 1,000 workspaces hold a million keys.
const KEYS_PER_WORKSPACE: usize = 1_000;

/// The namespaces in use, 12 bytes each.
pub(crate) const NAMESPACES: [&str; 4] =
    ["api.requests", "login.failed", "email.outbox", "search.query"];

/// Who asks, and for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key<'a> {
    /// The customer, 20 bytes.
    pub(crate) workspace: &'a str,
    /// What is limited, 12 bytes.
    pub(crate) namespace: &'a str,
    /// Who is limited, 24 bytes.
    pub(crate) identifier: &'a str,
}

/// Key texts, one after another in the order of access.
pub(crate) struct Script {
    texts: String,
    len: usize,
}

impl Script {
    /// The keys with these numbers, in this order.
    pub(crate) fn new(numbers: impl ExactSizeIterator<Item = usize>) -> Self {
        let len = numbers.len();
        let mut texts = String::with_capacity(len * KEY_BYTES);
        for number in numbers {
            push_key(&mut texts, number);
        }
        Self { texts, len }
    }

    /// Keys `0..count`, each once: to fill a table with.
    pub(crate) fn each_once(count: usize) -> Self {
        Self::new(0..count)
    }

    /// How many accesses there are.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// The key of access `at`.
    #[inline(always)]
    pub(crate) fn key(&self, at: usize) -> Option<Key<'_>> {
        let start = at * KEY_BYTES;
        let text = self.texts.get(start..start + KEY_BYTES)?;
        let (workspace, rest) = text.split_at_checked(WORKSPACE)?;
        let (namespace, identifier) = rest.split_at_checked(NAMESPACE)?;
        Some(Key { workspace, namespace, identifier })
    }
}

fn push_key(texts: &mut String, number: usize) {
    use std::fmt::Write;
    let seed = u64::try_from(number).unwrap_or(u64::MAX);
    let workspace = u64::try_from(number / KEYS_PER_WORKSPACE).unwrap_or(u64::MAX);
    let namespace = NAMESPACES.get(number % NAMESPACES.len()).copied().unwrap_or_default();
    // The digits look random, as those of generated ids do; the number keeps the key unique.
    let noise = mix(workspace ^ 0x5eed) % 10_u64.pow(11);
    let _ = write!(texts, "ws_{workspace:06}{noise:011}");
    texts.push_str(namespace);
    let _ = write!(texts, "user_{seed:08}{:011}", mix(seed) % 10_u64.pow(11));
}

/// A small generator of numbers (splitmix64): the same sequence in every run.
pub(crate) struct Random(u64);

impl Random {
    /// A sequence of its own for each `seed`.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u128::try_from(bound).unwrap_or(0);
        usize::try_from((u128::from(self.next()) * bound) >> 64).unwrap_or(0)
    }

    /// A number from 0 to 1.
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// `accesses` numbers below `keys`, all as likely.
pub(crate) fn uniform(keys: usize, accesses: usize) -> Vec<usize> {
    let mut random = Random::new(1);
    (0..accesses).map(|_| random.below(keys)).collect()
}

/// `accesses` numbers below `keys`, the one of rank r with a likelihood of 1/r. Ranks are
/// scattered, so that popular keys are not neighbours in anybody's memory.
pub(crate) fn zipf(keys: usize, accesses: usize) -> Vec<usize> {
    let mut random = Random::new(2);
    let mut number_of_rank: Vec<usize> = (0..keys).collect();
    for last in (1..keys).rev() {
        number_of_rank.swap(last, random.below(last + 1));
    }
    let mut sum = 0.0;
    let cumulated: Vec<f64> = (1..=keys)
        .map(|rank| {
            sum += 1.0 / rank as f64;
            sum
        })
        .collect();
    (0..accesses)
        .map(|_| {
            let point = random.unit() * sum;
            let rank = cumulated.partition_point(|&up_to| up_to <= point);
            number_of_rank.get(rank).copied().unwrap_or(0)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn keys_have_the_sizes_we_say_and_differ() {
        let script = Script::each_once(5_000);
        let keys: BTreeSet<_> = (0..script.len())
            .filter_map(|at| script.key(at))
            .inspect(|key| {
                assert_eq!(key.workspace.len(), 20);
                assert!(NAMESPACES.contains(&key.namespace));
                assert_eq!(key.identifier.len(), 24);
            })
            .map(|key| (key.workspace, key.namespace, key.identifier))
            .collect();
        assert_eq!(keys.len(), 5_000);
        assert_eq!(script.key(5_000), None);
    }

    #[test]
    fn zipf_asks_for_the_first_rank_as_often_as_it_should() {
        let accesses = zipf(1_000, 100_000);
        let mut counts = vec![0_u32; 1_000];
        for number in accesses {
            counts[number] += 1;
        }
        counts.sort_unstable_by(|a, b| b.cmp(a));
        // 1 / (1 + 1/2 + ... + 1/1000) = 0.1336
        assert!((12_900..13_800).contains(&counts[0]), "{}", counts[0]);
        assert!((6_300..7_100).contains(&counts[1]), "{}", counts[1]);
    }
}
