//! INV-32: what is allocated is accounted for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

use bytes::Bytes;
use tidegate::ManualClock;
use tidegate_server::idempotency::{Begun, Bounds, Call, Idempotency, IdempotencyKey};

thread_local! {
    /// Bytes in use.
    static BYTES: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get().wrapping_add(layout.size())));
        // SAFETY: the caller's promises are the system allocator's requirements.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        let _ = BYTES.try_with(|bytes| bytes.set(bytes.get().wrapping_sub(layout.size())));
        // SAFETY: the caller's promises are the system allocator's requirements.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Spends the memory of a process in as many workspaces, with replies of that length. Says how
/// much was allocated at most.
async fn fill(bounds: Bounds, workspaces: u32, reply: usize) -> usize {
    let clock = ManualClock::at_unix_ms(1_700_000_000_000);
    let before = BYTES.get();
    let idempotency = Idempotency::new(Arc::new(clock), None, 1).bounds(bounds);
    let (mut most, reply) = (0, Bytes::from(vec![b'x'; reply]));
    for number in 0..20_000_u32 {
        let (workspace, name) = ((number % workspaces).to_string(), number.to_string());
        let key = IdempotencyKey::parse(name.as_bytes()).unwrap();
        let call = Call { workspace: &workspace, key, operation: "limit", body: b"{}" };
        let Begun::First(claim) = idempotency.begin(&call).await else { panic!("{number}") };
        claim.settle(&reply).await;
        // Whoever asks again makes the reply a shared one, which takes a little more.
        let Begun::Again(remembered) = idempotency.begin(&call).await else { panic!("{number}") };
        drop(remembered);
        assert!(idempotency.counts().bytes <= bounds.bytes_max);
        most = most.max(BYTES.get().wrapping_sub(before));
    }
    let counts = idempotency.counts();
    assert!(counts.pushed_out > 0, "{counts:?}");
    println!("{workspaces} workspaces, {counts:?}: at most {most} bytes allocated");
    most
}

#[tokio::test]
async fn memory_stays_within_its_bounds_whatever_is_kept() {
    let (bytes_max, workspace_bytes_max) = (2 << 20, 1 << 20);
    let bounds = Bounds { bytes_max, workspace_bytes_max, ..Bounds::default() };
    for (workspaces, reply) in [(1, 0), (1, 150), (3, 150), (1_000, 0), (20_000, 30), (7, 20_000)] {
        let most = fill(bounds, workspaces, reply).await;
        assert!(most <= bytes_max, "{workspaces} workspaces, replies of {reply}: {most}");
    }
}
