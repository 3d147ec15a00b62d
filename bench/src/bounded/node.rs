//! One process under one of the three rules.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use tidegate::{Answer, Consistency, Cost, Limit, Limiter, Part, RegionalStore, Request};
use tidegate::{RequestError, Source, Window, redis};
use tidegate_convergence::{BoardCall, Boarding, Calling, ShardCall};
use tidegate_lab::RedisServer;

use super::arrivals::Subject;
use crate::Failure;
use crate::region::ours::{Terms, end};
use crate::region::reference;
use crate::region::time::Shifted;

/// The window and the limit of the first request of each process, which nobody looks at.
const HELLO_WINDOW_MS: u64 = 60_000;
const HELLO_LIMIT: u64 = 1_000;

/// Who decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    Bounded,
    Fast,
    Reference,
}

impl Rule {
    pub(super) const ALL: [Self; 3] = [Self::Bounded, Self::Fast, Self::Reference];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bounded => "bounded",
            Self::Fast => "fast",
            Self::Reference => "reference",
        }
    }

    /// What ours is asked with.
    pub(super) const fn consistency(self) -> Consistency {
        match self {
            Self::Bounded => Consistency::Bounded,
            Self::Fast | Self::Reference => Consistency::Fast,
        }
    }
}

/// A Redis that counts what it is told: cells, not calls, because many may go in one.
#[derive(Debug)]
pub(super) struct Counting {
    store: redis::RedisStore,
    operations: AtomicU64,
    /// The first call that asked for something.
    ask: OnceLock<ShardCall>,
}

impl Counting {
    fn new(server: &RedisServer) -> Result<Self, Failure> {
        let (store, operations) = (redis::store(&server.url())?, AtomicU64::new(0));
        Ok(Self { store, operations, ask: OnceLock::new() })
    }

    /// The first call that asked for something, to be made again.
    pub(super) fn first_ask(&self) -> Option<&ShardCall> {
        self.ask.get()
    }

    /// Cells that were recorded, read or asked about; a call about none counts as one.
    pub(super) fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }
}

impl RegionalStore for Counting {
    fn shards(&self) -> u16 {
        self.store.shards()
    }

    fn call<'a>(&'a self, call: &'a ShardCall) -> Calling<'a> {
        let asked = call.ask.as_ref().map_or(0, |ask| ask.cells.len());
        let cells = u64::try_from(call.records.len() + asked).unwrap_or(0).max(1);
        self.operations.fetch_add(cells, Ordering::Relaxed);
        if call.ask.is_some() {
            self.ask.get_or_init(|| call.clone());
        }
        self.store.call(call)
    }

    fn board<'a>(&'a self, call: &'a BoardCall) -> Boarding<'a> {
        self.store.board(call)
    }
}

/// A limiter with its own table, identity and connection: to Redis, a process.
pub(super) fn limiter(
    server: &RedisServer,
    clock: Shifted,
) -> Result<(Arc<Limiter>, Arc<Counting>), Failure> {
    let store = Arc::new(Counting::new(server)?);
    let builder = Limiter::builder().clock(clock);
    let limiter = builder.region_tuned(Arc::clone(&store) as _, tidegate::Tuning::default());
    Ok((Arc::new(limiter.build()?), store))
}

/// A request of a subject.
pub(super) fn request(
    (name, window_ms): (&str, u64),
    (limit, cost): (u64, u64),
    consistency: Consistency,
) -> Result<Request<'_>, RequestError> {
    let (workspace, namespace) = (Part::new("workspace")?, Part::new("namespace")?);
    let window = Window::from_millis(window_ms)?;
    let subject = tidegate::Subject::new(workspace, namespace, Part::new(name)?, window);
    let request = Request::new(subject, Limit::new(limit), Cost::new(cost)?);
    Ok(request.with_consistency(consistency))
}

/// What a request came to.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// The sequence it was admitted to.
    pub(super) admitted: Option<u64>,
    /// Redis should have been asked and did not answer.
    pub(super) degraded: bool,
    /// It was admitted from memory.
    pub(super) unasked: bool,
}

impl Told {
    fn of(answer: &Answer, window_ms: u64, cost: u64) -> Self {
        let sequence = (answer.reset_unix_ms() / window_ms).saturating_sub(1);
        let admitted = (cost > 0 && answer.admitted()).then_some(sequence);
        let unasked = admitted.is_some() && answer.source() == Source::Local;
        Self { admitted, degraded: answer.degraded(), unasked }
    }
}

/// One process.
pub(super) enum Node {
    Ours(Arc<Limiter>, Arc<Counting>, Consistency),
    Reference(reference::Node),
}

impl Node {
    pub(super) async fn start(
        server: &RedisServer,
        clock: Shifted,
        rule: Rule,
    ) -> Result<Self, Failure> {
        if rule == Rule::Reference {
            return Ok(Self::Reference(reference::Node::start(server, clock).await?));
        }
        let (limiter, store) = limiter(server, clock)?;
        // Whoever asks for something is present from then on, as those of a fleet long are.
        let hello = request(("hello", HELLO_WINDOW_MS), (HELLO_LIMIT, 1), rule.consistency())?;
        let _ = limiter.check(&hello).await;
        Ok(Self::Ours(limiter, store, rule.consistency()))
    }

    /// Asks once, for subject number `at`.
    pub(super) async fn ask(&self, at: usize, subject: &Subject, cost: u64) -> Told {
        let Subject { name, limit, window_ms, .. } = subject;
        match self {
            Self::Reference(node) => {
                let terms = Terms { limit: *limit, window_ms: *window_ms };
                let admitted = match cost {
                    0 => node.hear(at, terms).await,
                    _ => node.check(at, terms).await,
                };
                Told { admitted, ..Told::default() }
            }
            Self::Ours(limiter, _, consistency) => {
                let request = request((name, *window_ms), (*limit, cost), *consistency);
                let Ok(request) = request else { return Told::default() };
                Told::of(&limiter.check(&request).await, *window_ms, cost)
            }
        }
    }

    /// What it has said to Redis; the reference does not count that itself.
    pub(super) fn operations(&self) -> u64 {
        match self {
            Self::Ours(_, store, _) => store.operations(),
            Self::Reference(_) => 0,
        }
    }

    pub(super) async fn end(self) {
        if let Self::Ours(limiter, ..) = self {
            end(limiter).await;
        }
    }
}
