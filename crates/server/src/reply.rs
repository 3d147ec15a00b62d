//! Answers and problems as the contract writes them.

use std::sync::Arc;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ACCEPT, ALLOW, CONNECTION, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{HeaderMap, Response, StatusCode};
use serde::Serialize;
use tidegate::{Answer, Denial, Source};

use crate::control::overrides::Override;
use crate::decode::FieldError;
use crate::openapi;
use crate::problem::{Form, Problem};

#[cfg(test)]
mod tests;
mod write;

pub(crate) use write::{limit, multi_limit};

/// A whole reply.
pub(crate) type Reply = Response<Full<Bytes>>;

const JSON: HeaderValue = HeaderValue::from_static("application/json");
const PROBLEM_JSON: HeaderValue = HeaderValue::from_static("application/problem+json");

/// Why what the region could not be asked about was denied.
const OUTAGE: &str = "outage";

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

/// One answer, as its caller hears of it.
#[derive(Clone, Debug)]
pub(crate) struct Decided {
    pub(crate) limit: u64,
    pub(crate) remaining: u64,
    pub(crate) reset: u64,
    pub(crate) admitted: bool,
    pub(crate) more: More,
}

/// What we say beyond the contract, but for the id of the override. Clients that do not know
/// these ignore them.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct More {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) override_id: Option<String>,
    /// Absent when it was admitted, and when the cost never fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<u64>,
    /// Absent when it was the limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    /// Absent when the namespace enforces its limits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mode: Option<&'static str>,
    /// It was admitted only because the namespace does not enforce.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) would_deny: Option<bool>,
    #[serde(flatten)]
    pub(crate) known: Option<Known>,
}

/// How well the counts were known. Absent for a process on its own.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Known {
    pub(crate) source: &'static str,
    pub(crate) age_ms: u64,
    pub(crate) degraded: bool,
    /// Which rule held. Absent for a process on its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) consistency: Option<&'static str>,
}

impl Decided {
    /// What the limiter said.
    pub(crate) fn of(answer: &Answer) -> Self {
        let reason = match answer.denial() {
            Some(Denial::Reserved) => Some("reserved"),
            Some(Denial::Memory) => Some("memory"),
            Some(Denial::Outage) => Some(OUTAGE),
            _ => None,
        };
        let retry_after_ms = if answer.admitted() { None } else { answer.retry_after_ms() };
        Self {
            limit: answer.limit(),
            remaining: answer.remaining(),
            reset: answer.reset_unix_ms(),
            admitted: answer.admitted(),
            more: More { retry_after_ms, reason, ..More::default() },
        }
    }

    /// Whether it is as it is because the region could not be asked.
    pub(crate) fn is_outage(&self) -> bool {
        self.more.reason == Some(OUTAGE)
    }
}

impl Known {
    pub(crate) fn of(answer: &Answer) -> Self {
        let source = match answer.source() {
            Source::Region => "region",
            _ => "local",
        };
        let consistency = Some(answer.consistency().as_str());
        Self { source, age_ms: answer.age_ms(), degraded: answer.degraded(), consistency }
    }
}

/// An answer, as the contract writes it.
#[derive(Serialize)]
pub(crate) struct Limited<'a> {
    limit: u64,
    remaining: u64,
    reset: u64,
    success: bool,
    #[serde(flatten)]
    more: &'a More,
}

impl<'a> Limited<'a> {
    pub(crate) const fn of(decided: &'a Decided) -> Self {
        Self {
            limit: decided.limit,
            remaining: decided.remaining,
            reset: decided.reset,
            success: decided.admitted,
            more: &decided.more,
        }
    }
}

/// An override, as it is listed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Overridden<'a> {
    override_id: &'a str,
    identifier: &'a str,
    limit: u64,
    duration: u64,
}

impl<'a> Overridden<'a> {
    pub(crate) fn of(one: &'a Override) -> Self {
        Self {
            override_id: &one.id,
            identifier: &one.pattern,
            limit: one.limit.get(),
            duration: one.window.as_millis(),
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Pagination<'a> {
    has_more: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    cursor: Option<&'a str>,
}

#[derive(Serialize)]
struct Page<'a> {
    meta: Meta<'a>,
    data: Vec<Overridden<'a>>,
    pagination: Pagination<'a>,
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

/// An override was set.
pub(crate) fn override_set(request_id: &str, override_id: &str) -> Reply {
    success_of(request_id, serde_json::json!({ "overrideId": override_id }))
}

/// An override.
pub(crate) fn override_found(request_id: &str, one: &Override) -> Reply {
    success_of(request_id, Overridden::of(one))
}

/// Some overrides, and the id of the next.
pub(crate) fn overrides(request_id: &str, page: &[Arc<Override>], next: Option<&str>) -> Reply {
    let meta = Meta { request_id };
    let data = page.iter().map(|one| Overridden::of(one)).collect();
    let pagination = Pagination { has_more: next.is_some(), cursor: next };
    encoded(&Page { meta, data, pagination }, JSON)
}

/// It is done, and there is nothing to say.
pub(crate) fn done(request_id: &str) -> Reply {
    success_of(request_id, serde_json::Map::new())
}

/// What there is, for machines.
pub(crate) fn document() -> Reply {
    sent(Bytes::from_static(openapi::document().as_bytes()), JSON)
}

/// An answer that is written already.
pub(crate) fn json(body: Bytes) -> Reply {
    sent(body, JSON)
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
    let as_problem = match problem.form {
        Form::Json => false,
        Form::Problem => true,
        Form::Asked => accepts_problem_json(headers),
    };
    let mut reply = encoded(&failure, if as_problem { PROBLEM_JSON } else { JSON });
    *reply.status_mut() = problem.status;
    let headers = reply.headers_mut();
    if problem.status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(method) = problem.allowed {
        headers.insert(ALLOW, HeaderValue::from_static(method));
    }
    if let Some(seconds) = problem.retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from_static(seconds));
    }
    if problem.close {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

pub(crate) fn success_of<D: Serialize>(request_id: &str, data: D) -> Reply {
    encoded(&Success { meta: Meta { request_id }, data }, JSON)
}

fn encoded(body: &impl Serialize, content_type: HeaderValue) -> Reply {
    sent(bytes(body), content_type)
}

fn bytes(body: &impl Serialize) -> Bytes {
    // Strings and integers can always be encoded.
    Bytes::from(serde_json::to_vec(body).unwrap_or_default())
}

fn sent(body: Bytes, content_type: HeaderValue) -> Reply {
    let mut reply = Response::new(Full::new(body));
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
