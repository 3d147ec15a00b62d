//! The conversation with the region.

use tidegate::RegionCounts;

use super::super::{Family, counter, gauge};

pub(super) fn all(counts: &RegionCounts) -> Vec<Family> {
    let parts = [refreshes, asks, replays, calls, standing];
    parts.into_iter().flat_map(|part| part(counts)).collect()
}

/// Reads that requests wait for.
fn refreshes(counts: &RegionCounts) -> Vec<Family> {
    vec![
        counter(
            "tidegate_region_refreshes_total",
            "Subjects read from the region before an admission, by why.",
        )
        .like("origin_operations_total")
        .at(&[("reason", "cold")], counts.refreshed_cold)
        .at(&[("reason", "stale")], counts.refreshed_stale)
        .at(&[("reason", "strict")], counts.refreshed_strict)
        .at(&[("reason", "significant")], counts.refreshed_significant),
        counter(
            "tidegate_region_refreshes_joined_total",
            "Requests that shared a read that was under way.",
        )
        .is(counts.refreshes_joined),
        counter(
            "tidegate_region_refreshes_failed_total",
            "Subjects not read: the breaker was open, or the read failed or was too late.",
        )
        .like("origin_errors_total")
        .at(&[("reason", "breaker")], counts.refreshes_refused)
        .at(&[("reason", "call")], counts.refreshes_failed),
    ]
}

/// Requests of bounded limits.
fn asks(counts: &RegionCounts) -> Vec<Family> {
    vec![
        counter(
            "tidegate_region_asked_for_total",
            "Requests and batches that the region was asked for.",
        )
        .is(counts.asked_for),
        counter(
            "tidegate_region_asks_total",
            "Asks sent: any number of requests in one round trip.",
        )
        .is(counts.asks),
        counter(
            "tidegate_region_asks_refused_total",
            "Requests and batches that the region did not grant.",
        )
        .is(counts.asks_refused),
        counter(
            "tidegate_region_asks_unheard_total",
            "Requests and batches that the region should have granted and did not say in time; \
             each is admitted or denied, as its namespace chose.",
        )
        .is(counts.asks_unheard),
        counter(
            "tidegate_region_asks_conflicted_total",
            "Units of an ask of which the region knew more than this process.",
        )
        .is(counts.asks_conflicted),
        counter(
            "tidegate_region_asks_estranged_total",
            "Units of an ask meant for a shard as it was before a loss; asked for anew.",
        )
        .is(counts.asks_estranged),
        counter(
            "tidegate_region_asks_apart_total",
            "Batches not asked for, because their subjects are in several shards.",
        )
        .is(counts.asks_apart),
    ]
}

/// What is sent to the region.
fn replays(counts: &RegionCounts) -> Vec<Family> {
    vec![
        counter("tidegate_region_replayed_total", "Subjects replayed.")
            .like("origin_operations_total")
            .is(counts.replayed),
        counter(
            "tidegate_region_replays_failed_total",
            "Subjects whose replay failed; they are replayed again.",
        )
        .like("origin_errors_total")
        .is(counts.replays_failed),
        counter("tidegate_region_resent_total", "Subjects sent again after a loss.")
            .is(counts.resent),
    ]
}

/// Round trips, and what they found out.
fn calls(counts: &RegionCounts) -> Vec<Family> {
    vec![
        counter(
            "tidegate_region_calls_total",
            "Calls made: any number of subjects in one round trip.",
        )
        .is(counts.calls),
        counter("tidegate_region_calls_failed_total", "Calls that failed.").is(counts.calls_failed),
        counter("tidegate_region_losses_total", "Times a shard had lost its data.")
            .is(counts.losses),
        counter(
            "tidegate_region_cells_lost_total",
            "Cells that a shard had lost although it was the same.",
        )
        .is(counts.cells_lost),
        counter(
            "tidegate_region_identity_clashes_total",
            "Times another process had the identity of this one.",
        )
        .is(counts.identity_clashes),
    ]
}

/// How things stand.
fn standing(counts: &RegionCounts) -> Vec<Family> {
    vec![
        gauge(
            "tidegate_region_dirty",
            "Subjects with something that the region has not recorded, or on their way there.",
        )
        .like("unkey_buffer_size_percentage")
        .is(counts.dirty),
        gauge(
            "tidegate_region_waiting",
            "Subjects that callers wait for and whose read has not been sent yet.",
        )
        .is(counts.asked),
        gauge("tidegate_region_unreplayed_cost", "Cost that the region has not recorded.")
            .is(counts.unreplayed_cost),
        gauge(
            "tidegate_region_unrecorded_age_seconds",
            "How old the oldest cost can be that the region has not recorded; 0 if there is none.",
        )
        .millis(counts.unrecorded_age_ms),
        gauge(
            "tidegate_region_breakers",
            "Breakers that are not closed, of all shards and kinds of work.",
        )
        .like("unkey_circuitbreaker_requests_total")
        .at(&[("kind", "open")], counts.breakers_open)
        .at(&[("kind", "half_open")], counts.breakers_half_open),
    ]
}
