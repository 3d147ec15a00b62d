use super::*;

fn accepts(values: &[&'static str]) -> bool {
    let mut headers = HeaderMap::new();
    for value in values {
        headers.append(ACCEPT, HeaderValue::from_static(value));
    }
    accepts_problem_json(&headers)
}

#[test]
fn problem_json_is_sent_to_whoever_lists_it() {
    for yes in [
        "*/*",
        "application/*",
        "application/problem+json",
        "Application/Problem+JSON",
        "application/json, application/problem+json;q=0.5",
        "text/html,application/xhtml+xml,*/*;q=0.8",
        "application/problem+json;q=0",
    ] {
        assert!(accepts(&[yes]), "{yes}");
    }
    for no in ["application/json", "", "text/*", "application/problem", "application/json;x=*/*"] {
        assert!(!accepts(&[no]), "{no}");
    }
    assert!(!accepts(&[]));
    assert!(accepts(&["application/json", "*/*"]), "a list may be spread over several headers");
}

#[test]
fn failures_of_the_schema_are_always_plain_json() {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    let content_type = |problem: Problem| {
        super::problem("req_1", &problem, &headers).headers()[CONTENT_TYPE].clone()
    };
    assert_eq!(content_type(Problem::schema("/", Vec::new())), JSON);
    assert_eq!(content_type(Problem::authorization_missing()), JSON);
    assert_eq!(content_type(Problem::authorization_malformed()), PROBLEM_JSON);
    assert_eq!(content_type(Problem::key_not_found()), PROBLEM_JSON);
    assert_eq!(content_type(Problem::body_too_large()), PROBLEM_JSON);
}

#[test]
fn a_connection_with_an_unread_body_is_not_used_again() {
    for (problem, close) in [
        (Problem::body_too_large(), true),
        (Problem::body_too_late(), true),
        (Problem::body_unreadable(), true),
        (Problem::key_not_found(), false),
        (Problem::schema("/", Vec::new()), false),
    ] {
        let reply = super::problem("req_1", &problem, &HeaderMap::new());
        assert_eq!(reply.headers().contains_key(CONNECTION), close, "{}", problem.kind);
    }
}
