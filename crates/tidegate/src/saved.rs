//! Counts as bytes, so that they outlive a process that has no regional store.
//!
//! Promises: what was written is read whole, or not at all: every cut and every flipped bit is
//! found by a checksum over everything. No user text and no secret is in it. Memory is taken for
//! what was read, never for what a number claims.
//! Refuses: another version, another fleet secret, and more than four million subjects.
//!
//! ```text
//!   8  "tidegate"          24  number of records, eight bytes, after the last of them
//!   1  version             32  BLAKE3 of all before it
//!  16  which fleet secret
//!  16  identity of a region of one process, or 0     a record, 44 bytes:
//!   8  when, ms since 1970                           16 digest, 4 window in ms, 8 sequence,
//!  44  for each record                               8 current count, 8 previous count
//! ```
//!
//! Numbers are little-endian. The number of records comes last because it is known last.

use std::io::{self, Read};

use thiserror::Error;
use tidegate_limiter::{Digest, FleetSecret, SAVED_WINDOW_MS_MIN, SavedSubject, SavedSubjects};

/// What a file of saved counts begins with.
const MAGIC: [u8; 8] = *b"tidegate";
/// Any change of the format is a change of this number.
const VERSION: u8 = 1;
const HEADER: usize = 8 + 1 + 16 + 16 + 8;
pub(crate) const RECORD: usize = 16 + 4 + 8 + 8 + 8;
const TRAILER: usize = 8 + 32;
/// Most records that are written or read: 185 MB, four times what the default budget holds.
pub(crate) const RECORDS_MAX: u64 = 1 << 22;
/// The longest text that can be right.
const BYTES_MAX: u64 = HEADER as u64 + RECORDS_MAX * RECORD as u64 + TRAILER as u64;

/// What a limiter had admitted when it was saved: give it to
/// [`Builder::restore`](crate::Builder::restore).
///
/// ```
/// use tidegate::{Cost, Limit, Limiter, ManualClock, Part, Request, Saved, Subject, Window};
///
/// let clock = ManualClock::at_unix_ms(1_700_000_040_000);
/// let window = Window::from_millis(3_600_000)?;
/// let subject = Subject::new(Part::new("w")?, Part::new("n")?, Part::new("i")?, window);
/// let request = Request::new(subject, Limit::new(10), Cost::new(4)?);
///
/// let limiter = Limiter::builder().clock(clock.clone()).build()?;
/// assert!(limiter.check_now(&request).admitted());
/// let mut bytes = Vec::new();
/// limiter.save(&mut bytes)?;
/// drop(limiter);
///
/// let saved = Saved::read(bytes.as_slice(), None)?;
/// let limiter = Limiter::builder().clock(clock).restore(saved).build()?;
/// assert_eq!(limiter.check_now(&request).remaining(), 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Saved {
    pub(crate) fingerprint: [u8; 16],
    pub(crate) identity: Option<u128>,
    pub(crate) written_ms: u64,
    pub(crate) subjects: SavedSubjects,
}

