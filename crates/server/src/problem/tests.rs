use super::*;

/// Status, title and the end of `type`, as the contract has them. What is not here is ours, or is
/// never sent: nobody could read a 499, and there is one kind of credential.
#[test]
fn problems_are_called_what_the_contract_calls_them() {
    let forbidden = "Insufficient Permissions";
    for (problem, status, title, kind) in [
        (Problem::schema("/", Vec::new()), 400, "Bad Request", "unkey/application/invalid_input"),
        (Problem::authorization_missing(), 400, "Bad Request", "unkey/application/invalid_input"),
        (Problem::authorization_malformed(), 400, "Bad Request", "unkey/authentication/malformed"),
        (
            Problem::body_unreadable(),
            400,
            "Bad Request",
            "user/bad_request/request_body_unreadable",
        ),
        (Problem::key_not_found(), 401, "Unauthorized", "unkey/authentication/key_not_found"),
        (
            Problem::missing_permissions(Action::Limit, []),
            403,
            forbidden,
            "unkey/authorization/insufficient_permissions",
        ),
        (Problem::key_disabled(), 403, "Key is disabled", "unkey/authorization/key_disabled"),
        (
            Problem::workspace_disabled(),
            403,
            "Workspace is disabled",
            "unkey/authorization/workspace_disabled",
        ),
        (Problem::full("namespaces", 1), 403, "Forbidden", "unkey/authorization/forbidden"),
        (
            Problem::namespace_not_found(),
            404,
            "Not Found",
            "unkey/data/ratelimit_namespace_not_found",
        ),
        (
            Problem::override_not_found(),
            404,
            "Not Found",
            "unkey/data/ratelimit_override_not_found",
        ),
        (Problem::body_too_late(), 408, "Request Timeout", "user/bad_request/request_timeout"),
        (Problem::namespace_gone(), 410, "Resource Gone", "unkey/data/ratelimit_namespace_gone"),
        (
            Problem::body_too_large(),
            413,
            "Request Entity Too Large",
            "user/bad_request/request_body_too_large",
        ),
        (
            Problem::workspace_rate_limited(),
            429,
            "Too Many Requests",
            "user/too_many_requests/workspace_rate_limited",
        ),
        (
            Problem::store_away(),
            500,
            "Internal Server Error",
            "unkey/application/service_unavailable",
        ),
    ] {
        assert_eq!((problem.status.as_u16(), problem.title, problem.kind), (status, title, kind));
        // Those that the contract gives a list of errors have one, and no others.
        let lists = matches!(status, 400 | 408 | 413);
        assert_eq!(problem.errors.is_some(), lists, "{kind}");
    }
}
