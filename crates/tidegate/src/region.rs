//! Carries a process's conversation with its region: the state machine says what to do, this does
//! it on a tokio runtime.
//!
//! Every call to a store is a task of its own, so that a caller who goes away cancels nothing
//! that others wait for. The lock is held for bookkeeping only, never across an await. The
//! conversation with other regions lives beside it, under the same lock: see `globe`.

mod ask;
mod globe;
mod patience;

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_convergence::{
    Answered, Asked as AskedFor, CallId, Effect, Globe, GlobeCounts, GlobeEffect, Granted, Outcome,
    Refresh, Region, RegionCounts, RegionalStore, ShardCall, StoreError, Tuning, Waiter,
};
use tidegate_limiter::{Asking, Need, Now, Table, Ticket};
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::{AbortHandle, yield_now};
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::clock::Clock;

pub use ask::{RegionCell, RegionView};
pub(crate) use globe::Abroad;
pub(crate) use patience::Patience;

/// How long the conversation rests when nothing is to be done; it is woken before, if something
/// is.
const IDLE: Duration = Duration::from_secs(1);

/// How long it rests after a step that panicked: one that always does must not spin.
const PANIC_REST: Duration = Duration::from_secs(1);

/// A patience that no clock can add up is taken for this one.
const LONG: Duration = Duration::from_secs(31 * 24 * 3_600);

/// A conversation under way. Dropping it ends it.
pub(crate) struct Conversation {
    shared: Arc<Shared>,
    keeper: AbortHandle,
    /// Under which a region that is this process alone publishes.
    identity: Option<u128>,
}

struct Shared {
    table: Arc<Table>,
    clock: Arc<dyn Clock>,
    store: Arc<dyn RegionalStore>,
    abroad: Option<Abroad>,
    runtime: Handle,
    deadline: Duration,
    state: Mutex<State>,
    /// There is something to tell.
    wake: Arc<Notify>,
    /// Something was recorded.
    landed: Notify,
}

struct State {
    region: Region,
    /// Until it is released at the end.
    globe: Option<Globe>,
    /// What it had counted then.
    globe_counts: GlobeCounts,
    waiting: BTreeMap<Waiter, oneshot::Sender<Outcome>>,
}

/// What both state machines want done.
#[must_use]
struct Work {
    region: Vec<Effect>,
    globe: Vec<GlobeEffect>,
    /// Callers whose waits are over.
    woken: Vec<(oneshot::Sender<Outcome>, Outcome)>,
}

/// Who waits, and for what.
type Asked = (Waiter, oneshot::Receiver<Outcome>);

/// What a wait came to.
pub(crate) enum Heard {
    /// Everything was answered, but for these.
    But(Vec<Ticket>),
    /// What was found under way was too old, or what was asked for does not fit: look again.
    LookAgain,
    /// What was asked for is granted, and admitted.
    Granted,
    /// The region did not say whether it grants what was asked for: it is admitted, or denied.
    Unheard,
    /// What was asked for is in several shards; these have to be read instead.
    Apart(Vec<Need>),
    /// These have to be read before they are asked for.
    ReadFirst(Vec<Need>),
}

/// What was left undone when a limiter was drained: see [`Limiter::drain`](crate::Limiter::drain).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Drained {
    /// Cost that was admitted and that the region has not recorded. It is forgotten when the
    /// process ends.
    pub unreplayed_cost: u64,
    /// Subjects it belongs to.
    pub subjects: u64,
    /// Totals that the other regions should have been told of and were not. If the region is this
    /// process alone they are forgotten too; otherwise its other processes may still tell.
    pub unpublished: u64,
}

