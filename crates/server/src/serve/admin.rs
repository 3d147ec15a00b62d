//! The listener for those who look after the server: metrics and health, on an address of its own.
//!
//! Promises: a scrape is answered while the data listener is full of clients, and until the process
//! ends.
//! Refuses: keys, and everything but GET and HEAD of three paths. One connection serves one
//! request.
//! Fails: who is too slow is cut off; when too many look at once, the oldest who has asked for
//! nothing yet makes room, so those who only sit there shut nobody out.

mod looks;

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
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::timeout;

use super::{ServeArgs, ServeError, wire};
use crate::health;
use crate::log::panics;
use crate::metrics::{Metrics, TEXT_FORMAT};
use crate::reply::Reply;
use looks::{Asked, Looks};

/// How long a look may take, from the connection to the last byte. A scraper gives up after ten
/// seconds as a rule.
const LOOK_WITHIN: Duration = Duration::from_secs(10);
/// How long the head of a request may take, from the connection on. A scraper sends it at once.
const HEAD_WITHIN: Duration = Duration::from_secs(2);
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
    pub(super) fn begin(self, metrics: Arc<Metrics>) -> Option<JoinHandle<()>> {
        let listener = Arc::new(self.0?);
        let log = metrics.log.clone();
        let begin = move || accept(Arc::clone(&listener), Arc::clone(&metrics));
        Some(panics::keep("admin", &log, begin))
    }
}

async fn accept(listener: Arc<TcpListener>, metrics: Arc<Metrics>) {
    let mut looks = Looks::default();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            let _ = timeout(ACCEPT_REST, std::future::pending::<()>()).await;
            continue;
        };
        let metrics = Arc::clone(&metrics);
        looks.begin(|asked| serve(stream, asked, move |request| answer(request, &metrics)));
        // A request that is here already is read before the next client can push it out.
        yield_now().await;
    }
}

/// Serves one request, or gives up.
async fn serve<S, A>(stream: S, asked: Asked, answer: A)
where
    S: AsyncRead + AsyncWrite + Unpin,
    A: Fn(&Request<Incoming>) -> Reply,
{
    let service = service_fn(|request: Request<Incoming>| {
        asked.mark();
        std::future::ready(Ok::<_, Infallible>(answer(&request)))
    });
    // How it ends is told to nobody: whoever looked has the reply, or is gone.
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .keep_alive(false)
        .header_read_timeout(HEAD_WITHIN)
        .max_buf_size(HEAD_BYTES_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let _ = timeout(LOOK_WITHIN, connection).await;
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

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::Instant;

    use super::*;

    const REQUEST: &[u8] = b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n";

    /// Comes in, and sends that.
    async fn come(looks: &mut Looks, sent: &[u8]) -> DuplexStream {
        let (mut client, stream) = duplex(64);
        looks.begin(|asked| {
            serve(stream, asked, |_| text(StatusCode::OK, "here it is".repeat(100)))
        });
        client.write_all(sent).await.unwrap();
        yield_now().await;
        client
    }

    async fn rest(client: &mut DuplexStream) -> String {
        let mut rest = Vec::new();
        // One that was cut off may say so with an error.
        let _ = client.read_to_end(&mut rest).await;
        String::from_utf8(rest).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_head_that_does_not_come_is_not_waited_for() {
        for sent in [&b""[..], b"GET /metr"] {
            let (mut looks, start) = (Looks::default(), Instant::now());
            assert_eq!(rest(&mut come(&mut looks, sent).await).await, "");
            let waited = start.elapsed();
            assert!(waited >= HEAD_WITHIN && waited < LOOK_WITHIN / 2, "{waited:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_is_not_taken_is_not_waited_for_for_ever() {
        let (mut looks, start) = (Looks::default(), Instant::now());
        let mut client = come(&mut looks, REQUEST).await;
        tokio::time::advance(LOOK_WITHIN).await;
        let taken = rest(&mut client).await;
        assert!(taken.starts_with("HTTP/1.1 200 ") && taken.len() < 1_000, "{taken}");
        assert!(start.elapsed() < LOOK_WITHIN * 2);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_say_nothing_make_room_for_those_who_ask() {
        let (mut looks, start) = (Looks::default(), Instant::now());
        // It takes its reply slowly: the pipe holds 64 bytes of it.
        let mut slow = come(&mut looks, REQUEST).await;
        let mut sitting = Vec::new();
        for _ in 0..looks::LOOKS_MAX * 3 {
            sitting.push(come(&mut looks, b"").await);
        }
        for _ in 0..looks::LOOKS_MAX * 3 {
            let reply = rest(&mut come(&mut looks, REQUEST).await).await;
            assert!(reply.starts_with("HTTP/1.1 200 ") && reply.ends_with("here it is"));
            sitting.push(come(&mut looks, b"").await);
        }
        let reply = rest(&mut slow).await;
        assert!(reply.ends_with("here it is"), "who has asked keeps its place: {reply}");
        assert_eq!(start.elapsed(), Duration::ZERO, "nobody waited for a sitter's deadline");
        assert!(looks.len() <= looks::LOOKS_MAX);
        assert_eq!(rest(sitting.first_mut().unwrap()).await, "");
        assert_eq!(start.elapsed(), Duration::ZERO, "the first was dropped at once");
    }
}
