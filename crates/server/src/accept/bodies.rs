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

/// The body of a reply; its request is in flight until it is dropped.
pub(super) struct Held {
    body: Full<Bytes>,
    _in_flight: InFlight,
}

impl Held {
    pub(super) const fn new(body: Full<Bytes>, in_flight: InFlight) -> Self {
        Self { body, _in_flight: in_flight }
    }
}

impl Body for Held {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
