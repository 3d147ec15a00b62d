//! A stream that takes note of what arrives over it, and that can be looked into before anyone
//! speaks a protocol over it.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::activity::{Activity, Protocol};
use super::frames::Frames;

/// What a client of HTTP/2 sends first. No request of HTTP/1 begins like it.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A stream whose reads are noted.
#[derive(Debug)]
pub(super) struct Noted<T> {
    stream: T,
    activity: Arc<Activity>,
    /// What was read to find out the protocol, and how much of it was not yet given on.
    early: [u8; PREFACE.len()],
    early_start: usize,
    early_end: usize,
    /// For HTTP/2.
    frames: Option<Frames>,
}

impl<T: AsyncRead + Unpin> Noted<T> {
    pub(super) const fn new(stream: T, activity: Arc<Activity>) -> Self {
        let early = [0; PREFACE.len()];
        Self { stream, activity, early, early_start: 0, early_end: 0, frames: None }
    }

    /// Waits for the first byte. `false` if there is none.
    pub(super) async fn first_byte(&mut self) -> bool {
        let arrived = self.read_early().await.is_ok_and(|read| read > 0);
        self.activity.note_head(arrived);
        arrived
    }

    /// Reads until it is clear which protocol it is, after the first byte.
    pub(super) async fn protocol(&mut self) -> io::Result<Protocol> {
        loop {
            let seen = self.early.get(..self.early_end).unwrap_or_default();
            if !PREFACE.starts_with(seen) {
                return Ok(Protocol::Http1);
            }
            if seen.len() == PREFACE.len() {
                return Ok(Protocol::Http2);
            }
            if self.read_early().await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }

    async fn read_early(&mut self) -> io::Result<usize> {
        let free = self.early.get_mut(self.early_end..).unwrap_or_default();
        let mut buffer = ReadBuf::new(free);
        let stream = &mut self.stream;
        poll_fn(|context| Pin::new(&mut *stream).poll_read(context, &mut buffer)).await?;
        let read = buffer.filled().len();
        self.early_end = self.early_end.saturating_add(read);
        Ok(read)
    }

    /// From here on frames are followed.
    pub(super) fn speak(&mut self, protocol: Protocol) {
        if protocol == Protocol::Http2 {
            self.frames = Some(Frames::new());
        }
    }

    /// Gives on what was read early.
    fn give_early(&mut self, buffer: &mut ReadBuf<'_>) {
        let early = self.early.get(self.early_start..self.early_end).unwrap_or_default();
        let given = early.get(..buffer.remaining()).unwrap_or(early);
        buffer.put_slice(given);
        self.early_start = self.early_start.saturating_add(given.len());
    }

    fn note(&mut self, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match &mut self.frames {
            Some(frames) => {
                let before = frames.incomplete();
                frames.note(bytes);
                let after = frames.incomplete();
                if before != after {
                    self.activity.note_head(after.is_some());
                }
            }
            // Between two requests the first byte is that of a head.
            None if !self.activity.is_busy() && self.activity.head().is_none() => {
                self.activity.note_head(true);
            }
            None => {}
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Noted<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        if self.early_start < self.early_end {
            self.give_early(buffer);
        } else {
            ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        }
        self.note(buffer.filled().get(start..).unwrap_or_default());
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Noted<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
