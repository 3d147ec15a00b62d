//! `Idempotency-Key`: a call that is sent again is charged once and gets the same reply.
//!
//! Promises: of the calls of a workspace with one key, one is decided; the others get its reply,
//! byte for byte. They wait for it if it is under way, for a tenth of a second at most. Whoever
//! leaves before his call was decided has spent nothing and blocks nobody. Memory is bounded, in
//! all and for each workspace. In a region the store is asked as well, so that it may be another
//! process that gets the second call; every reply says how far the promise goes ([`Scope`]).
//! Refuses: a key that is none; a key that was used for another call.
//! Fails: towards charging. When the store of the region does not answer, this process alone
//! remembers, and says so; what was forgotten early, for want of memory, is decided anew.
//!
//! ```
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! use std::sync::Arc;
//! use bytes::Bytes;
//! use tidegate::SystemClock;
//! use tidegate_server::idempotency::{Call, Idempotency, IdempotencyKey, Lasts, Once};
//!
//! let idempotency = Idempotency::new(Arc::new(SystemClock::new()), None, 7);
//! let key = IdempotencyKey::parse(b"order-17")?;
//! let call = Call { workspace: "ws", key, operation: "limit", body: b"{}" };
//!
//! for _ in 0..3 {
//!     let decided = async { Ok::<_, String>((Bytes::from_static(b"admitted"), Lasts::Long)) };
//!     let once = idempotency.once(&call, decided).await;
//!     assert!(matches!(once, Once::Reply { reply, .. } if reply == "admitted"));
//! }
//! assert_eq!(idempotency.counts().replayed, 2);
//! # Ok::<(), tidegate_server::idempotency::Refusal>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod claim;
mod header;
mod memory;
mod name;
mod once;
mod region;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use tidegate::Clock;
use tidegate::redis::Claimed;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

pub use claim::Claim;
pub use header::{
    IDEMPOTENCY_KEY, IDEMPOTENCY_REPLAYED, IDEMPOTENCY_SCOPE, IdempotencyKey, KEY_CHARS_MAX,
    Refusal, Scope,
};
pub use once::{Lasts, Once};
pub use region::{Asking, OnceStore};

use memory::{Known, Memory, Usage};
use name::{Names, Ticket};
use region::Regional;

/// How long a call waits for the one before it. A decision takes some 20 ms when the region is
/// slow, and so does telling it; whoever is not answered then should come back later.
const WAIT: Duration = Duration::from_millis(100);
/// Replies forgotten in one step of giving memory back: some hundred microseconds.
const SWEEP_MAX: usize = 256;
/// How often a region is asked for a reply that another process is about to give, in this time.
const LOOK: Duration = Duration::from_millis(20);

/// A call that may be sent again. The [module](self) has an example.
#[derive(Clone, Copy, Debug)]
pub struct Call<'a> {
    /// Whose call it is. The keys of two workspaces have nothing to do with each other.
    pub workspace: &'a str,
    /// What the caller calls it.
    pub key: IdempotencyKey<'a>,
    /// What is called.
    pub operation: &'a str,
    /// With what. The same call has the same bytes.
    pub body: &'a [u8],
}

/// How much is remembered, and for how long. [`Idempotency::bounds`] has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Memory for all calls.
    pub bytes_max: usize,
    /// The part of it that the calls of one workspace may have that are under way. Replies have
    /// no such bound: when all is full, whoever holds most gives.
    pub workspace_bytes_max: usize,
    /// How long a reply is remembered.
    pub reply_life_ms: u64,
    /// How long the region keeps a reply for which this process had to forget another.
    pub brief_life_ms: u64,
    /// How long the region keeps the claim of a process that says nothing more.
    pub claim_life_ms: u64,
    /// The longest reply that is told to the region.
    pub region_reply_bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            // Some hundred thousand replies to single requests: 170 a second.
            bytes_max: 64 << 20,
            // Two workspaces could fill it with calls that nobody can push out.
            workspace_bytes_max: 32 << 20,
            // Clients try again for some 10 seconds, queues for minutes.
            reply_life_ms: 600_000,
            // Six times what clients try for. The store then holds a minute of calls, however many.
            brief_life_ms: 60_000,
            // A hundred times what a decision takes. A crash blocks a key for no longer.
            claim_life_ms: 10_000,
            // Redis serves nobody else while it copies: a batch of a hundred has some 20 KiB.
            region_reply_bytes_max: 64 << 10,
        }
    }
}

/// What has to be done about a call. [`Idempotency::begin`] has an example.
#[derive(Debug)]
#[must_use]
pub enum Begun {
    /// Decide it. Settle the claim with the reply if it was a success; drop it otherwise.
    First(Claim),
    /// It was decided: this is the reply.
    Again(Remembered),
    /// It is not answered.
    Refused(Refusal, Scope),
}

