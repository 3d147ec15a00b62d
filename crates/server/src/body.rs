//! The bytes of a body: no more than the cap, no later than the deadline, and no more memory for
//! all of them together than was set aside. Bodies are read before a wrong key is reported, so this
//! is what a stranger can take from us.
//!
//! Promises: no workspace takes the places of another or keeps it waiting for one, and nobody waits
//! long for one.
//! Refuses: with 503 whoever finds no room; a stranger at once.

use std::future::poll_fn;
use std::ops::Deref;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::HeaderMap;
use hyper::body::Body;
use hyper::header::EXPECT;
use tokio::time::timeout;

use crate::problem::Problem;
use large::{Large, LargePlace};
use shares::{Share, Shares};

mod large;
mod shares;
#[cfg(test)]
mod tests;

/// Largest body. A batch of 100 items with the longest strings takes less than half of it.
const BODY_BYTES_MAX: usize = 1 << 20;

/// A body up to this size, a hundred times what is usual, is kept without further ado: how many
/// are read at a time is bounded.
pub(crate) const SMALL_BYTES_MAX: usize = 16 << 10;

/// How many bodies are read at a time, whatever their size; more are refused at once. One client
/// of HTTP/2 can send many, so the number of connections does not bound them. Strangers have their
/// own share, for the reason below, and a smaller one: their bodies are read only to be refused.
const BODIES_MAX: usize = 16_384;
pub(crate) const BODIES_OF_STRANGERS_MAX: usize = 1_024;

/// As long as no more than so many are read nobody is counted, because that takes a lock and there
/// is room for all. Beyond them one workspace may have as many again: half of the places in all,
/// and another finds room in the other half.
const UNCOUNTED_MAX: usize = BODIES_MAX / 4;
const BODIES_SHARE_MAX: usize = BODIES_MAX / 4;

/// What strangers can take with bodies of up to [`SMALL_BYTES_MAX`]: for each a buffer that has
/// grown to twice its content, a head, and what is on its way and not yet read. A test adds it up.
#[cfg(test)]
pub(crate) const STRANGERS_BYTES_MAX: usize = 128 << 20;

/// How many larger bodies are kept at a time. Strangers have places of their own and so cannot keep
/// anyone with a key waiting. With [`BODY_BYTES_MAX`], and a buffer that has grown to twice its
/// content, this bounds the memory of all of them to 128 MiB.
const LARGE_BODIES_MAX: usize = 48;
const LARGE_BODIES_OF_STRANGERS_MAX: usize = 16;

/// How much of a body that is too large is still read, and thrown away, before it is refused. A
/// client that writes all before it reads would otherwise see a reset connection instead of the
/// refusal.
const DISCARDED_BYTES_MAX: usize = 16 << 20;

/// How long a body may take. Long for the hundred bytes it usually has, even over a bad line;
/// short enough that whoever dribbles bytes holds a connection for seconds only.
pub(crate) const BODY_DEADLINE: Duration = Duration::from_secs(10);

const _: () = assert!(SMALL_BYTES_MAX < BODY_BYTES_MAX);
const _: () = assert!(LARGE_BODIES_MAX < BODIES_MAX);
const _: () = assert!(UNCOUNTED_MAX + 2 * BODIES_SHARE_MAX < BODIES_MAX, "two have room");
const _: () = assert!(LARGE_BODIES_OF_STRANGERS_MAX < BODIES_OF_STRANGERS_MAX);
const _: () = assert!(BODY_BYTES_MAX < DISCARDED_BYTES_MAX);

/// Who sends a body, as far as that decides where it waits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sender<'a> {
    /// Has a key of this workspace.
    Known(&'a str),
    Stranger,
}

/// Why a body was not received.
enum Failed<E> {
    TooLarge,
    /// There is no place for it.
    TooBusy,
    Broken(E),
}

/// Reads bodies.
#[derive(Debug)]
pub(crate) struct Bodies {
    of_known: Room,
    of_strangers: Room,
}

/// Room for the bodies of some.
#[derive(Debug)]
struct Room {
    /// How many there are now, and may be.
    read: AtomicUsize,
    read_max: usize,
    /// Of the workspaces, for those beyond [`UNCOUNTED_MAX`].
    shares: Shares,
    large: Large,
}

/// A body that is being read or decided on.
#[derive(Debug)]
struct Admission<'a> {
    counted: Counted<'a>,
    _share: Option<Share<'a>>,
}

/// One of those that are read now, until it is dropped.
#[derive(Debug)]
struct Counted<'a>(&'a Room);

impl Room {
    const fn new(read_max: usize, large_max: usize) -> Self {
        let shares = Shares::new(BODIES_SHARE_MAX);
        Self { read: AtomicUsize::new(0), read_max, shares, large: Large::new(large_max) }
    }

