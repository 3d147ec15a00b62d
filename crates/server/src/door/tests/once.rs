//! Calls that are sent again.

use super::*;

async fn sent(world: &World, key: &str, body: Value) -> (u16, Value, Option<String>, bool) {
    let mut request = post(LIMIT_PATH, body);
    request.headers_mut().insert("idempotency-key", key.parse().unwrap());
    let reply = world.door.answer(request).await;
    let scope = reply.headers().get("idempotency-scope");
    let scope = scope.map(|scope| scope.to_str().unwrap().to_owned());
    let replayed = reply.headers().contains_key("idempotency-replayed");
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap(), scope, replayed)
}

#[tokio::test]
async fn a_call_that_is_sent_again_is_charged_once_and_answered_alike() {
    let world = World::new().await;
    let (status, first, scope, replayed) = sent(&world, "k", ask(5, 2)).await;
    assert_eq!((status, scope.as_deref(), replayed), (200, Some("node"), false));
    let (status, again, scope, replayed) = sent(&world, "k", ask(5, 2)).await;
    assert_eq!((status, scope.as_deref(), replayed), (200, Some("node"), true));
    assert_eq!(again, first, "also the request id");
    let (_, other, ..) = sent(&world, "l", ask(5, 2)).await;
    assert_eq!(other["data"]["remaining"], 1);
}

#[tokio::test]
async fn a_key_is_for_one_call() {
    let world = World::new().await;
    sent(&world, "k", ask(5, 2)).await;
    let (status, body, scope, _) = sent(&world, "k", ask(5, 1)).await;
    assert_eq!((status, kind(&body)), (422, "user/bad_request/idempotency_key_reused"));
    assert_eq!(scope.as_deref(), Some("node"));
    let (status, body, ..) = sent(&world, "two words", ask(5, 1)).await;
    assert_eq!((status, kind(&body)), (400, "user/bad_request/idempotency_key_malformed"));
    assert_eq!(body["error"]["errors"], json!([]));
    // Before anything else is looked at: it is a mistake of the call itself.
    let id = world.namespace("n").id.clone();
    world.change(&Change::DeleteNamespace { id }).await;
    assert_eq!(sent(&world, "two words", ask(5, 1)).await.0, 400);
}

#[tokio::test]
async fn a_reply_is_only_for_those_who_may_have_it() {
    let world = World::new().await;
    sent(&world, "k", ask(5, 2)).await;
    world.key("nobody", &["ratelimit.*.read_override"]).await;
    let again = async || {
        let mut request = post(LIMIT_PATH, ask(5, 2));
        request.headers_mut().insert("idempotency-key", "k".parse().unwrap());
        request.headers_mut().insert(AUTHORIZATION, "Bearer nobody".parse().unwrap());
        answer(&world.door, request).await.0
    };
    assert_eq!(again().await, 403);
    let id = world.namespace("n").id.clone();
    world.change(&Change::DeleteNamespace { id }).await;
    assert_eq!(sent(&world, "k", ask(5, 2)).await.0, 410);
}

#[tokio::test]
async fn a_call_that_was_refused_is_decided_when_it_comes_again() {
    let world = World::new().await;
    world.key("limiter", &["ratelimit.*.limit"]).await;
    let call = async || {
        let mut request = post(LIMIT_PATH, ask(5, 2));
        request.headers_mut().insert("idempotency-key", "k".parse().unwrap());
        request.headers_mut().insert(AUTHORIZATION, "Bearer limiter".parse().unwrap());
        answer(&world.door, request).await
    };
    assert_eq!(call().await.0, 403, "the namespace is missing");
    world.data("limit", ask(5, 0)).await;
    assert_eq!(call().await.1["data"]["remaining"], 3);
    assert_eq!(call().await.1["data"]["remaining"], 3);
}
