//! What a running server can be told anew, for those who read it with every request.
//!
//! Promises: reading costs a plain load for each value. Each is a fact of its own: none has to be
//! read together with another.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::{Consistency, Outage};

use crate::cli::ServeArgs;
use crate::door::Defaults;

/// What a running server can be told anew. How many connections there may be is told to the
/// entrance, the certificate to TLS, and what is said to the log.
#[derive(Debug)]
pub(crate) struct Live {
    /// Of namespaces that do not say it.
    is_bounded: AtomicBool,
    denies_in_outage: AtomicBool,
    retire_for_ms: AtomicU64,
}

// ORDER: relaxed, everywhere here. A request that misses a change is one that came before it.
impl Live {
    pub(crate) fn new(args: &ServeArgs) -> Self {
        let live = Self::of(Defaults::default());
        live.take(args);
        live
    }

    /// With these defaults, and nothing else to say.
    pub(crate) fn of(defaults: Defaults) -> Self {
        let live = Self {
            is_bounded: AtomicBool::new(false),
            denies_in_outage: AtomicBool::new(false),
            retire_for_ms: AtomicU64::new(0),
        };
        live.set(defaults);
        live
    }

    /// From here on this holds.
    pub(crate) fn take(&self, args: &ServeArgs) {
        self.set(Defaults { consistency: args.consistency, outage: args.outage });
        let ms = u64::try_from(args.transport.retire_for.as_millis()).unwrap_or(u64::MAX);
        self.retire_for_ms.store(ms, Ordering::Relaxed);
    }

    fn set(&self, Defaults { consistency, outage }: Defaults) {
        self.is_bounded.store(consistency == Consistency::Bounded, Ordering::Relaxed);
        self.denies_in_outage.store(outage == Outage::Deny, Ordering::Relaxed);
    }

    /// What holds in namespaces that do not say it.
    pub(crate) fn defaults(&self) -> Defaults {
        let consistency = match self.is_bounded.load(Ordering::Relaxed) {
            true => Consistency::Bounded,
            false => Consistency::Fast,
        };
        let outage = match self.denies_in_outage.load(Ordering::Relaxed) {
            true => Outage::Deny,
            false => Outage::Local,
        };
        Defaults { consistency, outage }
    }

    pub(crate) fn retire_for(&self) -> Duration {
        Duration::from_millis(self.retire_for_ms.load(Ordering::Relaxed))
    }
}