    /// Room for one more, if there is any for `sender`.
    fn enter(&self, sender: Sender<'_>) -> Option<Admission<'_>> {
        // Counted first, so that no two can take the last one; given back if it was too much.
        // ORDER: relaxed, here and below. A count that nothing else follows from.
        let before = self.read.fetch_add(1, Ordering::Relaxed);
        let counted = Counted(self);
        if before >= self.read_max {
            return None;
        }
        let share = match sender {
            Sender::Known(workspace) if before >= UNCOUNTED_MAX => {
                Some(self.shares.take(workspace)?)
            }
            Sender::Known(_) | Sender::Stranger => None,
        };
        Some(Admission { counted, _share: share })
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.read.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A body as it arrived, and its place if it is a large one.
#[derive(Debug)]
pub(crate) struct Received<'a> {
    bytes: Arrived,
    _place: Option<LargePlace<'a>>,
    _admission: Admission<'a>,
}

impl Received<'_> {
    /// The bytes; the place stays taken for as long as this is there.
    pub(crate) fn take(&mut self) -> Bytes {
        match &mut self.bytes {
            // It may be a small part of what was read at once, and is kept for long.
            Arrived::Whole(bytes) => Bytes::copy_from_slice(bytes),
            Arrived::Parts(bytes) => bytes.split().freeze(),
        }
    }
}

/// What has arrived of a body.
#[derive(Debug)]
enum Arrived {
    /// All of it, in one piece: nothing is copied. It is kept only while it is decided on, because
    /// it may be a small part of what was read at once.
    Whole(Bytes),
    /// Some of it.
    Parts(BytesMut),
}

impl Deref for Received<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.bytes {
            Arrived::Whole(bytes) => bytes,
            Arrived::Parts(bytes) => bytes,
        }
    }
}

impl Bodies {
    pub(crate) const fn new() -> Self {
        Self {
            of_known: Room::new(BODIES_MAX, LARGE_BODIES_MAX),
            of_strangers: Room::new(BODIES_OF_STRANGERS_MAX, LARGE_BODIES_OF_STRANGERS_MAX),
        }
    }

    const fn room_for(&self, sender: Sender<'_>) -> &Room {
        match sender {
            Sender::Known(_) => &self.of_known,
            Sender::Stranger => &self.of_strangers,
        }
    }

    /// Reads all of `body`, which comes from `sender`.
    pub(crate) async fn read<B>(
        &self,
        mut body: B,
        headers: &HeaderMap,
        sender: Sender<'_>,
    ) -> Result<Received<'_>, Problem>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let admission = self.room_for(sender).enter(sender).ok_or_else(Problem::too_busy)?;
        let announced = body.size_hint().lower();
        if announced > wide(BODY_BYTES_MAX) {
            // Who asks first has not sent anything, and is told not to.
            if !headers.contains_key(EXPECT) && announced <= wide(DISCARDED_BYTES_MAX) {
                Box::pin(discard(&mut body)).await;
            }
            return Err(Problem::body_too_large());
        }
        let collected = {
            let mut collecting = pin!(collect(&mut body, admission, sender));
            match look(collecting.as_mut()).await {
                // It is there already, as nearly every body is, and needs no clock.
                Poll::Ready(collected) => Some(collected),
                // In a box: the state of every request would have room for a timer.
                Poll::Pending => Box::pin(timeout(BODY_DEADLINE, collecting)).await.ok(),
            }
        };
        match collected {
            None => Err(Problem::body_too_late()),
            Some(Ok(received)) => Ok(received),
            Some(Err(Failed::TooLarge)) => {
                Box::pin(discard(&mut body)).await;
                Err(Problem::body_too_large())
            }
            Some(Err(Failed::TooBusy)) => Err(Problem::too_busy()),
            Some(Err(Failed::Broken(_))) => Err(Problem::body_unreadable()),
        }
    }
}

/// Whether something has come already. If not, it may be waited for.
pub(crate) async fn look<F: Future>(mut event: Pin<&mut F>) -> Poll<F::Output> {
    poll_fn(|context| Poll::Ready(event.as_mut().poll(context))).await
}

/// Collects the body. A large one takes a place in its room.
async fn collect<'a, B>(
    body: &mut B,
    admission: Admission<'a>,
    sender: Sender<'_>,
) -> Result<Received<'a>, Failed<B::Error>>
where
    B: Body<Data = Bytes> + Unpin,
{
    let room = admission.counted.0;
    let mut parts = BytesMut::new();
    let mut place = None;
    while let Some(frame) = body.frame().await {
        // What is not data is a trailer, and says nothing to us.
        let Ok(data) = frame.map_err(Failed::Broken)?.into_data() else { continue };
        let length = parts.len().saturating_add(data.len());
        if length > BODY_BYTES_MAX {
            return Err(Failed::TooLarge);
        }
        if length > SMALL_BYTES_MAX && place.is_none() {
            place = Some(Box::pin(room.large.place(sender)).await.ok_or(Failed::TooBusy)?);
        }
        if parts.is_empty() && body.is_end_stream() {
            let bytes = Arrived::Whole(data);
            return Ok(Received { bytes, _place: place, _admission: admission });
        }
        parts.extend_from_slice(&data);
    }
    Ok(Received { bytes: Arrived::Parts(parts), _place: place, _admission: admission })
}

/// Reads on without keeping anything, up to a bound and for a time. What goes wrong here changes
/// nothing: the body is refused anyway.
async fn discard<B: Body<Data = Bytes> + Unpin>(body: &mut B) {
    let mut left = DISCARDED_BYTES_MAX;
    let discarded = async {
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match left.checked_sub(bytes) {
                Some(rest) => left = rest,
                None => return,
            }
        }
    };
    let _ = timeout(BODY_DEADLINE, discarded).await;
}

fn wide(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}
