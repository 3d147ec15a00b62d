//! Calls to stores, whichever they are, and how their clocks and breakers stand.

use tidegate_convergence::BreakerState;

use super::super::{Family, Label, Operation, Seen, Value, counter, gauge, histogram};

/// Nothing for a process on its own.
pub(super) fn all(seen: &Seen) -> Vec<Family> {
    let mut all = Vec::new();
    if seen.region.is_some() || seen.globe.is_some() {
        all.push(breakers(seen));
    }
    if !seen.stores.is_empty() {
        all.extend(calls(seen));
    }
    if seen.stores.iter().any(|store| store.skew.is_some()) {
        all.extend(clocks(seen));
    }
    all
}

/// Every breaker is in one of three states.
fn breakers(seen: &Seen) -> Family {
    let family = gauge(
        "tidegate_breaker_state",
        "How a breaker stands: 1 for the state it is in, 0 for the others; of several shards, the \
         worst.",
    )
    .like("unkey_circuitbreaker_requests_total");
    let region = seen.region.iter().flat_map(|counts| {
        [("region", "refresh", counts.refresh_breaker), ("region", "replay", counts.replay_breaker)]
    });
    let globe = seen.globe.iter().flat_map(|counts| {
        [("globe", "publish", counts.publish_breaker), ("globe", "import", counts.import_breaker)]
    });
    let states = [
        (BreakerState::Closed, "closed"),
        (BreakerState::HalfOpen, "half_open"),
        (BreakerState::Open, "open"),
    ];
    region.chain(globe).fold(family, |family, (store, work, now)| {
        states.into_iter().fold(family, |family, (state, word)| {
            let labels = [("store", store), ("work", work), ("state", word)];
            family.at(&labels, u64::from(state == now))
        })
    })
}

fn calls(seen: &Seen) -> Vec<Family> {
    let mut took = histogram(
        "tidegate_store_call_seconds",
        "How long calls to stores took, those that failed or were given up included.",
    )
    .like("origin_latency_seconds");
    let mut errors = counter(
        "tidegate_store_call_errors_total",
        "Calls to stores that failed, or that had no answer in time.",
    )
    .like("origin_errors_total");
    for store in &seen.stores {
        for (operation, calls) in &store.calls {
            let labels = [("store", store.name), ("operation", word(*operation))];
            took = took.with(&labels, Value::Spread(calls.took.clone()));
            let of = |reason: &'static str| -> Vec<Label> {
                labels.into_iter().chain([("reason", reason)]).collect()
            };
            errors = errors.at(&of("timeout"), calls.late).at(&of("other"), calls.failed);
        }
    }
    vec![took, errors]
}

const fn word(operation: Operation) -> &'static str {
    match operation {
        Operation::Refresh => "refresh",
        Operation::Ask => "ask",
        Operation::Record => "record",
        Operation::Present => "present",
        Operation::Board => "board",
        Operation::Publish => "publish",
        Operation::Import => "import",
        Operation::Name => "name",
        Operation::Delete => "delete",
    }
}

fn clocks(seen: &Seen) -> Vec<Family> {
    let mut ahead = gauge(
        "tidegate_clock_skew_seconds",
        "How far the clock of this process is ahead of the store's, less than 0 if it is behind; \
         0 until it is measured.",
    );
    let mut error = gauge(
        "tidegate_clock_skew_error_seconds",
        "By how much that may be wrong in either direction: half of the round trip, and 1 ms.",
    );
    let mut measured =
        counter("tidegate_clock_skew_measured_total", "How often that was measured.");
    for store in &seen.stores {
        let Some(skew) = store.skew else { continue };
        let labels = [("store", store.name)];
        let error_us = i64::try_from(skew.error_us).unwrap_or(i64::MAX);
        ahead = ahead.with(&labels, Value::Micros(skew.ahead_us));
        error = error.with(&labels, Value::Micros(error_us));
        measured = measured.at(&labels, skew.measured);
    }
    vec![ahead, error, measured]
}
