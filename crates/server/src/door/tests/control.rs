//! Namespaces, overrides and permissions, through the door.

use tidegate_stores::control::ControlStore;

use super::*;

fn limit(namespace: &str, identifier: &str) -> Value {
    json!({"namespace": namespace, "identifier": identifier, "limit": 10, "duration": 60_000})
}

fn setting(identifier: &str, limit: u64) -> Value {
    json!({"namespace": "n", "identifier": identifier, "limit": limit, "duration": 60_000})
}

fn target(identifier: &str) -> Value {
    json!({"namespace": "n", "identifier": identifier})
}

/// A world with the namespace `n`.
async fn world() -> World {
    let world = World::new().await;
    world.data("limit", limit("n", "x")).await;
    world
}

#[tokio::test]
async fn a_namespace_comes_to_be_by_being_named() {
    let world = World::new().await;
    world.data("limit", limit("n", "i")).await;
    let id = world.namespace("n").id.clone();
    assert!(id.starts_with("rlns_") && id.len() == 14, "{id}");
    let data = world.data("limit", limit(&id, "i")).await;
    assert_eq!(data["remaining"], 8, "its id means the same");
    let three = json!([limit("a", "i"), limit("b", "i"), limit("a", "j"), limit("n", "i")]);
    world.data("multiLimit", three).await;
    assert_eq!(world.store.applied(), 2, "one change for both");
}

#[tokio::test]
async fn who_may_not_create_a_namespace_creates_none() {
    let world = world().await;
    world.key("limiter", &["ratelimit.*.limit"]).await;
    let (status, body) = world.call_as("limiter", "limit", limit("new", "i")).await;
    assert_eq!((status, kind(&body)), (403, "unkey/authorization/insufficient_permissions"));
    let detail = body["error"]["detail"].as_str().unwrap();
    assert!(detail.starts_with("Missing"), "{detail}");
    assert!(detail.contains("ratelimit.*.create_namespace"), "{detail}");
    let batch = json!([limit("n", "i"), limit("new", "i")]);
    assert_eq!(world.call_as("limiter", "multiLimit", batch).await.0, 403);
    world.key("maker", &["ratelimit.*.create_namespace"]).await;
    let (status, body) = world.call_as("maker", "limit", limit("new", "i")).await;
    assert_eq!(
        (status, body["error"]["detail"].as_str()),
        (403, Some("Missing permission 'ratelimit.*.limit'."))
    );
    assert!(world.door.control.known().workspace("ws_1").unwrap().namespace("new").is_none());
    assert_eq!(world.call_as("limiter", "limit", limit("n", "i")).await.0, 200);
}

#[tokio::test]
async fn a_batch_needs_the_permission_for_every_namespace() {
    let world = world().await;
    world.data("limit", limit("m", "x")).await;
    let n = world.namespace("n").id.clone();
    world.key("narrow", &[&format!("ratelimit.{n}.limit")]).await;
    assert_eq!(world.call_as("narrow", "limit", limit("n", "i")).await.0, 200);
    let (status, body) = world.call_as("narrow", "limit", limit("m", "i")).await;
    assert_eq!(status, 403);
    let m = world.namespace("m").id.clone();
    let named = format!("'ratelimit.*.limit' or 'ratelimit.{m}.limit'");
    assert!(body["error"]["detail"].as_str().unwrap().contains(&named), "{body}");
    let both = json!([limit("n", "i"), limit("m", "i")]);
    assert_eq!(world.call_as("narrow", "multiLimit", both).await.0, 403);
    assert_eq!(world.data("limit", limit("n", "i")).await["remaining"], 8, "nothing was spent");
}

#[tokio::test]
async fn a_deleted_namespace_is_gone() {
    let world = world().await;
    let id = world.namespace("n").id.clone();
    world.change(&Change::DeleteNamespace { id }).await;
    world.key("nobody", &[]).await;
    for key in ["key", "nobody"] {
        let (status, body) = world.call_as(key, "limit", limit("n", "i")).await;
        assert_eq!((status, kind(&body)), (410, "unkey/data/ratelimit_namespace_gone"));
        assert!(body["error"]["detail"].as_str().unwrap().contains("deleted"));
    }
    let batch = json!([limit("m", "i"), limit("n", "i")]);
    assert_eq!(world.call("multiLimit", batch).await.0, 410);
    assert_eq!(world.data("limit", limit("m", "i")).await["remaining"], 9, "nothing was spent");
    for (operation, body) in [
        ("setOverride", setting("a", 1)),
        ("getOverride", target("a")),
        ("deleteOverride", target("a")),
    ] {
        let (status, body) = world.call(operation, body).await;
        assert_eq!((status, kind(&body)), (404, "unkey/data/ratelimit_namespace_not_found"));
    }
    let (status, _) = world.call("listOverrides", json!({"namespace": "n"})).await;
    assert_eq!(status, 200, "what it had can still be read");
}

