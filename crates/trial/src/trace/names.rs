//! How fields are called by different programs.

/// Where the time is looked for if nobody says it.
pub(super) const TIMES: &[&str] = &[
    "time",
    "timestamp",
    "ts",
    "@timestamp",
    "time_local",
    "time_iso8601",
    "datetime",
    "date",
    "msec",
    "start_time",
    "at",
];

/// The names of a field, best first: its own, then what others call it.
pub(super) fn aliases(name: &str) -> Vec<String> {
    let more: &[&str] = match name {
        "ip" => &[
            "remote_addr",
            "remote_ip",
            "client_ip",
            "clientip",
            "client.ip",
            "request.client_ip",
            "request.remote_ip",
            "httpRequest.remoteIp",
        ],
        "method" => &[
            "request_method",
            "request.method",
            "http.method",
            "http_method",
            "verb",
            "httpRequest.requestMethod",
        ],
        "path" => &[
            "uri",
            "request_uri",
            "request.uri",
            "request.path",
            "request_path",
            "http.path",
            "target",
            "url",
            "request.url",
            "httpRequest.requestUrl",
        ],
        "query" => &["query_string", "args", "request.query"],
        "status" => &[
            "status_code",
            "response.status",
            "http.status_code",
            "response_code",
            "httpRequest.status",
        ],
        "user" => &["remote_user", "user_id", "userid", "auth_user", "user.id", "user.name"],
        "agent" => &[
            "user_agent",
            "http_user_agent",
            "useragent",
            "request.headers.user-agent",
            "headers.user-agent",
            "httpRequest.userAgent",
        ],
        "referer" => &[
            "referrer",
            "http_referer",
            "request.headers.referer",
            "headers.referer",
            "httpRequest.referer",
        ],
        "bytes" => &["body_bytes_sent", "bytes_sent", "size", "response.bytes"],
        _ => &[],
    };
    let mut names = vec![name.to_owned()];
    names.extend(more.iter().map(|name| (*name).to_owned()));
    if let Some(header) = name.strip_prefix("header.") {
        for place in ["headers", "request.headers", "request_headers", "req.headers"] {
            names.push(format!("{place}.{header}"));
        }
        names.push(format!("http_{}", header.replace('-', "_")));
        names.push(header.to_owned());
    }
    names
}
