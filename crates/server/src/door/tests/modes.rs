//! Namespaces that enforce nothing.

use tidegate_stores::control::Mode;

use super::*;

fn ask(namespace: &str, cost: u64) -> Value {
    json!({"namespace": namespace, "identifier": "i", "limit": 2, "duration": 60_000, "cost": cost})
}

/// A world in which the namespaces `shadow` and `off` are what they are called.
async fn world() -> World {
    let world = World::new().await;
    for (name, mode) in [("shadow", Mode::Shadow), ("off", Mode::Off)] {
        world.data("limit", ask(name, 0)).await;
        let id = world.namespace(name).id.clone();
        world
            .change(&Change::SetNamespace { id, mode: Some(mode), consistency: None, outage: None })
            .await;
    }
    world
}

#[tokio::test]
async fn a_shadow_decides_and_counts_and_admits_everything() {
    let world = world().await;
    let data = world.data("limit", ask("shadow", 2)).await;
    let expected = json!({"limit": 2, "remaining": 0, "reset": MINUTE_MS + 60_000, "success": true,
                          "mode": "shadow"});
    assert_eq!(data, expected);
    let data = world.data("limit", ask("shadow", 1)).await;
    assert_eq!((&data["success"], &data["wouldDeny"]), (&json!(true), &json!(true)));
    assert!(data["retryAfterMs"].is_u64());
    assert_eq!(world.door.limiter().counts().denied_local, 1, "it was decided");
}

#[tokio::test]
async fn what_is_off_counts_nothing() {
    let world = world().await;
    for _ in 0..5 {
        let data = world.data("limit", ask("off", 2)).await;
        let expected = json!({"limit": 2, "remaining": 2, "reset": MINUTE_MS + 60_000,
                              "success": true, "mode": "off"});
        assert_eq!(data, expected);
    }
    let id = world.namespace("off").id.clone();
    let enforce =
        Change::SetNamespace { id, mode: Some(Mode::Enforce), consistency: None, outage: None };
    world.change(&enforce).await;
    assert_eq!(world.data("limit", ask("off", 2)).await["remaining"], 0, "from the beginning");
}

#[tokio::test]
async fn a_shadow_denies_no_batch_and_spends_as_if_it_could() {
    let world = world().await;
    let batch = json!([ask("real", 1), ask("shadow", 3), ask("off", 3)]);
    let data = world.data("multiLimit", batch).await;
    assert_eq!(data["passed"], true);
    let says = |at: usize, field: &str| data["limits"][at].get(field).cloned();
    assert_eq!((says(0, "mode"), says(0, "remaining")), (None, Some(json!(1))));
    assert_eq!((says(1, "wouldDeny"), says(1, "passed")), (Some(json!(true)), Some(json!(true))));
    assert_eq!((says(2, "mode"), says(2, "passed")), (Some(json!("off")), Some(json!(true))));

    // The real one denies: nothing is spent of the shadow either.
    let batch = json!([ask("real", 2), ask("shadow", 1)]);
    let data = world.data("multiLimit", batch).await;
    assert_eq!((&data["passed"], &data["limits"][0]["passed"]), (&json!(false), &json!(false)));
    assert_eq!(data["limits"][1]["remaining"], 2);
    assert!(data["limits"][1].get("wouldDeny").is_none());
    let data = world.data("multiLimit", json!([ask("real", 2), ask("shadow", 3)])).await;
    assert_eq!(data["limits"][1]["wouldDeny"], true);
    assert_eq!(world.data("limit", ask("shadow", 2)).await["remaining"], 0);
}
