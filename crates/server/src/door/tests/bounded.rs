//! Namespaces whose limits hold in a burst: doors that share a region.

use tidegate::{Consistency, MemoryStore, RegionalStore, Tuning};
use tidegate_convergence::{BoardCall, Boarding, Calling, ShardCall};
use tidegate_stores::control::Mode;
use tokio::sync::watch;

use super::*;

/// A region in memory that can be told to answer nobody for now.
#[derive(Debug)]
struct Region {
    store: MemoryStore,
    answers: watch::Sender<bool>,
    asked: watch::Sender<u64>,
}

impl Region {
    fn new() -> Arc<Self> {
        let (answers, asked) = (watch::Sender::new(true), watch::Sender::new(0));
        Arc::new(Self { store: MemoryStore::new(1, || 0), answers, asked })
    }
}

impl RegionalStore for Region {
    fn shards(&self) -> u16 {
        1
    }

    fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a> {
        Box::pin(async move {
            if call.ask.is_some() {
                self.asked.send_modify(|asked| *asked += 1);
            }
            let _ = self.answers.subscribe().wait_for(|answers| *answers).await;
            self.store.call(call).await
        })
    }

    fn board<'a>(&'a self, call: &'a BoardCall) -> Boarding<'a> {
        self.store.board(call)
    }
}

/// A door in that region; all have one store of settings.
async fn join(region: &Arc<Region>, store: &Arc<FakeStore>, consistency: Consistency) -> World {
    let clock = ManualClock::at_unix_ms(MINUTE_MS);
    let key = Key::given(ids::digest(b"key"), "ws_1", &Action::everything());
    let control = Control::new(Arc::clone(store) as _, Arc::new(clock.clone()), Some(key));
    control.look().await.unwrap();
    let limiter = Limiter::builder().clock(clock.clone());
    let limiter = limiter.region_tuned(Arc::clone(region) as _, Tuning::default());
    let limiter = Arc::new(limiter.build().unwrap());
    let (control, ids) = (Arc::new(control), RequestIds::new(1));
    let live = Live::of(Defaults { consistency, ..Defaults::default() });
    let door = Arc::new(Door::new(limiter, control, once(&clock), ids, Arc::new(live)));
    World { door, clock, store: Arc::clone(store) }
}

async fn world() -> (Arc<Region>, World) {
    let (region, store) = (Region::new(), Arc::new(FakeStore::with_workspace("ws_1")));
    let world = join(&region, &store, Consistency::Fast).await;
    (region, world)
}

impl World {
    async fn set(&self, name: &str, mode: Mode, consistency: Option<Consistency>) {
        self.data("limit", of(name, 1, 0)).await;
        let (id, mode) = (self.namespace(name).id.clone(), Some(mode));
        let consistency = Some(consistency);
        self.change(&Change::SetNamespace { id, mode, consistency, outage: None }).await;
    }

    async fn bounded(&self, name: &str) {
        self.set(name, Mode::Enforce, Some(Consistency::Bounded)).await;
    }
}

fn of(namespace: &str, limit: u64, cost: u64) -> Value {
    json!({"namespace": namespace, "identifier": "i", "limit": limit, "duration": 60_000,
           "cost": cost})
}

#[tokio::test]
async fn a_namespace_is_as_it_says_and_else_as_the_server_says() {
    let (region, fast) = world().await;
    let bounded = join(&region, &fast.store, Consistency::Bounded).await;
    let says = async |world: &World| world.data("limit", of("n", 100, 1)).await;
    assert_eq!(says(&fast).await["consistency"], "fast");
    bounded.door.control.look().await.unwrap();
    assert_eq!(says(&bounded).await["consistency"], "bounded");
    for (said, expected) in [
        (Some(Consistency::Bounded), ["bounded", "bounded"]),
        (Some(Consistency::Fast), ["fast", "fast"]),
        (None, ["fast", "bounded"]),
    ] {
        fast.set("n", Mode::Enforce, said).await;
        bounded.door.control.look().await.unwrap();
        for (world, expected) in [&fast, &bounded].into_iter().zip(expected) {
            let data = says(world).await;
            assert_eq!(
                (&data["consistency"], &data["degraded"]),
                (&json!(expected), &json!(false))
            );
            let data = &world.data("multiLimit", json!([of("n", 100, 1)])).await["limits"][0];
            assert_eq!(data["consistency"], expected);
        }
    }
}

#[tokio::test]
async fn a_burst_at_several_doors_admits_the_limit() {
    let (region, first) = world().await;
    first.bounded("n").await;
    let second = join(&region, &first.store, Consistency::Fast).await;
    let doors = [&first, &second].map(|world| Arc::clone(&world.door));
    let calls = (0..80).map(|turn| {
        let door = Arc::clone(&doors[turn % 2]);
        tokio::spawn(async move { answer(&door, post(LIMIT_PATH, of("n", 10, 1))).await })
    });
    let mut admitted = 0;
    for call in calls.collect::<Vec<_>>() {
        let (status, body) = call.await.unwrap();
        assert_eq!((status, &body["data"]["consistency"]), (200, &json!("bounded")), "{body}");
        admitted += u64::from(body["data"]["success"] == true);
    }
    assert_eq!(admitted, 10);
}

