use std::sync::atomic::AtomicBool;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;

use super::connection::{HEAD_BYTES_MAX, STREAM_WINDOW_BYTES};
use super::patient::{HEAD_DEADLINE, IDLE_DEADLINE};
use super::stall::{Impatient, WRITE_DEADLINE};
use super::*;
use crate::body::{BODIES_OF_STRANGERS_MAX, BODY_DEADLINE, SMALL_BYTES_MAX, STRANGERS_BYTES_MAX};
use crate::door::tests::door_for;

mod ending;
mod evicted;
mod http2;
mod sitters;

const BODY: &str = r#"{"namespace":"n","identifier":"i","limit":9,"duration":60000}"#;
const LIMITS: Limits = Limits { connections_max: 100, per_address_max: 50 };

/// What stands behind an entrance, reached over memory instead of a socket.
struct Inside {
    house: Arc<House>,
    places: Arc<Places>,
}

impl Inside {
    fn new() -> Self {
        Self::with(LIMITS)
    }

    fn with(limits: Limits) -> Self {
        let house = House { door: door_for("key"), tls: None, retiring: AtomicBool::new(false) };
        Self { house: Arc::new(house), places: Arc::new(Places::new(limits)) }
    }

    async fn connect(&self) -> DuplexStream {
        self.connect_with(64 << 10).await
    }

    async fn connect_with(&self, buffer_bytes: usize) -> DuplexStream {
        self.connect_from(1, buffer_bytes).await
    }

    /// From the address with this last number.
    async fn connect_from(&self, last: u8, buffer_bytes: usize) -> DuplexStream {
        let (client, server) = duplex(buffer_bytes);
        let place = self.places.claim(Peer::of([127, 0, 0, last].into())).await.unwrap();
        tokio::spawn(connection::serve(server, Arc::clone(&self.house), place));
        client
    }

    fn retire(&self) {
        self.house.retiring.store(true, Ordering::Relaxed);
        self.places.order_all(Order::Retire);
    }

    fn stop(self) -> Connections {
        self.retire();
        self.places.order_all(Order::Stop);
        Connections { places: self.places }
    }
}

fn head(content_length: usize) -> String {
    format!(
        "POST /v2/ratelimit.limit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\n\
         Content-Length: {content_length}\r\n\r\n"
    )
}

fn request() -> Vec<u8> {
    format!("{}{BODY}", head(BODY.len())).into_bytes()
}

/// Everything until the server closes the connection.
async fn rest(client: &mut DuplexStream) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).await.unwrap();
    text
}

async fn one_reply(client: &mut DuplexStream) -> String {
    let mut bytes = vec![0; 4_096];
    let read = client.read(&mut bytes).await.unwrap();
    String::from_utf8(bytes[..read].to_vec()).unwrap()
}

/// Lets time pass, during which the server must not say anything.
async fn silence(client: &mut DuplexStream, time: Duration) {
    assert!(timeout(time, client.read_u8()).await.is_err(), "it said something or closed");
}

fn assert_about(waited: Duration, expected: Duration) {
    assert!(waited.abs_diff(expected) < Duration::from_millis(50), "{waited:?}");
}

