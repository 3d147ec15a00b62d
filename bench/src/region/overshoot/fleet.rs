//! Processes under one of the two rules, and a run of arrivals through them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tidegate::{Clock, Limiter};
use tidegate_lab::RedisServer;

use super::Pattern;
use super::arrivals::Arrival;
use crate::Failure;
use crate::decide::keys::Key;
use crate::figures::quantile;
use crate::region::ours::{self, Terms};
use crate::region::reference;
use crate::region::time::{Shifted, now, sleep};

/// How long the last answers may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Windows that a run may touch: what is asked at the end may be decided in the next one.
const WINDOWS: usize = 3;

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Tidegate,
    Reference,
}

impl Rule {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::Reference => "reference",
        }
    }
}

/// One process.
enum Node {
    Tidegate(Arc<Limiter>),
    Reference(reference::Node),
}

/// Processes that share their limits.
pub(super) struct Fleet {
    nodes: Arc<Vec<Node>>,
    clock: Shifted,
}

/// What became of a run.
pub(super) struct Ran {
    /// Of each cell in use: its limit, and what was admitted.
    pub(super) cells: Vec<(u64, u64)>,
    /// How late requests were made, at the 99th percentile.
    pub(super) late_ms: f64,
}

impl Node {
    /// Asks once; the sequence of the cell it was admitted to.
    async fn ask(&self, subject: usize, terms: Terms) -> Option<u64> {
        match self {
            Self::Reference(node) => node.check(subject, terms).await,
            Self::Tidegate(limiter) => {
                let identifier = format!("user_{subject:08}");
                let (workspace, namespace) = ("workspace", "namespace");
                let request = terms.request(Key { workspace, namespace, identifier: &identifier });
                let answer = limiter.check(&request.ok()?).await;
                let end = answer.reset_unix_ms() / terms.window_ms;
                answer.admitted().then(|| end.saturating_sub(1))
            }
        }
    }
}

impl Fleet {
    pub(super) async fn start(
        server: &RedisServer,
        clock: Shifted,
        (rule, count): (Rule, usize),
    ) -> Result<Self, Failure> {
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(match rule {
                Rule::Tidegate => Node::Tidegate(ours::limiter(server, clock)?),
                Rule::Reference => Node::Reference(reference::Node::start(server, clock).await?),
            });
        }
        Ok(Self { nodes: Arc::new(nodes), clock })
    }

    /// Makes every request when it is due, whatever became of the others.
    pub(super) async fn run(
        &self,
        arrivals: &[Arrival],
        subjects: &[u64],
        pattern: Pattern,
    ) -> Result<Ran, Failure> {
        let window_ms = pattern.window_ms();
        let first = self.clock.now().unix_ms() / window_ms;
        let cells = (0..subjects.len() * WINDOWS).map(|_| AtomicU64::new(0));
        let cells: Arc<Vec<AtomicU64>> = Arc::new(cells.collect());
        let answered = Arc::new(AtomicU64::new(0));
        let mut late_ms = Vec::with_capacity(arrivals.len());
        let start = now();
        for arrival in arrivals {
            wait_until(start, arrival.at, pattern).await;
            late_ms.push(start.elapsed().saturating_sub(arrival.at).as_secs_f64() * 1e3);
            let (nodes, cells) = (Arc::clone(&self.nodes), Arc::clone(&cells));
            let (answered, Arrival { subject, node, .. }) = (Arc::clone(&answered), *arrival);
            let terms = Terms { limit: subjects.get(subject).copied().unwrap_or(0), window_ms };
            tokio::spawn(async move {
                let Some(node) = nodes.get(node) else { return };
                let admitted = node.ask(subject, terms).await;
                let at = admitted.and_then(|sequence| place(subject, sequence, first));
                if let Some(cell) = at.and_then(|at| cells.get(at)) {
                    cell.fetch_add(1, Ordering::Relaxed);
                }
                answered.fetch_add(1, Ordering::Relaxed);
            });
        }
        let give_up = now() + PATIENCE;
        while answered.load(Ordering::Relaxed) < arrivals.len() as u64 {
            if now() > give_up {
                return Err("overshoot: not every request was answered".into());
            }
            sleep(Duration::from_millis(5)).await;
        }
        late_ms.sort_by(f64::total_cmp);
        let late_ms = quantile(&late_ms, 0.99);
        // The window after the last one holds what was late: it is not a whole cell.
        let whole = |at: &usize| at % WINDOWS < pattern.windows();
        let count = |at: usize| {
            let admitted = cells.get(at)?.load(Ordering::Relaxed);
            Some((subjects.get(at / WINDOWS).copied()?, admitted))
        };
        let cells = (0..cells.len()).filter(whole).filter_map(count).collect();
        Ok(Ran { cells, late_ms })
    }

    /// Ends them.
    pub(super) async fn end(self) {
        let Ok(nodes) = Arc::try_unwrap(self.nodes) else { return };
        for node in nodes {
            if let Node::Tidegate(limiter) = node {
                ours::end(limiter).await;
            }
        }
    }
}

/// Until a request is due. The timer knows milliseconds only. Requests of steady traffic may come
/// that late; within a burst the rest is spent on this thread, which decides nothing.
async fn wait_until(start: Instant, at: Duration, pattern: Pattern) {
    loop {
        let early = at.saturating_sub(start.elapsed());
        if early == Duration::ZERO {
            return;
        }
        let spin = pattern == Pattern::Burst && early < Duration::from_millis(2);
        if spin {
            tokio::task::yield_now().await;
        } else {
            sleep(early.saturating_sub(Duration::from_millis(1))).await;
        }
    }
}

/// Where a cell is counted.
fn place(subject: usize, sequence: u64, first: u64) -> Option<usize> {
    let window = usize::try_from(sequence.checked_sub(first)?).ok()?;
    (window < WINDOWS).then_some(subject * WINDOWS + window)
}
