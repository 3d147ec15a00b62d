//! One call under way: what is still to be sent, and what came back.

use redis::{Pipeline, ServerError, ServerErrorKind, Value};
use tidegate_convergence::{Record, Reply, Shard, ShardCall, ShardReply, StoreError, Token};

use super::cluster::read_moved;
use super::config::Address;
use super::info::Info;
use super::script::{Answer, Common, RECORDS_MAX, Script, TOKEN_LIFE_MS, Tag, is_exact};

/// The records of one execution, each with its place in the call. Without any it asks only for the
/// token.
type Batch<'a> = Vec<(usize, &'a Record)>;

/// The progress of a call.
#[derive(Debug)]
pub(super) struct Work<'a> {
    script: &'a Script,
    call: &'a ShardCall,
    common: Common,
    /// What is to be sent.
    wanted: Vec<Batch<'a>>,
    replies: Vec<Option<Reply>>,
    token: Option<Token>,
    server: Option<u64>,
    refusal: Option<String>,
    load: bool,
}

/// What a round of answers asks us to do before the next one.
#[derive(Debug, Default)]
pub(super) struct Advice {
    /// Another node owns the shard.
    pub(super) moved: Option<Address>,
    /// We asked a replica.
    pub(super) replica: bool,
    /// The cluster does not serve the shard, or not here.
    pub(super) doubt: bool,
}

impl Advice {
    /// What an error asks for.
    pub(super) fn heed(&mut self, why: &ServerError) {
        match why.kind() {
            Some(ServerErrorKind::ReadOnly) => self.replica = true,
            Some(ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown) => self.doubt = true,
            Some(ServerErrorKind::Moved) => {
                self.doubt = true;
                self.moved = read_moved(why.details().unwrap_or_default());
            }
            _ => {}
        }
    }
}

/// Something that is sent in rounds: what was not executed is sent again.
pub(super) trait Rounds {
    /// Whether there is something to send.
    fn is_open(&self) -> bool;

    /// The commands of the next round.
    fn commands(&self) -> Pipeline;

    /// Takes the answers to [`Rounds::commands`].
    fn take(&mut self, values: &[Value]) -> Advice;
}

impl<'a> Work<'a> {
    pub(super) fn new(script: &'a Script, call: &'a ShardCall, shard: Shard) -> Self {
        // What cannot be counted exactly is refused here.
        let exact: Batch<'a> =
            call.records.iter().enumerate().filter(|(_, record)| is_exact(record)).collect();
        let mut wanted: Vec<_> = exact.chunks(RECORDS_MAX).map(<[_]>::to_vec).collect();
        if wanted.is_empty() {
            wanted.push(Batch::new());
        }
        let (proposal, renew) = (call.proposal, call.identify);
        let common =
            Common { tag: Tag::Shard(shard), proposal, token_life_ms: TOKEN_LIFE_MS, renew };
        let replies = vec![None; call.records.len()];
        let (token, server, refusal) = (None, None, None);
        Self { script, call, common, wanted, replies, token, server, refusal, load: false }
    }

    /// Whether the server is still to be asked who it is.
    const fn must_identify(&self) -> bool {
        self.call.identify && self.server.is_none()
    }

    fn take_batch(&mut self, batch: Batch<'a>, value: &Value, advice: &mut Advice) {
        if let Value::ServerError(why) = value {
            self.take_error(why, advice);
            match why.kind() {
                Some(ServerErrorKind::NoScript) => {
                    self.load = true;
                    self.wanted.push(batch);
                }
                Some(ServerErrorKind::Moved) => self.wanted.push(batch),
                _ => {}
            }
            return;
        }
        let answer = Answer::read(value).filter(|answer| answer.records.len() == batch.len());
        let Some(answer) = answer else {
            return self.refuse("the script gave a strange answer".to_owned());
        };
        // A shard that refused all it was sent did not answer. Of several tokens the last: it
        // names what the shard remembers now.
        if batch.is_empty() || answer.records.iter().any(Result::is_ok) {
            self.token = Some(answer.token);
        }
        for ((index, record), held) in batch.into_iter().zip(answer.records) {
            match held {
                Ok(held) => {
                    if let Some(reply) = self.replies.get_mut(index) {
                        *reply = Some(held.reply(record));
                    }
                }
                Err(why) => self.take_error(&why, advice),
            }
        }
    }

    /// An error, of an execution or of one of its records.
    fn take_error(&mut self, why: &ServerError, advice: &mut Advice) {
        advice.heed(why);
        self.refuse(why.to_string());
    }

    /// Remembers the first reason.
    fn refuse(&mut self, why: String) {
        self.refusal.get_or_insert(why);
    }

    /// The reply to the call: an error if nothing at all came back, or not what was asked.
    pub(super) fn finish(self) -> Result<ShardReply, StoreError> {
        let refusal = || {
            let why = self.refusal.clone().unwrap_or_else(|| "there was no answer".to_owned());
            StoreError::Refused(why)
        };
        let token = self.token.ok_or_else(refusal)?;
        if self.must_identify() {
            return Err(refusal());
        }
        let (present, asked) = (None, None);
        Ok(ShardReply { token, server: self.server, present, replies: self.replies, asked })
    }
}

impl Rounds for Work<'_> {
    fn is_open(&self) -> bool {
        !self.wanted.is_empty()
    }

    fn commands(&self) -> Pipeline {
        let mut commands = Pipeline::with_capacity(self.wanted.len().saturating_add(3));
        if self.load {
            commands.add_command(Script::load());
        }
        if self.must_identify() {
            commands.cmd("INFO").arg("server").cmd("INFO").arg("replication");
        }
        for batch in &self.wanted {
            let records = batch.iter().map(|(_, record)| *record);
            commands.add_command(self.script.run(&self.common, records));
        }
        commands
    }

    fn take(&mut self, values: &[Value]) -> Advice {
        let mut advice = Advice::default();
        let mut values = values.iter();
        if self.load
            && let Some(Value::ServerError(why)) = values.next()
        {
            // Without the script the rest will say NOSCRIPT again; this says why.
            self.refuse(why.to_string());
        }
        self.load = false;
        if self.must_identify() {
            let parts: Option<Vec<_>> = values.by_ref().take(2).map(Info::read).collect();
            let info = parts.map(Info::join);
            advice.replica = info.as_ref().is_some_and(Info::is_replica);
            self.server = info.as_ref().and_then(Info::server);
            if self.server.is_none() {
                self.refuse("the server does not say who it is".to_owned());
            }
        }
        for batch in std::mem::take(&mut self.wanted) {
            self.take_batch(batch, values.next().unwrap_or(&Value::Nil), &mut advice);
        }
        if advice.moved.is_some() {
            // That was the number of the node that no longer owns the shard.
            self.server = None;
        }
        advice
    }
}
