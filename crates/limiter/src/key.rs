//! Who a subject is: to this process, and to everybody else.
//!
//! Outside the process a subject is a [`Digest`]: 16 bytes of keyed BLAKE3 over an injective
//! encoding, so that no two subjects share a name, no user text leaves the process and nobody
//! without the fleet's secret can compute a name. Inside, a faster hash finds the ledger and the
//! text itself decides, so that not even a collision could merge two subjects.

use std::hash::Hasher;

use rapidhash::quality::{RapidHasher, SeedableState};

use crate::ledger::{IDENTITY_WORDS, Identity};
use crate::request::Subject;

/// First byte of every encoding. A change of the encoding is a change of this number: old and
/// new names then never meet.
pub const ENCODING_VERSION: u8 = 1;

/// What the members of a fleet share so that they, and only they, compute the same names.
#[derive(Clone)]
pub struct FleetSecret([u8; 32]);

impl FleetSecret {
    /// A secret of the operator's.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl Default for FleetSecret {
    /// No secret: names are the same in every fleet that has none, and can be computed by anyone.
    fn default() -> Self {
        Self(*b"tidegate: fleet without a secret")
    }
}

impl std::fmt::Debug for FleetSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("FleetSecret(..)")
    }
}

/// Appends the encoding of a subject: a version byte, then each part with its length before it,
/// then the window. Distinct subjects have distinct encodings (INV-34).
pub fn encode(subject: &Subject<'_>, out: &mut Vec<u8>) {
    out.push(ENCODING_VERSION);
    for part in [subject.workspace, subject.namespace, subject.identifier] {
        let bytes = part.as_str().as_bytes();
        out.extend_from_slice(&u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_le_bytes());
        out.extend_from_slice(bytes);
    }
    out.extend_from_slice(&subject.window.as_millis().to_le_bytes());
}

/// The name of a subject outside this process.
///
/// ```
/// use tidegate_limiter::{Digest, FleetSecret, Part, Subject, Window};
///
/// let window = Window::from_millis(60_000)?;
/// let subject = |namespace, identifier| -> Result<_, tidegate_limiter::RequestError> {
///     Ok(Subject::new(Part::new("ws")?, Part::new(namespace)?, Part::new(identifier)?, window))
/// };
/// let secret = FleetSecret::default();
/// // Where one part ends and the next begins is part of the name.
/// assert_ne!(
///     Digest::of(&subject("a", "b-c")?, &secret),
///     Digest::of(&subject("a-b", "c")?, &secret),
/// );
/// # Ok::<(), tidegate_limiter::RequestError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 16]);

impl Digest {
    /// The name of this subject in the fleet that has this secret.
    #[must_use]
    pub fn of(subject: &Subject<'_>, secret: &FleetSecret) -> Self {
        let mut bytes = [0; 16];
        keyed(subject, &secret.0).finalize_xof().fill(&mut bytes);
        Self(bytes)
    }

    /// The 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    pub(crate) const fn to_words(self) -> [u64; 2] {
        let word = u128::from_be_bytes(self.0);
        #[expect(clippy::cast_possible_truncation, reason = "the two halves of one word")]
        [(word >> 64) as u64, word as u64]
    }

    pub(crate) fn from_words([high, low]: [u64; 2]) -> Self {
        Self(((u128::from(high) << 64) | u128::from(low)).to_be_bytes())
    }
}

/// Keyed BLAKE3 over the encoding of a subject.
fn keyed(subject: &Subject<'_>, key: &[u8; 32]) -> blake3::Hasher {
    let mut encoding = Vec::with_capacity(256);
    encode(subject, &mut encoding);
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&encoding);
    hasher
}

/// 32 random bytes that make the hashes of one process its own, so that nobody can choose
/// identifiers that collide.
#[derive(Clone)]
pub struct Seed {
    bytes: [u8; 32],
    seed: u64,
    secrets: [u64; 7],
}

