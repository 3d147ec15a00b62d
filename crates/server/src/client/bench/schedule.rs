//! When requests are due.
//!
//! Promises: in an open loop, request `n` is due `n / rate` after the start, whatever happened to
//! those before it. What nobody was free to send stays due, as a number: no memory grows.
//! Refuses: to send after the end.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tokio::sync::{Semaphore, TryAcquireError};
use tokio::time::{Instant, timeout};

use crate::cli::Rate;

/// How soon the clock's thread notices that the end came early.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

const NS_PER_SECOND: u128 = 1_000_000_000;

/// When requests are due, and who sends them.
#[derive(Debug)]
pub(super) struct Schedule {
    start: Instant,
    warm_up: Duration,
    time: Duration,
    rate: Option<NonZeroU32>,
    /// Those that are due and that nobody sends yet.
    due: Semaphore,
    next: AtomicU64,
}

/// A request to be sent now.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ticket {
    pub(super) number: u64,
    /// When it was due.
    pub(super) due: Instant,
    /// Whether it is after the warm-up.
    pub(super) counts: bool,
    /// Whether its sender had been waiting for it. If not, no connection was free when it was due.
    pub(super) awaited: bool,
}

impl Schedule {
    /// Begins now.
    pub(super) fn new(rate: Rate, warm_up: Duration, time: Duration) -> Self {
        let rate = match rate {
            Rate::PerSecond(rate) => Some(rate),
            Rate::Max => None,
        };
        let (due, next) = (Semaphore::new(0), AtomicU64::new(0));
        Self { start: Instant::now(), warm_up, time, rate, due, next }
    }

    /// How many are sent in all; `None` in a closed loop.
    fn total(&self) -> Option<u64> {
        self.rate.map(|rate| due_by(rate, self.warm_up + self.time))
    }

    /// How many of those that count are due by now.
    pub(super) fn counted_by_now(&self) -> Option<u64> {
        let rate = self.rate?;
        let elapsed = self.start.elapsed().min(self.warm_up + self.time);
        let all = due_by(rate, elapsed);
        Some(all.saturating_sub(due_by(rate, self.warm_up.min(elapsed))))
    }

    /// When sending ends.
    pub(super) fn end(&self) -> Instant {
        self.start + self.warm_up + self.time
    }

    /// When measuring begins.
    pub(super) fn measured_from(&self) -> Instant {
        self.start + self.warm_up
    }

    /// No more is sent.
    pub(super) fn stop(&self) {
        self.due.close();
    }

    /// The next request, when it is due; `None` when there are no more.
    pub(super) async fn next(&self) -> Option<Ticket> {
        let Some(rate) = self.rate else { return self.next_at_once() };
        let awaited = match self.due.try_acquire() {
            Ok(permit) => {
                permit.forget();
                false
            }
            Err(TryAcquireError::Closed) => return None,
            Err(TryAcquireError::NoPermits) => {
                self.due.acquire().await.ok()?.forget();
                true
            }
        };
        // ORDER: relaxed: only that no two get the same number matters.
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if Some(number) >= self.total() {
            return None;
        }
        let after = due_at(rate, number);
        Some(Ticket { number, due: self.start + after, counts: after >= self.warm_up, awaited })
    }

    fn next_at_once(&self) -> Option<Ticket> {
        let due = Instant::now();
        if self.due.is_closed() || due >= self.end() {
            return None;
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        Some(Ticket { number, due, counts: due >= self.measured_from(), awaited: false })
    }

    /// Waits, but not beyond the end.
    pub(super) async fn rest(&self, time: Duration) {
        let left = self.end().saturating_duration_since(Instant::now());
        let _ = timeout(time.min(left), std::future::pending::<()>()).await;
    }

    /// Makes requests due, until all are or it was stopped, and then sends `senders` home.
    ///
    /// On a thread of its own: timers of the runtime are a millisecond coarse, which is more than
    /// most replies take. A thread that is parked wakes within a tenth of that.
    pub(super) fn keep(self: &Arc<Self>, senders: usize) -> Option<thread::JoinHandle<()>> {
        let (rate, total) = (self.rate?, self.total()?);
        let schedule = Arc::clone(self);
        Some(thread::spawn(move || {
            let mut made_due = 0;
            while made_due < total && !schedule.due.is_closed() {
                let now_due = due_by(rate, schedule.start.elapsed()).min(total);
                let more = now_due.saturating_sub(made_due);
                schedule.due.add_permits(usize::try_from(more).unwrap_or(0));
                made_due = now_due;
                let next = schedule.start + due_at(rate, made_due);
                let wait = next.saturating_duration_since(Instant::now());
                thread::park_timeout(wait.min(LOOK_AGAIN));
            }
            schedule.due.add_permits(senders);
        }))
    }
}

/// How many are due within that time: the first at once.
fn due_by(rate: NonZeroU32, time: Duration) -> u64 {
    let whole = (time.as_nanos() * u128::from(rate.get())).div_ceil(NS_PER_SECOND);
    u64::try_from(whole).unwrap_or(u64::MAX)
}

/// When the one with that number is due, after the start.
fn due_at(rate: NonZeroU32, number: u64) -> Duration {
    let ns = u128::from(number) * NS_PER_SECOND / u128::from(rate.get());
    Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_as_many_as_were_asked_for() {
        for rate in [1, 3, 1_000, 999_983] {
            let rate = NonZeroU32::new(rate).unwrap();
            assert_eq!(due_by(rate, Duration::from_secs(1)), u64::from(rate.get()));
            assert_eq!(due_by(rate, Duration::from_secs(60)), 60 * u64::from(rate.get()));
            assert_eq!(due_at(rate, u64::from(rate.get())), Duration::from_secs(1));
            assert_eq!((due_by(rate, Duration::ZERO), due_at(rate, 0)), (0, Duration::ZERO));
            for number in 1..5 {
                let at = due_at(rate, number);
                assert!(due_by(rate, at) <= number, "not before it is due");
                assert_eq!(due_by(rate, at + Duration::from_nanos(1)), number + 1);
            }
        }
    }

    #[tokio::test]
    async fn every_request_is_handed_out_once_and_then_all_are_sent_home() {
        let rate = Rate::PerSecond(NonZeroU32::new(10_000).unwrap());
        let (warm_up, time) = (Duration::from_millis(5), Duration::from_millis(20));
        let schedule = Arc::new(Schedule::new(rate, warm_up, time));
        let clock = schedule.keep(3).unwrap();
        let mut senders = tokio::task::JoinSet::new();
        for _ in 0..3 {
            let schedule = Arc::clone(&schedule);
            senders.spawn(async move {
                let mut seen = vec![];
                while let Some(ticket) = schedule.next().await {
                    assert!(Instant::now() >= ticket.due, "too early");
                    seen.push((ticket.number, ticket.counts));
                }
                seen
            });
        }
        let mut all: Vec<_> = senders.join_all().await.concat();
        all.sort_unstable();
        let expected: Vec<_> = (0..250).map(|number| (number, number >= 50)).collect();
        assert_eq!(all, expected);
        clock.join().unwrap();
    }

    #[tokio::test]
    async fn what_is_due_when_it_is_stopped_is_not_sent() {
        let rate = Rate::PerSecond(NonZeroU32::new(1_000_000).unwrap());
        let schedule = Schedule::new(rate, Duration::ZERO, Duration::from_secs(1));
        schedule.due.add_permits(5);
        assert!(schedule.next().await.is_some_and(|ticket| !ticket.awaited));
        schedule.stop();
        assert!(schedule.next().await.is_none());
    }
}