#[tokio::test]
async fn an_override_replaces_limit_and_duration() {
    let world = world().await;
    let body = json!({"namespace": "n", "identifier": "i", "limit": 200, "duration": 120_000});
    let id = world.data("setOverride", body).await["overrideId"].clone();
    let data = world.data("limit", limit("n", "i")).await;
    assert_eq!((&data["limit"], &data["remaining"]), (&json!(200), &json!(199)));
    assert_eq!(data["overrideId"], id);
    assert_eq!(data["reset"], MINUTE_MS + 60_000 + 60_000 - MINUTE_MS % 120_000);
    assert!(world.data("limit", limit("n", "j")).await.get("overrideId").is_none());

    let again = world.data("setOverride", setting("i", 3)).await["overrideId"].clone();
    assert_eq!(again, id, "the same one");
    let left: Vec<_> = [2, 1, 0].map(|left| json!(left)).to_vec();
    let mut found = Vec::new();
    for _ in 0..3 {
        found.push(world.data("limit", limit("n", "i")).await["remaining"].clone());
    }
    assert_eq!(found, left);
    let denied = world.data("multiLimit", json!([limit("n", "i")])).await;
    assert_eq!((&denied["passed"], &denied["limits"][0]["overrideId"]), (&json!(false), &id));
}

#[tokio::test]
async fn a_limit_of_0_blocks() {
    let world = world().await;
    world.data("setOverride", setting("bad-*", 0)).await;
    let data = world.data("limit", limit("n", "bad-1")).await;
    assert_eq!((&data["success"], &data["limit"]), (&json!(false), &json!(0)));
    assert!(data.get("retryAfterMs").is_none(), "it never fits");
}

#[tokio::test]
async fn an_override_can_be_made_again() {
    let world = world().await;
    world.data("setOverride", setting("i", 1)).await;
    assert_eq!(world.data("deleteOverride", target("i")).await, json!({}));
    assert!(world.data("limit", limit("n", "i")).await.get("overrideId").is_none());
    let (status, body) = world.call("deleteOverride", target("i")).await;
    assert_eq!((status, kind(&body)), (404, "unkey/data/ratelimit_override_not_found"));
    world.data("setOverride", setting("i", 1)).await;
    assert_eq!(world.data("limit", limit("n", "i")).await["limit"], 1);
}

#[tokio::test]
async fn what_is_found_is_what_would_apply_and_what_is_deleted_is_what_was_set() {
    let world = world().await;
    world.data("setOverride", setting("premium_*", 7)).await;
    let data = world.data("getOverride", target("premium_1")).await;
    assert_eq!(
        (&data["identifier"], &data["limit"], &data["duration"]),
        (&json!("premium_*"), &json!(7), &json!(60_000))
    );
    assert_eq!(world.call("deleteOverride", target("premium_1")).await.0, 404);
    assert_eq!(world.call("deleteOverride", target("premium_*")).await.0, 200);
}

#[tokio::test]
async fn who_may_not_read_an_override_is_told_that_there_is_none() {
    let world = world().await;
    world.data("setOverride", setting("i", 7)).await;
    world.key("blind", &["ratelimit.*.set_override", "ratelimit.*.delete_override"]).await;
    let (_, mut missing) = world.call("getOverride", target("j")).await;
    let (status, mut hidden) = world.call_as("blind", "getOverride", target("i")).await;
    assert_eq!(status, 404);
    (missing["meta"], hidden["meta"]) = (Value::Null, Value::Null);
    assert_eq!(hidden, missing);
    let list = json!({"namespace": "n"});
    assert_eq!(world.call_as("blind", "listOverrides", list).await.0, 403);
    world.key("urn", &["unkey:v1:ws_1:ratelimits/**#read_override"]).await;
    assert_eq!(world.call_as("urn", "getOverride", target("i")).await.0, 200);
    world.key("foreign", &["unkey:v1:ws_2:ratelimits/**#read_override"]).await;
    assert_eq!(world.call_as("foreign", "getOverride", target("i")).await.0, 404);
}

#[tokio::test]
async fn each_operation_needs_its_permission() {
    let world = world().await;
    world.data("setOverride", setting("i", 7)).await;
    world.key("nobody", &["ratelimit.*.create_namespace"]).await;
    for (operation, body, permission) in [
        ("limit", limit("n", "i"), "ratelimit.*.limit"),
        ("multiLimit", json!([limit("n", "i")]), "ratelimit.*.limit"),
        ("setOverride", setting("i", 1), "ratelimit.*.set_override"),
        ("listOverrides", json!({"namespace": "n"}), "ratelimit.*.read_override"),
        ("deleteOverride", target("i"), "ratelimit.*.delete_override"),
    ] {
        let (status, body) = world.call_as("nobody", operation, body).await;
        assert_eq!(
            (status, body["error"]["title"].as_str()),
            (403, Some("Insufficient Permissions"))
        );
        let detail = body["error"]["detail"].as_str().unwrap();
        assert!(detail.starts_with("Missing") && detail.contains(permission), "{detail}");
    }
}

