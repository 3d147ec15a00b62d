//! What one connection is doing: noted by those who see it, read by those who judge it, and the
//! orders it is given.
//!
//! Times are microseconds since a start that all connections share, so that they can be compared.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use tokio::time::{Instant, timeout_at};

use crate::auth::LastKey;

/// Which protocol is spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// What a connection is told. A later one is stronger, and none is ever taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Order {
    /// Go on.
    Serve,
    /// Answer what is in flight, tell the client to go elsewhere, and end. A client that has not
    /// asked anything yet may ask once.
    Retire,
    /// The same, and whoever has asked nothing ends at once.
    Stop,
    /// Make room: end at once unless a request is being decided.
    Evict,
}

impl Order {
    const ALL: [Self; 4] = [Self::Serve, Self::Retire, Self::Stop, Self::Evict];

    const fn code(self) -> u8 {
        match self {
            Self::Serve => 0,
            Self::Retire => 1,
            Self::Stop => 2,
            Self::Evict => 3,
        }
    }
}

/// No head is being read. No real time is so late.
const NO_HEAD: u64 = u64::MAX;

/// How long a new connection is spared before it has asked anything, if another can make room: its
/// first request is on its way. Enough for a TLS handshake over a bad line; short, because a flood
/// of new connections is spared as well.
pub(super) const FRESH_US: u64 = 1_000_000;

/// One request in flight, one whose body has not arrived, and that the connection has ended, in the
/// one word that has all three.
const ONE_IN_FLIGHT: u64 = 1;
const ONE_ARRIVING: u64 = 1 << 32;
const ENDED: u64 = 1 << 63;

/// How a connection stands when room is needed. The lowest goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Standing {
    /// Has never sent a valid key.
    Stranger,
    /// Has, and nothing of it is being decided.
    Known,
    /// Has been taken in just now.
    Fresh,
}

/// What one connection is doing.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    /// Requests whose reply has not been handed over completely; in the upper half, those of them
    /// whose body has not arrived completely, and [`ENDED`]. One word, so that nobody sees the one
    /// without the other: a body arrives before the end or after it.
    requests: AtomicU64,
    /// How many requests are no longer in flight. Their replies may wait for the next poll.
    finished: AtomicU64,
    /// When it last began or ceased to have requests in flight; at first, when it was opened.
    turned_us: AtomicU64,
    /// When the first byte of the head that is being read arrived.
    head_us: AtomicU64,
    /// Whether there ever was a request.
    was_asked: AtomicBool,
    /// Whether there ever was a valid key.
    has_key: AtomicBool,
    last_key: LastKey,
    order: AtomicU8,
    judge: AtomicWaker,
}

// ORDER: relaxed throughout, the orders and the end aside. Each field is a fact of its own, and the
// task that acts on them polls the connection that changes them; who chooses what to evict may see
// a moment ago, and the connection looks again before it ends.
impl Activity {
    pub(super) fn new(start: Instant, order: Order) -> Self {
        let activity = Self {
            start,
            requests: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            turned_us: AtomicU64::new(0),
            head_us: AtomicU64::new(NO_HEAD),
            was_asked: AtomicBool::new(false),
            has_key: AtomicBool::new(false),
            last_key: LastKey::default(),
            order: AtomicU8::new(order.code()),
            judge: AtomicWaker::new(),
        };
        activity.turned_us.store(activity.now_us(), Ordering::Relaxed);
        activity
    }

    pub(super) fn now_us(&self) -> u64 {
        self.us_at(Instant::now())
    }

    fn us_at(&self, now: Instant) -> u64 {
        u64::try_from(now.duration_since(self.start).as_micros()).unwrap_or(u64::MAX)
    }

    fn at(&self, us: u64) -> Instant {
        self.start + Duration::from_micros(us)
    }

    /// The head of a request has arrived, at the time that this gives; it is in flight until the
    /// first guard is dropped, and its body is on its way until the second is. With HTTP/1 its head
    /// is then complete; with HTTP/2 the next one may have begun already.
    pub(super) fn begin(self: &Arc<Self>, protocol: Protocol) -> (Instant, InFlight, Arriving) {
        let now = Instant::now();
        self.was_asked.store(true, Ordering::Relaxed);
        if protocol == Protocol::Http1 {
            self.note_head(false);
        }
        let before = self.requests.fetch_add(ONE_IN_FLIGHT + ONE_ARRIVING, Ordering::Relaxed);
        if in_flight(before) == 0 {
            self.turned_us.store(self.us_at(now), Ordering::Relaxed);
        }
        (now, InFlight(Arc::clone(self)), Arriving(Some(Arc::clone(self))))
    }

    /// Whether a request is in flight, even if its body is still to come.
    pub(super) fn is_busy(&self) -> bool {
        in_flight(self.requests.load(Ordering::Relaxed)) > 0
    }

    /// Whether someone with a key waits for a decision or its reply: whoever has sent all of a
    /// request has it answered. A stranger's is refused without any wait, so that one whose reply
    /// has not been handed over is one who does not take it.
    pub(super) fn is_deciding(&self) -> bool {
        self.decides(self.requests.load(Ordering::Relaxed))
    }

    fn decides(&self, requests: u64) -> bool {
        in_flight(requests) > arriving(requests) && self.has_key.load(Ordering::Relaxed)
    }

    /// How many requests have been in flight and are no longer.
    pub(super) fn finished(&self) -> u64 {
        self.finished.load(Ordering::Relaxed)
    }

