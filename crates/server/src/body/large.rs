//! Places for large bodies.
//!
//! Promises: one workspace has at most a share of them, so it cannot keep another waiting.
//! Refuses: whoever has found none within [`WAIT_MAX`]; a stranger at once. What waits is not read,
//! and what is not read fills buffers that nobody counts.

use std::time::Duration;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;

use super::shares::{Share, Shares};
use super::{LARGE_BODIES_MAX, Sender};

/// How many places one workspace may have. A large body that arrives at the speed of a network has
/// its place for milliseconds, so these are enough for thousands in a second.
pub(super) const SHARE_MAX: usize = LARGE_BODIES_MAX / 4;

/// How long a body waits for a place. A burst is through by then; a caller is told sooner than it
/// would give up.
pub(super) const WAIT_MAX: Duration = Duration::from_millis(250);

const _: () = assert!(0 < SHARE_MAX && 2 * SHARE_MAX <= LARGE_BODIES_MAX);

/// Places for large bodies.
#[derive(Debug)]
pub(super) struct Large {
    places: Semaphore,
    pub(super) shares: Shares,
}

/// A place; free again when dropped.
#[derive(Debug)]
pub(super) struct LargePlace<'a> {
    _place: SemaphorePermit<'a>,
    _share: Option<Share<'a>>,
}

impl Large {
    pub(super) const fn new(places_max: usize) -> Self {
        Self { places: Semaphore::const_new(places_max), shares: Shares::new(SHARE_MAX) }
    }

    /// A place for a body from `sender`, if there is one in time.
    ///
    /// # Cancel safety
    /// Nothing is taken if it is dropped early.
    pub(super) async fn place(&self, sender: Sender<'_>) -> Option<LargePlace<'_>> {
        // The places are never closed, so all that can fail is that there is none.
        match sender {
            Sender::Stranger => {
                let place = self.places.try_acquire().ok()?;
                Some(LargePlace { _place: place, _share: None })
            }
            Sender::Known(workspace) => timeout(WAIT_MAX, self.place_of(workspace)).await.ok()?,
        }
    }

    /// First of the share, so that one workspace has few in the queue that all stand in.
    async fn place_of(&self, workspace: &str) -> Option<LargePlace<'_>> {
        let share = self.shares.wait(workspace).await?;
        let place = self.places.acquire().await.ok()?;
        Some(LargePlace { _place: place, _share: Some(share) })
    }
}