#[tokio::test]
async fn overrides_are_listed_in_pages() {
    let world = world().await;
    for number in 0..7 {
        world.data("setOverride", setting(&format!("i{number}"), number)).await;
    }
    let (mut seen, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let mut body = json!({"namespace": "n", "limit": 3});
        if let Some(cursor) = cursor {
            body["cursor"] = cursor;
        }
        let (_, body) = world.call("listOverrides", body).await;
        seen.extend(
            body["data"].as_array().unwrap().iter().map(|one| one["overrideId"].to_string()),
        );
        pages += 1;
        let next = &body["pagination"];
        assert_eq!(next["hasMore"] == true, next.get("cursor").is_some(), "{next}");
        if next["hasMore"] == false {
            break;
        }
        cursor = Some(next["cursor"].clone());
    }
    assert_eq!((seen.len(), pages), (7, 3));
    assert!(seen.is_sorted() && seen.windows(2).all(|two| two[0] != two[1]));
    let (_, body) = world.call("listOverrides", json!({"namespace": "n", "limit": 7})).await;
    assert_eq!(body["pagination"], json!({"hasMore": false}), "a last page that is just full");
}

#[tokio::test]
async fn patterns_that_have_to_be_tried_one_by_one_are_few() {
    let world = world().await;
    for number in 0..64 {
        world.data("setOverride", setting(&format!("a*{number}*"), 1)).await;
    }
    let (status, body) = world.call("setOverride", setting("a*x*", 1)).await;
    assert_eq!((status, kind(&body)), (400, "unkey/application/invalid_input"));
    assert_eq!(body["error"]["errors"][0]["location"], "body.identifier");
    world.data("setOverride", setting("a*1*", 2)).await;
    world.data("setOverride", setting("a*x", 2)).await;
}

#[tokio::test]
async fn a_workspace_that_is_full_is_told_so_and_limited_all_the_same() {
    let world = world().await;
    world.store.set_full(true);
    let (status, body) = world.call("setOverride", setting("i", 8)).await;
    assert_eq!((status, kind(&body)), (403, "unkey/authorization/forbidden"));
    let data = world.data("limit", limit("new", "i")).await;
    assert_eq!((&data["remaining"], &data["degraded"]), (&json!(9), &json!(true)));
}

#[tokio::test]
async fn a_store_that_is_away_refuses_changes_and_nothing_else() {
    let world = world().await;
    world.data("setOverride", setting("i", 7)).await;
    world.store.set_away(true);
    let (status, body) = world.call("setOverride", setting("i", 8)).await;
    assert_eq!((status, kind(&body)), (500, "unkey/application/service_unavailable"));
    assert_eq!(world.data("getOverride", target("i")).await["limit"], 7);
    assert_eq!(world.data("limit", limit("n", "i")).await["limit"], 7);

    // A namespace that cannot be entered is limited all the same, and the answer says so.
    let data = world.data("limit", limit("new", "i")).await;
    assert_eq!((&data["remaining"], &data["degraded"]), (&json!(9), &json!(true)));
    world.store.set_away(false);
    world.clock.advance(Duration::from_secs(2));
    let data = world.data("limit", limit("new", "i")).await;
    assert_eq!((&data["remaining"], data.get("degraded")), (&json!(8), None));
    assert!(world.namespace("new").is_listed());
}

#[tokio::test]
async fn an_id_is_never_made_a_name() {
    let world = world().await;
    let (status, body) = world.call("limit", limit("rlns_abcDEF123", "i")).await;
    assert_eq!((status, kind(&body)), (404, "unkey/data/ratelimit_namespace_not_found"));
    // One that another process made a moment ago is learnt first.
    let names = vec![("rlns_000000001".to_owned(), "new".to_owned())];
    let made = Change::AddNamespaces { workspace: "ws_1".to_owned(), names };
    world.store.apply(&made, "other", 0).await.unwrap();
    assert_eq!(world.data("limit", limit("rlns_000000001", "i")).await["remaining"], 9);
    assert_eq!(world.data("limit", limit("new", "i")).await["remaining"], 8);
    // While the store is away, nobody can say whose it is.
    world.store.set_away(true);
    let data = world.data("limit", limit("rlns_abcDEF123", "i")).await;
    assert_eq!(data["degraded"], true);
}

