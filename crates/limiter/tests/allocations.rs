//! INV-8: a warm decision allocates nothing. INV-32: what is allocated is accounted for.
#![cfg(not(any(loom, shuttle)))]
#![expect(unsafe_code, reason = "counting allocations takes an allocator, which takes `unsafe`")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use tidegate_limiter::{
    Batch, Cost, Limit, Now, Options, Part, Request, Seed, Subject, Table, Window,
};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
    /// Bytes in use.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get().wrapping_add(layout.size())));
        // SAFETY: the caller's promises are the system allocator's requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get().wrapping_add(layout.size())));
        // SAFETY: the caller's promises are the system allocator's requirements.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get().wrapping_sub(layout.size())));
        // SAFETY: the caller's promises are the system allocator's requirements.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

#[test]
fn a_warm_decision_allocates_nothing() {
    let table = Table::new(Options::default(), Seed::from_bytes([1; 32]));
    let part = |text| Part::new(text).unwrap();
    let window = Window::from_millis(60_000).unwrap();
    let subject = |id| Subject::new(part("workspace"), part("namespace"), part(id), window);
    let ask =
        |id, limit, cost| Request::new(subject(id), Limit::new(limit), Cost::new(cost).unwrap());
    let (roomy, full, other) = (ask("a", 1 << 40, 1), ask("b", 1, 1), ask("c", 1 << 40, 2));
    let batch = [roomy, other, roomy, full];
    let at = |ms| Now::new(1_700_000_040_000 + ms, ms);
    let cold = allocations(|| {
        for request in [roomy, full, other] {
            assert!(table.decide(&request, at(0)).admitted());
        }
    });
    let mut answer = table.decide_all(&Batch::new(&batch).unwrap(), at(0));
    assert!(cold > 0, "the counting works: taking in a subject allocates");
    let warm = allocations(|| {
        for ms in 0..1_000 {
            assert!(table.decide(&roomy, at(ms)).admitted());
            let denied = table.decide(&full, at(ms));
            assert!(denied.retry_after_ms() > Some(0));
            table.decide_all_into(&Batch::new(&batch).unwrap(), at(ms), &mut answer);
            assert!(!answer.admitted());
            table.decide_all_into(&Batch::new(&batch[..3]).unwrap(), at(ms), &mut answer);
            assert!(answer.admitted());
        }
        // Rollovers, too: the next window, and one after a pause.
        for ms in [60_000, 120_000, 600_000] {
            assert!(table.decide(&roomy, at(ms)).admitted());
        }
    });
    assert_eq!(warm, 0, "admissions, denials, batches and rollovers of known subjects");
}

#[test]
fn what_is_allocated_is_accounted_for() {
    for budget in [16 << 10, 64 << 10, 1 << 20, 8 << 20, 32 << 20] {
        let options = Options::default().with_budget_bytes(budget);
        let many = 2 * options.subjects_max();
        let before = BYTES.get();
        let table = Table::new(options, Seed::from_bytes([1; 32]));
        for n in 0..many {
            // Each in a workspace of its own: that costs most.
            let name = n.to_string();
            let part = || Part::new(&name).unwrap();
            let subject =
                Subject::new(part(), part(), part(), Window::from_millis(60_000).unwrap());
            let ask = Request::new(subject, Limit::new(9), Cost::ONE);
            let _ = table.decide(&ask, Now::new(1_700_000_040_000, 0));
        }
        let bytes = BYTES.get().wrapping_sub(before) + size_of::<Table>();
        // But for a node or two of a tree.
        assert!(bytes <= table.accounted_bytes() + 512, "{bytes} of {budget}");
        assert!(bytes <= budget && table.accounted_bytes() <= budget, "INV-32");
    }
}
