//! Plain counts of what happened, for whoever exports metrics.

use crate::sync::{AtomicU64, Ordering};

/// How many sets of counters there are. So many threads less one have one each, which only they
/// write to, so that counting a decision costs no locked instruction; the others share the last
/// one.
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

use number::{number_of_this_thread, number_this_thread};

/// Which set of counters a thread has for itself.
#[cfg(not(any(loom, shuttle)))]
mod number {
    use std::cell::Cell;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::STRIPES;

    thread_local! {
        /// Of a thread that has none yet, one that nobody has. Nothing has to be made for it when a
        /// thread begins, nor undone when it ends: it is read without asking whether it is there.
        static NUMBER: Cell<usize> = const { Cell::new(NONE) };
        /// What gives the number back.
        static LEASE: Lease = Lease::take();
    }

    const NONE: usize = usize::MAX;

    /// A bit for each number, set while a thread has it.
    static TAKEN: AtomicU64 = AtomicU64::new(0);
    const _: () = assert!(STRIPES <= u64::BITS as usize);

    /// A number that is a thread's until it ends: threads come and go in some programs, and whoever
    /// has none counts with locked instructions on lines that others write to.
    struct Lease(Option<usize>);

    impl Lease {
        fn take() -> Self {
            let mut taken = TAKEN.load(Ordering::Relaxed);
            loop {
                let number = taken.trailing_ones() as usize;
                // The last set of counters is the one that is shared.
                if number + 1 >= STRIPES {
                    return Self(None);
                }
                let with = taken | 1 << number;
                // ORDER: acquires what the thread that had it before counted (partner: `drop`).
                match TAKEN.compare_exchange(taken, with, Ordering::Acquire, Ordering::Relaxed) {
                    Ok(_) => return Self(Some(number)),
                    Err(seen) => taken = seen,
                }
            }
        }
    }

    impl Drop for Lease {
        fn drop(&mut self) {
            // What else ends with the thread may still count: with those who share.
            NUMBER.set(NONE);
            if let Some(number) = self.0 {
                // ORDER: releases what this thread counted (partner: `take`).
                TAKEN.fetch_and(!(1 << number), Ordering::Release);
            }
        }
    }

    #[inline]
    pub(super) fn number_of_this_thread() -> usize {
        NUMBER.get()
    }

    /// The number of a thread that has none yet, or one that nobody has if all are taken.
    #[cold]
    pub(super) fn number_this_thread() -> usize {
        let number = LEASE.try_with(|lease| lease.0).ok().flatten().unwrap_or(NONE);
        NUMBER.set(number);
        number
    }

    #[cfg(test)]
    mod tests {
        use std::sync::{Arc, mpsc};
        use std::thread;

        use super::super::Counters;
        use super::*;

        // In one test, because this takes all numbers.
        #[test]
        fn numbers_are_of_one_thread_at_a_time_and_come_back() {
            let (say, hear) = mpsc::channel();
            let stay: Vec<_> = (0..2 * STRIPES)
                .map(|_| {
                    let (say, (go, wait)) = (say.clone(), mpsc::channel::<()>());
                    let stays = move || {
                        say.send(number_this_thread()).unwrap();
                        let _ = wait.recv();
                    };
                    (go, thread::spawn(stays))
                })
                .collect();
            let mut numbers: Vec<_> = hear.iter().take(stay.len()).collect();
            // Those without share the last one.
            assert!(numbers.contains(&NONE));
            numbers.retain(|number| *number != NONE);
            numbers.sort_unstable();
            let all = numbers.len();
            numbers.dedup();
            assert_eq!(numbers.len(), all);
            assert!(numbers.iter().all(|number| *number < STRIPES - 1));
            for (go, thread) in stay {
                drop(go);
                thread.join().unwrap();
            }
            // More than there are numbers, one after the other.
            for _ in 0..2 * STRIPES {
                let number = thread::spawn(number_this_thread).join().unwrap();
                assert!(number < STRIPES - 1, "{number}");
            }
        }

        #[test]
        fn what_a_thread_counts_while_it_ends_is_counted() {
            struct CountsLast(Arc<Counters>);
            impl Drop for CountsLast {
                fn drop(&mut self) {
                    self.0.mine().count(|all| &all.races_lost);
                }
            }
            thread_local! {
                static LAST: Cell<Option<CountsLast>> = const { Cell::new(None) };
            }
            let counters = Arc::new(Counters::new());
            for count_first in [true, false] {
                let counters = Arc::clone(&counters);
                let ends = move || {
                    if count_first {
                        counters.mine().count(|all| &all.races_lost);
                    }
                    LAST.set(Some(CountsLast(Arc::clone(&counters))));
                    counters.mine().count(|all| &all.races_lost);
                };
                thread::spawn(ends).join().unwrap();
            }
            assert_eq!(counters.counts().races_lost, 5);
        }
    }
}

/// Under the checkers all threads share one.
#[cfg(any(loom, shuttle))]
mod number {
    pub(super) fn number_of_this_thread() -> usize {
        usize::MAX
    }

    pub(super) fn number_this_thread() -> usize {
        usize::MAX
    }
}
