//! A connection, and the patience we have with it.
//!
//! Promises: every wait on the client ends: for the rest of a head, for the next request, for the
//! reply to be taken. Orders are followed as soon as they are given.
//! Fails: by ending the connection; where the client can be told, it is told first.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use std::time::Duration;

use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, Sleep, sleep_until};

use super::activity::{Activity, Order, Protocol};
use super::stall::WRITE_DEADLINE;
use super::tally::{Fate, Tally};
use crate::body::BODY_DEADLINE;

/// How long a head may take from its first byte on, how long the first byte of a connection may
/// take, and how long a client that was told to go may take to go. A head is one packet: even over
/// a bad line that is a second. Whoever dribbles bytes is cut off here. (A head that begins in the
/// same packet as the request before it is taken for none until more of it comes: then the client
/// has the time of an idle one.)
pub(super) const HEAD_DEADLINE: Duration = Duration::from_secs(5);

/// How long a connection may be idle between two requests. Longer than the clients that keep
/// connections for long (proxies and load balancers: commonly 60 s), because whoever closes first
/// decides: if we did, a client's next request could cross our close and fail.
pub(super) const IDLE_DEADLINE: Duration = Duration::from_secs(75);

/// How long a request may be in flight. What is too large may be read on for a second body's time;
/// then the reply has to be taken. None of it is waiting for us: a decision takes milliseconds.
pub(super) const REQUEST_DEADLINE: Duration = Duration::from_secs(30);

const _: () = assert!(
    REQUEST_DEADLINE.as_secs() >= 2 * BODY_DEADLINE.as_secs() + WRITE_DEADLINE.as_secs(),
    "the body's own deadline, which answers, comes first"
);
const _: () = assert!(HEAD_DEADLINE.as_secs() < IDLE_DEADLINE.as_secs());

/// A connection that is ended when the patience with it ends.
pub(super) struct Patient<'a, C> {
    connection: Pin<&'a mut C>,
    /// Tells the connection to finish what it has, and to end.
    retire: fn(Pin<&mut C>),
    /// When it was told.
    retired: Option<Instant>,
    protocol: Protocol,
    activity: Arc<Activity>,
    tally: &'a Tally,
    /// Rings at the earliest deadline or before: deadlines that move on do not move it.
    alarm: Pin<Box<Sleep>>,
    /// Who is woken by the alarm and by the first order, if that is settled.
    woken: Option<Waker>,
}

/// What came of an order.
enum Obeyed {
    /// Nothing is to be done, or it was done before.
    Already,
    /// The connection has something to say: that the client is to go, or a reply.
    Told,
    /// The connection is to end.
    Ends,
}

/// What a deadline means.
enum Deadline {
    /// The client is told to go.
    Idle(Instant),
    /// The connection is cut off.
    Over(Instant),
    /// There is none now: look again soon.
    None,
}

impl<'a, C: Future> Patient<'a, C> {
    pub(super) fn new(
        connection: Pin<&'a mut C>,
        retire: fn(Pin<&mut C>),
        protocol: Protocol,
        activity: &Arc<Activity>,
        tally: &'a Tally,
    ) -> Self {
        let alarm = Box::pin(sleep_until(activity.turned() + IDLE_DEADLINE));
        let activity = Arc::clone(activity);
        Self { connection, retire, retired: None, protocol, activity, tally, alarm, woken: None }
    }

    fn deadline(&self) -> Deadline {
        let activity = &self.activity;
        let turned = activity.turned();
        if let Some(head) = activity.head() {
            Deadline::Over(head + HEAD_DEADLINE)
        } else if activity.is_busy() {
            match self.protocol {
                Protocol::Http1 => Deadline::Over(turned + REQUEST_DEADLINE),
                // Its requests have each a task of their own, and there a deadline.
                Protocol::Http2 => Deadline::None,
            }
        } else {
            match self.retired {
                Some(retired) => Deadline::Over(retired.max(turned) + HEAD_DEADLINE),
                None => Deadline::Idle(turned + IDLE_DEADLINE),
            }
        }
    }

    /// Which patience is over; none if the client was told to go.
    fn fate(&self) -> Option<Fate> {
        match (self.activity.head(), self.activity.is_busy()) {
            (Some(_), _) => Some(Fate::HeadLate),
            (None, true) => Some(Fate::RequestLate),
            (None, false) => None,
        }
    }

