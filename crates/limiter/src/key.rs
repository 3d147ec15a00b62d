//! Who a subject is: to this process, and to everybody else.
//!
//! Outside the process a subject is a [`Digest`]: 16 bytes of keyed BLAKE3 over an injective
//! encoding, so that no two subjects share a name, no user text leaves the process and nobody
//! without the fleet's secret can compute a name.
//!
//! Inside, a subject is a *fingerprint*: 128 bits of NH, the universal hash of UMAC, under random
//! words that only this process has. It costs one multiplication for 16 bytes, and there is a
//! proof: two subjects have the same fingerprint with a probability of at most 2^-64, whatever
//! their text is, for anyone who does not know the random words.

use crate::request::{Part, Subject};

/// First byte of every encoding. A change of the encoding is a change of this number: old and new
/// names then never meet. [`encode`] has an example.
pub const ENCODING_VERSION: u8 = 1;

/// What the members of a fleet share so that they, and only they, compute the same names.
///
/// ```
/// use tidegate_limiter::FleetSecret;
///
/// let secret = FleetSecret::from_bytes(*b"0123456789abcdef0123456789abcdef");
/// assert_eq!(format!("{secret:?}"), "FleetSecret(..)", "never shown");
/// ```
#[derive(Clone)]
pub struct FleetSecret([u8; 32]);

