//! The control plane: who may call, what is limited, and for whom otherwise.
//!
//! Promises: a change that this process takes acts here at once, and one that another took within
//! two seconds; requests are answered from memory and never wait for the store, but for one that
//! names a namespace nobody named before, and that one not for long.
//! Fails: while the store is away everything that is known stays in force, changes are refused, and
//! a namespace that cannot be entered is limited all the same, without overrides.

pub(crate) mod directory;
pub(crate) mod overrides;
pub(crate) mod permission;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use tidegate::{Clock, GlobalError};
use tidegate_stores::control::{Change, Changes, ControlError, ControlStore};
use tokio::sync::Mutex;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval, timeout};

use crate::ids::{Kind, new_id};
use crate::metrics::Settings;
pub(crate) use directory::{Directory, Key, Namespace, Workspace};

#[cfg(test)]
pub(crate) mod tests;

/// How often the store is asked whether something changed. Four times within the two seconds that
/// are promised, at one small read.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
const _: () = assert!(4 * LOOK_INTERVAL.as_millis() <= 2_000, "two seconds are promised");

/// How long reading everything may take: a hundred thousand overrides take two seconds. The store
/// itself gives up sooner on each of its calls.
const LOOK_WITHIN: Duration = Duration::from_secs(300);
/// How long an operation waits to hear what others changed before it goes on with what is known.
const LOOK_SOON: Duration = Duration::from_secs(1);
/// How long a change may take.
const CHANGE_WITHIN: Duration = Duration::from_secs(5);
/// How long a request waits for its namespace to be entered.
const ENTER_WITHIN: Duration = Duration::from_secs(1);
/// How long requests do not try to enter namespaces after it failed: nobody waits for a store that
/// is known to be away.
const ENTER_AGAIN_MS: u64 = 1_000;

/// See the module.
pub(crate) struct Control {
    store: Arc<dyn ControlStore>,
    known: ArcSwap<Directory>,
    /// What is known without the store.
    begun: Arc<Directory>,
    /// Held while the store is read or written, so that what is read is never older than what is
    /// known.
    progress: Mutex<Progress>,
    /// How many looks have begun.
    looks: AtomicU64,
    /// What was read last, and when on the monotonic clock, plus one; 0 before the first time. For
    /// whoever watches.
    seen_revision: AtomicU64,
    seen_ms: AtomicU64,
    clock: Arc<dyn Clock>,
    /// Until when namespaces are not entered, on the monotonic clock.
    rests_until_ms: AtomicU64,
    /// The same for workspaces that have all the namespaces they may have.
    full_until_ms: std::sync::Mutex<HashMap<String, u64>>,
}

/// How far the store was read.
#[derive(Debug, Default)]
struct Progress {
    /// The last revision of which everything is known.
    since: u64,
    /// The last look that came to its end.
    looked: u64,
}

impl Control {
    /// One that knows nothing yet but this key.
    pub(crate) fn new(
        store: Arc<dyn ControlStore>,
        clock: Arc<dyn Clock>,
        given: Option<Key>,
    ) -> Self {
        let begun = Arc::new(given.into_iter().fold(Directory::default(), Directory::with_key));
        Self {
            store,
            known: ArcSwap::new(Arc::clone(&begun)),
            begun,
            progress: Mutex::default(),
            looks: AtomicU64::new(0),
            seen_revision: AtomicU64::new(0),
            seen_ms: AtomicU64::new(0),
            clock,
            rests_until_ms: AtomicU64::new(0),
            full_until_ms: std::sync::Mutex::default(),
        }
    }

    /// Everything, as it is known at this moment.
    pub(crate) fn known(&self) -> Guard<Arc<Directory>> {
        self.known.load()
    }

    /// What is known, in numbers.
    pub(crate) fn settings(&self) -> Settings {
        let [workspaces, keys, namespaces, overrides] = self.known().sizes();
        let revision = self.seen_revision.load(Ordering::Relaxed);
        let now_ms = self.clock.now().monotonic_ms();
        let seen_ms = self.seen_ms.load(Ordering::Relaxed).checked_sub(1);
        let age_ms = seen_ms.map(|seen_ms| now_ms.saturating_sub(seen_ms));
        Settings { workspaces, keys, namespaces, overrides, revision, age_ms }
    }

    /// The time.
    pub(crate) fn unix_ms(&self) -> u64 {
        self.clock.now().unix_ms()
    }

    /// Looks for changes for as long as it is polled, and tells `say` when the store goes away and
    /// comes back.
    pub(crate) async fn keep(&self, say: impl Fn(Result<(), &GlobalError>)) {
        let mut looks = interval(LOOK_INTERVAL);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut away = false;
        loop {
            looks.tick().await;
            // A store that was away may have come back with less than it had: another server took
            // over, or a copy was restored. Then revisions say nothing, and all is read again.
            let looked = if away { self.read(Reading::Whole).await } else { self.look().await };
            match looked {
                Ok(()) if away => say(Ok(())),
                Err(why) if !away => say(Err(&why)),
                _ => continue,
            }
            away = !away;
        }
    }

    /// Learns what changed.
    pub(crate) async fn look(&self) -> Result<(), GlobalError> {
        self.read(Reading::New).await
    }

    /// The same for somebody who waits: not for long.
    pub(crate) async fn look_soon(&self) -> Result<(), GlobalError> {
        timeout(LOOK_SOON, self.look()).await.unwrap_or(Err(GlobalError::Timeout))
    }

