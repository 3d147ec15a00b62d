//! What the process was told to run with.

use super::super::{Family, counter, gauge};
use crate::config::ConfigSeen;

pub(super) fn all(seen: &ConfigSeen) -> Vec<Family> {
    vec![
        gauge(
            "tidegate_config_reload_success",
            "Whether the configuration was taken when it was last read, 1 or 0.",
        )
        .is(u64::from(!seen.reload_failed)),
        counter(
            "tidegate_config_reloads_total",
            "Times that the configuration was read again, by what came of it.",
        )
        .at(&[("result", "success")], seen.reloads_succeeded)
        .at(&[("result", "failure")], seen.reloads_failed),
        gauge(
            "tidegate_config_last_reload_seconds",
            "When a configuration was last taken, at the start or later, in seconds since 1970.",
        )
        .millis(seen.last_reload_unix_ms),
        gauge(
            "tidegate_config_pending_restart",
            "Values of the configuration that wait for a restart.",
        )
        .is(seen.pending_restart),
        gauge(
            "tidegate_tls_certificate_expires_seconds",
            "When the certificate that is shown ends, in seconds since 1970; 0 without TLS.",
        )
        .is(seen.certificate_expires_unix_s),
    ]
}
