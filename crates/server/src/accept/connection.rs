//! One connection from its first byte to its end.

use std::convert::Infallible;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::rt::Executor;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::coop::unconstrained;
use tokio::time::{Instant, Sleep, sleep_until};

use super::activity::{Activity, Protocol};
use super::bodies::{Coming, Held};
use super::noted::Noted;
use super::patient::{HEAD_DEADLINE, Patient, REQUEST_DEADLINE};
use super::places::Place;
use super::stall::Impatient;
use super::tally::{Fate, Tally};
use crate::door::{Door, Line};
use crate::health;
use crate::tls::Tls;

/// How long a TLS handshake may take: two round trips and a signature, with room for a client that
/// is far away or busy.
const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);

/// Largest head of a request, several times what a browser sends. Given to hyper twice: the size of
/// its buffer alone lets through a head that ends in the same read that exceeds it.
pub(super) const HEAD_BYTES_MAX: usize = 32 << 10;

/// Requests of one HTTP/2 connection at a time. Enough for 100,000 a second at a millisecond each;
/// a client that opens more than it was told is refused those.
const STREAMS_MAX: u32 = 128;
/// Largest head of an HTTP/2 request, as the protocol counts it. Smaller than for HTTP/1, because
/// one connection can hold [`STREAMS_MAX`] of them. It also bounds how many CONTINUATION frames the
/// library takes.
pub(super) const HEADER_LIST_BYTES_MAX: u32 = 16 << 10;
/// The smallest that the protocol allows: our requests fit into one, and a larger frame is a larger
/// buffer.
const FRAME_BYTES_MAX: u32 = 16 << 10;
/// How much of one body, and of all bodies of a connection, may be on its way before it is read.
/// The first is what the protocol begins with; a usual body is a hundredth of it. It counts in
/// what strangers can take (`body`).
pub(super) const STREAM_WINDOW_BYTES: u32 = 64 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 256 << 10;
/// Replies that wait to be sent, per stream: one has a few hundred bytes, that of a full batch with
/// long names more, and is then sent in parts.
const SEND_BUFFER_BYTES: usize = 64 << 10;
/// Requests that were cancelled before we looked at them. A client that gives up now and then has
/// one or two; more than this at a time is an attack (rapid reset), and ends the connection.
const RESETS_PENDING_MAX: usize = 32;
/// Requests that we had to cancel because they broke the protocol, in the life of a connection:
/// the other way to make a server work for nothing.
const RESETS_OF_OURS_MAX: usize = 128;

const _: () = assert!(STREAM_WINDOW_BYTES <= CONNECTION_WINDOW_BYTES);

/// What all connections share.
#[derive(Debug)]
pub(super) struct House {
    pub(super) door: Arc<Door>,
    pub(super) tls: Option<Tls>,
    /// Whether clients are told to go elsewhere.
    pub(super) retiring: AtomicBool,
}

impl House {
    pub(super) fn is_retiring(&self) -> bool {
        // ORDER: relaxed, here and where it is set. A request that misses it is told by the next.
        self.retiring.load(Ordering::Relaxed)
    }
}

/// Serves one client until it leaves, is too slow, or is told to go.
pub(super) async fn serve<T>(stream: T, house: Arc<House>, place: Place)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stream = Impatient::new(stream);
    let activity = &place.activity;
    let Some(tls) = &house.tls else {
        return speak(Noted::new(stream, Arc::clone(activity)), None, &house, &place).await;
    };
    let deadline = Instant::now() + HANDSHAKE_DEADLINE;
    // Whoever does not get through the handshake is told by TLS, if at all.
    match activity.until(deadline, tls.accept(stream)).await {
        Some(Ok((stream, agreed))) => {
            speak(Noted::new(stream, Arc::clone(activity)), agreed, &house, &place).await;
        }
        Some(Err(_)) => place.tally().note(Fate::HandshakeFailed),
        None => late(&place, Fate::HandshakeLate),
    }
}

/// A wait has ended: because it was too long, unless it was told to end.
fn late(place: &Place, fate: Fate) {
    if !place.activity.is_to_end() {
        place.tally().note(fate);
    }
}

