//! Memory that is zero from the start, and that the system gives page by page where it is touched:
//! so a table reserves all that its budget allows at once, in one piece of each kind, takes what it
//! uses, and finds it by its number alone.
//!
//! The only unsafe code of this crate. What it is for: what is found through a list of pieces costs
//! a dozen instructions and two loads more, each of which waits for the one before; and in one
//! piece it can have large pages, without which a quarter of a decision on a million subjects is to
//! find out where a page is.
//!
//! Under the checkers atomics are no plain memory: there everything is made one by one.

pub(crate) use system::{Room, places};

#[cfg(not(any(loom, shuttle)))]
mod system {
    #![expect(unsafe_code, reason = "zeroed memory as atomics: see the arguments below")]

    use std::fmt;
    use std::marker::PhantomData;

    #[cfg(target_os = "linux")]
    use rustix::mm::Advice;

    use crate::ledger::{Back, Front};
    use crate::sync::{AtomicU32, AtomicU64, Ordering};

    /// The size of a page that saves looking for many: that of most machines. Where it is another,
    /// or there is none, nothing is lost but this much of the addresses.
    const HUGE_PAGE: usize = 2 << 20;
    const WORD: usize = size_of::<AtomicU64>();

    /// What is made of words of 64 bits and of nothing else, so that any bits are a value of it.
    ///
    /// # Safety
    /// It has no field that is not an `AtomicU64`, or made of these in turn.
    pub(crate) unsafe trait Words {}

    // SAFETY: see the fields of each; that nothing lies between them, the sizes say.
    unsafe impl Words for Front {}
    // SAFETY: as above.
    unsafe impl Words for Back {}

    const _: () = assert!(size_of::<Front>() == 8 * WORD && align_of::<Front>() == WORD);
    const _: () = assert!(size_of::<Back>() == 26 * WORD && align_of::<Back>() == WORD);

    /// So many places of an index, all empty.
    pub(crate) fn places(len: usize) -> Box<[AtomicU32]> {
        // SAFETY: an `AtomicU32` whose bits are all zero holds 0.
        unsafe { Box::new_zeroed_slice(len).assume_init() }
    }

    /// Room for so many of a kind.
    pub(crate) struct Room<T> {
        words: Box<[AtomicU64]>,
        len: usize,
        /// Words before the first: it begins a cache line, and where there are many, a page.
        skip: usize,
        kind: PhantomData<T>,
    }

