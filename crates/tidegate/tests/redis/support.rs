//! A fleet in one process: each limiter has its own table, identity and connection, so that the
//! region cannot tell them from processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::redis::{RedisConfig, RedisStore};
use tidegate::{Consistency, Cost, Limit, Limiter, Part, Request, Subject, Tuning, Window};
use tidegate_lab::RedisServer;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

/// What is waited for at most: ten times the longest bound.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// A month: no test meets two boundaries.
pub(crate) const WINDOW_MS: u64 = 31 * 24 * 3_600 * 1_000;

pub(crate) fn limiter(url: &str) -> Limiter {
    let store = RedisStore::new(RedisConfig::parse(url).unwrap(), 7).unwrap();
    Limiter::builder().region(store).build().unwrap()
}

/// Limiters that wait as long as a busy machine takes: what they admit was granted.
pub(crate) fn patient_fleet(url: &str, size: usize) -> Vec<Arc<Limiter>> {
    let tuning = Tuning { deadline_ms: 10_000, ..Tuning::default() };
    let patient = |_| {
        let store = RedisStore::new(RedisConfig::parse(url).unwrap(), 7).unwrap();
        Arc::new(Limiter::builder().region_tuned(Arc::new(store), tuning).build().unwrap())
    };
    (0..size).map(patient).collect()
}

pub(crate) fn fleet(url: &str, size: usize) -> Vec<Arc<Limiter>> {
    (0..size).map(|_| Arc::new(limiter(url))).collect()
}

pub(crate) fn request(identifier: &str, limit: u64, cost: u64) -> Request<'_> {
    let part = |text| Part::new(text).unwrap();
    let window = Window::from_millis(WINDOW_MS).unwrap();
    let subject = Subject::new(part("w"), part("n"), part(identifier), window);
    Request::new(subject, Limit::new(limit), Cost::new(cost).unwrap())
}

/// What the cells of all subjects hold, in these servers together.
pub(crate) fn recorded(servers: &[RedisServer]) -> u64 {
    servers.iter().map(recorded_in).sum()
}

pub(crate) fn recorded_in(server: &RedisServer) -> u64 {
    let Ok(keys) = server.command(&["KEYS", "tg:*"]) else { return u64::MAX };
    let sums = keys.items().iter().map(tidegate_lab::Value::text).filter(|key| {
        // Cells, not tokens.
        !key.ends_with(":token")
    });
    sums.filter_map(|key| server.command(&["HGET", &key, "s"]).ok()?.int())
        .filter_map(|sum| u64::try_from(sum).ok())
        .sum()
}

/// How long a fault or a load lasts: that is a time, not a condition. Nothing is waited for.
pub(crate) async fn last(ms: u64) {
    let _ = timeout(Duration::from_millis(ms), std::future::pending::<()>()).await;
}

pub(crate) async fn until(what: &str, mut done: impl FnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        last(20).await;
    }
    start.elapsed()
}

/// Steady load on some keys, until it is stopped.
pub(crate) struct Load {
    stop: Arc<AtomicBool>,
    pub(crate) admitted: Arc<AtomicU64>,
    callers: Vec<JoinHandle<Vec<Duration>>>,
}

impl Load {
    /// Two callers for each limiter, each with a pause of a millisecond between requests.
    pub(crate) fn start(fleet: &[Arc<Limiter>], keys: usize, limit: u64) -> Self {
        Self::start_with(fleet, (keys, limit), Consistency::Fast)
    }

    /// The same with a consistency.
    pub(crate) fn start_with(
        fleet: &[Arc<Limiter>],
        (keys, limit): (usize, u64),
        consistency: Consistency,
    ) -> Self {
        let (stop, admitted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let mut callers = Vec::new();
        for (number, limiter) in fleet.iter().flat_map(|limiter| [limiter; 2]).enumerate() {
            let (limiter, stop) = (Arc::clone(limiter), Arc::clone(&stop));
            let admitted = Arc::clone(&admitted);
            callers.push(tokio::spawn(async move {
                let mut times = Vec::new();
                let mut turn = number;
                while !stop.load(Ordering::Relaxed) {
                    let name = (turn % keys).to_string();
                    let start = Instant::now();
                    let request = request(&name, limit, 1).with_consistency(consistency);
                    let answer = limiter.check(&request).await;
                    times.push(start.elapsed());
                    admitted.fetch_add(u64::from(answer.admitted()), Ordering::Relaxed);
                    turn += 1;
                    last(1).await;
                }
                times
            }));
        }
        Self { stop, admitted, callers }
    }

    /// Ends it; returns what was admitted, and how long the answers took, sorted.
    pub(crate) async fn stop(self) -> (u64, Vec<Duration>) {
        self.stop.store(true, Ordering::Relaxed);
        let mut times = Vec::new();
        for caller in self.callers {
            times.extend(caller.await.unwrap());
        }
        times.sort_unstable();
        (self.admitted.load(Ordering::Relaxed), times)
    }
}

pub(crate) fn p99(times: &[Duration]) -> Duration {
    times[(times.len() * 99 / 100).min(times.len() - 1)]
}

/// What a limiter believes a subject has left, read without spending.
pub(crate) async fn used(limiter: &Limiter, name: &str, limit: u64) -> u64 {
    limit - limiter.check(&request(name, limit, 0)).await.remaining()
}
