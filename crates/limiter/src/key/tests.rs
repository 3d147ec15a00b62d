use proptest::prelude::*;

use super::*;
use crate::request::{Part, Window};

fn subject<'a>(parts: &'a [String; 3], window_ms: u64) -> Subject<'a> {
    let [workspace, namespace, identifier] = parts.each_ref().map(|part| Part::new(part).unwrap());
    Subject::new(workspace, namespace, identifier, Window::from_millis(window_ms).unwrap())
}

fn texts(parts: [&str; 3]) -> [String; 3] {
    parts.map(str::to_owned)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn a_digest_is_its_bytes() {
    let digest = Digest::from_bytes([7; 16]);
    assert_eq!((digest.as_bytes(), Digest::from_words(digest.to_words())), (&[7; 16], digest));
}

/// Names are kept in stores and shared between releases: they must never change by accident.
#[test]
fn golden_vectors() {
    let secret = FleetSecret::from_bytes(*b"0123456789abcdef0123456789abcdef");
    let long = "x".repeat(512);
    let table = [
        (
            texts(["ws_dev", "email", "user-1"]),
            60_000,
            "14c8114e270eda72578c742a924ec9cf",
            "694fb9d9dec2900a76e9e11988899312",
        ),
        (
            texts(["ws_dev", "email", "user-1"]),
            60_001,
            "b387d63ed44d2b024b21cd9c96a66cb5",
            "e012423aa2693fd7b78157d6ca9f4cb6",
        ),
        (
            texts(["ws", "a-b", "c"]),
            1_000,
            "322548badc811445f3f407c2de1914af",
            "58a1050e4be662238403226bb5438806",
        ),
        (
            texts(["ws", "a", "b-c"]),
            1_000,
            "982435e9dc80affa09c3f5cab15d40c0",
            "883496cfe2f8d7c6daedfb90bfcf2e48",
        ),
        (
            texts(["w", "\u{e9}", &long]),
            2_592_000_000,
            "de529a2f72459bae052bafafc8c8917f",
            "d3a7bb88dd7ef161644cadccb4960114",
        ),
    ];
    for (parts, window_ms, open, keyed) in table {
        let subject = subject(&parts, window_ms);
        assert_eq!(
            hex(Digest::of(&subject, &FleetSecret::default()).as_bytes()),
            open,
            "{subject:?}"
        );
        assert_eq!(hex(Digest::of(&subject, &secret).as_bytes()), keyed, "{subject:?}");
    }
}

#[test]
fn encoding_is_written_out() {
    let parts = texts(["w", "ns", "id3"]);
    let mut bytes = Vec::new();
    encode(&subject(&parts, 1_000), &mut bytes);
    let expected = [
        &[1][..],
        &[1, 0, 0, 0],
        b"w",
        &[2, 0, 0, 0],
        b"ns",
        &[3, 0, 0, 0],
        b"id3",
        &[0xe8, 3, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(bytes, expected);
}

#[test]
fn digest_survives_its_words() {
    let digest = Digest::of(&subject(&texts(["a", "b", "c"]), 1_000), &FleetSecret::default());
    assert_eq!(Digest::from_words(digest.to_words()), digest);
}

#[test]
fn secrets_are_not_printed() {
    let secret = FleetSecret::from_bytes([0xab; 32]);
    assert_eq!(format!("{secret:?}"), "FleetSecret(..)");
    assert_eq!(format!("{:?}", Seed::from_bytes([1; 32])), "Seed(..)");
}

#[test]
fn seeds_change_the_hash() {
    let parts = texts(["a", "b", "c"]);
    let hash = |seed| Key::of(&subject(&parts, 1_000), &Seed::from_bytes([seed; 32])).hash;
    assert_ne!(hash(1), hash(2));
    assert_eq!(hash(1), hash(1));
}

/// Nobody can flood one place of the index, one shard or one tag: identifiers in any regular
/// pattern spread over them like random ones, by the bits that each is made of.
#[test]
fn regular_identifiers_spread_evenly() {
    let patterns: [fn(u32) -> String; 4] = [
        |n| format!("user-{n}"),
        |n| format!("{n:032}"),
        |n| format!("user_{n:08}00000000000"),
        |n| "a".repeat(n as usize % 500 + 1) + &n.to_string(),
    ];
    for (seed, pattern) in (0..16).flat_map(|seed| patterns.map(|pattern| (seed, pattern))) {
        let seed = Seed::from_bytes([seed; 32]);
        let (mut places, mut shards, mut tags) = (vec![0_u32; 1 << 14], [0_u32; 16], [0_u32; 256]);
        for n in 0..1 << 14 {
            let parts = [String::from("ws"), String::from("ns"), pattern(n)];
            let hash = Key::of(&subject(&parts, 60_000), &seed).hash;
            places[usize::try_from(hash >> 8).unwrap() % (1 << 14)] += 1;
            shards[usize::try_from(hash).unwrap() % 16] += 1;
            tags[usize::try_from(hash >> 56).unwrap()] += 1;
        }
        // 16,384 balls in as many urns: more than 12 in one happens once in a million tables. In
        // each of 16 urns lie 1,024 and in each of 256 there are 64, within six deviations.
        assert!(places.iter().max() <= Some(&12));
        assert!(shards.iter().all(|held| held.abs_diff(1_024) < 192), "{shards:?}");
        assert!(tags.iter().all(|held| held.abs_diff(64) < 48), "{tags:?}");
    }
}

/// Short texts, and three that are together about as long as a fingerprint takes in, over a small
/// alphabet so that parts often share beginnings and ends.
fn any_parts() -> impl Strategy<Value = [String; 3]> {
    let part =
        prop_oneof!["[ab-]{1,3}", "[ab\u{0}]{7,9}", "[ab]{14,34}", "[ab]{76,84}", "\\PC{1,12}"];
    [part.clone(), part.clone(), part]
}

/// Two subjects that are hard to tell apart: unrelated ones, the same one, one with its last
/// character changed or a zero after it, and the same text cut into parts at other places.
fn any_pair() -> impl Strategy<Value = ([String; 3], [String; 3])> {
    let cut = |parts: [String; 3], at: (usize, usize)| {
        let text: Vec<char> = parts.concat().chars().collect();
        let first = 1 + at.0 % (text.len() - 2);
        let second = first + 1 + at.1 % (text.len() - first - 1);
        let pieces = [&text[..first], &text[first..second], &text[second..]];
        (parts, pieces.map(|piece| piece.iter().collect()))
    };
    let change = |parts: [String; 3], at: usize| {
        let mut other = parts.clone();
        other[at].pop();
        other[at].push('c');
        (parts, other)
    };
    let longer = |parts: [String; 3], at: usize| {
        let mut other = parts.clone();
        other[at].push('\0');
        (parts, other)
    };
    let cuts = (0..200_usize, 0..200_usize);
    prop_oneof![
        (any_parts(), any_parts()),
        any_parts().prop_map(|parts| (parts.clone(), parts)),
        (any_parts(), 0..3_usize).prop_map(move |(parts, at)| change(parts, at)),
        (any_parts(), 0..3_usize).prop_map(move |(parts, at)| longer(parts, at)),
        (any_parts(), cuts).prop_map(move |(parts, at)| cut(parts, at)),
    ]
}

proptest! {
    #![proptest_config(crate::cases(20_000))]

    /// INV-34: distinct subjects have distinct encodings, fingerprints and digests.
    #[test]
    fn names_are_injective(
        (a, b) in any_pair(),
        windows in (1_000..1_002_u64, 1_000..1_002_u64),
    ) {
        let (first, second) = (subject(&a, windows.0), subject(&b, windows.1));
        let (mut x, mut y) = (Vec::new(), Vec::new());
        encode(&first, &mut x);
        encode(&second, &mut y);
        prop_assert_eq!(x == y, first == second);
        let secret = FleetSecret::default();
        let digests = (Digest::of(&first, &secret), Digest::of(&second, &secret));
        prop_assert_eq!(digests.0 == digests.1, first == second);
        let seed = Seed::from_bytes([5; 32]);
        prop_assert_eq!(Key::of(&first, &seed) == Key::of(&second, &seed), first == second);
    }

    /// The sum is that of its definition, over pairs that zeros fill up.
    #[test]
    fn fingerprint_is_nh(words in proptest::collection::vec(any::<[u64; 2]>(), 0..PAIRS)) {
        let seed = Seed::from_bytes([6; 32]);
        let mut sum = Sum::new(&seed);
        words.iter().for_each(|pair| sum.take_pair(*pair));
        let mut filled = words;
        filled.resize(PAIRS, [0, 0]);
        let expected = filled.iter().zip(seed.keys).fold(0_u128, |sum, (words, keys)| {
            let [first, second] = [0, 1].map(|at| words[at].wrapping_add(keys[at]));
            sum.wrapping_add(u128::from(first).wrapping_mul(u128::from(second)))
        });
        prop_assert_eq!(sum.finish(), expected);
    }

    /// Bytes of one length that differ are taken in differently.
    #[test]
    fn every_byte_is_taken_in(
        bytes in proptest::collection::vec(any::<u8>(), 1..100),
        at in 0..100_usize,
    ) {
        let seed = Seed::from_bytes([6; 32]);
        let mut other = bytes.clone();
        other[at % bytes.len()] ^= 1;
        let fingerprint = |bytes: &[u8]| {
            let mut sum = Sum::new(&seed);
            sum.take(bytes);
            sum.finish()
        };
        prop_assert_ne!(fingerprint(&bytes), fingerprint(&other));
    }

    /// The sum of parts that are all short is NH too, over pairs at fixed places.
    #[test]
    fn short_fingerprint_is_nh(parts in ["[a-c]{1,32}", "[a-c]{1,32}", "[a-c]{1,32}"]) {
        let (seed, window_ms) = (Seed::from_bytes([6; 32]), 1_000);
        let lengths = parts.iter().fold(0, |all, part| all << 16 | part.len() as u64);
        let mut sum = Sum::new(&seed);
        sum.take_pair([window_ms, lengths]);
        for part in &parts {
            let bytes = part.as_bytes();
            match (bytes.first_chunk(), bytes.last_chunk()) {
                (Some(first), Some(last)) => {
                    sum.take_pair(words(first));
                    sum.take_pair(words(last));
                }
                _ => {
                    sum.take_pair(short_pair(bytes));
                    sum.take_pair([0, 0]);
                }
            }
        }
        let key = Key::of(&subject(&parts, window_ms), &seed);
        prop_assert_eq!(key.fingerprint, halves(sum.finish()));
    }
}
