use std::convert::Infallible;
use std::future::{Ready, pending, ready};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::tower::ServiceExt;
use http::{Request, Response, StatusCode, Version};
use serde_json::{Value, json};
use tower_service::Service;

use super::*;
use crate::ManualClock;

/// The start of a minute.
const MINUTE_MS: u64 = 1_700_000_040_000;
const MINUTE: Duration = Duration::from_secs(60);

fn limiter(clock: &ManualClock) -> Arc<Limiter> {
    Arc::new(Limiter::builder().clock(clock.clone()).seed([1; 32]).build().unwrap())
}

/// Whoever is named in the header.
fn name(head: &Parts) -> Option<String> {
    Some(head.headers.get("x-name")?.to_str().ok()?.to_owned())
}

type Identify = fn(&Parts) -> Option<String>;

fn layer(rule: Rule) -> (RateLimitLayer<Identify>, ManualClock) {
    let clock = ManualClock::at_unix_ms(MINUTE_MS);
    (RateLimitLayer::new(limiter(&clock), rule, name as Identify), clock)
}

fn rule(limit: u64) -> Rule {
    Rule::new("test", limit, MINUTE).unwrap()
}

fn from(name: &str) -> Request<String> {
    Request::post("/path?query").header("x-name", name).body("body".to_owned()).unwrap()
}

/// Sends back what it was sent.
async fn echo(request: Request<String>) -> Result<Response<String>, Infallible> {
    let (head, body) = request.into_parts();
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::IM_A_TEAPOT;
    (*response.headers_mut(), *response.extensions_mut()) = (head.headers, head.extensions);
    *response.version_mut() = head.version;
    response
        .headers_mut()
        .insert("x-line", format!("{} {}", head.method, head.uri).parse().unwrap());
    Ok(response)
}

async fn status<S>(service: &S, request: Request<String>) -> u16
where
    S: Service<Request<String>, Response = Response<String>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap().status().as_u16()
}

#[tokio::test]
async fn a_denied_request_is_told_when_to_come_back() {
    let (layer, clock) = layer(rule(1));
    let service = layer.layer(::tower::service_fn(echo));
    assert_eq!(status(&service, from("ann")).await, 418);

    clock.advance(Duration::from_millis(250));
    let denied = service.clone().oneshot(from("ann")).await.unwrap();
    assert_eq!(denied.status(), 429);
    assert_eq!(denied.headers()["content-type"], "application/problem+json");
    assert_eq!(denied.headers()["retry-after"], "60", "59,751 ms, rounded up");
    assert_eq!(
        serde_json::from_str::<Value>(denied.body()).unwrap(),
        json!({
            "type": "about:blank",
            "title": "Too Many Requests",
            "status": 429,
            "detail": "The limit is 1 in 60 s. Come back in 60 s.",
            "limit": 1,
            "remaining": 0,
            "retryAfterMs": 59_751,
        })
    );

    clock.advance(Duration::from_millis(59_750));
    let denied = service.clone().oneshot(from("ann")).await.unwrap();
    assert_eq!(denied.headers()["retry-after"], "1", "a millisecond, and never \"at once\"");
    clock.advance(Duration::from_secs(1));
    assert_eq!(status(&service, from("ann")).await, 418);
}

#[tokio::test]
async fn what_never_fits_is_not_told_to_come_back() {
    let (layer, _) = layer(rule(5).with_cost(6).unwrap());
    let denied = layer.layer(::tower::service_fn(echo)).oneshot(from("ann")).await.unwrap();
    assert_eq!(denied.status(), 429);
    assert!(!denied.headers().contains_key("retry-after"));
    let body: Value = serde_json::from_str(denied.body()).unwrap();
    assert_eq!((&body["limit"], body.get("retryAfterMs")), (&json!(5), None));
}

