//! Plain counts of what happened, for whoever exports metrics.

use crate::sync::{AtomicU64, Ordering};

/// How many sets of counters there are. Threads spread over them, so that counting a decision
/// does not make two cores fight over one cache line.
const STRIPES: usize = 16;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a table has done since it was made.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        #[derive(Debug)]
        #[repr(align(128))]
        pub(crate) struct Stripe {
            $(pub(crate) $name: AtomicU64,)*
        }

        impl Stripe {
            fn new() -> Self {
                Self { $($name: AtomicU64::new(0),)* }
            }

            fn add_to(&self, counts: &mut Counts) {
                // ORDER: counts are read for display only; nothing is inferred from them.
                $(counts.$name += self.$name.load(Ordering::Relaxed);)*
            }
        }
    };
}

counters! {
    /// Requests admitted on the view of this process; items of an admitted batch count each.
    admitted_local,
    /// Requests denied by their limit, on the view of this process.
    denied_local,
    /// Requests denied only because batches in flight had reserved the room.
    denied_reserved,
    /// Requests of new subjects denied because the memory budget was exhausted.
    denied_memory,
    /// Items that fitted in a batch that was denied because of another item.
    batch_items_undone,
    /// Batches admitted.
    batches_admitted,
    /// Batches denied.
    batches_denied,
    /// Reservations of batches that did not fit although the first look had room for them.
    reservations_denied,
    /// Compare-and-swaps lost to another thread; each was tried again.
    races_lost,
    /// Ledgers that were retired or used again while a decision was looking at them.
    ledgers_moved,
    /// Denials that armed strict mode.
    strict_armed,
    /// Cells to which something was admitted for the first time.
    cells_begun,
    /// Subjects taken into the table.
    subjects_created,
    /// Subjects dropped after both of their cells had expired.
    subjects_expired,
    /// Subjects dropped to make room although their cells still counted.
    subjects_evicted,
}

/// Counters that many threads add to.
#[derive(Debug)]
pub(crate) struct Counters {
    stripes: [Stripe; STRIPES],
}

impl Counters {
    pub(crate) fn new() -> Self {
        Self { stripes: std::array::from_fn(|_| Stripe::new()) }
    }

    /// This thread's set.
    #[inline]
    pub(crate) fn mine(&self) -> &Stripe {
        let [first, ..] = &self.stripes;
        self.stripes.get(stripe_of_this_thread()).unwrap_or(first)
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for stripe in &self.stripes {
            stripe.add_to(&mut counts);
        }
        counts
    }
}

/// Counts one.
#[inline]
pub(crate) fn count(counter: &AtomicU64) {
    count_many(counter, 1);
}

/// Counts several.
#[inline]
pub(crate) fn count_many(counter: &AtomicU64, many: u64) {
    // ORDER: see `Stripe::add_to`.
    counter.fetch_add(many, Ordering::Relaxed);
}

#[cfg(not(any(loom, shuttle)))]
#[inline]
fn stripe_of_this_thread() -> usize {
    use std::sync::atomic::AtomicUsize;
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: usize = THREADS.fetch_add(1, Ordering::Relaxed) % STRIPES;
    }
    // A thread that is ending has no number any more; any stripe will do.
    STRIPE.try_with(|stripe| *stripe).unwrap_or(0)
}

#[cfg(any(loom, shuttle))]
fn stripe_of_this_thread() -> usize {
    0
}
