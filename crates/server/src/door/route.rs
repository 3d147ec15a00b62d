//! Which path is what.

use hyper::Method;

use crate::problem::Problem;

/// What can be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Limit,
    MultiLimit,
    SetOverride,
    GetOverride,
    ListOverrides,
    DeleteOverride,
    Explain,
    Inspect,
}

impl Operation {
    pub(super) const ALL: [Self; 8] = [
        Self::Limit,
        Self::MultiLimit,
        Self::SetOverride,
        Self::GetOverride,
        Self::ListOverrides,
        Self::DeleteOverride,
        Self::Explain,
        Self::Inspect,
    ];

    /// Where.
    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Limit => "/v2/ratelimit.limit",
            Self::MultiLimit => "/v2/ratelimit.multiLimit",
            Self::SetOverride => "/v2/ratelimit.setOverride",
            Self::GetOverride => "/v2/ratelimit.getOverride",
            Self::ListOverrides => "/v2/ratelimit.listOverrides",
            Self::DeleteOverride => "/v2/ratelimit.deleteOverride",
            Self::Explain => "/v2/tidegate.explain",
            Self::Inspect => "/v2/tidegate.inspect",
        }
    }
}

/// Where a request leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Call(Operation),
    /// What there is, for machines.
    Document,
}

/// What is asked for.
pub(super) fn route(method: &Method, path: &str) -> Result<Route, Problem> {
    if path == "/openapi.json" {
        let reads = method == Method::GET || method == Method::HEAD;
        return if reads { Ok(Route::Document) } else { Err(Problem::method_not_allowed("GET")) };
    }
    let found = Operation::ALL.into_iter().find(|operation| operation.path() == path);
    let operation = found.ok_or_else(Problem::path_not_found)?;
    let calls = method == Method::POST;
    if calls { Ok(Route::Call(operation)) } else { Err(Problem::method_not_allowed("POST")) }
}
