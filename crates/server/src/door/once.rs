//! Calls that may be sent again: `Idempotency-Key`.

use bytes::Bytes;

use super::route::Operation;
use super::{Call, Door};
use crate::idempotency::{self, IdempotencyKey, Once};
use crate::problem::Problem;
use crate::reply::{self, Reply};

impl Door {
    /// Decides a call, unless it has a key and was decided before.
    pub(super) async fn once(
        &self,
        call: &Call<'_>,
        operation: Operation,
        body: &[u8],
        decide: impl Future<Output = Result<Bytes, Problem>>,
    ) -> Result<Reply, Problem> {
        let told = |scope, replayed| {
            // Nobody else sets it.
            let _ = call.told.once.set((scope, replayed));
        };
        let key = match IdempotencyKey::of(&call.head.headers) {
            Ok(None) => return decide.await.map(reply::json),
            Ok(Some(key)) => key,
            Err(why) => {
                told(self.idempotency.scope(), false);
                return Err(Problem::not_once(why));
            }
        };
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
