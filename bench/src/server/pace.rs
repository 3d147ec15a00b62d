//! When the requests of an open loop are due. The timer of the runtime is a millisecond coarse,
//! which is more than most servers take for a reply; that of the kernel is not.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::Semaphore;

use crate::Failure;
use crate::region::time;

const ZERO: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A timer of the kernel.
struct Alarm(AsyncFd<OwnedFd>);

impl Alarm {
    #[expect(deprecated, reason = "it wants what an owned descriptor is, and its heir is unsafe")]
    fn new() -> Result<Self, Failure> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        Ok(Self(AsyncFd::new(timerfd_create(TimerfdClockId::Monotonic, flags)?)?))
    }

    /// Waits until it is so late.
    async fn until(&self, due: Instant) -> Result<(), Failure> {
        loop {
            let early = due.saturating_duration_since(time::now());
            if early.is_zero() {
                return Ok(());
            }
            let tv_sec = i64::try_from(early.as_secs())?;
            let value = Timespec { tv_sec, tv_nsec: early.subsec_nanos().into() };
            let when = Itimerspec { it_interval: ZERO, it_value: value };
            // Setting it takes back that it has gone off: it need not be read.
            timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &when)?;
            self.0.readable().await?.clear_ready();
        }
    }
}

/// Requests that are due, for whichever connection is free: as callers have it who share a pool.
#[derive(Debug)]
pub(super) struct Dues {
    /// Since when; `None` says that there are no more.
    line: Mutex<VecDeque<Option<Instant>>>,
    waiting: Semaphore,
}

impl Dues {
    pub(super) const fn new() -> Self {
        Self { line: Mutex::new(VecDeque::new()), waiting: Semaphore::const_new(0) }
    }

    /// Since when the next request is due, when it is; `None` at the end.
    pub(super) async fn next(&self) -> Option<Instant> {
        self.waiting.acquire().await.ok()?.forget();
        self.line.lock().unwrap_or_else(PoisonError::into_inner).pop_front().flatten()
    }

    fn add(&self, due: Option<Instant>) {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).push_back(due);
        self.waiting.add_permits(1);
    }

    /// Says that a request is due, so many in a second, and when it was; and to so many connections
    /// that it was the last. One that is said late, because this thread had no core, is said all
    /// the same, and when it was due.
    pub(super) async fn keep(
        &self,
        (start, lasting): (Instant, Duration),
        rate: f64,
        connections: usize,
    ) -> Result<(), Failure> {
        let alarm = Alarm::new()?;
        for number in 0_u32.. {
            let after = Duration::from_secs_f64(f64::from(number) / rate.max(1.0));
            if after >= lasting {
                break;
            }
            alarm.until(start + after).await?;
            self.add(Some(start + after));
        }
        (0..connections).for_each(|_| self.add(None));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_that_is_due_is_said_once_in_order_and_then_the_end_to_everybody() {
        let (dues, start) = (Dues::new(), time::now());
        dues.keep((start, Duration::from_millis(5)), 1_000.0, 2).await.unwrap();
        let mut said = Vec::new();
        while let Some(due) = dues.next().await {
            said.push(due.duration_since(start).as_millis());
        }
        assert_eq!(said, [0, 1, 2, 3, 4]);
        assert_eq!(dues.next().await, None, "the other connection hears of it, too");
    }
}
