//! What one connection is doing: noted by those who see it, read by those who judge it, and the
//! orders it is given.
//!
//! Times are microseconds since a start that all connections share, so that they can be compared.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use atomic_waker::AtomicWaker;
use tokio::time::{Instant, timeout_at};

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
    /// Make room: end at once unless a request is in flight.
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

/// What one connection is doing.
#[derive(Debug)]
pub(super) struct Activity {
    start: Instant,
    /// Requests whose reply has not been handed over completely.
    in_flight: AtomicUsize,
    /// When it last began or ceased to have requests in flight; at first, when it was opened.
    turned_us: AtomicU64,
    /// When the first byte of the head that is being read arrived.
    head_us: AtomicU64,
    /// Whether there ever was a request.
    was_asked: AtomicBool,
    order: AtomicU8,
    judge: AtomicWaker,
}

// ORDER: relaxed throughout, the orders aside. Each field is a fact of its own, and the task that
// acts on them polls the connection that changes them; who chooses what to evict may see a moment
// ago, and the connection looks again before it ends.
impl Activity {
    pub(super) fn new(start: Instant, order: Order) -> Self {
        let activity = Self {
            start,
            in_flight: AtomicUsize::new(0),
            turned_us: AtomicU64::new(0),
            head_us: AtomicU64::new(NO_HEAD),
            was_asked: AtomicBool::new(false),
            order: AtomicU8::new(order.code()),
            judge: AtomicWaker::new(),
        };
        activity.turned_us.store(activity.now_us(), Ordering::Relaxed);
        activity
    }

    pub(super) fn now_us(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn at(&self, us: u64) -> Instant {
        self.start + Duration::from_micros(us)
    }

    /// A request has arrived; it is in flight until the guard is dropped. With HTTP/1 its head is
    /// then complete; with HTTP/2 the next one may have begun already.
    pub(super) fn begin(self: &Arc<Self>, protocol: Protocol) -> InFlight {
        self.was_asked.store(true, Ordering::Relaxed);
        if protocol == Protocol::Http1 {
            self.note_head(false);
        }
        if self.in_flight.fetch_add(1, Ordering::Relaxed) == 0 {
            self.turned_us.store(self.now_us(), Ordering::Relaxed);
        }
        InFlight(Arc::clone(self))
    }

    pub(super) fn is_busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    pub(super) fn was_asked(&self) -> bool {
        self.was_asked.load(Ordering::Relaxed)
    }

    /// When it last began or ceased to have requests in flight.
    pub(super) fn turned(&self) -> Instant {
        self.at(self.turned_us.load(Ordering::Relaxed))
    }

    /// Since when nothing is in flight; `None` if something is.
    pub(super) fn idle_since_us(&self) -> Option<u64> {
        (!self.is_busy()).then(|| self.turned_us.load(Ordering::Relaxed))
    }

    /// A head has begun to arrive, or is complete.
    pub(super) fn note_head(&self, begun: bool) {
        let us = if begun { self.now_us() } else { NO_HEAD };
        self.head_us.store(us, Ordering::Relaxed);
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

    /// What it was told; the task behind `waker` is woken when that changes.
    pub(super) fn ordered(&self, waker: &Waker) -> Order {
        self.judge.register(waker);
        // ORDER: acquire, with the release of `order`.
        let code = self.order.load(Ordering::Acquire);
        Order::ALL.into_iter().find(|order| order.code() == code).unwrap_or(Order::Evict)
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

/// A request in flight.
#[derive(Debug)]
pub(super) struct InFlight(Arc<Activity>);

impl Drop for InFlight {
    fn drop(&mut self) {
        // Before the count falls: whoever sees that nothing is in flight sees since when.
        self.0.turned_us.store(self.0.now_us(), Ordering::Relaxed);
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}
