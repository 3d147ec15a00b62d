//! What a process has said to the other regions and heard of them, in numbers.

use crate::breaker::BreakerState;

/// What happened since the start, and how things stand. [`Globe`](crate::Globe) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct GlobeCounts {
    /// Cells that this process found worth publishing.
    pub posted: u64,
    /// Posts that had to be repeated: nobody had published them in time.
    pub reposted: u64,
    /// Posts that this process took as the leader of its region.
    pub taken: u64,
    /// Of these, those of which there was nothing new to say.
    pub skipped: u64,
    /// Totals published.
    pub published: u64,
    /// Rows written for them.
    pub published_rows: u64,
    /// Bytes of these.
    pub published_bytes: u64,
    /// Totals repeated, so that older rows could be deleted.
    pub repeated: u64,
    /// Rows deleted because their totals were repeated.
    pub trimmed_rows: u64,
    /// Calls to publish, repeat or delete that failed.
    pub publish_errors: u64,
    /// Totals that the global store refused; they hold up no others.
    pub refused: u64,
    /// Imports made.
    pub imports: u64,
    /// Imports that failed.
    pub import_errors: u64,
    /// Rows read.
    pub imported_rows: u64,
    /// Bytes of these.
    pub imported_bytes: u64,
    /// Totals read.
    pub imported: u64,
    /// Of these, those that were news.
    pub applied: u64,
    /// Cells first heard of from another region, that this process did not serve at that time.
    pub cells_created: u64,
    /// Totals that were dropped because there were too many.
    pub values_dropped: u64,
    /// Rows that could not be read.
    pub rows_unreadable: u64,
    /// Rows that came late and were found all the same.
    pub late_rows: u64,
    /// Rows that never came: most of them were never written.
    pub gaps_given_up: u64,
    /// Imports that were not used: the feed has to be read from its beginning.
    pub discarded: u64,
    /// Times the feed had lost rows that had been read.
    pub feed_losses: u64,
    /// Times another region was found to use the name of this one.
    pub name_clashes: u64,
    /// Calls to the board that failed.
    pub board_errors: u64,
    /// Cells of which something is known from a global store.
    pub values: u64,
    /// Posts that have not come back in an import yet.
    pub pending: u64,
    /// Totals that are to be published and are not yet.
    pub unpublished: u64,
    /// Rows that are missing although later ones are there.
    pub gaps: u64,
    /// Whether this process leads its region: 1, or 0.
    pub leads: u64,
    /// Whether the region has its name: 1, or 0.
    pub registered: u64,
    /// How many regions ever had a name.
    pub regions: u64,
    /// How long ago, in ms, everything was read that had been published by then.
    pub age_ms: u64,
    /// How long before it was read the newest row had been written, in ms, by the clocks of both.
    pub lag_ms: u64,
    /// Breakers that are open, of both kinds of work.
    pub breakers_open: u64,
    /// How long the last total of this region that came back in an import had been on its way, in
    /// ms: from when it was found worth publishing.
    pub round_trip_ms: u64,
    /// How the breaker for publishing stands.
    pub publish_breaker: BreakerState,
    /// The same for imports.
    pub import_breaker: BreakerState,
}

impl GlobeCounts {
    pub(super) fn count_breaker(&mut self, state: BreakerState) {
        self.breakers_open += u64::from(state != BreakerState::Closed);
    }
}
