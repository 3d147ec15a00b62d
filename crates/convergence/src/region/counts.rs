//! What a process has said to its region, in numbers.

use tidegate_limiter::Reason;

use crate::breaker::BreakerState;

/// What happened since the start, and how things stand. The [crate](crate) begins with an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionCounts {
    /// Subjects read because nothing was known of them.
    pub refreshed_cold: u64,
    /// Subjects read because what was known was too old.
    pub refreshed_stale: u64,
    /// Subjects read because they had been at their limit.
    pub refreshed_strict: u64,
    /// Subjects read because one cost was large.
    pub refreshed_significant: u64,
    /// Requests that shared a read that was under way.
    pub refreshes_joined: u64,
    /// Reads that were not made, because the breaker was open.
    pub refreshes_refused: u64,
    /// Subjects whose read failed or came too late.
    pub refreshes_failed: u64,
    /// Requests and batches that were asked for.
    pub asked_for: u64,
    /// Asks sent: any number of requests in one round trip.
    pub asks: u64,
    /// Requests and batches that were not granted.
    pub asks_refused: u64,
    /// Requests and batches of which the region did not say in time whether it grants them, or that
    /// it was not asked for; they were admitted, or denied if they wanted that.
    pub asks_unheard: u64,
    /// Units of an ask of which the region knew more than this process.
    pub asks_conflicted: u64,
    /// Units of an ask that was meant for a shard as it was before it lost its data, or before this
    /// process had met it; they were asked for anew.
    pub asks_estranged: u64,
    /// Batches that were not asked for, because their subjects are in several shards.
    pub asks_apart: u64,
    /// Subjects replayed.
    pub replayed: u64,
    /// Subjects whose replay failed; they are replayed again.
    pub replays_failed: u64,
    /// Calls made: any number of subjects in one round trip.
    pub calls: u64,
    /// Calls that failed.
    pub calls_failed: u64,
    /// Shards that lost their data.
    pub losses: u64,
    /// Subjects sent again after a loss.
    pub resent: u64,
    /// Cells that a shard had lost although it was the same.
    pub cells_lost: u64,
    /// Times another process had this one's identity.
    pub identity_clashes: u64,
    /// Subjects with something that the region has not recorded, or on their way there.
    pub dirty: u64,
    /// Subjects that callers wait for and whose read has not been sent yet.
    pub asked: u64,
    /// Cost that the region has not recorded.
    pub unreplayed_cost: u64,
    /// Breakers that are open, of all shards and kinds of work.
    pub breakers_open: u64,
    /// Breakers that are half open.
    pub breakers_half_open: u64,
    /// How old the oldest cost can be, in ms, that the region has not recorded; 0 if there is none.
    pub unrecorded_age_ms: u64,
    /// How the breaker for reads and asks stands; of several shards, the worst.
    pub refresh_breaker: BreakerState,
    /// The same for replays.
    pub replay_breaker: BreakerState,
}

impl RegionCounts {
    pub(super) fn count_reason(&mut self, reason: Reason) {
        *match reason {
            Reason::Stale => &mut self.refreshed_stale,
            Reason::Strict => &mut self.refreshed_strict,
            Reason::Significant => &mut self.refreshed_significant,
            _ => &mut self.refreshed_cold,
        } += 1;
    }

    pub(super) fn count_breaker(&mut self, state: BreakerState) {
        match state {
            BreakerState::Closed => {}
            BreakerState::HalfOpen => self.breakers_half_open += 1,
            BreakerState::Open => self.breakers_open += 1,
        }
    }
}