    /// Ends the connection, unless something is being decided or more has `finished` than when it
    /// was last polled. What has not arrived by then never does, so nothing is decided of which the
    /// client does not hear. Only for the task that polls the connection: no request begins here.
    pub(super) fn end(&self, finished: u64) -> bool {
        // ORDER: acquire, with the release of those who count down: whoever sees that a body has
        // arrived sees its key, and whoever sees that a request is no longer in flight sees that it
        // has finished. The counts only fall, so a word that is the same has not changed.
        let ended = |requests| {
            let stays = self.decides(requests) || self.finished() != finished;
            (!stays).then_some(requests | ENDED)
        };
        self.requests.fetch_update(Ordering::AcqRel, Ordering::Acquire, ended).is_ok()
    }

    /// A request had a valid key.
    pub(super) fn note_key(&self) {
        // Looked at first: all requests but the first then only read what others read as well.
        if !self.has_key.load(Ordering::Relaxed) {
            self.has_key.store(true, Ordering::Relaxed);
        }
    }

    /// The key that was sent last.
    pub(super) const fn last_key(&self) -> &LastKey {
        &self.last_key
    }

    /// How it stands at `now_us`, and since when; `None` if it cannot make room or has been told
    /// to.
    pub(super) fn standing(&self, now_us: u64) -> Option<(Standing, u64)> {
        let is_told = self.is_evicted();
        if is_told || self.is_deciding() {
            return None;
        }
        let since_us = self.turned_us.load(Ordering::Relaxed);
        let standing = if self.has_key.load(Ordering::Relaxed) {
            Standing::Known
        } else if !self.was_asked() && now_us.saturating_sub(since_us) < FRESH_US {
            Standing::Fresh
        } else {
            Standing::Stranger
        };
        Some((standing, since_us))
    }

    pub(super) fn was_asked(&self) -> bool {
        self.was_asked.load(Ordering::Relaxed)
    }

    /// When it last began or ceased to have requests in flight.
    pub(super) fn turned(&self) -> Instant {
        self.at(self.turned_us.load(Ordering::Relaxed))
    }

    /// A head has begun to arrive, or is complete.
    pub(super) fn note_head(&self, begun: bool) {
        let us = if begun { self.now_us() } else { NO_HEAD };
        self.head_us.store(us, Ordering::Relaxed);
    }

    /// Whether a head is being read.
    pub(super) fn is_in_head(&self) -> bool {
        self.head_us.load(Ordering::Relaxed) != NO_HEAD
    }

    /// When the head that is being read began.
    pub(super) fn head(&self) -> Option<Instant> {
        let us = self.head_us.load(Ordering::Relaxed);
        (us != NO_HEAD).then(|| self.at(us))
    }

    /// Tells it what to do, and wakes it.
    pub(super) fn order(&self, order: Order) {
        // ORDER: release, with the acquire of `ordered`. The judge registers before it reads, so
        // it sees the order or is woken.
        self.order.fetch_max(order.code(), Ordering::Release);
        self.judge.wake();
    }

    /// Whether it was told anything yet. Until then, whoever was to be woken still is.
    pub(super) fn is_ordered(&self) -> bool {
        // ORDER: acquire, with the release of `order`, as below.
        self.order.load(Ordering::Acquire) != Order::Serve.code()
    }

    /// What it was told; the task behind `waker` is woken when that changes.
    pub(super) fn ordered(&self, waker: &Waker) -> Order {
        self.judge.register(waker);
        // ORDER: acquire, with the release of `order`.
        let code = self.order.load(Ordering::Acquire);
        Order::ALL.into_iter().find(|order| order.code() == code).unwrap_or(Order::Evict)
    }

    /// Whether it was told to make room.
    pub(super) fn is_evicted(&self) -> bool {
        self.order.load(Ordering::Relaxed) == Order::Evict.code()
    }

    /// Whether it was told to end.
    pub(super) fn is_to_end(&self) -> bool {
        self.order.load(Ordering::Relaxed) >= Order::Stop.code()
    }

    /// Waits for `event`, but no longer than until `deadline` or until there is the order to end.
    pub(super) async fn until<T>(
        &self,
        deadline: Instant,
        event: impl Future<Output = T>,
    ) -> Option<T> {
        let ended = poll_fn(|context| {
            let ends = self.ordered(context.waker()) >= Order::Stop;
            if ends { Poll::Ready(()) } else { Poll::Pending }
        });
        tokio::select! {
            biased;
            () = ended => None,
            event = timeout_at(deadline, event) => event.ok(),
        }
    }
}

const fn in_flight(requests: u64) -> u64 {
    requests & (ONE_ARRIVING - 1)
}

const fn arriving(requests: u64) -> u64 {
    (requests & !ENDED) / ONE_ARRIVING
}

/// A request in flight.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Activity>);

impl InFlight {
    pub(super) fn activity(&self) -> &Activity {
        &self.0
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        // Before the count falls: whoever sees that nothing is in flight sees since when.
        self.0.turned_us.store(self.0.now_us(), Ordering::Relaxed);
        self.0.finished.fetch_add(1, Ordering::Relaxed);
        // ORDER: release, with the acquire of `end`.
        self.0.requests.fetch_sub(ONE_IN_FLIGHT, Ordering::Release);
    }
}

/// A body on its way.
#[derive(Debug)]
pub(super) struct Arriving(Option<Arc<Activity>>);

impl Arriving {
    /// All of it is there. `false` if the connection ended before: nobody would hear the answer.
    pub(super) fn arrived(mut self) -> bool {
        self.leave() & ENDED == 0
    }

    /// What the word was. Done once: by whoever reads the end of the body, or when nobody does.
    fn leave(&mut self) -> u64 {
        // ORDER: release, with the acquire of `end`.
        let count_down = |it: Arc<Activity>| it.requests.fetch_sub(ONE_ARRIVING, Ordering::Release);
        self.0.take().map_or(0, count_down)
    }
}

impl Drop for Arriving {
    fn drop(&mut self) {
        self.leave();
    }
}