/// The reply to a call that was sent before. [`Idempotency::begin`] has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// What was given to [`Claim::settle`].
    pub reply: Bytes,
    /// Who remembers it.
    pub scope: Scope,
}

/// What happened so far, for whoever watches. The [module](self) has an example.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdempotencyCounts {
    /// Calls remembered now, those under way included.
    pub calls: usize,
    /// Memory they are held to take.
    pub bytes: usize,
    /// Replies forgotten before their time, for want of memory.
    pub pushed_out: u64,
    /// Calls that got the reply of another.
    pub replayed: u64,
    /// Calls whose key had been used for another call.
    pub reused: u64,
    /// Calls that were told to come back, because the one before them was under way.
    pub in_progress: u64,
    /// Questions that the store of the region did not answer in time.
    pub region_failures: u64,
}

/// Remembers calls. Clones share what they remember. The [module](self) has an example.
#[derive(Clone)]
pub struct Idempotency(Arc<Shared>);

struct Shared {
    names: Names,
    clock: Arc<dyn Clock>,
    bounds: Bounds,
    memory: Mutex<Memory>,
    region: Option<Regional>,
    /// The first half of every claimant's number, and what the next one's second half is.
    seed: u64,
    claims: AtomicU64,
    replayed: AtomicU64,
    reused: AtomicU64,
    in_progress: AtomicU64,
}

impl Idempotency {
    /// Remembers in this process alone. The secret is that of the fleet, if it has one. The seed
    /// tells this process from others: take it from a random source. The [module](self) has an
    /// example.
    #[must_use]
    pub fn new(clock: Arc<dyn Clock>, secret: Option<[u8; 32]>, seed: u64) -> Self {
        let bounds = Bounds::default();
        Self(Arc::new(Shared {
            names: Names::new(secret),
            clock,
            bounds,
            memory: Mutex::new(Memory::new(bounds)),
            region: None,
            seed,
            claims: AtomicU64::new(0),
            replayed: AtomicU64::new(0),
            reused: AtomicU64::new(0),
            in_progress: AtomicU64::new(0),
        }))
    }

    /// Remembers together with the other processes of a region. To be said before the first call.
    /// [`OnceStore`] has an example.
    #[must_use]
    pub fn region(self, store: Arc<dyn OnceStore>) -> Self {
        self.change(|shared| shared.region = Some(Regional::new(store)))
    }

    /// Other bounds than the usual ones. To be said before the first call.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use tidegate::SystemClock;
    /// use tidegate_server::idempotency::{Bounds, Idempotency, Scope};
    ///
    /// let bounds = Bounds { reply_life_ms: 60_000, ..Bounds::default() };
    /// let idempotency = Idempotency::new(Arc::new(SystemClock::new()), None, 7).bounds(bounds);
    /// idempotency.sweep();
    /// assert_eq!((idempotency.scope(), idempotency.counts().calls), (Scope::Node, 0));
    /// ```
    #[must_use]
    pub fn bounds(self, bounds: Bounds) -> Self {
        self.change(|shared| {
            shared.bounds = bounds;
            shared.memory = Mutex::new(Memory::new(bounds));
        })
    }

    fn change(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        if let Some(shared) = Arc::get_mut(&mut self.0) {
            change(shared);
        }
        self
    }

    /// How far the promise goes while all is well: what to say of a call that was never begun.
    /// [`bounds`](Self::bounds) has an example.
    #[must_use]
    pub fn scope(&self) -> Scope {
        if self.0.region.is_some() { Scope::Region } else { Scope::Node }
    }

    /// What happened so far. The [module](self) has an example.
    #[must_use]
    pub fn counts(&self) -> IdempotencyCounts {
        let Usage { calls, bytes, pushed_out } = self.0.memory().usage();
        // ORDER: relaxed, here and where they are raised. Counts that nothing else follows from.
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        IdempotencyCounts {
            calls,
            bytes,
            pushed_out,
            replayed: count(&self.0.replayed),
            reused: count(&self.0.reused),
            in_progress: count(&self.0.in_progress),
            region_failures: self.0.region.as_ref().map_or(0, Regional::failed),
        }
    }

    /// Gives back the memory of some replies whose time is over. To be called now and then: without
    /// it the next calls do it, each for a few. [`bounds`](Self::bounds) has an example.
    pub fn sweep(&self) {
        let now_ms = self.0.now_ms();
        self.0.memory().expire(now_ms, SWEEP_MAX);
    }