/// Sends one byte each 100 ms, never silent and never done, until the server closes.
async fn dribble(client: &mut DuplexStream, bytes: impl Iterator<Item = u8>) -> Duration {
    let start = Instant::now();
    for sent in bytes {
        // It may have been closed in between.
        let _ = client.write_all(&[sent]).await;
        let mut byte = [0];
        if let Ok(read) = timeout(Duration::from_millis(100), client.read(&mut byte)).await {
            assert_eq!(read.unwrap(), 0, "closed without a reply");
            return start.elapsed();
        }
    }
    panic!("it was read to its end");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_dribbles_its_head_is_cut_off_at_the_deadline() {
    let inside = Inside::new();
    let mut client = inside.connect().await;
    assert_about(dribble(&mut client, head(0).bytes()).await, HEAD_DEADLINE);
    assert_eq!(inside.places.tally().seen(), TallySeen { heads_late: 1, ..TallySeen::default() });
}

#[tokio::test(start_paused = true)]
async fn the_deadline_of_a_head_counts_from_its_first_byte() {
    let inside = Inside::new();
    let mut client = inside.connect().await;
    silence(&mut client, HEAD_DEADLINE * 9 / 10).await;
    assert_about(dribble(&mut client, head(0).bytes()).await, HEAD_DEADLINE);

    let mut client = inside.connect().await;
    client.write_all(&request()).await.unwrap();
    assert!(one_reply(&mut client).await.starts_with("HTTP/1.1 200"));
    silence(&mut client, IDLE_DEADLINE * 9 / 10).await;
    assert_about(dribble(&mut client, head(0).bytes()).await, HEAD_DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_stops_in_the_middle_of_a_head_is_cut_off() {
    let inside = Inside::new();
    for part in ["P", "PRI * HTTP/2.0\r\n", "POST /v2/ratelimit.limit HTTP/1.1\r\nHo"] {
        let mut client = inside.connect().await;
        client.write_all(part.as_bytes()).await.unwrap();
        let start = Instant::now();
        assert_eq!(rest(&mut client).await, "", "{part}");
        assert_about(start.elapsed(), HEAD_DEADLINE);
    }
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_cut_off_before_and_between_requests() {
    let inside = Inside::new();
    let mut client = inside.connect().await;
    let start = Instant::now();
    assert_eq!(rest(&mut client).await, "");
    assert_about(start.elapsed(), HEAD_DEADLINE);

    let mut client = inside.connect().await;
    for _ in 0..3 {
        // Each one begins the wait anew.
        client.write_all(&request()).await.unwrap();
        assert!(one_reply(&mut client).await.starts_with("HTTP/1.1 200"));
        silence(&mut client, IDLE_DEADLINE * 9 / 10).await;
    }
    client.write_all(&request()).await.unwrap();
    assert!(one_reply(&mut client).await.starts_with("HTTP/1.1 200"));
    let start = Instant::now();
    assert_eq!(rest(&mut client).await, "");
    assert_about(start.elapsed(), IDLE_DEADLINE);
    let tally = inside.places.tally().seen();
    assert_eq!((tally.heads_late, tally.idle), (1, 1), "{tally:?}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_answered_with_408() {
    let inside = Inside::new();
    let mut client = inside.connect().await;
    client.write_all(format!("{}{}", head(BODY.len()), &BODY[..9]).as_bytes()).await.unwrap();
    let start = Instant::now();
    let reply = rest(&mut client).await;
    assert_about(start.elapsed(), BODY_DEADLINE);
    assert!(reply.starts_with("HTTP/1.1 408"), "{reply}");
    assert!(reply.contains("user/bad_request/request_timeout"), "{reply}");
    assert!(reply.contains("connection: close"), "{reply}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_loses_its_place() {
    let inside = Inside::new();
    let mut client = inside.connect().await;
    let start = Instant::now();
    // Sends until nothing is taken any more: the replies have filled every buffer.
    while timeout(Duration::from_secs(1), client.write_all(&request())).await.is_ok() {}
    assert!(timeout(Duration::from_secs(60), inside.places.empty()).await.is_ok());
    assert_about(start.elapsed(), WRITE_DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_a_byte_now_and_then_loses_its_place() {
    let inside = Inside::new();
    let mut client = inside.connect_with(128).await;
    client.write_all(&request()).await.unwrap();
    let start = Instant::now();
    while timeout(WRITE_DEADLINE / 2, inside.places.empty()).await.is_err() {
        assert!(start.elapsed() < 2 * IDLE_DEADLINE, "it still has its place");
        let _ = client.read_u8().await;
    }
    assert!(start.elapsed() > 2 * WRITE_DEADLINE, "progress is waited for");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_is_waited_for() {
    let (mut client, server) = duplex(64);
    let mut server = Impatient::new(server);
    let writer = tokio::spawn(async move { server.write_all(&[7; 640]).await });
    for _ in 0..10 {
        // Just in time, each time.
        assert!(timeout(WRITE_DEADLINE * 9 / 10, std::future::pending::<()>()).await.is_err());
        client.read_exact(&mut [0; 64]).await.unwrap();
    }
    assert!(writer.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_head_without_end_is_refused() {
    let inside = Inside::new();
    let mut client = inside.connect().await;
    let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
    client.write_all(endless.as_bytes()).await.unwrap();
    assert!(rest(&mut client).await.starts_with("HTTP/1.1 431"));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_large_is_refused_even_if_it_arrives_at_once() {
    let inside = Inside::new();
    for (filler, expected) in
        [(HEAD_BYTES_MAX - 1_024, "HTTP/1.1 200"), (HEAD_BYTES_MAX, "HTTP/1.1 431")]
    {
        let mut client = inside.connect().await;
        let head = head(BODY.len()).replace("Host: x", &format!("Host: {}", "x".repeat(filler)));
        client.write_all(format!("{head}{BODY}").as_bytes()).await.unwrap();
        let reply = one_reply(&mut client).await;
        assert!(reply.starts_with(expected), "{filler}: {reply}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_that_arrive_together_are_answered_in_order() {
    let inside = Inside::new();
    let mut client = inside.connect().await;
    let last = head(BODY.len()).replace("Host: x", "Host: x\r\nConnection: close");
    let all = [request(), request(), format!("{last}{BODY}").into_bytes()].concat();
    client.write_all(&all).await.unwrap();
    let replies = rest(&mut client).await;
    let places: Vec<_> =
        [8, 7, 6].iter().map(|left| replies.find(&format!("\"remaining\":{left}"))).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{replies}");
}

#[test]
fn what_strangers_can_take_adds_up_to_what_is_stated() {
    let on_its_way = usize::try_from(STREAM_WINDOW_BYTES).unwrap();
    // A buffer that grows doubles.
    let each = 2 * SMALL_BYTES_MAX + HEAD_BYTES_MAX + on_its_way;
    assert!(BODIES_OF_STRANGERS_MAX * each <= STRANGERS_BYTES_MAX, "{each} bytes each");
}
