//! One request from its arrival to its reply.
//!
//! The order is the contract's: route, body, schema, key, the workspace's own limit, operation. So
//! a bad body is reported before a bad key, and nothing is counted unless all of it is in order.
//! The key is looked at earlier, silently, so that strangers do not wait where callers with a key
//! do.

mod decide;
mod look;
mod noted;
mod once;
mod overrides;
mod route;
mod throttle;

use std::panic::resume_unwind;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use bytes::Bytes;
use hyper::Request;
use hyper::body::Body;
use hyper::http::request::Parts;
use tidegate::{Consistency, Limiter, Outage};

use crate::auth::{Caller, LastKey};
use crate::body::{self, Bodies, Sender};
use crate::control::{Control, Key};
use crate::decode::{ControlBody, LimitBody, MultiLimitBody};
use crate::idempotency::{IDEMPOTENCY_KEY, Idempotency, IdempotencyCounts, Scope};
use crate::live::Live;
use crate::metrics::{Settings, Workspaces};
use crate::problem::Problem;
use crate::reply::{self, Reply};
use crate::request_id::RequestIds;
pub(crate) use noted::{Class, Noted};
use route::{Operation, Route, route};
use throttle::Throttled;
use tokio::sync::Semaphore;
use tokio::task::JoinError;
use tokio::time::Instant;

#[cfg(test)]
pub(crate) mod tests;

/// Answers requests. Only [`serve`](crate::serve::serve) makes one, so it has no example of its
/// own.
#[derive(Debug)]
pub struct Door {
    limiter: Arc<Limiter>,
    /// Whether the limiter shares its limits; then every answer says how well it knew them.
    in_region: bool,
    control: Arc<Control>,
    idempotency: Idempotency,
    request_ids: RequestIds,
    /// What can be another from one request to the next.
    live: Arc<Live>,
    bodies: Bodies,
    /// What calls that no client can end may hold, in KiB: all of it is back when they have ended.
    apart: Arc<Semaphore>,
    noted: Noted,
}

impl AsRef<Limiter> for Door {
    fn as_ref(&self) -> &Limiter {
        &self.limiter
    }
}

/// What the bodies of calls that no client can end may come to together: as much as all large
/// bodies may.
const APART_KIB_MAX: u32 = 128 << 10;

/// A request that has arrived. What it asks is not known yet, nor whether it may.
struct Incoming<'a> {
    head: &'a Parts,
    seen: Seen,
    request_id: &'a str,
    told: &'a Told,
}

/// Who was seen to call.
enum Seen {
    /// Just now: nothing was waited for since.
    Now(Caller),
    /// Somebody with this key, before something was waited for. Whether that still holds is looked
    /// at again.
    Before(Arc<Key>),
    /// Nobody, or it was not looked.
    Nobody,
}

/// A connection, as far as it says who calls.
pub(crate) struct Line<'a, F> {
    pub(crate) last_key: &'a LastKey,
    /// Called as soon as it is seen that a request has a valid key.
    pub(crate) note_key: F,
    /// When the request began.
    pub(crate) begun: Instant,
}

/// A call by someone who may call.
struct Call<'a> {
    caller: Caller,
    request_id: &'a str,
    told: &'a Told,
}

/// What every reply to a request says in its head, whatever comes of it.
#[derive(Default)]
struct Told {
    throttled: OnceLock<Throttled>,
    /// How far the promise goes that the call is charged once, and whether it was before.
    once: OnceLock<(Scope, bool)>,
}

impl Told {
    fn once(&self, scope: Scope, replayed: bool) {
        // It is said once for each request.
        let _ = self.once.set((scope, replayed));
    }

    /// The same was said in a task of its own.
    fn take(&self, said: Self) {
        if let Some(throttled) = said.throttled.into_inner() {
            let _ = self.throttled.set(throttled);
        }
        if let Some((scope, replayed)) = said.once.into_inner() {
            self.once(scope, replayed);
        }
    }

    fn mark(&self, reply: &mut Reply) {
        if let Some(throttled) = self.throttled.get() {
            throttled.mark(reply.headers_mut());
        }
        if let Some((scope, replayed)) = self.once.get() {
            scope.mark(reply.headers_mut(), *replayed);
        }
    }
}

/// What holds for namespaces that do not say it themselves.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Defaults {
    /// What their admissions are worth.
    pub(crate) consistency: Consistency,
    /// What becomes of their requests when the region cannot be asked.
    pub(crate) outage: Outage,
}

impl Door {
    /// A door to `limiter` for those whom `control` knows.
    #[must_use]
    pub(crate) fn new(
        limiter: Arc<Limiter>,
        control: Arc<Control>,
        idempotency: Idempotency,
        request_ids: RequestIds,
        live: Arc<Live>,
    ) -> Self {
        let in_region = limiter.region_counts().is_some();
        let (bodies, noted) = (Bodies::new(), Noted::new());
        let apart = Arc::new(Semaphore::new(APART_KIB_MAX as usize));
        Self { limiter, in_region, control, idempotency, request_ids, live, bodies, apart, noted }
    }

