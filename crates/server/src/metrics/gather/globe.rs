//! The conversation with other regions.

use tidegate::GlobeCounts;

use super::super::{Family, counter, gauge};

pub(super) fn all(counts: &GlobeCounts) -> Vec<Family> {
    let parts = [posts, publishing, importing, feed, standing, times];
    parts.into_iter().flat_map(|part| part(counts)).collect()
}

/// What processes hand to the one that publishes.
fn posts(counts: &GlobeCounts) -> Vec<Family> {
    vec![
        counter("tidegate_globe_posted_total", "Cells that this process found worth publishing.")
            .is(counts.posted),
        counter(
            "tidegate_globe_reposted_total",
            "Posts that had to be repeated: nobody had published them in time.",
        )
        .is(counts.reposted),
        counter(
            "tidegate_globe_taken_total",
            "Posts that this process took as the leader of its region.",
        )
        .is(counts.taken),
        counter(
            "tidegate_globe_skipped_total",
            "Posts that were taken and of which there was nothing new to say.",
        )
        .is(counts.skipped),
        counter("tidegate_globe_board_errors_total", "Calls to the board that failed.")
            .is(counts.board_errors),
    ]
}

/// What is written.
fn publishing(counts: &GlobeCounts) -> Vec<Family> {
    vec![
        counter("tidegate_globe_published_total", "Totals published.")
            .like("global_push_total; writes_total")
            .is(counts.published),
        counter("tidegate_globe_published_rows_total", "Rows written for totals.")
            .is(counts.published_rows),
        counter("tidegate_globe_published_bytes_total", "Bytes of the rows written.")
            .is(counts.published_bytes),
        counter(
            "tidegate_globe_repeated_total",
            "Totals repeated, so that older rows could be deleted.",
        )
        .is(counts.repeated),
        counter(
            "tidegate_globe_trimmed_rows_total",
            "Rows deleted because their totals were repeated.",
        )
        .is(counts.trimmed_rows),
        counter(
            "tidegate_globe_publish_errors_total",
            "Calls to publish, repeat or delete that failed.",
        )
        .like("global_push_errors_total; write_errors_total")
        .is(counts.publish_errors),
        counter(
            "tidegate_globe_refused_total",
            "Totals that the global store refused; they hold up no others.",
        )
        .is(counts.refused),
    ]
}

/// What is read.
fn importing(counts: &GlobeCounts) -> Vec<Family> {
    vec![
        counter("tidegate_globe_imports_total", "Imports made.").is(counts.imports),
        counter("tidegate_globe_import_errors_total", "Imports that failed.")
            .like("global_pull_errors_total; sync_errors_total")
            .is(counts.import_errors),
        counter("tidegate_globe_imported_rows_total", "Rows read.")
            .like("global_pull_rows_last_poll; rows_last_poll")
            .is(counts.imported_rows),
        counter("tidegate_globe_imported_bytes_total", "Bytes of the rows read.")
            .is(counts.imported_bytes),
        counter("tidegate_globe_imported_total", "Totals read.").is(counts.imported),
        counter("tidegate_globe_applied_total", "Totals read that were news.")
            .like("global_pull_rows_applied_total; sync_rows_applied_total")
            .is(counts.applied),
        counter(
            "tidegate_globe_cells_created_total",
            "Cells first heard of from another region, that this process did not serve.",
        )
        .like("global_entries_created_total; entries_created_total")
        .is(counts.cells_created),
        counter(
            "tidegate_globe_values_dropped_total",
            "Totals that were dropped because there were too many.",
        )
        .is(counts.values_dropped),
    ]
}

/// What went wrong with the feed.
fn feed(counts: &GlobeCounts) -> Vec<Family> {
    vec![
        counter("tidegate_globe_rows_unreadable_total", "Rows that could not be read.")
            .is(counts.rows_unreadable),
        counter(
            "tidegate_globe_late_rows_total",
            "Rows that came late and were found all the same.",
        )
        .is(counts.late_rows),
        counter(
            "tidegate_globe_gaps_given_up_total",
            "Rows that never came; most of them were never written.",
        )
        .is(counts.gaps_given_up),
        counter(
            "tidegate_globe_discarded_total",
            "Imports that were not used: the feed has to be read from its beginning.",
        )
        .is(counts.discarded),
        counter(
            "tidegate_globe_feed_losses_total",
            "Times the feed had lost rows that had been read.",
        )
        .is(counts.feed_losses),
        counter(
            "tidegate_globe_name_clashes_total",
            "Times another region was found to use the name of this one.",
        )
        .is(counts.name_clashes),
    ]
}

/// How things stand.
fn standing(counts: &GlobeCounts) -> Vec<Family> {
    vec![
        gauge("tidegate_globe_values", "Cells of which something is known from a global store.")
            .is(counts.values),
        gauge("tidegate_globe_pending", "Posts that have not come back in an import yet.")
            .is(counts.pending),
        gauge("tidegate_globe_unpublished", "Totals that are to be published and are not yet.")
            .is(counts.unpublished),
        gauge("tidegate_globe_gaps", "Rows that are missing although later ones are there.")
            .is(counts.gaps),
        gauge("tidegate_globe_leads", "Whether this process leads its region, 1 or 0.")
            .is(counts.leads),
        gauge("tidegate_globe_registered", "Whether the region has its name, 1 or 0.")
            .is(counts.registered),
        gauge("tidegate_globe_regions", "Regions that ever had a name.").is(counts.regions),
        gauge(
            "tidegate_globe_breakers_open",
            "Breakers that are not closed, of both kinds of work.",
        )
        .is(counts.breakers_open),
    ]
}

/// How old things are.
fn times(counts: &GlobeCounts) -> Vec<Family> {
    vec![
        gauge(
            "tidegate_globe_age_seconds",
            "How long ago everything was read that had been published by then.",
        )
        .millis(counts.age_ms),
        gauge(
            "tidegate_globe_lag_seconds",
            "How long before it was read the newest row had been written, by the clocks of both.",
        )
        .millis(counts.lag_ms),
        gauge(
            "tidegate_globe_round_trip_seconds",
            "How long the last total of this region that came back in an import had been on its \
             way, from when it was found worth publishing.",
        )
        .millis(counts.round_trip_ms),
    ]
}
