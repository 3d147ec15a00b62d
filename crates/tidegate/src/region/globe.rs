//! The conversation with other regions, carried on the same runtime as the one with the own.
//!
//! No request waits for anything here: what is known of other regions is told to the table, and
//! decisions read it there.

use std::sync::Arc;
use std::time::Duration;

use tidegate_convergence::{
    BoardCall, GlobalCall, GlobalError, GlobalStore, Globe, GlobeCounts, GlobeEffect, GlobeId,
    GlobeOptions, GlobeTuning, GlobeView, ShardCall, StoreError,
};
use tidegate_limiter::{Now, SubjectView, Table};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout, timeout_at};

use super::{Conversation, Shared, State};

/// What is beyond the own region.
pub(crate) struct Abroad {
    pub(crate) store: Arc<dyn GlobalStore>,
    pub(crate) options: GlobeOptions,
    pub(crate) tuning: GlobeTuning,
    /// The identity of an earlier life.
    pub(crate) identity: Option<u128>,
}

impl Abroad {
    /// Begins to speak with the other regions.
    pub(super) fn begin(&self, table: &Table, incarnation: u128, shards: u16) -> Globe {
        let globe = Globe::new(self.tuning, self.options.clone(), incarnation, shards);
        let mut globe = match self.identity.filter(|_| self.options.private) {
            Some(identity) => globe.resuming(identity),
            None => globe,
        };
        globe.begin(table);
        globe
    }
}

impl State {
    /// What the region has recorded may be worth telling the others.
    pub(super) fn tell_globe(&mut self, table: &Table, now: Now) {
        let mut touched = Vec::new();
        self.region.take_touched(&mut touched);
        if let Some(globe) = self.globe.as_mut().filter(|_| !touched.is_empty()) {
            globe.touched(table, &touched, now);
        }
    }
}

impl Conversation {
    /// What was said to other regions; `None` if there are none.
    pub(crate) fn globe_counts(&self) -> Option<GlobeCounts> {
        self.shared.abroad.as_ref()?;
        let (state, now) = (self.shared.lock(), self.shared.clock.now());
        Some(state.globe.as_ref().map_or(state.globe_counts, |globe| globe.counts(now)))
    }

    /// What the regions have published of a subject; `None` if there are no others.
    pub(crate) fn globe_view(&self, subject: &SubjectView) -> Option<GlobeView> {
        let (state, cell) = (self.shared.lock(), (subject.digest, subject.window_ms));
        let globe = state.globe.as_ref()?;
        Some(globe.known(cell, subject.current.sequence, subject.now))
    }

    /// Publishes what should be, until `end`, and gives up what this process holds. Says how much
    /// is left. From then on nothing is said to other regions, and nothing heard.
    pub(super) async fn drain_globe(&self, end: Instant) -> u64 {
        let shared = &self.shared;
        if let Some(globe) = &mut shared.lock().globe {
            globe.drain(&shared.table, shared.clock.now());
        }
        loop {
            let landed = shared.landed.notified();
            shared.wake.notify_one();
            if self.is_globe_settled() || timeout_at(end, landed).await.is_err() {
                break;
            }
        }
        let unpublished = self.unpublished();
        let released = shared.release();
        let all = async {
            for ended in shared.perform_globe(released) {
                let _ = ended.await;
            }
        };
        let _ = timeout_at(end, all).await;
        unpublished
    }

    fn is_globe_settled(&self) -> bool {
        self.shared.tick();
        self.shared.lock().globe.as_ref().is_none_or(Globe::is_settled)
    }

    fn unpublished(&self) -> u64 {
        let (state, now) = (self.shared.lock(), self.shared.clock.now());
        let Some(globe) = state.globe.as_ref().filter(|globe| !globe.is_clean()) else { return 0 };
        let counts = globe.counts(now);
        // What is on its way is in neither, or in both.
        counts.unpublished.max(counts.pending).max(1)
    }
}

