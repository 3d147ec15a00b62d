//! The whole of it around one decision.

use bytes::Bytes;

use super::{Begun, Call, Idempotency, Refusal, Remembered, Scope};

/// What becomes of a call. The [module](super) has an example.
#[derive(Debug)]
pub enum Once<E> {
    /// It is answered.
    Reply {
        /// The body of the reply.
        reply: Bytes,
        /// Who remembers it.
        scope: Scope,
        /// It is that of an earlier call.
        replayed: bool,
    },
    /// It was not decided, for a reason that has nothing to do with its key. It may be sent again.
    Problem(E, Scope),
    /// It is not answered, because of its key.
    Refused(Refusal, Scope),
}

impl Idempotency {
    /// Decides a call, unless that was done before. What is decided is remembered in the same
    /// breath, before anything can be dropped. The [module](super) has an example.
    ///
    /// # Cancel safety
    /// Whoever drops it before the decision leaves nothing behind; whoever drops it afterwards
    /// leaves the reply to the next one. It must not be dropped during a decision that spends
    /// something all the same: the door runs those in a task of their own.
    pub async fn once<E>(
        &self,
        call: &Call<'_>,
        decide: impl Future<Output = Result<Bytes, E>>,
    ) -> Once<E> {
        let claim = match self.begin(call).await {
            Begun::First(claim) => claim,
            Begun::Again(Remembered { reply, scope }) => {
                return Once::Reply { reply, scope, replayed: true };
            }
            Begun::Refused(why, scope) => return Once::Refused(why, scope),
        };
        match decide.await {
            Ok(reply) => {
                let scope = claim.settle(&reply).await;
                Once::Reply { reply, scope, replayed: false }
            }
            Err(problem) => Once::Problem(problem, claim.scope()),
        }
    }
}