#[tokio::test]
async fn an_admitted_request_and_its_response_pass_unchanged() {
    let (layer, _) = layer(rule(1));
    let mut request = from("ann");
    *request.version_mut() = Version::HTTP_2;
    request.extensions_mut().insert(42_u8);
    let response = layer.layer(::tower::service_fn(echo)).oneshot(request).await.unwrap();
    assert_eq!((response.status(), response.version()), (StatusCode::IM_A_TEAPOT, Version::HTTP_2));
    assert_eq!(response.headers().len(), 2, "{:?}", response.headers());
    assert_eq!(response.headers()["x-name"], "ann");
    assert_eq!(response.headers()["x-line"], "POST /path?query");
    assert_eq!(response.extensions().get::<u8>(), Some(&42));
    assert_eq!(response.body(), "body");
}

#[tokio::test]
async fn requests_of_nobody_are_not_limited() {
    let (layer, _) = layer(rule(0));
    let service = layer.layer(::tower::service_fn(echo));
    assert_eq!(status(&service, from("ann")).await, 429);
    for _ in 0..3 {
        assert_eq!(status(&service, Request::new(String::new())).await, 418);
    }
}

#[tokio::test]
async fn nobody_escapes_by_a_name_that_is_none() {
    let (layer, _) = layer(rule(1));
    let service = layer.layer(::tower::service_fn(echo));
    for bad in ["", &"x".repeat(513)] {
        let refused = service.clone().oneshot(from(bad)).await.unwrap();
        assert_eq!(refused.status(), 400);
        let body: Value = serde_json::from_str(refused.body()).unwrap();
        assert_eq!((&body["status"], &body["title"]), (&json!(400), &json!("Bad Request")));
        assert!(body["detail"].as_str().unwrap().contains("identifier"), "{body}");
    }
    assert_eq!(status(&service, from(&"x".repeat(512))).await, 418);
}

#[tokio::test]
async fn clones_and_other_services_of_a_layer_share_the_limit() {
    let (layer, _) = layer(rule(3));
    let one = layer.layer(::tower::service_fn(echo));
    let other = layer.clone().layer(::tower::service_fn(echo));
    assert_eq!(status(&one, from("ann")).await, 418);
    assert_eq!(status(&one.clone(), from("ann")).await, 418);
    assert_eq!(status(&other, from("ann")).await, 418);
    assert_eq!(status(&one, from("ann")).await, 429);
    assert_eq!(status(&other, from("bob")).await, 418, "each has a limit of their own");
}

#[test]
fn a_rule_says_which_part_of_it_is_wrong() {
    let window = |ms| Rule::new("n", 1, Duration::from_millis(ms)).unwrap_err().to_string();
    assert_eq!(window(999), "the window must be at least 1000 ms");
    assert!(window(32 * 86_400_000).starts_with("the window must be at most"));
    assert!(window(u64::MAX).starts_with("the window must be at most"));
    let forever = Rule::new("n", 1, Duration::MAX).unwrap_err().to_string();
    assert!(forever.starts_with("the window must be at most"));
    let long = "x".repeat(513);
    let namespace = Rule::new(&long, 1, MINUTE).unwrap_err().to_string();
    assert_eq!(namespace, "the namespace must have at most 512 characters");
    let workspace = rule(1).with_workspace("").unwrap_err().to_string();
    assert_eq!(workspace, "the workspace must not be empty");
    let cost = rule(1).with_cost(u64::MAX).unwrap_err().to_string();
    assert!(cost.starts_with("the cost must be at most"));
}

#[tokio::test]
async fn workspaces_share_nothing() {
    let clock = ManualClock::at_unix_ms(MINUTE_MS);
    let limiter = limiter(&clock);
    for workspace in ["one", "other"] {
        let rule = rule(1).with_workspace(workspace).unwrap();
        let layer = RateLimitLayer::new(Arc::clone(&limiter), rule, name);
        assert_eq!(status(&layer.layer(::tower::service_fn(echo)), from("ann")).await, 418);
    }
}

/// A service with a single place, as one with a concurrency limit has: who polls it takes the
/// place, who calls it must have it, and dropping gives it back. A clone has none.
#[derive(Debug)]
struct OnePlace {
    taken: Arc<AtomicUsize>,
    mine: bool,
}

