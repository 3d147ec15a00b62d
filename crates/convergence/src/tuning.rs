//! The constants of convergence, each with its reason. Tests and the simulator vary them; a
//! configuration cannot, so that the processes of a region do not drift apart.

use tidegate_limiter::Freshness;

/// How a process speaks with its region. The [crate](crate) begins with an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// When a view is fresh, and which cost a new cell must not admit unasked.
    pub freshness: Freshness,
    /// How long a caller waits for the region at most: what Envoy gives a rate limit service.
    pub deadline_ms: u64,
    /// How long a region that did not answer is not asked again about a subject.
    pub retry_ms: u64,
    /// The same after an ask that was not answered: each of them admits more than it should.
    pub ask_retry_ms: u64,
    /// Most asks under way to a shard; what is asked for beyond them goes together.
    pub asks_in_flight_max: usize,
    /// Most costs in one ask, each for any number of callers: half a millisecond of a Redis. One
    /// batch may come on top, of costs as of cells: far from what a store refuses.
    pub ask_wants_max: usize,
    /// A subject is replayed at once when what it has not sent is one part in this many of its
    /// limit, or up to a quarter more until it is in step with its cell...
    pub replay_part: u64,
    /// ...or one part in this many of the room that is left, for each process that uses it. Both
    /// by simulation: with them bursts overshoot no more than with one increment per request.
    pub replay_room_part: u64,
    /// The same as [`replay_part`](Self::replay_part) for a process that is alone in its region,
    /// while half of the limit is left: nobody there is misled by what it keeps to itself. Less
    /// than what it may lend itself of the half, so that it is told before more has to be asked
    /// for.
    pub replay_alone_part: u64,
    /// The least a subject waits that has less to tell...
    pub replay_min_ms: u64,
    /// ...and the most: the others then know within the time a view is fresh.
    pub replay_max_ms: u64,
    /// How long a replay may take. Nobody waits for it.
    pub replay_timeout_ms: u64,
    /// Most subjects in one call: a millisecond of a Redis.
    pub call_records_max: usize,
    /// Subjects in one replay, unless a long line waits: a tenth of a millisecond of a Redis, and
    /// one execution there. Nobody waits for it, but callers that read or ask stand in line behind
    /// it; and where a server shares a core with its Redis, so do all of its requests.
    pub replay_records: usize,
    /// Most reads under way to a shard; what is asked beyond them goes together.
    pub refreshes_in_flight_max: usize,
    /// Replays under way to a shard; what is due beyond them waits and grows together. Few, because
    /// reads that callers wait for stand in line behind them...
    pub replays_in_flight: usize,
    /// ...and at most so many, while as many full calls wait: a process that is asked all it can
    /// answer, or whose store is far away, must not fall behind with what it has to tell.
    pub replays_in_flight_max: usize,
    /// How often each shard is asked whether it still is what it was.
    pub token_ms: u64,
    /// The time over which everything is sent again after a shard lost its data.
    pub resend_ms: u64,
    /// When a store is left alone.
    pub breaker: BreakerTuning,
}

/// When a store is left alone, and for how long. A part of [`Tuning`], with which the
/// [crate](crate) begins its example.
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
            ask_retry_ms: 50,
            asks_in_flight_max: 4,
            ask_wants_max: 512,
            replay_part: 64,
            replay_room_part: 8,
            replay_alone_part: 24,
            replay_min_ms: 250,
            replay_max_ms: 2_000,
            replay_timeout_ms: 2_000,
            call_records_max: 128,
            replay_records: 16,
            refreshes_in_flight_max: 4,
            replays_in_flight: 2,
            replays_in_flight_max: 4,
            token_ms: 1_000,
            resend_ms: 1_000,
            breaker: BreakerTuning::default(),
        }
    }
}

