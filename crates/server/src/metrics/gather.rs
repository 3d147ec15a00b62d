//! Every metric, with its meaning.

mod config;
mod globe;
mod house;
mod region;
mod stores;

use tidegate::Counts;

use super::{Family, Seen, WorkspaceSeen, counter};

/// All metrics, in the order of `docs/metrics.md`.
pub(super) fn all(seen: &Seen) -> Vec<Family> {
    let mut all = decisions(&seen.counts);
    all.extend(seen.workspaces.iter().map(|all| workspaces(all)));
    all.extend(table(&seen.counts));
    all.extend(house::all(seen));
    all.extend(config::all(&seen.config));
    all.extend(seen.region.iter().flat_map(region::all));
    all.extend(seen.globe.iter().flat_map(globe::all));
    all.extend(stores::all(seen));
    all
}

/// What was said to callers.
fn decisions(counts: &Counts) -> Vec<Family> {
    vec![
        counter(
            "tidegate_decisions_total",
            "Requests decided; each item of a batch that was admitted or that did not fit counts. \
             Source region has only what it granted; what it did not grant is decided again, \
             local.",
        )
        .like("decisions_total")
        .at(
            &[("verdict", "admitted"), ("source", "local"), ("reason", "none")],
            counts.admitted_local,
        )
        .at(
            &[("verdict", "admitted"), ("source", "region"), ("reason", "none")],
            counts.admitted_granted,
        )
        .at(&[("verdict", "denied"), ("source", "local"), ("reason", "limit")], counts.denied_local)
        .at(
            &[("verdict", "denied"), ("source", "local"), ("reason", "reserved")],
            counts.denied_reserved,
        )
        .at(
            &[("verdict", "denied"), ("source", "local"), ("reason", "memory")],
            counts.denied_memory,
        )
        .at(
            &[("verdict", "denied"), ("source", "local"), ("reason", "outage")],
            counts.denied_outage,
        ),
        counter("tidegate_batches_total", "Batches decided.")
            .at(&[("verdict", "admitted")], counts.batches_admitted)
            .at(&[("verdict", "denied")], counts.batches_denied),
        counter(
            "tidegate_batch_items_undone_total",
            "Items that fitted in a batch that was denied because of another item.",
        )
        .is(counts.batch_items_undone),
        counter(
            "tidegate_reservations_denied_total",
            "Reservations of batches that did not fit although the first look had room for them.",
        )
        .is(counts.reservations_denied),
        counter(
            "tidegate_strict_armed_total",
            "Denials that armed strict mode; those that only extended it do not count.",
        )
        .like("strict_mode_activations_total")
        .is(counts.strict_armed),
    ]
}

/// What was said to the callers of single workspaces.
fn workspaces(all: &[WorkspaceSeen]) -> Family {
    let family = counter(
        "tidegate_workspace_decisions_total",
        "Items decided, by workspace, as its callers were told; only with --metrics-workspaces.",
    )
    .like("decisions_total");
    all.iter().fold(family, |family, seen| {
        family.of(&seen.id, &[("verdict", "admitted")], seen.admitted).of(
            &seen.id,
            &[("verdict", "denied")],
            seen.denied,
        )
    })
}

/// What happened in memory.
fn table(counts: &Counts) -> Vec<Family> {
    vec![
        counter(
            "tidegate_races_lost_total",
            "Compare-and-swaps lost to another thread; each was tried again.",
        )
        .is(counts.races_lost),
        counter(
            "tidegate_ledgers_moved_total",
            "Ledgers that were retired or used again while a decision was looking at them.",
        )
        .is(counts.ledgers_moved),
        counter(
            "tidegate_cells_begun_total",
            "Cells to which something was admitted for the first time.",
        )
        .like("windows_created_total")
        .is(counts.cells_begun),
        counter("tidegate_subjects_created_total", "Subjects taken into memory.")
            .is(counts.subjects_created),
        counter(
            "tidegate_subjects_dropped_total",
            "Subjects dropped from memory: their cells had expired, or others needed the room.",
        )
        .like("windows_evicted_total")
        .at(&[("reason", "expired")], counts.subjects_expired)
        .at(&[("reason", "evicted")], counts.subjects_evicted),
    ]
}
