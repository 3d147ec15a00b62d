//! Ids and keys, made of the operating system's randomness.
//!
//! An id is a name: `key_`, `rlns_`, `rlor_` or `ws_` and nine letters or digits. A key is a
//! secret: `tidegate_` and 43 letters or digits, which say 32 random bytes. Only its digest is
//! kept.

/// Characters of an id after its prefix: what the contract has. 62^9 of them: among a hundred
/// million ids, the next one is taken once in a hundred thousand times, and is then refused.
const ID_CHARS: usize = 9;
/// Random bytes of a key: nobody guesses 256 bits, and nobody finds them for a digest.
const KEY_BYTES: usize = 32;
/// As many digits to the base 62 as these need: 62^43 is just above 2^256.
const KEY_CHARS: usize = 43;
/// What a key begins with, so that people and scanners know one when they see it.
const KEY_PREFIX: &str = "tidegate_";
const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// The largest multiple of 62 in a byte: from here on, bytes would favour some letters.
const FAIR_BELOW: u8 = 248;
/// How often bytes are drawn for one id. Nearly always twice is enough.
const DRAWS_MAX: usize = 64;

/// What an id is for. [`new_id`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A root key.
    Key,
    /// A namespace.
    Namespace,
    /// An override.
    Override,
    /// A workspace.
    Workspace,
}

impl Kind {
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Key => "key_",
            Self::Namespace => "rlns_",
            Self::Override => "rlor_",
            Self::Workspace => "ws_",
        }
    }
}

/// A new id.
///
/// ```
/// use tidegate_server::ids::{Kind, new_id};
///
/// let id = new_id(Kind::Namespace)?;
/// assert!(id.starts_with("rlns_") && id.len() == 14);
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// When the operating system has no randomness.
pub fn new_id(kind: Kind) -> std::io::Result<String> {
    let mut id = String::from(kind.prefix());
    let end = id.len() + ID_CHARS;
    for _ in 0..DRAWS_MAX {
        let mut bytes = [0_u8; 2 * ID_CHARS];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        for byte in bytes.into_iter().filter(|byte| *byte < FAIR_BELOW) {
            id.push(letter(byte % 62));
            if id.len() == end {
                return Ok(id);
            }
        }
    }
    Err(std::io::Error::other("the randomness of this machine is not random"))
}

/// A new key. To be shown once and kept nowhere.
///
/// ```
/// use tidegate_server::ids::{digest, new_key};
///
/// let key = new_key()?;
/// assert!(key.starts_with("tidegate_") && key.len() == 52);
/// assert_eq!(digest(key.as_bytes()), digest(key.as_bytes()), "found by its digest");
/// assert_ne!(digest(key.as_bytes()), digest(new_key()?.as_bytes()));
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
/// When the operating system has no randomness.
pub fn new_key() -> std::io::Result<String> {
    let mut bytes = [0; KEY_BYTES];
    getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
    Ok(spell(bytes))
}

/// What is kept of a key: its BLAKE3 digest.
///
/// A key is as random as its digest, so there is no salt, and one look into a map finds it.
/// [`new_key`] has an example.
#[must_use]
pub fn digest(key: &[u8]) -> [u8; 32] {
    *blake3::hash(key).as_bytes()
}

/// The bytes as one large number to the base 62.
fn spell(mut number: [u8; KEY_BYTES]) -> String {
    let mut digits = [0_u8; KEY_CHARS];
    for digit in digits.iter_mut().rev() {
        let mut rest = 0_u16;
        for byte in &mut number {
            let dividend = rest << 8 | u16::from(*byte);
            // The quotient of less than 62 * 256 by 62 is a byte.
            *byte = u8::try_from(dividend / 62).unwrap_or(u8::MAX);
            rest = dividend % 62;
        }
        *digit = u8::try_from(rest).unwrap_or_default();
    }
    KEY_PREFIX.chars().chain(digits.into_iter().map(letter)).collect()
}

fn letter(digit: u8) -> char {
    ALPHABET.get(usize::from(digit)).map_or('0', |byte| char::from(*byte))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_have_the_form_of_the_contract_and_do_not_repeat() {
        let mut seen = BTreeSet::new();
        for kind in [Kind::Key, Kind::Namespace, Kind::Override, Kind::Workspace] {
            for _ in 0..2_000 {
                let id = new_id(kind).unwrap();
                let tail = id.strip_prefix(kind.prefix()).unwrap();
                assert!(tail.len() == 9 && tail.bytes().all(|byte| byte.is_ascii_alphanumeric()));
                assert!(seen.insert(id));
            }
        }
    }

    #[test]
    fn every_letter_is_as_likely_as_every_other() {
        let mut counts = [0_u32; 128];
        for _ in 0..10_000 {
            let id = new_id(Kind::Workspace).unwrap();
            id.bytes().skip(3).for_each(|byte| counts[usize::from(byte)] += 1);
        }
        let counts: Vec<u32> = ALPHABET.iter().map(|byte| counts[usize::from(*byte)]).collect();
        // 1,452 of each are expected; 38 is one standard deviation, and this is ten.
        assert!(counts.iter().all(|count| count.abs_diff(1_452) < 380), "{counts:?}");
    }

    #[test]
    fn a_key_says_all_of_its_bytes() {
        let zero = format!("tidegate_{}", "0".repeat(KEY_CHARS));
        assert_eq!(spell([0; KEY_BYTES]), zero);
        let mut one = [0; KEY_BYTES];
        one[KEY_BYTES - 1] = 63;
        assert_eq!(spell(one), format!("tidegate_{}11", "0".repeat(KEY_CHARS - 2)));
        // 2^256 - 1, as any calculator has it.
        let most = spell([u8::MAX; KEY_BYTES]);
        assert_eq!(most, "tidegate_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp1");
    }

    #[test]
    fn keys_do_not_repeat_and_their_digests_neither() {
        let keys: BTreeSet<String> = (0..1_000).map(|_| new_key().unwrap()).collect();
        let digests: BTreeSet<_> = keys.iter().map(|key| digest(key.as_bytes())).collect();
        assert_eq!((keys.len(), digests.len()), (1_000, 1_000));
        assert!(keys.iter().all(|key| key.len() == "tidegate_".len() + KEY_CHARS));
    }

    #[test]
    fn the_digest_is_blake3() {
        // Of nothing, as its authors published it.
        let hex: String = digest(b"").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
    }
}
