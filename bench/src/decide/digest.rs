//! Sixteen bytes for a key, for those who want a number: xxh3-128, which was the fastest tried
//! here (two rapidhash of the parts took 4 ns more).

use xxhash_rust::xxh3::xxh3_128;

use super::keys::{IDENTIFIER, Key, NAMESPACE, WORKSPACE};

/// The digest of the parts, laid side by side on the stack. Their sizes are fixed here: no two
/// keys look the same, and the compiler copies each in two moves, which a server could not.
#[inline(always)]
pub(crate) fn digest(key: Key<'_>) -> u128 {
    let mut bytes = [0; WORKSPACE + NAMESPACE + IDENTIFIER];
    let (workspace, rest) = bytes.split_at_mut(WORKSPACE);
    let (namespace, identifier) = rest.split_at_mut(NAMESPACE);
    workspace.copy_from_slice(key.workspace.as_bytes());
    namespace.copy_from_slice(key.namespace.as_bytes());
    identifier.copy_from_slice(key.identifier.as_bytes());
    xxh3_128(&bytes)
}
