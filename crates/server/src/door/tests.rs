use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::{BodyExt, Full};
use hyper::Method;
use hyper::body::Frame;
use hyper::header::{ACCEPT, ALLOW, AUTHORIZATION, CONTENT_TYPE};
use serde_json::{Value, json};
use tidegate::ManualClock;
use tidegate_stores::control::{Change, Changes};
use tokio::time::{Duration, Instant};

use super::*;
use crate::control::permission::Action;
use crate::control::tests::FakeStore;
use crate::control::{Key, Namespace};
use crate::ids;

mod again;
mod bounded;
mod control;
mod modes;
mod once;
mod replayed;
mod throttled;

const LIMIT_PATH: &str = "/v2/ratelimit.limit";
const MULTI_LIMIT_PATH: &str = "/v2/ratelimit.multiLimit";

/// The start of a minute.
const MINUTE_MS: u64 = 1_700_000_040_000;

/// A door, its time and its store.
struct World {
    door: Arc<Door>,
    clock: ManualClock,
    store: Arc<FakeStore>,
}

impl World {
    async fn new() -> Self {
        Self::with_memory(64 << 20).await
    }

    async fn with_memory(bytes: usize) -> Self {
        let clock = ManualClock::at_unix_ms(MINUTE_MS);
        let store = Arc::new(FakeStore::with_workspace("ws_1"));
        let key = Key::given(ids::digest(b"key"), "ws_1", &Action::everything());
        let shared = Arc::new(clock.clone());
        let control = Control::new(Arc::clone(&store) as _, shared, Some(key));
        control.look().await.unwrap();
        let limiter = Limiter::builder().memory_budget_bytes(bytes).clock(clock.clone());
        let limiter = Arc::new(limiter.seed([1; 32]).build().unwrap());
        let door = Arc::new(Door::new(
            limiter,
            Arc::new(control),
            once(&clock),
            RequestIds::new(1),
            Arc::new(Live::of(Defaults::default())),
        ));
        Self { door, clock, store }
    }

    /// A key with these permissions.
    async fn key(&self, key: &str, permissions: &[&str]) {
        let change = Change::AddKey {
            id: format!("key_{key}"),
            workspace: "ws_1".to_owned(),
            name: String::new(),
            digest: ids::digest(key.as_bytes()),
            permissions: permissions.iter().map(|text| (*text).to_owned()).collect(),
            expires_ms: None,
        };
        self.change(&change).await;
    }

    async fn change(&self, change: &Change) -> Changes {
        self.door.control.change(change, "test").await.unwrap()
    }

    /// Calls with a key; the status and the body.
    async fn call_as(&self, key: &str, operation: &str, body: Value) -> (u16, Value) {
        let mut request = post(&format!("/v2/ratelimit.{operation}"), body);
        request.headers_mut().insert(AUTHORIZATION, format!("Bearer {key}").parse().unwrap());
        answer(&self.door, request).await
    }

    async fn call(&self, operation: &str, body: Value) -> (u16, Value) {
        self.call_as("key", operation, body).await
    }

    /// The data of a call that succeeds.
    async fn data(&self, operation: &str, body: Value) -> Value {
        let (status, body) = self.call(operation, body).await;
        assert_eq!(status, 200, "{body}");
        body["data"].clone()
    }

    fn namespace(&self, name: &str) -> Arc<Namespace> {
        let known = self.door.control.known();
        Arc::clone(known.workspace("ws_1").unwrap().namespace(name).unwrap())
    }
}

fn once(clock: &ManualClock) -> Idempotency {
    Idempotency::new(Arc::new(clock.clone()), None, 1)
}

/// The end of the type of an error.
fn kind(body: &Value) -> &str {
    let text = body["error"]["type"].as_str().unwrap_or_default();
    text.strip_prefix("https://unkey.com/docs/errors/").unwrap_or_default()
}

/// A door for whoever has this key, without a wait.
pub(crate) fn door_for(key: &str) -> Arc<Door> {
    let limiter = Arc::new(Limiter::builder().seed([1; 32]).build().unwrap());
    let control = Arc::new(crate::control::tests::with_key(key));
    let once = once(&ManualClock::at_unix_ms(MINUTE_MS));
    let live = Arc::new(Live::of(Defaults::default()));
    Arc::new(Door::new(limiter, control, once, RequestIds::new(1), live))
}

async fn door() -> Arc<Door> {
    World::new().await.door
}

fn post(path: &str, body: impl ToString) -> Request<Full<Bytes>> {
    let body = Full::new(Bytes::from(body.to_string()));
    Request::post(path).header(AUTHORIZATION, "Bearer key").body(body).unwrap()
}