    async fn read(&self, reading: Reading) -> Result<(), GlobalError> {
        // ORDER: relaxed. It is raised under the lock; who reads an old number looks once more.
        let begun_before = self.looks.load(Ordering::Relaxed);
        let mut progress = self.progress.lock().await;
        let since = match reading {
            // Somebody began to look after this was called, and saw all that this would see.
            Reading::New if progress.looked > begun_before => return Ok(()),
            Reading::New => progress.since,
            Reading::Whole => 0,
        };
        let number = self.looks.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let read = timeout(LOOK_WITHIN, self.store.changes(since)).await;
        let changes = read.map_err(|_| GlobalError::Timeout)??;
        let revision = changes.revision;
        if changes.whole || revision > progress.since {
            self.learn(changes).await?;
        }
        *progress = Progress { since: revision, looked: number };
        // ORDER: relaxed, here and where they are read. Numbers for display.
        self.seen_revision.store(revision, Ordering::Relaxed);
        let now_ms = self.clock.now().monotonic_ms();
        self.seen_ms.store(now_ms.saturating_add(1), Ordering::Relaxed);
        Ok(())
    }

    /// Makes a change, and says what it came to.
    pub(crate) async fn change(
        &self,
        change: &Change,
        actor: &str,
    ) -> Result<Changes, ControlError> {
        self.change_if(change, actor, |_| Ok(())).await
    }

    /// The same, unless what is known at that moment speaks against it.
    pub(crate) async fn change_if<E: From<ControlError>>(
        &self,
        change: &Change,
        actor: &str,
        check: impl FnOnce(&Directory) -> Result<(), E>,
    ) -> Result<Changes, E> {
        let changed = async {
            // Whoever gives up here lets the next one in.
            let _writing = self.progress.lock().await;
            check(&self.known())?;
            Ok(self.apply(change, actor).await?)
        };
        let late = || ControlError::from(GlobalError::Timeout).into();
        timeout(CHANGE_WITHIN, changed).await.unwrap_or_else(|_| Err(late()))
    }

    /// Enters namespaces that nobody named before. Those that could not be entered are still not
    /// known afterwards.
    pub(crate) async fn enter(&self, workspace: &str, names: &[&str], actor: &str) {
        if self.rests(workspace) {
            return;
        }
        let until_ms = || self.clock.now().monotonic_ms().saturating_add(ENTER_AGAIN_MS);
        match timeout(ENTER_WITHIN, self.enter_missing(workspace, names, actor)).await {
            Ok(Ok(())) => {}
            Ok(Err(ControlError::Store(_))) | Err(_) => {
                self.rests_until_ms.store(until_ms(), Ordering::Relaxed);
            }
            // It concerns this workspace alone.
            Ok(Err(_)) => {
                self.full().insert(workspace.to_owned(), until_ms());
            }
        }
    }

    /// Whether entering was in vain a moment ago.
    fn rests(&self, workspace: &str) -> bool {
        let now_ms = self.clock.now().monotonic_ms();
        let full_until_ms = self.full().get(workspace).copied().unwrap_or_default();
        // ORDER: relaxed. A request that sees the old value waits once more.
        full_until_ms > now_ms || self.rests_until_ms.load(Ordering::Relaxed) > now_ms
    }

    fn full(&self) -> std::sync::MutexGuard<'_, HashMap<String, u64>> {
        self.full_until_ms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn enter_missing(
        &self,
        workspace: &str,
        names: &[&str],
        actor: &str,
    ) -> Result<(), ControlError> {
        let _writing = self.progress.lock().await;
        let missing: Vec<(String, String)> = {
            let known = self.known();
            let home = known.workspace(workspace);
            let is_missing = |name: &&&str| home.is_none_or(|home| home.namespace(name).is_none());
            let missing = names.iter().filter(is_missing);
            let named = |name: &&str| Ok((id(Kind::Namespace)?, (*name).to_owned()));
            missing.map(named).collect::<Result<_, ControlError>>()?
        };
        // Whoever was here before may have entered them.
        if missing.is_empty() {
            return Ok(());
        }
        let change = Change::AddNamespaces { workspace: workspace.to_owned(), names: missing };
        self.apply(&change, actor).await.map(drop)
    }

    /// Needs the lock.
    async fn apply(&self, change: &Change, actor: &str) -> Result<Changes, ControlError> {
        let applied = self.store.apply(change, actor, self.unix_ms()).await?;
        self.learn(applied.changes.clone()).await?;
        Ok(applied.changes)
    }

    /// Needs the lock, or what is learnt could be older than what is known. With many overrides it
    /// takes milliseconds, which is too long for a thread that answers requests.
    async fn learn(&self, changes: Changes) -> Result<(), GlobalError> {
        let whole = changes.whole;
        let before = if whole { Arc::clone(&self.begun) } else { self.known.load_full() };
        let learnt = spawn_blocking(move || before.with(changes)).await;
        let learnt = learnt.map_err(|why| GlobalError::Refused(why.to_string()))?;
        self.known.store(Arc::new(learnt));
        Ok(())
    }
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reading {
    /// What changed.
    New,
    /// Everything.
    Whole,
}

/// A new id. Without randomness nothing can be made, and the caller hears of it as of a store that
/// is away.
pub(crate) fn id(kind: Kind) -> Result<String, ControlError> {
    new_id(kind).map_err(|why| GlobalError::Refused(why.to_string()).into())
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").finish_non_exhaustive()
    }
}
