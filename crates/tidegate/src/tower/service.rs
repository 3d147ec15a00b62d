//! The service before the service.

use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Request, Response};
use tower_service::Service;

use super::{Gate, denial};
use crate::{Answer, Limiter};

/// A service whose requests are limited. Made by a [`RateLimitLayer`](super::RateLimitLayer);
/// the [module](super) has examples.
///
/// The body of its responses has to be made `From<String>`, as axum's and `http-body-util`'s are:
/// that is how a denial becomes one.
pub struct RateLimit<S, F> {
    inner: S,
    gate: Arc<Gate<F>>,
}

impl<S, F> RateLimit<S, F> {
    pub(super) const fn new(inner: S, gate: Arc<Gate<F>>) -> Self {
        Self { inner, gate }
    }
}

impl<S, F, B, R> Service<Request<B>> for RateLimit<S, F>
where
    S: Service<Request<B>, Response = Response<R>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: 'static,
    F: Fn(&http::request::Parts) -> Option<String> + Send + Sync + 'static,
    B: Send + 'static,
    R: From<String> + 'static,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<R, S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The one that was polled is ready; a clone of it need not be. So the request takes the
        // ready one with it, and the clone is polled for the next.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let gate = Arc::clone(&self.gate);
        ResponseFuture(Box::pin(async move {
            let (head, body) = request.into_parts();
            if let Some(identifier) = (gate.identify)(&head) {
                match gate.rule.request(&identifier) {
                    Err(why) => return Ok(denial::not_identified(why)),
                    Ok(request) => {
                        let answer = check(&gate.limiter, &request).await;
                        if !answer.admitted() {
                            return Ok(denial::too_many(&answer, &gate.rule));
                        }
                    }
                }
            }
            inner.call(Request::from_parts(head, body)).await
        }))
    }
}

/// Waits for the region only where there can be one.
#[cfg(feature = "region")]
async fn check(limiter: &Limiter, request: &crate::Request<'_>) -> Answer {
    limiter.check(request).await
}

/// A process on its own waits for nobody.
#[cfg(not(feature = "region"))]
async fn check(limiter: &Limiter, request: &crate::Request<'_>) -> Answer {
    limiter.check_now(request)
}

impl<S: Clone, F> Clone for RateLimit<S, F> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone(), gate: Arc::clone(&self.gate) }
    }
}

impl<S: fmt::Debug, F> fmt::Debug for RateLimit<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("RateLimit");
        debug.field("inner", &self.inner).field("rule", &self.gate.rule).finish_non_exhaustive()
    }
}

/// A request on its way through a [`RateLimit`].
///
/// # Cancel safety
/// Dropped before it is first polled, nothing is spent. Dropped while the region is asked, nothing
/// is spent either. Once the request is admitted its cost is spent, whatever becomes of it.
#[must_use = "futures do nothing unless polled"]
pub struct ResponseFuture<R, E>(Passing<R, E>);

/// Boxed, because the check borrows from what the future owns. One allocation is little beside
/// what a request costs.
type Passing<R, E> = Pin<Box<dyn Future<Output = Result<Response<R>, E>> + Send>>;

impl<R, E> Future for ResponseFuture<R, E> {
    type Output = Result<Response<R>, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.as_mut().poll(context)
    }
}

impl<R, E> fmt::Debug for ResponseFuture<R, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ResponseFuture").finish_non_exhaustive()
    }
}
