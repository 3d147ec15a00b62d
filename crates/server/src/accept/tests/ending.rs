//! How connections make room, retire, and end.

use std::task::{Context, Poll};

use tokio::task::consume_budget;

use super::patient::Patient;
use super::*;

/// A client whose request is in flight, without its body.
async fn busy(inside: &Inside) -> DuplexStream {
    let mut client = inside.connect().await;
    client.write_all(head(BODY.len()).as_bytes()).await.unwrap();
    silence(&mut client, Duration::from_secs(1)).await;
    client
}

/// A client that has been answered.
async fn idle(inside: &Inside) -> DuplexStream {
    let mut client = inside.connect().await;
    client.write_all(&request()).await.unwrap();
    assert!(one_reply(&mut client).await.starts_with("HTTP/1.1 200"));
    client
}

#[tokio::test(start_paused = true)]
async fn a_drain_waits_for_the_request_in_flight() {
    let inside = Inside::new();
    let mut busy = busy(&inside).await;
    let mut idle = idle(&inside).await;
    let mut fresh = inside.connect().await;

    let drained = tokio::spawn(inside.stop().drain(std::future::pending()));
    assert_eq!(rest(&mut idle).await, "", "an idle connection is closed at once");
    assert_eq!(rest(&mut fresh).await, "", "so is one that was never used");
    busy.write_all(BODY.as_bytes()).await.unwrap();
    let reply = rest(&mut busy).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    assert!(reply.contains("connection: close"), "{reply}");
    assert_eq!(drained.await.unwrap(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_when_it_is_enough() {
    let inside = Inside::new();
    let _stuck = busy(&inside).await;
    assert_eq!(inside.stop().drain(std::future::ready(())).await, 1);
}

#[tokio::test(start_paused = true)]
async fn retiring_answers_who_comes_once_more_and_closes_nobody_before() {
    let inside = Inside::new();
    let mut busy = busy(&inside).await;
    let mut idle = idle(&inside).await;
    let mut fresh = inside.connect().await;
    inside.retire();
    silence(&mut fresh, Duration::from_secs(1)).await;
    silence(&mut idle, Duration::from_secs(1)).await;
    fresh.write_all(&request()).await.unwrap();
    idle.write_all(&request()).await.unwrap();
    busy.write_all(BODY.as_bytes()).await.unwrap();
    let mut late = inside.connect().await;
    late.write_all(&request()).await.unwrap();
    for client in [&mut busy, &mut idle, &mut fresh, &mut late] {
        let reply = rest(client).await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        assert!(reply.contains("connection: close"), "{reply}");
    }
    assert_eq!(inside.places.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn readiness_ends_with_the_retirement_and_liveness_does_not() {
    let inside = Inside::new();
    let ask = async |path: &str| {
        let mut client = inside.connect().await;
        let get = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        client.write_all(get.as_bytes()).await.unwrap();
        rest(&mut client).await
    };
    for path in ["/livez", "/readyz"] {
        assert!(ask(path).await.starts_with("HTTP/1.1 200"), "{path}");
    }
    inside.retire();
    assert!(ask("/livez").await.starts_with("HTTP/1.1 200"));
    let reply = ask("/readyz").await;
    assert!(reply.starts_with("HTTP/1.1 503") && reply.contains("retiring"), "{reply}");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_to_make_room_goes_at_once_even_if_a_body_is_on_its_way() {
    let inside = Inside::new();
    let mut busy = busy(&inside).await;
    let mut idle = idle(&inside).await;
    let mut silent = inside.connect().await;
    let mut dribbling = inside.connect().await;
    dribbling.write_all(b"POST /v2").await.unwrap();
    silence(&mut dribbling, Duration::from_millis(10)).await;

    inside.places.order_all(Order::Evict);
    let start = Instant::now();
    for client in [&mut busy, &mut idle, &mut silent, &mut dribbling] {
        assert_eq!(rest(client).await, "");
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
}

/// An entrance on a socket, with so many places, and where it is.
async fn entrance(limits: Limits) -> (Entrance, std::net::SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (Entrance::new(listener, door_for("key"), limits, None), address)
}

/// Long enough for anything that happens at all.
const DEADLINE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_client_beyond_the_cap_takes_the_place_of_the_longest_idle() {
    let (mut entrance, address) = entrance(Limits { connections_max: 1, per_address_max: 2 }).await;
    let served = tokio::spawn(async move { entrance.accept_until(std::future::pending()).await });
    let mut first = TcpStream::connect(address).await.unwrap();
    for _ in 0..3 {
        let mut next = TcpStream::connect(address).await.unwrap();
        next.write_all(&request()).await.unwrap();
        let mut byte = [0];
        let closed = timeout(DEADLINE, first.read(&mut byte)).await.unwrap();
        // A reset is a close as well.
        assert!(closed.is_err() || closed.is_ok_and(|read| read == 0), "the first is closed");
        let read = timeout(DEADLINE, next.read_exact(&mut [0; 12])).await.unwrap();
        assert!(read.is_ok(), "the next is answered");
        // What is left of the reply is not of interest.
        let mut rest = [0; 4_096];
        assert!(timeout(DEADLINE, next.read(&mut rest)).await.unwrap().unwrap() > 0);
        first = next;
    }
    served.abort();
}

#[tokio::test]
async fn a_client_beyond_the_cap_waits_if_all_others_are_busy() {
    let (mut entrance, address) = entrance(Limits { connections_max: 1, per_address_max: 2 }).await;
    let first = entrance.places.claim(Peer::of([192, 0, 2, 1].into())).await.unwrap();
    first.activity.note_key();
    let (_, in_flight, arriving) = first.activity.begin(Protocol::Http1);
    drop(arriving);
    let served = tokio::spawn(async move { entrance.accept_until(std::future::pending()).await });

    let mut second = TcpStream::connect(address).await.unwrap();
    second.write_all(&request()).await.unwrap();
    assert!(timeout(Duration::from_millis(300), second.read_u8()).await.is_err(), "it waits");
    // Its reply is handed over, and it leaves.
    drop(in_flight);
    drop(first);
    assert_eq!(timeout(DEADLINE, second.read_u8()).await.unwrap().unwrap(), b'H');
    served.abort();
}

#[tokio::test]
async fn an_address_beyond_its_cap_is_closed_and_costs_nobody_a_place() {
    let (mut entrance, address) = entrance(Limits { connections_max: 9, per_address_max: 1 }).await;
    let served = tokio::spawn(async move { entrance.accept_until(std::future::pending()).await });
    let mut first = TcpStream::connect(address).await.unwrap();
    let mut second = TcpStream::connect(address).await.unwrap();
    let closed = timeout(DEADLINE, second.read(&mut [0])).await.unwrap();
    assert!(closed.is_err() || closed.is_ok_and(|read| read == 0));
    first.write_all(&request()).await.unwrap();
    assert_eq!(timeout(DEADLINE, first.read_u8()).await.unwrap().unwrap(), b'H');
    served.abort();
}

/// A client that uses up the turn of its task, once, and then says nothing.
struct Greedy {
    is_full: bool,
}

impl Future for Greedy {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        while !self.is_full {
            self.is_full = pin!(consume_budget()).poll(context).is_pending();
        }
        Poll::Pending
    }
}

#[tokio::test(start_paused = true)]
async fn who_uses_up_the_turn_of_its_task_is_cut_off_all_the_same() {
    let inside = Inside::new();
    for protocol in [Protocol::Http1, Protocol::Http2] {
        let place = inside.places.claim(Peer::of([127, 0, 0, 1].into())).await.unwrap();
        let (greedy, start) = (pin!(Greedy { is_full: false }), Instant::now());
        let (activity, tally) = (&place.activity, place.tally());
        let patient = Patient::new(greedy, |_| {}, protocol, activity, tally);
        assert!(timeout(IDLE_DEADLINE * 2, patient).await.is_ok(), "{protocol:?}");
        assert!(start.elapsed() >= IDLE_DEADLINE);
    }
}
