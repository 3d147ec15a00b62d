//! Plain counts of what happened, for whoever exports metrics.

use crate::sync::{AtomicU64, Ordering};

/// How many sets of counters there are. The first threads of a process have one each, which only
/// they write to, so that counting a decision costs no locked instruction; the others share the
/// last one.
const STRIPES: usize = 64;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// What a table has done since it was made. [`Table`](crate::Table) has an example.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
            /// Requests that would have been admitted, and were denied because the region should
            /// have been asked and could not be. Counted apart: sixteen counters fill the lines
            /// that a thread has for itself.
            pub denied_outage: u64,
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
    /// Requests admitted because the region granted them.
    admitted_granted,
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
    /// Denials that armed strict mode; those that only extended it do not count.
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
    pub(crate) fn mine(&self) -> Tally<'_> {
        let [own @ .., _] = &self.stripes;
        match own.get(number_of_this_thread()) {
            Some(own) => Tally { stripe: own, alone: true },
            None => self.first_or_shared(),
        }
    }

    /// The set of a thread that counts for the first time, or shares the last one.
    #[cold]
    fn first_or_shared(&self) -> Tally<'_> {
        let [own @ .., last] = &self.stripes;
        match own.get(number_this_thread()) {
            Some(own) => Tally { stripe: own, alone: true },
            None => Tally { stripe: last, alone: false },
        }
    }

    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for stripe in &self.stripes {
            stripe.add_to(&mut counts);
        }
        counts
    }
}

/// The counters that this thread adds to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tally<'a> {
    stripe: &'a Stripe,
    /// No other thread writes to them.
    alone: bool,
}

impl Tally<'_> {
    /// Counts one.
    #[inline]
    pub(crate) fn count(self, which: impl Fn(&Stripe) -> &AtomicU64) {
        self.count_many(which, 1);
    }

    /// Counts several.
    #[inline]
    pub(crate) fn count_many(self, which: impl Fn(&Stripe) -> &AtomicU64, many: u64) {
        let counter = which(self.stripe);
        // ORDER: see `Stripe::add_to`.
        if self.alone {
            let counted = counter.load(Ordering::Relaxed);
            counter.store(counted.wrapping_add(many), Ordering::Relaxed);
        } else {
            counter.fetch_add(many, Ordering::Relaxed);
        }
    }
}

#[cfg(not(any(loom, shuttle)))]
thread_local! {
    /// Of a thread that has none yet, one that nobody has. Nothing has to be made for it when a
    /// thread begins, nor undone when it ends.
    static NUMBER: std::cell::Cell<usize> = const { std::cell::Cell::new(NO_NUMBER) };
}

const NO_NUMBER: usize = usize::MAX;

#[cfg(not(any(loom, shuttle)))]
#[inline]
fn number_of_this_thread() -> usize {
    NUMBER.get()
}

/// Threads are numbered in the order in which they first count something; no number is given
/// twice.
#[cfg(not(any(loom, shuttle)))]
fn number_this_thread() -> usize {
    static THREADS: AtomicU64 = AtomicU64::new(0);
    if NUMBER.get() == NO_NUMBER {
        let number = THREADS.fetch_add(1, Ordering::Relaxed);
        NUMBER.set(usize::try_from(number).unwrap_or(NO_NUMBER));
    }
    NUMBER.get()
}

#[cfg(any(loom, shuttle))]
fn number_of_this_thread() -> usize {
    NO_NUMBER
}

#[cfg(any(loom, shuttle))]
fn number_this_thread() -> usize {
    NO_NUMBER
}