impl FleetSecret {
    /// A secret of the operator's. The [type](Self) has an example.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Tells this secret from others without giving it away.
    ///
    /// ```
    /// use tidegate_limiter::FleetSecret;
    ///
    /// let (ours, theirs) = (FleetSecret::from_bytes([1; 32]), FleetSecret::from_bytes([2; 32]));
    /// assert_ne!(ours.fingerprint(), theirs.fingerprint());
    /// ```
    #[must_use]
    pub fn fingerprint(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        // No encoding of a subject begins like this: it is the name of nobody.
        hasher.update(b"tidegate: which secret is this");
        hasher.finalize_xof().fill(&mut bytes);
        bytes
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
///
/// ```
/// use tidegate_limiter::{ENCODING_VERSION, Part, Subject, Window, encode};
///
/// let window = Window::from_millis(60_000)?;
/// let subject = Subject::new(Part::new("ws")?, Part::new("a")?, Part::new("b-c")?, window);
/// let mut bytes = Vec::new();
/// encode(&subject, &mut bytes);
/// assert_eq!(bytes[0], ENCODING_VERSION);
/// assert_eq!(bytes[1..7], [2, 0, 0, 0, b'w', b's'], "a length, then the text");
/// # Ok::<(), tidegate_limiter::RequestError>(())
/// ```
pub fn encode(subject: &Subject<'_>, out: &mut Vec<u8>) {
    out.push(ENCODING_VERSION);
    for part in subject.parts {
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
/// let digest = Digest::of(&subject("a", "b-c")?, &secret);
/// assert_eq!(Digest::from_bytes(*digest.as_bytes()), digest);
/// # Ok::<(), tidegate_limiter::RequestError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 16]);

impl Digest {
    /// The name of this subject in the fleet that has this secret. The [type](Self) has an example.
    #[must_use]
    pub fn of(subject: &Subject<'_>, secret: &FleetSecret) -> Self {
        let mut bytes = [0; 16];
        keyed(subject, &secret.0).finalize_xof().fill(&mut bytes);
        Self(bytes)
    }

    /// A name that came from outside. The [type](Self) has an example.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes. The [type](Self) has an example.
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

/// Pairs of words that NH takes in. A subject with a longer text is first made short by BLAKE3.
const PAIRS: usize = 16;
/// Bytes in a pair.
const PAIR: usize = 16;

/// 32 random bytes that make the fingerprints of one process its own, so that nobody can choose
/// identifiers that collide. [`Table`](crate::Table) has an example.
#[derive(Clone)]
pub struct Seed {
    bytes: [u8; 32],
    /// A random word for every word of the input.
    keys: [[u64; 2]; PAIRS],
    /// What the pairs from here on contribute if they are all zero.
    rests: [u128; PAIRS + 1],
    spread: Spread,
}

/// Spreads fingerprints over the index: random and odd.
#[derive(Clone, Copy)]
pub(crate) struct Spread([u64; 2]);

impl Spread {
    /// Folds a fingerprint to a number whose every bit depends on all of it.
    #[inline]
    pub(crate) fn hash(self, [low, high]: [u64; 2]) -> u64 {
        let Self([a, b]) = self;
        fold(low ^ a, high ^ b)
    }
}

impl std::fmt::Debug for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Spread(..)")
    }
}

impl Seed {
    /// A seed; draw it from the operating system, or fix it to repeat a run.
    /// [`Table`](crate::Table) has an example.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        let mut xof = blake3::Hasher::new_keyed(&bytes).finalize_xof();
        let mut random = || {
            let mut word = [0; 8];
            xof.fill(&mut word);
            u64::from_le_bytes(word)
        };
        let keys = std::array::from_fn(|_| [random(), random()]);
        let spread = Spread([random() | 1, random() | 1]);
        let mut rests = [0; PAIRS + 1];
        for (at, [a, b]) in keys.iter().enumerate().rev() {
            let rest = rests.get(at + 1).copied().unwrap_or(0);
            if let Some(place) = rests.get_mut(at) {
                *place = u128::from(*a).wrapping_mul(u128::from(*b)).wrapping_add(rest);
            }
        }
        Self { bytes, keys, rests, spread }
    }

    /// One number for a workspace.
    pub(crate) fn hash_workspace(&self, workspace: Part<'_>) -> u64 {
        let mut sum = Sum::new(self);
        let text = workspace.as_str().as_bytes();
        if text.len() <= PAIR * (PAIRS - 1) {
            sum.take_pair([text.len() as u64, 0]);
            sum.take(text);
        } else {
            sum.take(blake3::keyed_hash(&self.bytes, text).as_bytes());
        }
        self.spread.hash(halves(sum.finish()))
    }

    /// What hashes are made of fingerprints with.
    pub(crate) const fn spread(&self) -> Spread {
        self.spread
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(..)")
    }
}

/// Both halves of a product, folded.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let [low, high] = halves(u128::from(a).wrapping_mul(u128::from(b)));
    low ^ high
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves of one word")]
const fn halves(word: u128) -> [u64; 2] {
    [word as u64, (word >> 64) as u64]
}

/// What a pair of words adds to NH.
#[inline]
fn product([first, second]: [u64; 2], [a, b]: [u64; 2]) -> u128 {
    u128::from(first.wrapping_add(a)).wrapping_mul(u128::from(second.wrapping_add(b)))
}

/// The pair of words that sixteen bytes are.
#[inline]
const fn words(pair: &[u8; PAIR]) -> [u64; 2] {
    halves(u128::from_le_bytes(*pair))
}

/// NH: the sum of (word + key) · (word + key) over pairs of words.
struct Sum<'a> {
    seed: &'a Seed,
    /// The keys of the pairs to come.
    keys: &'a [[u64; 2]],
    sum: u128,
}

impl<'a> Sum<'a> {
    #[inline]
    fn new(seed: &'a Seed) -> Self {
        Self { seed, keys: &seed.keys, sum: 0 }
    }

    /// Takes in a pair of words. There are at most [`PAIRS`].
    #[inline]
    fn take_pair(&mut self, pair: [u64; 2]) {
        if let Some((key, rest)) = self.keys.split_first() {
            self.sum = self.sum.wrapping_add(product(pair, *key));
            self.keys = rest;
        }
    }

    /// Takes in bytes, sixteen to a pair. If some are left over, the last pair is made of the last
    /// sixteen: with the length, which is taken in before, that is as good as filling it up, and
    /// needs no copying.
    #[inline]
    fn take(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last_chunk::<PAIR>() else {
            self.take_pair(short_pair(bytes));
            return;
        };
        let (pairs, rest) = bytes.as_chunks::<PAIR>();
        for pair in pairs {
            self.take_pair(words(pair));
        }
        if !rest.is_empty() {
            self.take_pair(words(last));
        }
    }

    /// The sum as if zeros had followed up to the last pair, so that all inputs are equally long.
    #[inline]
    fn finish(self) -> u128 {
        let pairs = PAIRS.saturating_sub(self.keys.len());
        let rest = self.seed.rests.get(pairs).copied().unwrap_or(0);
        self.sum.wrapping_add(rest)
    }
}

/// A subject as the table looks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// Where to look.
    pub(crate) hash: u64,
    /// What to find.
    pub(crate) fingerprint: [u64; 2],
}

