//! How connections end that were not asked to come, or that stayed too long, in numbers.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of all connections.
#[derive(Debug, Default)]
pub(super) struct Tally {
    over_address: AtomicU64,
    evicted: AtomicU64,
    accept_failures: AtomicU64,
    handshakes_failed: AtomicU64,
    handshakes_late: AtomicU64,
    heads_late: AtomicU64,
    requests_late: AtomicU64,
    idle: AtomicU64,
}

/// What happened to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// Its address had as many as it may have.
    OverAddress,
    /// It made room for another.
    Evicted,
    /// It could not be taken in: too many open files, as a rule.
    NotAccepted,
    /// Client and server found no way to speak TLS.
    HandshakeFailed,
    /// The handshake took too long.
    HandshakeLate,
    /// A head took too long, or the first byte did.
    HeadLate,
    /// A request was in flight for too long.
    RequestLate,
    /// Nothing was asked for too long.
    Idle,
}

/// The counts, as they are seen at a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TallySeen {
    pub(crate) over_address: u64,
    pub(crate) evicted: u64,
    pub(crate) accept_failures: u64,
    pub(crate) handshakes_failed: u64,
    pub(crate) handshakes_late: u64,
    pub(crate) heads_late: u64,
    pub(crate) requests_late: u64,
    pub(crate) idle: u64,
}

impl Tally {
    pub(super) fn note(&self, fate: Fate) {
        let count = match fate {
            Fate::OverAddress => &self.over_address,
            Fate::Evicted => &self.evicted,
            Fate::NotAccepted => &self.accept_failures,
            Fate::HandshakeFailed => &self.handshakes_failed,
            Fate::HandshakeLate => &self.handshakes_late,
            Fate::HeadLate => &self.heads_late,
            Fate::RequestLate => &self.requests_late,
            Fate::Idle => &self.idle,
        };
        // ORDER: relaxed, here and where they are read. Counts that nothing else follows from.
        count.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn seen(&self) -> TallySeen {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        TallySeen {
            over_address: load(&self.over_address),
            evicted: load(&self.evicted),
            accept_failures: load(&self.accept_failures),
            handshakes_failed: load(&self.handshakes_failed),
            handshakes_late: load(&self.handshakes_late),
            heads_late: load(&self.heads_late),
            requests_late: load(&self.requests_late),
            idle: load(&self.idle),
        }
    }
}
