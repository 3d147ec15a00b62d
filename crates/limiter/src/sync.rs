//! The only place that names where the atomics come from: the standard library, or a scheduler
//! that explores every interleaving of the same code.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};
#[cfg(not(shuttle))]
pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard};

/// Stores a word over which another thread may be swapping. loom has no total order of the writes
/// to one atomic, so that it lets a plain store be undone by a swap that came before it; as a swap
/// it is ordered. The real thing needs no more than a store.
#[inline]
pub(crate) fn replace(atomic: &AtomicU64, word: u64, order: Ordering) {
    #[cfg(loom)]
    atomic.swap(word, order);
    #[cfg(not(loom))]
    atomic.store(word, order);
}
