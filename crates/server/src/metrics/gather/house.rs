//! Memory, connections, settings and the process itself.

use super::super::process::BUILD;
use super::super::{Family, Seen, Value, count, counter, gauge, histogram};

pub(super) fn all(seen: &Seen) -> Vec<Family> {
    let parts = [memory, connections, ended, requests, settings, idempotency, process];
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
    ]
}

/// How connections ended.
fn ended(seen: &Seen) -> Vec<Family> {
    let tally = &seen.tally;
    vec![
        counter(
            "tidegate_connections_refused_total",
            "Connections closed at once: their address had as many as it may have.",
        )
        .is(tally.over_address),
        counter(
            "tidegate_connections_evicted_total",
            "Connections ended to make room for others, when all places were taken.",
        )
        .is(tally.evicted),
        counter(
            "tidegate_accept_failures_total",
            "Times no connection could be taken in, because of too many open files for example.",
        )
        .is(tally.accept_failures),
        counter(
            "tidegate_connections_timed_out_total",
            "Connections, or requests of HTTP/2, with which the patience ended, by what was waited \
             for. Bodies that came too late are requests refused with the status 408.",
        )
        .at(&[("wait", "handshake")], tally.handshakes_late)
        .at(&[("wait", "head")], tally.heads_late)
        .at(&[("wait", "request")], tally.requests_late)
        .at(&[("wait", "idle")], tally.idle),
        counter(
            "tidegate_tls_handshakes_failed_total",
            "TLS handshakes that failed; those that took too long are not among them.",
        )
        .is(tally.handshakes_failed),
    ]
}

/// What came over them.
fn requests(seen: &Seen) -> Vec<Family> {
    let refused = counter(
        "tidegate_requests_refused_total",
        "Requests without an answer, because something was wrong with them, by status.",
    );
    let took = histogram(
        "tidegate_request_seconds",
        "How long requests took, from the last byte of the head to the reply; the wait for the \
         body is in it, sending the reply is not. Refused requests are among the others, whatever \
         they called.",
    );
    let each = seen.refused.iter().copied();
    let refused = each.fold(refused, |all, (status, count)| all.at(&[("status", status)], count));
    let took = seen.requests.iter().fold(took, |all, (call, spread)| {
        all.with(&[("call", *call)], Value::Spread(spread.clone()))
    });
    vec![refused, took]
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
            "tidegate_log_dropped_total",
            "Lines of the log that were lost, because whoever reads it was too slow.",
        )
        .is(seen.log_dropped),
        counter(
            "tidegate_panics_total",
            "Panics of tasks and threads; each is a mistake in the program.",
        )
        .is(seen.panics),
    ]
}
