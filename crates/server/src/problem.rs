//! Everything that can be wrong with a request, as the contract names it.

use std::borrow::Cow;

use hyper::StatusCode;
use tidegate_stores::control::ControlError;

use crate::control::permission::Action;
use crate::decode::FieldError;
use crate::idempotency::Refusal;

#[cfg(test)]
mod tests;

/// How many namespaces a missing permission names: a batch may have a hundred.
const IDS_NAMED_MAX: usize = 10;

/// As what a problem is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// As `Accept` has it.
    Asked,
    /// As plain JSON: failures of the schema always are.
    Json,
    /// As a problem: a refusal of the workspace's calls always is.
    Problem,
}

/// A change that could not be made.
impl From<ControlError> for Problem {
    fn from(why: ControlError) -> Self {
        match why {
            ControlError::Full { what, max } => Self::full(what, max),
            ControlError::NotFound(_) => Self::namespace_not_found(),
            _ => Self::store_away(),
        }
    }
}

/// A request that is not answered, and why. A denial is not one.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) title: &'static str,
    /// The last three parts of the `type` address.
    pub(crate) kind: &'static str,
    pub(crate) detail: Cow<'static, str>,
    /// The list of field errors, where the contract has one.
    pub(crate) errors: Option<Vec<FieldError>>,
    /// As what it is sent.
    pub(crate) form: Form,
    /// The method that there is.
    pub(crate) allowed: Option<&'static str>,
    /// In how many seconds to come back, if waiting helps.
    pub(crate) retry_after: Option<&'static str>,
    /// The rest of the body is not read, so the connection cannot be used again.
    pub(crate) close: bool,
}

impl Problem {
    fn new(
        status: StatusCode,
        title: &'static str,
        kind: &'static str,
        detail: &'static str,
    ) -> Self {
        Self {
            status,
            title,
            kind,
            detail: Cow::Borrowed(detail),
            errors: None,
            form: Form::Asked,
            allowed: None,
            retry_after: None,
            close: false,
        }
    }

    fn bad_request(kind: &'static str, detail: &'static str) -> Self {
        let problem = Self::new(StatusCode::BAD_REQUEST, "Bad Request", kind, detail);
        Self { errors: Some(Vec::new()), ..problem }
    }

    fn invalid_input(detail: impl Into<Cow<'static, str>>, errors: Vec<FieldError>) -> Self {
        let problem = Self::bad_request("unkey/application/invalid_input", "");
        Self { detail: detail.into(), errors: Some(errors), form: Form::Json, ..problem }
    }

    /// The body breaks the schema; without errors, it is not even JSON.
    pub(crate) fn schema(path: &str, errors: Vec<FieldError>) -> Self {
        let detail = format!("POST request body for '{path}' failed to validate schema");
        Self::invalid_input(detail, errors)
    }

    pub(crate) fn authorization_missing() -> Self {
        let error = FieldError {
            location: "header.Authorization".to_owned(),
            message: Cow::Borrowed("is required"),
            fix: Some("send the header `Authorization: Bearer <root key>`"),
        };
        Self::invalid_input("The Authorization header is missing.", vec![error])
    }

    pub(crate) fn authorization_malformed() -> Self {
        Self::bad_request(
            "unkey/authentication/malformed",
            "The Authorization header must have the form `Bearer <root key>`, once.",
        )
    }

    pub(crate) fn key_not_found() -> Self {
        Self::new(
            StatusCode::UNAUTHORIZED,
            "Unauthorized",
            "unkey/authentication/key_not_found",
            "There is no such root key.",
        )
    }

    pub(crate) fn body_unreadable() -> Self {
        let kind = "user/bad_request/request_body_unreadable";
        let problem = Self::bad_request(kind, "The body could not be read.");
        Self { close: true, ..problem }
    }

    pub(crate) fn body_too_late() -> Self {
        let problem = Self::new(
            StatusCode::REQUEST_TIMEOUT,
            "Request Timeout",
            "user/bad_request/request_timeout",
            "The body did not arrive in time.",
        );
        Self { errors: Some(Vec::new()), close: true, ..problem }
    }

