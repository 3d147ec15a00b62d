//! What a call is called, and how its reply is sealed.
//!
//! Names and fingerprints are keyed digests, as those of subjects are: no text of a user leaves the
//! process. A reply may hold such text (a batch repeats its identifiers), so it is *sealed* before
//! it does: mixed with a stream of bytes that follows from the whole call, and tagged. Whoever
//! sends the call again can read it, because he knows the call; whoever only sees the store cannot.
//! A stream is never used twice: it also follows from the claimant, who is never the same.

use tidegate_limiter::Digest;

use super::Call;

/// Separates these digests from all others that are made with the fleet secret. A change of what
/// is digested or sealed is a change of the number at its end.
const CONTEXT: &str = "tidegate calls that are answered once 2";

/// Bytes of a claimant and of a tag before what is sealed.
const CLAIMANT: usize = 16;
const TAG: usize = 16;
/// What sealing adds to a reply.
pub(super) const SEAL_BYTES: usize = CLAIMANT + TAG;

/// What a digest is for is its first byte: no two kinds of digest are ever the same.
const OF_WORKSPACE: u8 = 1;
const OF_NAME: u8 = 2;
const OF_WHAT_IS_SAID: u8 = 3;
const OF_SEAL: u8 = 4;
const OF_STREAM: u8 = 5;
const OF_TAG: u8 = 6;
const OF_FINGERPRINT: u8 = 7;

/// The key of all digests.
pub(super) struct Names([u8; 32]);

/// Whose call it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Workspace([u8; 16]);

/// Everything that is derived from a call.
#[derive(Clone, Copy)]
pub(super) struct Ticket {
    pub(super) workspace: Workspace,
    pub(super) name: Digest,
    pub(super) fingerprint: [u8; 16],
    seal: [u8; 32],
}

impl Names {
    /// With the secret of the fleet, if it has one: all its processes have the same names.
    pub(super) fn new(secret: Option<[u8; 32]>) -> Self {
        Self(blake3::derive_key(CONTEXT, secret.as_ref().map_or(&[], |secret| secret.as_slice())))
    }

    pub(super) fn ticket(&self, call: &Call<'_>) -> Ticket {
        let (workspace, key) = (call.workspace.as_bytes(), call.key.as_bytes());
        let said = digest(&self.0, OF_WHAT_IS_SAID, &[call.operation.as_bytes(), call.body]);
        // With whose it is: of two workspaces that say the same, a store must not know that.
        let whole = [workspace, key, said.as_slice()];
        Ticket {
            workspace: Workspace(half(digest(&self.0, OF_WORKSPACE, &[workspace]))),
            name: Digest::from_bytes(half(digest(&self.0, OF_NAME, &[workspace, key]))),
            fingerprint: half(digest(&self.0, OF_FINGERPRINT, &whole)),
            seal: digest(&self.0, OF_SEAL, &whole),
        }
    }
}

impl Ticket {
    /// A reply as it may leave the process: the claimant, a tag, and the reply mixed with a stream.
    pub(super) fn seal(&self, claimant: u128, reply: &[u8]) -> Vec<u8> {
        let claimant = claimant.to_be_bytes();
        let mixed = self.mix(&claimant, reply);
        let tag = self.tag(&claimant, &mixed);
        [&claimant[..], &tag, &mixed].concat()
    }

    /// The reply in what was sealed; `None` if it was not sealed for this call, or is damaged.
    pub(super) fn open(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let (claimant, rest) = sealed.split_first_chunk::<CLAIMANT>()?;
        let (tag, mixed) = rest.split_first_chunk::<TAG>()?;
        is_same(&self.tag(claimant, mixed), tag).then(|| self.mix(claimant, mixed))
    }

    /// Mixes with the stream; once more gives back what it was.
    fn mix(&self, claimant: &[u8; CLAIMANT], bytes: &[u8]) -> Vec<u8> {
        let mut stream = vec![0; bytes.len()];
        hasher(&self.seal, OF_STREAM, &[claimant]).finalize_xof().fill(&mut stream);
        stream.iter_mut().zip(bytes).for_each(|(stream, byte)| *stream ^= byte);
        stream
    }