impl Clone for OnePlace {
    fn clone(&self) -> Self {
        Self { taken: Arc::clone(&self.taken), mine: false }
    }
}

impl Drop for OnePlace {
    fn drop(&mut self) {
        if self.mine {
            self.taken.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Service<Request<String>> for OnePlace {
    type Response = Response<String>;
    type Error = &'static str;
    type Future = Ready<Result<Response<String>, &'static str>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        if !self.mine && self.taken.load(Ordering::SeqCst) == 1 {
            return Poll::Pending;
        }
        if !self.mine {
            self.taken.fetch_add(1, Ordering::SeqCst);
            self.mine = true;
        }
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<String>) -> Self::Future {
        assert!(self.mine, "called without having been ready");
        ready(Err("from inside"))
    }
}

#[tokio::test]
async fn the_service_that_was_ready_is_the_one_that_is_called() {
    let (layer, _) = layer(rule(1));
    let taken = Arc::new(AtomicUsize::new(0));
    let mut service = layer.layer(OnePlace { taken: Arc::clone(&taken), mine: false });
    let mut context = Context::from_waker(Waker::noop());
    assert!(service.poll_ready(&mut context).is_ready());
    let first = service.call(from("ann"));
    assert!(service.poll_ready(&mut context).is_pending(), "the request has the only place");
    assert_eq!(first.await.unwrap_err(), "from inside", "errors are the service's own");
    assert!(service.poll_ready(&mut context).is_ready(), "and has given it back");

    let denied = service.call(from("ann")).await.unwrap();
    assert_eq!(denied.status(), 429);
    assert_eq!(taken.load(Ordering::SeqCst), 0, "a denied request gives its place back, unused");
}

#[tokio::test]
async fn a_request_that_is_given_up_has_spent_what_was_decided_and_no_more() {
    let clock = ManualClock::at_unix_ms(MINUTE_MS);
    let limiter = limiter(&clock);
    let stuck = ::tower::service_fn(|_| pending::<Result<Response<String>, Infallible>>());
    let mut service = RateLimitLayer::new(Arc::clone(&limiter), rule(9), name).layer(stuck);

    drop(service.call(from("ann")));
    assert_eq!(limiter.counts().admitted_local, 0, "never polled, nothing decided");

    let mut decided = Box::pin(service.call(from("ann")));
    let mut context = Context::from_waker(Waker::noop());
    assert!(decided.as_mut().poll(&mut context).is_pending());
    drop(decided);
    assert_eq!(limiter.counts().admitted_local, 1, "admitted once, whatever became of it");
}

#[cfg(feature = "region")]
#[tokio::test]
async fn a_request_that_is_given_up_while_the_region_is_asked_has_spent_nothing() {
    use tidegate_convergence::{BoardCall, Boarding, Calling, RegionalStore, ShardCall};

    #[derive(Debug)]
    struct Silent;

    impl RegionalStore for Silent {
        fn shards(&self) -> u16 {
            1
        }

        fn call<'a>(&'a self, _: &'a ShardCall) -> Calling<'a> {
            Box::pin(pending())
        }

        fn board<'a>(&'a self, _: &'a BoardCall) -> Boarding<'a> {
            Box::pin(pending())
        }
    }

    let limiter = Arc::new(Limiter::builder().region(Silent).build().unwrap());
    let mut service =
        RateLimitLayer::new(Arc::clone(&limiter), rule(9), name).layer(::tower::service_fn(echo));
    let mut asking = Box::pin(service.call(from("ann")));
    let mut context = Context::from_waker(Waker::noop());
    assert!(asking.as_mut().poll(&mut context).is_pending(), "it waits for the region");
    drop(asking);
    assert_eq!(limiter.counts().admitted_local, 0);
    assert_eq!(status(&service, from("ann")).await, 418, "a region that is away fails nothing");
    assert_eq!(limiter.region_counts().unwrap().unreplayed_cost, 1);
}
