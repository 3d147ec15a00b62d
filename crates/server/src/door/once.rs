//! Calls that may be sent again: `Idempotency-Key`.

use bytes::Bytes;

use super::route::Operation;
use super::{Call, Door, Incoming};
use crate::idempotency::{self, IdempotencyKey, Lasts, Once};
use crate::problem::Problem;
use crate::reply::{self, Reply};

/// What is asked, and what the caller calls it.
pub(super) struct Asked<'a> {
    operation: Operation,
    body: &'a [u8],
    pub(super) key: Option<IdempotencyKey<'a>>,
}

impl Door {
    /// Reads what a call is called, before anything else is made of it: a key that is none is like
    /// a body that is none.
    pub(super) fn asked<'a>(
        &self,
        operation: Operation,
        body: &'a [u8],
        incoming: &Incoming<'a>,
    ) -> Result<Asked<'a>, Problem> {
        let key = IdempotencyKey::of(&incoming.head.headers).map_err(|why| {
            incoming.told.once(self.idempotency.scope(), false);
            Problem::not_once(why)
        })?;
        Ok(Asked { operation, body, key })
    }

    /// Decides a call, unless it has a key and was decided before.
    pub(super) async fn once(
        &self,
        call: &Call<'_>,
        asked: Asked<'_>,
        decide: impl Future<Output = Result<(Bytes, Lasts), Problem>>,
    ) -> Result<Reply, Problem> {
        let told = |scope, replayed| call.told.once(scope, replayed);
        let Asked { operation, body, key } = asked;
        let Some(key) = key else { return decide.await.map(|(it, _)| reply::json(it)) };
        let workspace = &call.caller.workspace.id;
        let asked = idempotency::Call { workspace, key, operation: operation.path(), body };
        match self.idempotency.once(&asked, decide).await {
            Once::Reply { reply, scope, replayed } => {
                told(scope, replayed);
                Ok(reply::json(reply))
            }
            Once::Problem(problem, scope) => {
                told(scope, false);
                Err(problem)
            }
            Once::Refused(why, scope) => {
                told(scope, false);
                Err(Problem::not_once(why))
            }
        }
    }
}