    impl<T> fmt::Debug for Room<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            // What is in it is a quarter of a gigabyte, most of which nobody has touched.
            f.debug_struct("Room").field("len", &self.len).finish_non_exhaustive()
        }
    }

    /// Where the first of so many bytes is to begin.
    const fn align_of_many(bytes: usize) -> usize {
        if bytes >= 2 * HUGE_PAGE { HUGE_PAGE } else { 64 }
    }

    impl<T: Words> Room<T> {
        /// What room for so many is larger than they are: the allocator is not asked to align,
        /// because for that it would write to all of it.
        pub(crate) const fn spare_bytes(len: usize) -> usize {
            align_of_many(len.saturating_mul(size_of::<T>()))
        }

        /// # Panics
        /// If that is more than can have addresses. The system may refuse what is less: then the
        /// process ends.
        pub(crate) fn new(len: usize) -> Self {
            let bytes = len.checked_mul(size_of::<T>());
            assert!(bytes.is_some(), "there are no addresses for {len} subjects");
            let bytes = bytes.unwrap_or(0);
            let align = align_of_many(bytes);
            let huge = align == HUGE_PAGE;
            let spare = Self::spare_bytes(len) / WORD;
            let words = Box::<[AtomicU64]>::new_zeroed_slice(bytes / WORD + spare);
            // SAFETY: an `AtomicU64` whose bits are all zero holds 0.
            let words = unsafe { words.assume_init() };
            let skip = words.as_ptr().align_offset(align);
            let skip = if skip < spare { skip } else { 0 };
            if huge && let Some(words) = words.get(skip..) {
                ask_for_huge_pages(words, bytes);
            }
            Self { words, len, skip, kind: PhantomData }
        }

        /// The one with this number, if there is room for it. Before it was made, it says nothing.
        #[inline(always)]
        pub(crate) fn get(&self, at: usize) -> Option<&T> {
            if at >= self.len {
                return None;
            }
            let from = at * (size_of::<T>() / WORD) + self.skip;
            // SAFETY: there are words for `len` of them, and more than `skip` besides: so all that
            // it takes from here on is within. It is made of such words alone, as it is aligned,
            // and it is borrowed for as long as they are.
            Some(unsafe { &*self.words.as_ptr().add(from).cast::<T>() })
        }

        /// The number of one that lies here.
        #[inline(always)]
        pub(crate) fn place_of(&self, one: &T) -> usize {
            let first = self.words.as_ptr().addr().wrapping_add(self.skip * WORD);
            std::ptr::from_ref(one).addr().wrapping_sub(first) / size_of::<T>()
        }

        /// Gives it a value. Nobody else may know of it yet.
        pub(crate) fn make(&self, at: usize, value: T) -> Option<&T> {
            let made = self.get(at)?;
            // SAFETY: both are made of so many words and nothing else.
            let words = |of: &T| unsafe {
                let first = std::ptr::from_ref(of).cast::<AtomicU64>();
                std::slice::from_raw_parts(first, size_of::<T>() / WORD)
            };
            for (word, value) in words(made).iter().zip(words(&value)) {
                // ORDER: whoever finds it acquires it with the place that names it.
                word.store(value.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            Some(made)
        }
    }

    /// On a large table each subject is on another page than the last one, and to find out where a
    /// page is takes as long as to fetch what is there. So there are to be few and large ones.
    fn ask_for_huge_pages(words: &[AtomicU64], bytes: usize) {
        #[cfg(target_os = "linux")]
        {
            let first = words.as_ptr().cast_mut().cast();
            // SAFETY: these are words of ours, of which there are as many bytes, and the advice
            // changes none of them. It may be declined: then the pages are small.
            let _ = unsafe {
                rustix::mm::madvise(first, bytes / HUGE_PAGE * HUGE_PAGE, Advice::LinuxHugepage)
            };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (words, bytes);
    }
}

#[cfg(any(loom, shuttle))]
mod system {
    use std::sync::OnceLock;

    use crate::sync::AtomicU32;

    pub(crate) fn places(len: usize) -> Box<[AtomicU32]> {
        std::iter::repeat_with(|| AtomicU32::new(0)).take(len).collect()
    }

    #[derive(Debug)]
    pub(crate) struct Room<T>(Box<[OnceLock<T>]>);

    impl<T> Room<T> {
        pub(crate) const fn spare_bytes(_len: usize) -> usize {
            0
        }

        pub(crate) fn new(len: usize) -> Self {
            Self(std::iter::repeat_with(OnceLock::new).take(len).collect())
        }

        pub(crate) fn get(&self, at: usize) -> Option<&T> {
            self.0.get(at)?.get()
        }

        pub(crate) fn place_of(&self, one: &T) -> usize {
            let is_it = |it: &OnceLock<T>| it.get().is_some_and(|it| std::ptr::eq(it, one));
            self.0.iter().position(is_it).unwrap_or(usize::MAX)
        }

        pub(crate) fn make(&self, at: usize, value: T) -> Option<&T> {
            Some(self.0.get(at)?.get_or_init(|| value))
        }
    }
}

#[cfg(test)]
#[cfg(not(any(loom, shuttle)))]
mod tests {
    use super::*;
    use crate::ledger::{Back, Front, is_in_use, name_of};

    /// More than two large pages, and less than one.
    const MANY: usize = 100_000;
    const FEW: usize = 100;

    #[test]
    fn each_front_is_a_cache_line_of_its_own() {
        for len in [1, FEW, MANY] {
            let room = Room::<Front>::new(len);
            let address = |at: usize| std::ptr::from_ref(room.get(at).unwrap()).addr();
            assert!(address(0).is_multiple_of(64));
            assert_eq!(address(len - 1) - address(0), (len - 1) * 64);
            assert!(room.get(len).is_none() && room.get(usize::MAX).is_none());
        }
    }

    #[test]
    fn what_is_made_is_free_and_touches_no_other() {
        let (fronts, backs) = (Room::<Front>::new(FEW), Room::<Back>::new(FEW));
        for at in 0..FEW {
            let front = fronts.make(at, Front::free(u32::try_from(at).unwrap())).unwrap();
            assert!(!is_in_use(front.era()));
            assert!(backs.make(at, Back::free()).is_some());
        }
        for at in 0..FEW {
            let front = fronts.get(at).unwrap();
            assert_eq!((name_of(front.era()) as usize, fronts.place_of(front)), (at, at));
        }
        assert!(fronts.make(FEW, Front::free(0)).is_none());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn room_that_nobody_uses_costs_nothing() {
        let resident_pages = || {
            let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
            statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).unwrap()
        };
        let (before, gibibyte) = (resident_pages(), (1 << 30) / size_of::<Back>());
        let rooms: Vec<_> = (0..4).map(|_| Room::<Back>::new(gibibyte)).collect();
        assert!(rooms.iter().all(|room| room.make(gibibyte - 1, Back::free()).is_some()));
        // Other tests take some meanwhile, but no gibibyte of pages of at least 4 KiB.
        assert!(resident_pages().saturating_sub(before) < (1 << 30) / 4_096);
    }
}
