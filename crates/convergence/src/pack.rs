//! Many totals in few bytes: the payload of a row of the feed.
//!
//! A version byte; then groups of totals that belong to the same window, each with its length, its
//! sequence and how many there are; then the 16 bytes of each subject and its total. Numbers take
//! seven bits of a byte, the lowest first. About 19 bytes a total.

use tidegate_limiter::Digest;

use crate::global::PAYLOAD_MAX;

/// Another meaning of the bytes would be another number.
const VERSION: u8 = 1;
/// A number of 64 bits takes at most this many bytes.
const NUMBER_MAX: usize = 10;
/// A group's head and one total take at most this many bytes.
const TOTAL_MAX: usize = 3 * NUMBER_MAX + 16 + NUMBER_MAX;

/// What a region has used of a cell. [`pack`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Counter {
    /// The length of the subject's windows.
    pub window_ms: u64,
    /// Which of them.
    pub sequence: u64,
    /// The subject.
    pub subject: Digest,
    /// How much.
    pub count: u64,
}

impl Counter {
    /// When it is of no use any more: the window after its own is over, whatever the clock of
    /// whoever wrote it said. [`pack`] has an example.
    #[must_use]
    pub const fn expires_ms(&self) -> u64 {
        self.sequence.saturating_add(2).saturating_mul(self.window_ms)
    }
}

/// Packs counters into payloads of at most [`PAYLOAD_MAX`] bytes, each with the moment at which the
/// last of its counters expires.
///
/// ```
/// # use tidegate_limiter::Digest;
/// use tidegate_convergence::{Counter, PAYLOAD_MAX, pack, unpack};
///
/// let subject = Digest::from_bytes([7; 16]);
/// let counter = Counter { window_ms: 60_000, sequence: 29_000_000, subject, count: 5 };
/// let packed = pack(vec![counter]);
/// assert_eq!((packed.len(), packed[0].1), (1, 29_000_002 * 60_000));
/// assert!(packed[0].0.len() <= PAYLOAD_MAX);
/// assert_eq!((packed[0].1, unpack(&packed[0].0)), (counter.expires_ms(), Some(vec![counter])));
/// assert_eq!(unpack(b"no payload"), None);
/// ```
#[must_use]
pub fn pack(mut counters: Vec<Counter>) -> Vec<(Vec<u8>, u64)> {
    counters.sort_unstable();
    let (mut packed, mut rest) = (Vec::new(), &counters[..]);
    while !rest.is_empty() {
        let (mut payload, mut expires_ms) = (vec![VERSION], 0);
        while let Some(first) = rest.first()
            && payload.len() + TOTAL_MAX <= PAYLOAD_MAX
        {
            let room = (PAYLOAD_MAX - payload.len()) / TOTAL_MAX;
            let same = |other: &&Counter| {
                (other.window_ms, other.sequence) == (first.window_ms, first.sequence)
            };
            let length = rest.iter().take_while(same).count().min(room);
            let (group, others) = rest.split_at(length);
            push_group(&mut payload, group);
            expires_ms = expires_ms.max(first.expires_ms());
            rest = others;
        }
        packed.push((payload, expires_ms));
    }
    packed
}

fn push_group(payload: &mut Vec<u8>, group: &[Counter]) {
    let Some(first) = group.first() else { return };
    for number in [first.window_ms, first.sequence, group.len() as u64] {
        push_number(payload, number);
    }
    for counter in group {
        payload.extend_from_slice(counter.subject.as_bytes());
        push_number(payload, counter.count);
    }
}

fn push_number(payload: &mut Vec<u8>, mut number: u64) {
    loop {
        let low = u8::try_from(number & 0x7f).unwrap_or(0);
        number >>= 7;
        if number == 0 {
            payload.push(low);
            return;
        }
        payload.push(low | 0x80);
    }
}

/// Reads a payload; `None` if it is not one. Takes no more memory than the payload is long, give or
/// take a factor. [`pack`] has an example.
#[must_use]
pub fn unpack(payload: &[u8]) -> Option<Vec<Counter>> {
    let (version, mut rest) = payload.split_first()?;
    if *version != VERSION {
        return None;
    }
    let mut counters = Vec::new();
    while !rest.is_empty() {
        let [window_ms, sequence, length] =
            [take_number(&mut rest)?, take_number(&mut rest)?, take_number(&mut rest)?];
        for _ in 0..length {
            let (subject, others) = rest.split_first_chunk::<16>()?;
            rest = others;
            let (subject, count) = (Digest::from_bytes(*subject), take_number(&mut rest)?);
            counters.push(Counter { window_ms, sequence, subject, count });
        }
    }
    Some(counters)
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for at in 0..NUMBER_MAX {
        let (byte, others) = rest.split_first()?;
        *rest = others;
        let bits = u64::from(byte & 0x7f);
        let shifted = bits << (7 * at);
        if shifted >> (7 * at) != bits {
            return None;
        }
        number |= shifted;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counter() -> impl Strategy<Value = Counter> {
        let number = prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0..200_u64];
        (0..3_u64, number.clone(), any::<[u8; 16]>(), number).prop_map(
            |(window, sequence, subject, count)| {
                let (window_ms, subject) = (60_000 << window, Digest::from_bytes(subject));
                Counter { window_ms, sequence, subject, count }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

        #[test]
        fn what_is_packed_is_unpacked(counters in prop::collection::vec(counter(), 0..300)) {
            let mut sorted = counters.clone();
            sorted.sort_unstable();
            let packed = pack(counters);
            let unpacked: Option<Vec<_>> = packed.iter().map(|(bytes, _)| unpack(bytes)).collect();
            prop_assert_eq!(unpacked.unwrap().concat(), sorted);
        }

        #[test]
        fn whatever_comes_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(counters) = unpack(&bytes) {
                prop_assert!(counters.len() * 17 <= bytes.len());
            }
        }
    }

    #[test]
    fn a_payload_is_bounded_and_dense() {
        let subject = |n: u32| {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&n.to_be_bytes());
            Digest::from_bytes(bytes)
        };
        let counter =
            |n| Counter { window_ms: 60_000, sequence: 29_000_000, subject: subject(n), count: 99 };
        let packed = pack((0..10_000).map(counter).collect());
        assert!(packed.iter().all(|(bytes, _)| bytes.len() <= PAYLOAD_MAX));
        let bytes: usize = packed.iter().map(|(bytes, _)| bytes.len()).sum();
        assert!(bytes < 10_000 * 19, "{bytes}");
        assert!(packed.len() <= 8, "{}", packed.len());
    }
}
