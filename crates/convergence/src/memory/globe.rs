//! A global store in memory: the model that every driver is tested against, and what the simulator
//! breaks in the ways a real one breaks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use crate::global::{
    Batch, CALL_ROWS_MAX, GlobalCall, GlobalCalling, GlobalError, GlobalReply, GlobalStore, Import,
    NAME_LAPSE_MS, RegionName, Row,
};

/// The feed and the names of regions.
///
/// ```
/// use tidegate_convergence::{GlobalCall, GlobalReply, MemoryGlobe, RegionName};
///
/// let mut globe = MemoryGlobe::default();
/// let register = GlobalCall::Register { name: RegionName::new("eu")?, identity: 7 };
/// let registered = GlobalReply::Registered { regions: 1 };
/// assert_eq!(globe.call(&register, 0), Ok(registered));
/// // Another region of this name has another identity.
/// let clash = GlobalCall::Register { name: RegionName::new("eu")?, identity: 8 };
/// assert!(globe.call(&clash, 1_000).is_err());
/// # Ok::<(), tidegate_convergence::RegionNameError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct MemoryGlobe {
    regions: BTreeMap<RegionName, Registered>,
    rows: BTreeMap<u64, Batch>,
    last_id: u64,
    /// The largest id of a row that ever was visible.
    visible_id: u64,
}

#[derive(Clone, Copy, Debug)]
struct Registered {
    identity: u128,
    /// `None` if the name was given back.
    seen_ms: Option<u64>,
}

impl MemoryGlobe {
    /// Answers a call at a moment of the store's own clock. The [type](Self) has an example.
    ///
    /// # Errors
    /// [`GlobalError::NameTaken`] to a region whose name another one uses, and
    /// [`GlobalError::Refused`] to an import that [is not sound](Import::is_sound).
    pub fn call(&mut self, call: &GlobalCall, now_ms: u64) -> Result<GlobalReply, GlobalError> {
        Ok(match call {
            GlobalCall::Register { name, identity } => self.register(name, *identity, now_ms)?,
            GlobalCall::Release { name, identity } => {
                if let Some(region) = self.regions.get_mut(name)
                    && region.identity == *identity
                {
                    region.seen_ms = None;
                }
                GlobalReply::Released
            }
            GlobalCall::Publish(batch) => {
                let id = self.begin();
                self.commit(id, batch.clone());
                GlobalReply::Published { id }
            }
            GlobalCall::Import(import) if !import.is_sound() => {
                let why = "an import asks about too many gaps";
                return Err(GlobalError::Refused(why.to_owned()));
            }
            GlobalCall::Import(import) => GlobalReply::Imported(self.import(import)),
            GlobalCall::Trim { region, up_to, written_before_ms, rows_max } => {
                self.delete(*rows_max, |id, batch| {
                    let old = id <= *up_to && batch.written_ms < *written_before_ms;
                    old && batch.region == *region
                })
            }
            GlobalCall::Collect { expired_before_ms, rows_max } => {
                self.delete(*rows_max, |_, batch| batch.expires_ms < *expired_before_ms)
            }
        })
    }

