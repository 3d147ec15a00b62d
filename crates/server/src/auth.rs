//! Who asks: the key that was sent, and the workspace it belongs to.
//!
//! Promises: a workspace follows from the key alone; nothing that a caller writes elsewhere can
//! name one. A key that is unknown, revoked or expired is refused with the same bytes, after the
//! same work.

use std::hint::black_box;
use std::sync::{Arc, Mutex};

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;

use crate::control::directory::KeyDigest;
use crate::control::permission::Action;
use crate::control::{Directory, Key, Namespace, Workspace};
use crate::ids;
use crate::problem::Problem;

#[cfg(test)]
mod tests;

/// Longest header that is remembered: twice that of a key that we make.
const REMEMBERED_BYTES_MAX: usize = 128;

/// The key that one connection sent last and that was found, with its digest: who sends the same
/// again is not hashed again. What the digest stands for is looked up each time, so a key that was
/// ended is refused at once.
#[derive(Default)]
pub(crate) struct LastKey(Mutex<Option<(Box<[u8]>, KeyDigest)>>);

impl LastKey {
    /// The digest of a key, if it is that one.
    fn digest(&self, key: &[u8]) -> Option<KeyDigest> {
        // Requests of one connection may come at once. Nobody waits for another here.
        let last = self.0.try_lock().ok()?;
        last.as_ref().filter(|(known, _)| is_same(known, key)).map(|(_, digest)| *digest)
    }

    /// A key was found that is another one.
    fn remember(&self, key: &[u8], digest: KeyDigest) {
        if key.len() <= REMEMBERED_BYTES_MAX
            && let Ok(mut last) = self.0.try_lock()
        {
            *last = Some((key.into(), digest));
        }
    }
}

impl std::fmt::Debug for LastKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LastKey(..)")
    }
}

/// Takes as long wherever they differ: several clients may share a connection of a proxy.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differs = a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && black_box(differs) == 0
}

/// Who asks.
#[derive(Clone, Debug)]
pub(crate) struct Caller {
    pub(crate) key: Arc<Key>,
    pub(crate) workspace: Arc<Workspace>,
}

impl Caller {
    /// The caller who sent these headers over a connection with this last key.
    pub(crate) fn of(
        directory: &Directory,
        headers: &HeaderMap,
        last: &LastKey,
        unix_ms: impl FnOnce() -> u64,
    ) -> Result<Self, Problem> {
        let mut sent = headers.get_all(AUTHORIZATION).iter();
        let Some(first) = sent.next() else {
            return Err(Problem::authorization_missing());
        };
        let key = bearer(first.as_bytes());
        // With two of them, which one counts would depend on who reads.
        let key = key.filter(|_| sent.next().is_none());
        let key = key.ok_or_else(Problem::authorization_malformed)?;
        let known = last.digest(key);
        let digest = known.unwrap_or_else(|| ids::digest(key));
        let caller = Self::found(directory, &digest, unix_ms);
        let caller = caller.ok_or_else(Problem::key_not_found)?;
        if known.is_none() {
            last.remember(key, digest);
        }
        caller.check()?;
        Ok(caller)
    }

    /// The caller whose key was seen a moment ago: the key may have been ended meanwhile, and the
    /// workspace is as it is now.
    pub(crate) fn again(
        directory: &Directory,
        key: &Key,
        unix_ms: impl FnOnce() -> u64,
    ) -> Result<Self, Problem> {
        let caller = Self::found(directory, &key.digest, unix_ms);
        let caller = caller.ok_or_else(Problem::key_not_found)?;
        caller.check()?;
        Ok(caller)
    }

    /// The digest is what the key is found by, so how long a search takes says nothing about keys
    /// that are alike. The time is asked for only by a key that ends.
    fn found(
        directory: &Directory,
        digest: &KeyDigest,
        unix_ms: impl FnOnce() -> u64,
    ) -> Option<Self> {
        let key = directory.key(digest)?;
        let workspace = directory.workspace(&key.workspace)?;
        let caller = Self { key: Arc::clone(key), workspace: Arc::clone(workspace) };
        (!key.has_expired(unix_ms)).then_some(caller)
    }

    fn check(&self) -> Result<(), Problem> {
        if !self.workspace.enabled {
            return Err(Problem::workspace_disabled());
        }
        if !self.key.enabled {
            return Err(Problem::key_disabled());
        }
        Ok(())
    }

    /// Whether the caller may do this in every namespace.
    pub(crate) fn may_everywhere(&self, action: Action) -> Result<(), Problem> {
        let allowed = self.key.grants.everywhere(action);
        if allowed { Ok(()) } else { Err(Problem::missing_permissions(action, [])) }
    }

    /// Whether the caller may do this in the namespaces with these ids.
    pub(crate) fn may_ids(&self, action: Action, ids: &[&str]) -> Result<(), Problem> {
        let missing = |id: &&str| !self.key.grants.within(action, id);
        let missing: Vec<&str> = ids.iter().copied().filter(missing).collect();
        if missing.is_empty() { Ok(()) } else { Err(Problem::missing_permissions(action, missing)) }
    }

    /// Whether the caller may do this in all of these namespaces.
    pub(crate) fn may<'a>(
        &self,
        action: Action,
        namespaces: impl IntoIterator<Item = &'a Namespace>,
    ) -> Result<(), Problem> {
        let ids: Vec<&str> = namespaces.into_iter().map(|namespace| &*namespace.id).collect();
        self.may_ids(action, &ids)
    }
}

/// The key in `Bearer <key>`. The scheme's case does not matter, as HTTP has it.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, key) = value.split_at_checked(b"Bearer ".len())?;
    let key = key.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !key.is_empty()).then_some(key)
}