    /// Tells the client to go, once.
    fn retire(&mut self) -> Obeyed {
        if self.retired.is_some() {
            return Obeyed::Already;
        }
        self.retired = Some(Instant::now());
        (self.retire)(self.connection.as_mut());
        Obeyed::Told
    }

    /// Whether this task is woken by the alarm, if it is set, and by the first order.
    fn is_woken(&self, context: &Context<'_>) -> bool {
        self.woken.as_ref().is_some_and(|woken| woken.will_wake(context.waker()))
    }

    /// Does as it was ordered. So many had `finished` before the connection was last polled; what
    /// has since then may have a reply that is not sent yet.
    fn obey(&mut self, context: &Context<'_>, finished: u64) -> Obeyed {
        if self.is_woken(context) && !self.activity.is_ordered() {
            return Obeyed::Already;
        }
        match self.activity.ordered(context.waker()) {
            Order::Serve => Obeyed::Already,
            Order::Retire if !self.activity.was_asked() => Obeyed::Already,
            // Its next reply says that it is to go. To close it now would cross a request that a
            // load balancer sends before it has noticed.
            Order::Retire if self.protocol == Protocol::Http1 => Obeyed::Already,
            Order::Evict if self.activity.end(finished) => Obeyed::Ends,
            Order::Evict if self.activity.finished() != finished => {
                self.retire();
                Obeyed::Told
            }
            Order::Retire | Order::Stop | Order::Evict => self.retire(),
        }
    }

    /// Whether no deadline can be earlier than the alarm. They only move on, but for those of a
    /// head, of a request of HTTP/1 and of a client that was told to go, which are shorter than the
    /// wait that they end.
    fn is_alarm_enough(&self) -> bool {
        let is_short = self.protocol == Protocol::Http1 && self.activity.is_busy();
        !is_short && self.retired.is_none() && !self.activity.is_in_head()
    }

    /// Waits for the earliest deadline.
    fn poll_deadline(&mut self, context: &mut Context<'_>) -> Poll<Deadline> {
        if self.is_alarm_enough() {
            ready!(self.poll_alarm(context));
        }
        loop {
            let deadline = self.deadline();
            let (Deadline::Idle(at) | Deadline::Over(at)) = deadline else {
                if self.alarm.is_elapsed() {
                    self.set_alarm(Instant::now() + HEAD_DEADLINE);
                }
                ready!(self.poll_alarm(context));
                continue;
            };
            if self.alarm.is_elapsed() && at <= Instant::now() {
                return Poll::Ready(deadline);
            }
            if self.alarm.is_elapsed() || at < self.alarm.deadline() {
                self.set_alarm(at);
            }
            ready!(self.poll_alarm(context));
        }
    }

    fn set_alarm(&mut self, at: Instant) {
        self.woken = None;
        self.alarm.as_mut().reset(at);
    }

    /// Waits for the alarm. Once it is known whom it wakes, a look is enough.
    fn poll_alarm(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.is_woken(context) && !self.alarm.is_elapsed() {
            return Poll::Pending;
        }
        let rings = self.alarm.as_mut().poll(context);
        // A task whose turn is used up is put off before it is noted whom the alarm wakes.
        let noted = rings.is_pending() && has_budget_remaining();
        self.woken = noted.then(|| context.waker().clone());
        rings
    }
}

impl<C: Future> Future for Patient<'_, C> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // A client is told to go only once, and has so many requests at a time, so this ends.
        loop {
            let finished = self.activity.finished();
            // A client that breaks off or breaks the protocol is its own affair.
            if self.connection.as_mut().poll(context).is_ready() {
                return Poll::Ready(());
            }
            match self.obey(context, finished) {
                Obeyed::Ends => return Poll::Ready(()),
                Obeyed::Told => continue,
                Obeyed::Already => {}
            }
            match ready!(self.poll_deadline(context)) {
                Deadline::Idle(_) if matches!(self.retire(), Obeyed::Told) => {
                    self.tally.note(Fate::Idle);
                }
                _ => {
                    self.fate().into_iter().for_each(|fate| self.tally.note(fate));
                    return Poll::Ready(());
                }
            }
        }
    }
}
