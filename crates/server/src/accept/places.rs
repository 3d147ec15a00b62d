//! Who may be connected: so many in all, so many from one address.
//!
//! Promises: when every place is taken, one connection is ended to make room, so sockets that only
//! sit there lock nobody out. Those that have never sent a valid key go first, then the others that
//! wait for nothing; of those that stand alike, the one that has been so for the longest time. A
//! connection that was taken in just now goes last. A body that has not arrived protects nobody.
//! Refuses: whoever has more connections than one address may have.
//! Fails: when every connection has a request that is being decided, the next client waits for one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

use super::activity::{Activity, Order, Standing};
use super::peer::Peer;
use super::tally::{Fate, Tally};

#[cfg(test)]
mod tests;

/// How soon it is looked again for a connection to end, when every one was deciding. Requests take
/// a millisecond as a rule, so the next look finds one.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// One look at all connections finds those that go next: one in so many. So making room looks at so
/// many connections each time, however many there are; with fewer than that, all of them.
const FOUND_AT_ONCE: usize = 64;

/// For how long it is right to end those that were found. In the meantime others may stand lower.
const FOUND_FOR_US: u64 = 100_000;

/// How many connections there may be.
///
/// ```
/// use clap::Parser;
/// use tidegate_server::cli::{Cli, Command};
///
/// let said = Cli::try_parse_from(["tidegate", "serve", "--connections-max", "7"])?;
/// let Command::Serve(args) = said.command else { unreachable!() };
/// let limits = args.transport.limits(1_024);
/// assert_eq!((limits.connections_max, limits.per_address_max), (7, 4), "half, rounded up");
/// # Ok::<(), clap::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In all.
    pub connections_max: u32,
    /// From one address.
    pub per_address_max: u32,
}

/// The connections that are open, and room for more.
#[derive(Debug)]
pub(super) struct Places {
    free: Arc<Semaphore>,
    start: Instant,
    taken: Mutex<Taken>,
    tally: Arc<Tally>,
}

#[derive(Debug)]
struct Taken {
    limits: Limits,
    /// Places that go with the connections that have them, because there may be fewer than there
    /// are. While there are such, no place is free.
    owed: usize,
    /// What every new connection is told.
    order: Order,
    next_number: u64,
    by_number: BTreeMap<u64, Arc<Activity>>,
    by_peer: BTreeMap<Peer, u32>,
    /// Who goes next, as of when it was last looked.
    found: VecDeque<Rank>,
    found_us: u64,
}

/// How a connection stands, since when, and its number. The lowest goes first.
type Rank = (Standing, u64, u64);

/// A place that is taken; free again when dropped.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) activity: Arc<Activity>,
    number: u64,
    peer: Peer,
    places: Arc<Places>,
    /// There until it is dropped.
    permit: Option<OwnedSemaphorePermit>,
}

