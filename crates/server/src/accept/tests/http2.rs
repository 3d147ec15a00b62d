//! The same deadlines over HTTP/2.

use bytes::Bytes;
use h2::client::{Builder, Connection, SendRequest};
use h2::{Reason, RecvStream};
use hyper::Request;
use tokio::task::JoinHandle;

use super::super::patient::REQUEST_DEADLINE;
use super::*;

pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// SETTINGS without any.
pub(super) const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

struct Client {
    requests: SendRequest<Bytes>,
    ended: JoinHandle<Result<(), h2::Error>>,
}

async fn speak(stream: DuplexStream, builder: &Builder) -> Client {
    let (requests, connection): (_, Connection<_, Bytes>) =
        builder.handshake(stream).await.unwrap();
    Client { requests, ended: tokio::spawn(connection) }
}

async fn connect(inside: &Inside) -> Client {
    speak(inside.connect().await, &Builder::new()).await
}

fn post(path: &str) -> Request<()> {
    let uri = format!("http://x{path}");
    Request::post(uri).header("authorization", "Bearer key").body(()).unwrap()
}

async fn text(mut body: RecvStream) -> String {
    let mut text = Vec::new();
    while let Some(bytes) = body.data().await {
        text.extend_from_slice(&bytes.unwrap());
    }
    String::from_utf8(text).unwrap()
}

impl Client {
    async fn ask(&mut self, path: &str, body: &'static str) -> (u16, String) {
        let mut ready = self.requests.clone().ready().await.unwrap();
        let (reply, mut sender) = ready.send_request(post(path), false).unwrap();
        sender.send_data(Bytes::from_static(body.as_bytes()), true).unwrap();
        let reply = reply.await.unwrap();
        (reply.status().as_u16(), text(reply.into_body()).await)
    }

    async fn limit(&mut self) -> u16 {
        self.ask("/v2/ratelimit.limit", BODY).await.0
    }
}

