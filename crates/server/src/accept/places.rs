//! Who may be connected: so many in all, so many from one address.
//!
//! Promises: when every place is taken, the connection that has been without a request for the
//! longest time is ended to make room, so sockets that only sit there lock nobody out.
//! Refuses: whoever has more connections than one address may have.
//! Fails: when every connection has a request in flight, the next client waits for one to end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::activity::{Activity, Order};
use super::peer::Peer;

#[cfg(test)]
mod tests;

/// How soon it is looked again for a connection to end, when every one had a request in flight.
/// Requests take a millisecond as a rule, so the next look finds one.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// In all.
    pub connections_max: u32,
    /// From one address.
    pub per_address_max: u32,
}

/// The connections that are open, and room for more.
#[derive(Debug)]
pub(super) struct Places {
    limits: Limits,
    free: Arc<Semaphore>,
    start: Instant,
    taken: Mutex<Taken>,
}

#[derive(Debug)]
struct Taken {
    /// What every new connection is told.
    order: Order,
    next_number: u64,
    by_number: BTreeMap<u64, Seat>,
    by_peer: BTreeMap<Peer, u32>,
    /// Who has been idle for long, as of when it was last looked at: (`noted_us`, number). A
    /// connection that was busy since then stands too early here, never too late.
    by_rest: BTreeSet<(u64, u64)>,
}

#[derive(Debug)]
struct Seat {
    activity: Arc<Activity>,
    noted_us: u64,
}

/// A place that is taken; free again when dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) activity: Arc<Activity>,
    number: u64,
    peer: Peer,
    places: Arc<Places>,
    _permit: OwnedSemaphorePermit,
}

impl Places {
    pub(super) fn new(limits: Limits) -> Self {
        let permits = usize::try_from(limits.connections_max).unwrap_or(Semaphore::MAX_PERMITS);
        let taken = Taken {
            order: Order::Serve,
            next_number: 0,
            by_number: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            by_rest: BTreeSet::new(),
        };
        let free = Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        Self { limits, free, start: Instant::now(), taken: Mutex::new(taken) }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many are open.
    pub(super) fn open(&self) -> usize {
        self.taken().by_number.len()
    }

    /// How many have no request in flight.
    #[cfg(test)]
    pub(super) fn idle_count(&self) -> usize {
        self.taken().by_number.values().filter(|seat| !seat.activity.is_busy()).count()
    }

    /// A place for a connection from `peer`; none if it has as many as it may have.
    ///
    /// # Cancel safety
    /// Nothing is taken if it is dropped early; a connection that was ended stays so.
    pub(super) async fn claim(self: &Arc<Self>, peer: Peer) -> Option<Place> {
        if self.taken().of(peer) >= self.limits.per_address_max {
            return None;
        }
        let permit = self.permit().await?;
        let mut taken = self.taken();
        let number = taken.next_number;
        taken.next_number = number.wrapping_add(1);
        let activity = Arc::new(Activity::new(self.start, taken.order));
        let noted_us = activity.now_us();
        taken.by_number.insert(number, Seat { activity: Arc::clone(&activity), noted_us });
        taken.by_rest.insert((noted_us, number));
        let of_peer = taken.of(peer).saturating_add(1);
        taken.by_peer.insert(peer, of_peer);
        drop(taken);
        Some(Place { activity, number, peer, places: Arc::clone(self), _permit: permit })
    }

    async fn permit(&self) -> Option<OwnedSemaphorePermit> {
        if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
            return Some(permit);
        }
        loop {
            self.evict();
            let freed = Arc::clone(&self.free).acquire_owned();
            if let Ok(permit) = timeout(LOOK_AGAIN, freed).await {
                // The places are never closed.
                return permit.ok();
            }
        }
    }

    /// Ends the connection that has been idle for the longest time, if there is one.
    pub(super) fn evict(&self) {
        let longest = self.taken().longest_idle();
        if let Some(longest) = longest {
            longest.order(Order::Evict);
        }
    }

    /// Tells every connection, and those to come.
    pub(super) fn order_all(&self, order: Order) {
        let mut taken = self.taken();
        taken.order = taken.order.max(order);
        for seat in taken.by_number.values() {
            seat.activity.order(order);
        }
    }

    /// Waits until nobody is connected.
    pub(super) async fn empty(&self) {
        // The places are never closed.
        let _ = self.free.acquire_many(self.limits.connections_max).await;
    }
}

impl Taken {
    fn of(&self, peer: Peer) -> u32 {
        self.by_peer.get(&peer).copied().unwrap_or_default()
    }

    /// Who has been idle for the longest time. It is not looked at again: it has to go.
    fn longest_idle(&mut self) -> Option<Arc<Activity>> {
        // Who is busy or was busy lately goes back behind. After one round all stand where they
        // belong, so the second finds whoever is idle.
        for _ in 0..self.by_rest.len().saturating_mul(2) {
            let (noted_us, number) = self.by_rest.pop_first()?;
            let Some(seat) = self.by_number.get_mut(&number) else { continue };
            let idle_since_us = seat.activity.idle_since_us();
            if idle_since_us.is_some_and(|since_us| since_us <= noted_us) {
                return Some(Arc::clone(&seat.activity));
            }
            seat.noted_us = idle_since_us.unwrap_or_else(|| seat.activity.now_us());
            self.by_rest.insert((seat.noted_us, number));
        }
        None
    }

    fn leave(&mut self, number: u64, peer: Peer) {
        if let Some(seat) = self.by_number.remove(&number) {
            self.by_rest.remove(&(seat.noted_us, number));
        }
        match self.of(peer) {
            0 | 1 => self.by_peer.remove(&peer),
            several => self.by_peer.insert(peer, several.saturating_sub(1)),
        };
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken().leave(self.number, self.peer);
    }
}
