//! Answers and problems as the contract writes them.

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use tidegate::{Answer, BatchAnswer, Denial, Source};

use crate::decode::{FieldError, Item};
use crate::problem::Problem;

#[cfg(test)]
mod tests;

/// A whole reply.
pub(crate) type Reply = Response<Full<Bytes>>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

#[derive(Serialize)]
struct Meta<'a> {
    #[serde(rename = "requestId")]
    request_id: &'a str,
}

#[derive(Serialize)]
struct Success<'a, D> {
    meta: Meta<'a>,
    data: D,
}

#[derive(Serialize)]
struct Limited {
    limit: u64,
    remaining: u64,
    reset: u64,
    success: bool,
    #[serde(flatten)]
    denied: Denied,
    #[serde(flatten)]
    known: Option<Known>,
}

#[derive(Serialize)]
struct MultiLimited<'a> {
    passed: bool,
    limits: Vec<LimitedItem<'a>>,
}

#[derive(Serialize)]
struct LimitedItem<'a> {
    namespace: &'a str,
    identifier: &'a str,
    limit: u64,
    remaining: u64,
    reset: u64,
    passed: bool,
    #[serde(flatten)]
    denied: Denied,
    #[serde(flatten)]
    known: Option<Known>,
}

/// What we say of a denial beyond the contract. Clients that do not know these ignore them.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Denied {
    /// Absent when the cost never fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// Absent when it was the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
}

impl Denied {
    fn of(answer: &Answer) -> Self {
        let reason = match answer.denial() {
            Some(Denial::Reserved) => Some("reserved"),
            Some(Denial::Memory) => Some("memory"),
            _ => None,
        };
        let retry_after_ms = if answer.admitted() { None } else { answer.retry_after_ms() };
        Self { retry_after_ms, reason }
    }
}

/// How well the counts of the region were known. Absent where there is none.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    source: &'static str,
    age_ms: u64,
    degraded: bool,
}

impl Known {
    fn of(answer: &Answer, in_region: bool) -> Option<Self> {
        let source = match answer.source() {
            Source::Region => "region",
            _ => "local",
        };
        let (age_ms, degraded) = (answer.age_ms(), answer.degraded());
        in_region.then_some(Self { source, age_ms, degraded })
    }
}

#[derive(Serialize)]
struct Failure<'a> {
    meta: Meta<'a>,
    error: FailureError<'a>,
}

#[derive(Serialize)]
struct FailureError<'a> {
    title: &'a str,
    detail: &'a str,
    status: u16,
    r#type: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<&'a [FieldError]>,
}

/// The answer to one request.
pub(crate) fn limit(request_id: &str, answer: &Answer, in_region: bool) -> Reply {
    let data = Limited {
        limit: answer.limit(),
        remaining: answer.remaining(),
        reset: answer.reset_unix_ms(),
        success: answer.admitted(),
        denied: Denied::of(answer),
        known: Known::of(answer, in_region),
    };
    success(request_id, data)
}

/// The answers to the items of a batch, in their order.
pub(crate) fn multi_limit(
    request_id: &str,
    items: &[Item<'_>],
    answer: &BatchAnswer,
    in_region: bool,
) -> Reply {
    let limits = items.iter().zip(answer.items()).map(|(item, answer)| LimitedItem {
        namespace: item.namespace.as_str(),
        identifier: item.identifier.as_str(),
        limit: answer.limit(),
        remaining: answer.remaining(),
        reset: answer.reset_unix_ms(),
        passed: answer.admitted(),
        denied: Denied::of(answer),
        known: Known::of(answer, in_region),
    });
    let data = MultiLimited { passed: answer.admitted(), limits: limits.collect() };
    success(request_id, data)
}

/// Why there is no answer.
pub(crate) fn problem(request_id: &str, problem: &Problem, headers: &HeaderMap) -> Reply {
    let failure = Failure {
        meta: Meta { request_id },
        error: FailureError {
            title: problem.title,
            detail: &problem.detail,
            status: problem.status.as_u16(),
            r#type: format!("https://unkey.com/docs/errors/{}", problem.kind),
            errors: problem.errors.as_deref(),
        },
    };
    let negotiated = !problem.plain_json && accepts_problem_json(headers);
    let mut reply = encoded(&failure, if negotiated { PROBLEM_JSON } else { JSON });
    *reply.status_mut() = problem.status;
    let headers = reply.headers_mut();
    match problem.status {
        StatusCode::METHOD_NOT_ALLOWED => headers.insert(ALLOW, HeaderValue::from_static("POST")),
        StatusCode::UNAUTHORIZED => {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))
        }
        _ => None,
    };
    if problem.close {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

fn success<D: Serialize>(request_id: &str, data: D) -> Reply {
    encoded(&Success { meta: Meta { request_id }, data }, JSON)
}

fn encoded(body: &impl Serialize, content_type: HeaderValue) -> Reply {
    // Strings and integers can always be encoded.
    let bytes = serde_json::to_vec(body).unwrap_or_default();
    let mut reply = Response::new(Full::new(Bytes::from(bytes)));
    reply.headers_mut().insert(CONTENT_TYPE, content_type);
    reply
}

/// Whether `Accept` lists a type that covers `application/problem+json`. Parameters are ignored,
/// a weight of 0 too: that is how the contract has it.
fn accepts_problem_json(headers: &HeaderMap) -> bool {
    let lists = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
    lists.flat_map(|list| list.split(',')).any(|range| {
        let media_type = range.split(';').next().unwrap_or_default().trim();
        ["application/problem+json", "application/*", "*/*"]
            .iter()
            .any(|accepted| media_type.eq_ignore_ascii_case(accepted))
    })
}
