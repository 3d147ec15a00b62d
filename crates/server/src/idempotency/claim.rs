//! The right to decide a call, and what becomes of it.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use tidegate::redis::{Claimed, OnceCall};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::name::{SEAL_BYTES, Ticket};
use super::region::Regional;
use super::{Scope, Shared};

/// The right to decide a call. Dropping it gives the right to whoever waits.
/// [`Idempotency::begin`](super::Idempotency::begin) has an example.
#[must_use = "dropping it lets another decide the call"]
pub struct Claim {
    shared: Arc<Shared>,
    ticket: Ticket,
    claimant: u128,
    /// Closed when this is over: those who wait look again.
    over: Arc<Semaphore>,
    /// Whether the region may know of the claim.
    asked: bool,
    scope: Scope,
    settled: bool,
}

impl Claim {
    pub(super) fn new(shared: Arc<Shared>, ticket: Ticket, over: Arc<Semaphore>) -> Self {
        let claimant = shared.next_claimant();
        let (asked, scope, settled) = (false, Scope::Node, false);
        Self { shared, ticket, claimant, over, asked, scope, settled }
    }

    /// Who would remember the reply as things are.
    /// [`Idempotency::begin`](super::Idempotency::begin) has an example.
    #[must_use]
    pub const fn scope(&self) -> Scope {
        self.scope
    }

    /// Asks the region for the right as well.
    pub(super) async fn ask(&mut self, region: &Regional) -> Option<Claimed> {
        // Before the answer: whoever leaves while it is on its way has to give it up.
        self.asked = true;
        let call = self.once();
        let life_ms = self.shared.bounds.claim_life_ms;
        let now_ms = self.shared.now_ms();
        let claimed = region.ask(now_ms, region.store.claim(&call, life_ms)).await;
        self.asked = matches!(claimed, Some(Claimed::First) | None);
        if claimed == Some(Claimed::First) {
            self.scope = Scope::Region;
        }
        claimed
    }

    /// Keeps a reply that the region had.
    pub(super) fn keep(mut self, reply: Bytes) {
        self.settle_here(reply, Scope::Region, self.shared.bounds.reply_life_ms);
    }

    /// Keeps the reply. From the moment of this call on, nothing that happens to the caller undoes
    /// it: call it in the same breath in which the call was decided. What comes back says who
    /// remembers it; only that waits for the region, for some milliseconds.
    /// [`Idempotency::begin`](super::Idempotency::begin) has an example.
    pub fn settle(mut self, reply: &Bytes) -> impl Future<Output = Scope> + Send + use<> {
        let life_ms = self.shared.bounds.reply_life_ms;
        let has_room = self.settle_here(Bytes::copy_from_slice(reply), Scope::Node, life_ms);
        let telling = self.tell(reply, has_room);
        async move {
            let told = match telling {
                Some(telling) => telling.await.unwrap_or(false),
                None => false,
            };
            if told { Scope::Region } else { Scope::Node }
        }
    }

    /// Keeps the reply for as long as a claim, here alone. A region that knows of the claim is told
    /// nothing: there it lapses, and until then others are told to come back.
    pub(super) fn settle_briefly(mut self, reply: &Bytes) -> Scope {
        let life_ms = self.shared.bounds.claim_life_ms;
        self.settle_here(Bytes::copy_from_slice(reply), Scope::Node, life_ms);
        Scope::Node
    }

    /// Keeps the reply in this process. Says whether nothing was pushed out for it.
    fn settle_here(&mut self, reply: Bytes, scope: Scope, life_ms: u64) -> bool {
        let times_ms = (self.shared.now_ms(), life_ms);
        let has_room = self.shared.memory().settle(&self.ticket, reply, scope, times_ms);
        self.settled = true;
        self.over.close();
        has_room
    }

    /// Tells the region, in a task of its own. Only one that gave us the right is waited for: the
    /// answer of one that did not hear us, or was not heard, is worth no time.
    ///
    /// What pushed something out here is told for a minute only: so a process keeps no more in the
    /// store of the region than it remembers itself, and a minute of its calls.
    fn tell(&self, reply: &Bytes, has_room: bool) -> Option<JoinHandle<bool>> {
        if !self.asked {
            return None;
        }
        let sealed_bytes = reply.len().saturating_add(SEAL_BYTES);
        let bounds = &self.shared.bounds;
        if sealed_bytes > bounds.region_reply_bytes_max {
            self.release_there();
            return None;
        }
        let life_ms = if has_room { bounds.reply_life_ms } else { bounds.brief_life_ms };
        let (shared, call) = (Arc::clone(&self.shared), self.once());
        let sealed = self.ticket.seal(self.claimant, reply);
        let telling = Handle::try_current().ok()?.spawn(async move {
            let Some(region) = &shared.region else { return false };
            let settling = region.store.settle(&call, &sealed, life_ms);
            let settled = region.ask(shared.now_ms(), settling).await == Some(true);
            if settled {
                shared.memory().is_in_region(call.name);
            }
            settled
        });
        (self.scope == Scope::Region).then_some(telling)
    }

    /// Gives the right back to the region, in a task of its own. If that fails, it lapses.
    fn release_there(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (shared, call) = (Arc::clone(&self.shared), self.once());
        runtime.spawn(async move {
            if let Some(region) = &shared.region {
                region.ask(shared.now_ms(), region.store.release(&call)).await;
            }
        });
    }

    const fn once(&self) -> OnceCall {
        let Ticket { name, fingerprint, .. } = self.ticket;
        OnceCall { name, fingerprint, claimant: self.claimant }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if self.settled {
            return;
        }
        self.shared.memory().release(&self.ticket);
        self.over.close();
        if self.asked {
            self.release_there();
        }
    }
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Claim").field("scope", &self.scope).finish_non_exhaustive()
    }
}