/// Finds out the protocol, unless it is agreed, and speaks it.
async fn speak<T>(mut stream: Noted<T>, agreed: Option<Protocol>, house: &Arc<House>, place: &Place)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let activity = &place.activity;
    let deadline = Instant::now() + HEAD_DEADLINE;
    match activity.until(deadline, stream.first_byte()).await {
        Some(true) => {}
        Some(false) => return,
        None => return late(place, Fate::HeadLate),
    }
    let deadline = Instant::now() + HEAD_DEADLINE;
    let protocol = match agreed {
        Some(protocol) => protocol,
        None => match activity.until(deadline, stream.protocol()).await {
            Some(Ok(protocol)) => protocol,
            Some(Err(_)) => return,
            None => return late(place, Fate::HeadLate),
        },
    };
    stream.speak(protocol);
    match protocol {
        Protocol::Http1 => http1(stream, house, place).await,
        // In a box: its state is several times that of the other.
        Protocol::Http2 => Box::pin(http2(stream, house, place)).await,
    }
}

async fn http1<T>(stream: Noted<T>, house: &Arc<House>, place: &Place)
where
    T: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let activity = &place.activity;
    let service =
        service_fn(|request| answer(Arc::clone(house), activity, Protocol::Http1, request));
    let connection = http1::Builder::new()
        // The head's deadline is ours: hyper's would begin with the wait.
        .header_read_timeout(None)
        .max_header_size(HEAD_BYTES_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        // A reply is small: to copy it behind its head is cheaper than to write from two places.
        .writev(false)
        .serve_connection(TokioIo::new(stream), service);
    let connection = pin!(connection);
    Patient::new(connection, |it| it.graceful_shutdown(), Protocol::Http1, activity, place.tally())
        .await;
}

async fn http2<T>(stream: Noted<T>, house: &Arc<House>, place: &Place)
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let activity = &place.activity;
    let service =
        service_fn(|request| answer(Arc::clone(house), activity, Protocol::Http2, request));
    let connection = http2::Builder::new(Bounded(Arc::clone(place.tally())))
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEADER_LIST_BYTES_MAX)
        .max_frame_size(FRAME_BYTES_MAX)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(SEND_BUFFER_BYTES)
        .max_pending_accept_reset_streams(RESETS_PENDING_MAX)
        .max_local_error_reset_streams(RESETS_OF_OURS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    let connection = pin!(connection);
    Patient::new(connection, |it| it.graceful_shutdown(), Protocol::Http2, activity, place.tally())
        .await;
}

/// Answers one request, which is in flight until its reply is handed over. It is so from this call
/// on, not from the first poll.
fn answer(
    house: Arc<House>,
    activity: &Arc<Activity>,
    protocol: Protocol,
    request: Request<Incoming>,
) -> impl Future<Output = Result<Response<Held>, Infallible>> + use<> {
    let (begun, in_flight, arriving) = activity.begin(protocol);
    let request = request.map(|body| Coming::new(body, arriving));
    async move {
        let mut reply = match health::answer(&request, !house.is_retiring()) {
            Some(reply) => reply,
            None => {
                let activity = in_flight.activity();
                let (last_key, note_key) = (activity.last_key(), || activity.note_key());
                house.door.answer_over(request, Line { last_key, note_key, begun }).await
            }
        };
        if protocol == Protocol::Http1 && house.is_retiring() {
            reply.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(reply.map(|body| Held::new(body, in_flight)))
    }
}

/// Runs the requests of HTTP/2, each in a task of its own, and none for longer than the deadline.
/// A client can have a reply wait for ever by granting no room for it, while it takes all else.
#[derive(Clone, Debug)]
struct Bounded(Arc<Tally>);

impl<F> Executor<F> for Bounded
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, future: F) {
        let tally = Arc::clone(&self.0);
        // In a box before it is wrapped and spawned: each of these steps moves it.
        tokio::spawn(Deadlined { future: Box::pin(future), deadline: None, tally });
    }
}

/// A request of HTTP/2. What is dropped when its deadline is over is reset; its connection goes on.
struct Deadlined<F> {
    future: Pin<Box<F>>,
    /// From when it first had to wait: nearly all have arrived and are answered at once, and then
    /// neither a clock nor a timer is needed.
    deadline: Option<Pin<Box<Sleep>>>,
    tally: Arc<Tally>,
}

impl<F: Future<Output = ()>> Future for Deadlined<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.future.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        let deadline = || Box::pin(sleep_until(Instant::now() + REQUEST_DEADLINE));
        let deadline = self.deadline.get_or_insert_with(deadline);
        // Also if the request has used up the turn of its task, which it may do each time.
        ready!(pin!(unconstrained(deadline.as_mut())).poll(context));
        self.tally.note(Fate::RequestLate);
        Poll::Ready(())
    }
}