async fn answer(door: &Arc<Door>, request: Request<Full<Bytes>>) -> (u16, Value) {
    let reply = door.answer(request).await;
    let status = reply.status().as_u16();
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    (status, serde_json::from_slice(&body).unwrap())
}

fn ask(limit: u64, cost: u64) -> Value {
    json!({"namespace": "n", "identifier": "i", "limit": limit, "duration": 60_000, "cost": cost})
}

#[tokio::test]
async fn an_admission_says_what_the_contract_says() {
    let door = door().await;
    let (status, body) = answer(&door, post(LIMIT_PATH, ask(10, 4))).await;
    let request_id = body["meta"]["requestId"].as_str().unwrap();
    assert_eq!(status, 200);
    assert_eq!(
        body,
        json!({
            "meta": {"requestId": request_id},
            "data": {"limit": 10, "remaining": 6, "reset": MINUTE_MS + 60_000, "success": true},
        })
    );
}

#[tokio::test]
async fn a_denial_is_an_answer_and_says_when_to_come_back() {
    let door = door().await;
    answer(&door, post(LIMIT_PATH, ask(2, 2))).await;
    let (status, body) = answer(&door, post(LIMIT_PATH, ask(2, 1))).await;
    assert_eq!(status, 200);
    let mut data = body["data"].clone();
    let retry_after_ms = data["retryAfterMs"].take();
    assert!(retry_after_ms.as_u64().is_some_and(|ms| (60_000..120_000).contains(&ms)), "{body}");
    assert_eq!(
        data,
        json!({"limit": 2, "remaining": 0, "reset": MINUTE_MS + 60_000, "success": false,
               "retryAfterMs": null})
    );

    let (_, body) = answer(&door, post(LIMIT_PATH, ask(2, 3))).await;
    assert_eq!(
        body["data"],
        json!({"limit": 2, "remaining": 0, "reset": MINUTE_MS + 60_000, "success": false}),
        "3 never fit under 2"
    );
}

#[tokio::test]
async fn a_denial_for_want_of_memory_says_so() {
    let door = World::with_memory(1 << 16).await.door;
    // Every subject spends its whole limit, so none may be forgotten for another.
    for number in 0..10_000 {
        let body = json!({"namespace": "n", "identifier": format!("i{number}"), "limit": 1,
                          "duration": 60_000});
        let (_, body) = answer(&door, post(LIMIT_PATH, body)).await;
        if body["data"]["success"] == false {
            assert_eq!(body["data"]["reason"], "memory");
            assert!(body["data"]["retryAfterMs"].is_u64());
            return;
        }
    }
    panic!("64 KiB held 10,000 subjects");
}

#[tokio::test]
async fn a_batch_answers_every_item_in_order() {
    let door = door().await;
    let items = json!([
        {"namespace": "a", "identifier": "x", "limit": 5, "duration": 60_000},
        {"namespace": "b", "identifier": "y", "limit": 1, "duration": 60_000, "cost": 2},
    ]);
    let (status, body) = answer(&door, post(MULTI_LIMIT_PATH, items)).await;
    assert_eq!(status, 200);
    let reset = MINUTE_MS + 60_000;
    assert_eq!(
        body["data"],
        json!({
            "passed": false,
            "limits": [
                {"namespace": "a", "identifier": "x", "limit": 5, "remaining": 5, "reset": reset,
                 "passed": true},
                {"namespace": "b", "identifier": "y", "limit": 1, "remaining": 0, "reset": reset,
                 "passed": false},
            ],
        })
    );
}

#[tokio::test]
async fn a_bad_body_is_reported_before_a_bad_key() {
    let door = door().await;
    let with_key = |key: Option<&str>, body: Value| {
        let mut request = post(LIMIT_PATH, body);
        request.headers_mut().remove(AUTHORIZATION);
        if let Some(key) = key {
            request.headers_mut().insert(AUTHORIZATION, key.parse().unwrap());
        }
        request
    };
    for key in [None, Some("nonsense"), Some("Bearer wrong")] {
        let (status, body) = answer(&door, with_key(key, json!({}))).await;
        assert_eq!(status, 400);
        assert_eq!(body["error"]["errors"].as_array().unwrap().len(), 4, "{body}");
        assert_eq!(
            body["error"]["detail"],
            "POST request body for '/v2/ratelimit.limit' failed to validate schema"
        );
    }
    let kinds = [
        (None, 400, "unkey/application/invalid_input"),
        (Some("nonsense"), 400, "unkey/authentication/malformed"),
        (Some("Bearer wrong"), 401, "unkey/authentication/key_not_found"),
    ];
    for (key, expected, kind) in kinds {
        let (status, body) = answer(&door, with_key(key, ask(1, 1))).await;
        assert_eq!(status, expected);
        assert_eq!(body["error"]["type"], format!("https://unkey.com/docs/errors/{kind}"));
        assert_eq!(body["error"]["status"], expected);
    }
    assert_eq!(door.refused(), 6);
    assert_eq!(door.limiter().subjects(), 0, "nothing was counted");
}

