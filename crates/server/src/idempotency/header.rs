//! The headers, and what is wrong with a call that has one.

use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use thiserror::Error;

/// What a caller calls a call. [`IdempotencyKey`] has an example.
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// Says that the reply is that of an earlier call. [`Scope`] has an example.
pub const IDEMPOTENCY_REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// Says who remembers the reply. [`Scope`] has an example.
pub const IDEMPOTENCY_SCOPE: HeaderName = HeaderName::from_static("idempotency-scope");

/// Longest key: seven times a UUID. [`IdempotencyKey`] has an example.
pub const KEY_CHARS_MAX: usize = 255;
/// In how many seconds a call may be tried again whose like is under way: what a header can say
/// at least.
const RETRY_AFTER_S: &str = "1";

/// What a caller calls a call: 1 to 255 visible ASCII characters.
///
/// ```
/// use hyper::HeaderMap;
/// use hyper::header::HeaderValue;
/// use tidegate_server::idempotency::{IDEMPOTENCY_KEY, IdempotencyKey, KEY_CHARS_MAX, Refusal};
///
/// let mut headers = HeaderMap::new();
/// assert_eq!(IdempotencyKey::of(&headers), Ok(None));
/// headers.insert(IDEMPOTENCY_KEY, HeaderValue::from_static("order-17"));
/// let key = IdempotencyKey::of(&headers)?.map(|key| key.as_bytes());
/// assert_eq!(key, Some(&b"order-17"[..]));
///
/// let long = "k".repeat(KEY_CHARS_MAX + 1);
/// assert_eq!(IdempotencyKey::parse(long.as_bytes()), Err(Refusal::Malformed));
/// # Ok::<(), Refusal>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdempotencyKey<'a>(&'a [u8]);

impl<'a> IdempotencyKey<'a> {
    /// Reads a key. The [type](Self) has an example.
    ///
    /// # Errors
    /// [`Refusal::Malformed`].
    pub fn parse(text: &'a [u8]) -> Result<Self, Refusal> {
        let fits = (1..=KEY_CHARS_MAX).contains(&text.len());
        let visible = text.iter().all(u8::is_ascii_graphic);
        if fits && visible { Ok(Self(text)) } else { Err(Refusal::Malformed) }
    }

    /// The key in the head of a request, if there is one. The [type](Self) has an example.
    ///
    /// # Errors
    /// [`Refusal::Malformed`], also if there are two: which one counts would depend on who reads.
    pub fn of(headers: &'a HeaderMap) -> Result<Option<Self>, Refusal> {
        let mut sent = headers.get_all(IDEMPOTENCY_KEY).iter();
        let Some(first) = sent.next() else { return Ok(None) };
        if sent.next().is_some() {
            return Err(Refusal::Malformed);
        }
        Self::parse(first.as_bytes()).map(Some)
    }

    /// Its characters. The [type](Self) has an example.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        self.0
    }
}

/// How far the promise goes that a call is charged once.
///
/// ```
/// use hyper::HeaderMap;
/// use tidegate_server::idempotency::{IDEMPOTENCY_REPLAYED, IDEMPOTENCY_SCOPE, Scope};
///
/// let mut headers = HeaderMap::new();
/// Scope::Region.mark(&mut headers, true);
/// assert_eq!(headers[IDEMPOTENCY_SCOPE], "region");
/// assert_eq!(headers[IDEMPOTENCY_REPLAYED], "true");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// As long as the same process gets it again.
    Node,
    /// Whichever process of the region gets it.
    Region,
}

impl Scope {
    /// Says it in the head of a reply, and whether the reply is that of an earlier call. The
    /// [type](Self) has an example.
    pub fn mark(self, headers: &mut HeaderMap, replayed: bool) {
        let scope = match self {
            Self::Node => "node",
            Self::Region => "region",
        };
        headers.insert(IDEMPOTENCY_SCOPE, HeaderValue::from_static(scope));
        if replayed {
            headers.insert(IDEMPOTENCY_REPLAYED, HeaderValue::from_static("true"));
        }
    }
}

