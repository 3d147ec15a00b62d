//! Whether the process lives, and whether it wants clients. No store is asked and no key is
//! needed: a store that is away must not take away every process that can do without it.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};

use crate::reply::Reply;

#[cfg(test)]
mod tests;

const LIVE_PATH: &str = "/livez";
const READY_PATH: &str = "/readyz";

/// The reply to a question about health; `None` if the request is something else.
pub(crate) fn answer<B>(request: &Request<B>, ready: bool) -> Option<Reply> {
    let (status, body) = match request.uri().path() {
        LIVE_PATH => (StatusCode::OK, r#"{"status":"live"}"#),
        READY_PATH if ready => (StatusCode::OK, r#"{"status":"ready"}"#),
        READY_PATH => (StatusCode::SERVICE_UNAVAILABLE, r#"{"status":"retiring"}"#),
        _ => return None,
    };
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut reply = json(StatusCode::METHOD_NOT_ALLOWED, r#"{"status":"use GET or HEAD"}"#);
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return Some(reply);
    }
    Some(json(status, body))
}

fn json(status: StatusCode, body: &'static str) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from_static(body.as_bytes())));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Of a moment ago it says nothing.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
