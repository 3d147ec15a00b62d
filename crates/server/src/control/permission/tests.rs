use super::*;

fn reads(permission: &str) -> bool {
    Grants::of([permission]).reads("ws_1", "rlns_a", "rlor_x")
}

#[test]
fn a_permission_is_for_a_namespace_or_for_all() {
    let grants = Grants::of(["ratelimit.*.limit", "ratelimit.rlns_a.set_override"]);
    assert!(grants.everywhere(Action::Limit));
    assert!(grants.within(Action::Limit, "rlns_b"));
    assert!(grants.within(Action::SetOverride, "rlns_a"));
    assert!(!grants.within(Action::SetOverride, "rlns_b"));
    assert!(!grants.everywhere(Action::SetOverride));
    assert!(!grants.within(Action::DeleteOverride, "rlns_a"));
}

#[test]
fn what_is_no_permission_grants_nothing() {
    for text in [
        "",
        "*",
        "ratelimit",
        "ratelimit.*",
        "ratelimit..limit",
        "ratelimit.*.everything",
        "ratelimit.*.Limit",
        "api.*.limit",
        "unkey:v1:ws_1:ratelimits/**",
        "unkey:v1::ratelimits/**#*",
        "unkey:v2:ws_1:ratelimits/**#read_override",
        "unkey:v1:ws_1:ratelimits/**#sing",
    ] {
        assert!(!is_permission(text), "{text}");
    }
    assert!(Action::everything().iter().all(|text| is_permission(text)));
}

#[test]
fn a_path_may_have_wildcards() {
    for text in [
        "unkey:v1:ws_1:ratelimits/namespaces/rlns_a/overrides/rlor_x#read_override",
        "unkey:v1:ws_1:ratelimits/namespaces/rlns_a/overrides/*#read_override",
        "unkey:v1:ws_1:ratelimits/namespaces/rlns_a/**#read_override",
        "unkey:v1:ws_1:ratelimits/**#read_override",
        "unkey:v1:ws_1:ratelimits/namespaces/*/overrides/*#read_override",
        "unkey:v1:ws_1:**#*",
    ] {
        assert!(reads(text), "{text}");
    }
    for text in [
        "unkey:v1:ws_1:ratelimits/namespaces/rlns_b/overrides/*#read_override",
        "unkey:v1:ws_1:ratelimits/namespaces/rlns_a/overrides/*#set_override",
        "unkey:v1:ws_2:ratelimits/namespaces/rlns_a/overrides/*#read_override",
        "unkey:v1:ws_1:ratelimits/namespaces/rlns_a/overrides#read_override",
        "unkey:v1:ws_1:ratelimits/namespaces/rlns_a/overrides/rlor_x/**#read_override",
        "unkey:v1:ws_1:ratelimits/**/rlor_x#read_override",
    ] {
        assert!(!reads(text), "{text}");
    }
}
