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
    use std::ptr::NonNull;

    use crate::ledger::{Back, Front};
    use crate::sync::{AtomicU32, AtomicU64, Ordering};

    /// From here on memory is asked of the system itself: two pages of the size that saves looking
    /// for many.
    const LARGE: usize = 2 * HUGE_PAGE;
    /// Of most machines. Where it is another, or there is none, nothing is lost but this much of
    /// the addresses.
    const HUGE_PAGE: usize = 2 << 20;
    const LINE: usize = 64;
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
        /// It begins a cache line, and where there are many, a page.
        first: NonNull<T>,
        len: usize,
        /// Where it lies in.
        memory: Memory,
    }

    // SAFETY: it is atomics, which any thread may use, in memory of its own.
    unsafe impl<T: Words> Send for Room<T> {}
    // SAFETY: as above.
    unsafe impl<T: Words> Sync for Room<T> {}

    impl<T> fmt::Debug for Room<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            // What is in it is a quarter of a gigabyte, most of which nobody has touched.
            let Self { len, memory, .. } = self;
            f.debug_struct("Room").field("len", len).field("memory", memory).finish_non_exhaustive()
        }
    }

    impl<T: Words> Room<T> {
        /// What room for so many takes beside them: the allocator is not asked to align it, because
        /// for that it would write to all of it. Of what is mapped, it is addresses alone.
        pub(crate) const fn spare_bytes(len: usize) -> usize {
            if Self::is_large(len) { 0 } else { LINE }
        }

        const fn is_large(len: usize) -> bool {
            cfg!(target_os = "linux") && len.saturating_mul(size_of::<T>()) >= LARGE
        }

        /// # Panics
        /// If there are no addresses for so many.
        pub(crate) fn new(len: usize) -> Self {
            let spare = if Self::is_large(len) { HUGE_PAGE } else { LINE };
            let bytes = len.checked_mul(size_of::<T>());
            let all = bytes.and_then(|bytes| bytes.checked_add(spare));
            assert!(all.is_some(), "there are no addresses for {len} subjects");
            let (bytes, all) = (bytes.unwrap_or(0), all.unwrap_or(0));
            let memory = Memory::new(all);
            let start = memory.start();
            let skip = start.addr().get().next_multiple_of(spare) - start.addr().get();
            // SAFETY: `skip` is less than `spare`, which was asked for besides.
            let first = unsafe { start.byte_add(skip) };
            if spare == HUGE_PAGE {
                ask_for_huge_pages(first, bytes);
            }
            Self { first: first.cast(), len, memory }
        }

        /// The one with this number, if there is room for it. Before it was made, it says nothing.
        #[inline(always)]
        pub(crate) fn get(&self, at: usize) -> Option<&T> {
            if at >= self.len {
                return None;
            }
            // SAFETY: there is memory for `len` of them from the first on, for as long as the room
            // is there. They are made of words alone, as it is aligned, and any bits are a value.
            Some(unsafe { self.first.add(at).as_ref() })
        }

        /// The number of one that lies here.
        #[inline(always)]
        pub(crate) fn place_of(&self, one: &T) -> usize {
            let from_first = std::ptr::from_ref(one).addr().wrapping_sub(self.first.addr().get());
            from_first / size_of::<T>()
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

    /// So many bytes, all zero.
    #[derive(Debug)]
    enum Memory {
        /// Few.
        Allocated(Box<[AtomicU64]>),
        /// Many. An allocator might write to what it had before; the system never does, and lends
        /// more than it has to whoever does not use it.
        #[cfg(target_os = "linux")]
        Mapped { start: NonNull<AtomicU64>, bytes: usize },
    }

    impl Memory {
        fn new(bytes: usize) -> Self {
            #[cfg(target_os = "linux")]
            if bytes >= LARGE
                && let Some(start) = map(bytes)
            {
                return Self::Mapped { start, bytes };
            }
            let words = Box::<[AtomicU64]>::new_zeroed_slice(bytes.div_ceil(WORD));
            // SAFETY: an `AtomicU64` whose bits are all zero holds 0.
            Self::Allocated(unsafe { words.assume_init() })
        }

        fn start(&self) -> NonNull<AtomicU64> {
            match self {
                Self::Allocated(words) => NonNull::from(&**words).cast(),
                #[cfg(target_os = "linux")]
                Self::Mapped { start, .. } => *start,
            }
        }
    }

    impl Drop for Memory {
        fn drop(&mut self) {
            #[cfg(target_os = "linux")]
            if let Self::Mapped { start, bytes } = self {
                // SAFETY: it was mapped with that length, and who borrowed of it is gone.
                let _ = unsafe { rustix::mm::munmap(start.as_ptr().cast(), *bytes) };
            }
        }
    }

    /// Memory of the system's that nothing else is in. `None` if it has no addresses for it.
    #[cfg(target_os = "linux")]
    fn map(bytes: usize) -> Option<NonNull<AtomicU64>> {
        use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
        let (read_write, own) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        let anywhere = std::ptr::null_mut();
        // SAFETY: the system chooses where, and takes no address that is in use.
        let mapped =
            unsafe { mmap_anonymous(anywhere, bytes, read_write, own | MapFlags::NORESERVE) };
        NonNull::new(mapped.ok()?.cast())
    }

    /// On a large table each subject is on another page than the last one, and to find out where a
    /// page is takes as long as to fetch what is there. So there are to be few and large ones.
    fn ask_for_huge_pages(first: NonNull<AtomicU64>, bytes: usize) {
        #[cfg(target_os = "linux")]
        {
            let (first, pages) = (first.as_ptr().cast(), bytes / HUGE_PAGE * HUGE_PAGE);
            // SAFETY: this is memory of ours, and the advice changes none of it. It may be
            // declined: then the pages are small.
            let _ = unsafe { rustix::mm::madvise(first, pages, rustix::mm::Advice::LinuxHugepage) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (first, bytes);
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
        // More than most machines have.
        let (before, many) = (resident_pages(), (1 << 40) / size_of::<Back>());
        let rooms: Vec<_> = (0..4).map(|_| Room::<Back>::new(many)).collect();
        assert!(rooms.iter().all(|room| room.make(many - 1, Back::free()).is_some()));
        // Other tests take some meanwhile, but no gibibyte of pages of at least 4 KiB.
        assert!(resident_pages().saturating_sub(before) < (1 << 30) / 4_096);
    }
}
