//! The responses that come from us and not from the service.

use http::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use http::{Response, StatusCode};

use super::Rule;
use crate::{Answer, Denial, RequestError};

const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// A denial, with when to come back.
pub(super) fn too_many<B: From<String>>(answer: &Answer, rule: &Rule) -> Response<B> {
    let (limit, remaining) = (answer.limit(), answer.remaining());
    let retry_after_ms = answer.retry_after_ms();
    let wait_s = retry_after_ms.map(whole_seconds);
    let (advice, retry) = match (wait_s, retry_after_ms) {
        (Some(wait_s), Some(wait_ms)) => {
            (format!("Come back in {wait_s} s."), format!(",\"retryAfterMs\":{wait_ms}"))
        }
        _ => ("This request does not fit under it at any time.".to_owned(), String::new()),
    };
    let window = seconds(rule.window().as_millis());
    let (detail, reason) = match answer.denial() {
        Some(Denial::Outage) => (
            format!("Whether the limit of {limit} in {window} has room is not known now. {advice}"),
            ",\"reason\":\"outage\"",
        ),
        _ => (format!("The limit is {limit} in {window}. {advice}"), ""),
    };
    let more = format!(",\"limit\":{limit},\"remaining\":{remaining}{retry}{reason}");
    let mut response = problem(StatusCode::TOO_MANY_REQUESTS, &detail, &more);
    if let Some(wait_s) = wait_s {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait_s));
    }
    response
}

/// The request names someone who cannot be.
pub(super) fn not_identified<B: From<String>>(why: RequestError) -> Response<B> {
    problem(StatusCode::BAD_REQUEST, &format!("The identifier of the caller {why}."), "")
}

/// A problem document. What goes in is our own text and numbers, so nothing has to be escaped.
fn problem<B: From<String>>(status: StatusCode, detail: &str, more: &str) -> Response<B> {
    let (title, code) = (status.canonical_reason().unwrap_or_default(), status.as_u16());
    let body = format!(
        "{{\"type\":\"about:blank\",\"title\":\"{title}\",\"status\":{code},\
         \"detail\":\"{detail}\"{more}}}"
    );
    let mut response = Response::new(B::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, PROBLEM_JSON);
    response
}

/// What the header can say: never too early, and never "at once", which would invite a loop.
fn whole_seconds(ms: u64) -> u64 {
    ms.div_ceil(1_000).max(1)
}

/// A length of time, without a fraction where there is none.
fn seconds(ms: u64) -> String {
    if ms.is_multiple_of(1_000) { format!("{} s", ms / 1_000) } else { format!("{ms} ms") }
}