    fn tag(&self, claimant: &[u8; CLAIMANT], mixed: &[u8]) -> [u8; TAG] {
        half(digest(&self.seal, OF_TAG, &[claimant, mixed]))
    }
}

/// Keyed BLAKE3 over what it is for and the parts, each with its length before it.
fn hasher(key: &[u8; 32], what: u8, parts: &[&[u8]]) -> blake3::Hasher {
    let mut hasher = blake3::Hasher::new_keyed(key);
    hasher.update(&[what]);
    for part in parts {
        hasher.update(&u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hasher.update(part);
    }
    hasher
}

fn digest(key: &[u8; 32], what: u8, parts: &[&[u8]]) -> [u8; 32] {
    *hasher(key, what, parts).finalize().as_bytes()
}

/// Compares in a time that does not say where they differ: `blake3::Hash` does so.
fn is_same(one: &[u8; TAG], other: &[u8; TAG]) -> bool {
    let wide = |tag: &[u8; TAG]| {
        let mut wide = [0; 32];
        wide.iter_mut().zip(tag).for_each(|(to, from)| *to = *from);
        blake3::Hash::from_bytes(wide)
    };
    wide(one) == wide(other)
}

fn half(digest: [u8; 32]) -> [u8; 16] {
    let mut half = [0; 16];
    half.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    half
}

#[cfg(test)]
mod tests {
    use super::super::IdempotencyKey;
    use super::*;

    fn ticket(secret: Option<[u8; 32]>, parts: [&'static str; 4]) -> Ticket {
        let [workspace, key, operation, body] = parts;
        let key = IdempotencyKey::parse(key.as_bytes()).unwrap();
        Names::new(secret).ticket(&Call { workspace, key, operation, body: body.as_bytes() })
    }

    #[test]
    fn a_name_is_of_the_workspace_and_the_key_and_a_fingerprint_of_all() {
        let one = ticket(None, ["w", "k", "limit", "{}"]);
        let same = |other: &Ticket| (other.name == one.name, other.fingerprint == one.fingerprint);
        assert_eq!(same(&ticket(None, ["w", "k", "limit", "{}"])), (true, true));
        for (parts, expected) in [
            (["w", "k", "limit", "{ }"], (true, false)),
            (["w", "k", "multiLimit", "{}"], (true, false)),
            (["w", "k", "limi", "t{}"], (true, false)),
            (["v", "k", "limit", "{}"], (false, false)),
            (["w", "K", "limit", "{}"], (false, false)),
            (["wk", "k", "limit", "{}"], (false, false)),
        ] {
            assert_eq!(same(&ticket(None, parts)), expected, "{parts:?}");
        }
        assert_eq!(same(&ticket(Some([1; 32]), ["w", "k", "limit", "{}"])), (false, false));
    }

    #[test]
    fn what_is_sealed_can_be_read_by_who_knows_the_call_and_nobody_else() {
        let one = ticket(None, ["w", "k", "limit", "{}"]);
        let reply = b"{\"identifier\":\"ann\"}".repeat(10);
        let sealed = one.seal(7, &reply);
        assert_eq!(sealed.len(), reply.len() + SEAL_BYTES);
        assert!(!sealed.windows(3).any(|three| three == b"ann"));
        assert_eq!(one.open(&sealed), Some(reply.clone()));
        assert_ne!(one.seal(8, &reply)[SEAL_BYTES..], sealed[SEAL_BYTES..], "another stream");
        for other in [
            ticket(None, ["w", "k", "limit", "{ }"]),
            ticket(None, ["w", "K", "limit", "{}"]),
            ticket(Some([1; 32]), ["w", "k", "limit", "{}"]),
        ] {
            assert_eq!(other.open(&sealed), None);
        }
        for at in [0, 16, sealed.len() - 1] {
            let mut damaged = sealed.clone();
            damaged[at] ^= 1;
            assert_eq!(one.open(&damaged), None);
        }
        assert_eq!(one.open(&sealed[..31]), None);
        assert_eq!(one.open(&one.seal(9, b"")), Some(vec![]));
    }
}