#[tokio::test(start_paused = true)]
async fn both_operations_and_health_are_answered() {
    let inside = Inside::new();
    let mut client = connect(&inside).await;
    let (status, body) = client.ask("/v2/ratelimit.limit", BODY).await;
    assert!(status == 200 && body.contains("\"remaining\":8"), "{body}");
    let batch = r#"[{"namespace":"n","identifier":"i","limit":9,"duration":60000}]"#;
    let (status, body) = client.ask("/v2/ratelimit.multiLimit", batch).await;
    assert!(status == 200 && body.contains("\"passed\":true"), "{body}");
    let get = Request::get("http://x/readyz").body(()).unwrap();
    let (reply, _) = client.requests.send_request(get, true).unwrap();
    assert_eq!(reply.await.unwrap().status().as_u16(), 200);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_answered_with_408_and_costs_only_its_stream() {
    let inside = Inside::new();
    let mut client = connect(&inside).await;
    let start = Instant::now();
    let request = post("/v2/ratelimit.limit");
    let (reply, mut sender) = client.requests.send_request(request, false).unwrap();
    sender.send_data(Bytes::from_static(b"{"), false).unwrap();
    assert_eq!(client.limit().await, 200, "another does not wait for it");
    assert_eq!(start.elapsed(), Duration::ZERO);
    let reply = reply.await.unwrap();
    assert_about(start.elapsed(), BODY_DEADLINE);
    assert_eq!(reply.status().as_u16(), 408);
    assert!(text(reply.into_body()).await.contains("request_timeout"));
    assert_eq!(client.limit().await, 200, "the connection goes on");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_dribbles_a_frame_is_cut_off_at_the_deadline() {
    // Headers of 200 bytes; and some of one byte, that are continued with 200.
    let headers = [0, 0, 200, 1, 4, 0, 0, 0, 1];
    let unfinished = [0, 0, 1, 1, 0, 0, 0, 0, 1, 0x82];
    let continued = [0, 0, 200, 9, 0, 0, 0, 0, 1];
    for (begin, then) in
        [(&headers[..], &[0x82; 200][..]), (&[&unfinished[..], &continued].concat(), &[0x82; 200])]
    {
        let inside = Inside::new();
        let mut client = inside.connect().await;
        client.write_all(&[PREFACE, &SETTINGS].concat()).await.unwrap();
        // Its settings, and that it has seen ours.
        let mut greeting = [0; 4_096];
        while timeout(Duration::from_secs(1), client.read(&mut greeting)).await.is_ok() {}
        client.write_all(begin).await.unwrap();
        assert_about(dribble(&mut client, then.iter().copied()).await, HEAD_DEADLINE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_in_the_middle_of_a_frame_is_cut_off() {
    let inside = Inside::new();
    let mut client = inside.connect().await;
    client.write_all(&[PREFACE, &SETTINGS, &[0, 0, 8]].concat()).await.unwrap();
    let start = Instant::now();
    client.read_to_end(&mut Vec::new()).await.unwrap();
    assert_about(start.elapsed(), HEAD_DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn an_idle_client_is_told_before_it_is_closed() {
    let inside = Inside::new();
    let mut client = connect(&inside).await;
    for _ in 0..3 {
        assert_eq!(client.limit().await, 200);
        let wait = timeout(IDLE_DEADLINE * 9 / 10, &mut client.ended).await;
        assert!(wait.is_err(), "each request begins the wait anew");
    }
    assert_eq!(client.limit().await, 200);
    let start = Instant::now();
    // An orderly GOAWAY is no error for the client.
    assert!(client.ended.await.unwrap().is_ok());
    assert!(start.elapsed() >= IDLE_DEADLINE - Duration::from_millis(50));
    assert!(start.elapsed() <= IDLE_DEADLINE + 2 * HEAD_DEADLINE, "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_has_lost_its_network_is_gone() {
    let inside = Inside::new();
    let mut client = inside.connect().await;
    client.write_all(&[PREFACE, &SETTINGS].concat()).await.unwrap();
    let start = Instant::now();
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(start.elapsed() <= IDLE_DEADLINE + 2 * HEAD_DEADLINE, "{:?}", start.elapsed());
    assert_eq!(inside.places.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_given_no_room_is_given_up() {
    let inside = Inside::new();
    let mut client = speak(inside.connect().await, Builder::new().initial_window_size(0)).await;
    let start = Instant::now();
    let request = post("/v2/ratelimit.limit");
    let (reply, mut sender) = client.requests.send_request(request, false).unwrap();
    sender.send_data(Bytes::from_static(BODY.as_bytes()), true).unwrap();
    let mut body = reply.await.unwrap().into_body();
    let error = body.data().await.unwrap().unwrap_err();
    assert_eq!(error.reason(), Some(Reason::CANCEL));
    assert_about(start.elapsed(), REQUEST_DEADLINE);
    assert_eq!(inside.places.idle_count(), 1, "the connection can make room again");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_to_make_room_has_what_was_decided_first() {
    let inside = Inside::new();
    let mut client = speak(inside.connect().await, Builder::new().initial_window_size(0)).await;
    let request = post("/v2/ratelimit.limit");
    let (reply, mut sender) = client.requests.send_request(request, false).unwrap();
    sender.send_data(Bytes::from_static(BODY.as_bytes()), true).unwrap();
    assert_eq!(reply.await.unwrap().status().as_u16(), 200);
    inside.places.order_all(Order::Evict);
    let wait = timeout(REQUEST_DEADLINE / 2, &mut client.ended).await;
    assert!(wait.is_err(), "its reply waits to be taken");
    assert_eq!(inside.places.open(), 1);
    assert!(timeout(REQUEST_DEADLINE, inside.places.empty()).await.is_ok(), "not for ever");
}

#[tokio::test(start_paused = true)]
async fn retiring_tells_who_was_answered_and_answers_who_comes() {
    let inside = Inside::new();
    let mut old = connect(&inside).await;
    assert_eq!(old.limit().await, 200);
    let request = post("/v2/ratelimit.limit");
    let (reply, mut sender) = old.requests.send_request(request, false).unwrap();
    tokio::task::yield_now().await;
    let mut fresh = connect(&inside).await;
    inside.retire();
    assert_eq!(fresh.limit().await, 200);
    let mut late = connect(&inside).await;
    assert_eq!(late.limit().await, 200);
    sender.send_data(Bytes::from_static(BODY.as_bytes()), true).unwrap();
    assert_eq!(reply.await.unwrap().status().as_u16(), 200, "what is in flight is answered");
    let start = Instant::now();
    for client in [old, fresh, late] {
        assert!(client.ended.await.unwrap().is_ok());
    }
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(inside.places.open(), 0);
}

/// A frame with all that precedes it.
pub(super) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, long, middle, short] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&[long, middle, short, kind, flags], &stream.to_be_bytes()[..], payload].concat()
}

pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
pub(super) const END_HEADERS: u8 = 4;
pub(super) const END_STREAM: u8 = 1;
/// POST, http, the path /, the host x: the short forms of the protocol's own table.
const REQUEST: [u8; 6] = [0x83, 0x86, 0x84, 0x41, 1, b'x'];

/// Floods the server. Gives the code of the GOAWAY with which it ends the connection.
async fn told_after(flood: Vec<u8>) -> Option<Reason> {
    let inside = Inside::new();
    let mut client = inside.connect().await;
    client.write_all(&[PREFACE, &SETTINGS].concat()).await.unwrap();
    // The server may be gone before the end of it.
    let _ = client.write_all(&flood).await;
    let start = Instant::now();
    let mut said = Vec::new();
    client.read_to_end(&mut said).await.unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    assert_eq!(connect(&inside).await.limit().await, 200, "others are served");
    // GOAWAY: the last stream, then the code.
    let goaway = said.windows(17).find(|frame| frame[3] == 7 && frame[5..9] == [0; 4])?;
    Some(u32::from_be_bytes(goaway[13..17].try_into().unwrap()).into())
}

#[tokio::test(start_paused = true)]
async fn cancelling_many_requests_at_once_ends_the_connection() {
    let cancelled = |number: u32| {
        let stream = 2 * number + 1;
        let request = frame(HEADERS, END_HEADERS | END_STREAM, stream, &REQUEST);
        [request, frame(RST_STREAM, 0, stream, &[0, 0, 0, 8])].concat()
    };
    let told = told_after((0..1_000).flat_map(cancelled).collect()).await;
    assert_eq!(told, Some(Reason::ENHANCE_YOUR_CALM));
}

#[tokio::test(start_paused = true)]
async fn breaking_the_protocol_again_and_again_ends_the_connection() {
    // A request that is not one: its headers have no path.
    let broken =
        |number: u32| frame(HEADERS, END_HEADERS | END_STREAM, 2 * number + 1, &[0x83, 0x86]);
    let told = told_after((0..1_000).flat_map(broken).collect()).await;
    assert_eq!(told, Some(Reason::ENHANCE_YOUR_CALM));
}

#[tokio::test(start_paused = true)]
async fn headers_without_end_end_the_connection() {
    // One long name after the other; and frames with nothing in them.
    for payload in [[&[0x40, 100][..], &[b'a'; 100], &[0]].concat().repeat(100), Vec::new()] {
        let more = frame(CONTINUATION, 0, 1, &payload).repeat(100);
        let told = told_after([frame(HEADERS, 0, 1, &REQUEST), more].concat()).await;
        assert_eq!(told, Some(Reason::ENHANCE_YOUR_CALM));
    }
}
