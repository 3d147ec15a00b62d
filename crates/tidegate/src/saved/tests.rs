use proptest::prelude::*;

use super::*;

const SECRET: Option<[u8; 32]> = Some([3; 32]);

fn fingerprint() -> [u8; 16] {
    FleetSecret::from_bytes([3; 32]).fingerprint()
}

fn write(all: &[SavedSubject], identity: Option<u128>, written_ms: u64) -> Vec<u8> {
    let mut out = Vec::new();
    let mut writer = Writer::begin(fingerprint(), identity, written_ms, &mut out);
    // In pieces, as a limiter does.
    for piece in all.chunks(3) {
        assert_eq!(writer.append(piece, &mut out), piece.len() as u64);
    }
    writer.end(&mut out);
    out
}

fn any_subject() -> impl Strategy<Value = SavedSubject> {
    let window_ms = 60_000..=u32::MAX;
    (any::<[u8; 16]>(), window_ms, any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
        |(subject, window_ms, sequence, current, previous)| {
            let subject = Digest::from_bytes(subject);
            SavedSubject { subject, window_ms, sequence, current, previous }
        },
    )
}

fn any_subjects() -> impl Strategy<Value = Vec<SavedSubject>> {
    proptest::collection::vec(any_subject(), 0..20)
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(1_000))]

    #[test]
    fn what_is_written_is_read(
        all in any_subjects(), identity in any::<Option<u128>>(), at in any::<u64>(),
    ) {
        let bytes = write(&all, identity, at);
        prop_assert_eq!(bytes.len(), HEADER + RECORD * all.len() + TRAILER);
        let read = Saved::read(bytes.as_slice(), SECRET).unwrap();
        let identity = identity.filter(|identity| *identity != 0);
        prop_assert_eq!((read.identity, read.written_unix_ms()), (identity, at));
        prop_assert_eq!(&read.subjects, &SavedSubjects::new(all));
    }

    #[test]
    fn a_flipped_bit_is_found(all in any_subjects(), at in any::<prop::sample::Index>()) {
        let mut bytes = write(&all, Some(7), 9);
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(Saved::read(bytes.as_slice(), SECRET).is_err());
    }

    #[test]
    fn a_cut_is_found(all in any_subjects(), at in any::<prop::sample::Index>()) {
        let bytes = write(&all, None, 9);
        let cut = at.index(bytes.len());
        prop_assert!(Saved::read(&bytes[..cut], SECRET).is_err());
        let more = [bytes.as_slice(), &[0]].concat();
        prop_assert!(Saved::read(more.as_slice(), SECRET).is_err());
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Saved::read(bytes.as_slice(), SECRET).is_err());
        // The same behind what is right.
        let sealed = [&write(&[], None, 0)[..HEADER], &bytes].concat();
        let sealed = [sealed.as_slice(), blake3::hash(&sealed).as_bytes()].concat();
        let _ = Saved::read(sealed.as_slice(), SECRET);
    }
}

#[test]
fn an_error_says_what_is_wrong() {
    let one = write(&[], None, 0);
    let read = |bytes: &[u8], secret| Saved::read(bytes, secret).unwrap_err();
    assert!(matches!(read(b"", SECRET), SavedError::Foreign));
    assert!(matches!(read(b"#!/bin/sh and so on", SECRET), SavedError::Foreign));
    assert!(matches!(read(&one[..20], SECRET), SavedError::Damaged));
    assert!(matches!(read(&one, None), SavedError::OtherSecret));
    assert!(matches!(read(&one, Some([4; 32])), SavedError::OtherSecret));
    let mut newer = one.clone();
    newer[8] = 2;
    assert!(matches!(read(&newer, SECRET), SavedError::Version(2)));
    let endless = one.as_slice().chain(io::repeat(0));
    assert!(matches!(Saved::read(endless, SECRET), Err(SavedError::TooLarge)));
}

/// Short windows are not saved; a text that says so was not written by us.
#[test]
fn a_record_that_makes_no_sense_is_refused() {
    let subject = Digest::from_bytes([1; 16]);
    let short = SavedSubject { subject, window_ms: 59_999, sequence: 1, current: 1, previous: 1 };
    let bytes = write(&[short], None, 0);
    assert!(matches!(Saved::read(bytes.as_slice(), SECRET), Err(SavedError::Damaged)));
}

/// Files that exist have to be readable for as long as the version is 1.
#[test]
fn the_format_is_what_it_was() {
    let subject = Digest::from_bytes(*b"0123456789abcdef");
    let saved = SavedSubject { subject, window_ms: 60_000, sequence: 5, current: 3, previous: 2 };
    let mut out = Vec::new();
    let mut writer = Writer::begin([9; 16], Some(0x0102), 0x0304, &mut out);
    writer.append(&[saved], &mut out);
    writer.end(&mut out);
    assert_eq!(
        &out[..25],
        b"tidegate\x01\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09\x09"
    );
    assert_eq!(&out[25..49], b"\x02\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\x03\0\0\0\0\0\0");
    assert_eq!(&out[49..69], b"0123456789abcdef\x60\xea\0\0");
    assert_eq!(&out[69..93], b"\x05\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0");
    assert_eq!(&out[93..101], b"\x01\0\0\0\0\0\0\0");
    assert_eq!(out.len(), 133);
}
