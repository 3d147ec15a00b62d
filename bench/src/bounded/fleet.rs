//! Processes that share their limits, and a run of arrivals through them.

use std::future::Future;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use tidegate_lab::RedisServer;
use tokio::sync::mpsc;

use super::arrivals::{Arrival, Plan, Subject};
use super::node::{Node, Rule, Told};
use crate::Failure;
use crate::figures::quantile;
use crate::region::time::{Shifted, now, sleep};

/// How long the last answers may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// What is left to the thread that asks, which can sleep more precisely than the timer.
const PRECISE: Duration = Duration::from_millis(2);

/// Processes that share their limits.
pub(super) struct Fleet {
    nodes: Arc<Vec<Node>>,
    clock: Shifted,
}

/// One cell, and what came of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) limit: u64,
    /// When its first request came.
    pub(super) at: Duration,
    pub(super) admitted: u64,
    /// Answers that Redis should have given and did not.
    pub(super) degraded: u64,
    /// What was admitted from memory.
    pub(super) unasked: u64,
}

impl Cell {
    pub(super) fn share(&self) -> f64 {
        self.admitted as f64 / self.limit as f64
    }
}

/// An answer.
#[derive(Clone, Copy, Debug)]
struct Answered {
    arrival: Arrival,
    told: Told,
    took: Duration,
    /// It was not there at once.
    waited: bool,
}

/// What became of a run.
pub(super) struct Ran {
    pub(super) cells: Vec<Cell>,
    pub(super) requests: u64,
    /// When each request that waited was due, and how long it waited, in milliseconds.
    pub(super) waits: Vec<(Duration, f64)>,
    /// How late requests were made, at the 99th percentile.
    pub(super) late_ms: f64,
}

impl Fleet {
    pub(super) async fn start(
        server: &RedisServer,
        clock: Shifted,
        (rule, count): (Rule, usize),
    ) -> Result<Self, Failure> {
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(Node::start(server, clock, rule).await?);
        }
        Ok(Self { nodes: Arc::new(nodes), clock })
    }

    /// What all have said to Redis, if they count it.
    pub(super) fn operations(&self) -> u64 {
        self.nodes.iter().map(Node::operations).sum()
    }

    /// Makes every request when it is due, whatever became of the others.
    pub(super) async fn run(&self, plan: Plan) -> Result<Ran, Failure> {
        let Plan { arrivals, subjects } = plan;
        let subjects = Arc::new(subjects);
        let start = now().checked_sub(self.clock.since_boundary()).ok_or("the clock is young")?;
        let mut late_ms = Vec::with_capacity(arrivals.len());
        let mut answers = Vec::with_capacity(arrivals.len());
        let (sender, mut rest) = mpsc::unbounded_channel();
        for arrival in arrivals.iter().copied() {
            wait_until(start + arrival.at).await;
            let asked = now();
            let late = asked.duration_since(start).saturating_sub(arrival.at);
            late_ms.push(late.as_secs_f64() * 1e3);
            let (nodes, subjects) = (Arc::clone(&self.nodes), Arc::clone(&subjects));
            let mut asking = Box::pin(async move { ask(&nodes, &subjects, arrival).await });
            let polled = std::future::poll_fn(|cx| Poll::Ready(asking.as_mut().poll(cx))).await;
            let answer =
                move |told, waited| Answered { arrival, told, took: asked.elapsed(), waited };
            match polled {
                Poll::Ready(told) => answers.push(answer(told, false)),
                Poll::Pending => {
                    let sender = sender.clone();
                    tokio::spawn(async move {
                        let told = asking.await;
                        let _ = sender.send(answer(told, true));
                    });
                }
            }
        }
        drop(sender);
        let give_up = tokio::time::Instant::now() + PATIENCE;
        while let Ok(Some(answer)) = tokio::time::timeout_at(give_up, rest.recv()).await {
            answers.push(answer);
        }
        if answers.len() != arrivals.len() {
            return Err("not every request was answered".into());
        }
        late_ms.sort_by(f64::total_cmp);
        Ok(Ran::of(&subjects, &answers, quantile(&late_ms, 0.99)))
    }

    /// Ends them.
    pub(super) async fn end(self) {
        let Ok(nodes) = Arc::try_unwrap(self.nodes) else { return };
        for node in nodes {
            node.end().await;
        }
    }
}

async fn ask(nodes: &[Node], subjects: &[Subject], arrival: Arrival) -> Told {
    let Arrival { subject: at, node, cost, .. } = arrival;
    match (nodes.get(node), subjects.get(at)) {
        (Some(node), Some(subject)) => node.ask(at, subject, cost).await,
        _ => Told::default(),
    }
}

impl Ran {
    fn of(subjects: &[Subject], answers: &[Answered], late_ms: f64) -> Self {
        let (mut cells, mut begins) = (Vec::new(), Vec::new());
        for Subject { limit, cells: count, at, .. } in subjects {
            begins.push(cells.len());
            let cell = Cell { limit: *limit, at: *at, admitted: 0, degraded: 0, unasked: 0 };
            cells.extend(std::iter::repeat_n(cell, *count));
        }
        let mut waits = Vec::new();
        for Answered { arrival, told, took, waited } in answers {
            let (Some(subject), Some(begin)) =
                (subjects.get(arrival.subject), begins.get(arrival.subject))
            else {
                continue;
            };
            if *waited {
                waits.push((arrival.at, took.as_secs_f64() * 1e3));
            }
            // What is late may be decided in the window after the last one that counts.
            let window = told.admitted.and_then(|sequence| sequence.checked_sub(subject.first));
            let window = window.map(|window| usize::try_from(window).unwrap_or(usize::MAX));
            let counts = |window: &usize| *window < subject.cells;
            if let Some(cell) = window.filter(counts).and_then(|at| cells.get_mut(begin + at)) {
                cell.admitted += 1;
            }
            let place = begin + window.filter(counts).unwrap_or(0);
            if let Some(cell) = cells.get_mut(place) {
                cell.degraded += u64::from(told.degraded);
                cell.unasked += u64::from(told.unasked);
            }
        }
        Self { cells, requests: answers.len() as u64, waits, late_ms }
    }
}

/// Until a request is due. The timer of the runtime knows milliseconds only; the last of them are
/// slept by this thread, which decides and drives nothing meanwhile and leaves its core to those
/// who do.
#[expect(clippy::disallowed_methods, reason = "a bench keeps a rate in real time")]
async fn wait_until(due: Instant) {
    loop {
        let early = due.saturating_duration_since(now());
        if early == Duration::ZERO {
            return;
        }
        if early > PRECISE {
            sleep(early - PRECISE).await;
        } else {
            std::thread::sleep(early);
        }
    }
}