    /// Takes the next id, for a row that becomes visible when it is committed, or never.
    ///
    /// ```
    /// use tidegate_convergence::{Batch, GlobalCall, GlobalReply, MemoryGlobe, RegionNumber};
    ///
    /// let (region, repeats, payload) = (RegionNumber(7), false, vec![1]);
    /// let batch = Batch { region, repeats, nonce: 1, written_ms: 0, expires_ms: 60_000, payload };
    /// let mut globe = MemoryGlobe::default();
    /// let late = globe.begin();
    /// let published = globe.call(&GlobalCall::Publish(batch.clone()), 0);
    /// assert_eq!(published, Ok(GlobalReply::Published { id: late + 1 }));
    /// assert!(!globe.rows().contains_key(&late), "a gap");
    /// globe.commit(late, batch);
    /// assert_eq!(globe.rows().len(), 2);
    /// ```
    pub fn begin(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// Makes a row visible. [`begin`](Self::begin) has an example.
    pub fn commit(&mut self, id: u64, batch: Batch) {
        self.visible_id = self.visible_id.max(id);
        self.rows.insert(id, batch);
    }

    /// What a replica has that heard of everything that is visible, and of nothing else: if it
    /// takes over, it gives ids of rows that were begun and not committed to others.
    ///
    /// ```
    /// use tidegate_convergence::{Batch, GlobalCall, GlobalReply, MemoryGlobe, RegionNumber};
    ///
    /// let (region, repeats, payload) = (RegionNumber(7), false, vec![1]);
    /// let batch = Batch { region, repeats, nonce: 1, written_ms: 0, expires_ms: 60_000, payload };
    /// let mut globe = MemoryGlobe::default();
    /// let late = globe.begin();
    /// let mut replica = globe.replica();
    /// let published = replica.call(&GlobalCall::Publish(batch), 0);
    /// assert_eq!(published, Ok(GlobalReply::Published { id: late }));
    /// ```
    #[must_use]
    pub fn replica(&self) -> Self {
        Self { last_id: self.visible_id, ..self.clone() }
    }

    /// The rows, by id. [`begin`](Self::begin) has an example.
    #[must_use]
    pub const fn rows(&self) -> &BTreeMap<u64, Batch> {
        &self.rows
    }

    fn register(
        &mut self,
        name: &RegionName,
        identity: u128,
        now_ms: u64,
    ) -> Result<GlobalReply, GlobalError> {
        let fresh = Registered { identity, seen_ms: None };
        let region = self.regions.entry(name.clone()).or_insert(fresh);
        if region.identity != identity
            && let Some(seen_ms) = region.seen_ms
        {
            let seen_ms_ago = now_ms.saturating_sub(seen_ms);
            if seen_ms_ago < NAME_LAPSE_MS {
                return Err(GlobalError::NameTaken { seen_ms_ago });
            }
        }
        (region.identity, region.seen_ms) = (identity, Some(now_ms));
        let regions = u32::try_from(self.regions.len()).unwrap_or(u32::MAX);
        Ok(GlobalReply::Registered { regions })
    }

    fn import(&self, import: &Import) -> Vec<Row> {
        let gaps = import.gaps.iter().filter_map(|id| self.rows.get_key_value(id));
        let mut found: Vec<_> = gaps.chain(self.rows.range(import.from..)).collect();
        found.sort_unstable_by_key(|(id, _)| **id);
        found.dedup_by_key(|(id, _)| **id);
        let row = |(id, batch): (&u64, &Batch)| {
            let unasked = *id == import.from || batch.repeats && !import.repeats;
            let payload = if unasked { Vec::new() } else { batch.payload.clone() };
            Row { id: *id, batch: Batch { payload, ..batch.clone() } }
        };
        found.into_iter().take(import.rows_max.min(CALL_ROWS_MAX)).map(row).collect()
    }

    fn delete(&mut self, most: usize, which: impl Fn(u64, &Batch) -> bool) -> GlobalReply {
        let last = self.rows.keys().next_back().copied();
        let chosen =
            self.rows.iter().filter(|(id, batch)| Some(**id) != last && which(**id, batch));
        let ids: Vec<u64> = chosen.map(|(id, _)| *id).take(most.min(CALL_ROWS_MAX)).collect();
        for id in &ids {
            self.rows.remove(id);
        }
        GlobalReply::Deleted { rows: ids.len() as u64 }
    }
}

/// A [`MemoryGlobe`] that several limiters of one process share: for tests of what is built on a
/// global store, without one.
///
/// ```
/// use std::task::{Context, Poll, Waker};
///
/// use tidegate_convergence::{
///     GlobalCall, GlobalReply, GlobalStore, Import, MemoryGlobalStore,
/// };
///
/// let store = MemoryGlobalStore::new(|| 1_700_000_000_000);
/// let call = GlobalCall::Import(Import { from: 0, gaps: vec![], repeats: true, rows_max: 10 });
/// let mut context = Context::from_waker(Waker::noop());
/// let answered = store.call(&call).as_mut().poll(&mut context);
/// assert_eq!(answered, Poll::Ready(Ok(GlobalReply::Imported(vec![]))), "it waits for nobody");
/// assert!(store.with(|globe| globe.rows().is_empty()));
/// ```
pub struct MemoryGlobalStore {
    globe: Mutex<MemoryGlobe>,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

impl MemoryGlobalStore {
    /// A store with this clock, in milliseconds. The [type](Self) has an example.
    #[must_use]
    pub fn new(clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self { globe: Mutex::default(), clock: Box::new(clock) }
    }

    /// Looks into the store, or breaks it. The [type](Self) has an example.
    pub fn with<R>(&self, look: impl FnOnce(&mut MemoryGlobe) -> R) -> R {
        look(&mut self.globe.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl fmt::Debug for MemoryGlobalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryGlobalStore").finish_non_exhaustive()
    }
}

impl GlobalStore for MemoryGlobalStore {
    fn call<'a>(&'a self, call: &'a GlobalCall) -> GlobalCalling<'a> {
        let reply = self.with(|globe| globe.call(call, (self.clock)()));
        Box::pin(std::future::ready(reply))
    }
}