#[tokio::test]
async fn an_override_belongs_to_the_namespace_with_its_id() {
    let world = world().await;
    let id = world.namespace("n").id.clone();
    // Made before names that look like ids were refused.
    let names = vec![("rlns_000000001".to_owned(), id.clone())];
    world.change(&Change::AddNamespaces { workspace: "ws_1".to_owned(), names }).await;
    let set = Change::SetOverride {
        id: "rlor_1".to_owned(),
        namespace: "rlns_000000001".to_owned(),
        pattern: "i".to_owned(),
        limit: 0,
        window_ms: 60_000,
    };
    world.change(&set).await;
    assert_eq!(world.data("limit", limit("n", "i")).await["success"], true);
    world.data("setOverride", setting("j", 3)).await;
    assert_eq!(world.data("limit", limit("n", "j")).await["limit"], 3);
    assert_eq!(world.data("limit", limit("n", "i")).await["success"], true);
}

#[tokio::test]
async fn a_refused_batch_makes_no_namespace() {
    let world = world().await;
    let id = world.namespace("n").id.clone();
    world.change(&Change::DeleteNamespace { id }).await;
    let batch = json!([limit("new", "i"), limit("n", "i")]);
    assert_eq!(world.call("multiLimit", batch).await.0, 410);
    assert!(world.door.control.known().workspace("ws_1").unwrap().namespace("new").is_none());
}

#[tokio::test]
async fn many_at_once_do_not_exceed_what_one_may() {
    let world = Arc::new(world().await);
    let all = (0..100).map(|number| {
        let world = Arc::clone(&world);
        tokio::spawn(async move {
            world.call("setOverride", setting(&format!("a*{number}*"), 1)).await.0
        })
    });
    let mut set = 0;
    for one in all.collect::<Vec<_>>() {
        set += u32::from(one.await.unwrap() == 200);
    }
    assert_eq!((set, world.namespace("n").overrides.globs()), (64, 64));
    let id = world.namespace("n").overrides.all()[0].pattern.clone();
    world.data("deleteOverride", target(&id)).await;
    world.data("setOverride", setting("a*b*c*d*e*f", 1)).await;
    let (status, body) = world.call("setOverride", setting("a*b*c*d*e*f*g", 1)).await;
    assert_eq!((status, &body["error"]["errors"][0]["location"]), (400, &json!("body.identifier")));
}

#[tokio::test]
async fn settings_are_not_kept_for_a_body_that_is_waited_for() {
    let world = world().await;
    let body = Stuck(Some(Bytes::from_static(b"{")));
    let request = Request::post(LIMIT_PATH).header(AUTHORIZATION, "Bearer key").body(body).unwrap();
    let door = Arc::clone(&world.door);
    let waiting = tokio::spawn(async move { door.answer(request).await });
    tokio::task::yield_now().await;
    let before = Arc::downgrade(&world.namespace("n"));
    world.data("setOverride", setting("i", 3)).await;
    assert!(before.upgrade().is_none());
    waiting.abort();
}

#[tokio::test]
async fn fields_of_other_operations_are_refused() {
    let world = world().await;
    for (operation, body, wrong) in [
        (
            "setOverride",
            json!({"namespace": "n", "identifier": "i", "limit": 1, "duration": 60_000,
                               "cost": 1}),
            "body.cost",
        ),
        ("setOverride", setting("i", u64::MAX), "body.limit"),
        (
            "setOverride",
            json!({"namespace": "n", "identifier": "i", "limit": 1,
                               "duration": 2_592_000_001_u64}),
            "body.duration",
        ),
        ("getOverride", setting("i", 1), "body.limit"),
        ("deleteOverride", json!({"namespace": "n"}), "body.identifier"),
        ("listOverrides", json!({"namespace": "n", "limit": 101}), "body.limit"),
        ("listOverrides", json!({"namespace": "n", "limit": 0}), "body.limit"),
        ("listOverrides", json!({"namespace": "n", "cursor": 1}), "body.cursor"),
        (
            "limit",
            json!({"namespace": "n", "identifier": "i", "limit": 1, "duration": 60_000,
                         "cursor": "x"}),
            "body.cursor",
        ),
    ] {
        let (status, body) = world.call(operation, body).await;
        assert_eq!(status, 400, "{operation}");
        assert_eq!(body["error"]["errors"][0]["location"], wrong, "{body}");
    }
}

#[tokio::test]
async fn workspaces_do_not_see_each_other() {
    let world = world().await;
    let (other, _) = (World::new().await, ());
    world.data("setOverride", setting("i", 7)).await;
    let id = world.namespace("n").id.clone();
    let (status, body) =
        other.call("getOverride", json!({"namespace": id, "identifier": "i"})).await;
    assert_eq!((status, kind(&body)), (404, "unkey/data/ratelimit_namespace_not_found"));
}
