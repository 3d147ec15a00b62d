use tidegate::{Limiter, Part};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::Instant;

use super::*;
use crate::auth::RootKey;
use crate::request_id::RequestIds;

const BODY: &str = r#"{"namespace":"n","identifier":"i","limit":9,"duration":60000}"#;

fn connections() -> Connections {
    Connections { open: GracefulShutdown::new(), places: Arc::new(Semaphore::new(CONNECTIONS_MAX)) }
}

/// A client of a door that is served over memory instead of a socket.
fn connect(connections: &Connections) -> DuplexStream {
    let limiter = Limiter::builder().seed([1; 32]).build().unwrap();
    let root_key = RootKey::new("key".to_owned(), Part::new("ws").unwrap());
    let door = Arc::new(Door::new(limiter, root_key, RequestIds::new(1)));
    let (client, server) = duplex(64 << 10);
    let place = Arc::clone(&connections.places).try_acquire_owned().unwrap();
    tokio::spawn(serve_connection(server, door, connections.open.watcher(), place));
    client
}

fn head(content_length: usize) -> String {
    format!(
        "POST /v2/ratelimit.limit HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer key\r\n\
         Content-Length: {content_length}\r\n\r\n"
    )
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

fn assert_about(waited: Duration, expected: Duration) {
    assert!(waited.abs_diff(expected) < Duration::from_millis(50), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_dribbles_its_head_is_cut_off_at_the_deadline() {
    let connections = connections();
    let mut client = connect(&connections);
    let start = Instant::now();
    let mut byte = [0];
    for sent in head(0).bytes() {
        client.write_all(&[sent]).await.unwrap();
        // One byte each 100 ms: never silent, never done.
        if let Ok(read) = timeout(Duration::from_millis(100), client.read(&mut byte)).await {
            assert_eq!(read.unwrap(), 0, "closed without a reply");
            assert_about(start.elapsed(), HEAD_DEADLINE);
            return;
        }
    }
    panic!("the head was read to its end");
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_is_cut_off_before_and_between_requests() {
    let connections = connections();
    let mut client = connect(&connections);
    let start = Instant::now();
    assert_eq!(rest(&mut client).await, "");
    assert_about(start.elapsed(), HEAD_DEADLINE);

    let mut client = connect(&connections);
    client.write_all(format!("{}{BODY}", head(BODY.len())).as_bytes()).await.unwrap();
    assert!(one_reply(&mut client).await.starts_with("HTTP/1.1 200"));
    let start = Instant::now();
    assert_eq!(rest(&mut client).await, "");
    assert_about(start.elapsed(), HEAD_DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_is_answered_with_408() {
    let connections = connections();
    let mut client = connect(&connections);
    client.write_all(format!("{}{}", head(BODY.len()), &BODY[..9]).as_bytes()).await.unwrap();
    let start = Instant::now();
    let reply = rest(&mut client).await;
    assert_about(start.elapsed(), Duration::from_secs(10));
    assert!(reply.starts_with("HTTP/1.1 408"), "{reply}");
    assert!(reply.contains("user/bad_request/request_timeout"), "{reply}");
    assert!(reply.contains("connection: close"), "{reply}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_loses_its_place() {
    let connections = connections();
    let mut client = connect(&connections);
    let request = format!("{}{BODY}", head(BODY.len()));
    let start = Instant::now();
    // Sends until nothing is taken any more: the replies have filled every buffer.
    while timeout(Duration::from_secs(1), client.write_all(request.as_bytes())).await.is_ok() {}
    let all = u32::try_from(CONNECTIONS_MAX).unwrap();
    let place = timeout(Duration::from_secs(60), connections.places.acquire_many(all)).await;
    assert!(place.is_ok_and(|place| place.is_ok()), "the place was given back");
    assert_about(start.elapsed(), stall::WRITE_DEADLINE);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_slowly_is_waited_for() {
    let (mut client, server) = duplex(64);
    let mut server = Impatient::new(server);
    let writer = tokio::spawn(async move { server.write_all(&[7; 640]).await });
    for _ in 0..10 {
        // Just in time, each time.
        assert!(
            timeout(stall::WRITE_DEADLINE * 9 / 10, std::future::pending::<()>()).await.is_err()
        );
        client.read_exact(&mut [0; 64]).await.unwrap();
    }
    assert!(writer.await.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_head_without_end_is_refused() {
    let connections = connections();
    let mut client = connect(&connections);
    let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
    client.write_all(endless.as_bytes()).await.unwrap();
    assert!(rest(&mut client).await.starts_with("HTTP/1.1 431"));
}

#[tokio::test(start_paused = true)]
async fn a_head_that_is_too_large_is_refused_even_if_it_arrives_at_once() {
    let connections = connections();
    for (filler, expected) in
        [(HEAD_BYTES_MAX - 1_024, "HTTP/1.1 200"), (HEAD_BYTES_MAX, "HTTP/1.1 431")]
    {
        let mut client = connect(&connections);
        let head = head(BODY.len()).replace("Host: x", &format!("Host: {}", "x".repeat(filler)));
        client.write_all(format!("{head}{BODY}").as_bytes()).await.unwrap();
        let reply = one_reply(&mut client).await;
        assert!(reply.starts_with(expected), "{filler}: {reply}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_the_request_in_flight() {
    let connections = connections();
    let mut busy = connect(&connections);
    let mut idle = connect(&connections);
    busy.write_all(head(BODY.len()).as_bytes()).await.unwrap();
    // Lets the server read the head, so that the request is in flight.
    assert!(timeout(Duration::from_secs(1), busy.read_u8()).await.is_err());

    let drained = tokio::spawn(connections.drain(std::future::pending()));
    assert_eq!(rest(&mut idle).await, "", "an idle connection is closed at once");
    busy.write_all(BODY.as_bytes()).await.unwrap();
    let reply = rest(&mut busy).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert_eq!(drained.await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_it_is_enough() {
    let connections = connections();
    let mut stuck = connect(&connections);
    stuck.write_all(head(BODY.len()).as_bytes()).await.unwrap();
    assert!(timeout(Duration::from_secs(1), stuck.read_u8()).await.is_err());
    assert_eq!(connections.drain(std::future::ready(())).await, 1);
}

#[tokio::test]
async fn a_client_beyond_the_cap_waits_for_a_place() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let places = Arc::new(Semaphore::new(1));
    let _first = TcpStream::connect(address).await.unwrap();
    let _second = TcpStream::connect(address).await.unwrap();

    let (_, place) = next_connection(&listener, &places).await.unwrap();
    let next = next_connection(&listener, &places);
    let mut next = pin!(next);
    assert!(timeout(Duration::from_millis(20), &mut next).await.is_err());
    drop(place);
    assert!(next.await.is_ok());
}
