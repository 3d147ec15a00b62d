//! The bodies of requests and replies, which say how far a request has come.
//!
//! Promises: a request is being decided from the moment its last byte was read, and in flight until
//! its reply is handed over.
//! Fails: a body whose end is read when its connection has ended breaks off, so that nothing is
//! decided of which nobody would hear.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, Incoming, SizeHint};

use super::activity::{Arriving, InFlight};

/// The body of a request. It is on its way until its end was read, or nobody reads it any more.
pub(super) struct Coming {
    body: Incoming,
    arriving: Option<Arriving>,
}

impl Coming {
    pub(super) fn new(body: Incoming, arriving: Arriving) -> Self {
        let arriving = (!body.is_end_stream()).then_some(arriving);
        Self { body, arriving }
    }
}

/// Why a body has no end.
#[derive(Debug)]
pub(super) enum BrokeOff {
    /// The client did not send it, or not in order.
    Client,
    /// The connection was ended.
    Ended,
}

impl Body for Coming {
    type Data = Bytes;
    type Error = BrokeOff;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BrokeOff>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let is_end = frame.is_none() || self.body.is_end_stream();
        let arriving = if is_end { self.arriving.take() } else { None };
        if arriving.is_some_and(|it| !it.arrived()) {
            return Poll::Ready(Some(Err(BrokeOff::Ended)));
        }
        Poll::Ready(frame.map(|it| it.map_err(|_| BrokeOff::Client)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Most bytes of a reply that are handed over at once. They are copied behind its head, to be
/// written with it, and the room for that is kept as long as the connection.
const PIECE_BYTES_MAX: usize = 16 << 10;

/// The body of a reply; its request is in flight until it is dropped.
pub(super) struct Held {
    body: Full<Bytes>,
    /// What was taken from it and is too much for one piece.
    rest: Bytes,
    _in_flight: InFlight,
}

impl Held {
    pub(super) const fn new(body: Full<Bytes>, in_flight: InFlight) -> Self {
        Self { body, rest: Bytes::new(), _in_flight: in_flight }
    }
}

impl Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.rest.is_empty() {
            let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
            match frame.map(|it| it.map(Frame::into_data)) {
                Some(Ok(Ok(data))) if data.len() > PIECE_BYTES_MAX => self.rest = data,
                Some(Ok(Ok(data))) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                // A reply has no trailers.
                _ => return Poll::Ready(None),
            }
        }
        let length = self.rest.len().min(PIECE_BYTES_MAX);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.len() {
            0 => self.body.size_hint(),
            length => SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt;
    use tokio::time::Instant;

    use super::super::activity::{Activity, Order, Protocol};
    use super::*;

    #[tokio::test]
    async fn a_long_reply_is_handed_over_in_pieces_and_whole() {
        for length in [0, 1, PIECE_BYTES_MAX, PIECE_BYTES_MAX + 1, 3 * PIECE_BYTES_MAX] {
            let activity = Arc::new(Activity::new(Instant::now(), Order::Serve));
            let (_, in_flight, _) = activity.begin(Protocol::Http1);
            let whole: Vec<u8> = (0_u8..=255).cycle().take(length).collect();
            let mut held = Held::new(Full::new(Bytes::from(whole.clone())), in_flight);
            let mut taken = Vec::new();
            while let Some(frame) = held.frame().await {
                let piece = frame.unwrap().into_data().unwrap();
                assert!(piece.len() <= PIECE_BYTES_MAX);
                taken.extend_from_slice(&piece);
                let left = u64::try_from(length - taken.len()).unwrap();
                assert_eq!(held.size_hint().exact(), Some(left));
                assert_eq!(held.is_end_stream(), left == 0);
            }
            assert!(taken == whole && activity.is_busy());
            drop(held);
            assert!(!activity.is_busy());
        }
    }
}