impl Conversation {
    pub(crate) fn start(
        table: Arc<Table>,
        clock: Arc<dyn Clock>,
        (store, abroad): (Arc<dyn RegionalStore>, Option<Abroad>),
        (tuning, incarnation): (Tuning, u128),
        (wake, runtime): (Arc<Notify>, Handle),
    ) -> Self {
        let mut region = Region::new(tuning, incarnation, store.shards());
        let globe = abroad.as_ref().map(|abroad| {
            region.watch_growth();
            abroad.begin(&table, incarnation, store.shards())
        });
        let private = abroad.as_ref().is_some_and(|abroad| abroad.options.private);
        let identity = globe.as_ref().filter(|_| private).map(Globe::identity);
        let globe_counts = GlobeCounts::default();
        let state = State { region, globe, globe_counts, waiting: BTreeMap::new() };
        let shared = Arc::new(Shared {
            table,
            clock,
            store,
            abroad,
            runtime,
            deadline: Duration::from_millis(tuning.deadline_ms),
            state: Mutex::new(state),
            wake,
            landed: Notify::new(),
        });
        let keeper = shared.runtime.spawn(Arc::clone(&shared).keep()).abort_handle();
        Self { shared, keeper, identity }
    }

    /// Under which identity this process publishes, if its region is nobody but it: then no
    /// regional store remembers what it admitted.
    pub(crate) const fn private_identity(&self) -> Option<u128> {
        self.identity
    }

    /// How long a caller waits that arrives now.
    pub(crate) fn patience(&self) -> Patience {
        Patience::until(Instant::now() + self.shared.deadline)
    }

    /// Asks the region about these subjects and waits for the answer, but not for longer than
    /// its patience lasts.
    pub(crate) async fn refresh(&self, needs: &[Need], patience: &mut Patience) -> Heard {
        let all = || needs.iter().map(|need| need.subject).collect();
        let (waiter, outcome) = match self.shared.ask(needs, patience.since) {
            Ok(asked) => asked,
            Err(None) => return Heard::But(all()),
            Err(Some(ended)) => {
                patience.rest().await;
                return ended;
            }
        };
        patience.since.get_or_insert(waiter);
        let until = patience.until;
        let waits = Leaving { shared: &self.shared, waiter };
        match timeout_at(until, outcome).await {
            Ok(Ok(Outcome { unheard, look_again, .. })) => {
                waits.end();
                if look_again { Heard::LookAgain } else { Heard::But(unheard) }
            }
            Ok(Err(_)) | Err(_) => {
                drop(waits);
                Heard::But(all())
            }
        }
    }

    /// Asks the region for what is claimed and waits for the answer, but not for longer than
    /// its patience lasts. Whatever comes of it, the claims have ended.
    pub(crate) async fn ask(&self, asking: Asking, patience: &mut Patience) -> Heard {
        let (waiter, mut outcome) = match self.shared.ask_for(asking, patience.left_ms()) {
            Ok(asked) => asked,
            Err(ended) => return ended,
        };
        patience.since.get_or_insert(waiter);
        let until = patience.until;
        let waits = Leaving { shared: &self.shared, waiter };
        let answered = match timeout_at(until, &mut outcome).await {
            Ok(answered) => answered,
            Err(_) if waits.give_up() => return Heard::Unheard,
            // It ended at this very moment: whoever ended it is about to say how.
            Err(_) => outcome.await,
        };
        let heard = match answered.ok().and_then(|outcome| outcome.granted) {
            Some(Granted::Yes) => Heard::Granted,
            Some(Granted::Unheard) => Heard::Unheard,
            Some(Granted::No) => Heard::LookAgain,
            None if waits.give_up() => Heard::Unheard,
            None => Heard::LookAgain,
        };
        waits.end();
        heard
    }

    /// In bounded time: callers wait for the same lock.
    pub(crate) fn counts(&self) -> RegionCounts {
        let (state, now) = (self.shared.lock(), self.shared.clock.now());
        let mut counts = state.region.glance(&self.shared.table);
        counts.unrecorded_age_ms = state.region.unrecorded_age_ms(now);
        counts
    }

    /// Sends everything that is not recorded or published yet, and waits until it is or `patience`
    /// is over.
    pub(crate) async fn drain(&self, patience: Duration) -> Drained {
        // Whoever waits for ever waits for a month.
        let end = Instant::now() + patience.min(LONG);
        self.shared.lock().region.drain(self.shared.clock.now());
        loop {
            let landed = self.shared.landed.notified();
            self.shared.wake.notify_one();
            if self.is_clean() || timeout_at(end, landed).await.is_err() {
                break;
            }
        }
        let unpublished = self.drain_globe(end).await;
        let counts = self.shared.lock().region.counts(&self.shared.table);
        Drained { unreplayed_cost: counts.unreplayed_cost, subjects: counts.dirty, unpublished }
    }

