//! How many calls a workspace may make: the limiter limits those who use it.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue, RETRY_AFTER};
use tidegate::{Cost, Denial, Limit, Part, Request, RequestError, Subject, Window};

use super::Door;
use crate::auth::Caller;

/// Where these calls are counted. Workspaces have other names, so nobody else counts here.
const PLACE: &str = "workspace.ratelimit";
/// What a workspace's cap is for.
const MINUTE_MS: u64 = 60_000;

const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

/// How a workspace stands with its calls.
#[derive(Debug)]
pub(super) enum Throttled {
    /// It may make as many as it likes.
    Free,
    /// It may make none.
    Closed,
    /// It may make so many.
    Counted { admitted: bool, limit: u64, remaining: u64, reset_s: u64 },
}

impl Throttled {
    pub(super) const fn is_exhausted(&self) -> bool {
        matches!(self, Self::Closed | Self::Counted { admitted: false, .. })
    }

    /// Says it in the head of a reply.
    pub(super) fn mark(&self, headers: &mut HeaderMap) {
        let Self::Counted { admitted, limit, remaining, reset_s } = *self else { return };
        headers.insert(LIMIT, HeaderValue::from(limit));
        headers.insert(REMAINING, HeaderValue::from(remaining));
        headers.insert(RESET, HeaderValue::from(reset_s));
        if !admitted {
            headers.insert(RETRY_AFTER, HeaderValue::from(reset_s));
        }
    }
}

impl Door {
    /// Counts one call of the caller's workspace.
    pub(super) async fn throttle(&self, caller: &Caller) -> Throttled {
        match caller.workspace.requests_per_minute {
            None => Throttled::Free,
            Some(0) => Throttled::Closed,
            Some(limit) => match counted(&caller.workspace.id, limit) {
                Ok(request) => {
                    let consistency = self.live.defaults().consistency;
                    self.throttle_by(&request.with_consistency(consistency)).await
                }
                // No such workspace can be stored; should there be one, its calls are free.
                Err(_) => Throttled::Free,
            },
        }
    }

    async fn throttle_by(&self, request: &Request<'_>) -> Throttled {
        let answer = self.limiter.check(request).await;
        // Only the cap refuses. A full memory is no reason to refuse all calls.
        if matches!(answer.denial(), Some(Denial::Memory | Denial::Reserved)) {
            return Throttled::Free;
        }
        let left_ms = answer.reset_unix_ms().saturating_sub(self.control.unix_ms());
        Throttled::Counted {
            admitted: answer.admitted(),
            limit: answer.limit(),
            remaining: answer.remaining(),
            reset_s: left_ms / 1_000,
        }
    }
}

fn counted(workspace: &str, limit: u64) -> Result<Request<'_>, RequestError> {
    let (place, window) = (Part::new(PLACE)?, Window::from_millis(MINUTE_MS)?);
    let subject = Subject::new(place, place, Part::new(workspace)?, window);
    Ok(Request::new(subject, Limit::new(limit), Cost::ONE))
}
