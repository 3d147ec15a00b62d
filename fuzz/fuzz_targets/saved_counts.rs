//! Files of saved counts: whatever is in them, they are read whole or not at all, take no more
//! memory than their length allows, and what was read is written again as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate::{Limiter, ManualClock, Saved};

/// What stands before the records: magic, version, secret, identity and time.
const HEADER: usize = 49;
/// Bytes of a record.
const RECORD: usize = 44;

fuzz_target!(|bytes: &[u8]| {
    let read = Saved::read(bytes, None);
    assert_eq!(read.ok(), Saved::read(bytes, None).ok(), "reading is deterministic");

    // Nobody guesses a checksum: the rest of the reader is met behind a right one.
    let Ok(saved) = Saved::read(sealed(bytes).as_slice(), None) else { return };
    assert!(saved.subjects() * RECORD <= bytes.len(), "a subject takes {RECORD} bytes");
    let clock = ManualClock::at_unix_ms(saved.written_unix_ms());
    let builder = Limiter::builder().clock(clock).seed([1; 32]).memory_budget_bytes(1 << 16);
    let limiter = builder.restore(saved.clone()).build().expect("it is of this fleet");
    let mut written = Vec::new();
    limiter.save(&mut written).expect("memory takes everything");
    let again = Saved::read(written.as_slice(), None).expect("what we wrote can be read");
    assert!(again.subjects() <= saved.subjects(), "what has expired is left out");
});

/// A file with a right header and a right checksum around these bytes: the first eight are the
/// time, the rest are records, as far as they go.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let limiter = Limiter::builder().seed([1; 32]).memory_budget_bytes(1 << 16).build();
    let mut file = Vec::new();
    limiter.expect("with a seed").save(&mut file).expect("memory takes everything");
    file.truncate(HEADER - 8);
    let (time, records) = bytes.split_at(bytes.len().min(8));
    file.extend_from_slice(time);
    file.resize(HEADER, 0);
    file.extend_from_slice(records);
    file.extend_from_slice(&((records.len() / RECORD) as u64).to_le_bytes());
    let sum = blake3::hash(&file);
    file.extend_from_slice(sum.as_bytes());
    file
}
