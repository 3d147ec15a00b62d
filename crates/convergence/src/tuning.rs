//! The constants of convergence, each with its reason. Tests and the simulator vary them; a
//! configuration cannot, so that the processes of a region do not drift apart.

use tidegate_limiter::Freshness;

/// How a process speaks with its region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// When a view is fresh, and which cost a new cell must not admit unasked.
    pub freshness: Freshness,
    /// How long a caller waits for the region at most: what Envoy gives a rate limit service.
    pub deadline_ms: u64,
    /// How long a region that did not answer is not asked again about a subject.
    pub retry_ms: u64,
    /// A subject is replayed at once when what it has not sent is one part in this many of its
    /// limit...
    pub replay_part: u64,
    /// ...or one part in this many of the room that is left, for each process that uses it. Both
    /// by simulation: with them bursts overshoot no more than with one increment per request.
    pub replay_room_part: u64,
    /// The least a subject waits that has less to tell...
    pub replay_min_ms: u64,
    /// ...and the most: the others then know within the time a view is fresh.
    pub replay_max_ms: u64,
    /// How long a replay may take. Nobody waits for it.
    pub replay_timeout_ms: u64,
    /// Most subjects in one call: a millisecond of a Redis.
    pub call_records_max: usize,
    /// Most reads under way to a shard; what is asked beyond them goes together.
    pub refreshes_in_flight_max: usize,
    /// Most replays under way to a shard; what is due beyond them waits and grows together. Few,
    /// because reads that callers wait for stand in line behind them.
    pub replays_in_flight_max: usize,
    /// How often each shard is asked whether it still is what it was.
    pub token_ms: u64,
    /// The time over which everything is sent again after a shard lost its data.
    pub resend_ms: u64,
    /// When a store is left alone.
    pub breaker: BreakerTuning,
}

/// When a store is left alone, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerTuning {
    /// Calls are judged by this much time.
    pub period_ms: u64,
    /// Fewer calls than this say nothing.
    pub calls_min: u32,
    /// How long it stays open: short, because a probe costs little and callers are served
    /// meanwhile.
    pub open_ms: u64,
    /// Calls that are let through to see whether the store is back.
    pub probes: u32,
}

impl Default for BreakerTuning {
    fn default() -> Self {
        Self { period_ms: 5_000, calls_min: 20, open_ms: 1_000, probes: 3 }
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            freshness: Freshness::default(),
            deadline_ms: 20,
            retry_ms: 300,
            replay_part: 64,
            replay_room_part: 8,
            replay_min_ms: 250,
            replay_max_ms: 2_000,
            replay_timeout_ms: 2_000,
            call_records_max: 128,
            refreshes_in_flight_max: 4,
            replays_in_flight_max: 2,
            token_ms: 1_000,
            resend_ms: 1_000,
            breaker: BreakerTuning::default(),
        }
    }
}
