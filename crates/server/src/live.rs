//! What a running server can be told anew, for those who read it with every request.
//!
//! Promises: reading costs one plain load. Each value is a fact of its own: none has to be read
//! together with another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::Consistency;

use crate::cli::ServeArgs;

/// What a running server can be told anew. How many connections there may be is told to the
/// entrance, and the certificate to TLS.
#[derive(Debug)]
pub(crate) struct Live {
    /// Of namespaces that do not say it.
    is_bounded: AtomicBool,
    retire_for_ms: AtomicU64,
}

// ORDER: relaxed, everywhere here. A request that misses a change is one that came before it.
impl Live {
    pub(crate) fn new(args: &ServeArgs) -> Self {
        let live = Self::of(args.consistency);
        live.take(args);
        live
    }

    /// With a consistency, and nothing else to say.
    pub(crate) const fn of(consistency: Consistency) -> Self {
        let is_bounded = AtomicBool::new(matches!(consistency, Consistency::Bounded));
        Self { is_bounded, retire_for_ms: AtomicU64::new(0) }
    }

    /// From here on this holds.
    pub(crate) fn take(&self, args: &ServeArgs) {
        let is_bounded = args.consistency == Consistency::Bounded;
        self.is_bounded.store(is_bounded, Ordering::Relaxed);
        let ms = u64::try_from(args.transport.retire_for.as_millis()).unwrap_or(u64::MAX);
        self.retire_for_ms.store(ms, Ordering::Relaxed);
    }

    pub(crate) fn consistency(&self) -> Consistency {
        match self.is_bounded.load(Ordering::Relaxed) {
            true => Consistency::Bounded,
            false => Consistency::Fast,
        }
    }

    pub(crate) fn retire_for(&self) -> Duration {
        Duration::from_millis(self.retire_for_ms.load(Ordering::Relaxed))
    }
}
