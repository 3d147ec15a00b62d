//! Who asks: one key, one workspace.

use std::fmt;
use std::hint::black_box;

use hyper::HeaderMap;
use hyper::header::AUTHORIZATION;
use tidegate::Part;

use crate::problem::Problem;

/// The key that opens the door and the workspace behind it.
pub struct RootKey {
    key: String,
    workspace: Part<'static>,
}

impl RootKey {
    /// Whoever sends `key` acts in `workspace`.
    #[must_use]
    pub const fn new(key: String, workspace: Part<'static>) -> Self {
        Self { key, workspace }
    }

    /// The workspace of the caller. It follows from the key alone; nothing that a caller writes
    /// elsewhere can name one.
    pub(crate) fn authenticate(&self, headers: &HeaderMap) -> Result<Part<'static>, Problem> {
        let mut sent = headers.get_all(AUTHORIZATION).iter();
        let Some(first) = sent.next() else {
            return Err(Problem::authorization_missing());
        };
        let key = bearer(first.as_bytes());
        // With two of them, which one counts would depend on who reads.
        let key = key.filter(|_| sent.next().is_none());
        let key = key.ok_or_else(Problem::authorization_malformed)?;
        if same(key, self.key.as_bytes()) {
            Ok(self.workspace)
        } else {
            Err(Problem::key_not_found())
        }
    }
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is a secret.
        f.debug_struct("RootKey").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// The key in `Bearer <key>`. The scheme's case does not matter, as HTTP has it.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, key) = value.split_at_checked(b"Bearer ".len())?;
    let key = key.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !key.is_empty()).then_some(key)
}

/// Compares in a time that does not depend on where the two differ, so that a key cannot be
/// guessed byte by byte. Its length may leak.
fn same(sent: &[u8], key: &[u8]) -> bool {
    if sent.len() != key.len() {
        return false;
    }
    // Without the black box a compiler may return at the first difference.
    let difference = sent.iter().zip(key).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
    difference == 0
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    fn status_with(values: &[&[u8]]) -> Result<&'static str, (u16, &'static str)> {
        let root_key = RootKey::new("secret".to_owned(), Part::new("ws_test").unwrap());
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        }
        let workspace = root_key.authenticate(&headers);
        workspace.map(Part::as_str).map_err(|problem| (problem.status.as_u16(), problem.kind))
    }

    #[test]
    fn only_the_key_opens_the_door() {
        for good in [&b"Bearer secret"[..], b"bearer secret", b"BEARER  secret "] {
            assert_eq!(status_with(&[good]), Ok("ws_test"));
        }
        for unknown in [&b"Bearer secre"[..], b"Bearer secret2", b"Bearer Secret", b"Bearer \xff"] {
            assert_eq!(status_with(&[unknown]), Err((401, "unkey/authentication/key_not_found")));
        }
        for malformed in
            [&b""[..], b"secret", b"Bearer", b"Bearer ", b"Basic secret", b"Bearersecret"]
        {
            assert_eq!(status_with(&[malformed]), Err((400, "unkey/authentication/malformed")));
        }
        assert_eq!(
            status_with(&[b"Bearer secret", b"Bearer secret"]),
            Err((400, "unkey/authentication/malformed"))
        );
        assert_eq!(status_with(&[]), Err((400, "unkey/application/invalid_input")));
    }

    #[test]
    fn a_key_is_never_printed() {
        let root_key = RootKey::new("secret".to_owned(), Part::new("ws_test").unwrap());
        assert!(!format!("{root_key:?}").contains("secret"));
    }
}
