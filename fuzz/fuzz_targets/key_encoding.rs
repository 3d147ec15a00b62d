//! Names of subjects: two subjects have the same encoding, and the same digest, exactly if they
//! are the same.
//!
//! The input: one byte of choices, two of windows, then texts separated by the byte 0xff, which
//! no text contains. The second subject takes texts of its own or, where a choice says so, those
//! of the first, whole or cut at other places: the same bytes under other boundaries are what an
//! encoding without lengths would confuse.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate_limiter::{Digest, ENCODING_VERSION, FleetSecret, Part, Subject, Window, encode};

/// The choice that the second subject is the first with its texts cut elsewhere.
const CUT_ELSEWHERE: u8 = 0b1000;

fuzz_target!(|input: &[u8]| {
    let _ = check(input);
});

/// `None` if the input does not make two subjects.
fn check(input: &[u8]) -> Option<()> {
    let ([choices, window_a, window_b], texts) = input.split_first_chunk()?;
    let texts: Vec<&str> = texts
        .split(|byte| *byte == 0xff)
        .map(std::str::from_utf8)
        .collect::<Result<_, _>>()
        .ok()?;
    let [a1, a2, a3, own @ ..] = texts.as_slice() else { return None };
    let first = [*a1, *a2, *a3];
    let joined = first.concat();
    let second = if choices & CUT_ELSEWHERE == 0 {
        let mut own = own.iter();
        let mut take = |bit: u8, of_first| {
            if choices & bit == 0 { own.next().copied() } else { Some(of_first) }
        };
        [take(1, *a1)?, take(2, *a2)?, take(4, *a3)?]
    } else {
        let (left, right) = joined.split_at_checked(usize::from(choices >> 4))?;
        let (middle, right) = right.split_at_checked(usize::from(choices & 7))?;
        [left, middle, right]
    };
    let (a, b) = (subject(first, *window_a)?, subject(second, *window_b)?);
    let (encoding_a, encoding_b) = (encoding(&a), encoding(&b));
    assert_eq!(a == b, encoding_a == encoding_b, "{a:?} {b:?}");
    check_decodes(&encoding_a, first, a.window());

    let secret = FleetSecret::from_bytes([*choices; 32]);
    let (digest_a, digest_b) = (Digest::of(&a, &secret), Digest::of(&b, &secret));
    assert_eq!(a == b, digest_a == digest_b, "{a:?} {b:?}");
    let other_fleet = FleetSecret::from_bytes([choices.wrapping_add(1); 32]);
    assert_ne!(digest_a, Digest::of(&a, &other_fleet), "a name depends on the secret");
    Some(())
}

fn subject(texts: [&str; 3], window: u8) -> Option<Subject<'_>> {
    let [workspace, namespace, identifier] = texts.map(Part::new);
    let window = Window::from_millis(1_000 + u64::from(window)).ok()?;
    Some(Subject::new(workspace.ok()?, namespace.ok()?, identifier.ok()?, window))
}

fn encoding(subject: &Subject<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(subject, &mut bytes);
    bytes
}

/// Reads the encoding back, knowing only its format: what can be read back cannot be ambiguous.
fn check_decodes(encoding: &[u8], texts: [&str; 3], window: Window) {
    let (version, mut rest) = encoding.split_first().expect("a version");
    assert_eq!(*version, ENCODING_VERSION);
    for text in texts {
        let (length, after) = rest.split_first_chunk().expect("a length");
        let length = usize::try_from(u32::from_le_bytes(*length)).expect("a small length");
        let (part, after) = after.split_at_checked(length).expect("a part of that length");
        assert_eq!(part, text.as_bytes());
        rest = after;
    }
    assert_eq!(rest, window.as_millis().to_le_bytes());
}