/// Why a call with a key is not answered.
///
/// ```
/// use tidegate_server::idempotency::Refusal;
///
/// let refusal = Refusal::InProgress;
/// assert_eq!((refusal.status().as_u16(), refusal.title()), (409, "Conflict"));
/// assert!(refusal.kind().ends_with("/idempotency_in_progress"));
/// assert_eq!(refusal.retry_after(), Some("1"), "seconds");
/// assert_eq!(Refusal::Reused.retry_after(), None, "waiting does not help");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Not a key.
    #[error(
        "The Idempotency-Key header must have 1 to 255 visible ASCII characters, without spaces, \
         and be there once."
    )]
    Malformed,
    /// The key belongs to another call.
    #[error(
        "This Idempotency-Key was used for a call with another operation or body. \
         Use a new key for a new call."
    )]
    Reused,
    /// The first call with this key is not decided yet.
    #[error("A call with this Idempotency-Key is under way. Send it again in a second.")]
    InProgress,
}

impl Refusal {
    /// The status of the reply. The [type](Self) has an example.
    #[must_use]
    pub const fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Reused => StatusCode::UNPROCESSABLE_ENTITY,
            Self::InProgress => StatusCode::CONFLICT,
        }
    }

    /// The title of the problem. The [type](Self) has an example.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Malformed => "Bad Request",
            Self::Reused => "Unprocessable Content",
            Self::InProgress => "Conflict",
        }
    }

    /// The last three parts of the problem's `type`. The [type](Self) has an example.
    #[must_use]
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Malformed => "user/bad_request/idempotency_key_malformed",
            Self::Reused => "user/bad_request/idempotency_key_reused",
            Self::InProgress => "user/bad_request/idempotency_in_progress",
        }
    }

    /// What `Retry-After` says, if waiting helps. The [type](Self) has an example.
    #[must_use]
    pub const fn retry_after(self) -> Option<&'static str> {
        match self {
            Self::InProgress => Some(RETRY_AFTER_S),
            Self::Malformed | Self::Reused => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_1_to_255_visible_characters() {
        let longest = "k".repeat(255);
        for good in ["a", "order-17", "\"quoted\"", "~!@#", longest.as_str()] {
            assert!(IdempotencyKey::parse(good.as_bytes()).is_ok(), "{good}");
        }
        let too_long = "k".repeat(256);
        for bad in ["", " ", "a b", "a\t", "é", "\u{7f}", too_long.as_str()] {
            let refused = IdempotencyKey::parse(bad.as_bytes());
            assert_eq!(refused, Err(Refusal::Malformed), "{bad}");
        }
    }

    #[test]
    fn a_key_is_there_once() {
        let mut headers = HeaderMap::new();
        assert_eq!(IdempotencyKey::of(&headers), Ok(None));
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("a"));
        assert_eq!(IdempotencyKey::of(&headers), Ok(Some(IdempotencyKey(b"a"))));
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_static("a"));
        assert_eq!(IdempotencyKey::of(&headers), Err(Refusal::Malformed));
        let mut headers = HeaderMap::new();
        headers.append(IDEMPOTENCY_KEY, HeaderValue::from_bytes(b"\xff").unwrap());
        assert_eq!(IdempotencyKey::of(&headers), Err(Refusal::Malformed));
    }

    #[test]
    fn a_reply_says_how_far_the_promise_goes() {
        let mut headers = HeaderMap::new();
        Scope::Node.mark(&mut headers, false);
        assert_eq!(headers[IDEMPOTENCY_SCOPE], "node");
        assert!(!headers.contains_key(IDEMPOTENCY_REPLAYED));
        Scope::Region.mark(&mut headers, true);
        assert_eq!(headers[IDEMPOTENCY_SCOPE], "region");
        assert_eq!(headers[IDEMPOTENCY_REPLAYED], "true");
    }

    #[test]
    fn only_waiting_for_another_call_helps() {
        let said = |refusal: Refusal| (refusal.status().as_u16(), refusal.retry_after());
        assert_eq!(said(Refusal::Malformed), (400, None));
        assert_eq!(said(Refusal::Reused), (422, None));
        assert_eq!(said(Refusal::InProgress), (409, Some("1")));
    }
}
