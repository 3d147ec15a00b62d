//! Whoever makes room over HTTP/2, where requests run beside their connection: what was charged is
//! answered, and what is not answered is not charged.

use std::pin::Pin;
use std::sync::atomic::AtomicUsize;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use tokio::task::JoinSet;

use super::super::activity::Activity;
use super::super::patient::Patient;
use super::super::tally::Tally;
use super::http2::{DATA, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, frame};
use super::*;

/// A connection that sends in one poll what was replied before it.
struct Sending<F> {
    /// What happens beside it while it is polled.
    meanwhile: Option<F>,
    replied: usize,
    sent: Arc<AtomicUsize>,
}

impl<F: FnOnce() + Unpin> Future for Sending<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        self.sent.store(self.replied, Ordering::Relaxed);
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile();
            self.replied += 1;
        }
        Poll::Pending
    }
}

/// Evicts a connection beside which this happens. Gives how many replies it has sent at its end.
async fn sent_by(activity: &Arc<Activity>, meanwhile: impl FnOnce() + Unpin) -> usize {
    activity.order(Order::Evict);
    let sent = Arc::new(AtomicUsize::new(0));
    let connection = Sending { meanwhile: Some(meanwhile), replied: 0, sent: Arc::clone(&sent) };
    let connection = pin!(connection);
    Patient::new(connection, |_| {}, Protocol::Http2, activity, &Tally::default()).await;
    sent.load(Ordering::Relaxed)
}

fn activity() -> Arc<Activity> {
    Arc::new(Activity::new(Instant::now(), Order::Serve))
}

#[tokio::test(start_paused = true)]
async fn a_reply_to_what_began_and_finished_within_one_poll_is_sent() {
    let activity = activity();
    let whole_request = || {
        let (_, _in_flight, arriving) = activity.begin(Protocol::Http2);
        activity.note_key();
        assert!(arriving.arrived());
    };
    assert_eq!(sent_by(&activity, whole_request).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_reply_to_what_arrived_and_finished_within_one_poll_is_sent() {
    let activity = activity();
    activity.note_key();
    let (_, in_flight, arriving) = activity.begin(Protocol::Http2);
    let rest_of_it = || {
        assert!(arriving.arrived());
        drop(in_flight);
    };
    assert_eq!(sent_by(&activity, rest_of_it).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_read_after_the_end_of_its_connection_never_arrives() {
    let activity = activity();
    activity.note_key();
    let (_, _in_flight, arriving) = activity.begin(Protocol::Http2);
    let (_, _another, given_up) = activity.begin(Protocol::Http2);
    assert!(activity.end(activity.finished()), "what is on its way protects nobody");
    drop(given_up);
    assert!(!arriving.arrived());
    assert!(activity.is_busy(), "the counts are right");
}

#[tokio::test(start_paused = true)]
async fn what_has_arrived_ends_with_its_reply_only() {
    let activity = activity();
    activity.note_key();
    let (_, in_flight, arriving) = activity.begin(Protocol::Http2);
    let (_, _another, on_its_way) = activity.begin(Protocol::Http2);
    let finished = activity.finished();
    assert!(arriving.arrived());
    assert!(!activity.end(finished));
    drop(in_flight);
    assert!(!activity.end(finished), "the reply is not sent");
    assert!(activity.end(activity.finished()));
    assert!(!on_its_way.arrived());
}

/// Clients that come all the time, so that others make room all the time.
const CLIENTS: usize = 16;
const VISITS: usize = 150;
/// What each of them asks at once, over one connection.
const AT_ONCE: u32 = 20;
/// More than all of them ask.
const ASKED: &str = r#"{"namespace":"n","identifier":"i","limit":1000000,"duration":3600000}"#;
/// Long enough for anything that happens at all.
const DEADLINE: Duration = Duration::from_secs(60);

/// A request over HTTP/2, with its body. Names are those of the protocol's own table.
fn whole_request(number: u32) -> Vec<u8> {
    let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
    let path = [&[0x04][..], &text("/v2/ratelimit.limit")].concat();
    let key = [&[0x0f, 0x08][..], &text("Bearer key")].concat();
    let headers = [&[0x83, 0x86][..], &path, &[0x01], &text("x"), &key].concat();
    let stream = 2 * number + 1;
    [
        frame(HEADERS, END_HEADERS, stream, &headers),
        frame(DATA, END_STREAM, stream, ASKED.as_bytes()),
    ]
    .concat()
}

/// Asks over a new connection. Gives how many answers came before it was closed.
async fn visit(address: std::net::SocketAddr) -> usize {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let requests: Vec<u8> = (0..AT_ONCE).flat_map(whole_request).collect();
    let all = [PREFACE, &SETTINGS, &requests].concat();
    // It may be closed at any time, and a reset is a close as well.
    let _ = stream.write_all(&all).await;
    let (mut said, mut answers) = (Vec::new(), 0);
    while answers < usize::try_from(AT_ONCE).unwrap() {
        if !stream.read_buf(&mut said).await.is_ok_and(|read| read > 0) {
            break;
        }
        let admitted = br#""success":true"#;
        answers = said.windows(admitted.len()).filter(|it| it == admitted).count();
    }
    answers
}

/// How much was charged so far.
async fn charged(door: &Arc<Door>) -> usize {
    let body = ASKED.replace('{', r#"{"cost":0,"#);
    let request = hyper::Request::post("/v2/ratelimit.limit").header("authorization", "Bearer key");
    let reply = door.answer(request.body(Full::new(Bytes::from(body))).unwrap()).await;
    let reply = reply.into_body().collect().await.unwrap().to_bytes();
    let reply = String::from_utf8(reply.to_vec()).unwrap();
    let (_, left) = reply.split_once(r#""remaining":"#).unwrap();
    let left: usize = left.split([',', '}']).next().unwrap().parse().unwrap();
    1_000_000 - left
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_is_charged_is_answered_while_connections_make_room() {
    let limits = Limits { connections_max: 4, per_address_max: 100 };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let door = door_for("key");
    let mut entrance = Entrance::new(listener, Arc::clone(&door), limits, None);
    let served = tokio::spawn(async move { entrance.accept_until(std::future::pending()).await });
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(async move {
            let mut answers = 0;
            for _ in 0..VISITS {
                answers += visit(address).await;
            }
            answers
        });
    }
    let answers: usize = timeout(DEADLINE, clients.join_all()).await.unwrap().iter().sum();
    assert!(answers > 0);
    assert_eq!(charged(&door).await, answers);
    served.abort();
}