/// The beginning of a large body, and then nothing more.
struct Stuck(Option<Bytes>);

impl Body for Stuck {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.take().map_or(Poll::Pending, |bytes| Poll::Ready(Some(Ok(Frame::data(bytes)))))
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_has_the_key_does_not_wait_for_strangers() {
    let door = door().await;
    for key in ["Bearer wrong", "nonsense"].repeat(100) {
        let body = Stuck(Some(Bytes::from(vec![b' '; 20 << 10])));
        let request = Request::post(LIMIT_PATH).header(AUTHORIZATION, key).body(body).unwrap();
        let door = Arc::clone(&door);
        tokio::spawn(async move { door.answer(request).await });
    }
    // Lets all of them take what they can get.
    tokio::task::yield_now().await;
    let start = Instant::now();
    let large = format!("{}{}", ask(1, 1), " ".repeat(20 << 10));
    assert_eq!(answer(&door, post(LIMIT_PATH, large)).await.0, 200);
    assert_eq!(start.elapsed(), Duration::ZERO);
}

#[tokio::test]
async fn other_paths_and_methods_are_refused_in_the_same_envelope() {
    let door = door().await;
    for path in ["/", "/v2/ratelimit.limit/", "/v2/ratelimit.Limit", "/v2/ratelimit.limit2"] {
        let (status, body) = answer(&door, post(path, ask(1, 1))).await;
        assert_eq!((status, &body["error"]["title"]), (404, &json!("Not Found")), "{path}");
        assert!(body["error"].get("errors").is_none());
    }
    for method in [Method::GET, Method::PUT, Method::DELETE, Method::OPTIONS] {
        let mut request = post(MULTI_LIMIT_PATH, "");
        *request.method_mut() = method;
        let reply = door.answer(request).await;
        assert_eq!(reply.status().as_u16(), 405);
        assert_eq!(reply.headers()[ALLOW], "POST");
    }
    let (status, _) = answer(&door, post("/v2/ratelimit.limit?verbose=1", ask(1, 1))).await;
    assert_eq!(status, 200, "a query changes nothing");
}

#[tokio::test]
async fn an_error_is_written_as_the_caller_accepts_it() {
    let door = door().await;
    let mut request = post(LIMIT_PATH, ask(1, 1));
    request.headers_mut().insert(AUTHORIZATION, "Bearer wrong".parse().unwrap());
    request.headers_mut().insert(ACCEPT, "application/problem+json".parse().unwrap());
    let reply = door.answer(request).await;
    assert_eq!(reply.headers()[CONTENT_TYPE], "application/problem+json");
    let reply = door.answer(post(LIMIT_PATH, "{}")).await;
    assert_eq!(reply.headers()[CONTENT_TYPE], "application/json");
}

#[tokio::test]
async fn the_document_names_what_there_is() {
    let door = door().await;
    let request = Request::get("/openapi.json").body(Full::new(Bytes::new())).unwrap();
    let (status, document) = answer(&door, request).await;
    assert_eq!(status, 200);
    let described: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    for operation in Operation::ALL {
        assert!(described.contains(&&operation.path().to_owned()), "{operation:?}");
        let (status, _) = answer(&door, post(operation.path(), "")).await;
        assert_eq!(status, 400, "{operation:?}");
    }
    let operations = described.iter().filter(|path| path.starts_with("/v2/")).count();
    assert_eq!(operations, Operation::ALL.len());
    let (status, _) = answer(&door, post("/openapi.json", "")).await;
    assert_eq!(status, 405);
}

#[tokio::test]
async fn the_state_of_a_request_is_small() {
    let World { door, .. } = World::new().await;
    let request = Request::new(Full::new(Bytes::new()));
    let (last_key, begun) = (&LastKey::default(), Instant::now());
    let line = Line { last_key, note_key: || {}, begun };
    let state = size_of_val(&door.answer_over(request, line));
    // It is copied when it begins: what is seldom needed belongs into a box.
    assert!(state <= 3_072, "{state} bytes");
}
