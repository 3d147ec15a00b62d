//! One request from its arrival to its reply.
//!
//! The order is the contract's: route, body, schema, key, check. So a bad body is reported before
//! a bad key, and nothing is counted unless all of it is in order. The key is looked at earlier,
//! silently, so that strangers do not wait where callers with the key do.

use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use hyper::body::Body;
use hyper::http::request::Parts;
use hyper::{Method, Request};
use tidegate::{Batch, Limiter, Part};

use crate::auth::RootKey;
use crate::body::{Bodies, Sender};
use crate::decode::{FieldError, LimitBody, MultiLimitBody, Undecodable};
use crate::problem::Problem;
use crate::reply::{self, Reply};
use crate::request_id::RequestIds;

#[cfg(test)]
mod tests;

const LIMIT_PATH: &str = "/v2/ratelimit.limit";
const MULTI_LIMIT_PATH: &str = "/v2/ratelimit.multiLimit";

/// Answers requests.
#[derive(Debug)]
pub struct Door {
    limiter: Limiter,
    /// Whether the limiter shares its limits; then every answer says how well it knew them.
    in_region: bool,
    root_key: RootKey,
    request_ids: RequestIds,
    bodies: Bodies,
    refused: AtomicU64,
}

enum Operation {
    Limit,
    MultiLimit,
}

impl Door {
    /// A door to `limiter` for whoever has the key.
    #[must_use]
    pub fn new(limiter: Limiter, root_key: RootKey, request_ids: RequestIds) -> Self {
        let in_region = limiter.region_counts().is_some();
        let (bodies, refused) = (Bodies::new(), AtomicU64::new(0));
        Self { limiter, in_region, root_key, request_ids, bodies, refused }
    }

    /// What the door leads to.
    #[must_use]
    pub const fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// How many requests had no answer, because something was wrong with them.
    #[must_use]
    pub fn refused(&self) -> u64 {
        // ORDER: relaxed, here and where it is raised. A count that nothing else follows from.
        self.refused.load(Ordering::Relaxed)
    }

    /// Answers one request.
    pub(crate) async fn answer<B>(&self, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let request_id = self.request_ids.next_id();
        let (head, body) = request.into_parts();
        self.handle(&head, body, &request_id).await.unwrap_or_else(|problem| {
            self.refused.fetch_add(1, Ordering::Relaxed);
            reply::problem(&request_id, &problem, &head.headers)
        })
    }

    async fn handle<B>(&self, head: &Parts, body: B, request_id: &str) -> Result<Reply, Problem>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let operation = route(&head.method, head.uri.path())?;
        let workspace = self.root_key.authenticate(&head.headers);
        let sender = if workspace.is_ok() { Sender::Known } else { Sender::Stranger };
        let bytes = self.bodies.read(body, &head.headers, sender).await?;
        self.decide(&operation, &bytes, workspace, request_id).await
    }

    /// Everything after the last byte has arrived: from here on nothing waits but, for some
    /// milliseconds at most, for the region.
    ///
    /// # Cancel safety
    /// A client that leaves while the region is asked has spent nothing.
    async fn decide(
        &self,
        operation: &Operation,
        bytes: &[u8],
        workspace: Result<Part<'static>, Problem>,
        request_id: &str,
    ) -> Result<Reply, Problem> {
        match operation {
            Operation::Limit => {
                let body = LimitBody::read(bytes).map_err(not_json(LIMIT_PATH))?;
                let item = body.parse().map_err(wrong_fields(LIMIT_PATH))?;
                let workspace = workspace?;
                let answer = self.limiter.check(&item.request(workspace)).await;
                Ok(reply::limit(request_id, &answer, self.in_region))
            }
            Operation::MultiLimit => {
                let body = MultiLimitBody::read(bytes).map_err(not_json(MULTI_LIMIT_PATH))?;
                let items = body.parse().map_err(wrong_fields(MULTI_LIMIT_PATH))?;
                let workspace = workspace?;
                let requests: Vec<_> = items.iter().map(|item| item.request(workspace)).collect();
                // The decoder has counted the items already.
                let batch = Batch::new(&requests)
                    .map_err(|_| Problem::schema(MULTI_LIMIT_PATH, Vec::new()))?;
                let answer = self.limiter.check_all(&batch).await;
                Ok(reply::multi_limit(request_id, &items, &answer, self.in_region))
            }
        }
    }
}

fn route(method: &Method, path: &str) -> Result<Operation, Problem> {
    let operation = match path {
        LIMIT_PATH => Operation::Limit,
        MULTI_LIMIT_PATH => Operation::MultiLimit,
        _ => return Err(Problem::path_not_found()),
    };
    if method == Method::POST { Ok(operation) } else { Err(Problem::method_not_allowed()) }
}

fn not_json(path: &str) -> impl Fn(Undecodable) -> Problem {
    move |_| Problem::schema(path, Vec::new())
}

fn wrong_fields(path: &str) -> impl Fn(Vec<FieldError>) -> Problem {
    move |errors| Problem::schema(path, errors)
}
