//! Limits the requests that reach a tower service, such as an axum router.
//!
//! Promises: an admitted request reaches the service as it came, and its response leaves as it is.
//! A denied one does not reach it and gets a `429 Too Many Requests` that says when to come back.
//! Refuses: to guess who is asking: you say it, by a function of the request's head.
//! Fails: never because of a store. In a region that does not answer, requests are decided on what
//! this process knows.
//!
//! # In an axum service
//!
//! ```
//! use std::{sync::Arc, time::Duration};
//!
//! use axum::{Router, routing::get};
//! use tidegate::tower::{RateLimitLayer, Rule};
//! # use axum::{body::Body, http::Request};
//! # use tower::ServiceExt;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let limiter = Arc::new(tidegate::Limiter::builder().build()?);
//! // Two requests an hour for each key.
//! let rule = Rule::new("api", 2, Duration::from_secs(3_600))?;
//! let limit = RateLimitLayer::new(limiter, rule, |head| {
//!     // Those without a key share one limit.
//!     let key = head.headers.get("x-api-key").and_then(|key| key.to_str().ok());
//!     Some(key.unwrap_or("none").to_owned())
//! });
//! let app = Router::new().route("/", get(|| async { "hello" })).layer(limit);
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let ask = || {
//! #     let request = Request::get("/").header("x-api-key", "ann").body(Body::empty());
//! #     app.clone().oneshot(request.unwrap())
//! # };
//! # assert_eq!(ask().await?.status(), 200);
//! # assert_eq!(ask().await?.status(), 200);
//! # let denied = ask().await?;
//! # assert_eq!(denied.status(), 429);
//! # assert!(denied.headers().contains_key("retry-after"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })
//! # }
//! ```
//!
//! # In several processes
//!
//! With the feature `redis`, processes that use one Redis share their limits; nothing else
//! changes.
#![cfg_attr(feature = "redis", doc = "```")]
#![cfg_attr(not(feature = "redis"), doc = "```text")]
//! use std::{sync::Arc, time::Duration};
//!
//! use axum::{Router, routing::get};
//! use tidegate::tower::{RateLimitLayer, Rule};
//! # use axum::{body::Body, http::Request};
//! # use tower::ServiceExt;
//!
//! # fn app(url: &str) -> Result<(Router, Arc<tidegate::Limiter>), Box<dyn std::error::Error>> {
//! // Such as "redis://user:password@cache.example:6379".
//! let store = tidegate::redis::store(url)?;
//! let limiter = Arc::new(tidegate::Limiter::builder().region(store).build()?);
//! let rule = Rule::new("api", 2, Duration::from_secs(86_400))?;
//! let limit = RateLimitLayer::new(Arc::clone(&limiter), rule, |head| {
//!     // Those without a key share one limit.
//!     let key = head.headers.get("x-api-key").and_then(|key| key.to_str().ok());
//!     Some(key.unwrap_or("none").to_owned())
//! });
//! let app = Router::new().route("/", get(|| async { "hello" })).layer(limit);
//! // When no more requests come: `limiter.drain(patience).await` forgets nothing.
//! # Ok((app, limiter))
//! # }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let redis = tidegate_lab::RedisServer::start()?;
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! # let ((one, limiter), (other, later)) = (app(&redis.url())?, app(&redis.url())?);
//! # let ask = |app: &Router| {
//! #     let request = Request::get("/").header("x-api-key", "ann").body(Body::empty());
//! #     app.clone().oneshot(request.unwrap())
//! # };
//! # assert_eq!(ask(&one).await?.status(), 200);
//! # assert_eq!(ask(&one).await?.status(), 200);
//! # assert_eq!(limiter.drain(Duration::from_secs(20)).await.unreplayed_cost, 0);
//! # // On a busy machine the first answer may come too late; nobody has to wait for it.
//! # use tidegate::{Cost, Limit, Part, Request as Ask, Subject, Window};
//! # let (workspace, namespace) = (Part::new("default")?, Part::new("api")?);
//! # let window = Window::from_millis(86_400_000)?;
//! # let subject = Subject::new(workspace, namespace, Part::new("ann")?, window);
//! # while later.check(&Ask::new(subject, Limit::new(2), Cost::new(0)?)).await.degraded() {
//! #     tokio::task::yield_now().await;
//! # }
//! # assert_eq!(ask(&other).await?.status(), 429);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })
//! # }
//! ```
//!
//! # What a denied client sees
//!
//! ```text
//! HTTP/1.1 429 Too Many Requests
//! content-type: application/problem+json
//! retry-after: 42
//!
//! {"type":"about:blank","title":"Too Many Requests","status":429,
//!  "detail":"The limit is 2 in 3600 s. Come back in 42 s.",
//!  "limit":2,"remaining":0,"retryAfterMs":41250}
//! ```
//!
//! `Retry-After` and `retryAfterMs` are absent if the cost never fits under the limit. Admitted
//! responses get no headers: the `RateLimit` fields are a draft that still changes.

mod denial;
mod rule;
mod service;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use http::request::Parts;
use tower_layer::Layer;

pub use rule::{Rule, RuleError};
pub use service::{RateLimit, ResponseFuture};

use crate::Limiter;

/// Puts a [`RateLimit`] before a service. Cheap to clone; all clones, and all services made by
/// them, share the limiter.
///
/// The [module](self) shows it in an axum service.
pub struct RateLimitLayer<F> {
    gate: Arc<Gate<F>>,
}

/// What all services of a layer share.
pub(crate) struct Gate<F> {
    limiter: Arc<Limiter>,
    rule: Rule,
    identify: F,
}

impl<F> RateLimitLayer<F>
where
    F: Fn(&Parts) -> Option<String>,
{
    /// A layer that asks `limiter` about each request, by `rule`. The [module](self) has examples.
    ///
    /// `identify` says who is asking, from the head of the request: an API key, a user that an
    /// earlier layer put into the extensions, an address. Requests for which it gives `None`
    /// **pass unlimited**. What it gives must be a valid identifier, of 1 to 512 characters;
    /// other requests are refused with a 400, so that nobody escapes a limit by a long name.
    pub fn new(limiter: Arc<Limiter>, rule: Rule, identify: F) -> Self {
        Self { gate: Arc::new(Gate { limiter, rule, identify }) }
    }
}

impl<S, F> Layer<S> for RateLimitLayer<F> {
    type Service = RateLimit<S, F>;

    fn layer(&self, inner: S) -> Self::Service {
        RateLimit::new(inner, Arc::clone(&self.gate))
    }
}

// Not derived: that would ask of the function to be `Clone`.
impl<F> Clone for RateLimitLayer<F> {
    fn clone(&self) -> Self {
        Self { gate: Arc::clone(&self.gate) }
    }
}

impl<F> fmt::Debug for RateLimitLayer<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimitLayer").field("rule", &self.gate.rule).finish_non_exhaustive()
    }
}