    /// Finds out what has to be done about a call. Waits for one that is under way, but not long.
    ///
    /// ```
    /// # tokio::runtime::Runtime::new()?.block_on(async {
    /// # use std::sync::Arc;
    /// # use bytes::Bytes;
    /// # use tidegate::SystemClock;
    /// # use tidegate_server::idempotency::*;
    /// let idempotency = Idempotency::new(Arc::new(SystemClock::new()), None, 7);
    /// let key = IdempotencyKey::parse(b"order-17")?;
    /// let call = Call { workspace: "ws", key, operation: "limit", body: b"{}" };
    ///
    /// let Begun::First(claim) = idempotency.begin(&call).await else { unreachable!() };
    /// drop(claim); // It could not be decided: the next one may.
    /// let Begun::First(claim) = idempotency.begin(&call).await else { unreachable!() };
    /// assert_eq!(claim.scope(), Scope::Node, "there is no region");
    /// assert_eq!(claim.settle(&Bytes::from_static(b"yes")).await, Scope::Node);
    /// let Begun::Again(remembered) = idempotency.begin(&call).await else { unreachable!() };
    /// assert_eq!(remembered.reply, "yes");
    ///
    /// let other = Call { body: b"[]", ..call };
    /// let begun = idempotency.begin(&other).await;
    /// assert!(matches!(begun, Begun::Refused(Refusal::Reused, Scope::Node)));
    /// # Ok::<(), tidegate_server::idempotency::Refusal>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Cancel safety
    /// Dropping it leaves nothing behind.
    pub async fn begin(&self, call: &Call<'_>) -> Begun {
        let ticket = self.0.names.ticket(call);
        let begun = match self.claim_here(ticket).await {
            Begun::First(claim) => self.claim_there(claim, &ticket).await,
            known => known,
        };
        let counted = match &begun {
            Begun::First(_) => return begun,
            Begun::Again(_) => &self.0.replayed,
            Begun::Refused(Refusal::Reused, _) => &self.0.reused,
            Begun::Refused(..) => &self.0.in_progress,
        };
        counted.fetch_add(1, Ordering::Relaxed);
        begun
    }

    /// Claims the call among those of this process.
    async fn claim_here(&self, ticket: Ticket) -> Begun {
        let deadline = Instant::now() + WAIT;
        loop {
            let known = self.0.memory().claim(&ticket, self.0.now_ms());
            let over = match known {
                Known::First(over) => {
                    let claim = Claim::new(Arc::clone(&self.0), ticket, over);
                    return Begun::First(claim);
                }
                Known::Done(reply, scope) => return Begun::Again(Remembered { reply, scope }),
                Known::Other => return Begun::Refused(Refusal::Reused, self.scope()),
                Known::Full => return Begun::Refused(Refusal::InProgress, self.scope()),
                Known::Pending(over) => over,
            };
            // There are no permits: it ends when the one before has settled or given up. Whoever
            // is first then decides, and the others wait for him, but not longer.
            let ended = timeout_at(deadline, over.acquire()).await;
            if ended.is_err() || Instant::now() >= deadline {
                return Begun::Refused(Refusal::InProgress, self.scope());
            }
        }
    }

    /// Claims the call among those of the region, if there is one.
    async fn claim_there(&self, mut claim: Claim, ticket: &Ticket) -> Begun {
        let Some(region) = &self.0.region else { return Begun::First(claim) };
        let mut looks = interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let deadline = Instant::now() + WAIT;
        while Instant::now() < deadline {
            looks.tick().await;
            match claim.ask(region).await {
                Some(Claimed::First) | None => return Begun::First(claim),
                Some(Claimed::Done(sealed)) => {
                    // One that cannot be opened is none: this process is on its own.
                    let Some(reply) = ticket.open(&sealed) else { return Begun::First(claim) };
                    let (reply, scope) = (Bytes::from(reply), Scope::Region);
                    claim.keep(reply.clone());
                    return Begun::Again(Remembered { reply, scope });
                }
                Some(Claimed::Other) => return Begun::Refused(Refusal::Reused, Scope::Region),
                Some(Claimed::Pending) => {}
            }
        }
        Begun::Refused(Refusal::InProgress, Scope::Region)
    }
}

impl Shared {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        // Held for bookkeeping only, never across an await.
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        self.clock.now().monotonic_ms()
    }

    /// A number that no other claim has.
    fn next_claimant(&self) -> u128 {
        // ORDER: relaxed. Only the additions must not be lost.
        let turn = self.claims.fetch_add(1, Ordering::Relaxed);
        (u128::from(self.seed) << 64) | u128::from(turn)
    }
}

impl fmt::Debug for Idempotency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The names are made with a secret.
        f.debug_struct("Idempotency").field("counts", &self.counts()).finish_non_exhaustive()
    }
}
