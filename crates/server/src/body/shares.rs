//! Shares of places: what one workspace may have of them.
//!
//! Promises: no workspace has more than its share, so it cannot take all the places there are; and
//! nothing is kept of a workspace that has none.
//! Refuses: nobody. Whoever comes beyond its share waits or goes, as it likes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The shares of those workspaces that have or want a place.
#[derive(Debug)]
pub(super) struct Shares {
    /// How many places one workspace may have.
    each_max: usize,
    by_workspace: Mutex<ByWorkspace>,
}

type ByWorkspace = BTreeMap<Arc<str>, Arc<Semaphore>>;

/// What one workspace has: a permit of its share, once it is there.
#[derive(Debug)]
pub(super) struct Share<'a> {
    shares: &'a Shares,
    workspace: Arc<str>,
    /// There until it is dropped.
    places: Option<Arc<Semaphore>>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Shares {
    pub(super) const fn new(each_max: usize) -> Self {
        Self { each_max, by_workspace: Mutex::new(BTreeMap::new()) }
    }

    fn by_workspace(&self) -> MutexGuard<'_, ByWorkspace> {
        self.by_workspace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place of the share of `workspace`, as soon as there is one.
    ///
    /// # Cancel safety
    /// Nothing is taken if it is dropped early.
    pub(super) async fn wait(&self, workspace: &str) -> Option<Share<'_>> {
        let mut share = self.of(workspace);
        let places = Arc::clone(share.places.as_ref()?);
        // The places are never closed.
        share.permit = Some(places.acquire_owned().await.ok()?);
        Some(share)
    }

    /// A place of the share of `workspace`, if there is one now.
    pub(super) fn take(&self, workspace: &str) -> Option<Share<'_>> {
        let mut share = self.of(workspace);
        let places = Arc::clone(share.places.as_ref()?);
        share.permit = Some(places.try_acquire_owned().ok()?);
        Some(share)
    }

    fn of(&self, workspace: &str) -> Share<'_> {
        let mut shares = self.by_workspace();
        let known = shares.get_key_value(workspace);
        let (workspace, places) = match known.map(|(name, it)| (Arc::clone(name), Arc::clone(it))) {
            Some(known) => known,
            None => {
                let new = (Arc::<str>::from(workspace), Arc::new(Semaphore::new(self.each_max)));
                shares.insert(Arc::clone(&new.0), Arc::clone(&new.1));
                new
            }
        };
        drop(shares);
        Share { shares: self, workspace, places: Some(places), permit: None }
    }

    /// How many workspaces have or want a place.
    #[cfg(test)]
    pub(super) fn workspaces(&self) -> usize {
        self.by_workspace().len()
    }
}

impl Drop for Share<'_> {
    fn drop(&mut self) {
        self.permit = None;
        let mut shares = self.shares.by_workspace();
        // Under the lock, so that of several who leave at once the last one sees that it is.
        self.places = None;
        if shares.get(&self.workspace).is_some_and(|it| Arc::strong_count(it) == 1) {
            shares.remove(&self.workspace);
        }
    }
}
