//! What became of all requests, in numbers that do not grow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use super::histogram::Histogram;
use super::line::{ErrorKind, Outcome};
use super::schedule::Ticket;

/// From here on a request counts as sent late: well above what a thread takes to wake up.
const LATE: Duration = Duration::from_millis(1);

/// What became of those after the warm-up.
#[derive(Debug)]
pub(super) struct Tally {
    pub(super) sent: AtomicU64,
    pub(super) admitted: AtomicU64,
    pub(super) denied: AtomicU64,
    pub(super) degraded: AtomicU64,
    errors: [AtomicU64; ErrorKind::ALL.len()],
    /// Verdicts that came within `bound`, if there is one.
    pub(super) in_time: AtomicU64,
    bound: Option<Duration>,
    /// From when it was due to the end of the reply.
    pub(super) latency: Histogram,
    /// How late those were sent that a sender was waiting for: our own fault.
    pub(super) lateness: Histogram,
    pub(super) fell_behind: AtomicU64,
    /// Sent late because no connection was free.
    pub(super) queued: AtomicU64,
}

impl Tally {
    /// With the time that `in_time` is about.
    pub(super) fn new(bound: Option<Duration>) -> Self {
        Self {
            sent: AtomicU64::new(0),
            admitted: AtomicU64::new(0),
            denied: AtomicU64::new(0),
            degraded: AtomicU64::new(0),
            errors: Default::default(),
            in_time: AtomicU64::new(0),
            bound,
            latency: Histogram::new(),
            lateness: Histogram::new(),
            fell_behind: AtomicU64::new(0),
            queued: AtomicU64::new(0),
        }
    }

    /// A request is about to be sent.
    pub(super) fn begin(&self, ticket: &Ticket) {
        if !ticket.counts {
            return;
        }
        add(&self.sent);
        let late = Instant::now().saturating_duration_since(ticket.due);
        match (ticket.awaited, late > LATE) {
            (true, is_late) => {
                self.lateness.record(nanos(late));
                if is_late {
                    add(&self.fell_behind);
                }
            }
            (false, true) => add(&self.queued),
            (false, false) => {}
        }
    }

    /// It is answered, or will not be.
    pub(super) fn end(&self, ticket: &Ticket, outcome: Outcome) {
        if !ticket.counts {
            return;
        }
        let took = nanos(Instant::now().saturating_duration_since(ticket.due));
        match outcome {
            Outcome::Verdict { admitted, degraded } => {
                add(if admitted { &self.admitted } else { &self.denied });
                if degraded {
                    add(&self.degraded);
                }
                if self.bound.is_some_and(|bound| took <= nanos(bound)) {
                    add(&self.in_time);
                }
                self.latency.record(took);
            }
            Outcome::Error(kind) => {
                self.errors.iter().zip(ErrorKind::ALL).filter(|(_, it)| *it == kind).for_each(
                    |(count, _)| {
                        add(count);
                    },
                );
                if kind.took_time() {
                    self.latency.record(took);
                }
            }
        }
    }

    /// How many of that kind.
    pub(super) fn errors(&self, kind: ErrorKind) -> u64 {
        let of_kind = self.errors.iter().zip(ErrorKind::ALL).filter(|(_, it)| *it == kind);
        of_kind.map(|(count, _)| get(count)).sum()
    }

    /// How many got a verdict.
    pub(super) fn answered(&self) -> u64 {
        get(&self.admitted).saturating_add(get(&self.denied))
    }

    /// How many got none so far, or never will.
    pub(super) fn in_flight(&self) -> u64 {
        let errors: u64 = self.errors.iter().map(get).sum();
        get(&self.sent).saturating_sub(self.answered()).saturating_sub(errors)
    }
}

// ORDER: relaxed, in both: numbers that are read when nobody writes any more, or for a line of
// progress.
fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn get(count: &AtomicU64) -> u64 {
    count.load(Ordering::Relaxed)
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