/// Why saved counts cannot be used. Nothing of them is.
///
/// ```
/// use tidegate::{Saved, SavedError};
///
/// let read = Saved::read(&b"something else"[..], None);
/// assert!(matches!(read, Err(SavedError::Foreign)));
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SavedError {
    /// They could not be read.
    #[error("the saved counts cannot be read: {0}")]
    Io(#[from] io::Error),
    /// They begin like something else.
    #[error("these are not saved counts")]
    Foreign,
    /// They were written by another version.
    #[error("the saved counts have format {0}, and this version reads {VERSION}")]
    Version(u8),
    /// The checksum is wrong.
    #[error("the saved counts are damaged or cut off")]
    Damaged,
    /// They are those of another fleet: no subject has the names that are in it.
    #[error("the saved counts were written with another fleet secret")]
    OtherSecret,
    /// There are more than a process could have written.
    #[error("the saved counts are too large")]
    TooLarge,
}

impl Saved {
    /// Reads what [`Limiter::save`](crate::Limiter::save) wrote, by a limiter with the same fleet
    /// secret. The [type](Self) has an example.
    ///
    /// # Errors
    /// [`SavedError`], if any byte of it is not what was written.
    pub fn read(from: impl Read, fleet_secret: Option<[u8; 32]>) -> Result<Self, SavedError> {
        let mut bytes = Vec::new();
        from.take(BYTES_MAX + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > BYTES_MAX {
            return Err(SavedError::TooLarge);
        }
        let secret = fleet_secret.map(FleetSecret::from_bytes).unwrap_or_default();
        Self::parse(&bytes, secret.fingerprint())
    }

    fn parse(bytes: &[u8], fingerprint: [u8; 16]) -> Result<Self, SavedError> {
        let mut text = Text(bytes);
        if text.take::<8>() != Some(MAGIC) {
            return Err(SavedError::Foreign);
        }
        match text.take::<1>() {
            Some([VERSION]) => {}
            Some([version]) => return Err(SavedError::Version(version)),
            None => return Err(SavedError::Damaged),
        }
        check(bytes).ok_or(SavedError::Damaged)?;
        let saved = Self::fields(&mut text).ok_or(SavedError::Damaged)?;
        if saved.fingerprint == fingerprint { Ok(saved) } else { Err(SavedError::OtherSecret) }
    }

    /// What follows the version. The checksum says that this is what was written; still nothing
    /// is believed that makes no sense.
    fn fields(text: &mut Text<'_>) -> Option<Self> {
        let fingerprint = text.take::<16>()?;
        let identity = Some(u128::from_le_bytes(text.take()?)).filter(|identity| *identity != 0);
        let written_ms = u64::from_le_bytes(text.take()?);
        let records = text.0.get(..text.0.len().checked_sub(TRAILER)?)?;
        let (records, rest) = records.as_chunks::<RECORD>();
        let subjects: Option<Vec<SavedSubject>> = records.iter().map(decode).collect();
        text.0 = text.0.get(text.0.len() - TRAILER..)?;
        let counted = u64::from_le_bytes(text.take()?) == records.len() as u64;
        let subjects = subjects.filter(|_| counted && rest.is_empty())?;
        let subjects = SavedSubjects::new(subjects);
        Some(Self { fingerprint, identity, written_ms, subjects })
    }

    /// How many subjects there are, those that have expired since included.
    ///
    /// ```
    /// # let limiter = tidegate::Limiter::builder().build()?;
    /// # let mut bytes = Vec::new();
    /// # limiter.save(&mut bytes)?;
    /// let saved = tidegate::Saved::read(bytes.as_slice(), None)?;
    /// assert_eq!(saved.subjects(), 0);
    /// assert!(saved.written_unix_ms() > 1_700_000_000_000);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn subjects(&self) -> usize {
        self.subjects.as_slice().len()
    }

    /// When they were saved, in milliseconds since the Unix epoch. See
    /// [`subjects`](Self::subjects).
    #[must_use]
    pub const fn written_unix_ms(&self) -> u64 {
        self.written_ms
    }
}

/// The last 32 bytes are the checksum of those before them.
fn check(bytes: &[u8]) -> Option<()> {
    let (before, sum) = bytes.split_last_chunk::<32>()?;
    (before.len() + 32 >= HEADER + TRAILER && blake3::hash(before) == *sum).then_some(())
}

/// Bytes that are taken from the front.
struct Text<'a>(&'a [u8]);

impl Text<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }
}

fn decode(record: &[u8; RECORD]) -> Option<SavedSubject> {
    let mut text = Text(record);
    let saved = SavedSubject {
        subject: Digest::from_bytes(text.take()?),
        window_ms: u32::from_le_bytes(text.take()?),
        sequence: u64::from_le_bytes(text.take()?),
        current: u64::from_le_bytes(text.take()?),
        previous: u64::from_le_bytes(text.take()?),
    };
    (u64::from(saved.window_ms) >= SAVED_WINDOW_MS_MIN).then_some(saved)
}

/// Writes the format, piece by piece.
#[derive(Debug)]
pub(crate) struct Writer {
    sum: blake3::Hasher,
    records: u64,
}

impl Writer {
    /// Begins; `out` gets the header.
    pub(crate) fn begin(
        fingerprint: [u8; 16],
        identity: Option<u128>,
        written_ms: u64,
        out: &mut Vec<u8>,
    ) -> Self {
        let mut writer = Self { sum: blake3::Hasher::new(), records: 0 };
        writer.put(out, |out| {
            out.extend_from_slice(&MAGIC);
            out.push(VERSION);
            out.extend_from_slice(&fingerprint);
            out.extend_from_slice(&identity.unwrap_or(0).to_le_bytes());
            out.extend_from_slice(&written_ms.to_le_bytes());
        });
        writer
    }

    /// Appends these, as far as there may be so many; says how many it took.
    pub(crate) fn append(&mut self, all: &[SavedSubject], out: &mut Vec<u8>) -> u64 {
        let room = usize::try_from(RECORDS_MAX.saturating_sub(self.records)).unwrap_or(usize::MAX);
        let taken = all.get(..room).unwrap_or(all);
        self.put(out, |out| {
            for saved in taken {
                out.extend_from_slice(saved.subject.as_bytes());
                out.extend_from_slice(&saved.window_ms.to_le_bytes());
                for number in [saved.sequence, saved.current, saved.previous] {
                    out.extend_from_slice(&number.to_le_bytes());
                }
            }
        });
        self.records += taken.len() as u64;
        taken.len() as u64
    }

    /// Ends: `out` gets the number of records and the checksum.
    pub(crate) fn end(&mut self, out: &mut Vec<u8>) {
        let records = self.records;
        self.put(out, |out| out.extend_from_slice(&records.to_le_bytes()));
        out.extend_from_slice(self.sum.finalize().as_bytes());
    }

    fn put(&mut self, out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
        let before = out.len();
        write(out);
        self.sum.update(out.get(before..).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests;
