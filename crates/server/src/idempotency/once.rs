//! The whole of it around one decision.

use bytes::Bytes;

use super::{Begun, Call, Idempotency, Refusal, Remembered, Scope};

/// How long a reply holds. The [module](super) has an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lasts {
    /// As long as replies do.
    Long,
    /// No longer than a claim: something may have been charged, but the call should soon be decided
    /// anew. Only this process remembers it.
    Briefly,
    /// Nothing was charged: whoever sends the call again has it decided anew.
    Not,
}

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
    /// breath, for as long as it lasts, before anything can be dropped. The [module](super) has an
    /// example.
    ///
    /// # Cancel safety
    /// Whoever drops it before the decision leaves nothing behind; whoever drops it afterwards
    /// leaves the reply to the next one. It must not be dropped during a decision that spends
    /// something all the same: the door runs those in a task of their own.
    pub async fn once<E>(
        &self,
        call: &Call<'_>,
        decide: impl Future<Output = Result<(Bytes, Lasts), E>>,
    ) -> Once<E> {
        let claim = match self.begin(call).await {
            Begun::First(claim) => claim,
            Begun::Again(Remembered { reply, scope }) => {
                return Once::Reply { reply, scope, replayed: true };
            }
            Begun::Refused(why, scope) => return Once::Refused(why, scope),
        };
        match decide.await {
            Ok((reply, lasts)) => {
                let scope = match lasts {
                    Lasts::Long => claim.settle(&reply).await,
                    Lasts::Briefly => claim.settle_briefly(&reply),
                    Lasts::Not => {
                        drop(claim);
                        // No region remembers it.
                        Scope::Node
                    }
                };
                Once::Reply { reply, scope, replayed: false }
            }
            Err(problem) => Once::Problem(problem, claim.scope()),
        }
    }
}
