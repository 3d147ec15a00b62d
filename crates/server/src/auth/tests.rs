use hyper::header::HeaderValue;
use tidegate_stores::control::{Changes, KeyRow, WorkspaceRow};

use super::*;

const NOW_MS: u64 = 1_700_000_000_000;

fn directory() -> Directory {
    let workspace = |id: &str, enabled| WorkspaceRow {
        id: id.to_owned(),
        name: id.to_owned(),
        enabled,
        requests_per_minute: None,
        created_ms: 0,
    };
    let key = |key: &str, workspace: &str| KeyRow {
        id: format!("key_{key}"),
        workspace: workspace.to_owned(),
        name: String::new(),
        digest: ids::digest(key.as_bytes()),
        permissions: Vec::new(),
        enabled: true,
        created_ms: 0,
        expires_ms: None,
        revoked_ms: None,
    };
    Directory::default().with(Changes {
        workspaces: vec![
            workspace("ws_a", true),
            workspace("ws_b", true),
            workspace("ws_c", false),
        ],
        keys: vec![
            key("secret", "ws_a"),
            key("other", "ws_b"),
            KeyRow { enabled: false, ..key("disabled", "ws_a") },
            KeyRow { expires_ms: Some(NOW_MS), ..key("expired", "ws_a") },
            KeyRow { expires_ms: Some(NOW_MS + 1), ..key("expiring", "ws_a") },
            KeyRow { revoked_ms: Some(NOW_MS), ..key("revoked", "ws_a") },
            key("homeless", "ws_gone"),
            key("closed", "ws_c"),
        ],
        ..Changes::default()
    })
}

fn workspace_of(values: &[&[u8]]) -> Result<String, (u16, &'static str)> {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
    }
    let caller = Caller::of(&directory(), &headers, &LastKey::default(), || NOW_MS);
    caller
        .map(|caller| caller.workspace.id.clone())
        .map_err(|problem| (problem.status.as_u16(), problem.kind))
}

#[test]
fn a_key_opens_its_workspace_only() {
    for good in [&b"Bearer secret"[..], b"bearer secret", b"BEARER  secret ", b"Bearer expiring"] {
        assert_eq!(workspace_of(&[good]), Ok("ws_a".to_owned()));
    }
    assert_eq!(workspace_of(&[b"Bearer other"]), Ok("ws_b".to_owned()));
    for malformed in [&b""[..], b"secret", b"Bearer", b"Bearer ", b"Basic secret", b"Bearersecret"]
    {
        assert_eq!(workspace_of(&[malformed]), Err((400, "unkey/authentication/malformed")));
    }
    let twice: [&[u8]; 2] = [b"Bearer secret", b"Bearer secret"];
    assert_eq!(workspace_of(&twice), Err((400, "unkey/authentication/malformed")));
    assert_eq!(workspace_of(&[]), Err((400, "unkey/application/invalid_input")));
}

#[test]
fn keys_that_were_are_like_keys_that_never_were() {
    for unknown in [
        &b"Bearer secre"[..],
        b"Bearer secret2",
        b"Bearer Secret",
        b"Bearer \xff",
        b"Bearer expired",
        b"Bearer revoked",
        b"Bearer homeless",
    ] {
        assert_eq!(workspace_of(&[unknown]), Err((401, "unkey/authentication/key_not_found")));
    }
}

#[test]
fn what_is_disabled_says_so() {
    let disabled = workspace_of(&[b"Bearer disabled"]);
    assert_eq!(disabled, Err((403, "unkey/authorization/key_disabled")));
    let closed = workspace_of(&[b"Bearer closed"]);
    assert_eq!(closed, Err((403, "unkey/authorization/workspace_disabled")));
}

#[test]
fn a_connection_may_change_its_key_and_a_key_that_was_ended_is_refused_at_once() {
    let last = LastKey::default();
    let mut directory = directory();
    let ask = |directory: &Directory, key: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {key}")).unwrap());
        let caller = Caller::of(directory, &headers, &last, || NOW_MS);
        caller.map(|caller| caller.workspace.id.clone()).map_err(|problem| problem.kind)
    };
    for _ in 0..2 {
        assert_eq!(ask(&directory, "secret"), Ok("ws_a".to_owned()));
        assert_eq!(ask(&directory, "secret"), Ok("ws_a".to_owned()));
        assert_eq!(ask(&directory, "other"), Ok("ws_b".to_owned()));
        // As long as the one before, and of another length.
        for unknown in ["othes", "othe", "otherr", "", &"x".repeat(REMEMBERED_BYTES_MAX + 1)] {
            assert!(ask(&directory, unknown).is_err(), "{unknown}");
        }
    }
    assert_eq!(ask(&directory, "secret"), Ok("ws_a".to_owned()));
    let revoked = KeyRow {
        id: "key_secret".to_owned(),
        workspace: "ws_a".to_owned(),
        name: String::new(),
        digest: ids::digest(b"secret"),
        permissions: Vec::new(),
        enabled: true,
        created_ms: 0,
        expires_ms: None,
        revoked_ms: Some(NOW_MS),
    };
    directory = directory.with(Changes { keys: vec![revoked], ..Changes::default() });
    assert_eq!(ask(&directory, "secret"), Err("unkey/authentication/key_not_found"));
}

#[test]
fn what_is_compared_is_all_of_it() {
    let key = b"0123456789";
    assert!(is_same(key, key) && is_same(b"", b""));
    for at in 0..key.len() {
        let mut other = *key;
        other[at] ^= 1;
        assert!(!is_same(key, &other));
        assert!(!is_same(key, &key[..at]) && !is_same(&key[..at], key));
    }
}