impl Seed {
    /// A seed; draw it from the operating system, or fix it to repeat a run.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let mut stretched = [0; 64];
        let mut xof = blake3::Hasher::new_keyed(&bytes).finalize_xof();
        xof.fill(&mut stretched);
        let mut words = [0; 8];
        for (word, chunk) in words.iter_mut().zip(stretched.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*chunk);
        }
        let [seed, secrets @ ..] = words;
        // Odd secrets keep every input bit in the product that the hash folds.
        Self { bytes, seed, secrets: secrets.map(|secret| secret | 1) }
    }

    pub(crate) fn hash_workspace(&self, subject: &Subject<'_>) -> u64 {
        let mut hasher = self.hasher();
        hasher.write(subject.workspace.as_str().as_bytes());
        hasher.finish()
    }

    fn hasher(&self) -> RapidHasher<'_> {
        use std::hash::BuildHasher;
        SeedableState::custom(self.seed, &self.secrets).build_hasher()
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// A subject as the table looks for it: a hash to find it by, words to know it by.
#[derive(Debug)]
pub(crate) struct Key {
    pub(crate) hash: u64,
    identity: Identity,
    len: usize,
}

/// Marks an identity that is a digest because its text was too long to keep.
const LONG: u64 = 1 << 63;

impl Key {
    #[inline]
    pub(crate) fn of(subject: &Subject<'_>, seed: &Seed) -> Self {
        let parts = [subject.workspace, subject.namespace, subject.identifier]
            .map(|part| part.as_str().as_bytes());
        let mut hasher = seed.hasher();
        let mut header = 0;
        for part in parts {
            hasher.write(part);
            // A part has at most 2,048 bytes: three lengths fit beside the mark.
            header = header << 16 | part.len() as u64;
        }
        hasher.write_u64(header ^ subject.window.as_millis() << 16);
        let mut key = Self { hash: hasher.finish(), identity: [0; IDENTITY_WORDS], len: 1 };
        if parts.iter().map(|part| part.len().div_ceil(8)).sum::<usize>() < IDENTITY_WORDS {
            key.set(0, header);
            for part in parts {
                key.pack(part);
            }
        } else {
            key.shorten(subject, header, seed);
        }
        key
    }

    /// The words that say who the subject is; the window is kept beside them.
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The words that have to be compared: a longer identity differs in the header.
    #[inline]
    pub(crate) fn words(&self) -> &[u64] {
        self.identity.get(..self.len).unwrap_or(&self.identity)
    }

    #[inline]
    fn set(&mut self, at: usize, word: u64) {
        if let Some(slot) = self.identity.get_mut(at) {
            *slot = word;
        }
    }

    /// Appends the bytes of a part, eight to a word, the last word filled with zeros. The
    /// lengths are in the header, so the filling is never ambiguous.
    #[inline]
    fn pack(&mut self, part: &[u8]) {
        let (words, rest) = part.as_chunks::<8>();
        for word in words {
            self.set(self.len, u64::from_le_bytes(*word));
            self.len += 1;
        }
        if !rest.is_empty() {
            self.set(self.len, last_word(part, rest));
            self.len += 1;
        }
    }

    /// Keeps a digest instead of a text that is too long. Collision-resistant and keyed per
    /// process, and it cannot be mistaken for a text.
    #[cold]
    fn shorten(&mut self, subject: &Subject<'_>, header: u64, seed: &Seed) {
        let digest = keyed(subject, &seed.bytes).finalize();
        self.set(0, header | LONG);
        for word in digest.as_bytes().as_chunks::<8>().0 {
            self.set(self.len, u64::from_le_bytes(*word));
            self.len += 1;
        }
    }
}

/// The bytes of `rest`, the end of `part`, as a word filled with zeros. Reads a whole word that
/// ends where the part ends, if there is one: copying single bytes stalls the load after it.
#[inline]
fn last_word(part: &[u8], rest: &[u8]) -> u64 {
    match part.last_chunk::<8>() {
        Some(last) => u64::from_le_bytes(*last) >> (8 * (8 - rest.len())),
        None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
