//! The listener for those who look after the server: metrics and health, on an address of its own.
//!
//! Promises: a scrape is answered while the data listener is full of clients, and until the process
//! ends.
//! Refuses: keys, and everything but GET and HEAD of three paths. One connection serves one
//! request.
//! Fails: who is too slow is cut off; when too many look at once, the next waits.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{ServeArgs, ServeError, wire};
use crate::health;
use crate::metrics::{Metrics, TEXT_FORMAT};
use crate::reply::Reply;

/// How long a look may take, from the connection to the last byte. A scraper gives up after ten
/// seconds as a rule.
const LOOK_WITHIN: Duration = Duration::from_secs(10);
/// How many may look at once. One scraper and some probes are usual.
const LOOKS_MAX: usize = 16;
/// Largest head of a request; a scraper sends a few hundred bytes.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// How long accepting rests after a failure, such as too many open files.
const ACCEPT_REST: Duration = Duration::from_millis(50);

const METRICS_PATH: &str = "/metrics";

/// The listener, if one was asked for.
#[derive(Debug)]
pub(super) struct Admin(Option<TcpListener>);

impl Admin {
    /// Listens where it was said.
    pub(super) fn listen(args: &ServeArgs) -> Result<Self, ServeError> {
        Ok(Self(args.transport.admin_listen.map(wire::listen).transpose()?))
    }

    /// Where it listens.
    pub(super) fn address(&self) -> io::Result<Option<SocketAddr>> {
        self.0.as_ref().map(TcpListener::local_addr).transpose()
    }

    /// Begins to answer.
    pub(super) fn begin(self, metrics: Metrics) -> Option<JoinHandle<()>> {
        self.0.map(|listener| tokio::spawn(accept(listener, Arc::new(metrics))))
    }
}

async fn accept(listener: TcpListener, metrics: Arc<Metrics>) {
    let free = Arc::new(Semaphore::new(LOOKS_MAX));
    // The semaphore is never closed.
    while let Ok(permit) = Arc::clone(&free).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            let _ = timeout(ACCEPT_REST, std::future::pending::<()>()).await;
            continue;
        };
        let metrics = Arc::clone(&metrics);
        tokio::spawn(async move {
            let _ = timeout(LOOK_WITHIN, serve(stream, &metrics)).await;
            drop(permit);
        });
    }
}

async fn serve(stream: TcpStream, metrics: &Metrics) {
    let service = service_fn(|request: Request<Incoming>| async move {
        Ok::<_, Infallible>(answer(&request, metrics))
    });
    // How it ends is told to nobody: whoever looked has the reply, or is gone.
    let _ = http1::Builder::new()
        .keep_alive(false)
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

fn answer<B>(request: &Request<B>, metrics: &Metrics) -> Reply {
    if let Some(reply) = health::answer(request, !metrics.watch.is_retiring()) {
        return reply;
    }
    if request.uri().path() != METRICS_PATH {
        let body = "There are /metrics, /livez and /readyz.\n".to_owned();
        return text(StatusCode::NOT_FOUND, body);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut reply = text(StatusCode::METHOD_NOT_ALLOWED, "Use GET or HEAD.\n".to_owned());
        reply.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return reply;
    }
    text(StatusCode::OK, metrics.text())
}

fn text(status: StatusCode, body: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(body)));
    *reply.status_mut() = status;
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(TEXT_FORMAT));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    reply
}