impl Places {
    pub(super) fn new(limits: Limits) -> Self {
        let taken = Taken {
            limits,
            owed: 0,
            order: Order::Serve,
            next_number: 0,
            by_number: BTreeMap::new(),
            by_peer: BTreeMap::new(),
            found: VecDeque::new(),
            found_us: 0,
        };
        let free = Arc::new(Semaphore::new(limits.permits()));
        let tally = Arc::default();
        Self { free, start: Instant::now(), taken: Mutex::new(taken), tally }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn limits(&self) -> Limits {
        self.taken().limits
    }

    /// From here on there may be as many. If there are more, those go that stand lowest, and who
    /// has a request that is being decided goes on.
    pub(super) fn set_limits(&self, limits: Limits) {
        let mut taken = self.taken();
        let (was, is) = (taken.limits.permits(), limits.permits());
        taken.limits = limits;
        let fewer = was.saturating_sub(is);
        let forgotten = self.free.forget_permits(fewer);
        taken.owed = taken.owed.saturating_add(fewer.saturating_sub(forgotten));
        // What is owed is taken from what comes.
        let more = is.saturating_sub(was);
        let kept = taken.owed.min(more);
        taken.owed = taken.owed.saturating_sub(kept);
        self.free.add_permits(more.saturating_sub(kept));
        let too_many = taken.owed;
        drop(taken);
        for _ in 0..too_many {
            self.evict();
        }
    }

    pub(super) const fn tally(&self) -> &Arc<Tally> {
        &self.tally
    }

    /// How many are open.
    pub(super) fn open(&self) -> usize {
        self.taken().by_number.len()
    }

    /// How many have no request in flight.
    #[cfg(test)]
    pub(super) fn idle_count(&self) -> usize {
        self.taken().by_number.values().filter(|it| !it.is_busy()).count()
    }

    /// A place for a connection from `peer`; none if it has as many as it may have.
    ///
    /// # Cancel safety
    /// Nothing is taken if it is dropped early; a connection that was ended stays so.
    pub(super) async fn claim(self: &Arc<Self>, peer: Peer) -> Option<Place> {
        if self.taken().is_full(peer) {
            self.tally.note(Fate::OverAddress);
            return None;
        }
        let permit = self.permit().await?;
        let mut taken = self.taken();
        let number = taken.next_number;
        taken.next_number = number.wrapping_add(1);
        let activity = Arc::new(Activity::new(self.start, taken.order));
        taken.by_number.insert(number, Arc::clone(&activity));
        let of_peer = taken.of(peer).saturating_add(1);
        taken.by_peer.insert(peer, of_peer);
        drop(taken);
        Some(Place { activity, number, peer, places: Arc::clone(self), permit: Some(permit) })
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

    /// Ends the connection that stands lowest, if there is one that can make room.
    pub(super) fn evict(&self) {
        let now_us = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let lowest = self.taken().lowest(now_us);
        if let Some(lowest) = lowest {
            lowest.order(Order::Evict);
        }
    }

    /// Tells every connection, and those to come.
    pub(super) fn order_all(&self, order: Order) {
        let mut taken = self.taken();
        taken.order = taken.order.max(order);
        for activity in taken.by_number.values() {
            activity.order(order);
        }
    }

    /// Waits until nobody is connected.
    pub(super) async fn empty(&self) {
        // The places are never closed.
        let all = self.limits().connections_max;
        let _ = self.free.acquire_many(all).await;
    }
}

impl Limits {
    fn permits(self) -> usize {
        let permits = usize::try_from(self.connections_max).unwrap_or(Semaphore::MAX_PERMITS);
        permits.min(Semaphore::MAX_PERMITS)
    }
}

impl Taken {
    /// Whether it has as many as it may have.
    fn is_full(&self, peer: Peer) -> bool {
        self.of(peer) >= self.limits.per_address_max
    }

    fn of(&self, peer: Peer) -> u32 {
        self.by_peer.get(&peer).copied().unwrap_or_default()
    }

    /// Who goes next.
    fn lowest(&mut self, now_us: u64) -> Option<Arc<Activity>> {
        if now_us.saturating_sub(self.found_us) > FOUND_FOR_US {
            self.found.clear();
        }
        // The second round is after a look, and then the first of those found is right.
        for _ in 0..2 {
            while let Some((standing, since_us, number)) = self.found.pop_front() {
                let Some(activity) = self.by_number.get(&number) else { continue };
                if activity.standing(now_us) == Some((standing, since_us)) {
                    return Some(Arc::clone(activity));
                }
            }
            self.look(now_us);
        }
        None
    }

    /// Looks at all connections, and notes those that go next.
    fn look(&mut self, now_us: u64) {
        let rank = |(number, activity): (&u64, &Arc<Activity>)| {
            let (standing, since_us) = activity.standing(now_us)?;
            Some((standing, since_us, *number))
        };
        let mut ranks: Vec<Rank> = self.by_number.iter().filter_map(rank).collect();
        let kept = ranks.len().div_ceil(FOUND_AT_ONCE);
        if kept < ranks.len() {
            ranks.select_nth_unstable(kept);
            ranks.truncate(kept);
        }
        ranks.sort_unstable();
        (self.found, self.found_us) = (ranks.into(), now_us);
    }

    fn leave(&mut self, number: u64, peer: Peer) {
        self.by_number.remove(&number);
        match self.of(peer) {
            0 | 1 => self.by_peer.remove(&peer),
            several => self.by_peer.insert(peer, several.saturating_sub(1)),
        };
    }
}

impl Place {
    pub(super) fn tally(&self) -> &Arc<Tally> {
        self.places.tally()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.activity.is_evicted() {
            self.tally().note(Fate::Evicted);
        }
        let mut taken = self.places.taken();
        taken.leave(self.number, self.peer);
        let permit = self.permit.take();
        match taken.owed.checked_sub(1) {
            Some(owed) => {
                taken.owed = owed;
                permit.into_iter().for_each(OwnedSemaphorePermit::forget);
            }
            // Before another look at what is owed.
            None => drop(permit),
        }
    }
}