impl Shared {
    /// Ends the conversation; what is to be said last is returned.
    fn release(&self) -> Vec<GlobeEffect> {
        let (mut state, now) = (self.lock(), self.clock.now());
        let mut last = Vec::new();
        if let Some(mut globe) = state.globe.take() {
            // What it wanted before it does not want any more.
            globe.take_effects(&mut last);
            last.clear();
            globe.release(now);
            state.globe_counts = globe.counts(now);
            globe.take_effects(&mut last);
        }
        last
    }

    pub(super) fn perform_globe(
        self: &Arc<Self>,
        effects: Vec<GlobeEffect>,
    ) -> Vec<JoinHandle<()>> {
        let Some(abroad) = &self.abroad else { return Vec::new() };
        let mut tasks = Vec::new();
        for effect in effects {
            let ending = |id, kind| Ending { shared: Arc::clone(self), id, kind, ended: false };
            let spawned = match effect {
                GlobeEffect::Board { id, call, timeout_ms } => {
                    let ending = ending(id, Kind::Board);
                    self.runtime.spawn(ending.board(call, Duration::from_millis(timeout_ms)))
                }
                GlobeEffect::Region { id, call, timeout_ms } => {
                    let ending = ending(id, Kind::Region);
                    self.runtime.spawn(ending.region(call, Duration::from_millis(timeout_ms)))
                }
                GlobeEffect::Global { id, call, timeout_ms } => {
                    let (ending, store) = (ending(id, Kind::Global), Arc::clone(&abroad.store));
                    let patience = Duration::from_millis(timeout_ms);
                    self.runtime.spawn(ending.global(store, call, patience))
                }
            };
            tasks.push(spawned);
        }
        tasks
    }

    /// Tells the globe of an answer.
    fn globe_replied(self: &Arc<Self>, tell: impl FnOnce(&mut Globe, &Table, Now)) {
        let work = {
            let (mut state, now) = (self.lock(), self.clock.now());
            if let Some(globe) = &mut state.globe {
                tell(globe, &self.table, now);
            }
            state.take_work(&self.table, now)
        };
        self.perform(work);
        self.landed.notify_waiters();
        self.wake.notify_one();
    }
}

/// What was called.
#[derive(Clone, Copy)]
enum Kind {
    Board,
    Region,
    Global,
}

/// A call that ends in one way or another, also if a store panics or the runtime is gone.
struct Ending {
    shared: Arc<Shared>,
    id: GlobeId,
    kind: Kind,
    ended: bool,
}

impl Ending {
    async fn board(mut self, call: BoardCall, patience: Duration) {
        let answered = timeout(patience, self.shared.store.board(&call)).await;
        let answered = answered.unwrap_or(Err(StoreError::Timeout));
        let id = self.end();
        self.shared
            .globe_replied(|globe, table, now| globe.board_replied(table, id, answered, now));
    }

    async fn region(mut self, call: ShardCall, patience: Duration) {
        let answered = timeout(patience, self.shared.store.call(&call)).await;
        let answered = answered.unwrap_or(Err(StoreError::Timeout));
        let id = self.end();
        let tell = |globe: &mut Globe, table: &Table, now| {
            globe.region_replied(table, id, answered, now);
        };
        self.shared.globe_replied(tell);
    }

    async fn global(mut self, store: Arc<dyn GlobalStore>, call: GlobalCall, patience: Duration) {
        let answered = timeout(patience, store.call(&call)).await;
        let answered = answered.unwrap_or(Err(GlobalError::Timeout));
        let id = self.end();
        let tell = |globe: &mut Globe, table: &Table, now| {
            globe.global_replied(table, id, answered, now);
        };
        self.shared.globe_replied(tell);
    }

    fn end(&mut self) -> GlobeId {
        self.ended = true;
        self.id
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let (id, kind) = (self.id, self.kind);
        let why = "the call ended without an answer".to_owned();
        self.shared.globe_replied(|globe, table, now| match kind {
            Kind::Board => {
                globe.board_replied(table, id, Err(StoreError::Unreachable(why)), now);
            }
            Kind::Region => {
                globe.region_replied(table, id, Err(StoreError::Unreachable(why)), now);
            }
            Kind::Global => {
                globe.global_replied(table, id, Err(GlobalError::Unreachable(why)), now);
            }
        });
    }
}
