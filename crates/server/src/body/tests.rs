use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http_body_util::Full;
use hyper::body::Frame;
use hyper::header::HeaderValue;

use super::large::{SHARE_MAX, WAIT_MAX};
use super::*;

/// A body of unknown length: `frames` of `frame_bytes` each, then silence or the end.
struct Chunks {
    frames: usize,
    frame_bytes: usize,
    then_silence: bool,
    taken: usize,
}

impl Chunks {
    fn new(frames: usize, frame_bytes: usize) -> Self {
        Self { frames, frame_bytes, then_silence: false, taken: 0 }
    }
}

impl Body for &mut Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.taken == self.frames {
            return if self.then_silence { Poll::Pending } else { Poll::Ready(None) };
        }
        self.taken += 1;
        let bytes = Bytes::from(vec![b' '; self.frame_bytes]);
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

async fn status<B: Body<Data = Bytes> + Unpin>(body: B, headers: &HeaderMap) -> Result<usize, u16> {
    let bodies = Bodies::new();
    let received = bodies.read(body, headers, Sender::Known("ws")).await;
    received.map(|bytes| bytes.len()).map_err(|problem| problem.status.as_u16())
}

fn full(bytes: usize) -> Full<Bytes> {
    Full::new(Bytes::from(vec![b' '; bytes]))
}

#[tokio::test(start_paused = true)]
async fn the_cap_itself_is_accepted_and_one_more_is_not() {
    let none = HeaderMap::new();
    assert_eq!(status(full(BODY_BYTES_MAX), &none).await, Ok(BODY_BYTES_MAX));
    assert_eq!(status(full(BODY_BYTES_MAX + 1), &none).await, Err(413));
    assert_eq!(status(&mut Chunks::new(1_024, 1_024), &none).await, Ok(BODY_BYTES_MAX));
    assert_eq!(status(&mut Chunks::new(1_025, 1_024), &none).await, Err(413));
}