/// Marks an input that is a digest because the text was too long.
const LONG: u64 = 1 << 63;
/// Pairs for a part of a subject whose parts are all short.
const SHORT_PAIRS: usize = 2;
/// Most bytes of such a part.
const SHORT: usize = SHORT_PAIRS * PAIR;

impl Key {
    pub(crate) fn of(subject: &Subject<'_>, seed: &Seed) -> Self {
        Self::at_once(subject, seed)
    }

    /// [`Key::of`], for the one place where it is inlined.
    #[inline(always)]
    pub(crate) fn at_once(subject: &Subject<'_>, seed: &Seed) -> Self {
        let sum = short_sum(subject, seed).unwrap_or_else(|| any_sum(subject, seed));
        let fingerprint = halves(sum);
        Self { hash: seed.spread.hash(fingerprint), fingerprint }
    }
}

/// Of parts that are all short, as nearly all are: each has its pairs at a fixed place, so that
/// there is nothing to count. Which subjects these are, their lengths say, so that what is taken in
/// is of no other subject.
#[inline(always)]
fn short_sum(subject: &Subject<'_>, seed: &Seed) -> Option<u128> {
    let [head_key, keys @ ..] = &seed.keys;
    let (places, _) = keys.as_chunks::<SHORT_PAIRS>();
    let mut sum = seed.rests.get(1 + 3 * SHORT_PAIRS).copied().unwrap_or(0);
    let mut lengths = 0;
    // One after the other: together, the three parts need more registers than there are.
    for (part, [first_key, last_key]) in subject.parts.iter().zip(places) {
        let part = part.as_str().as_bytes();
        if part.len() > SHORT {
            return None;
        }
        lengths = with_length(lengths, part);
        let (first, last) = match (part.first_chunk::<PAIR>(), part.last_chunk::<PAIR>()) {
            (Some(first), Some(last)) => (words(first), words(last)),
            _ => (short_pair(part), [0; 2]),
        };
        sum = sum.wrapping_add(product(first, *first_key));
        sum = sum.wrapping_add(product(last, *last_key));
    }
    Some(sum.wrapping_add(product([subject.window.as_millis(), lengths], *head_key)))
}

/// A part has at most 2,048 bytes: three lengths fit beside the mark, and say where one part ends
/// and which of the last words are filling.
#[inline]
const fn with_length(lengths: u64, part: &[u8]) -> u64 {
    lengths << 16 | part.len() as u64
}

/// Of any text.
#[inline(never)]
fn any_sum(subject: &Subject<'_>, seed: &Seed) -> u128 {
    let parts = subject.parts.map(|part| part.as_str().as_bytes());
    let lengths = parts.iter().fold(0, |lengths, part| with_length(lengths, part));
    if parts.iter().map(|part| part.len().div_ceil(PAIR)).sum::<usize>() >= PAIRS {
        return long_sum(subject, lengths | LONG, seed);
    }
    let mut sum = Sum::new(seed);
    sum.take_pair([subject.window.as_millis(), lengths]);
    for part in parts {
        sum.take(part);
    }
    sum.finish()
}

/// Of a digest instead of a text that is too long: collision-resistant, keyed per process, and by
/// its mark never mistaken for a text.
#[cold]
fn long_sum(subject: &Subject<'_>, mark: u64, seed: &Seed) -> u128 {
    let mut sum = Sum::new(seed);
    sum.take_pair([subject.window.as_millis(), mark]);
    sum.take(keyed(subject, &seed.bytes).finalize().as_bytes());
    sum.finish()
}

/// Fewer than sixteen bytes as a pair of words: the first and the last eight, four, or single
/// ones. With the length they say what every byte is.
#[inline]
fn short_pair(bytes: &[u8]) -> [u64; 2] {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        return [u64::from_le_bytes(*first), u64::from_le_bytes(*last)];
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return [u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into()];
    }
    let byte = |at: usize| bytes.get(at).map_or(0, |byte| u64::from(*byte));
    [byte(0) << 8 | byte(1), byte(2)]
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests;