#[tokio::test]
async fn what_is_tried_is_asked_for_as_well_and_what_is_off_is_not() {
    let (region, world) = world().await;
    world.bounded("real").await;
    world.set("tried", Mode::Shadow, Some(Consistency::Bounded)).await;
    world.set("off", Mode::Off, Some(Consistency::Bounded)).await;
    let batch = |cost| json!([of("real", 7, 1), of("tried", 2, cost), of("off", 2, 1)]);
    let data = world.data("multiLimit", batch(2)).await;
    let items = data["limits"].as_array().unwrap();
    for item in items.iter().take(2) {
        assert_eq!((&item["consistency"], &item["passed"]), (&json!("bounded"), &json!(true)));
        assert_eq!(item["source"], "region", "so little is lent that all is asked for: {item}");
    }
    assert!(items[2].get("consistency").is_none(), "nothing is decided: {data}");
    let data = world.data("multiLimit", batch(1)).await;
    assert_eq!((&data["passed"], &data["limits"][1]["wouldDeny"]), (&json!(true), &json!(true)));
    // Another process hears of both.
    let other = join(&region, &world.store, Consistency::Fast).await;
    assert_eq!(other.data("limit", of("real", 7, 0)).await["remaining"], 5);
    assert_eq!(other.data("limit", of("tried", 2, 0)).await["remaining"], 0);
    // What is denied spends nothing of what is tried.
    let data = world.data("multiLimit", json!([of("real", 1, 1), of("tried", 9, 1)])).await;
    assert_eq!((&data["passed"], &data["limits"][1]["remaining"]), (&json!(false), &json!(7)));
    assert_eq!(world.data("limit", of("tried", 9, 0)).await["remaining"], 7);
}

#[tokio::test]
async fn whoever_leaves_while_the_region_grants_is_charged_once() {
    let (region, world) = world().await;
    world.bounded("n").await;
    let call = || {
        // More than is lent.
        let mut request = post(LIMIT_PATH, of("n", 10, 3));
        request.headers_mut().insert("idempotency-key", "k".parse().unwrap());
        request
    };
    region.answers.send_replace(false);
    let (door, request) = (Arc::clone(&world.door), call());
    let leaves = tokio::spawn(async move { door.answer(request).await });
    region.asked.subscribe().wait_for(|asked| *asked > 0).await.unwrap();
    leaves.abort();
    assert!(leaves.await.is_err_and(|why| why.is_cancelled()));
    region.answers.send_replace(true);
    world.door.apart_ended().await;
    let reply = world.door.answer(call()).await;
    assert_eq!(reply.status(), 200);
    assert!(reply.headers().contains_key("idempotency-replayed"), "it is the reply to the first");
    assert_eq!(world.data("limit", of("n", 10, 0)).await["remaining"], 7);
}

#[tokio::test]
async fn calls_that_no_client_can_end_are_bounded() {
    let (_region, world) = world().await;
    let mut request = post(LIMIT_PATH, of("n", 10, 3));
    request.headers_mut().insert("idempotency-key", "k".parse().unwrap());
    let all = world.door.apart.acquire_many(APART_KIB_MAX).await.unwrap();
    assert_eq!(world.door.answer(request).await.status(), 503);
    drop(all);
    assert_eq!(world.data("limit", of("n", 10, 0)).await["remaining"], 10, "nothing was spent");
}

#[tokio::test]
async fn an_explanation_says_what_is_lent_and_who_has_to_grant() {
    let (_region, world) = world().await;
    world.bounded("n").await;
    let look = async |operation: &str, body: Value| {
        let (status, body) =
            answer(&world.door, post(&format!("/v2/tidegate.{operation}"), body)).await;
        assert_eq!(status, 200, "{body}");
        body["data"].clone()
    };
    let explain = async || look("explain", of("n", 10, 1)).await;
    let source = async || world.data("limit", of("n", 10, 1)).await["source"].clone();
    let said = explain().await;
    assert_eq!(said["namespace"]["consistency"], "bounded");
    let text = said["because"].as_str().unwrap();
    // How many processes there are may be known by now, or not yet: then nothing is lent.
    assert!(text.contains("It is bounded: 10 are free and "), "{text}");
    let credit = &said["region"]["credit"];
    assert_eq!(credit["most"], credit["processes"], "an eighth of ten, for one: {said}");
    let mut asked = 0;
    for _ in 0..10 {
        let said = explain().await;
        let asks = !said["region"]["asksFirst"].is_null();
        let granted = said["because"].as_str().unwrap().contains("has to grant");
        assert_eq!(asks, granted, "{said}");
        assert_eq!(source().await == "region", asks, "{said}");
        asked += u64::from(asks);
    }
    assert!(asked > 1, "most of so small a limit has to be granted");
    let subject = json!({"namespace": "n", "identifier": "i", "duration": 60_000});
    let seen = look("inspect", subject).await;
    assert_eq!(seen["namespace"]["consistency"], "bounded");
    assert_eq!(
        (&seen["node"]["credit"]["room"], &seen["node"]["credit"]["most"]),
        (&json!(0), &json!(0))
    );
}
