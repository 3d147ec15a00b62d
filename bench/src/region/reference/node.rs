//! One process under the reference's rule.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate::Clock;
use tidegate_lab::RedisServer;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::AbortHandle;

use super::wire::Wire;
use super::{LIFE_WINDOWS, WORKERS};
use crate::Failure;
use crate::region::ours::Terms;
use crate::region::time::Shifted;

/// How long what Redis said is fresh.
const FRESH_MS: u64 = 5_000;
/// How long a read may take, and after a failure none is made.
const RETRY_MS: u64 = 300;
/// Admissions that wait for a worker; what comes when it is full is dropped.
const QUEUE: usize = 10_000;
/// Connections for reads.
const READERS: usize = 8;

/// A subject and a sequence.
type CellName = (usize, u64);

/// One window of one subject.
#[derive(Default)]
struct Cell {
    count: u64,
    fresh_until_ms: u64,
    /// Held by the caller that reads; the others wait for it.
    gate: Arc<tokio::sync::Mutex<()>>,
}

#[derive(Default)]
struct State {
    cells: BTreeMap<CellName, Cell>,
    /// Until when every decision of a subject reads first.
    strict_until_ms: BTreeMap<usize, u64>,
}

struct Shared {
    clock: Shifted,
    port: u16,
    state: Mutex<State>,
    readers: Mutex<Vec<Wire>>,
    permits: Semaphore,
}

/// An admission to be replayed.
struct Admission {
    cell: CellName,
    window_ms: u64,
}

/// One process.
pub(crate) struct Node {
    shared: Arc<Shared>,
    queue: mpsc::Sender<Admission>,
    workers: Vec<AbortHandle>,
}

impl Node {
    /// A process with its workers.
    pub(crate) async fn start(server: &RedisServer, clock: Shifted) -> Result<Self, Failure> {
        let port = server.port();
        let (state, readers) = (Mutex::default(), Mutex::default());
        let permits = Semaphore::new(READERS);
        let shared = Arc::new(Shared { clock, port, state, readers, permits });
        let (queue, admissions) = mpsc::channel(QUEUE);
        let admissions = Arc::new(tokio::sync::Mutex::new(admissions));
        let mut workers = Vec::new();
        for _ in 0..WORKERS {
            let (shared, admissions) = (Arc::clone(&shared), Arc::clone(&admissions));
            let wire = Wire::connect(port).await?;
            workers.push(tokio::spawn(replay(shared, admissions, wire)).abort_handle());
        }
        Ok(Self { shared, queue, workers })
    }

    /// Decides one request of cost 1; the sequence it was admitted to.
    pub(crate) async fn check(&self, subject: usize, terms: Terms) -> Option<u64> {
        let now = self.shared.clock.now();
        let now_ms = now.monotonic_ms();
        let sequence = now.unix_ms() / terms.window_ms;
        let elapsed_ms = now.unix_ms() % terms.window_ms;
        let (cell, previous) = ((subject, sequence), (subject, sequence - 1));
        self.shared.ensure_fresh(cell, terms, now_ms).await;
        self.shared.ensure_fresh(previous, terms, now_ms).await;
        let strict = self.shared.lock().strict_until_ms.get(&subject).copied().unwrap_or(0);
        if now_ms < strict
            && let Some(count) = self.shared.get(cell, terms).await
        {
            self.shared.heard(cell, count, now_ms + FRESH_MS);
        }
        let mut state = self.shared.lock();
        let before = state.cells.get(&previous).map_or(0, |cell| cell.count);
        let weighted = before * (terms.window_ms - elapsed_ms) / terms.window_ms;
        let current = state.cells.entry(cell).or_default();
        if current.count + weighted + 1 > terms.limit {
            let until = state.strict_until_ms.entry(subject).or_default();
            *until = (*until).max(now_ms + terms.window_ms);
            return None;
        }
        current.count += 1;
        drop(state);
        let _ = self.queue.try_send(Admission { cell, window_ms: terms.window_ms });
        Some(sequence)
    }
}

impl Node {
    /// Hears of both windows of a subject if it has to, and spends nothing.
    pub(crate) async fn hear(&self, subject: usize, terms: Terms) -> Option<u64> {
        let now = self.shared.clock.now();
        let sequence = now.unix_ms() / terms.window_ms;
        for cell in [(subject, sequence), (subject, sequence - 1)] {
            self.shared.ensure_fresh(cell, terms, now.monotonic_ms()).await;
        }
        None
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.workers.iter().for_each(AbortHandle::abort);
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn ensure_fresh(&self, cell: CellName, terms: Terms, now_ms: u64) {
        let stale = || {
            let mut state = self.lock();
            let held = state.cells.entry(cell).or_default();
            (held.fresh_until_ms <= now_ms).then(|| Arc::clone(&held.gate))
        };
        let Some(gate) = stale() else { return };
        let _reading = gate.lock().await;
        if stale().is_some() {
            match self.get(cell, terms).await {
                Some(count) => self.heard(cell, count, now_ms + FRESH_MS),
                None => self.heard(cell, 0, now_ms + RETRY_MS),
            }
        }
    }

    /// Raises a cell to what Redis said.
    fn heard(&self, cell: CellName, count: u64, fresh_until_ms: u64) {
        let mut state = self.lock();
        let held = state.cells.entry(cell).or_default();
        held.count = held.count.max(count);
        held.fresh_until_ms = held.fresh_until_ms.max(fresh_until_ms);
    }

    /// What Redis holds; `None` if it does not say so in time.
    async fn get(&self, cell: CellName, terms: Terms) -> Option<u64> {
        let reading = async {
            let _permit = self.permits.acquire().await?;
            let kept = self.readers.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let mut wire = match kept {
                Some(wire) => wire,
                None => Wire::connect(self.port).await?,
            };
            let count = wire.ask(&["GET", &name(cell, terms.window_ms)]).await?.unwrap_or(0);
            self.readers.lock().unwrap_or_else(PoisonError::into_inner).push(wire);
            Ok::<u64, Failure>(count)
        };
        tokio::time::timeout(Duration::from_millis(RETRY_MS), reading).await.ok()?.ok()
    }
}

/// A worker: one admission, one round trip.
async fn replay(
    shared: Arc<Shared>,
    admissions: Arc<tokio::sync::Mutex<mpsc::Receiver<Admission>>>,
    mut wire: Wire,
) {
    loop {
        let next = admissions.lock().await.recv().await;
        let Some(Admission { cell, window_ms }) = next else { return };
        let key = name(cell, window_ms);
        let Ok(Some(count)) = wire.ask(&["INCRBY", &key, "1"]).await else { return };
        if count == 1 {
            let life = (LIFE_WINDOWS * window_ms / 1_000).to_string();
            let _ = wire.ask(&["EXPIRE", &key, &life]).await;
        }
        let fresh_until_ms = shared.clock.now().monotonic_ms() + FRESH_MS;
        shared.heard(cell, count, fresh_until_ms);
    }
}

fn name((subject, sequence): CellName, window_ms: u64) -> String {
    format!("workspace-namespace-user_{subject:08}-{window_ms}:{sequence}")
}