/// When a region has something to say to the others. [`GlobeTuning::rfc`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// What is hidden from the others stays within a budget.
    Budget {
        /// A region that nobody has heard of speaks at one part in this many of the limit, divided
        /// by the number of regions: together they hide that part of a limit at most.
        quiet_part: u64,
        /// Where several regions are, each speaks at one part in this many of the limit...
        limit_part: u64,
        /// ...or of the room that is left, whichever is more, divided by how many they are.
        room_part: u64,
        /// What is due waits for as long as it takes to use one part in this many of the budget.
        wait_part: u64,
    },
    /// The RFC's: every so often, whatever is above one part in so many of its limit and grew.
    Floor {
        /// How often.
        every_ms: u64,
        /// Which part.
        part: u64,
    },
}

/// How a region speaks with the others. [`Globe`](crate::Globe) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobeTuning {
    /// What is worth publishing.
    pub rule: Rule,
    /// Shorter windows stay in their region: news would come too late for them.
    pub window_min_ms: u64,
    /// What is due waits this long at least, for others to go with it...
    pub publish_min_ms: u64,
    /// ...and at most this long...
    pub publish_max_ms: u64,
    /// ...or one part in this many of its window, whichever is less.
    pub publish_window_part: u64,
    /// How often a process reads what others published.
    pub import_ms: u64,
    /// The same while a shared limit may be used up before the next time.
    pub import_min_ms: u64,
    /// How long a call to the global store may take. Nobody waits for it.
    pub timeout_ms: u64,
    /// How soon a call to it that failed is repeated.
    pub retry_ms: u64,
    /// How long a process leads its region after it last said so.
    pub lease_ms: u64,
    /// How often the leader looks at the board...
    pub board_ms: u64,
    /// ...and how often the others see whether there is a leader.
    pub follow_ms: u64,
    /// How long what was posted may take to come back in an import, beyond what it was to wait.
    /// Then it is posted again.
    pub repost_ms: u64,
    /// How long a row may be missing although later ones are there. Longer than any call.
    pub gap_ms: u64,
    /// What a leader has repeated is deleted when it is this old: all others have read it by then.
    /// Who has not read everything for half as long begins anew.
    pub grace_ms: u64,
    /// A leader repeats what is live no more often than this...
    pub repeat_ms: u64,
    /// ...and not before this much...
    pub repeat_counters_min: u64,
    /// ...and so many times as much as is live has been published since: the feed is that much
    /// longer, and repeating is that much less of what is written.
    pub repeat_times: u64,
    /// Most rows of one import.
    pub rows_max: usize,
    /// Most values kept of cells that this process need not serve. More are counted and dropped.
    pub values_max: usize,
    /// When the global store is left alone. Few calls are made, so few have to fail.
    pub breaker: BreakerTuning,
}

impl Default for GlobeTuning {
    /// By simulation on the RFC's fleet: see `docs/adr/0009-a-packed-feed.md`.
    fn default() -> Self {
        Self {
            rule: Rule::Budget { quiet_part: 4, limit_part: 20, room_part: 2, wait_part: 4 },
            window_min_ms: 60_000,
            publish_min_ms: 100,
            publish_max_ms: 5_000,
            publish_window_part: 60,
            import_ms: 1_000,
            import_min_ms: 200,
            timeout_ms: 5_000,
            retry_ms: 500,
            lease_ms: 3_000,
            board_ms: 100,
            follow_ms: 1_000,
            repost_ms: 5_000,
            gap_ms: 30_000,
            grace_ms: 120_000,
            repeat_ms: 30_000,
            repeat_counters_min: 1_000,
            repeat_times: 4,
            rows_max: 256,
            values_max: 4_000_000,
            breaker: BreakerTuning { period_ms: 30_000, calls_min: 4, open_ms: 5_000, probes: 1 },
        }
    }
}

impl GlobeTuning {
    /// The RFC's rule, intervals and time-out, in our code: for comparison.
    ///
    /// ```
    /// use tidegate_convergence::{GlobeTuning, Rule};
    ///
    /// assert_ne!(GlobeTuning::rfc().rule, GlobeTuning::default().rule);
    /// ```
    #[must_use]
    pub fn rfc() -> Self {
        Self {
            rule: Rule::Floor { every_ms: 10_000, part: 2 },
            import_ms: 10_000,
            import_min_ms: 10_000,
            timeout_ms: 10_000,
            repost_ms: 30_000,
            ..Self::default()
        }
    }
}
