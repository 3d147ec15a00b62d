//! One connection that comes back.
//!
//! Promises: it is made when it is first needed; at most one attempt runs at a time, in a task of
//! its own, so that a caller who gives up does not undo it; between attempts there is a wait with
//! full jitter, in which calls fail at once. A call that is dropped disturbs nobody.
//! Refuses: to send anything twice.
//! Fails: with [`StoreError::Unreachable`] while there is no connection.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Pipeline, Value};
use tidegate_convergence::StoreError;
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, MissedTickBehavior};

use super::config::Address;
use super::jitter::Jitter;
use super::open::{Opened, Opener, trouble};
use super::sentinel::WATCH_EVERY;

/// How many calls may wait for their answers. A server that answers within a millisecond has a few;
/// one that is stuck would collect them until memory ends.
const CALLS_MAX: usize = 256;
/// A connection that answered for this long was a success: the next wait is short again. One that
/// answers and has to be left at once, as that to a replica, is none, and must not be made and left
/// many times a second.
const STEADY: Duration = Duration::from_secs(2);

/// A connection to one server. Clones share it.
#[derive(Clone, Debug)]
pub(super) struct Link(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    opener: Opener,
    state: Mutex<State>,
    calls: Arc<Semaphore>,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    jitter: Jitter,
    /// How many connections there have been: a late error of an old one must not end a new one.
    number: u64,
}

#[derive(Debug)]
enum Phase {
    /// Nothing is under way. `until` is when the next attempt may begin.
    Closed { until: Option<Instant>, why: StoreError },
    /// An attempt is under way.
    Opening(watch::Receiver<Option<Result<Open, StoreError>>>),
    /// There is a connection.
    Open(Open),
}

#[derive(Clone, Debug)]
struct Open {
    connection: MultiplexedConnection,
    number: u64,
    since: Instant,
}

/// What came back, and over which connection.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) values: Vec<Value>,
    number: u64,
}

impl Link {
    pub(super) fn new(opener: Opener, seed: u64) -> Self {
        let phase = Phase::Closed { until: None, why: unreachable("never tried") };
        let state = Mutex::new(State { phase, jitter: Jitter::new(seed), number: 0 });
        Self(Arc::new(Shared { opener, state, calls: Arc::new(Semaphore::new(CALLS_MAX)) }))
    }

    /// Sends commands in one piece and waits for all answers. An error of the server is one of the
    /// values.
    ///
    /// # Cancel safety
    /// When dropped, the commands may or may not be executed; the answers are read and forgotten.
    pub(super) async fn ask(&self, commands: Pipeline) -> Result<Answered, StoreError> {
        let Open { mut connection, number, since } = self.open().await?;
        let calls = Arc::clone(&self.0.calls);
        let Ok(permit) = calls.try_acquire_owned() else {
            return Err(unreachable("too many calls wait for an answer"));
        };
        let link = self.clone();
        // In a task of its own: whether the answer comes must be known even if the caller has
        // given up, or a connection that is open and dead would never be given up.
        let asking = tokio::spawn(async move {
            let _permit = permit;
            let count = commands.len();
            let answers = connection.req_packed_commands(&commands, 0, count).await;
            match answers {
                Ok(values) => {
                    if since.elapsed() > STEADY {
                        link.state().jitter.reset();
                    }
                    Ok(Answered { values, number })
                }
                Err(why) => {
                    let why = trouble(&why);
                    link.close(number, &why);
                    Err(why)
                }
            }
        });
        asking.await.unwrap_or_else(|_| Err(unreachable("the runtime is ending")))
    }

    /// Gives up the connection over which these answers came: it leads to the wrong server.
    pub(super) fn leave(&self, answered: &Answered, why: &StoreError) {
        self.close(answered.number, why);
    }

    /// The connection; makes one if it may.
    async fn open(&self) -> Result<Open, StoreError> {
        let mut opening = {
            let mut state = self.state();
            match &state.phase {
                Phase::Open(open) => return Ok(open.clone()),
                Phase::Closed { until: Some(until), why } if *until > Instant::now() => {
                    return Err(why.clone());
                }
                Phase::Opening(opening) => opening.clone(),
                Phase::Closed { .. } => {
                    let opening = self.begin();
                    state.phase = Phase::Opening(opening.clone());
                    opening
                }
            }
        };
        let opened = opening.wait_for(Option::is_some).await.map(|opened| opened.clone());
        if let Ok(Some(opened)) = opened {
            return opened;
        }
        // The attempt's runtime ended under it.
        let why = unreachable("the attempt was stopped");
        let mut state = self.state();
        if matches!(&state.phase, Phase::Opening(same) if same.same_channel(&opening)) {
            state.phase = Phase::Closed { until: None, why: why.clone() };
        }
        Err(why)
    }

    /// Begins an attempt.
    fn begin(&self) -> watch::Receiver<Option<Result<Open, StoreError>>> {
        let (told, opening) = watch::channel(None);
        let link = self.clone();
        tokio::spawn(async move {
            let opened = link.0.opener.open().await;
            let mut state = link.state();
            let opened = match opened {
                Ok(Opened { connection, address }) => {
                    let open = state.put(connection);
                    if link.0.opener.must_watch() {
                        link.watch(open.number, address);
                    }
                    Ok(open)
                }
                Err(why) => {
                    state.rest(&why);
                    Err(why)
                }
            };
            drop(state);
            // Nobody may be waiting any more.
            let _ = told.send(Some(opened));
        });
        opening
    }

    /// Changes the connection when the target moves while it holds. Ends with it, and with the
    /// link.
    fn watch(&self, mut number: u64, mut address: Address) {
        let weak = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let mut ticks = tokio::time::interval(WATCH_EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                let Some(link) = weak.upgrade().map(Link) else { return };
                if !link.state().is_open(number) {
                    return;
                }
                let Some(opened) = link.0.opener.open_if_moved(&address).await else { continue };
                let mut state = link.state();
                if !state.is_open(number) {
                    return;
                }
                number = state.put(opened.connection).number;
                address = opened.address;
            }
        });
    }

    /// Ends a connection, if it still is the one in use.
    fn close(&self, number: u64, why: &StoreError) {
        let mut state = self.state();
        if state.is_open(number) {
            state.rest(why);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether this connection is the one in use.
    fn is_open(&self, number: u64) -> bool {
        matches!(&self.phase, Phase::Open(open) if open.number == number)
    }

    /// A new connection.
    fn put(&mut self, connection: MultiplexedConnection) -> Open {
        self.number = self.number.wrapping_add(1);
        let open = Open { connection, number: self.number, since: Instant::now() };
        self.phase = Phase::Open(open.clone());
        open
    }

    /// No connection, and no attempt for a while. What is said meanwhile is why; only that there
    /// was no answer in time is not true of a call that is never sent.
    fn rest(&mut self, why: &StoreError) {
        let until = Instant::now().checked_add(self.jitter.next());
        let why = match why {
            StoreError::Timeout => unreachable("the last connection did not answer"),
            other => other.clone(),
        };
        self.phase = Phase::Closed { until, why };
    }
}

pub(super) fn unreachable(why: &str) -> StoreError {
    StoreError::Unreachable(why.to_owned())
}
