//! Workspaces that may not make as many calls as they like.

use super::*;

async fn capped(cap: Option<u64>) -> World {
    let world = World::new().await;
    let change = Change::SetWorkspace {
        id: "ws_1".to_owned(),
        enabled: None,
        requests_per_minute: Some(cap),
    };
    world.change(&change).await;
    world
}

/// The status, and the head of the reply.
async fn head(world: &World, body: Value) -> (u16, Vec<(String, String)>) {
    let reply = world.door.answer(post(LIMIT_PATH, body)).await;
    let headers = reply.headers().iter().filter(|(name, _)| {
        name.as_str().starts_with("ratelimit-") || name.as_str() == "retry-after"
    });
    let said = |(name, value): (&hyper::header::HeaderName, &hyper::header::HeaderValue)| {
        (name.to_string(), value.to_str().unwrap().to_owned())
    };
    (reply.status().as_u16(), headers.map(said).collect())
}

fn three(remaining: &str) -> Vec<(String, String)> {
    let pairs =
        [("ratelimit-limit", "2"), ("ratelimit-remaining", remaining), ("ratelimit-reset", "60")];
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

#[tokio::test]
async fn every_call_counts_and_says_how_many_are_left() {
    let world = capped(Some(2)).await;
    assert_eq!(head(&world, ask(9, 1)).await, (200, three("1")));
    let gone = json!({"namespace": "n", "identifier": "i", "limit": 1, "duration": 60_000});
    world.key("nobody", &[]).await;
    let mut request = post(LIMIT_PATH, gone);
    request.headers_mut().insert(AUTHORIZATION, "Bearer nobody".parse().unwrap());
    let reply = world.door.answer(request).await;
    assert_eq!(
        (reply.status().as_u16(), &reply.headers()["ratelimit-remaining"]),
        (403, &"0".parse().unwrap())
    );

    let (status, headers) = head(&world, ask(9, 1)).await;
    let mut expected = three("0");
    expected.push(("retry-after".to_owned(), "60".to_owned()));
    assert_eq!((status, headers), (429, expected));
    // A body that is refused is no call.
    assert_eq!(head(&world, json!({})).await, (400, Vec::new()));
    world.clock.advance(Duration::from_secs(120));
    assert_eq!(head(&world, ask(9, 1)).await.0, 200);
}

#[tokio::test]
async fn a_workspace_without_calls_is_told_nothing_else() {
    let world = capped(Some(0)).await;
    assert_eq!(head(&world, ask(9, 1)).await, (429, Vec::new()));
    let reply = world.door.answer(post(LIMIT_PATH, ask(9, 1))).await;
    assert_eq!(reply.headers()[CONTENT_TYPE], "application/problem+json");
    let (_, body) = world.call("limit", ask(9, 1)).await;
    assert_eq!(kind(&body), "user/too_many_requests/workspace_rate_limited");
    assert_eq!(world.door.limiter().subjects(), 0);
}

#[tokio::test]
async fn a_workspace_without_a_cap_is_told_nothing() {
    let world = capped(None).await;
    assert_eq!(head(&world, ask(9, 1)).await, (200, Vec::new()));
}

#[tokio::test]
async fn nobody_can_spend_the_calls_of_a_workspace_by_naming_them() {
    let world = capped(Some(3)).await;
    let body = json!({"namespace": "workspace.ratelimit", "identifier": "ws_1", "limit": 100,
                      "duration": 60_000, "cost": 50});
    assert_eq!(head(&world, body).await.1[1].1, "2");
    assert_eq!(head(&world, ask(9, 1)).await.1[1].1, "1");
}