    /// The same, that counts the decisions of up to so many workspaces apart.
    pub(crate) fn counting_workspaces(mut self, most: Option<usize>) -> Self {
        self.noted.workspaces = most.map(Workspaces::new);
        self
    }

    /// What was noted of requests.
    pub(crate) const fn noted(&self) -> &Noted {
        &self.noted
    }

    /// What the door leads to. There is no example: see the [type](Self).
    #[must_use]
    pub fn limiter(&self) -> &Limiter {
        &self.limiter
    }

    /// What is known of keys, namespaces and overrides.
    pub(crate) fn settings(&self) -> Settings {
        self.control.settings()
    }

    /// What happened to calls that may be sent again.
    pub(crate) fn idempotency_counts(&self) -> IdempotencyCounts {
        self.idempotency.counts()
    }

    /// Takes one bounded step of forgetting calls that were answered long ago.
    pub(crate) fn sweep(&self) {
        self.idempotency.sweep();
    }

    /// How many requests had no answer, because something was wrong with them. There is no example:
    /// see the [type](Self).
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.noted.refused().map(|(_, count)| count).sum()
    }

    /// Answers one request of nobody in particular.
    #[cfg(test)]
    pub(crate) async fn answer<B>(self: &Arc<Self>, request: Request<B>) -> Reply
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let (last_key, begun) = (&LastKey::default(), Instant::now());
        self.answer_over(request, Line { last_key, note_key: || {}, begun }).await
    }

    /// Answers one request that came over this line.
    pub(crate) async fn answer_over<B>(
        self: &Arc<Self>,
        request: Request<B>,
        line: Line<'_, impl FnOnce()>,
    ) -> Reply
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let request_id = self.request_ids.next_id();
        let (head, body) = request.into_parts();
        let told = Told::default();
        let caller = self.caller(&head, line.last_key).ok();
        if caller.is_some() {
            (line.note_key)();
        }
        let seen = caller.map_or(Seen::Nobody, Seen::Now);
        let incoming = Incoming { head: &head, seen, request_id: &request_id, told: &told };
        let answered = self.handle(body, incoming).await;
        // A refusal is quick, or as slow as its client: it says nothing about decisions.
        let class = answered.as_ref().map_or(Class::Other, |_| Class::of(head.uri.path()));
        let mut reply = answered.unwrap_or_else(|problem| {
            self.noted.refuse(problem.status);
            reply::problem(&request_id, &problem, &head.headers)
        });
        told.mark(&mut reply);
        self.noted.took(class, line.begun.elapsed());
        reply
    }

    async fn handle<B>(
        self: &Arc<Self>,
        body: B,
        mut incoming: Incoming<'_>,
    ) -> Result<Reply, Problem>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let head = incoming.head;
        let operation = match route(&head.method, head.uri.path())? {
            Route::Document => return Ok(reply::document()),
            Route::Call(operation) => operation,
        };
        let key = match &incoming.seen {
            Seen::Now(caller) => Some(Arc::clone(&caller.key)),
            Seen::Before(_) | Seen::Nobody => None,
        };
        let sender = key.as_ref().map_or(Sender::Stranger, |key| Sender::Known(&key.workspace));
        let mut received = {
            // Gone before anything is decided: a state that has room for both is copied as a whole.
            let mut reading = pin!(self.bodies.read(body, &head.headers, sender));
            match body::look(reading.as_mut()).await {
                Poll::Ready(received) => received?,
                Poll::Pending => {
                    // Only the key is kept while the body is waited for. With the workspace all
                    // its settings of this moment would be.
                    incoming.seen = key.clone().map_or(Seen::Nobody, Seen::Before);
                    reading.await?
                }
            }
        };
        if self.in_region && is_sent_again(operation, head) {
            return Box::pin(self.operate_apart(operation, received.take(), incoming)).await;
        }
        self.operate(operation, &received, incoming).await
    }

    /// The same as [`operate`](Self::operate), in a task of its own: a client that leaves does not
    /// end it. What the region was asked to grant is charged though nobody waits, so the reply has
    /// to be there for whoever sends the call again. Every wait in it has a short deadline.
    async fn operate_apart(
        self: &Arc<Self>,
        operation: Operation,
        bytes: Bytes,
        incoming: Incoming<'_>,
    ) -> Result<Reply, Problem> {
        // What a client that left has sent is held without its place among the bodies.
        let kib = u32::try_from(bytes.len() / 1_024).unwrap_or(APART_KIB_MAX).saturating_add(1);
        let held = Arc::clone(&self.apart).try_acquire_many_owned(kib);
        let held = held.map_err(|_| Problem::too_busy())?;
        let (door, head) = (Arc::clone(self), incoming.head.clone());
        let request_id = incoming.request_id.to_owned();
        let task = tokio::spawn(async move {
            let told = Told::default();
            let (request_id, told_here) = (&request_id, &told);
            let seen = Seen::Nobody;
            let incoming = Incoming { head: &head, seen, request_id, told: told_here };
            let answered = door.operate(operation, &bytes, incoming).await;
            drop(held);
            (answered, told)
        });
        match task.await.map_err(JoinError::try_into_panic) {
            Ok((answered, told)) => {
                incoming.told.take(told);
                answered
            }
            Err(Ok(panic)) => resume_unwind(panic),
            // The process ends.
            Err(Err(_)) => Err(Problem::too_busy()),
        }
    }

    /// Waits until the calls that no client can end have ended.
    pub(crate) async fn apart_ended(&self) {
        // An error would mean that it is closed, which nobody does.
        let _ = self.apart.acquire_many(APART_KIB_MAX).await;
    }

    /// Everything after the last byte has arrived: what is asked, who asks, and the answer.
    ///
    /// What is seldom asked is in a box: the state of a request is copied when it begins, and has
    /// to be as large as the largest of all that may come of it.
    async fn operate<'a>(
        &self,
        operation: Operation,
        bytes: &'a [u8],
        incoming: Incoming<'a>,
    ) -> Result<Reply, Problem> {
        let not_json = |_| Problem::schema(operation.path(), Vec::new());
        let wrong = |errors| Problem::schema(operation.path(), errors);
        match operation {
            Operation::Limit => {
                let body = LimitBody::read(bytes).map_err(not_json)?;
                let item = body.parse().map_err(wrong)?;
                let asked = self.asked(operation, bytes, &incoming)?;
                let call = self.enter(incoming).await?;
                let namespace = self.admit_one(&call.caller, &item).await?;
                let deciding = self.limit(&call, &item, &namespace);
                match asked.key {
                    None => deciding.await.map(|(it, _)| reply::json(it)),
                    Some(_) => Box::pin(self.once(&call, asked, deciding)).await,
                }
            }
            Operation::MultiLimit => {
                let body = MultiLimitBody::read(bytes).map_err(not_json)?;
                let items = body.parse().map_err(wrong)?;
                let asked = self.asked(operation, bytes, &incoming)?;
                let call = self.enter(incoming).await?;
                let namespaces = self.admit_all(&call.caller, &items).await?;
                let deciding = Box::pin(self.multi_limit(&call, &items, &namespaces));
                match asked.key {
                    None => deciding.await.map(|(it, _)| reply::json(it)),
                    Some(_) => Box::pin(self.once(&call, asked, deciding)).await,
                }
            }
            Operation::Explain => {
                let body = LimitBody::read(bytes).map_err(not_json)?;
                let item = body.parse().map_err(wrong)?;
                self.explain(&self.enter(incoming).await?, &item)
            }
            control => {
                let body = ControlBody::read(bytes).map_err(not_json)?;
                Box::pin(self.operate_control(control, &body, incoming)).await
            }
        }
    }

    async fn operate_control(
        &self,
        operation: Operation,
        body: &ControlBody<'_>,
        incoming: Incoming<'_>,
    ) -> Result<Reply, Problem> {
        let wrong = |errors| Problem::schema(operation.path(), errors);
        match operation {
            Operation::SetOverride => {
                let setting = body.setting().map_err(wrong)?;
                self.set_override(&self.enter(incoming).await?, &setting).await
            }
            Operation::ListOverrides => {
                let listing = body.listing().map_err(wrong)?;
                self.list_overrides(&self.enter(incoming).await?, &listing).await
            }
            Operation::DeleteOverride => {
                let target = body.target().map_err(wrong)?;
                self.delete_override(&self.enter(incoming).await?, &target).await
            }
            Operation::Inspect => {
                let (target, window) = body.subject().map_err(wrong)?;
                self.inspect(&self.enter(incoming).await?, &target, window).await
            }
            _ => {
                let target = body.target().map_err(wrong)?;
                self.get_override(&self.enter(incoming).await?, &target).await
            }
        }
    }

    fn caller(&self, head: &Parts, last: &LastKey) -> Result<Caller, Problem> {
        Caller::of(&self.control.known(), &head.headers, last, || self.control.unix_ms())
    }

    /// Lets a caller in who may call.
    async fn enter<'a>(&self, incoming: Incoming<'a>) -> Result<Call<'a>, Problem> {
        let Incoming { head, seen, request_id, told } = incoming;
        let caller = match seen {
            Seen::Now(caller) => caller,
            Seen::Before(key) => {
                Caller::again(&self.control.known(), &key, || self.control.unix_ms())?
            }
            Seen::Nobody => self.caller(head, &LastKey::default())?,
        };
        let throttled = self.throttle(&caller).await;
        let is_exhausted = throttled.is_exhausted();
        // Of a workspace that may call as often as it likes there is nothing to say.
        if !matches!(throttled, Throttled::Free) {
            let _ = told.throttled.set(throttled);
        }
        if is_exhausted {
            return Err(Problem::workspace_rate_limited());
        }
        Ok(Call { caller, request_id, told })
    }
}

/// Whether it is a call that its client may send again, and that is then not charged again.
fn is_sent_again(operation: Operation, head: &Parts) -> bool {
    matches!(operation, Operation::Limit | Operation::MultiLimit)
        && head.headers.contains_key(IDEMPOTENCY_KEY)
}
