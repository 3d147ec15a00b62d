//! Names for replies, so that a caller and a server can speak about the same one.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};

const PREFIX: &[u8; 4] = b"req_";
/// Characters after the prefix: what the contract has.
const CHARS: usize = 9;
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// Gives out request ids: `req_` and nine letters or digits.
///
/// They are the same for the same seed. They are names, not secrets: whoever has seen one may be
/// able to compute the next.
///
/// ```
/// use tidegate_server::request_id::RequestIds;
///
/// let ids = RequestIds::new(7);
/// let first = ids.next_id();
/// assert!(first.starts_with("req_") && first.len() == 13);
/// assert_ne!(first, ids.next_id());
/// assert_eq!(first, RequestIds::new(7).next_id());
/// ```
#[derive(Debug)]
pub struct RequestIds(AtomicU64);

impl RequestIds {
    /// Ids that follow from `seed`. The [type](Self) has an example.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(AtomicU64::new(seed))
    }

    /// The next id. The [type](Self) has an example.
    #[must_use]
    pub fn next_id(&self) -> RequestId {
        // ORDER: relaxed. Only the additions must not be lost; nothing else is published by them.
        let mut rest = mix(self.0.fetch_add(SPLITMIX_STEP, Ordering::Relaxed));
        let mut id = [b'0'; PREFIX.len() + CHARS];
        let (prefix, tail) = id.split_at_mut(PREFIX.len());
        prefix.copy_from_slice(PREFIX);
        for to in tail {
            let digit = usize::try_from(rest % 62).unwrap_or_default();
            *to = ALPHABET.get(digit).copied().unwrap_or(b'0');
            rest /= 62;
        }
        RequestId(id)
    }
}

/// One of them, as text. [`RequestIds`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestId([u8; PREFIX.len() + CHARS]);

impl Deref for RequestId {
    type Target = str;

    fn deref(&self) -> &str {
        // All of it is ASCII.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// The odd constant of SplitMix64: repeated addition visits every 64-bit number once.
const SPLITMIX_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finisher of SplitMix64: turns a counter into numbers that look random, one to one.
const fn mix(counter: u64) -> u64 {
    let mut z = counter.wrapping_add(SPLITMIX_STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_have_the_form_of_the_contract_and_do_not_repeat() {
        let ids = RequestIds::new(42);
        let mut seen = BTreeSet::new();
        for _ in 0..100_000 {
            let id = ids.next_id();
            let tail = id.strip_prefix("req_").unwrap();
            assert!(tail.len() == 9 && tail.bytes().all(|byte| byte.is_ascii_alphanumeric()));
            assert!(seen.insert(id));
        }
    }

    #[test]
    fn the_generator_is_splitmix64() {
        // First outputs of the published generator for the seed 1234567.
        let numbers = [0_u64, 1, 2]
            .map(|step| mix(1_234_567_u64.wrapping_add(step.wrapping_mul(SPLITMIX_STEP))));
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }
}