    /// Whether everything is recorded, with what was admitted a moment ago.
    fn is_clean(&self) -> bool {
        self.shared.tick();
        self.shared.lock().region.is_clean()
    }
}

impl Drop for Conversation {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conversation").field("store", &self.shared.store).finish_non_exhaustive()
    }
}

/// A caller that waits; when it goes away, nobody has to tell it anything.
struct Leaving<'a> {
    shared: &'a Arc<Shared>,
    waiter: Waiter,
}

impl Leaving<'_> {
    /// It has heard what it waited for: there is nothing to leave.
    fn end(self) {
        std::mem::forget(self);
    }

    /// What is claimed is admitted or charged. Says whether that is so: it may have ended already.
    fn give_up(&self) -> bool {
        let (gave_up, work) = {
            let (mut state, now) = (self.shared.lock(), self.shared.clock.now());
            let gave_up = state.region.give_up(&self.shared.table, self.waiter, now);
            if gave_up {
                state.waiting.remove(&self.waiter);
            }
            (gave_up, state.take_work(&self.shared.table, now))
        };
        self.shared.perform(work);
        gave_up
    }
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        let work = {
            let (mut state, now) = (self.shared.lock(), self.shared.clock.now());
            if state.waiting.remove(&self.waiter).is_none() {
                return;
            }
            state.region.leave(&self.shared.table, self.waiter, now);
            state.take_work(&self.shared.table, now)
        };
        self.shared.perform(work);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what is due, when it is due, for as long as the limiter lives.
    async fn keep(self: Arc<Self>) {
        loop {
            let woken = self.wake.notified();
            // A mistake in one step must not end all the others: totals are sent again.
            let Ok(next) = catch_unwind(AssertUnwindSafe(|| self.tick())) else {
                sleep_until(Instant::now() + PANIC_REST).await;
                continue;
            };
            // A timer rings at whole milliseconds: who has more to do waits for none.
            if next > Instant::now() {
                let _ = timeout_at(next, woken).await;
            }
            // Whoever else is ready on this thread comes first. So a step that was not enough holds
            // nobody up, and the more callers there are, the more of them one step is for.
            yield_now().await;
        }
    }

    /// Returns when there is something to do again.
    fn tick(self: &Arc<Self>) -> Instant {
        let now = self.clock.now();
        let (work, next_ms) = {
            let mut state = self.lock();
            state.region.tick(&self.table, now);
            state.tell_globe(&self.table, now);
            if let Some(globe) = &mut state.globe {
                globe.tick(&self.table, now);
            }
            (state.take_work(&self.table, now), state.next_tick_ms())
        };
        self.perform(work);
        let rest_ms = next_ms.map(|next_ms| next_ms.saturating_sub(now.monotonic_ms()));
        Instant::now() + rest_ms.map_or(IDLE, Duration::from_millis).min(IDLE)
    }

    /// Asks, or says what came of it at once; `None` if the region is not asked now.
    fn ask(
        self: &Arc<Self>,
        needs: &[Need],
        since: Option<Waiter>,
    ) -> Result<Asked, Option<Heard>> {
        let now = self.clock.now();
        let (asked, work) = {
            let mut state = self.lock();
            if let Some(globe) = &mut state.globe {
                // What other regions used counts from the first decision on.
                globe.adopt_all(&self.table, needs.iter().map(|need| need.subject), now);
            }
            let region = &mut state.region;
            let refresh = match since {
                None => region.refresh(&self.table, needs, now),
                Some(since) => region.refresh_again(&self.table, needs, since, now),
            };
            let asked = match refresh {
                Refresh::Refused => Err(None),
                Refresh::LookAgain => Err(Some(Heard::LookAgain)),
                Refresh::Wait(waiter) => Ok(state.wait(waiter)),
            };
            (asked, state.take_work(&self.table, now))
        };
        self.perform(work);
        asked
    }

    /// Asks for what is claimed, or says what came of it at once.
    fn ask_for(self: &Arc<Self>, asking: Asking, left_ms: u64) -> Result<Asked, Heard> {
        let now = self.clock.now();
        let needs: Vec<Need> = asking.wanted().map(Need::from).collect();
        let (asked, work) = {
            let mut state = self.lock();
            if let Some(globe) = &mut state.globe {
                globe.adopt_all(&self.table, needs.iter().map(|need| need.subject), now);
            }
            let asked = match state.region.ask_within(&self.table, asking, left_ms, now) {
                AskedFor::Wait(waiter) => Ok(state.wait(waiter)),
                AskedFor::Unheard => Err(Heard::Unheard),
                AskedFor::LookAgain => Err(Heard::LookAgain),
                AskedFor::Apart => Err(Heard::Apart(needs)),
                AskedFor::ReadFirst => Err(Heard::ReadFirst(needs)),
            };
            (asked, state.take_work(&self.table, now))
        };
        self.perform(work);
        asked
    }

    fn perform(self: &Arc<Self>, work: Work) {
        self.perform_globe(work.globe);
        for effect in work.region {
            match effect {
                Effect::Call { id, call, timeout_ms } => {
                    let timeout = Duration::from_millis(timeout_ms);
                    let ending = Ending { shared: Arc::clone(self), id, ended: false };
                    self.runtime.spawn(ending.call(call, timeout));
                }
                // Taken with the rest.
                Effect::Wake { .. } => {}
                Effect::Reincarnate => self.reincarnate(),
            }
        }
        // Last: there may be thousands, and a call that is to be made waits for nobody.
        for (sender, outcome) in work.woken {
            // Who does not wait any longer need not hear it.
            let _ = sender.send(outcome);
        }
    }

    fn replied(self: &Arc<Self>, id: CallId, answered: Answered) {
        let work = {
            let (mut state, now) = (self.lock(), self.clock.now());
            state.region.replied(&self.table, id, answered, now);
            state.take_work(&self.table, now)
        };
        self.perform(work);
        self.landed.notify_waiters();
        // When there is something to do may have changed.
        self.wake.notify_one();
    }

    fn reincarnate(self: &Arc<Self>) {
        // A system that has no randomness any more leaves us with the name we have.
        let Ok(incarnation) = draw_incarnation() else { return };
        let work = {
            let mut state = self.lock();
            state.region.reincarnate(&self.table, incarnation, self.clock.now());
            state.take_work(&self.table, self.clock.now())
        };
        self.perform(work);
    }
}

