//! A few connections, made when they are needed.
//!
//! Promises: a call that is dropped takes its connection along and frees its place at once; an
//! attempt to connect goes on without its caller, so that callers with little patience are not
//! the reason why there never is a connection; a connection that died while nobody used it costs
//! no error.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_convergence::GlobalError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout};

use super::session::{Opener, Session, Trouble};

/// How long a connection may take to be made. The server may be on another continent: TLS and the
/// log-in are several round trips.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
/// How long a call may take when its caller has no patience of its own. Longer than a statement may
/// take on the server, which then says why.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);
/// How long a connection may be unused: shorter than what routers remember, and servers.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// What is done with a connection.
pub(crate) trait Job: Sync {
    /// What it gives.
    type Output: Send;

    /// Does it.
    fn run<S: Session>(
        &self,
        session: &mut S,
    ) -> impl Future<Output = Result<Self::Output, Trouble>> + Send;
}

/// The connections of one store.
pub(crate) struct Pool<O: Opener>(Arc<Shared<O>>);

struct Shared<O: Opener> {
    opener: O,
    /// The one used last is the last.
    idle: Mutex<Vec<Idle<O::Session>>>,
    places: Arc<Semaphore>,
}

struct Idle<S> {
    session: S,
    since: Instant,
}

/// A place among the connections, until the last of those who hold it is done.
type Place = Arc<OwnedSemaphorePermit>;

impl<O: Opener> Pool<O> {
    pub(crate) fn new(opener: O) -> Self {
        let places = Arc::new(Semaphore::new(O::SESSIONS_MAX));
        Self(Arc::new(Shared { opener, idle: Mutex::default(), places }))
    }

    /// Does a job.
    ///
    /// # Cancel safety
    /// When dropped, the job may or may not have been done. Nobody waits for it.
    pub(crate) async fn run<J: Job>(&self, job: &J) -> Result<J::Output, GlobalError> {
        match timeout(ANSWER_WITHIN, self.run_twice(job)).await {
            Ok(done) => done,
            Err(_) => Err(GlobalError::Timeout),
        }
    }

    async fn run_twice<J: Job>(&self, job: &J) -> Result<J::Output, GlobalError> {
        let place = Arc::clone(&self.0.places).acquire_owned().await;
        let place = Arc::new(place.map_err(|_| ending())?);
        if let Some(session) = self.0.pop() {
            match self.run_with(session, job).await {
                // It died while nobody used it, and so did the others.
                Err(Trouble::Lost(_)) => self.0.forget(),
                done => return done.map_err(Trouble::into_error),
            }
        }
        let session = self.open(place).await?;
        self.run_with(session, job).await.map_err(Trouble::into_error)
    }

    /// A session that is not kept is closed, so one that was dropped half-way harms nobody.
    async fn run_with<J: Job>(
        &self,
        mut session: O::Session,
        job: &J,
    ) -> Result<J::Output, Trouble> {
        let done = job.run(&mut session).await;
        if !matches!(done, Err(Trouble::Lost(_) | Trouble::Unsure(_))) {
            self.0.keep(session);
        }
        done
    }

    async fn open(&self, place: Place) -> Result<O::Session, GlobalError> {
        let (sender, receiver) = oneshot::channel();
        let shared = Arc::clone(&self.0);
        tokio::spawn(async move {
            let opened = match timeout(CONNECT_WITHIN, shared.opener.open()).await {
                Ok(opened) => opened.map_err(Trouble::into_error),
                Err(_) => Err(GlobalError::Unreachable("no connection in time".to_owned())),
            };
            if let Err(Ok(unwanted)) = sender.send(opened) {
                shared.keep(unwanted);
            }
            drop(place);
        });
        receiver.await.unwrap_or_else(|_| Err(ending()))
    }
}

impl<O: Opener> Shared<O> {
    fn idle(&self) -> MutexGuard<'_, Vec<Idle<O::Session>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The one used last: the others may get old.
    fn pop(&self) -> Option<O::Session> {
        let mut idle = self.idle();
        let fresh = |one: &Idle<_>| one.since.elapsed() < IDLE_MAX;
        let old = idle.iter().position(fresh).unwrap_or(idle.len());
        let old: Vec<_> = idle.drain(..old).collect();
        let found = idle.pop();
        drop(idle);
        for one in old {
            tokio::spawn(timeout(CONNECT_WITHIN, one.session.close()));
        }
        found.map(|one| one.session)
    }

    fn keep(&self, session: O::Session) {
        self.idle().push(Idle { session, since: Instant::now() });
    }

    fn forget(&self) {
        self.idle().clear();
    }
}

impl<O: Opener> fmt::Debug for Pool<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pool").field(&self.0.opener).finish_non_exhaustive()
    }
}

fn ending() -> GlobalError {
    GlobalError::Unreachable("the runtime is ending".to_owned())
}
