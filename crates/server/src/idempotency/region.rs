//! The store of the region, as far as calls go that are answered once: asked for a few
//! milliseconds, and left alone for a while when it does not answer.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::StoreError;
use tidegate::redis::{Claimed, OnceCall, RedisStore};
use tokio::time::timeout;

/// How long the store is waited for: what a decision waits for it, too. Whoever waits longer has
/// a caller who waits longer.
const DEADLINE: Duration = Duration::from_millis(20);
/// So many failures in a row are no coincidence: one may be a pause of this machine.
const FAILURES_MAX: u32 = 5;
/// How long the store is left alone then. Without it every call would wait the deadline in vain.
const REST_MS: u64 = 1_000;

/// A question under way. [`OnceStore`] has an example.
pub type Asking<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// A store in which the processes of a region agree on who decides a call, and on the reply.
///
/// May be dropped while it is asked; the caller keeps the time.
///
/// ```
/// use std::sync::Arc;
///
/// use tidegate::SystemClock;
/// use tidegate::redis::{Claimed, OnceCall};
/// use tidegate_server::idempotency::{Asking, Idempotency, OnceStore, Scope};
///
/// /// A store in which every call is the first of its name.
/// #[derive(Debug)]
/// struct Forgetful;
///
/// impl OnceStore for Forgetful {
///     fn claim<'a>(&'a self, _: &'a OnceCall, _: u64) -> Asking<'a, Claimed> {
///         Box::pin(async { Ok(Claimed::First) })
///     }
///
///     fn settle<'a>(&'a self, _: &'a OnceCall, _: &'a [u8], _: u64) -> Asking<'a, bool> {
///         Box::pin(async { Ok(false) })
///     }
///
///     fn release<'a>(&'a self, _: &'a OnceCall) -> Asking<'a, bool> {
///         Box::pin(async { Ok(true) })
///     }
/// }
///
/// let alone = Idempotency::new(Arc::new(SystemClock::new()), None, 7);
/// assert_eq!(alone.region(Arc::new(Forgetful)).scope(), Scope::Region);
/// ```
pub trait OnceStore: Send + Sync + fmt::Debug {
    /// Asks to decide a call. The [trait](Self) has an example.
    fn claim<'a>(&'a self, call: &'a OnceCall, life_ms: u64) -> Asking<'a, Claimed>;

    /// Keeps a reply; says whether it is this one that is kept. The [trait](Self) has an example.
    fn settle<'a>(&'a self, call: &'a OnceCall, reply: &'a [u8], life_ms: u64) -> Asking<'a, bool>;

    /// Gives up a claim; says whether there was one. The [trait](Self) has an example.
    fn release<'a>(&'a self, call: &'a OnceCall) -> Asking<'a, bool>;
}

impl OnceStore for RedisStore {
    fn claim<'a>(&'a self, call: &'a OnceCall, life_ms: u64) -> Asking<'a, Claimed> {
        Box::pin(self.claim_call(call, life_ms))
    }

    fn settle<'a>(&'a self, call: &'a OnceCall, reply: &'a [u8], life_ms: u64) -> Asking<'a, bool> {
        Box::pin(self.settle_call(call, reply, life_ms))
    }

    fn release<'a>(&'a self, call: &'a OnceCall) -> Asking<'a, bool> {
        Box::pin(self.release_call(call))
    }
}

/// The store, and how it has been doing.
#[derive(Debug)]
pub(super) struct Regional {
    pub(super) store: Arc<dyn OnceStore>,
    /// In a row.
    failures: AtomicU32,
    rests_until_ms: AtomicU64,
    failed: AtomicU64,
}

impl Regional {
    pub(super) fn new(store: Arc<dyn OnceStore>) -> Self {
        let (failures, rests_until_ms) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { store, failures, rests_until_ms, failed: AtomicU64::new(0) }
    }

    /// Questions without an answer in time, those not asked aside.
    pub(super) fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// The answer, if there is one in time; while the store rests it is not even asked.
    pub(super) async fn ask<T>(&self, now_ms: u64, asking: Asking<'_, T>) -> Option<T> {
        // ORDER: relaxed, all of them. Who sees an old number asks once too often, or once less.
        if now_ms < self.rests_until_ms.load(Ordering::Relaxed) {
            return None;
        }
        if let Ok(Ok(answer)) = timeout(DEADLINE, asking).await {
            self.failures.store(0, Ordering::Relaxed);
            return Some(answer);
        }
        self.failed.fetch_add(1, Ordering::Relaxed);
        if self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1) >= FAILURES_MAX {
            // One more failure after the rest is enough for the next.
            self.failures.store(FAILURES_MAX, Ordering::Relaxed);
            self.rests_until_ms.store(now_ms.saturating_add(REST_MS), Ordering::Relaxed);
        }
        None
    }
}