/// A random identity, from the operating system.
pub(crate) fn draw_incarnation() -> Result<u128, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(u128::from_ne_bytes(bytes))
}

/// A call that ends in one way or another: also if the store panics or the runtime is gone, or
/// those who wait for it would wait for ever.
struct Ending {
    shared: Arc<Shared>,
    id: CallId,
    ended: bool,
}

impl Ending {
    async fn call(mut self, call: ShardCall, patience: Duration) {
        let answered = timeout(patience, self.shared.store.call(&call)).await;
        self.ended = true;
        self.shared.replied(self.id, answered.unwrap_or(Err(StoreError::Timeout)));
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if !self.ended {
            let why = "the call ended without an answer".to_owned();
            self.shared.replied(self.id, Err(StoreError::Unreachable(why)));
        }
    }
}

impl State {
    fn wait(&mut self, waiter: Waiter) -> Asked {
        let (sender, receiver) = oneshot::channel();
        self.waiting.insert(waiter, sender);
        (waiter, receiver)
    }

    /// Takes what has to be done, when all that happened is told.
    fn take_work(&mut self, table: &Table, now: Now) -> Work {
        self.tell_globe(table, now);
        let mut work = Work { region: Vec::new(), globe: Vec::new(), woken: Vec::new() };
        self.region.take_effects(&mut work.region);
        for effect in &mut work.region {
            if let Effect::Wake { waiter, outcome } = effect
                && let Some(sender) = self.waiting.remove(waiter)
            {
                work.woken.push((sender, std::mem::take(outcome)));
            }
        }
        if let Some(globe) = &mut self.globe {
            globe.take_effects(&mut work.globe);
        }
        work
    }

    /// When there is something to do.
    fn next_tick_ms(&self) -> Option<u64> {
        let globe_ms = self.globe.as_ref().map(Globe::next_tick_ms);
        self.region.next_tick_ms().into_iter().chain(globe_ms).min()
    }
}
