//! One question to the regional store that records nothing, for those who look from outside.

use std::time::Duration;

use tidegate_convergence::{CellReply, Component, Record, Shard, ShardCall, StoreError, Token};
use tidegate_limiter::{Subject, SubjectView};
use tokio::time::timeout;

use super::{Conversation, draw_incarnation};

/// How long such a question waits: no request waits for it, and whoever asks would rather hear that
/// the store is slow than nothing.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the regional store holds of one cell: see
/// [`Limiter::ask_region`](crate::Limiter::ask_region).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionCell {
    /// Which window it is.
    pub sequence: u64,
    /// What all processes of the region have recorded.
    pub sum: u64,
    /// What of it is this process's.
    pub recorded: u64,
    /// How many processes have recorded something.
    pub components: u32,
}

/// What the regional store holds of a subject: see
/// [`Limiter::ask_region`](crate::Limiter::ask_region).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegionView {
    /// The current cell.
    pub current: RegionCell,
    /// The one before it.
    pub previous: RegionCell,
}

impl RegionCell {
    const fn of(sequence: u64, reply: &CellReply) -> Self {
        let CellReply { sum, recorded, components, .. } = *reply;
        Self { sequence, sum, recorded, components }
    }
}

impl Conversation {
    /// Asks the regional store what it holds of a subject. Totals of 0 record nothing.
    pub(crate) async fn ask_store(
        &self,
        subject: &Subject<'_>,
        seen: &SubjectView,
    ) -> Result<RegionView, StoreError> {
        let store = &self.shared.store;
        let (sequence, digest) = (seen.current.sequence, seen.digest);
        let cell = self.shared.table.cell(subject, sequence);
        let incarnation = self.shared.lock().region.incarnation();
        let record = Record {
            subject: digest,
            window_ms: seen.window_ms,
            sequence,
            component: Component { incarnation, life: cell.map_or(0, |cell| cell.life()) },
            total: 0,
            previous_total: 0,
        };
        // A shard that lost its token takes this one. It must not be one that the conversation
        // takes for what it knows.
        let unheard = |_| StoreError::Unreachable("the system has no randomness".to_owned());
        let proposal = Token(draw_incarnation().map_err(unheard)?);
        let shard = Shard::of(digest, store.shards());
        let call = ShardCall::of(shard, proposal, vec![record]);
        let answered = timeout(PATIENCE, store.call(&call)).await;
        let reply = answered.unwrap_or(Err(StoreError::Timeout))?;
        let refused = || StoreError::Refused("nothing was said of the subject".to_owned());
        let reply = reply.replies.first().copied().flatten().ok_or_else(refused)?;
        Ok(RegionView {
            current: RegionCell::of(sequence, &reply.current),
            previous: RegionCell::of(sequence.saturating_sub(1), &reply.previous),
        })
    }
}
