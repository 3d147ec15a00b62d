//! How the configuration stands, for whoever watches.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// How the configuration stands. One task writes it; each value is a fact of its own.
#[derive(Debug)]
pub(crate) struct Status {
    failed_last: AtomicBool,
    succeeded: AtomicU64,
    failed: AtomicU64,
    last_unix_ms: AtomicU64,
    pending_restart: AtomicU64,
    /// 0 without TLS, or if the certificate does not say it.
    certificate_expires_unix_s: AtomicU64,
}

/// One look at it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ConfigSeen {
    pub(crate) reload_failed: bool,
    pub(crate) reloads_succeeded: u64,
    pub(crate) reloads_failed: u64,
    pub(crate) last_reload_unix_ms: u64,
    pub(crate) pending_restart: u64,
    /// 0 without TLS.
    pub(crate) certificate_expires_unix_s: u64,
}

// ORDER: relaxed, everywhere here. They are figures, and nothing else follows from them.
impl Status {
    /// Of a server that begins.
    pub(crate) const fn new(now_unix_ms: u64, certificate_expires_unix_s: Option<u64>) -> Self {
        let expires = match certificate_expires_unix_s {
            Some(expires) => expires,
            None => 0,
        };
        Self {
            failed_last: AtomicBool::new(false),
            succeeded: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            last_unix_ms: AtomicU64::new(now_unix_ms),
            pending_restart: AtomicU64::new(0),
            certificate_expires_unix_s: AtomicU64::new(expires),
        }
    }

    pub(super) fn succeed(&self, now_unix_ms: u64, pending_restart: usize) {
        let pending = u64::try_from(pending_restart).unwrap_or(u64::MAX);
        self.pending_restart.store(pending, Ordering::Relaxed);
        self.last_unix_ms.store(now_unix_ms, Ordering::Relaxed);
        self.failed_last.store(false, Ordering::Relaxed);
        self.succeeded.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn fail(&self) {
        self.failed_last.store(true, Ordering::Relaxed);
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn certify(&self, expires_unix_s: Option<u64>) {
        let expires = expires_unix_s.unwrap_or_default();
        self.certificate_expires_unix_s.store(expires, Ordering::Relaxed);
    }

    /// How it stands now.
    pub(crate) fn seen(&self) -> ConfigSeen {
        ConfigSeen {
            reload_failed: self.failed_last.load(Ordering::Relaxed),
            reloads_succeeded: self.succeeded.load(Ordering::Relaxed),
            reloads_failed: self.failed.load(Ordering::Relaxed),
            last_reload_unix_ms: self.last_unix_ms.load(Ordering::Relaxed),
            pending_restart: self.pending_restart.load(Ordering::Relaxed),
            certificate_expires_unix_s: self.certificate_expires_unix_s.load(Ordering::Relaxed),
        }
    }
}
