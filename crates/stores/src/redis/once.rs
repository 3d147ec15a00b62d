//! Calls that are to be answered once: how they become a command, and an answer a word.

use redis::{Cmd, Value};
use tidegate_convergence::{Shard, StoreError};
use tidegate_limiter::Digest;

use super::RedisStore;
use super::execution::Execution;
use super::script::{self, LIFE_MAX_MS, Tag, hex};

/// The script itself. Its head says what it takes and returns.
const ONCE: &str = include_str!("once.lua");

/// A call that is to be answered once, and who wants to decide it.
///
/// ```
/// use tidegate_limiter::Digest;
/// use tidegate_stores::redis::{Claimed, OnceCall, RedisStore};
///
/// # let server = tidegate_lab::RedisServer::start()?;
/// # let url = server.url();
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let store = RedisStore::new(url.parse()?, 42)?;
/// let name = Digest::from_bytes([7; 16]);
/// let call = OnceCall { name, fingerprint: [1; 16], claimant: 1 };
/// assert_eq!(store.claim_call(&call, 60_000).await?, Claimed::First);
/// let again = OnceCall { claimant: 2, ..call };
/// assert_eq!(store.claim_call(&again, 60_000).await?, Claimed::Pending);
///
/// // Who cannot decide it leaves it to the other, who keeps what he answered.
/// assert!(store.release_call(&call).await?);
/// assert_eq!(store.claim_call(&again, 60_000).await?, Claimed::First);
/// assert!(store.settle_call(&again, b"yes", 60_000).await?);
/// assert_eq!(store.claim_call(&call, 60_000).await?, Claimed::Done(b"yes".to_vec()));
///
/// let other = OnceCall { fingerprint: [2; 16], claimant: 3, ..call };
/// assert_eq!(store.claim_call(&other, 60_000).await?, Claimed::Other);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnceCall {
    /// The name of the call: a digest, so that no text of a user gets into the store.
    pub name: Digest,
    /// What the call says: of two calls with one name, the second is the first once more if the
    /// fingerprints are the same.
    pub fingerprint: [u8; 16],
    /// Who wants to decide it. Never used before.
    pub claimant: u128,
}

/// What the store says to someone who wants to decide a call. [`OnceCall`] has an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// Nobody has: it is theirs.
    First,
    /// Someone else is deciding it.
    Pending,
    /// It was decided; this is the reply, as it was given to [`RedisStore::settle_call`].
    Done(Vec<u8>),
    /// The name belongs to a call that says something else.
    Other,
}

/// The script.
#[derive(Debug)]
pub(super) struct OnceScript {
    sha1: String,
}

impl OnceScript {
    pub(super) fn new() -> Self {
        Self { sha1: redis::Script::new(ONCE).get_hash().to_owned() }
    }

    /// The command that makes a server know the script.
    fn load() -> Cmd {
        script::load(ONCE)
    }

    fn run(&self, verb: &str, key: &str, call: &OnceCall, life_ms: u64) -> Cmd {
        let mut command = redis::cmd("EVALSHA");
        command.arg(&self.sha1).arg(1).arg(key).arg(verb).arg(&call.fingerprint);
        // A life of 0 would delete what was just written; Redis refuses one beyond its clock.
        command.arg(&call.claimant.to_be_bytes()).arg(life_ms.clamp(1, LIFE_MAX_MS));
        command
    }
}

impl RedisStore {
    /// Asks to decide a call. The name is kept for that long: whoever dies meanwhile blocks nobody
    /// for longer. [`OnceCall`] has an example.
    ///
    /// # Errors
    /// When the store did not answer: the claim may or may not have been made.
    pub async fn claim_call(&self, call: &OnceCall, life_ms: u64) -> Result<Claimed, StoreError> {
        let command = self.once.run("claim", &self.once_key(call), call, life_ms);
        self.execute_once(call, command, read_claimed).await
    }

    /// Keeps the reply for that long. Says whether it is this one that is kept: it is not if there
    /// is one already, or if the name has come to belong to another call. [`OnceCall`] has an
    /// example.
    ///
    /// # Errors
    /// When the store did not answer: the reply may or may not be kept.
    pub async fn settle_call(
        &self,
        call: &OnceCall,
        reply: &[u8],
        life_ms: u64,
    ) -> Result<bool, StoreError> {
        let mut command = self.once.run("settle", &self.once_key(call), call, life_ms);
        command.arg(reply);
        self.execute_once(call, command, read_done).await
    }

    /// Gives up a claim, so that another may decide. Says whether there was one. [`OnceCall`] has
    /// an example.
    ///
    /// # Errors
    /// When the store did not answer: the claim may last until its life is over.
    pub async fn release_call(&self, call: &OnceCall) -> Result<bool, StoreError> {
        let command = self.once.run("release", &self.once_key(call), call, 1);
        self.execute_once(call, command, read_done).await
    }

    async fn execute_once<T: Send>(
        &self,
        call: &OnceCall,
        command: Cmd,
        read: fn(&Value) -> Option<T>,
    ) -> Result<T, StoreError> {
        let mut execution = Execution::new(command, OnceScript::load, read);
        self.run(self.once_tag(call), &mut execution).await?;
        execution.finish()
    }

    /// As a subject of that name: in one slot of a cluster.
    fn once_tag(&self, call: &OnceCall) -> Tag {
        Tag::Shard(Shard::of(call.name, self.shard_count()))
    }

    fn once_key(&self, call: &OnceCall) -> String {
        let start = self.script.start(self.once_tag(call));
        format!("{start}once:{}", hex(call.name.as_bytes()))
    }
}

fn read_claimed(value: &Value) -> Option<Claimed> {
    let Value::Array(items) = value else { return None };
    match items.as_slice() {
        [Value::Int(0)] => Some(Claimed::First),
        [Value::Int(1)] => Some(Claimed::Pending),
        [Value::Int(2), Value::BulkString(reply)] => Some(Claimed::Done(reply.clone())),
        [Value::Int(3)] => Some(Claimed::Other),
        _ => None,
    }
}

fn read_done(value: &Value) -> Option<bool> {
    let Value::Array(items) = value else { return None };
    match items.as_slice() {
        [Value::Int(done @ (0 | 1))] => Some(*done == 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_read_whole_or_not_at_all() {
        let array = |items: &[Value]| Value::Array(items.to_vec());
        let reply = Value::BulkString(b"ok".to_vec());
        for (items, claimed) in [
            (&[Value::Int(0)][..], Some(Claimed::First)),
            (&[Value::Int(1)], Some(Claimed::Pending)),
            (&[Value::Int(2), reply.clone()], Some(Claimed::Done(b"ok".to_vec()))),
            (&[Value::Int(3)], Some(Claimed::Other)),
            (&[Value::Int(2)], None),
            (&[Value::Int(4)], None),
            (&[Value::Int(0), reply.clone()], None),
            (&[], None),
        ] {
            assert_eq!(read_claimed(&array(items)), claimed, "{items:?}");
        }
        assert_eq!(read_claimed(&Value::Nil), None);
        assert_eq!(read_done(&array(&[Value::Int(1)])), Some(true));
        assert_eq!(read_done(&array(&[Value::Int(0)])), Some(false));
        for wrong in [Value::Int(1), array(&[]), array(&[Value::Int(2)]), array(&[reply])] {
            assert_eq!(read_done(&wrong), None, "{wrong:?}");
        }
    }
}