    pub(crate) fn body_too_large() -> Self {
        let problem = Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "Request Entity Too Large",
            "user/bad_request/request_body_too_large",
            "The body is larger than 1 MiB.",
        );
        Self { errors: Some(Vec::new()), close: true, ..problem }
    }

    /// What a key would need: the permission for all namespaces, or the one for each of these.
    pub(crate) fn missing_permissions<'a>(
        action: Action,
        namespaces: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let one = |id: &'a str| format!(" or '{}'", action.permission(Some(id)));
        // A namespace that is not in the store has no id.
        let named = namespaces.into_iter().filter(|id| !id.is_empty());
        let others: String = named.take(IDS_NAMED_MAX).map(one).collect();
        let detail = format!("Missing permission '{}'{others}.", action.permission(None));
        let kind = "unkey/authorization/insufficient_permissions";
        Self { detail: detail.into(), ..Self::forbidden("Insufficient Permissions", kind, "") }
    }

    fn forbidden(title: &'static str, kind: &'static str, detail: &'static str) -> Self {
        Self::new(StatusCode::FORBIDDEN, title, kind, detail)
    }

    pub(crate) fn key_disabled() -> Self {
        let kind = "unkey/authorization/key_disabled";
        Self::forbidden("Key is disabled", kind, "The root key is disabled.")
    }

    pub(crate) fn workspace_disabled() -> Self {
        let kind = "unkey/authorization/workspace_disabled";
        Self::forbidden("Workspace is disabled", kind, "The workspace of this key is disabled.")
    }

    /// There are as many as there may be.
    pub(crate) fn full(what: &str, max: u64) -> Self {
        let detail = format!("There are {max} {what} already, and no more may be made.");
        let problem = Self::forbidden("Forbidden", "unkey/authorization/forbidden", "");
        Self { detail: detail.into(), ..problem }
    }

    fn not_found(kind: &'static str, detail: &'static str) -> Self {
        Self::new(StatusCode::NOT_FOUND, "Not Found", kind, detail)
    }

    pub(crate) fn namespace_not_found() -> Self {
        let kind = "unkey/data/ratelimit_namespace_not_found";
        Self::not_found(kind, "There is no such namespace in this workspace.")
    }

    pub(crate) fn override_not_found() -> Self {
        let kind = "unkey/data/ratelimit_override_not_found";
        Self::not_found(kind, "There is no such override in this namespace.")
    }

    pub(crate) fn namespace_gone() -> Self {
        let kind = "unkey/data/ratelimit_namespace_gone";
        let detail = "This namespace was deleted. `tidegate namespace restore` brings it back.";
        Self::new(StatusCode::GONE, "Resource Gone", kind, detail)
    }

    pub(crate) fn workspace_rate_limited() -> Self {
        let kind = "user/too_many_requests/workspace_rate_limited";
        let detail = "This workspace has made all the calls that it may make in a minute.";
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "Too Many Requests", kind, detail);
        Self { form: Form::Problem, ..problem }
    }

    /// A call that says that it may have been sent before.
    pub(crate) fn not_once(why: Refusal) -> Self {
        let problem = Self::new(why.status(), why.title(), why.kind(), "");
        let errors = (why == Refusal::Malformed).then(Vec::new);
        let retry_after = why.retry_after();
        Self { detail: why.to_string().into(), errors, retry_after, ..problem }
    }

    /// A change could not be stored. Nothing that is only decided ever ends here.
    pub(crate) fn store_away() -> Self {
        let kind = "unkey/application/service_unavailable";
        let detail = "The store of the control plane did not answer. The change may or may not \
                      have been made; making it again does no harm.";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "Internal Server Error", kind, detail)
    }

    pub(crate) fn too_busy() -> Self {
        let problem = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Service Unavailable",
            "unkey/application/service_unavailable",
            "Too many bodies are being read at this moment. Try again.",
        );
        // Whoever holds the room has seconds to finish; most have milliseconds.
        Self { close: true, retry_after: Some("1"), ..problem }
    }

    pub(crate) fn path_not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "Not Found",
            "user/bad_request/path_not_found",
            "There is nothing at this path. GET /openapi.json describes what there is.",
        )
    }

    pub(crate) fn method_not_allowed(allowed: &'static str) -> Self {
        let problem = Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "Method Not Allowed",
            "user/bad_request/method_not_allowed",
            "",
        );
        let detail = format!("This is called with {allowed}.").into();
        Self { detail, allowed: Some(allowed), ..problem }
    }
}
