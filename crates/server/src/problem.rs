//! Everything that can be wrong with a request, as the contract names it.

use std::borrow::Cow;

use hyper::StatusCode;

use crate::decode::FieldError;

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
    /// What `Accept` has no say in: failures of the schema are always plain JSON.
    pub(crate) plain_json: bool,
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
            plain_json: false,
            close: false,
        }
    }

    fn bad_request(kind: &'static str, detail: &'static str) -> Self {
        let problem = Self::new(StatusCode::BAD_REQUEST, "Bad Request", kind, detail);
        Self { errors: Some(Vec::new()), ..problem }
    }

    fn invalid_input(detail: impl Into<Cow<'static, str>>, errors: Vec<FieldError>) -> Self {
        let problem = Self::bad_request("unkey/application/invalid_input", "");
        Self { detail: detail.into(), errors: Some(errors), plain_json: true, ..problem }
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

    pub(crate) fn too_busy() -> Self {
        let problem = Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "Service Unavailable",
            "unkey/application/service_unavailable",
            "Too many bodies are being read at this moment. Try again.",
        );
        Self { close: true, ..problem }
    }

    pub(crate) fn path_not_found() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "Not Found",
            "user/bad_request/path_not_found",
            "There is nothing at this path. \
             The operations are /v2/ratelimit.limit and /v2/ratelimit.multiLimit.",
        )
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "Method Not Allowed",
            "user/bad_request/method_not_allowed",
            "This operation is called with POST.",
        )
    }
}
