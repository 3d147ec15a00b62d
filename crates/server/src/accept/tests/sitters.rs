//! Clients without a key that sit on every place.

use super::*;

const FEW: Limits = Limits { connections_max: 50, per_address_max: 25 };

/// What a client without a key sends: it announces a body, of which nothing comes.
const HEAD_ONLY: &[u8] =
    b"POST /v2/ratelimit.limit HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n";

/// Sits down from one of three addresses.
async fn sit(inside: &Inside, number: u8, sent: &[u8]) -> DuplexStream {
    let mut sitter = inside.connect_from(2 + number % 3, 64 << 10).await;
    sitter.write_all(sent).await.unwrap();
    tokio::task::yield_now().await;
    sitter
}

#[tokio::test(start_paused = true)]
async fn bodies_that_never_come_lock_nobody_out() {
    let inside = Inside::with(FEW);
    let start = Instant::now();
    let mut sitters = Vec::new();
    for number in 0..75 {
        sitters.push(sit(&inside, number, HEAD_ONLY).await);
    }
    let mut kept = Vec::new();
    for number in 0..8 {
        let mut client = inside.connect().await;
        client.write_all(&request()).await.unwrap();
        assert!(one_reply(&mut client).await.starts_with("HTTP/1.1 200"));
        kept.push(client);
        // Whoever lost its place comes back at once.
        sitters.push(sit(&inside, number, HEAD_ONLY).await);
    }
    for client in &mut kept {
        client.write_all(&request()).await.unwrap();
        let reply = one_reply(client).await;
        assert!(reply.starts_with("HTTP/1.1 200"), "who has a key keeps its place: {reply}");
    }
    assert_eq!(start.elapsed(), Duration::ZERO, "nobody waited for a sitter's deadline");
    assert_eq!(inside.places.open(), 50);
}

#[tokio::test(start_paused = true)]
async fn who_has_a_key_outlasts_those_who_have_none() {
    let inside = Inside::with(FEW);
    // Their bodies are on their way, as are those of the strangers.
    let mut known = Vec::new();
    for _ in 0..5 {
        let mut client = inside.connect().await;
        client.write_all(head(BODY.len()).as_bytes()).await.unwrap();
        known.push(client);
    }
    let mut sitters = Vec::new();
    for number in 0..70 {
        sitters.push(sit(&inside, number, HEAD_ONLY).await);
    }
    for client in &mut known {
        client.write_all(BODY.as_bytes()).await.unwrap();
        let reply = one_reply(client).await;
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_came_just_now_has_time_for_its_first_byte() {
    let inside = Inside::with(FEW);
    let mut fresh = inside.connect().await;
    let mut sitters = Vec::new();
    for number in 0..70 {
        sitters.push(sit(&inside, number, HEAD_ONLY).await);
    }
    fresh.write_all(&request()).await.unwrap();
    let reply = one_reply(&mut fresh).await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}
