//! Memory, connections, settings and the process itself.

use super::super::process::BUILD;
use super::super::{Family, Seen, count, counter, gauge};

pub(super) fn all(seen: &Seen) -> Vec<Family> {
    let parts = [memory, connections, settings, idempotency, process];
    parts.into_iter().flat_map(|part| part(seen)).collect()
}

/// What the budget is used for.
fn memory(seen: &Seen) -> Vec<Family> {
    vec![
        gauge("tidegate_subjects", "Subjects in memory.").like("windows").is(seen.subjects),
        gauge("tidegate_subjects_max", "Subjects that the memory budget holds.")
            .is(seen.subjects_max),
        gauge("tidegate_memory_accounted_bytes", "Bytes of the memory budget that are used.")
            .is(seen.accounted_bytes),
        gauge("tidegate_memory_budget_bytes", "The memory budget.").is(seen.budget_bytes),
    ]
}

/// Who is connected.
fn connections(seen: &Seen) -> Vec<Family> {
    vec![
        gauge("tidegate_connections", "Connections that are open.").is(seen.connections),
        gauge("tidegate_connections_max", "Connections that may be open.").is(seen.connections_max),
        gauge(
            "tidegate_connections_per_address_max",
            "Connections that one address may have open.",
        )
        .is(seen.per_address_max),
        gauge("tidegate_retiring", "Whether clients are told to go elsewhere, 1 or 0.")
            .is(u64::from(seen.retiring)),
        counter(
            "tidegate_requests_refused_total",
            "Requests without an answer, because something was wrong with them.",
        )
        .is(seen.refused),
    ]
}

/// What is known of keys, namespaces and overrides.
fn settings(seen: &Seen) -> Vec<Family> {
    vec![
        gauge("tidegate_workspaces", "Workspaces that are known.")
            .is(count(seen.settings.workspaces)),
        gauge("tidegate_keys", "Keys that are known.").is(count(seen.settings.keys)),
        gauge("tidegate_namespaces", "Namespaces that are known.")
            .is(count(seen.settings.namespaces)),
        gauge("tidegate_overrides", "Overrides that are known.").is(count(seen.settings.overrides)),
        gauge(
            "tidegate_settings_revision",
            "The last revision of the settings of which everything is known.",
        )
        .is(seen.settings.revision),
        gauge("tidegate_settings_read", "Whether the settings were read since the start, 1 or 0.")
            .is(u64::from(seen.settings.age_ms.is_some())),
        gauge(
            "tidegate_settings_age_seconds",
            "How long ago it was last read whether settings changed; 0 if it never was.",
        )
        .millis(seen.settings.age_ms.unwrap_or_default()),
    ]
}

/// Calls that may be sent again.
fn idempotency(seen: &Seen) -> Vec<Family> {
    vec![
        gauge(
            "tidegate_idempotency_calls",
            "Calls remembered by their idempotency key, those under way included.",
        )
        .is(count(seen.idempotency.calls)),
        gauge("tidegate_idempotency_bytes", "Memory that remembered calls are held to take.")
            .is(count(seen.idempotency.bytes)),
        counter(
            "tidegate_idempotency_pushed_out_total",
            "Replies forgotten before their time, for want of memory.",
        )
        .is(seen.idempotency.pushed_out),
        counter(
            "tidegate_idempotency_answers_total",
            "Calls with an idempotency key that was used before, by what they were told.",
        )
        .at(&[("kind", "replayed")], seen.idempotency.replayed)
        .at(&[("kind", "reused")], seen.idempotency.reused)
        .at(&[("kind", "in_progress")], seen.idempotency.in_progress),
        counter(
            "tidegate_idempotency_region_failures_total",
            "Questions about a call that the store of the region did not answer in time.",
        )
        .is(seen.idempotency.region_failures),
    ]
}

/// Which program this is, and since when.
fn process(seen: &Seen) -> Vec<Family> {
    vec![
        gauge("tidegate_build_info", "Always 1; the labels say which program this is.")
            .at(BUILD, 1),
        gauge(
            "tidegate_process_start_time_seconds",
            "When the process began, in seconds since 1970.",
        )
        .millis(seen.started_unix_ms),
        counter(
            "tidegate_task_panics_total",
            "Panics of tasks: mistakes in the program. Loops are begun again.",
        )
        .is(seen.panics),
        counter(
            "tidegate_log_dropped_total",
            "Lines of the log that were lost, because whoever reads it was too slow.",
        )
        .is(seen.log_dropped),
    ]
}
