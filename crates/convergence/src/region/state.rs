//! What is remembered of shards, subjects, calls and callers.

use std::collections::VecDeque;

use tidegate_limiter::{CellTicket, Ticket};

use super::ask::Together;
use super::loss::Resend;
use super::{CallId, Outcome, Waiter};
use crate::breaker::Breaker;
use crate::store::{Shard, Token};
use crate::tuning::Tuning;

/// What is known of a shard of the store.
#[derive(Debug)]
pub(super) struct ShardState {
    pub(super) token: Option<Token>,
    pub(super) server: Option<u64>,
    /// Raised by every loss: answers to calls of an earlier one prove nothing.
    pub(super) generation: u64,
    pub(super) refresh: Breaker,
    pub(super) replay: Breaker,
    pub(super) refreshes_in_flight: usize,
    /// Subjects that callers wait for, and that go with the next read.
    pub(super) asked: VecDeque<Ticket>,
    pub(super) asks_in_flight: usize,
    /// Subjects whose lines may move.
    pub(super) free: VecDeque<Ticket>,
    pub(super) replays_in_flight: usize,
    /// Subjects that are due and go with the next replays.
    pub(super) ready: VecDeque<Ticket>,
    /// When the last replay was sent: what follows within milliseconds goes together.
    pub(super) replayed_ms: Option<u64>,
    pub(super) next_token_ms: u64,
    /// Something was ever sent there.
    pub(super) used: bool,
    /// Nobody asks it to prove that it still has what it acknowledged, or it has proved it.
    pub(super) trusted: bool,
    /// How many components the cells have that are answered for: sixteen times the mean.
    pub(super) components: u64,
    /// How many processes are present, if that was heard.
    pub(super) present: Option<u32>,
    pub(super) resend: Option<Resend>,
    /// The last read or ask was not answered, or too late for who was denied for it.
    pub(super) doubtful: bool,
    /// How long the last read or ask took that was answered.
    pub(super) took_ms: u64,
}

/// A subject with something to tell, or of which something is asked.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// The current cell when it was last sent, and how much.
    pub(super) sent: Option<(CellTicket, u64)>,
    /// The same of the cell before.
    pub(super) sent_previous: Option<(CellTicket, u64)>,
    pub(super) due_ms: Option<u64>,
    /// Since when something of it is not recorded: see [`Unrecorded`](super::Unrecorded).
    pub(super) unrecorded_ms: Option<u64>,
    /// It is among those that go with the next replay.
    pub(super) ready: bool,
    /// How many components its cells have, as far as is known.
    pub(super) components: u32,
    /// Calls under way that carry it.
    pub(super) flights: u32,
    /// It is among those that go with the next read.
    pub(super) asked: bool,
    /// The read under way.
    pub(super) refresh: Option<CallId>,
    /// The ask under way. Nothing else is sent meanwhile, or it would be out of date.
    pub(super) ask: Option<CallId>,
    /// Callers that have claimed something of it, and whose wait has not ended.
    pub(super) askers: u32,
    /// Callers that hold something of it until something else is granted.
    pub(super) holders: u32,
    /// Those who have claimed something and stand in line, in the order in which they came; some
    /// have left.
    pub(super) line: VecDeque<Waiter>,
    /// It is among those whose lines may move.
    pub(super) free: bool,
    /// Who waits for it.
    pub(super) waiters: Vec<Waiter>,
    /// Who came too late for it.
    pub(super) later: Vec<Waiter>,
    /// A loss was noticed, and it has not been sent since.
    pub(super) resend: bool,
    /// A loss was noticed, and nothing has been acknowledged since.
    pub(super) lost: bool,
}

/// A call under way.
#[derive(Debug)]
pub(super) struct Flight {
    pub(super) shard: Shard,
    pub(super) generation: u64,
    pub(super) kind: Kind,
    pub(super) sent_ms: u64,
    /// It was sent after the end was announced.
    pub(super) draining: bool,
    /// Someone did not wait for the answer, and was denied.
    pub(super) late: bool,
    pub(super) items: Vec<Item>,
    /// Who asks for what, one for each unit.
    pub(super) together: Vec<Together>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Ask,
    Refresh,
    Replay,
    Token,
}

/// A subject in a call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) subject: Ticket,
    pub(super) current: CellTicket,
    pub(super) previous: CellTicket,
    /// What the store had acknowledged when the call was made.
    pub(super) acked: u64,
    pub(super) total: u64,
    /// It is sent again after a loss.
    pub(super) resend: bool,
}

/// A caller that waits.
#[derive(Debug)]
pub(super) struct Wait {
    /// Reads that have not ended.
    pub(super) left: usize,
    pub(super) outcome: Outcome,
}

impl ShardState {
    /// How much time a caller that is to be denied must have left to ask: half of the deadline, and
    /// a quarter more than it took last. Less, and it is likely to be charged and denied. Who has
    /// just come may always ask, or nobody would find out that it takes less by now.
    pub(super) fn ask_within_ms(&self, deadline_ms: u64) -> u64 {
        let usual_ms = self.took_ms.saturating_add(self.took_ms / 4);
        usual_ms.max(deadline_ms / 2).min(deadline_ms.saturating_sub(1))
    }

    pub(super) fn new(tuning: &Tuning) -> Self {
        Self {
            token: None,
            server: None,
            generation: 0,
            refresh: Breaker::new(tuning.breaker),
            replay: Breaker::new(tuning.breaker),
            refreshes_in_flight: 0,
            asked: VecDeque::new(),
            asks_in_flight: 0,
            free: VecDeque::new(),
            replays_in_flight: 0,
            ready: VecDeque::new(),
            replayed_ms: None,
            next_token_ms: 0,
            used: false,
            trusted: true,
            components: 16,
            present: None,
            resend: None,
            doubtful: false,
            took_ms: 0,
        }
    }
}
