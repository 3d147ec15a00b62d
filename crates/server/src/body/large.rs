//! Places for large bodies.
//!
//! Promises: one workspace has at most a share of them, so it cannot keep another waiting.
//! Refuses: whoever has found none within [`WAIT_MAX`]; a stranger at once. What waits is not read,
//! and what is not read fills buffers that nobody counts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit};
use tokio::time::timeout;

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
    /// Of those workspaces that have or want a place.
    shares: Mutex<BTreeMap<Arc<str>, Arc<Semaphore>>>,
}

/// A place; free again when dropped.
#[derive(Debug)]
pub(super) struct LargePlace<'a> {
    _place: SemaphorePermit<'a>,
    _share: Option<Share<'a>>,
}

/// What one workspace has: a permit of its share, once it is there.
#[derive(Debug)]
struct Share<'a> {
    large: &'a Large,
    workspace: Arc<str>,
    places: Arc<Semaphore>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Large {
    pub(super) const fn new(places_max: usize) -> Self {
        Self { places: Semaphore::const_new(places_max), shares: Mutex::new(BTreeMap::new()) }
    }

    fn shares(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, Arc<Semaphore>>> {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner)
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
        let mut share = self.share_of(workspace);
        share.permit = Some(Arc::clone(&share.places).acquire_owned().await.ok()?);
        let place = self.places.acquire().await.ok()?;
        Some(LargePlace { _place: place, _share: Some(share) })
    }

    fn share_of(&self, workspace: &str) -> Share<'_> {
        let mut shares = self.shares();
        let known = shares.get_key_value(workspace);
        let (workspace, places) = match known.map(|(name, it)| (Arc::clone(name), Arc::clone(it))) {
            Some(known) => known,
            None => {
                let new = (Arc::<str>::from(workspace), Arc::new(Semaphore::new(SHARE_MAX)));
                shares.insert(Arc::clone(&new.0), Arc::clone(&new.1));
                new
            }
        };
        Share { large: self, workspace, places, permit: None }
    }

    /// How many workspaces have or want a place.
    #[cfg(test)]
    pub(super) fn workspaces(&self) -> usize {
        self.shares().len()
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.permit = None;
        let mut shares = self.large.shares();
        // Ours and that of the map: nobody else has any, and under the lock nobody gets one.
        if Arc::strong_count(&self.places) == 2 {
            shares.remove(&self.workspace);
        }
    }
}
