//! Files of saved counts: whatever is in them, they are read whole or not at all, take no more
//! memory than their length allows, what was read is written again as it was, and a subject that
//! is in them begins with what was saved of it.

#![no_main]

use libfuzzer_sys::fuzz_target;
use tidegate::{Cost, Limit, Limiter, ManualClock, Part, Request, Saved, Subject, Window};
use tidegate_limiter::{Digest, FleetSecret, Now, SavedSubject, SavedSubjects};

/// What stands before the records: magic, version, secret, identity and time.
const HEADER: usize = 49;
/// Bytes of a record, and of what stands behind the last one.
const RECORD: usize = 44;
const TRAILER: usize = 40;
/// The window of the subject that is asked for.
const WINDOW_MS: u64 = 60_000;
/// More than what is saved of it.
const LIMIT: u64 = 1 << 40;

fuzz_target!(|bytes: &[u8]| {
    let read = Saved::read(bytes, None);
    assert_eq!(read.ok(), Saved::read(bytes, None).ok(), "reading is deterministic");

    // Nobody guesses a checksum: the rest of the reader is met behind a right one.
    let file = sealed(bytes);
    let Ok(saved) = Saved::read(file.as_slice(), None) else { return };
    assert!(saved.subjects() * RECORD <= bytes.len(), "a subject takes {RECORD} bytes");

    let (limiter, now_ms) = (restored(&saved), saved.written_unix_ms());
    let written = save(&limiter);
    let again = Saved::read(written.as_slice(), None).expect("what we wrote can be read");
    // Worked out from the records alone: those that may still matter, each subject once.
    let all = SavedSubjects::new(records(&file)).live(Now::new(now_ms, 0));
    assert_eq!(records(&written), all.as_slice(), "as it was, but for what expired long ago");
    assert_eq!(save(&restored(&again)), written, "and from then on it stays as it is");

    // Up to the year 6429: the numbers of windows in the table end some centuries later.
    if bytes.len() >= 8 && now_ms < 1 << 47 {
        ask(&saved, bytes);
    }
});

fn restored(saved: &Saved) -> Limiter {
    let clock = ManualClock::at_unix_ms(saved.written_unix_ms());
    let builder = Limiter::builder().clock(clock).seed([1; 32]).memory_budget_bytes(1 << 16);
    builder.restore(saved.clone()).build().expect("it is of this fleet")
}

fn save(limiter: &Limiter) -> Vec<u8> {
    let mut written = Vec::new();
    limiter.save(&mut written).expect("memory takes everything");
    written
}

/// The records of a file that is whole.
fn records(file: &[u8]) -> Vec<SavedSubject> {
    let records = &file[HEADER..file.len() - TRAILER];
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let record = |record: &[u8]| SavedSubject {
        subject: Digest::from_bytes(record[..16].try_into().expect("sixteen bytes")),
        window_ms: u32::from_le_bytes(record[16..20].try_into().expect("four bytes")),
        sequence: number(&record[20..28]),
        current: number(&record[28..36]),
        previous: number(&record[36..44]),
    };
    records.chunks_exact(RECORD).map(record).collect()
}

/// Puts the subject that is asked for before everything else, and asks for it.
fn ask(saved: &Saved, bytes: &[u8]) {
    let part = |text| Part::new(text).expect("short");
    let window = Window::from_millis(WINDOW_MS).expect("a minute");
    let subject = Subject::new(part("w"), part("n"), part("i"), window);
    let now_ms = saved.written_unix_ms();
    let (sequence, elapsed_ms) = (now_ms / WINDOW_MS, now_ms % WINDOW_MS);
    let (time, rest) = bytes.split_at(8);
    let count = |at: usize| u64::from(rest.get(at).copied().unwrap_or(0)) << (at * 8);
    let (current, previous) = (count(0) + count(1), count(2) + count(3));
    let mut all = time.to_vec();
    all.extend_from_slice(Digest::of(&subject, &FleetSecret::default()).as_bytes());
    all.extend_from_slice(&60_000_u32.to_le_bytes());
    for number in [sequence, current, previous] {
        all.extend_from_slice(&number.to_le_bytes());
    }
    all.extend_from_slice(rest);
    let saved = Saved::read(sealed(&all).as_slice(), None).expect("with one record more");
    let limiter = restored(&saved);
    let request = Request::new(subject, Limit::new(LIMIT), Cost::new(0).expect("nothing"));
    let left = limiter.check_now(&request).remaining();
    // Nothing is before the first window of all.
    let before = if sequence == 0 { 0 } else { previous };
    let weighed = before * (WINDOW_MS - elapsed_ms) / WINDOW_MS;
    assert_eq!(left, LIMIT - current - weighed, "it begins with what was saved");
}

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
