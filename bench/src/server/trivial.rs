//! The least that a server of the same stack does: it reads the same JSON, limits nobody, and
//! answers the same JSON. With `--redis` it lets a script in Redis decide: the least front of it.

use std::borrow::Cow;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use redis::aio::MultiplexedConnection;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};

use super::script;
use crate::Failure;

/// What the server beside it reads at most of a head, and how it speaks HTTP/2 (its
/// `accept::connection`): otherwise settings would be compared, not work.
const HEAD_BYTES_MAX: usize = 32 << 10;
const STREAMS_MAX: u32 = 128;
const HEADER_LIST_BYTES_MAX: u32 = 16 << 10;
const FRAME_BYTES_MAX: u32 = 16 << 10;
const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// A time of which a `reset` is a window later: as long as one of today, so that replies are as
/// long as those beside them.
const NOW_MS: u64 = 1_700_000_000_000;

/// Arguments of the process.
#[derive(clap::Args)]
pub(crate) struct TrivialArgs {
    /// Where HTTP/1.1 is answered.
    #[arg(long)]
    http1: SocketAddr,
    /// Where HTTP/2 is.
    #[arg(long)]
    http2: SocketAddr,
    /// A Redis that decides.
    #[arg(long)]
    redis: Option<String>,
}

/// What is asked.
#[derive(Deserialize)]
struct Ask<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    identifier: Cow<'a, str>,
    limit: u64,
    duration: u64,
    cost: Option<u64>,
}

#[derive(Serialize)]
struct Meta {
    #[serde(rename = "requestId")]
    request_id: String,
}

#[derive(Serialize)]
struct Reply<D> {
    meta: Meta,
    data: D,
}

#[derive(Serialize)]
struct Answer {
    limit: u64,
    remaining: u64,
    reset: u64,
    success: bool,
}

#[derive(Serialize)]
struct Answers<'a> {
    passed: bool,
    limits: Vec<Item<'a>>,
}

#[derive(Serialize)]
struct Item<'a> {
    namespace: &'a str,
    identifier: &'a str,
    limit: u64,
    remaining: u64,
    reset: u64,
    passed: bool,
}

/// What all requests share.
struct House {
    redis: Option<MultiplexedConnection>,
    next: AtomicU64,
}

/// Serves until it is killed.
pub(crate) fn main(args: &TrivialArgs) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(args))
}

async fn serve(args: &TrivialArgs) -> Result<ExitCode, Failure> {
    let redis = match &args.redis {
        Some(url) => {
            let client = redis::Client::open(url.as_str())?;
            Some(client.get_multiplexed_async_connection().await?)
        }
        None => None,
    };
    let house = Arc::new(House { redis, next: AtomicU64::new(0) });
    let (one, two) = (TcpListener::bind(args.http1).await?, TcpListener::bind(args.http2).await?);
    loop {
        tokio::select! {
            accepted = one.accept() => spawn(accepted?.0, &house, false)?,
            accepted = two.accept() => spawn(accepted?.0, &house, true)?,
        }
    }
}

fn spawn(stream: TcpStream, house: &Arc<House>, two: bool) -> Result<(), Failure> {
    stream.set_nodelay(true)?;
    let house = Arc::clone(house);
    tokio::spawn(async move {
        let service = service_fn(|request| answer(Arc::clone(&house), request));
        // A client that breaks off is its own affair.
        if two {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            let builder = builder
                .max_concurrent_streams(STREAMS_MAX)
                .max_header_list_size(HEADER_LIST_BYTES_MAX)
                .max_frame_size(FRAME_BYTES_MAX)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
                .max_send_buf_size(SEND_BUFFER_BYTES);
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        } else {
            let mut builder = http1::Builder::new();
            let builder = builder
                .header_read_timeout(None)
                .max_header_size(HEAD_BYTES_MAX)
                .max_buf_size(HEAD_BYTES_MAX)
                .writev(false);
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        }
    });
    Ok(())
}

async fn answer(
    house: Arc<House>,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = match request.uri().path() {
        "/v2/ratelimit.limit" => limit(&house, request).await,
        "/v2/ratelimit.multiLimit" => multi_limit(&house, request).await,
        _ => Err("there is no such path".into()),
    };
    let (body, status) = match body {
        Ok(body) => (body, StatusCode::OK),
        Err(why) => (why.to_string().into(), StatusCode::BAD_REQUEST),
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

impl House {
    fn meta(&self) -> Meta {
        // ORDER: relaxed, a counter that orders nothing.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Meta { request_id: format!("req_{number:09}") }
    }

    async fn decide(&self, ask: &Ask<'_>) -> Result<Answer, Failure> {
        let cost = ask.cost.unwrap_or(1);
        let Some(redis) = &self.redis else {
            let (limit, reset) = (ask.limit, NOW_MS.saturating_add(ask.duration));
            return Ok(Answer { limit, remaining: limit - cost.min(limit), reset, success: true });
        };
        let key = format!("{}:{}", ask.namespace, ask.identifier);
        let mut redis = redis.clone();
        let command = script::call(&key, ask.limit, ask.duration, cost);
        let (success, limit, remaining, reset): (u64, u64, u64, u64) =
            command.query_async(&mut redis).await?;
        Ok(Answer { limit, remaining, reset, success: success == 1 })
    }
}

async fn limit(house: &House, request: Request<Incoming>) -> Result<Vec<u8>, Failure> {
    let body = request.into_body().collect().await?.to_bytes();
    let ask: Ask<'_> = serde_json::from_slice(&body)?;
    let data = house.decide(&ask).await?;
    Ok(serde_json::to_vec(&Reply { meta: house.meta(), data })?)
}

async fn multi_limit(house: &House, request: Request<Incoming>) -> Result<Vec<u8>, Failure> {
    let body = request.into_body().collect().await?.to_bytes();
    let asks: Vec<Ask<'_>> = serde_json::from_slice(&body)?;
    let mut limits = Vec::with_capacity(asks.len());
    for ask in &asks {
        let Answer { limit, remaining, reset, success: passed } = house.decide(ask).await?;
        let (namespace, identifier) = (&*ask.namespace, &*ask.identifier);
        limits.push(Item { namespace, identifier, limit, remaining, reset, passed });
    }
    let data = Answers { passed: limits.iter().all(|item| item.passed), limits };
    Ok(serde_json::to_vec(&Reply { meta: house.meta(), data })?)
}