#[tokio::test(start_paused = true)]
async fn a_refused_body_is_read_on_only_up_to_a_bound() {
    let mut endless = Chunks::new(usize::MAX, 1 << 20);
    assert_eq!(status(&mut endless, &HeaderMap::new()).await, Err(413));
    let most = (BODY_BYTES_MAX + DISCARDED_BYTES_MAX) / (1 << 20) + 2;
    assert!(endless.taken <= most, "{} MiB were read", endless.taken);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_was_announced_and_not_sent_is_not_asked_for() {
    struct Announced;
    impl Body for Announced {
        type Data = Bytes;
        type Error = Infallible;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            panic!("asked for")
        }
        fn size_hint(&self) -> hyper::body::SizeHint {
            hyper::body::SizeHint::with_exact(2 << 20)
        }
    }
    let mut headers = HeaderMap::new();
    headers.insert(EXPECT, HeaderValue::from_static("100-continue"));
    assert_eq!(status(Announced, &headers).await, Err(413));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stops_arriving_is_refused_at_the_deadline() {
    for (frames, frame_bytes, expected) in [(0, 0, 408), (3, 10, 408), (2, 1 << 20, 413)] {
        let start = tokio::time::Instant::now();
        let mut body = Chunks { then_silence: true, ..Chunks::new(frames, frame_bytes) };
        assert_eq!(status(&mut body, &HeaderMap::new()).await, Err(expected));
        let waited = start.elapsed();
        assert!(waited.abs_diff(BODY_DEADLINE) < Duration::from_millis(5), "{waited:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_breaks_off_cannot_be_read() {
    struct Broken;
    impl Body for Broken {
        type Data = Bytes;
        type Error = std::io::Error;
        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
            Poll::Ready(Some(Err(std::io::ErrorKind::UnexpectedEof.into())))
        }
    }
    assert_eq!(status(Broken, &HeaderMap::new()).await, Err(400));
}

#[tokio::test(start_paused = true)]
async fn large_bodies_wait_shortly_for_a_place_and_small_ones_do_not() {
    let (bodies, none) = (Bodies::new(), HeaderMap::new());
    let mut kept = Vec::new();
    for _ in 0..SHARE_MAX {
        kept.push(bodies.read(full(SMALL_BYTES_MAX + 1), &none, Sender::Known("a")).await.unwrap());
    }
    let start = tokio::time::Instant::now();
    assert!(bodies.read(full(SMALL_BYTES_MAX), &none, Sender::Known("a")).await.is_ok());
    assert_eq!(start.elapsed(), Duration::ZERO, "no wait");
    let refused = bodies.read(full(SMALL_BYTES_MAX + 1), &none, Sender::Known("a")).await;
    let refused = refused.unwrap_err();
    assert_eq!((refused.status.as_u16(), refused.retry_after), (503, Some("1")));
    assert!(start.elapsed().abs_diff(WAIT_MAX) < Duration::from_millis(5), "{start:?}");

    let waiting = bodies.read(full(SMALL_BYTES_MAX + 1), &none, Sender::Known("a"));
    let leaving = async {
        tokio::time::advance(WAIT_MAX / 2).await;
        kept.pop();
    };
    assert!(tokio::join!(waiting, leaving).0.is_ok(), "a place that is given back in time");
}

/// Twenty kilobytes, and then nothing for ever.
async fn stuck(bodies: Arc<Bodies>, workspace: String) -> u16 {
    let mut body = Chunks { then_silence: true, ..Chunks::new(2, 10 << 10) };
    let read = bodies.read(&mut body, &HeaderMap::new(), Sender::Known(&workspace)).await;
    read.unwrap_err().status.as_u16()
}

#[tokio::test(start_paused = true)]
async fn large_bodies_of_one_workspace_keep_no_other_waiting() {
    let bodies = Arc::new(Bodies::new());
    let stuck: Vec<_> =
        (0..60).map(|_| tokio::spawn(stuck(Arc::clone(&bodies), "a".to_owned()))).collect();
    // Lets all of them take what they can get.
    tokio::task::yield_now().await;
    let start = tokio::time::Instant::now();
    let other = bodies.read(full(24 << 10), &HeaderMap::new(), Sender::Known("b")).await;
    assert!(other.is_ok());
    assert_eq!(start.elapsed(), Duration::ZERO, "no wait");
    drop(other);
    let mut told = Vec::new();
    for stuck in stuck {
        told.push(stuck.await.unwrap());
    }
    let count = |status| told.iter().filter(|told| **told == status).count();
    assert_eq!((count(408), count(503)), (SHARE_MAX, 60 - SHARE_MAX));
    assert_eq!(bodies.of_known.large.shares.workspaces(), 0, "nothing is kept of those who left");
}

#[test]
fn one_workspace_leaves_room_for_the_small_bodies_of_another() {
    let bodies = Bodies::new();
    let room = &bodies.of_known;
    let all_of = |workspace| -> Vec<_> {
        std::iter::from_fn(|| room.enter(Sender::Known(workspace))).take(BODIES_MAX).collect()
    };
    let mut first = all_of("a");
    assert_eq!(first.len(), UNCOUNTED_MAX + BODIES_SHARE_MAX);
    let second = all_of("b");
    assert_eq!(second.len(), BODIES_SHARE_MAX);
    assert!(room.enter(Sender::Known("c")).is_some(), "there is room for a third");
    // Its last one has a place of its share.
    drop(first.pop());
    assert!(room.enter(Sender::Known("a")).is_some(), "a place that was given back");
    drop((first, second));
    assert_eq!(room.shares.workspaces(), 0, "nothing is kept of those who left");
    assert_eq!(room.read.load(Ordering::Relaxed), 0);
}

#[test]
fn nothing_is_kept_of_a_workspace_whose_last_bodies_leave_at_once() {
    let shares = Shares::new(2);
    let arrived = AtomicUsize::new(0);
    // Spins, so that both go on within nanoseconds; yields, so that one core is enough.
    let together = |round: usize| {
        arrived.fetch_add(1, Ordering::SeqCst);
        for spin in 1_usize.. {
            if arrived.load(Ordering::SeqCst) >= 2 * round {
                return;
            }
            if spin % 1_000 == 0 {
                std::thread::yield_now();
            }
        }
    };
    let come_and_go = || {
        let mut kept = 0;
        for round in 0..20_000 {
            let share = shares.take("a");
            together(3 * round + 1);
            drop(share);
            together(3 * round + 2);
            kept += shares.workspaces();
            together(3 * round + 3);
        }
        kept
    };
    let kept = std::thread::scope(|scope| {
        let other = scope.spawn(come_and_go);
        come_and_go() + other.join().unwrap()
    });
    assert_eq!(kept, 0);
}

#[tokio::test(start_paused = true)]
async fn when_every_place_is_taken_the_next_is_told_soon() {
    let bodies = Arc::new(Bodies::new());
    for workspace in ["a", "b", "c", "d", "e", "f"] {
        for _ in 0..SHARE_MAX {
            tokio::spawn(stuck(Arc::clone(&bodies), workspace.to_owned()));
        }
    }
    tokio::task::yield_now().await;
    let start = tokio::time::Instant::now();
    let refused = bodies.read(full(24 << 10), &HeaderMap::new(), Sender::Known("z")).await;
    assert_eq!(refused.unwrap_err().status.as_u16(), 503);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
    tokio::time::advance(BODY_DEADLINE).await;
    let free = bodies.read(full(24 << 10), &HeaderMap::new(), Sender::Known("z")).await;
    assert!(free.is_ok(), "there is room again");
}

#[tokio::test(start_paused = true)]
async fn strangers_with_large_bodies_keep_only_strangers_waiting() {
    let (bodies, none) = (Bodies::new(), HeaderMap::new());
    let mut kept = Vec::new();
    for _ in 0..LARGE_BODIES_OF_STRANGERS_MAX {
        kept.push(bodies.read(full(BODY_BYTES_MAX), &none, Sender::Stranger).await.unwrap());
    }
    let start = tokio::time::Instant::now();
    assert!(bodies.read(full(BODY_BYTES_MAX), &none, Sender::Known("ws")).await.is_ok());
    assert_eq!(start.elapsed(), Duration::ZERO, "no wait");
    let refused = bodies.read(full(BODY_BYTES_MAX), &none, Sender::Stranger).await.unwrap_err();
    assert_eq!(refused.status.as_u16(), 503);
    assert_eq!(start.elapsed(), Duration::ZERO, "a stranger is refused at once");
}

#[tokio::test(start_paused = true)]
async fn beyond_the_bound_strangers_are_refused_at_once_and_others_are_not() {
    let (bodies, none) = (Arc::new(Bodies::new()), HeaderMap::new());
    let mut dribbling = Vec::new();
    for _ in 0..BODIES_OF_STRANGERS_MAX {
        let bodies = Arc::clone(&bodies);
        dribbling.push(tokio::spawn(async move {
            let mut stuck = Chunks { then_silence: true, ..Chunks::new(1, 1) };
            bodies.read(&mut stuck, &HeaderMap::new(), Sender::Stranger).await.is_ok()
        }));
    }
    while bodies.of_strangers.read.load(Ordering::Relaxed) < BODIES_OF_STRANGERS_MAX {
        tokio::task::yield_now().await;
    }
    let start = tokio::time::Instant::now();
    let refused = bodies.read(full(1), &none, Sender::Stranger).await.unwrap_err();
    assert_eq!(refused.status.as_u16(), 503);
    assert!(bodies.read(full(1), &none, Sender::Known("ws")).await.is_ok());
    assert_eq!(start.elapsed(), Duration::ZERO, "no wait");

    for stuck in dribbling {
        assert!(!stuck.await.unwrap());
    }
    assert!(bodies.read(full(1), &none, Sender::Stranger).await.is_ok(), "there is room again");
}

/// What an operation keeps that no client can end is counted by its length (`door::APART_KIB_MAX`).
#[tokio::test]
async fn what_is_taken_keeps_no_more_than_its_length() {
    // As a connection reads: a body is a part of what was read at once.
    let read_at_once = Bytes::from(vec![b' '; 32 << 10]);
    let bodies = Bodies::new();
    let body = Full::new(read_at_once.slice(..100));
    let mut received = bodies.read(body, &HeaderMap::new(), Sender::Known("ws")).await.unwrap();
    let taken = received.take();
    drop(received);
    assert_eq!(taken.len(), 100);
    assert!(read_at_once.is_unique(), "100 bytes keep the 32 KiB that were read with them");
}

/// Frames of a body whose length is known, as HTTP/1 has them.
struct Known(std::collections::VecDeque<Bytes>);

impl Body for &mut Known {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_empty()
    }
}

#[tokio::test]
async fn every_part_of_a_body_of_known_length_is_there() {
    for parts in [&["ab"][..], &["a", "b"], &["", "ab"], &["a", "", "b"], &["ab", ""]] {
        let mut body =
            Known(parts.iter().map(|part| Bytes::from_static(part.as_bytes())).collect());
        let bodies = Bodies::new();
        let received = bodies.read(&mut body, &HeaderMap::new(), Sender::Known("ws")).await;
        assert_eq!(&*received.unwrap(), b"ab", "{parts:?}");
    }
}
